//! The raw reference client over HTTP: the minimal correct asynchronous client of Streamable HTTP.
//!
//! Keep-alive connections from a small pool, a hand-written HTTP/1.1 request with fixed headers,
//! bodies by length or in chunks, answers as JSON or as events, an envelope with the id only. No
//! gate, no validation, no deadlines, no redirects, no TLS.

use std::io::{ErrorKind, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::BytesMut;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::measure::{Contestant, EchoTool, Era, Fault, Tool, many_in_flight};
use crate::raw::field;

/// The minimal room for one read.
const READ_BYTES: usize = 16 * 1024;

/// One session with a server. Clones share its connections.
#[derive(Clone)]
pub(crate) struct RawHttp(Arc<Shared>);

struct Shared {
    /// `127.0.0.1:1234`.
    address: String,
    /// The request line and every header that is the same in all requests.
    head: String,
    echo: EchoTool,
    /// The end of each request's params: the modern era's `_meta`, or nothing.
    meta: &'static str,
    next_id: AtomicU64,
    /// Idle connections; the last one used is taken first.
    idle: Mutex<Vec<Connection>>,
    /// How many connections were opened.
    opened: AtomicU64,
}

struct Connection {
    socket: TcpStream,
    /// One request, written at once.
    out: Vec<u8>,
    /// Bytes that were read and not used yet.
    buffer: BytesMut,
}

/// The head of a response.
#[derive(Default)]
struct Head {
    status: u16,
    session: Option<String>,
    length: usize,
    /// The server closes the connection after this response.
    is_last: bool,
    is_chunked: bool,
    is_events: bool,
}

impl RawHttp {
    /// Opens a session with the demo server at this URL.
    pub(crate) async fn open(url: &str, era: Era) -> Result<Self, Fault> {
        let echo = EchoTool::of_demo(Tool::Echo.name());
        Self::open_with(url, era, echo, None).await
    }

    /// Opens a session with the server at this URL, with this bearer token.
    pub(crate) async fn open_with(
        url: &str,
        era: Era,
        echo: EchoTool,
        token: Option<&str>,
    ) -> Result<Self, Fault> {
        let (address, path) = url
            .strip_prefix("http://")
            .and_then(|rest| rest.split_once('/'))
            .ok_or("the URL has no path")?;
        let version = if era == Era::Legacy {
            "2025-11-25"
        } else {
            "2026-07-28"
        };
        let mut head = format!(
            "POST /{path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: {version}\r\n"
        );
        if let Some(token) = token {
            head.push_str(&format!("Authorization: Bearer {token}\r\n"));
        }
        let (next_id, idle, meta) = (AtomicU64::new(1), Mutex::default(), era.meta());
        let mut shared = Shared {
            address: address.to_owned(),
            head,
            echo,
            meta,
            next_id,
            idle,
            opened: AtomicU64::new(0),
        };
        let (method, params) = era.hello();
        let (hello, answer) = shared.request(method, None, &[params]).await?;
        field(&answer, b"result").ok_or("the server refused the handshake")?;
        if let Some(session) = hello.session {
            shared
                .head
                .push_str(&format!("Mcp-Session-Id: {session}\r\n"));
        }
        if era == Era::Legacy {
            let note = br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
            shared
                .exchange("notifications/initialized", None, note, b"")
                .await?;
        }
        Ok(Self(Arc::new(shared)))
    }
}

impl RawHttp {
    /// Replaces all connections by `width` new ones, each of which has answered a call: servers close
    /// a connection that was idle for some seconds, and may do so just as the next request is sent.
    pub(crate) async fn renew_connections(&self, width: usize) -> Result<(), Fault> {
        self.0.lock().clear();
        many_in_flight(self, width, width).await?;
        Ok(())
    }

    /// How many connections were opened until now.
    pub(crate) fn opened_connections(&self) -> u64 {
        self.0.opened.load(Ordering::Relaxed)
    }

    /// The whole message that answers a call.
    pub(crate) async fn call_for_answer(&self, tool: Tool) -> Result<BytesMut, Fault> {
        let name = match tool {
            Tool::Echo => &*self.0.echo.name,
            Tool::Big => tool.name(),
        };
        let params = [
            "{\"name\":\"",
            name,
            "\",\"arguments\":",
            self.0.echo.arguments,
            self.0.meta,
            "}",
        ];
        let (_, answer) = self.0.request("tools/call", Some(name), &params).await?;
        field(&answer, b"result").ok_or("the call was refused")?;
        Ok(answer)
    }
}

impl RawHttp {
    /// Ends the session, as a client does that ends in good order.
    pub(crate) async fn end(&self) -> Result<(), Fault> {
        let shared = &self.0;
        let mut connection = Connection::open(&shared.address).await?;
        let head = shared.head.replacen("POST", "DELETE", 1);
        let request = format!("{head}Content-Length: 0\r\n\r\n");
        connection.socket.write_all(request.as_bytes()).await?;
        connection.head().await?;
        Ok(())
    }
}

impl Contestant for RawHttp {
    async fn call(&self, tool: Tool) -> Result<usize, Fault> {
        Ok(self.call_for_answer(tool).await?.len())
    }
}

impl Shared {
    /// Makes one request; `params` are the pieces of one JSON object.
    async fn request(
        &self,
        method: &str,
        name: Option<&str>,
        params: &[&str],
    ) -> Result<(Head, BytesMut), Fault> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed).to_string();
        let mut body = Vec::with_capacity(512);
        write!(
            body,
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":"
        )?;
        params
            .iter()
            .for_each(|piece| body.extend_from_slice(piece.as_bytes()));
        body.push(b'}');
        self.exchange(method, name, &body, id.as_bytes()).await
    }

    /// Sends a body and waits for the message with this id. A connection that failed is not used
    /// again.
    async fn exchange(
        &self,
        method: &str,
        name: Option<&str>,
        body: &[u8],
        id: &[u8],
    ) -> Result<(Head, BytesMut), Fault> {
        let mut connection = match self.idle_connection() {
            Some(connection) => connection,
            None => {
                self.opened.fetch_add(1, Ordering::Relaxed);
                Connection::open(&self.address).await?
            }
        };
        let out = &mut connection.out;
        out.clear();
        write!(out, "{}Mcp-Method: {method}\r\n", self.head)?;
        if let Some(name) = name {
            write!(out, "Mcp-Name: {name}\r\n")?;
        }
        write!(out, "Content-Length: {}\r\n\r\n", body.len())?;
        out.extend_from_slice(body);
        connection.socket.write_all(&connection.out).await?;
        let head = connection.head().await?;
        let body = connection.body(&head).await?;
        if !head.is_last {
            self.lock().push(connection);
        }
        if id.is_empty() && head.status == 202 {
            return Ok((head, body));
        }
        let answers = |body: &BytesMut| field(body, b"id") == Some(id);
        match if head.is_events {
            event_with(body, id)
        } else {
            Some(body).filter(answers)
        } {
            Some(message) => Ok((head, message)),
            None => Err(format!("{method}: HTTP {} without an answer", head.status).into()),
        }
    }

    /// A connection that the server has not closed meanwhile, as far as the runtime knows.
    fn idle_connection(&self) -> Option<Connection> {
        let mut idle = self.lock();
        while let Some(connection) = idle.pop() {
            let read = connection.socket.try_read(&mut [0]);
            if read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock) {
                return Some(connection);
            }
        }
        None
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The message of the event that carries this id.
fn event_with(events: BytesMut, id: &[u8]) -> Option<BytesMut> {
    let data = |line: &[u8]| {
        line.strip_prefix(b"data:")
            .filter(|data| field(data, b"id") == Some(id))
            .map(BytesMut::from)
    };
    events[..].split(|&byte| byte == b'\n').find_map(data)
}

