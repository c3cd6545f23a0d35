//! The one place that dispatches on the era: what differs between a legacy and a modern session.

use std::sync::Arc;
use std::time::Duration;

use super::cache::CacheHint;
use super::in_flight::InFlightCall;
use super::legacy::{self, LegacySession};
use super::modern::{self, ModernSession};
use super::peer::Peer;
use super::request::{OutboundRequest, ParamField};
use super::roots::RootChanges;
use super::{Era, Hello, RequestResult};
use crate::gate::Permit;
use crate::wire::RawJson;

/// The half of a session that depends on its era.
pub(super) enum EraSession {
    Legacy(LegacySession),
    Modern(ModernSession),
}

impl EraSession {
    /// Starts what a session of this era runs beside requests.
    pub(super) fn start(peer: &Peer, hello: &Hello, roots: Option<RootChanges>) -> Self {
        match hello.era() {
            Era::Legacy => Self::Legacy(legacy::start(peer, hello, roots)),
            Era::Modern => Self::Modern(modern::start(peer, hello)),
        }
    }

    /// A request that belongs to no caller.
    pub(super) fn request<'a>(
        &self,
        method: &'a str,
        fields: &'a [ParamField<'a>],
    ) -> OutboundRequest<'a> {
        match self {
            Self::Legacy(_) => legacy::request(method, fields),
            Self::Modern(session) => modern::request(session.revision, method, fields),
        }
    }

    /// Calls the tool that the permit is for.
    pub(super) async fn call_tool(
        &self,
        peer: &Peer,
        permit: &Permit,
        call: &Arc<InFlightCall>,
    ) -> RequestResult {
        match self {
            Self::Legacy(session) => session.call_tool(peer, permit, call).await,
            Self::Modern(session) => session.call_tool(peer, permit, call).await,
        }
    }

    /// Sends a caller's request, with all that its era requires until the final result.
    pub(super) async fn send_request(
        &self,
        peer: &Peer,
        call: &Arc<InFlightCall>,
        request: &OutboundRequest<'_>,
    ) -> RequestResult {
        match self {
            Self::Legacy(session) => session.send_request(peer, call, request).await,
            Self::Modern(session) => session.send_request(peer, call, request).await,
        }
    }

    /// Whether results may be cached: only modern servers say for how long.
    pub(super) fn caches_results(&self) -> bool {
        matches!(self, Self::Modern(_))
    }

    /// Whether tool arguments are repeated in headers.
    pub(super) fn sends_headers(&self, peer: &Peer) -> bool {
        matches!(self, Self::Modern(_)) && peer.transport.properties().sends_headers
    }

    /// For how long a page of a list is fresh.
    pub(super) fn list_lifetime(&self, page: &RawJson) -> Duration {
        match self {
            Self::Legacy(_) => Duration::ZERO,
            Self::Modern(_) => CacheHint::of(page).ttl,
        }
    }

    /// Whether the server reports every change of a list that it declares to change. A modern one
    /// does so only while a stream stands.
    pub(super) fn reports_every_change(&self) -> bool {
        matches!(self, Self::Legacy(_))
    }

    /// Whether the server confirms the log level. A modern one gets it with each request.
    pub(super) fn confirms_log_level(&self) -> bool {
        matches!(self, Self::Legacy(_))
    }
}
