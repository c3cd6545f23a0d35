//! Routes beside those of the protocol: pages, health, metrics.

use bytes::Bytes;
use hyper::{HeaderMap, Method, Response, Uri};
use switchboard::BoxFuture;
use tokio::sync::watch;

use super::HttpBody;
use crate::principal::Principal;
use crate::refusal::RefusalReason;

/// A request for a path that is not of the protocol. `Host` and `Origin` were checked; whether its
/// sender may have what it asks for is the route's decision.
#[derive(Debug)]
pub struct RouteRequest {
    /// The method.
    pub method: Method,
    /// Path and query.
    pub uri: Uri,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, of at most 64 KiB.
    pub body: Bytes,
    /// The client whose bearer token it carries, or why it has no valid one. It opens no page.
    pub principal: Result<Principal, RefusalReason>,
    /// Becomes true when the edge closes: streams must end then.
    pub closing: watch::Receiver<bool>,
}

/// Responds to requests for other paths.
pub trait HttpRoutes: Send + Sync {
    /// The response, or `None` where nothing is at this path. One that refuses the request has a
    /// [`RefusalReason`] among its extensions, which the edge records.
    fn respond(&self, request: RouteRequest) -> BoxFuture<'_, Option<Response<HttpBody>>>;
}

/// No further routes.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoRoutes;

impl HttpRoutes for NoRoutes {
    fn respond(&self, _: RouteRequest) -> BoxFuture<'_, Option<Response<HttpBody>>> {
        Box::pin(std::future::ready(None))
    }
}
