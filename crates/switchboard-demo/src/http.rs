//! The HTTP transport: requests in, responses and event streams out.
//!
//! `/mcp` is Streamable HTTP, both eras on one endpoint; `/sse` and `/message` are HTTP+SSE of
//! 2024-11-05. A quick answer is sent as JSON by the task that read its request. Owns the
//! sessions; [`Peer`](crate::Peer) handles the messages.
#![allow(
    clippy::result_large_err,
    reason = "a refusal is a whole response, and refusals are rare"
)]

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::handler::Handler;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use axum::serve::ListenerExt;
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::demo::Demo;
use crate::options::{Eras, Options};
use crate::rpc::Fault;

/// Options of the HTTP transport.
pub mod options;

/// Which requests are admitted: origin, host, token.
mod admission;

/// One POST to `/mcp`.
mod post;

/// Checks headers of modern requests that repeat parts of the body.
mod mirror;

/// Legacy sessions and their streams.
mod session;

/// Messages as events, and streams that can be resumed.
mod events;

/// The wire of 2024-11-05.
mod sse;

pub use options::{Answers, HttpOptions, Questions};

use session::Sessions;

/// A running edge. Dropping it stops it: streams end, sessions are forgotten, the port is free.
#[derive(Debug)]
pub struct HttpEdge {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// Dropped to end the connections.
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<io::Result<()>>,
}

/// State that all connections share.
#[derive(Debug)]
pub(crate) struct Shared {
    demo: Arc<Demo>,
    options: HttpOptions,
    admission: admission::Admission,
    sessions: Sessions,
    /// Sessions of HTTP+SSE: the same, on another wire.
    streams: Sessions,
    /// True once the edge stops; every open stream watches it.
    closing: watch::Sender<bool>,
    counts: Counters,
}

#[derive(Debug, Default)]
struct Counters {
    posts: AtomicU64,
    gets: AtomicU64,
    deletes: AtomicU64,
}

/// How many requests of each kind came in, and how many sessions are open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// POSTs, refused ones included.
    pub posts: u64,
    /// GETs, refused ones included.
    pub gets: u64,
    /// DELETEs, refused ones included.
    pub deletes: u64,
    /// Open sessions of both legacy wires.
    pub sessions: usize,
}

impl Demo {
    /// Serves this demo on a listener, in addition to other transports, until the edge is
    /// dropped. Needs a tokio runtime with I/O and time.
    pub fn serve_http(
        self: &Arc<Self>,
        listener: TcpListener,
        options: HttpOptions,
    ) -> io::Result<HttpEdge> {
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            demo: self.clone(),
            admission: admission::Admission::new(&options, address),
            sessions: Sessions::new(options.max_sessions),
            streams: Sessions::new(options.max_sessions),
            closing: watch::Sender::new(false),
            counts: Counters::default(),
            options,
        });
        let (stop, stopped) = oneshot::channel::<()>();
        // An answer is one small packet, which must not wait for another.
        let listener = listener.tap_io(|connection| _ = connection.set_nodelay(true));
        let service = answer.with_state(shared.clone()).into_make_service();
        let serving =
            axum::serve(listener, service).with_graceful_shutdown(async move { _ = stopped.await });
        let serving = tokio::spawn(async move { serving.await });
        Ok(HttpEdge {
            address,
            shared,
            stop: Some(stop),
            serving,
        })
    }
}

impl HttpEdge {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of Streamable HTTP.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// The address of HTTP+SSE.
    pub fn sse_url(&self) -> String {
        format!("http://{}/sse", self.address)
    }

    /// What came in so far.
    pub fn counts(&self) -> Counts {
        let Counters {
            posts,
            gets,
            deletes,
        } = &self.shared.counts;
        Counts {
            posts: posts.load(Ordering::Relaxed),
            gets: gets.load(Ordering::Relaxed),
            deletes: deletes.load(Ordering::Relaxed),
            sessions: self.shared.sessions.count() + self.shared.streams.count(),
        }
    }

    /// Forgets every session, as a restarted server would: requests with one get 404.
    pub fn forget_sessions(&self) {
        self.shared.sessions.clear();
        self.shared.streams.clear();
    }

    /// Drops the connections of all legacy streams but keeps the streams, as a bad network would:
    /// they can be resumed.
    pub fn break_streams(&self) {
        self.shared.sessions.break_streams();
        self.shared.streams.break_streams();
    }

