//! Plain HTTP to one origin, with no proxy between: each connection is driven by the very task that waits for its answer.
//!
//! The shared stack runs every connection in a task of its own, so that a request and its answer each pass from task to task; on the way
//! to a server on this machine that took longer than all the rest. What a connection speaks is hyper's in both.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::{self, Connection, SendRequest};
use hyper::header::{CONTENT_ENCODING, HOST, HeaderMap, HeaderValue, USER_AGENT};
use hyper::{Method, Request, Response, Uri};
use hyper_util::rt::TokioIo;
use reqwest::ResponseBuilderExt;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use url::Url;

use super::stack::{CONNECT_DEADLINE, IDLE_CONNECTION, OUR_NAME};
use super::trouble;
use crate::transport::WireFault;

/// Connections that nobody uses, at most.
const MAX_IDLE: usize = 256;

/// The way to one origin. Clones share its connections.
#[derive(Clone)]
pub(super) struct Direct(Arc<Shared>);

struct Shared {
    /// What is connected to: host and port.
    host: String,
    port: u16,
    /// What `Host` says.
    authority: HeaderValue,
    /// The last one used is the first one taken.
    idle: Mutex<Vec<Line>>,
}

/// One connection, and the end of it that requests go into.
struct Line {
    sender: SendRequest<Full<Bytes>>,
    connection: Pin<Box<Connection<TokioIo<TcpStream>, Full<Bytes>>>>,
    /// The connection is over.
    ended: bool,
    used: Instant,
}

impl fmt::Debug for Direct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Direct").field("host", &self.0.host).field("port", &self.0.port).finish_non_exhaustive()
    }
}

impl Direct {
    /// The way to this URL's origin, if it is plain HTTP to an address or to this machine: a name may stand for several addresses, and
    /// which of them answers is the shared stack's to find out.
    pub(super) fn to(url: &Url) -> Option<Self> {
        let host = match url.host()? {
            _ if url.scheme() != "http" => return None,
            url::Host::Domain("localhost") => "localhost".to_owned(),
            url::Host::Domain(_) => return None,
            url::Host::Ipv4(address) => address.to_string(),
            url::Host::Ipv6(address) => address.to_string(),
        };
        let authority = HeaderValue::from_str(&url[url::Position::BeforeHost..url::Position::AfterPort]).ok()?;
        let port = url.port_or_known_default()?;
        Some(Self(Arc::new(Shared { host, port, authority, idle: Mutex::default() })))
    }

    /// Sends a request within the origin and answers with the response, whose body is still to be read.
    pub(super) async fn send(
        &self,
        method: &Method,
        url: Url,
        headers: &HeaderMap,
        body: Option<&Bytes>,
        place: &str,
    ) -> Result<reqwest::Response, WireFault> {
        let target: Uri = url[url::Position::BeforePath..url::Position::AfterQuery]
            .parse()
            .map_err(|_| WireFault::NotSent(format!("the path of the URL for {place} is none that HTTP can name")))?;
        let mut request = Request::new(Full::new(body.cloned().unwrap_or_default()));
        *request.method_mut() = method.clone();
        *request.uri_mut() = target;
        *request.headers_mut() = headers.clone();
        request.headers_mut().entry(HOST).or_insert_with(|| self.0.authority.clone());
        request.headers_mut().entry(USER_AGENT).or_insert(HeaderValue::from_static(OUR_NAME));
        let (response, line) = self.answer(request, place).await?;
        let (parts, body) = response.into_parts();
        if parts.headers.get(CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
            return Err(WireFault::Lost(format!("{place} answered compressed, which was not asked for")));
        }
        let builder = hyper::http::Response::builder().status(parts.status).version(parts.version).url(url);
        let body = reqwest::Body::wrap(Answer { body, line: Some(line), way: self.clone() });
        let mut response =
            builder.body(body).map_err(|_| WireFault::Lost(format!("the answer of {place} has no meaning as a response")))?;
        *response.headers_mut() = parts.headers;
        Ok(response.into())
    }

    /// The head of the answer, and the connection that its body comes over.
    async fn answer(&self, mut request: Request<Full<Bytes>>, place: &str) -> Result<(Response<Incoming>, Line), WireFault> {
        loop {
            let idle = self.idle();
            let was_idle = idle.is_some();
            let mut line = match idle {
                Some(line) => line,
                None => Box::pin(self.open(place)).await?,
            };
            let mut answer = std::pin::pin!(line.sender.try_send_request(request));
            let answered = std::future::poll_fn(|task| {
                line.drive(task);
                answer.as_mut().poll(task)
            });
            match answered.await {
                Ok(response) => return Ok((response, line)),
                Err(mut fault) => match fault.take_message() {
                    // The server closed it just before; nothing of the request has left.
                    Some(unsent) if was_idle => request = unsent,
                    unsent => return Err(trouble::of_connection(fault.error(), unsent.is_some(), place)),
                },
            }
        }
    }

