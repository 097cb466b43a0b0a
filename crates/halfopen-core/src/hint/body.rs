//! Reads the fields of structured bodies and events: `retry_after`, `retryDelay`, `resets_at`, `rate_limit_info`.
//!
//! Fields are known by name in any spelling (`retryAfterMs` is `retry_after_ms`), and the unit comes from the name
//! where it has one. Within one body, "retry" beats "reset" as it does among headers, and of several the longest
//! counts (a batch waits for its slowest part). Of several bodies the last that says something counts, except that a
//! window that refused keeps counting.

use super::headers::{Found, Headers, longest, retry_after, stated};
use super::number::{Decimal, Unit};
use super::resets::{Window, reset};
use super::{Reading, resets};
use serde_json::{Map, Value};

/// What structured bodies say.
#[derive(Debug, Default)]
pub(super) struct Body {
    /// What fields state.
    pub(super) found: Option<Found>,
    /// What reset headers inside the bodies state.
    pub(super) reset: Option<Found>,
    /// Windows that refused.
    pub(super) windows: Vec<Window>,
    /// A violated quota is one of a day, so that a delay of seconds is no answer.
    pub(super) per_day: bool,
    /// A code of Z.ai stands in them, whose dates are Beijing's.
    pub(super) from_zai: bool,
}

/// Bodies are nested at most this deep, strings that hold JSON included.
const DEPTH_MAX: usize = 24;

/// Reads all bodies, the oldest first.
pub(super) fn read(bodies: &[Value], reading: &Reading<'_>) -> Body {
    let mut all = Body::default();
    for body in bodies {
        let mut one = Walk {
            reading,
            retry: None,
            reset: None,
            header_reset: None,
            windows: Vec::new(),
            per_day: false,
            from_zai: false,
        };
        one.value(body, 0, false);
        all.per_day |= one.per_day;
        all.from_zai |= one.from_zai;
        let found = if one.per_day { one.reset } else { one.retry.or(one.reset) };
        all.found = found.or(all.found);
        all.reset = one.header_reset.or(all.reset);
        all.windows.extend(one.windows);
    }
    all
}

struct Walk<'r> {
    reading: &'r Reading<'r>,
    retry: Option<Found>,
    reset: Option<Found>,
    header_reset: Option<Found>,
    windows: Vec<Window>,
    per_day: bool,
    from_zai: bool,
}

/// What a field's name promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    /// When to try again.
    Retry(Unit),
    /// When a limiter refills.
    Reset(Unit),
}

