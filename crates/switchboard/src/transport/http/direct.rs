//! A connection pool for plain HTTP to one origin without a proxy.
//!
//! The shared stack runs each connection in a task of its own, so that a request and its response
//! pass between tasks; for a local server that took longer than everything else. Here the waiting
//! caller reads and writes the socket itself.
//!
//! hyper's `client::conn::http1`, polled by the waiting caller as well, was measured in its place. A
//! call through the host takes 16,000 instructions by callgrind (legacy era, JSON), with hyper 31,500;
//! with events 18,400 and 35,000; in the modern era 20,200 and 39,700, with events 22,900 and 42,500.
//! Header maps, allocations and copies are nearly half of the difference. In interleaved runs of
//! `bench http` on a busy machine, the median p50 was 1.10 × that of the raw client, with hyper
//! 1.23 ×; with 64 in flight it made 0.86 × as many calls as the raw client, with hyper 0.70 ×.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use url::{Host, Position, Url};

use super::connection::{self, HttpConnection, RequestError};
use super::connection_fault;
use super::framing::{BodyFraming, BodyPart};
use super::head::ResponseHead;
use super::request::HttpRequest;
use super::stack::{CONNECT_DEADLINE, IDLE_CONNECTION};
use crate::sync::lock;
use crate::transport::TransportFault;

/// The most idle connections.
const MAX_IDLE: usize = 256;

/// The connections to one origin. Clones share them.
#[derive(Clone)]
pub(super) struct DirectPool(Arc<PoolState>);

struct PoolState {
    /// The host and port to connect to.
    host: String,
    port: u16,
    /// The value of the `Host` header.
    authority: String,
    /// The most recently used connection is last, and reused first.
    idle: Mutex<VecDeque<Box<HttpConnection>>>,
}

impl fmt::Debug for DirectPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectPool")
            .field("host", &self.0.host)
            .field("port", &self.0.port)
            .finish_non_exhaustive()
    }
}

impl DirectPool {
    /// A pool for this URL's origin, if it is plain HTTP to an IP address or localhost. Other names
    /// may have several addresses; the shared stack tries them.
    pub(super) fn for_url(url: &Url) -> Option<Self> {
        let host = match url.host()? {
            _ if url.scheme() != "http" => return None,
            Host::Domain("localhost") => "localhost".to_owned(),
            Host::Domain(_) => return None,
            Host::Ipv4(address) => address.to_string(),
            Host::Ipv6(address) => address.to_string(),
        };
        let authority = url[Position::BeforeHost..Position::AfterPort].to_owned();
        let port = url.port_or_known_default()?;
        Some(Self(Arc::new(PoolState {
            host,
            port,
            authority,
            idle: Mutex::default(),
        })))
    }

    /// Sends a request within the origin; the body of the response is still to be read.
    pub(super) async fn send(
        &self,
        request: &HttpRequest<'_>,
        address: &str,
    ) -> Result<DirectResponse, TransportFault> {
        loop {
            let idle = self.take_idle();
            let was_idle = idle.is_some();
            let mut connection = match idle {
                Some(connection) => connection,
                None => Box::pin(self.connect(address)).await?,
            };
            match connection.send_request(request, &self.0.authority).await {
                Ok(head) if head.is_encoded => {
                    return Err(TransportFault::Lost(format!(
                        "{address} sent a compressed response, which was not requested"
                    )));
                }
                Ok(head) => {
                    return Ok(DirectResponse {
                        head,
                        connection: Some(connection),
                        pool: self.clone(),
                    });
                }
                // The server had just closed the idle connection; nothing of the request was sent.
                Err(RequestError::NotSent(_)) if was_idle => {}
                Err(RequestError::NotSent(error)) => {
                    return Err(connection_fault::connect_fault(
                        Some(error.kind()),
                        &error.to_string(),
                        address,
                    ));
                }
                Err(RequestError::Lost(error)) => {
                    return Err(connection_fault::direct_fault(&error, address));
                }
            }
        }
    }

    /// An idle connection that is still open.
    fn take_idle(&self) -> Option<Box<HttpConnection>> {
        let mut idle = self.idle();
        let now = Instant::now();
        std::iter::from_fn(|| idle.pop_back()).find(|connection| {
            now.duration_since(connection.last_used) < IDLE_CONNECTION && connection.is_reusable()
        })
    }

    async fn connect(&self, address: &str) -> Result<Box<HttpConnection>, TransportFault> {
        let connecting = timeout(
            CONNECT_DEADLINE,
            TcpStream::connect((self.0.host.as_str(), self.0.port)),
        );
        match connecting.await {
            Ok(Ok(socket)) => Ok(Box::new(HttpConnection::new(socket))),
            Ok(Err(error)) => Err(connection_fault::connect_fault(
                Some(error.kind()),
                &error.to_string(),
                address,
            )),
            Err(_) => Err(connection_fault::connect_fault(
                Some(io::ErrorKind::TimedOut),
                "",
                address,
            )),
        }
    }

    /// Returns a connection to the pool, and drops expired ones.
    fn put_back(&self, mut connection: Box<HttpConnection>) {
        if !connection.prepare_reuse() {
            return;
        }
        let mut idle = self.idle();
        let now = connection.last_used;
        while idle.len() == MAX_IDLE
            || idle
                .front()
                .is_some_and(|first| now.duration_since(first.last_used) >= IDLE_CONNECTION)
        {
            idle.pop_front();
        }
        idle.push_back(connection);
    }

    fn idle(&self) -> MutexGuard<'_, VecDeque<Box<HttpConnection>>> {
        lock(&self.0.idle)
    }
}

/// A response. Reading it to its end returns the connection to the pool; dropping it before closes
/// the connection.
pub(super) struct DirectResponse {
    pub(super) head: ResponseHead,
    /// The connection, until the body ends.
    connection: Option<Box<HttpConnection>>,
    pool: DirectPool,
}

impl DirectResponse {
    /// The next part of the body as soon as there is any; `None` at its end. Cancel-safe.
    pub(super) async fn chunk(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            if let Some(chunk) = self.buffered_chunk() {
                return chunk;
            }
            let Some(connection) = &mut self.connection else {
                return Ok(None);
            };
            let outcome = match connection.read_more().await {
                Ok(true) => continue,
                Ok(false) if self.head.framing == BodyFraming::UntilClose => Ok(None),
                Ok(false) => Err(connection::closed_error()),
                Err(error) => Err(error),
            };
            self.connection = None;
            return outcome;
        }
    }

    /// The next part of the body, if it was read already.
    pub(super) fn buffered_chunk(&mut self) -> Option<io::Result<Option<Bytes>>> {
        let Some(connection) = &mut self.connection else {
            return Some(Ok(None));
        };
        match self.head.framing.take(&mut connection.read) {
            Ok(BodyPart::Bytes(bytes)) => Some(Ok(Some(bytes))),
            Ok(BodyPart::NeedMore) => None,
            Ok(BodyPart::End) => {
                let connection = self.connection.take().filter(|_| self.head.keep_alive);
                connection
                    .into_iter()
                    .for_each(|connection| self.pool.put_back(connection));
                Some(Ok(None))
            }
            Err(fact) => {
                self.connection = None;
                Some(Err(connection::malformed_error(fact)))
            }
        }
    }
}

#[cfg(test)]
mod tests;
