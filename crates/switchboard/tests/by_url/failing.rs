//! Tests of failed responses through the whole host: reported in a sentence, repeated only if
//! idempotent, and the server stays.

use std::sync::Arc;
use std::time::{Duration, Instant};

use switchboard::Host;
use switchboard::call::CallError;
use switchboard::config::ServerConfig;
use switchboard::server::State;
use switchboard::session::RequestFault;
use switchboard::store::{MemoryStore, Store};

use crate::peer::{Kind, Peer};
use crate::support::{call, entry, start, state};

const CALL: &str = "POST /mcp tools/call";

/// A modern server that responds to the first request of this method like this.
fn but(method: &'static str, head: &str, body: &str) -> Kind {
    Kind::ModernBut(method, head.to_owned(), body.to_owned())
}

async fn host(entry: ServerConfig) -> Host {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let host = start(entry, &store).await;
    assert!(
        matches!(state(&host), State::Ready { .. }),
        "{}",
        state(&host)
    );
    host
}

fn calls(peer: &Peer) -> usize {
    peer.seen().iter().filter(|seen| seen.line == CALL).count()
}

/// The error of a call with this response; the next call uses the same connection, and nothing is
/// sent twice.
async fn error_of_call(head: &str, body: &str) -> String {
    let peer = Peer::start(Kind::Modern).await;
    let host = host(entry(&peer.url())).await;
    peer.become_kind(but("tools/call", head, body));
    let sentence = call(&host).await.unwrap_err().to_string();
    assert!(
        matches!(state(&host), State::Ready { .. }),
        "{sentence}: {}",
        state(&host)
    );
    assert!(call(&host).await.is_ok(), "{sentence}");
    assert_eq!(calls(&peer), 2, "{sentence}");
    let again = peer
        .seen()
        .iter()
        .filter(|seen| seen.line.ends_with("server/discover"))
        .count();
    assert_eq!(again, 1, "{sentence}: the server stayed");
    host.stop().await;
    sentence
}

/// F23: an HTTP error, a page or a body of another type is one sentence with the start of the body,
/// escaped and truncated.
#[tokio::test]
async fn f23_an_unusable_response_is_quoted_and_the_server_stays() {
    let long = format!("<h1>{}</h1>", "x".repeat(100_000));
    let cases = [
        (
            "500 Oh\r\nContent-Type: text/html",
            "<h1>Oh\u{1b}[2J\u{202e}</h1>\n",
            "HTTP 500: <h1>Oh\\u{1b}[2J\\u{202e}</h1>".to_owned(),
        ),
        ("502 Bad", "", "HTTP 502".to_owned()),
        ("500 Oh\r\nContent-Type: text/html", &long, format!("HTTP 500: {}…", &long[..1024])),
        (
            "200 OK\r\nContent-Type: text/html",
            "<title>Log in</title>",
            "HTTP 200: answered with text/html instead of JSON or events: <title>Log in</title> \
             (is this the URL of an MCP endpoint?)"
                .to_owned(),
        ),
        (
            "200 OK\r\nContent-Type: image/png",
            "\u{89}PNG",
            "HTTP 200: answered with image/png instead of JSON or events: \\u{89}PNG (is this the URL of an MCP endpoint?)"
                .to_owned(),
        ),
    ];
    for (head, body, expected) in cases {
        assert_eq!(
            error_of_call(head, body).await,
            format!("server \"peer\": {expected}")
        );
    }
    // The entry's secrets are redacted even if the server repeats them.
    let leaking = error_of_call("500 Oh", "X-Key was the-key-of-the-entry").await;
    assert!(
        leaking.starts_with("server \"peer\": HTTP 500: X-Key was "),
        "{leaking}"
    );
    assert!(!leaking.contains("the-key-of-the-entry"), "{leaking}");
}

