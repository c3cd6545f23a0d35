//! The floor of a gateway from HTTP to stdio: the least that stands between a POST and a line.
//!
//! `__pump --http COMMAND…` prints the address that it listens on. The body of a POST becomes a line
//! to the server, the line with the same id becomes the response. Of a message it reads the id only;
//! there are no sessions, no gate, no log and no limits. One thread, hyper's connection without a
//! framework, all lines that wait in one write, non-blocking pipes.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::convert::Infallible;
use std::process::Stdio;
use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio::sync::{Notify, oneshot};
use tokio::task::LocalSet;

use crate::measure::Fault;
use crate::raw::field;

const BUFFER_BYTES: usize = 64 * 1024;

/// What the connections, the reader and the writer share.
#[derive(Default)]
struct HttpPump {
    /// The lines that wait to be written.
    lines: RefCell<BytesMut>,
    /// Wakes the writer.
    has_lines: Notify,
    /// Who waits for the line with an id.
    waiting: RefCell<HashMap<u64, oneshot::Sender<Bytes>>>,
    has_ended: Cell<bool>,
}

/// Serves until the server ends.
pub(crate) fn run(program: &str, words: impl Iterator<Item = String>) -> Result<(), Fault> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    LocalSet::new().block_on(&runtime, serve(program, words))
}

async fn serve(program: &str, words: impl Iterator<Item = String>) -> Result<(), Fault> {
    let mut server = Command::new(program)
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let pipes = server.stdin.take().zip(server.stdout.take());
    let (input, output) = pipes.ok_or("no pipes")?;
    let pump = Rc::<HttpPump>::default();
    tokio::task::spawn_local(write_lines(pump.clone(), input));
    let mut reading = tokio::task::spawn_local(read_lines(pump.clone(), output));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    loop {
        tokio::select! {
            _ = &mut reading => return Ok(()),
            accepted = listener.accept() => {
                tokio::task::spawn_local(serve_connection(pump.clone(), accepted?.0));
            }
        }
    }
}

async fn serve_connection(pump: Rc<HttpPump>, stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| pump.respond(request));
    let connection =
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    // A client that goes away is no fault.
    let _ = connection.await;
}

impl HttpPump {
    async fn respond(
        &self,
        request: Request<Incoming>,
    ) -> Result<Response<Full<Bytes>>, Infallible> {
        let Ok(body) = request.into_body().collect().await else {
            return Ok(status(StatusCode::BAD_REQUEST));
        };
        let line = body.to_bytes();
        let id = id(&line);
        let response = id.map(|id| {
            let (sender, receiver) = oneshot::channel();
            self.waiting.borrow_mut().insert(id, sender);
            receiver
        });
        {
            let mut lines = self.lines.borrow_mut();
            lines.extend_from_slice(&line);
            lines.extend_from_slice(b"\n");
        }
        self.has_lines.notify_one();
        let Some(response) = response else {
            return Ok(status(StatusCode::ACCEPTED));
        };
        let Ok(line) = response.await else {
            return Ok(status(StatusCode::BAD_GATEWAY));
        };
        let mut response = Response::new(Full::new(line));
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(CONTENT_TYPE, json);
        Ok(response)
    }
}

fn status(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}

/// The number that a message has as its id.
fn id(message: &[u8]) -> Option<u64> {
    std::str::from_utf8(field(message, b"id")?)
        .ok()?
        .parse()
        .ok()
}

/// Writes all lines that wait at once.
async fn write_lines(pump: Rc<HttpPump>, mut input: ChildStdin) {
    while !pump.has_ended.get() {
        pump.has_lines.notified().await;
        let lines = pump.lines.borrow_mut().split();
        if input.write_all(&lines).await.is_err() {
            return;
        }
    }
}

/// Hands each line to the request that waits for it.
async fn read_lines(pump: Rc<HttpPump>, mut output: ChildStdout) {
    let mut buffer = BytesMut::with_capacity(BUFFER_BYTES);
    while let Ok(1..) = output.read_buf(&mut buffer).await {
        while let Some(end) = memchr::memchr(b'\n', &buffer) {
            let line = buffer.split_to(end + 1).freeze().slice(..end);
            let waiting = id(&line).and_then(|id| pump.waiting.borrow_mut().remove(&id));
            // Notifications, and responses to a client that has gone, go nowhere.
            waiting.map(|sender| sender.send(line));
        }
        buffer.reserve(BUFFER_BYTES);
    }
    pump.has_ended.set(true);
    pump.has_lines.notify_one();
    pump.waiting.borrow_mut().clear();
}
