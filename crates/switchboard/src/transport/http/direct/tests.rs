//! Tests of the pool against a server that sends fixed text.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use reqwest::header::HeaderMap;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::*;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A listener, the pool to it, and a URL there.
async fn pool() -> (DirectPool, Url, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url: Url = format!("http://{}/mcp", listener.local_addr().unwrap())
        .parse()
        .unwrap();
    (DirectPool::for_url(&url).unwrap(), url, listener)
}

/// Sends a request and reads the whole response.
async fn send(pool: &DirectPool, url: &Url, body: &Bytes) -> Result<Vec<u8>, TransportFault> {
    let headers = HeaderMap::new();
    let mut answer = pool
        .send(&HttpRequest::post(url, &headers, body), "here")
        .await?;
    let mut whole = Vec::new();
    while let Some(chunk) = answer
        .chunk()
        .await
        .map_err(|error| connection_fault::direct_fault(&error, "here"))?
    {
        whole.extend_from_slice(&chunk);
    }
    Ok(whole)
}

/// Waits until the idle connection has received the server's close.
async fn closed_by_server(pool: &DirectPool) {
    let connection = pool.idle().pop_back().unwrap();
    connection.socket().readable().await.unwrap();
    pool.idle().push_back(connection);
}

/// Answers this many requests on each connection, then closes it; reports each connection.
async fn serve(listener: TcpListener, times: usize, connected: mpsc::UnboundedSender<()>) {
    loop {
        let mut socket = listener.accept().await.unwrap().0;
        connected.send(()).unwrap();
        for _ in 0..times {
            assert_ne!(socket.read(&mut [0; 4096]).await.unwrap(), 0);
            socket.write_all(OK.as_bytes()).await.unwrap();
        }
    }
}

async fn check(times: usize, expected: usize) {
    let (pool, url, listener) = pool().await;
    let (connected, mut connections) = mpsc::unbounded_channel();
    let serving = tokio::spawn(serve(listener, times, connected));
    for number in 1..=6 {
        assert_eq!(send(&pool, &url, &Bytes::new()).await, Ok(b"ok".to_vec()));
        if number % times == 0 {
            closed_by_server(&pool).await;
        }
    }
    serving.abort();
    let mut count = 0;
    while connections.recv().await.is_some() {
        count += 1;
    }
    assert_eq!(count, expected, "{times} requests on a connection");
}

#[tokio::test]
async fn a_connection_is_reused_until_the_server_closes_it() {
    check(7, 1).await;
    check(2, 3).await;
    check(1, 6).await;
}

/// The outcome with a server that responds with this text: the response, and the number of idle
/// connections.
async fn outcome(text: &'static str) -> (Result<String, String>, usize) {
    let (pool, url, listener) = pool().await;
    let serving = tokio::spawn(async move {
        let mut socket = listener.accept().await.unwrap().0;
        assert_ne!(socket.read(&mut [0; 4096]).await.unwrap(), 0);
        socket.write_all(text.as_bytes()).await.unwrap();
        // Closed for writing; waits for the other side.
        socket.shutdown().await.unwrap();
        let _ = socket.read(&mut [0; 4096]).await;
    });
    let answer = send(&pool, &url, &Bytes::from_static(b"{}")).await;
    let resting = pool.idle().len();
    drop(pool);
    serving.await.unwrap();
    (
        answer
            .map(|body| String::from_utf8(body).unwrap())
            .map_err(|fault| fault.to_string()),
        resting,
    )
}

#[tokio::test]
async fn f24_a_response_ends_where_its_head_says_and_a_truncated_one_is_a_fault() {
    let body_fault =
        "the connection to here ended before the response was complete: closed by the server";
    for (text, expected, resting) in [
        (OK, Ok("ok"), 1),
        (
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            Ok("ok"),
            1,
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\nX: 1\r\n\r\n",
            Ok("ok"),
            1,
        ),
        ("HTTP/1.1 200 OK\r\n\r\nok", Ok("ok"), 0),
        (
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
            Ok("ok"),
            0,
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n\r\n",
            Ok("ok"),
            0,
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok",
            Err(body_fault),
            0,
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n",
            Err(body_fault),
            0,
        ),
        ("HTTP/1.1 200 OK\r\nContent-", Err(body_fault), 0),
        ("", Err(body_fault), 0),
        (
            "SSH-2.0-x\r\n",
            Err("invalid HTTP response from here: invalid HTTP version"),
            0,
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nokay",
            Err("invalid HTTP response from here: a chunk is longer than its size"),
            0,
        ),
    ] {
        let expected = (expected.map(str::to_owned).map_err(str::to_owned), resting);
        assert_eq!(outcome(text).await, expected, "{text:?}");
    }
}

/// A server may reject a body before it has read it: its response counts, and the rest of the body
/// is not sent.
#[tokio::test]
async fn a_response_that_arrives_before_the_request_is_sent_is_read() {
    let (pool, url, listener) = pool().await;
    let serving = tokio::spawn(async move {
        let mut socket = listener.accept().await.unwrap().0;
        assert_ne!(socket.read(&mut [0; 4096]).await.unwrap(), 0);
        socket
            .write_all(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
            .await
            .unwrap();
        socket
    });
    let body = Bytes::from(vec![b'x'; 32 << 20]);
    assert_eq!(send(&pool, &url, &body).await, Ok(b"no".to_vec()));
    assert_eq!(pool.idle().len(), 0);
    drop(serving.await.unwrap());
}

/// A server may begin its response and read on: only a refusal ends the request.
#[tokio::test]
async fn the_rest_of_a_request_is_sent_while_its_response_is_read() {
    const BODY: usize = 32 << 20;
    let (pool, url, listener) = pool().await;
    let serving = tokio::spawn(async move {
        let mut socket = listener.accept().await.unwrap().0;
        let (mut received, mut buffer) = (0, vec![0; 1 << 20]);
        let count = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == b'~').count();
        let first = socket.read(&mut buffer[..4096]).await.unwrap();
        received += count(&buffer[..first]);
        socket
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
            .await
            .unwrap();
        while received < BODY {
            match socket.read(&mut buffer).await.unwrap() {
                0 => break,
                read => received += count(&buffer[..read]),
            }
        }
        socket.write_all(b"ok").await.unwrap();
        received
    });
    let body = Bytes::from(vec![b'~'; BODY]);
    assert_eq!(send(&pool, &url, &body).await, Ok(b"ok".to_vec()));
    assert_eq!(serving.await.unwrap(), BODY);
    assert_eq!(pool.idle().len(), 0);
}

/// A peer without power sends nothing: only TCP keep-alive detects it.
#[tokio::test]
async fn a_connection_uses_tcp_keep_alive() {
    let (pool, _, _listener) = pool().await;
    let connection = pool.connect("here").await.unwrap();
    let socket = connection.socket();
    assert!(socket.nodelay().unwrap());
    let options = socket2::SockRef::from(socket);
    assert!(options.keepalive().unwrap());
    assert_eq!(
        options.tcp_keepalive_time().unwrap(),
        Duration::from_secs(30)
    );
    assert_eq!(
        options.tcp_keepalive_interval().unwrap(),
        Duration::from_secs(30)
    );
}