    /// Serves until the listener fails.
    pub async fn serve(mut self) -> io::Result<()> {
        match (&mut self.serving).await {
            Ok(ended) => ended,
            Err(error) => Err(io::Error::other(error)),
        }
    }
}

impl Drop for HttpEdge {
    fn drop(&mut self) {
        drop(self.stop.take());
        self.shared.closing.send_replace(true);
        self.forget_sessions();
        self.serving.abort();
    }
}

/// Serves what the options say until the process ends; prints the address it listens on as one line
/// on stdout.
pub(crate) async fn serve_http(options: Options, listen: &str) -> io::Result<()> {
    use io::Write;
    tokio::time::sleep(options.start_delay).await;
    let listener = TcpListener::bind(listen).await?;
    let (tick, http) = (options.tick, options.http.clone());
    let demo = Demo::new(options);
    let edge = demo.serve_http(listener, http)?;
    let mut stdout = io::stdout();
    writeln!(stdout, "{}", edge.address())?;
    stdout.flush()?;
    tokio::select! {
        ended = edge.serve() => ended,
        () = crate::stdio::count_by_itself(&demo, tick) => Ok(()),
    }
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let counts = &shared.counts;
    match *request.method() {
        Method::POST => counts.posts.fetch_add(1, Ordering::Relaxed),
        Method::GET => counts.gets.fetch_add(1, Ordering::Relaxed),
        Method::DELETE => counts.deletes.fetch_add(1, Ordering::Relaxed),
        _ => 0,
    };
    if let Err(refusal) = shared.admission.check(request.headers()) {
        return refusal;
    }
    let is_legacy = shared.demo.options.eras != Eras::Modern;
    match (request.uri().path(), request.method()) {
        ("/mcp", &Method::POST) => post::answer(&shared, request).await,
        ("/mcp", &Method::GET) if is_legacy => session::listen(&shared, request.headers()),
        ("/mcp", &Method::DELETE) if is_legacy => session::end(&shared, request.headers()),
        ("/mcp", _) => not_allowed(if is_legacy {
            "GET, POST, DELETE"
        } else {
            "POST"
        }),
        ("/sse", &Method::GET) if is_legacy => sse::open(&shared),
        ("/sse", _) if is_legacy => not_allowed("GET"),
        ("/message", &Method::POST) if is_legacy => sse::post(&shared, request).await,
        ("/message", _) if is_legacy => not_allowed("POST"),
        _ => respond(
            StatusCode::NOT_FOUND,
            "text/plain",
            "nothing is here; try /mcp\n",
        ),
    }
}

/// Reads the body of a request, with limits on size and time.
async fn read_body(shared: &Shared, request: Request) -> Result<Bytes, Response> {
    let limit = shared.options.max_body_bytes;
    let body = request.into_body();
    let is_declared_too_long = body.size_hint().lower() > limit as u64;
    let reading = tokio::time::timeout(options::BODY_LIMIT, axum::body::to_bytes(body, limit));
    if is_declared_too_long {
        let fault = Fault::invalid_request(format!("a body of more than {limit} bytes"));
        return Err(refuse(StatusCode::PAYLOAD_TOO_LARGE, &fault));
    }
    match reading.await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) => {
            let fault = Fault::invalid_request(format!(
                "the body cannot be read, or has more than {limit} bytes: {error}"
            ));
            Err(refuse(StatusCode::PAYLOAD_TOO_LARGE, &fault))
        }
        Err(_) => Err(refuse(
            StatusCode::REQUEST_TIMEOUT,
            &Fault::invalid_request("the body did not come in time"),
        )),
    }
}

/// A response with a whole body.
fn respond(status: StatusCode, content_type: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// A refusal that belongs to no request of the protocol.
fn refuse(status: StatusCode, fault: &Fault) -> Response {
    refuse_request(status, fault, "null")
}

fn refuse_request(status: StatusCode, fault: &Fault, id: &str) -> Response {
    let mut text = Vec::new();
    fault.write(&mut text, id);
    respond(status, "application/json", text)
}

fn accepted() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}

fn not_allowed(allowed: &'static str) -> Response {
    let fault = Fault::edge(-32000, "this method is not allowed here");
    let mut response = refuse(StatusCode::METHOD_NOT_ALLOWED, &fault);
    response
        .headers_mut()
        .insert(header::ALLOW, HeaderValue::from_static(allowed));
    response
}
