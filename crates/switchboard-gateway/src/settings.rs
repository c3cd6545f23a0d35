//! The settings of a gateway, and which servers a client is offered.

use std::sync::Arc;

use switchboard::ServerName;

use crate::approvals::{Approvals, DenyUnasked};
use crate::cluster::{Alone, Cluster};
use crate::listing::ListingSettings;
use crate::outbound::OutboundMeter;
use crate::recorder::{NoRecorder, Recorder};
use crate::running::RunningRequests;
use crate::spans::Traces;

/// The settings of a gateway.
pub struct GatewaySettings {
    /// Decides on calls whose client cannot be asked.
    pub approvals: Arc<dyn Approvals>,
    /// Records each request.
    pub recorder: Arc<dyn Recorder>,
    /// Where the spans of requests go.
    pub traces: Traces,
    /// How tools are listed.
    pub listing: ListingSettings,
    /// The requests in flight at servers.
    pub running: Arc<RunningRequests>,
    /// Seals and claims what clients store for the gateway.
    pub cluster: Arc<dyn Cluster>,
    /// Counts messages that wait to be written to clients.
    pub outbound: Arc<OutboundMeter>,
}

impl Default for GatewaySettings {
    fn default() -> Self {
        Self {
            approvals: Arc::new(DenyUnasked),
            recorder: Arc::new(NoRecorder),
            traces: Traces::default(),
            listing: ListingSettings::default(),
            running: Arc::default(),
            cluster: Arc::new(Alone::ephemeral().expect("the system's randomness is available")),
            outbound: Arc::default(),
        }
    }
}

/// Which servers a client is offered.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ServerSelection {
    /// All of them, under the names of the configured style.
    All,
    /// One, under its own names.
    One(ServerName),
}

impl ServerSelection {
    /// Whether the client is offered this server.
    pub(crate) fn includes(&self, server: &ServerName) -> bool {
        match self {
            Self::All => true,
            Self::One(one) => one == server,
        }
    }
}