    /// A connection that is open still, as far as anybody has said.
    fn idle(&self) -> Option<Line> {
        let mut idle = self.0.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        while let Some(mut line) = idle.pop() {
            let is_fresh = now.duration_since(line.used) < IDLE_CONNECTION;
            if is_fresh && line.is_open() {
                return Some(line);
            }
        }
        None
    }

    async fn open(&self, place: &str) -> Result<Line, WireFault> {
        let connecting = timeout(CONNECT_DEADLINE, TcpStream::connect((self.0.host.as_str(), self.0.port)));
        let socket = match connecting.await {
            Ok(Ok(socket)) => socket,
            Ok(Err(error)) => return Err(trouble::unconnected(Some(error.kind()), &error.to_string(), place)),
            Err(_) => return Err(trouble::unconnected(Some(io::ErrorKind::TimedOut), "", place)),
        };
        // Each message is one write, and waits for nothing.
        let _ = socket.set_nodelay(true);
        let (sender, connection) =
            http1::handshake(TokioIo::new(socket)).await.map_err(|error| trouble::of_connection(&error, true, place))?;
        Ok(Line { sender, connection: Box::pin(connection), ended: false, used: Instant::now() })
    }

    fn put_back(&self, mut line: Line) {
        if !line.is_open() {
            return;
        }
        line.used = Instant::now();
        let mut idle = self.0.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() == MAX_IDLE {
            idle.remove(0);
        }
        idle.push(line);
    }
}

impl Line {
    /// Whether it can take a request. A server that has closed it meanwhile has said so by now.
    fn is_open(&mut self) -> bool {
        self.drive(&mut Context::from_waker(Waker::noop()));
        !self.ended && self.sender.is_ready()
    }

    /// Lets the connection read and write. What it comes to, whoever waits for an answer is told by that.
    fn drive(&mut self, task: &mut Context<'_>) {
        self.ended = self.ended || self.connection.as_mut().poll(task).is_ready();
    }
}

/// The body of a response. Read to its end it gives the connection back; dropped before, it closes it, and the server sees that.
struct Answer {
    body: Incoming,
    line: Option<Line>,
    way: Direct,
}

impl Body for Answer {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = self.get_mut();
        if let Some(line) = &mut this.line {
            line.drive(task);
        }
        let frame = Pin::new(&mut this.body).poll_frame(task);
        match &frame {
            Poll::Ready(None) => this.line.take().into_iter().for_each(|line| this.way.put_back(line)),
            Poll::Ready(Some(Err(_))) => this.line = None,
            _ => {}
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        // Only the end itself gives the connection back.
        false
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// Answers each request on each connection, so many times, then closes it; gives the number of connections.
    async fn serve(listener: TcpListener, times: usize) -> usize {
        let mut connections = 0;
        loop {
            let Ok(accepted) = timeout(std::time::Duration::from_secs(2), listener.accept()).await else { return connections };
            let mut socket = accepted.unwrap().0;
            connections += 1;
            for _ in 0..times {
                let mut request = vec![0; 4096];
                if socket.read(&mut request).await.unwrap() == 0 {
                    break;
                }
                socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await.unwrap();
            }
        }
    }

    async fn check(times: usize, expected: usize) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url: Url = format!("http://{}/mcp", listener.local_addr().unwrap()).parse().unwrap();
        let serving = tokio::spawn(serve(listener, times));
        let direct = Direct::to(&url).unwrap();
        for _ in 0..6 {
            let response = direct.send(&Method::POST, url.clone(), &HeaderMap::new(), None, "here").await.unwrap();
            assert_eq!(response.text().await.unwrap_or_default(), "ok");
            // What the server does to the connection then is seen before the next request.
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        drop(direct);
        assert_eq!(serving.await.unwrap(), expected, "{times} requests on a connection");
    }

    #[tokio::test]
    async fn a_connection_serves_one_request_after_the_other() {
        check(6, 1).await;
    }

    #[tokio::test]
    async fn a_connection_that_the_server_closed_is_not_used_again() {
        check(2, 3).await;
        check(1, 6).await;
    }
}