/// F22: a call that may have been executed is not repeated; the error states the server's
/// Retry-After.
#[tokio::test]
async fn f22_a_busy_server_is_reported_with_its_retry_after() {
    let output = error_of_call("429 Slow Down\r\nRetry-After: 1", "too many").await;
    assert_eq!(
        output,
        "server \"peer\": HTTP 429: too many; retry after 1 s"
    );
    let error = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"full"}}"#;
    let output = error_of_call(
        "503 Busy\r\nContent-Type: application/json\r\nRetry-After: 99999",
        error,
    )
    .await;
    assert_eq!(
        output,
        "server \"peer\": HTTP 503: full; retry after 3600 s"
    );
}

/// F22: an idempotent request is repeated once, after Retry-After: an idempotent tool, a list, the
/// handshake.
#[tokio::test]
async fn f22_idempotent_requests_are_repeated_once_after_retry_after() {
    for method in ["server/discover", "tools/list", "tools/call"] {
        let peer = Peer::start(but(method, "503 Busy\r\nRetry-After: 1", "later")).await;
        let began = Instant::now();
        let mut entry = entry(&peer.url());
        entry.idempotent_tools = vec!["one".to_owned()];
        let host = host(entry).await;
        assert_eq!(
            call(&host).await.unwrap().untrusted_text().unwrap().raw(),
            "done",
            "{method}"
        );
        assert!(
            began.elapsed() >= Duration::from_secs(1),
            "{method}: {:?}",
            began.elapsed()
        );
        let asked = |line: &str| {
            peer.seen()
                .iter()
                .filter(|seen| seen.line == format!("POST /mcp {line}"))
                .count()
        };
        for other in ["server/discover", "tools/list", "tools/call"] {
            assert_eq!(
                asked(other),
                if other == method { 2 } else { 1 },
                "{method}: {other}"
            );
        }
        host.stop().await;
    }
}

/// F22: a handshake whose Retry-After is beyond our deadline is retried then, not in half a second.
#[tokio::test]
async fn f22_a_retry_after_beyond_the_connect_deadline_is_honoured() {
    let peer = Peer::start(but(
        "server/discover",
        "503 Busy\r\nRetry-After: 600",
        "later",
    ))
    .await;
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let host = start(entry(&peer.url()), &store).await;
    let State::Backoff {
        attempt: 1,
        retry_at,
        ..
    } = state(&host)
    else {
        panic!("{}", state(&host))
    };
    let wait = retry_at
        .duration_since(std::time::SystemTime::now())
        .unwrap();
    assert!(
        wait > Duration::from_secs(500) && wait <= Duration::from_secs(600),
        "{wait:?}"
    );
    host.stop().await;
}

/// T26: a response over the size limit fails its call with that error, and the server stays.
#[tokio::test]
async fn t26_an_oversized_response_fails_its_call_alone() {
    const LIMIT: usize = 64 * 1024;
    let large = format!(
        r#"{{"jsonrpc":"2.0","id":"ID","result":{{"content":[{{"type":"text","text":"{}"}}]}}}}"#,
        "x".repeat(LIMIT)
    );
    let event = format!("event: message\ndata: {large}\n\n");
    for (kind, body) in [("application/json", large), ("text/event-stream", event)] {
        let peer = Peer::start(Kind::Modern).await;
        let host = host(ServerConfig {
            max_message_bytes: LIMIT,
            ..entry(&peer.url())
        })
        .await;
        peer.become_kind(but(
            "tools/call",
            &format!("200 OK\r\nContent-Type: {kind}"),
            &body,
        ));
        let error = call(&host).await.unwrap_err();
        let is_too_large = matches!(
            &error,
            CallError::Request {
                fault: RequestFault::TooLarge { limit: LIMIT },
                ..
            }
        );
        assert!(is_too_large, "{kind}: {error}");
        assert_eq!(
            error.to_string(),
            "server \"peer\": the answer is too large: more than 65536 bytes",
            "{kind}"
        );
        assert!(
            matches!(state(&host), State::Ready { .. }),
            "{kind}: {}",
            state(&host)
        );
        assert!(call(&host).await.is_ok(), "{kind}");
        assert_eq!(calls(&peer), 2, "{kind}");
        host.stop().await;
    }
}