impl Connection {
    async fn open(address: &str) -> Result<Self, Fault> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        Ok(Self {
            socket,
            out: Vec::new(),
            buffer: BytesMut::new(),
        })
    }

    async fn head(&mut self) -> Result<Head, Fault> {
        let text = self.until(b"\r\n\r\n").await?;
        let mut lines = std::str::from_utf8(&text)?.split("\r\n");
        let status = lines
            .next()
            .and_then(|line| line.split(' ').nth(1)?.parse().ok())
            .ok_or("no status line")?;
        let mut head = Head {
            status,
            ..Head::default()
        };
        for (name, value) in lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name, value.trim()))
        {
            match name.to_ascii_lowercase().as_str() {
                "content-length" => head.length = value.parse()?,
                "connection" => head.is_last = value.eq_ignore_ascii_case("close"),
                "transfer-encoding" => head.is_chunked = value.eq_ignore_ascii_case("chunked"),
                "content-type" => head.is_events = value.starts_with("text/event-stream"),
                "mcp-session-id" => head.session = Some(value.to_owned()),
                _ => {}
            }
        }
        Ok(head)
    }

    async fn body(&mut self, head: &Head) -> Result<BytesMut, Fault> {
        if !head.is_chunked {
            return self.exactly(head.length).await;
        }
        let mut body = BytesMut::new();
        loop {
            let line = self.until(b"\r\n").await?;
            let size = usize::from_str_radix(std::str::from_utf8(&line)?.trim(), 16)?;
            let chunk = self.exactly(size + 2).await?;
            body.extend_from_slice(&chunk[..size]);
            if size == 0 {
                return Ok(body);
            }
        }
    }

    async fn until(&mut self, end: &[u8]) -> Result<BytesMut, Fault> {
        loop {
            if let Some(at) = memchr::memmem::find(&self.buffer, end) {
                return Ok(self.buffer.split_to(at + end.len()));
            }
            self.fill().await?;
        }
    }

    async fn exactly(&mut self, size: usize) -> Result<BytesMut, Fault> {
        while self.buffer.len() < size {
            self.fill().await?;
        }
        Ok(self.buffer.split_to(size))
    }

    async fn fill(&mut self) -> Result<(), Fault> {
        self.buffer.reserve(READ_BYTES);
        if self.socket.read_buf(&mut self.buffer).await? > 0 {
            Ok(())
        } else {
            Err("the server closed the connection".into())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::net::TcpListener;
    use tokio::time::timeout;

    use super::*;

    const IDLE_LIMIT: Duration = Duration::from_millis(20);

    /// Answers each request with the id of the request, and resets a connection that is idle.
    async fn answer(socket: TcpStream) {
        let _ = socket.set_zero_linger();
        let mut connection = Connection {
            socket,
            out: Vec::new(),
            buffer: BytesMut::new(),
        };
        while let Ok(Ok(head)) = timeout(IDLE_LIMIT, connection.until(b"\r\n\r\n")).await {
            let head = String::from_utf8_lossy(&head);
            let length = head.split("Content-Length: ").nth(1);
            let length = length.and_then(|rest| rest.trim().parse().ok());
            let Ok(body) = connection.exactly(length.unwrap_or(0)).await else {
                return;
            };
            let response = match field(&body, b"id") {
                Some(id) => {
                    let id = String::from_utf8_lossy(id);
                    let message = format!("{{\"id\":{id},\"result\":{{\"text\":\"{id:032}\"}}}}");
                    let length = message.len();
                    format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{message}")
                }
                None => "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n".to_owned(),
            };
            if connection
                .socket
                .write_all(response.as_bytes())
                .await
                .is_err()
            {
                return;
            }
        }
    }

    #[tokio::test]
    async fn connections_that_were_reset_while_idle_are_not_used_again() -> Result<(), Fault> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/mcp", listener.local_addr()?);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(answer(socket));
            }
        });
        let client = RawHttp::open(&url, Era::Legacy).await?;
        many_in_flight(&client, 4, 8).await?;
        // Time passes for the server, as it does while others are measured.
        tokio::time::sleep(IDLE_LIMIT * 3).await;
        client.call(Tool::Echo).await?;
        tokio::time::sleep(IDLE_LIMIT * 3).await;
        client.renew_connections(4).await?;
        let before = client.opened_connections();
        many_in_flight(&client, 4, 8).await?;
        assert_eq!(client.opened_connections(), before);
        Ok(())
    }
}
