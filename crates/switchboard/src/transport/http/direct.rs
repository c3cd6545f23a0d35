//! Plain HTTP to one origin, with no proxy between: the connections that wait for a request, and
//! the answers that come over them.
//!
//! The shared stack runs every connection in a task of its own, so that a request and its answer
//! each pass from task to task; on the way to a server on this machine that took longer than all
//! the rest. Here whoever waits for an answer writes and reads by itself.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use url::{Host, Position, Url};

use super::framing::{Framing, Piece};
use super::head::Head;
use super::line::{self, Line, Unanswered};
use super::request::Request;
use super::stack::{CONNECT_DEADLINE, IDLE_CONNECTION};
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
    authority: String,
    /// The last one used is the last one here, and the first one taken.
    idle: Mutex<VecDeque<Box<Line>>>,
}

impl fmt::Debug for Direct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Direct")
            .field("host", &self.0.host)
            .field("port", &self.0.port)
            .finish_non_exhaustive()
    }
}

impl Direct {
    /// The way to this URL's origin, if it is plain HTTP to an address or to this machine: a name
    /// may stand for several addresses, and which of them answers is the shared stack's to find
    /// out.
    pub(super) fn to(url: &Url) -> Option<Self> {
        let host = match url.host()? {
            _ if url.scheme() != "http" => return None,
            Host::Domain("localhost") => "localhost".to_owned(),
            Host::Domain(_) => return None,
            Host::Ipv4(address) => address.to_string(),
            Host::Ipv6(address) => address.to_string(),
        };
        let authority = url[Position::BeforeHost..Position::AfterPort].to_owned();
        let port = url.port_or_known_default()?;
        Some(Self(Arc::new(Shared {
            host,
            port,
            authority,
            idle: Mutex::default(),
        })))
    }

    /// Sends a request within the origin and answers with the response, whose body is still to be
    /// read.
    pub(super) async fn send(
        &self,
        request: &Request<'_>,
        place: &str,
    ) -> Result<Answer, WireFault> {
        loop {
            let idle = self.take();
            let was_idle = idle.is_some();
            let mut line = match idle {
                Some(line) => line,
                None => Box::pin(self.open(place)).await?,
            };
            match line.ask(request, &self.0.authority).await {
                Ok(head) if head.is_encoded => {
                    return Err(WireFault::Lost(format!(
                        "{place} answered compressed, which was not asked for"
                    )));
                }
                Ok(head) => {
                    return Ok(Answer {
                        head,
                        line: Some(line),
                        way: self.clone(),
                    });
                }
                // The server closed it just before; nothing of the request has left.
                Err(Unanswered::Unsent(_)) if was_idle => {}
                Err(Unanswered::Unsent(error)) => {
                    return Err(trouble::unconnected(
                        Some(error.kind()),
                        &error.to_string(),
                        place,
                    ));
                }
                Err(Unanswered::Lost(error)) => return Err(trouble::broken_line(&error, place)),
            }
        }
    }

    /// A connection that is open still, as far as anybody has said.
    fn take(&self) -> Option<Box<Line>> {
        let mut idle = self.idle();
        let now = Instant::now();
        std::iter::from_fn(|| idle.pop_back())
            .find(|line| now.duration_since(line.used) < IDLE_CONNECTION && line.is_quiet())
    }

    async fn open(&self, place: &str) -> Result<Box<Line>, WireFault> {
        let connecting = timeout(
            CONNECT_DEADLINE,
            TcpStream::connect((self.0.host.as_str(), self.0.port)),
        );
        match connecting.await {
            Ok(Ok(socket)) => Ok(Box::new(Line::over(socket))),
            Ok(Err(error)) => Err(trouble::unconnected(
                Some(error.kind()),
                &error.to_string(),
                place,
            )),
            Err(_) => Err(trouble::unconnected(
                Some(io::ErrorKind::TimedOut),
                "",
                place,
            )),
        }
    }

    /// Keeps a connection for the next request, and none for too long.
    fn put_back(&self, mut line: Box<Line>) {
        if !line.rest() {
            return;
        }
        let mut idle = self.idle();
        let now = line.used;
        while idle.len() == MAX_IDLE
            || idle
                .front()
                .is_some_and(|first| now.duration_since(first.used) >= IDLE_CONNECTION)
        {
            idle.pop_front();
        }
        idle.push_back(line);
    }

    fn idle(&self) -> MutexGuard<'_, VecDeque<Box<Line>>> {
        self.0.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An answer. Read to its end it gives the connection back; dropped before, it closes it, and the
/// server sees that.
pub(super) struct Answer {
    pub(super) head: Head,
    /// The connection, until the body has ended.
    line: Option<Box<Line>>,
    way: Direct,
}

impl Answer {
    /// The next piece of the body, as soon as there is any; `None` at its end. Dropping this loses
    /// nothing.
    pub(super) async fn chunk(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            if let Some(chunk) = self.at_hand() {
                return chunk;
            }
            let Some(line) = &mut self.line else {
                return Ok(None);
            };
            let outcome = match line.more().await {
                Ok(true) => continue,
                Ok(false) if self.head.framing == Framing::UntilClose => Ok(None),
                Ok(false) => Err(line::closed()),
                Err(error) => Err(error),
            };
            self.line = None;
            return outcome;
        }
    }

    /// The same, if it was read already.
    pub(super) fn at_hand(&mut self) -> Option<io::Result<Option<Bytes>>> {
        let Some(line) = &mut self.line else {
            return Some(Ok(None));
        };
        match self.head.framing.take(&mut line.read) {
            Ok(Piece::Bytes(bytes)) => Some(Ok(Some(bytes))),
            Ok(Piece::Waits) => None,
            Ok(Piece::End) => {
                let line = self.line.take().filter(|_| self.head.keeps);
                line.into_iter().for_each(|line| self.way.put_back(line));
                Some(Ok(None))
            }
            Err(fact) => {
                self.line = None;
                Some(Err(line::malformed(fact)))
            }
        }
    }
}

#[cfg(test)]
mod tests;
