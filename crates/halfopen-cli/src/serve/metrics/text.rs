//! Writes figures as Prometheus reads them: in its own text form, or in that of OpenMetrics.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeMetric as _, MetricEncoder, NoLabelSet, prometheus_text, text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use super::{Family, Kind, PREFIX, Series, Value};

/// A text form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::serve) enum Form {
    /// What Prometheus has read since its beginning.
    Plain,
    /// The standard.
    OpenMetrics,
}

impl Form {
    /// Returns its media type.
    pub(in crate::serve) const fn media_type(self) -> &'static str {
        match self {
            Self::Plain => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Writes all families.
///
/// # Errors
///
/// If one cannot be written, which names and numbers of ours give no reason for.
pub(in crate::serve) fn write(families: Vec<Family>, form: Form) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix(PREFIX);
    registry.register_collector(Box::new(Families(families)));
    let mut written = String::new();
    match form {
        Form::Plain => prometheus_text::encode(&mut written, &registry)?,
        Form::OpenMetrics => text::encode(&mut written, &registry)?,
    }
    Ok(written)
}

#[derive(Debug)]
struct Families(Vec<Family>);

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for family in &self.0 {
            let kind = match family.kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
                Kind::Histogram => MetricType::Histogram,
            };
            let mut written = encoder.encode_descriptor(family.name, family.help, None, kind)?;
            family.series.iter().try_for_each(|series| one(&mut written, series))?;
        }
        Ok(())
    }
}

fn one(family: &mut MetricEncoder<'_>, series: &Series) -> fmt::Result {
    let labels: Vec<(&str, &str)> = series.labels.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let labels = labels.as_slice();
    match &series.value {
        Value::Count(count) => ConstCounter::new(*count).encode(family.encode_family(&labels)?),
        Value::Level(level) if labels.is_empty() => family.encode_gauge(level),
        Value::Level(level) => ConstGauge::new(*level).encode(family.encode_family(&labels)?),
        Value::Times(spread) => {
            let ends = spread.bounds.iter().copied().chain([f64::INFINITY]);
            let buckets: Vec<(f64, u64)> = ends.zip(spread.times.iter().copied()).collect();
            family.encode_family(&labels)?.encode_histogram::<NoLabelSet>(
                spread.seconds(),
                spread.all(),
                &buckets,
                None,
            )
        }
    }
}
