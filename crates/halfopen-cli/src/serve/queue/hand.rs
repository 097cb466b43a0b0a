//! Lends the gateway's hand to whoever drains once: sends stored requests without serving anybody.

use std::sync::Arc;

use clap::Parser;

use super::super::args::ServeArgs;
use super::super::gateway::Gateway;
use super::performer::GatewayPerformer;
use crate::args::Shared;
use crate::work::Performer;

/// Sends HTTP jobs by the rules, addresses and credentials of a policy.
#[derive(Debug)]
pub(crate) struct HttpHand {
    /// What the performer works with; it lives as long as this.
    _gateway: Arc<Gateway>,
    performer: Arc<dyn Performer>,
}

/// A gateway as it is where no flag is given.
#[derive(Debug, Parser)]
struct Plain {
    #[command(flatten)]
    args: ServeArgs,
}

impl HttpHand {
    /// Gets ready what sending needs.
    ///
    /// # Errors
    ///
    /// Why it cannot be done, as a gateway would say at its start.
    pub(crate) fn of(shared: &Shared) -> Result<Self, String> {
        let plain = Plain::try_parse_from(["halfopen"]).map_err(|error| error.to_string())?;
        let gateway = Gateway::start(shared, &plain.args).map_err(|error| error.to_string())?;
        let performer: Arc<dyn Performer> = Arc::new(GatewayPerformer::new(&gateway));
        Ok(Self { _gateway: gateway, performer })
    }

    /// Returns who sends.
    pub(crate) fn performer(&self) -> &Arc<dyn Performer> {
        &self.performer
    }
}
