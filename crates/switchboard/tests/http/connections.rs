//! Tests of failed and broken connections, each with its own message; and of proxies.

use switchboard::config::Protocol;
use switchboard::session::{OpenFault, RequestFault, Session};
use switchboard::transport::TransportFault;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

use crate::peer::bind_without_listening;
use crate::support::*;

/// The error of opening a session at this URL.
async fn fault(url: &str) -> String {
    let opened = Session::open(&connector(target(url)), options(Protocol::Legacy)).await;
    opened.unwrap_err().to_string()
}

#[tokio::test]
async fn f24_a_refused_connection_is_reported() {
    let socket = bind_without_listening(([127, 0, 0, 1], 0).into());
    let place = socket.local_addr().unwrap();
    assert_eq!(
        fault(&format!("http://{place}/")).await,
        format!("{place} refused the connection (is the server running?)")
    );
}

#[tokio::test]
async fn f24_an_unknown_host_is_reported() {
    let expected = "cannot resolve nowhere.invalid:80 (check the URL)";
    assert_eq!(fault("http://nowhere.invalid/mcp").await, expected);
}

/// The listener accepts connections and sends nothing, so that the TLS handshake never completes;
/// in paused time.
#[tokio::test(start_paused = true)]
async fn f24_a_connection_timeout_is_reported() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let place = listener.local_addr().unwrap();
    assert_eq!(
        fault(&format!("https://{place}/")).await,
        format!("no connection to {place} within 10 s")
    );
}

#[tokio::test]
async fn f24_a_reset_before_and_after_the_request_are_distinguished() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let place = listener.local_addr().unwrap();
    let resetting = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            // Unread data would reset the connection as well, but later.
            let _ = stream.read(&mut [0; 4096]).await;
            stream.set_zero_linger().unwrap();
        }
    });
    assert_eq!(
        fault(&format!("https://{place}/")).await,
        format!("{place} reset the connection before it was established")
    );
    assert_eq!(
        fault(&format!("http://{place}/")).await,
        format!("{place} reset the connection before the response was complete")
    );
    resetting.abort();
}

#[tokio::test]
async fn f24_a_server_without_tls_is_reported() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let place = listener.local_addr().unwrap();
    let speaking = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.read(&mut [0; 4096]).await;
        let _ =
            tokio::io::AsyncWriteExt::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n")
                .await;
    });
    let message = fault(&format!("https://{place}/")).await;
    assert!(
        message.starts_with(&format!("TLS with {place} failed: ")),
        "{message}"
    );
    speaking.await.unwrap();
}

#[tokio::test]
async fn f24_a_broken_exchange_is_lost_and_an_unsent_request_is_not_sent() {
    let (session, mut peer) = modern().await;
    let reading = read(&session, "a:b");
    let asked = peer.expect("resources/read").await;
    asked.send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"jsonrpc\"");
    asked.reset();
    let fault = outcome(reading).await.unwrap_err();
    assert!(
        matches!(&fault, RequestFault::Transport(TransportFault::Lost(_))),
        "{fault}"
    );
    let port = peer.port;
    let _refusing = peer.refuse_connections().await;
    let fact = format!("127.0.0.1:{port} refused the connection (is the server running?)");
    assert_eq!(
        outcome(read(&session, "a:b")).await,
        Err(RequestFault::Transport(TransportFault::NotSent(fact)))
    );
}

#[tokio::test]
async fn a_proxy_of_the_environment_is_used_except_for_exempt_hosts() {
    for (name, value) in [
        ("HTTP_PROXY", None),
        ("http_proxy", None),
        ("ALL_PROXY", None),
        ("http_proxy", Some("127.0.0.0/8")),
    ] {
        let mut proxy = Peer::start().await;
        let mut peer = Peer::start().await;
        let url = peer.url();
        let through = format!("http://127.0.0.1:{}", proxy.port);
        let mut variables = vec![(name, through.as_str())];
        variables.extend(value.map(|exempt| ("NO_PROXY", exempt)));
        let connector = connector_in(&variables, target(&url));
        let opening =
            tokio::spawn(async move { Session::open(&connector, options(Protocol::Modern)).await });
        let asked = match value {
            None => {
                let asked = proxy.next().await;
                assert_eq!(asked.line, format!("POST {url}"), "{name}");
                asked
            }
            Some(_) => peer.expect("server/discover").await,
        };
        asked.status(500, "");
        assert!(matches!(
            opening.await.unwrap(),
            Err(OpenFault::Transport(_))
        ));
    }
}

/// F24: if a proxy refuses, the error names both, since it is not known which one failed.
#[tokio::test]
async fn f24_a_possibly_faulty_proxy_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closed = format!("http://me:secret@{}", listener.local_addr().unwrap());
    drop(listener);
    for (variables, place) in [
        (
            &[("HTTP_PROXY", closed.as_str())][..],
            "127.0.0.1:9 or the proxy of HTTP_PROXY",
        ),
        (
            &[("all_proxy", closed.as_str())],
            "127.0.0.1:9 or the proxy of all_proxy",
        ),
        (&[("https_proxy", closed.as_str())], "127.0.0.1:9"),
        (
            &[
                ("HTTP_PROXY", closed.as_str()),
                ("NO_PROXY", "example.com, 127.0.0.1"),
            ],
            "127.0.0.1:9",
        ),
    ] {
        let connector = connector_in(variables, target("http://127.0.0.1:9/mcp"));
        let fault = Session::open(&connector, options(Protocol::Legacy))
            .await
            .unwrap_err()
            .to_string();
        assert_eq!(
            fault,
            format!("{place} refused the connection (is the server running?)")
        );
    }
}
