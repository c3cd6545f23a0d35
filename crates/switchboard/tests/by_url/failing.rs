//! Answers that are none, through the whole host: told in a sentence, sent again only where that
//! does no harm, and the server stays.

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

/// A modern server that answers the first request of this method like this.
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

/// The sentence of a call that is answered like this; the call after it is served by the same
/// connection, and nothing was sent twice.
async fn told(head: &str, body: &str) -> String {
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

/// F23: an error of HTTP, a page, a body of another kind: one sentence with the start of what came,
/// made safe and cut.
#[tokio::test]
async fn f23_a_call_that_is_answered_with_no_answer_says_what_came_and_the_server_stays() {
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
            told(head, body).await,
            format!("server \"peer\": {expected}")
        );
    }
    // What the entry keeps secret is not repeated, though the server repeats it.
    let leaking = told("500 Oh", "X-Key was the-key-of-the-entry").await;
    assert!(
        leaking.starts_with("server \"peer\": HTTP 500: X-Key was "),
        "{leaking}"
    );
    assert!(!leaking.contains("the-key-of-the-entry"), "{leaking}");
}

/// F22: a call that may have been executed is not sent again; the sentence says when the server
/// wants to be asked.
#[tokio::test]
async fn f22_a_busy_server_is_told_of_with_the_time_it_named() {
    let said = told("429 Slow Down\r\nRetry-After: 1", "too many").await;
    assert_eq!(said, "server \"peer\": HTTP 429: too many; retry after 1 s");
    let error = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"full"}}"#;
    let said = told(
        "503 Busy\r\nContent-Type: application/json\r\nRetry-After: 99999",
        error,
    )
    .await;
    assert_eq!(said, "server \"peer\": HTTP 503: full; retry after 3600 s");
}

/// F22: what does no harm twice is sent once more, when the server wants it: an idempotent tool, a
/// list, the handshake.
#[tokio::test]
async fn f22_what_does_no_harm_waits_for_a_busy_server_and_is_sent_once_more() {
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

/// F22: a handshake that the server wants to see only after our deadline is left until then, and
/// not tried again in half a second.
#[tokio::test]
async fn f22_a_server_that_is_busy_for_longer_than_a_handshake_may_take_is_left_alone() {
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

/// T26: an answer past the bound fails its call as what it is, and the server stays.
#[tokio::test]
async fn t26_an_answer_that_is_too_large_fails_its_call_and_no_more() {
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
