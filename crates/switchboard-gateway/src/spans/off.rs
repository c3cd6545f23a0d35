//! Replaces `spans.rs` when the feature `otel` is off: the same functions, all empty.

use std::marker::PhantomData;
use std::net::SocketAddr;
use std::time::Duration;

use hyper::HeaderMap;
use switchboard::RawJson;
use switchboard::call::CallError;
use switchboard::caller::ForwardedParams;
use switchboard::revision::Revision;
use switchboard::server::ServerHandle;
use switchboard::wire::RequestId;

use crate::params::RequestParams;

pub use self::NoTraces as Traces;
pub(crate) use self::{
    NoArrival as Arrival, NoClientSpan as ClientSpan, NoRequestStart as RequestStart,
    NoServerSpan as ServerSpan, NoSpanOutcome as SpanOutcome,
};

/// Where spans go: nowhere, because the crate was built without the feature `otel`.
#[derive(Debug, Clone, Default)]
pub struct NoTraces(());

impl Traces {
    /// None, whatever the variables say.
    pub fn from_environment() -> Self {
        Self(())
    }

    /// There is nothing to send.
    pub async fn close(&self, _within: Duration) {}

    pub(crate) fn is_on(&self) -> bool {
        false
    }

    pub(crate) fn server_span<'a>(&self, _start: impl FnOnce() -> RequestStart<'a>) -> ServerSpan {
        ServerSpan
    }

    pub(crate) fn client_span(&self, _parent: &ServerSpan, _method: &str) -> ClientSpan {
        ClientSpan
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct NoArrival<'a>(PhantomData<&'a ()>);

impl<'a> Arrival<'a> {
    pub(crate) fn http(_headers: &'a HeaderMap, _peer: SocketAddr) -> Self {
        Self(PhantomData)
    }
}

#[allow(dead_code, reason = "read where there are spans")]
pub(crate) struct NoRequestStart<'a> {
    pub(crate) method: &'a str,
    pub(crate) id: &'a RequestId,
    pub(crate) params: &'a RequestParams,
    pub(crate) legacy_revision: Option<Revision>,
    pub(crate) arrival: Arrival<'a>,
}

#[derive(Debug, Default)]
pub(crate) struct NoServerSpan;

impl ServerSpan {
    pub(crate) fn set_outcome(&mut self, _outcome: SpanOutcome) {}

    pub(crate) fn answered(&mut self) {}

    pub(crate) fn refused(&mut self, _code: i64) {}
}

#[derive(Default)]
pub(crate) struct NoClientSpan;

impl ClientSpan {
    pub(crate) fn forwarded<'a>(&'a self, own: &'a ForwardedParams) -> &'a ForwardedParams {
        own
    }

    pub(crate) fn end(
        &self,
        _outcome: &SpanOutcome,
        _target: Option<&str>,
        _server: impl FnOnce() -> Option<ServerHandle>,
    ) {
    }
}

#[derive(Debug)]
pub(crate) struct NoSpanOutcome;

impl SpanOutcome {
    pub(crate) fn of(_answer: &Result<RawJson, CallError>, _is_tool_error: bool) -> Self {
        Self
    }

    pub(crate) fn cancelled() -> Self {
        Self
    }
}
