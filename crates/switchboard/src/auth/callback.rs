//! The local listener that the browser is redirected to after a login, open until the response with
//! the right state has arrived.
//!
//! Other connections (another program, a page that guesses the port, a browser's preconnect) have
//! no effect and get no information: only the exact path with the exact state is accepted, once.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;
use url::Url;

/// The path of the redirect address.
const PATH: &str = "/callback";

/// The longest request that is read. A response carries a code, a state and an issuer.
const MAX_REQUEST_BYTES: usize = 16 * 1024;

/// How long one connection may take to send its request.
const CONNECTION_DEADLINE: Duration = Duration::from_secs(10);

/// The most open connections; another one replaces the oldest, since a browser sends its request
/// immediately.
const MAX_CONNECTIONS: usize = 64;

/// The listener.
#[derive(Debug)]
pub(super) struct CallbackListener {
    listener: TcpListener,
    /// The redirect address.
    pub(super) redirect: String,
}

/// The authorization server's response.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct CallbackResponse {
    /// The code, or the error and its description.
    pub(super) outcome: Result<String, (String, Option<String>)>,
    pub(super) iss: Option<String>,
}

impl std::fmt::Debug for CallbackResponse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The code is a secret until it is exchanged.
        f.debug_struct("CallbackResponse")
            .field("iss", &self.iss)
            .finish_non_exhaustive()
    }
}

impl CallbackListener {
    /// Listens on 127.0.0.1 only: on this port, or on a free one.
    pub(super) async fn bind(port: Option<u16>) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port.unwrap_or(0))).await?;
        let redirect = format!("http://127.0.0.1:{}{PATH}", listener.local_addr()?.port());
        Ok(Self { listener, redirect })
    }

    /// Waits for the response that carries this state, and closes the listener.
    pub(super) async fn answer(self, state: &str) -> CallbackResponse {
        let wanted: Arc<(String, String)> = Arc::new((self.redirect.clone(), state.to_owned()));
        // Aborted with this future: no connection outlives the login.
        let mut connections: JoinSet<Option<(CallbackResponse, TcpStream)>> = JoinSet::new();
        let mut oldest_first: VecDeque<AbortHandle> = VecDeque::new();
        loop {
            tokio::select! {
                biased;
                Some(ended) = connections.join_next() => {
                    if let Ok(Some((returned, stream))) = ended {
                        let words = match &returned.outcome {
                            Ok(_) => "Switchboard received the login. You can close this page.",
                            Err(_) => "The login was denied. You can close this page.",
                        };
                        reply(stream, "200 OK", words).await;
                        return returned;
                    }
                }
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        oldest_first.retain(|connection| !connection.is_finished());
                        if oldest_first.len() >= MAX_CONNECTIONS && let Some(oldest) = oldest_first.pop_front() {
                            oldest.abort();
                        }
                        oldest_first.push_back(connections.spawn(serve(stream, wanted.clone())));
                    }
                    // Out of file descriptors: open connections end within their deadline.
                    Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                },
            }
        }
    }
}

/// Parses an address that was followed or pasted: it must be the redirect address, with the right
/// state.
pub(super) fn parse_returned_address(
    address: &str,
    redirect: &str,
    state: &str,
) -> Result<CallbackResponse, &'static str> {
    let address = address.trim();
    if address.len() > MAX_REQUEST_BYTES {
        return Err("the address is too long");
    }
    let url = Url::parse(address)
        .map_err(|_| "that is not an address; paste the whole line that the browser shows")?;
    let mut bare = url.clone();
    bare.set_query(None);
    bare.set_fragment(None);
    if bare.as_str() != redirect {
        return Err("that is not the redirect address of this login");
    }
    let mut code = Vec::new();
    let mut states = Vec::new();
    let mut issuers = Vec::new();
    let mut errors = Vec::new();
    let mut description = None;
    for (name, value) in url.query_pairs() {
        match name.as_ref() {
            "code" => code.push(value.into_owned()),
            "state" => states.push(value.into_owned()),
            "iss" => issuers.push(value.into_owned()),
            "error" => errors.push(value.into_owned()),
            "error_description" => description = Some(value.into_owned()),
            _ => {}
        }
    }
    // A repeated parameter is ambiguous.
    if states != [state] || issuers.len() > 1 {
        return Err("its state does not belong to this login");
    }
    let outcome = match (code.as_mut_slice(), errors.as_mut_slice()) {
        ([code], []) if !code.is_empty() => Ok(std::mem::take(code)),
        ([], [error]) => Err((std::mem::take(error), description)),
        _ => return Err("it contains no code"),
    };
    Ok(CallbackResponse {
        outcome,
        iss: issuers.pop(),
    })
}

/// Serves one connection: returns the response and its stream, or sends an error and returns
/// `None`.
async fn serve(
    mut stream: TcpStream,
    wanted: Arc<(String, String)>,
) -> Option<(CallbackResponse, TcpStream)> {
    let (redirect, state) = &*wanted;
    let request = timeout(CONNECTION_DEADLINE, head(&mut stream)).await.ok()?;
    let status = match request
        .as_deref()
        .map(|head| parse_request(head, redirect, state))
    {
        Some(Ok(returned)) => return Some((returned, stream)),
        Some(Err(status)) => status,
        None => "431 Request Header Fields Too Large",
    };
    reply(
        stream,
        status,
        "This request does not belong to a pending login of Switchboard.",
    )
    .await;
    None
}

async fn reply(mut stream: TcpStream, status: &str, words: &str) {
    let page =
        format!("<!doctype html><meta charset=utf-8><title>Switchboard</title><p>{words}</p>\n");
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
         Content-Security-Policy: default-src 'none'\r\nReferrer-Policy: no-referrer\r\nConnection: close\r\n\r\n{page}",
        page.len()
    );
    // The login does not depend on the page.
    let _ = timeout(CONNECTION_DEADLINE, async {
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await
    })
    .await;
}

/// Reads the head of a request; `None` if it is too long or ends early.
async fn head(stream: &mut TcpStream) -> Option<String> {
    let mut read = Vec::new();
    let mut chunk = [0; 2048];
    loop {
        let count = stream.read(&mut chunk).await.ok()?;
        read.extend_from_slice(chunk.get(..count)?);
        if memchr::memmem::find(&read, b"\r\n\r\n").is_some() {
            return String::from_utf8(read).ok();
        }
        if count == 0 || read.len() > MAX_REQUEST_BYTES {
            return None;
        }
    }
}

/// Parses a request: the response in it, or the HTTP status of the error.
pub(super) fn parse_request(
    head: &str,
    redirect: &str,
    state: &str,
) -> Result<CallbackResponse, &'static str> {
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (method, target) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    let authority = redirect
        .strip_prefix("http://")
        .and_then(|rest| rest.strip_suffix(PATH))
        .unwrap_or_default();
    let host = lines.find_map(|line| {
        line.split_once(':')
            .filter(|(name, _)| name.eq_ignore_ascii_case("host"))
    });
    // A web page whose host name was pointed here (DNS rebinding) sends its own host name.
    if host.is_none_or(|(_, host)| host.trim() != authority) {
        return Err("403 Forbidden");
    }
    if method != "GET" {
        return Err("405 Method Not Allowed");
    }
    let path = target.split('?').next().unwrap_or_default();
    if path != PATH {
        return Err("404 Not Found");
    }
    parse_returned_address(&format!("http://{authority}{target}"), redirect, state)
        .map_err(|_| "400 Bad Request")
}

#[cfg(test)]
mod tests;
