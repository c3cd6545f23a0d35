//! The record of a request that the gateway makes to a server for another request of a client: for
//! `skills/list` and subscriptions, of which one may lead to several servers.

use switchboard::ServerName;

use crate::client_request::ClientRequest;
use crate::gateway_state::GatewayState;
use crate::recorder::{RequestOutcome, RequestRecord};

/// Records the request when it ends; as cancelled, if this is dropped earlier.
pub(crate) struct SentRequest<'a> {
    pub(crate) gateway: &'a GatewayState,
    /// The client's request.
    pub(crate) request: &'a ClientRequest,
    pub(crate) method: &'a str,
    pub(crate) server: ServerName,
    /// The address of the resource, if there is one.
    pub(crate) name: String,
    pub(crate) is_recorded: bool,
}

impl SentRequest<'_> {
    /// Records the server's answer; the error is the reason.
    pub(crate) fn ended(mut self, answer: Result<(), String>) {
        self.is_recorded = true;
        self.record(match &answer {
            Ok(()) => RequestOutcome::Answered,
            Err(reason) => RequestOutcome::Failed(reason),
        });
    }

    fn record(&self, outcome: RequestOutcome<'_>) {
        let settings = &self.gateway.settings;
        settings.recorder.sent_request_ended(&RequestRecord {
            number: settings.running.next_id(),
            principal: &self.request.client.principal,
            client_info: self.request.client_info.as_ref(),
            method: self.method,
            server: Some(&self.server),
            name: &self.name,
            arguments: None,
            approval: None,
            report: None,
            outcome,
            duration: self.request.arrived.elapsed(),
        });
    }
}

impl Drop for SentRequest<'_> {
    fn drop(&mut self) {
        if !self.is_recorded {
            self.record(RequestOutcome::Cancelled);
        }
    }
}