impl Walk<'_> {
    fn value(&mut self, value: &Value, depth: usize, in_success: bool) {
        if depth > DEPTH_MAX {
            return;
        }
        match value {
            Value::Object(fields) => self.object(fields, depth, in_success),
            Value::Array(items) => {
                for item in items {
                    self.value(item, depth + 1, in_success);
                }
            }
            Value::String(text) => self.embedded(text, depth, in_success),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn object(&mut self, fields: &Map<String, Value>, depth: usize, in_success: bool) {
        // A part of a batch that went well has nothing to say.
        let status = fields.get("status").and_then(Value::as_u64);
        if in_success || depth > 0 && status.is_some_and(|status| (200..400).contains(&status)) {
            return;
        }
        // The client's own backoff.
        if fields.get("subtype").and_then(Value::as_str) == Some("api_retry") {
            if let Some(found) = fields.get("retry_delay_ms").and_then(|v| self.read_value(v, Unit::Ms))
                && found.wait >= super::prose::COPIED_MIN
            {
                self.add_retry(found);
            }
            return;
        }
        self.note_quota(fields);
        if let Some(info) = window_report(fields) {
            self.window(info);
            return;
        }
        self.throttle_status(fields);
        let remaining =
            fields.iter().find(|(key, _)| plain_key(key).ends_with("remaining")).and_then(|(_, v)| decimal(v));
        let something_left = remaining.is_some_and(|left| !left.is_zero());
        // A span beats an instant of the same object: it needs no clock.
        let mut resets = Vec::new();
        for (key, inner) in fields {
            let plain = plain_key(key);
            if self.reading.pack.ignores(key) || is_window_description(&plain) {
                continue;
            }
            if plain == "headers" || plain == "responseheaders" {
                self.headers(inner);
                continue;
            }
            if plain == "ratelimit" && fields.contains_key("errors") {
                self.retry = self.retry.into_iter().chain(self.read_value(inner, Unit::Seconds)).reduce(Found::longer);
            }
            match field(&plain).map(|field| self.with_unit(key, field)) {
                Some(Field::Retry(unit)) => {
                    if let Some(found) = self.read_value(inner, unit) {
                        self.add_retry(found);
                        continue;
                    }
                }
                Some(Field::Reset(unit)) if !something_left => {
                    if let Some(found) = self.read_value(inner, unit) {
                        resets.push(found);
                        continue;
                    }
                }
                Some(Field::Reset(_)) | None => {}
            }
            self.value(inner, depth + 1, false);
        }
        let spans = longest(resets.iter().copied().filter(|found| !found.absolute));
        self.reset = longest(self.reset.into_iter().chain(spans.or_else(|| longest(resets))));
    }

    fn add_retry(&mut self, found: Found) {
        self.retry = Some(self.retry.map_or(found, |before| before.longer(found)));
    }

    fn with_unit(&self, key: &str, field: Field) -> Field {
        match (self.reading.pack.unit_of(key), field) {
            (Some(unit), Field::Retry(_)) => Field::Retry(unit),
            (Some(unit), Field::Reset(_)) => Field::Reset(unit),
            (None, field) => field,
        }
    }

    fn read_value(&self, value: &Value, unit: Unit) -> Option<Found> {
        match value {
            Value::Number(number) => Some(self.reading.found(Decimal::parse(&number.to_string())?.stated(unit)?)),
            Value::String(text) => {
                let text = text.trim();
                if let Some(number) = Decimal::parse(text) {
                    return Some(self.reading.found(number.stated(unit)?));
                }
                if text.len() > 128 || !text.bytes().any(|b| b.is_ascii_digit()) {
                    return None;
                }
                stated(text, &self.reading.server).map(|stated| self.reading.found(stated))
            }
            // `{"seconds": 39, "nanos": 5}`: a protobuf Duration spelled out.
            Value::Object(parts) => {
                let whole = parts.get("seconds").and_then(decimal)?.nanos(1_000_000_000)?;
                let nanos = parts.get("nanos").and_then(decimal).and_then(|n| n.nanos(1)).unwrap_or(0);
                Some(Found { wait: super::number::span(whole.checked_add(nanos)?)?, absolute: false })
            }
            Value::Array(items) => {
                items.first().filter(|_| items.len() == 1).and_then(|item| self.read_value(item, unit))
            }
            Value::Null | Value::Bool(_) => None,
        }
    }

    /// A string that holds JSON, from its first bracket on.
    fn embedded(&mut self, text: &str, depth: usize, in_success: bool) {
        let Some(start) = text.find(['{', '[']).filter(|_| text.len() <= 64 * 1024) else { return };
        let mut stream = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>();
        if let Some(Ok(inner)) = stream.next()
            && matches!(inner, Value::Object(_) | Value::Array(_))
        {
            self.value(&inner, depth + 2, in_success);
        }
    }

    /// Headers inside a body (OpenRouter's `metadata.headers`, a batch's parts).
    fn headers(&mut self, value: &Value) {
        let Value::Object(fields) = value else { return };
        let owned: Vec<(String, String)> = fields
            .iter()
            .flat_map(|(name, value)| {
                let values = match value {
                    Value::Array(items) => items.iter().collect(),
                    single => vec![single],
                };
                values.into_iter().filter_map(|value| match value {
                    Value::String(text) => Some((name.clone(), text.clone())),
                    Value::Number(number) => Some((name.clone(), number.to_string())),
                    _ => None,
                })
            })
            .collect();
        let headers = Headers::new(owned.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        if let Some((found, _)) = retry_after(&headers, self.reading) {
            self.add_retry(found);
        }
        self.header_reset = longest(self.header_reset.into_iter().chain(reset(&headers, self.reading)));
        self.windows.extend(resets::windows(&headers, self.reading));
    }

    /// Google's quota violations: one of a day makes `retryDelay` a lie.
    fn note_quota(&mut self, fields: &Map<String, Value>) {
        for (key, value) in fields {
            let Some(text) = value.as_str() else { continue };
            match plain_key(key).as_str() {
                "quotaid" | "quotalimit" => self.per_day |= text.contains("PerDay"),
                "quotaunit" => self.per_day |= text.starts_with("1/d"),
                "code" => self.from_zai |= matches!(text, "1308" | "1309" | "1310"),
                _ => {}
            }
        }
    }

    /// `rate_limit_info`: the windows of a subscription, of which only those that refused count.
    fn window(&mut self, info: &Map<String, Value>) {
        if info.get("status").and_then(Value::as_str) != Some("rejected") {
            return;
        }
        let named =
            info.get("rateLimitType").or_else(|| info.get("rate_limit_type")).and_then(Value::as_str).unwrap_or("");
        let of_model = ["opus", "sonnet", "haiku"].iter().any(|model| named.contains(model));
        let at = |fields: &Map<String, Value>| {
            fields
                .iter()
                .find(|(key, _)| plain_key(key) == "resetsat")
                .and_then(|(_, v)| self.read_value(v, Unit::Seconds))
        };
        let mut found: Vec<Found> = at(info).into_iter().collect();
        let windows = info.iter().find(|(key, _)| plain_key(key) == "unifiedwindows").and_then(|(_, v)| v.as_object());
        for window in windows.into_iter().flat_map(Map::values).filter_map(Value::as_object) {
            let full = window.get("utilization").and_then(decimal).is_some_and(|used| used.at_least(1));
            if full || window.get("status").and_then(Value::as_str) == Some("rejected") {
                found.extend(at(window));
            }
        }
        self.windows.extend(longest(found).map(|found| Window { found, of_model }));
    }

    /// Shopify: what is asked for beyond what is there, at the rate at which it comes back.
    fn throttle_status(&mut self, fields: &Map<String, Value>) {
        let Some(cost) = fields.get("cost").and_then(Value::as_object) else { return };
        let Some(status) = cost.get("throttleStatus").and_then(Value::as_object) else { return };
        let figure =
            |from: &Map<String, Value>, key: &str| from.get(key).and_then(Value::as_f64).filter(|f| f.is_finite());
        let (Some(asked), Some(there), Some(rate)) =
            (figure(cost, "requestedQueryCost"), figure(status, "currentlyAvailable"), figure(status, "restoreRate"))
        else {
            return;
        };
        let seconds = (asked - there) / rate;
        if rate.is_sign_positive() && (0.0..1e9).contains(&seconds) {
            let wait = std::time::Duration::from_millis((seconds * 1000.0).ceil() as u64);
            self.add_retry(Found { wait, absolute: false });
        }
    }
}

/// Returns the report of a window that an object holds or is.
fn window_report(fields: &Map<String, Value>) -> Option<&Map<String, Value>> {
    let is_report = |map: &Map<String, Value>| map.contains_key("rateLimitType") || map.contains_key("rate_limit_type");
    if is_report(fields) {
        return Some(fields);
    }
    fields.get("rate_limit_info").or_else(|| fields.get("rateLimitInfo")).and_then(Value::as_object)
}

/// Returns a name without case, `_`, `-` and blanks.
fn plain_key(key: &str) -> String {
    key.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Names that describe a window, not a wait.
fn is_window_description(plain: &str) -> bool {
    ["window", "interval", "period"].iter().any(|end| plain.ends_with(end))
}

/// Returns what a field's name promises.
fn field(plain: &str) -> Option<Field> {
    let (name, unit) = split_unit(plain);
    Some(match name {
        "retryafter"
        | "retryin"
        | "retrydelay"
        | "retrywait"
        | "retryat"
        | "retryafterdelay"
        | "retryaftertime"
        | "retryaftertimestamp"
        | "xretryafter"
        | "waittime"
        | "waitfor"
        | "waituntil"
        | "wait"
        | "waitin"
        | "estimatedtime"
        | "estimatedwait"
        | "estimatedwaittime"
        | "quotaresetdelay"
        | "quotaresettimestamp"
        | "nextretryat"
        | "nextretryin"
        | "tryagainin"
        | "tryagainat"
        | "tryagainafter"
        | "cooldown"
        | "cooldownremaining"
        | "cooldownuntil"
        | "suggestedretryafter"
        | "minimumretrydelay"
        | "retryinfo"
        | "backoff"
        | "ratelimitretryafter"
        | "retryaftersuggested"
        | "recommendedretryafter"
        | "delayuntil"
        | "timetowait"
        | "estimatedtimetoregainaccess" => {
            Field::Retry(if name == "estimatedtimetoregainaccess" { Unit::Minutes } else { unit })
        }
        "reset"
        | "resets"
        | "resetsat"
        | "resetat"
        | "resetsin"
        | "resetin"
        | "resetafter"
        | "resetsafter"
        | "resettime"
        | "resetstime"
        | "resettimestamp"
        | "resetdate"
        | "resetson"
        | "ratelimitreset"
        | "ratelimitresettime"
        | "ratelimitresetat"
        | "ratelimitresetin"
        | "ratelimitresetafter"
        | "ratelimitresetson"
        | "ratelimitresets"
        | "ratelimitnext"
        | "limitreset"
        | "limitresetsat"
        | "limitresetat"
        | "quotareset"
        | "quotaresetat"
        | "quotaresettime"
        | "quotaresetin"
        | "quotaresetdate"
        | "usagereset"
        | "nextreset"
        | "nextresetat"
        | "nextresettime"
        | "nextaccesstime"
        | "nextaccess"
        | "nextavailable"
        | "nextavailableat"
        | "nextavailabletime"
        | "nextrequestat"
        | "nextallowedat"
        | "nextallowed"
        | "availableat"
        | "availablein"
        | "unblockat"
        | "unblockedat"
        | "blockeduntil"
        | "lockeduntil"
        | "lockoutuntil"
        | "throttleduntil"
        | "bannedtill"
        | "banneduntil"
        | "suspendeduntil"
        | "limiteduntil"
        | "unavailableuntil"
        | "untilreset"
        | "secondsuntilreset"
        | "timeuntilreset"
        | "timetoreset"
        | "secondstoreset"
        | "renewsat"
        | "refillsat"
        | "refillat"
        | "resumeat"
        | "resumesat"
        | "regainaccessat"
        | "accessrestoredat"
        | "maintenanceuntil"
        | "maintenanceend"
        | "blockexpires"
        | "blockexpiresat"
        | "limitexpires"
        | "limitexpiresat"
        | "xratelimitreset"
        | "windowreset"
        | "windowresetat"
        | "windowresetsat"
        | "resettimeutc"
        | "resetutc"
        | "resetatutc" => Field::Reset(unit),
        _ => return None,
    })
}

/// Splits the unit off a name: `retryafterms` is `retryafter` in milliseconds.
fn split_unit(plain: &str) -> (&str, Unit) {
    const ENDS: [(&str, Unit); 12] = [
        ("milliseconds", Unit::Ms),
        ("millis", Unit::Ms),
        ("msec", Unit::Ms),
        ("ms", Unit::Ms),
        ("seconds", Unit::Seconds),
        ("secs", Unit::Seconds),
        ("sec", Unit::Seconds),
        ("minutes", Unit::Minutes),
        ("mins", Unit::Minutes),
        ("hours", Unit::Hours),
        ("epoch", Unit::Seconds),
        ("s", Unit::Seconds),
    ];
    if plain.ends_with("resets") || plain == "nextaccess" || plain == "blockexpires" || plain == "limitexpires" {
        return (plain, Unit::Seconds);
    }
    for (end, unit) in ENDS {
        if let Some(name) = plain.strip_suffix(end)
            && !name.is_empty()
        {
            return (name, unit);
        }
    }
    (plain, Unit::Seconds)
}

fn decimal(value: &Value) -> Option<Decimal> {
    match value {
        Value::Number(number) => Decimal::parse(&number.to_string()),
        Value::String(text) => Decimal::parse(text.trim()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}
