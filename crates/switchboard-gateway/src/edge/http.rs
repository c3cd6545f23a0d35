//! The HTTP edge: Streamable HTTP in both eras under `/mcp` and `/mcp/NAME`, HTTP+SSE under `/sse`,
//! and the routes that are mounted beside them.
//!
//! `connections` counts the open connections, and gives each client its share. `connection` serves
//! one, with its limits; `plain` is its path for nearly all requests.
//! Each request passes `admission` first.
//! `post` handles the messages of `/mcp`, `mirror` compares the headers of modern ones, `sessions`
//! holds the sessions of legacy clients, `events` their streams; `sse` is the older transport.
//! `server_card` describes the endpoints, `routes` is where other pages are mounted.
#![allow(
    clippy::result_large_err,
    reason = "a refusal is a whole response, and refusals are rare"
)]

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use super::closed;
use crate::gateway::Gateway;
use crate::settings::ServerSelection;
use crate::tokens::ClientTokens;

/// Which requests are admitted.
mod admission;
/// A request on the task of its connection.
mod attached_request;
/// The bodies of responses.
mod body;
/// One connection.
mod connection;
/// The open connections, and the share of each client.
mod connections;
/// Messages as events, and streams that can be resumed.
mod events;
/// Compares the headers of modern requests with their bodies.
mod mirror;
/// Plain requests, without hyper.
mod plain;
/// One POST to `/mcp`.
mod post;
/// Responses.
mod response;
/// Routes beside those of the protocol.
mod routes;
/// Server cards.
mod server_card;
/// Sessions of legacy clients.
mod sessions;
/// HTTP+SSE.
mod sse;
/// The bytes of a connection.
mod stall;
/// The deadlines of a connection.
mod timer;

pub use body::HttpBody;
pub use routes::{HttpRoutes, NoRoutes, RouteRequest};
pub use server_card::PublicUrl;

use admission::Admission;
use connections::Connections;
use sessions::HttpSessions;

/// How long calls may continue after the edge began to close.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the responses to calls that took longer may take.
const LAST_RESPONSES: Duration = Duration::from_secs(1);

/// How often idle sessions are removed.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// After a failed accept (no file descriptors left), this long passes before the next.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The settings of the edge.
pub struct HttpEdgeSettings {
    /// The tokens of clients.
    pub tokens: ClientTokens,
    /// The servers that are offered under `/mcp`.
    pub selection: ServerSelection,
    /// The routes beside those of the protocol.
    pub routes: Arc<dyn HttpRoutes>,
    /// Names in `Host` that mean this gateway, besides those of the loopback interface.
    pub hosts: Vec<String>,
    /// Origins whose web pages may send requests, besides our own.
    pub origins: Vec<String>,
    /// Where clients reach the gateway from outside; server cards are served only with it.
    pub public_url: Option<PublicUrl>,
    /// The limits.
    pub limits: HttpLimits,
}

/// The limits of the edge.
#[derive(Debug, Clone)]
pub struct HttpLimits {
    /// Connections at the same time, a quarter of them for one client. For more, the oldest is closed
    /// that has sent no request with a token.
    pub max_connections: usize,
    /// Headers of a request.
    pub max_headers: usize,
    /// Bytes of a request's head.
    pub max_head_bytes: usize,
    /// Bytes of a request's body.
    pub max_body_bytes: usize,
    /// How long the head of a request may take; also how long a connection may be idle.
    pub head_timeout: Duration,
    /// How long the body of a request may take.
    pub body_timeout: Duration,
    /// How long a client may stop reading its responses.
    pub write_timeout: Duration,
    /// Sessions of legacy clients. Beyond this number, a session of the client with the most sessions
    /// is ended: the one that was not used for the longest time. One with a call or a listener is the
    /// last choice.
    pub max_sessions: usize,
    /// A session that was not used for this time ends.
    pub session_timeout: Duration,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            max_connections: 1024,
            max_headers: 100,
            max_head_bytes: 64 << 10,
            max_body_bytes: 64 << 20,
            head_timeout: Duration::from_secs(15),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            max_sessions: 1024,
            session_timeout: Duration::from_secs(3600),
        }
    }
}

/// A running edge. Dropping it ends all connections at once; [`close`](Self::close) drains them.
#[derive(Debug)]
pub struct HttpEdge {
    gateway: Gateway,
    address: SocketAddr,
    closing: watch::Sender<bool>,
    serving: JoinHandle<()>,
}

/// What all connections share.
struct HttpState {
    gateway: Gateway,
    selection: ServerSelection,
    admission: Admission,
    routes: Arc<dyn HttpRoutes>,
    public_url: Option<PublicUrl>,
    limits: HttpLimits,
    sessions: HttpSessions,
    connections: Arc<Connections>,
    /// True once the edge closes.
    closing: watch::Receiver<bool>,
}

impl HttpEdge {
    /// Serves clients on a listener.
    pub fn serve(
        gateway: Gateway,
        listener: TcpListener,
        settings: HttpEdgeSettings,
    ) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let HttpEdgeSettings {
            tokens,
            selection,
            routes,
            mut hosts,
            origins,
            public_url,
            limits,
        } = settings;
        hosts.extend(public_url.iter().map(|url| url.host().to_owned()));
        let (closing, is_closing) = watch::channel(false);
        let state = Arc::new(HttpState {
            gateway: gateway.clone(),
            selection,
            admission: Admission::new(tokens, address.ip(), &hosts, &origins),
            sessions: HttpSessions::new(limits.max_sessions),
            connections: Connections::new(limits.max_connections),
            routes,
            public_url,
            limits,
            closing: is_closing,
        });
        let serving = tokio::spawn(accept(state, listener));
        Ok(Self {
            gateway,
            address,
            closing,
            serving,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops accepting, ends open-ended streams and questions to clients, and waits for calls. Calls
    /// that take longer than ten seconds are answered with an error.
    pub async fn close(mut self) {
        self.closing.send_replace(true);
        if timeout(DRAIN_TIMEOUT, &mut self.serving).await.is_err() {
            self.gateway.end_requests();
            let _ = timeout(LAST_RESPONSES, &mut self.serving).await;
        }
    }
}

impl Drop for HttpEdge {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Accepts connections until the edge closes, then waits for those that are open.
async fn accept(state: Arc<HttpState>, listener: TcpListener) {
    let mut closing = state.closing.clone();
    let mut sweep = tokio::time::interval(SWEEP_INTERVAL);
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        tokio::select! {
            () = closed(&mut closing) => break,
            _ = sweep.tick() => state.sessions.end_unused(state.limits.session_timeout),
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => state.connections.spawn(&mut connections, |place| {
                    let state = state.clone();
                    async move { connection::serve(&state, place, stream, peer).await }
                }),
                Err(error) => {
                    tracing::warn!("cannot accept a connection: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    state.sessions.begin_draining();
    while connections.join_next().await.is_some() {}
}
