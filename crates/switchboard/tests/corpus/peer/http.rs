//! The peer over HTTP, written to the socket directly: exactly what is scripted is sent.

use std::sync::Arc;

use switchboard::auth::NoCredentials;
use switchboard::transport::http::HttpTarget;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;

use super::{MAX_BYTES, Reaction, Script, Wire};

/// The open stream of HTTP+SSE; responses to a POST are written there.
type Stream = Arc<Mutex<Option<TcpStream>>>;

/// Serves until the test ends; returns its address.
pub async fn serve(wire: Wire, script: Arc<Script>) -> HttpTarget {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap())
        .parse()
        .unwrap();
    let stream = Stream::default();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            socket.set_nodelay(true).unwrap();
            tokio::spawn(connection(wire, socket, script.clone(), stream.clone()));
        }
    });
    HttpTarget {
        url,
        headers: Vec::new(),
        credentials: Arc::new(NoCredentials),
        max_message_bytes: MAX_BYTES,
    }
}

/// One connection, request after request.
async fn connection(wire: Wire, mut socket: TcpStream, script: Arc<Script>, stream: Stream) {
    let mut buffer = Vec::new();
    while let Some((line, body)) = request(&mut socket, &mut buffer).await {
        if line.starts_with("GET") && wire == Wire::Sse {
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nevent: endpoint\ndata: /messages\n\n";
            // Locked while it opens: a message may be posted as soon as the first event is read.
            let mut stream = stream.lock().await;
            socket.write_all(head.as_bytes()).await.unwrap();
            *stream = Some(socket);
            return;
        }
        if !line.starts_with("POST") {
            respond(&mut socket, "405 Method Not Allowed", "text/plain", "").await;
            continue;
        }
        let Reaction { before, answer } = script.react(&body);
        let events: String = before
            .iter()
            .chain(&answer)
            .map(|message| format!("event: message\ndata: {message}\n\n"))
            .collect();
        match (wire, answer) {
            (Wire::Sse, _) => {
                respond(&mut socket, "202 Accepted", "text/plain", "").await;
                let mut stream = stream.lock().await;
                stream
                    .as_mut()
                    .expect("the stream is open")
                    .write_all(events.as_bytes())
                    .await
                    .unwrap();
            }
            (_, None) => respond(&mut socket, "202 Accepted", "text/plain", "").await,
            (Wire::HttpJson, Some(answer)) => {
                respond(&mut socket, "200 OK", "application/json", &answer).await
            }
            (_, Some(_)) => respond(&mut socket, "200 OK", "text/event-stream", &events).await,
        }
    }
}

/// The request line and the body; `None` at the end of the connection.
async fn request(socket: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<(String, String)> {
    let head_end = loop {
        if let Some(end) = buffer.windows(4).position(|part| part == b"\r\n\r\n") {
            break end + 4;
        }
        more(socket, buffer).await?;
    };
    let head = String::from_utf8(buffer[..head_end].to_vec()).unwrap();
    let length = head.lines().find_map(|line| {
        line.to_ascii_lowercase()
            .strip_prefix("content-length:")?
            .trim()
            .parse()
            .ok()
    });
    let end = head_end + length.unwrap_or(0_usize);
    while buffer.len() < end {
        more(socket, buffer).await?;
    }
    let body = String::from_utf8(buffer[head_end..end].to_vec()).unwrap();
    buffer.drain(..end);
    Some((head.lines().next()?.to_owned(), body))
}

async fn more(socket: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<()> {
    socket
        .read_buf(buffer)
        .await
        .ok()
        .filter(|count| *count > 0)
        .map(drop)
}

async fn respond(socket: &mut TcpStream, status: &str, kind: &str, body: &str) {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    // The requester may have gone.
    let _ = socket.write_all(format!("{head}{body}").as_bytes()).await;
}
