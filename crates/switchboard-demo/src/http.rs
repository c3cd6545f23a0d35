//! The HTTP transport: requests in, responses and event streams out.
//!
//! `/mcp` is Streamable HTTP, both eras on one endpoint; `/sse` and `/message` are HTTP+SSE of
//! 2024-11-05. A quick answer is sent as JSON by the task that read its request. Owns the
//! sessions; [`Peer`](crate::Peer) handles the messages.
#![allow(
    clippy::result_large_err,
    reason = "a refusal is a whole response, and refusals are rare"
)]

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Either, Full, Limited};
use hyper::body::{Body, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
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

use events::EventBody;
use session::Sessions;

/// The pause after a connection could not be accepted, as when no file descriptor is free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

type Request = hyper::Request<Incoming>;

/// A response: a whole body, or events as they come.
type Response = hyper::Response<Either<Full<Bytes>, EventBody>>;

/// A running edge. Dropping it stops it: streams end, sessions are forgotten, the port is free.
#[derive(Debug)]
pub struct HttpEdge {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// Accepts connections.
    accepting: JoinHandle<()>,
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
    /// True once the edge stops; every connection and every open stream watches it.
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
        let accepting = tokio::spawn(accept(listener, shared.clone()));
        Ok(HttpEdge {
            address,
            shared,
            accepting,
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

    /// Serves until the task is dropped.
    pub async fn serve(mut self) -> io::Result<()> {
        (&mut self.accepting).await.map_err(io::Error::other)
    }
}

impl Drop for HttpEdge {
    fn drop(&mut self) {
        self.shared.closing.send_replace(true);
        self.forget_sessions();
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        match listener.accept().await {
            Ok((connection, _)) => {
                tokio::spawn(serve_connection(connection, shared.clone()));
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// Serves one connection until its client closes it, or until the responses in progress have ended
/// after the edge stopped.
async fn serve_connection(connection: TcpStream, shared: Arc<Shared>) {
    // An answer is one small packet, which must not wait for another.
    _ = connection.set_nodelay(true);
    let mut closing = shared.closing.subscribe();
    let service = service_fn(|request| {
        let shared = shared.clone();
        async move { Ok::<_, Infallible>(answer(&shared, request).await) }
    });
    let serving = http1::Builder::new().serve_connection(TokioIo::new(connection), service);
    let mut serving = pin!(serving);
    tokio::select! {
        // A connection that breaks concerns its client alone.
        _ = serving.as_mut() => return,
        _ = closing.wait_for(|closing| *closing) => serving.as_mut().graceful_shutdown(),
    }
    _ = serving.await;
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

async fn answer(shared: &Arc<Shared>, request: Request) -> Response {
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
        ("/mcp", &Method::POST) => post::answer(shared, request).await,
        ("/mcp", &Method::GET) if is_legacy => session::listen(shared, request.headers()),
        ("/mcp", &Method::DELETE) if is_legacy => session::end(shared, request.headers()),
        ("/mcp", _) => not_allowed(if is_legacy {
            "GET, POST, DELETE"
        } else {
            "POST"
        }),
        ("/sse", &Method::GET) if is_legacy => sse::open(shared),
        ("/sse", _) if is_legacy => not_allowed("GET"),
        ("/message", &Method::POST) if is_legacy => sse::post(shared, request).await,
        ("/message", _) if is_legacy => not_allowed("POST"),
        _ => respond(
            StatusCode::NOT_FOUND,
            "text/plain",
            "nothing is here; try /mcp\n",
        ),
    }
}

/// Reads the body of a request, with limits on size and time.
async fn read_body(shared: &Shared, body: Incoming) -> Result<Bytes, Response> {
    let limit = shared.options.max_body_bytes;
    if body.size_hint().lower() > limit as u64 {
        let fault = Fault::invalid_request(format!("a body of more than {limit} bytes"));
        return Err(refuse(StatusCode::PAYLOAD_TOO_LARGE, &fault));
    }
    let reading = Limited::new(body, limit).collect();
    match tokio::time::timeout(options::BODY_LIMIT, reading).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
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
fn respond(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response {
    let body = Either::Left(Full::new(body.into()));
    respond_with_body(status, content_type, body)
}

fn respond_with_body(
    status: StatusCode,
    content_type: &'static str,
    body: Either<Full<Bytes>, EventBody>,
) -> Response {
    let mut response = Response::new(body);
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
    let mut response = Response::new(Either::Left(Full::default()));
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
