//! The settings of a gateway, and which servers a client is offered.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use switchboard::ServerName;
use switchboard::config::GatewayConfig;
use switchboard::reload::PendingChange;

use crate::approvals::{Approvals, DenyUnasked};
use crate::cluster::{Alone, Cluster};
use crate::command_words::{CommandWords, plain_command};
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
    /// How long the tools of a server that is down stay listed.
    pub lost_server_grace: Duration,
    /// The requests in flight at servers.
    pub running: Arc<RunningRequests>,
    /// Seals and claims what clients store for the gateway.
    pub cluster: Arc<dyn Cluster>,
    /// Counts messages that wait to be written to clients.
    pub outbound: Arc<OutboundMeter>,
    /// Whether the first request other than `server/discover` starts the servers, because the host was
    /// made without starting them: some clients start a program twice, once only to probe it.
    pub starts_on_request: bool,
    /// Words for clients: how a person reviews a change that waits.
    pub review_words: Option<ReviewWords>,
    /// Words a command of the program for a person.
    pub command_words: CommandWords,
}

/// Words how a person reviews a change that waits, with commands of the program between backticks.
pub type ReviewWords = fn(&PendingChange) -> Option<String>;

impl Default for GatewaySettings {
    fn default() -> Self {
        Self {
            approvals: Arc::new(DenyUnasked::default()),
            recorder: Arc::new(NoRecorder),
            traces: Traces::default(),
            listing: ListingSettings::default(),
            lost_server_grace: GatewayConfig::default().lost_server_grace,
            running: Arc::default(),
            cluster: Arc::new(Alone::ephemeral().expect("the system's randomness is available")),
            outbound: Arc::default(),
            starts_on_request: false,
            review_words: None,
            command_words: plain_command,
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
    /// The name under which the host finds a tool that the client names so.
    pub(crate) fn tool_name<'a>(&self, name: Cow<'a, str>) -> Cow<'a, str> {
        match self {
            Self::All => name,
            Self::One(server) => format!("{server}/{name}").into(),
        }
    }

    /// Whether the client is offered this server.
    pub(crate) fn includes(&self, server: &ServerName) -> bool {
        match self {
            Self::All => true,
            Self::One(one) => one == server,
        }
    }
}
