//! The gateway: a host that is offered to clients. Edges connect clients to it.

use std::sync::Arc;
use std::time::Duration;

use switchboard::Host;

use crate::changes;
use crate::client::ClientKind;
use crate::client_session::ClientSession;
use crate::cluster::Cluster;
use crate::gateway_state::GatewayState;
use crate::outbound::{Outbound, OutboundMeter, OutboundQueue};
use crate::principal::Principal;
use crate::recorder::Recorder;
use crate::request_tasks::RequestTasks;
use crate::settings::{GatewaySettings, ServerSelection};

/// A host offered to clients. Clones share it.
#[derive(Debug, Clone)]
pub struct Gateway {
    state: Arc<GatewayState>,
    request_tasks: RequestTasks,
}

impl Gateway {
    /// Serves a host. Clients are notified of its changes from now on.
    pub fn new(host: Host, settings: GatewaySettings) -> Self {
        let state = Arc::new(GatewayState::new(host, settings));
        let task = tokio::spawn(changes::run(state.host.events(), Arc::downgrade(&state)));
        state.set_changes_task(task.abort_handle());
        Self {
            state,
            request_tasks: RequestTasks::default(),
        }
    }

    /// The host.
    pub fn host(&self) -> &Host {
        &self.state.host
    }

    /// Sets how long the tools of a server that is down stay listed, also of one that is down already.
    pub fn set_lost_server_grace(&self, grace: Duration) {
        self.state.lost_servers.set_grace(grace);
    }

    /// Words a command of the program.
    pub(crate) fn command(&self, words: &[&str]) -> String {
        (self.state.settings.command_words)(words)
    }

    /// Records each request.
    pub(crate) fn recorder(&self) -> &dyn Recorder {
        &*self.state.settings.recorder
    }

    /// Seals and claims what clients store for the gateway.
    pub(crate) fn cluster(&self) -> &dyn Cluster {
        &*self.state.settings.cluster
    }

    /// Counts messages to clients.
    pub(crate) fn outbound_meter(&self) -> &Arc<OutboundMeter> {
        &self.state.settings.outbound
    }

    /// A queue for a client of this gateway, or for one response to it.
    pub fn outbound(&self) -> (Outbound, OutboundQueue) {
        Outbound::metered(&self.state.settings.outbound)
    }

    /// Connects a client whose connection carries either era. `outbound` gets what belongs to no
    /// request.
    pub fn connect(
        &self,
        principal: Principal,
        selection: ServerSelection,
        outbound: Outbound,
    ) -> ClientSession {
        self.connect_as(ClientKind::Connection, principal, selection, outbound)
    }

    /// Connects a modern client for one request. It gets messages only through that request.
    pub(crate) fn connect_for_request(
        &self,
        principal: Principal,
        selection: ServerSelection,
    ) -> ClientSession {
        let outbound = Outbound::nowhere();
        self.connect_as(ClientKind::Request, principal, selection, outbound)
    }

    pub(crate) fn connect_as(
        &self,
        kind: ClientKind,
        principal: Principal,
        selection: ServerSelection,
        outbound: Outbound,
    ) -> ClientSession {
        let (state, request_tasks) = (self.state.clone(), self.request_tasks.clone());
        ClientSession::new(state, request_tasks, kind, principal, selection, outbound)
    }

    /// Ends the requests in flight at servers: each is answered with an error that gives the reason.
    pub(crate) fn end_requests(&self) {
        self.state.settings.running.end(None);
    }

    /// Ends every request of every client, and the suspended ones. Listeners get their result. The host
    /// keeps running.
    pub fn disconnect_all(&self) {
        for client in self.state.clients() {
            client.begin_draining();
            client.end();
        }
        self.state.suspended.end_all();
        self.state.tasks.end_all();
    }
}
