//! A connection begins with the reader of plain requests and continues with hyper at the first
//! request that is not plain. What one reader takes for one request the other must, too: otherwise a
//! proxy in front of the gateway could be made to pass on a request that it did not check.

use serde_json::json;
use switchboard_gateway::RefusalReason;
use switchboard_gateway::edge::http::HttpLimits;
use tokio::io::AsyncWriteExt;

use super::client::{TestEdge, TestResponse, read_responses, request, short_limits};

/// How the same bytes reach the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sending {
    /// After a request that only hyper serves.
    ToHyper,
    Whole,
    InSingleBytes,
    /// Right after a plain request, in one piece with it.
    AfterPlain,
}

/// T20: odd requests get the same responses, are refused for the same reasons, and leave the
/// connection in the same state, whichever reader they reach and in whatever pieces.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t20_both_readers_of_requests_understand_the_same() {
    let limits = HttpLimits {
        max_body_bytes: 1 << 20,
        ..HttpLimits::default()
    };
    let edge = TestEdge::start("", limits).await;
    let session = edge.open_session().await;
    let mut different = Vec::new();
    for (name, bytes) in odd_requests(&edge, &session) {
        let by_hyper = outcome(&edge, &session, &bytes, Sending::ToHyper).await;
        for sending in [Sending::Whole, Sending::InSingleBytes, Sending::AfterPlain] {
            let found = outcome(&edge, &session, &bytes, sending).await;
            if !is_same(&found, &by_hyper) {
                different.push(format!(
                    "{name} {sending:?}: {found:?}\nhyper: {by_hyper:?}"
                ));
            }
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n\n"));
}

/// The responses to the bytes and to a request after them, and the reasons of refusals.
type Outcome = (Vec<TestResponse>, Vec<&'static str>);

/// A request that was refused may be the last of its connection: its body is not waited for.
fn is_same(a: &Outcome, b: &Outcome) -> bool {
    let shorter = a.0.len().min(b.0.len());
    let is_refused = |outcome: &Outcome| outcome.0.first().is_some_and(|first| first.status >= 400);
    let is_cut = shorter == 1 && is_refused(a);
    a.1 == b.1 && (a.0 == b.0 || is_cut && a.0[0] == b.0[0])
}

async fn outcome(edge: &TestEdge, session: &str, bytes: &[u8], sending: Sending) -> Outcome {
    let before = match sending {
        Sending::ToHyper => edge.hyper_request(),
        Sending::AfterPlain => edge.post("/mcp", session, &request(8, "ping", json!({}))),
        Sending::Whole | Sending::InSingleBytes => String::new(),
    };
    let after = format!("{session}Connection: close\r\n");
    let after = edge.post("/mcp", &after, &request(9, "ping", json!({})));
    let all = [before.as_bytes(), bytes, after.as_bytes()].concat();
    edge.refusals.take();
    let (mut reading, mut writing) = edge.connect().await.into_split();
    let writing = async move {
        // A gateway that refuses may close before it has read everything.
        if sending == Sending::InSingleBytes {
            for byte in all {
                let _ = writing.write_all(&[byte]).await;
                tokio::task::yield_now().await;
            }
        } else {
            let _ = writing.write_all(&all).await;
        }
        writing
    };
    let (mut responses, _writing) = tokio::join!(read_responses(&mut reading), writing);
    if !before.is_empty() && !responses.is_empty() {
        responses.remove(0);
    }
    let refusals = edge.refusals.take();
    (
        responses,
        refusals.iter().map(|reason| reason.as_str()).collect(),
    )
}

/// T20: the host of a target in absolute form counts instead of `Host`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t20_a_foreign_host_in_the_target_is_refused() {
    let edge = TestEdge::start("", short_limits()).await;
    let session = edge.open_session().await + "Connection: close\r\n";
    for (target, status) in [
        ("http://localhost/mcp", 200),
        ("http://evil.example/mcp", 403),
    ] {
        let post = edge.post(target, &session, &request(1, "ping", json!({})));
        assert_eq!(edge.send(&post).await[0].status, status, "{target}");
    }
    assert_eq!(edge.refusals.take(), [RefusalReason::ForeignHost]);
}

fn odd_requests(edge: &TestEdge, session: &str) -> Vec<(String, Vec<u8>)> {
    let ping = request(1, "ping", json!({}));
    let length = ping.len();
    let plain = edge.post("/mcp", session, &ping);
    let mut odd: Vec<(String, Vec<u8>)> = vec![("plain".into(), plain.clone().into_bytes())];
    // Lines in the place of `Content-Length`, and the body behind them.
    let chunked = format!("{length:x}\r\n{ping}\r\n0\r\n\r\n");
    let number = length.to_string();
    for (lines, body) in [
        ("", ""),
        ("", &*ping),
        ("Content-Length: #\r\nContent-Length: #\r\n", &ping),
        ("Content-Length: #\r\nContent-Length: 1\r\n", &ping),
        ("Content-Length: 1\r\nContent-Length: #\r\n", &ping),
        ("Content-Length: #, #\r\n", &ping),
        ("Content-Length: +#\r\n", &ping),
        ("Content-Length: -#\r\n", &ping),
        ("Content-Length: 0x#\r\n", &ping),
        ("Content-Length: #.0\r\n", &ping),
        ("Content-Length: 000#\r\n", &ping),
        ("Content-Length: 00000000000000000000000000#\r\n", &ping),
        ("Content-Length: 99999999999999999999999\r\n", &ping),
        ("Content-Length: 18446744073709551615\r\n", &ping),
        ("Content-Length: 2000000\r\n", &ping),
        ("Content-Length: 9999999999\r\n", &ping),
        ("Content-Length:#\r\n", &ping),
        ("Content-Length:\t # \t\r\n", &ping),
        ("Content-Length : #\r\n", &ping),
        (" Content-Length: #\r\n", &ping),
        ("Content-Length: # #\r\n", &ping),
        ("Content-Length:\r\n", &ping),
        ("Content-Length:\r\n #\r\n", &ping),
        ("Content-Length: #\r\n X: y\r\n", &ping),
        ("Content-Length: #\r\n\tX: y\r\n", &ping),
        ("content-length: #\r\n", &ping),
        ("CONTENT-LENGTH: #\r\n", &ping),
        ("Content_Length: #\r\n", &ping),
        ("Content-Length: 0\r\n", &ping),
        ("Content-Length: 0\r\n", ""),
        ("Content-Length: #\n", &ping),
        ("Content-Length: #\r", &ping),
        ("Content-Length: #\r\r\n", &ping),
        ("Content-Length: #\n\nX: y\r\n", &ping),
        ("Content-Length: #\r\nX: a\0b\r\n", &ping),
        ("Content-Length: #\r\nX: a\rb\r\n", &ping),
        ("Content-Length: #\r\nX: \u{7f}\r\n", &ping),
        ("Content-Length: #\r\nX: \u{e9}\r\n", &ping),
        ("Content-Length: #\r\nX\u{e9}: y\r\n", &ping),
        ("Content-Length: #\r\nX(y): y\r\n", &ping),
        ("Content-Length: #\r\n: y\r\n", &ping),
        ("Content-Length: #\r\nno colon\r\n", &ping),
        ("Content-Length: #\r\nX:\r\n", &ping),
        ("Transfer-Encoding: chunked\r\n", &chunked),
        (
            "Transfer-Encoding: chunked\r\nContent-Length: #\r\n",
            &chunked,
        ),
        (
            "Content-Length: #\r\nTransfer-Encoding: chunked\r\n",
            &chunked,
        ),
        (
            "Content-Length: #\r\nTransfer-Encoding: identity\r\n",
            &ping,
        ),
        ("Content-Length: #\r\nTransfer-Encoding:\r\n", &ping),
        (
            "Content-Length: #\r\nTransfer-Encoding : chunked\r\n",
            &chunked,
        ),
        (
            "Content-Length: #\r\nTransfer-Encoding: chunked, gzip\r\n",
            &chunked,
        ),
        (
            "Content-Length: #\r\nTransfer-Encoding: xchunked\r\n",
            &chunked,
        ),
        ("Content-Length: #\r\nExpect: 100-continue\r\n", &ping),
        ("Content-Length: #\r\nExpect: other\r\n", &ping),
        ("Content-Length: #\r\nConnection: close\r\n", &ping),
        ("Content-Length: #\r\nConnection: Keep-Alive\r\n", &ping),
        (
            "Content-Length: #\r\nConnection: keep-alive, close\r\n",
            &ping,
        ),
        (
            "Content-Length: #\r\nConnection: keep-alive\r\nConnection: close\r\n",
            &ping,
        ),
        (
            "Content-Length: #\r\nConnection: close\r\nConnection: keep-alive\r\n",
            &ping,
        ),
        (
            "Content-Length: #\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n",
            &ping,
        ),
        ("Content-Length: #\r\nUpgrade: websocket\r\n", &ping),
        ("Content-Length: #\r\nTrailer: X\r\n", &ping),
        ("Content-Length: #\r\nTE: trailers\r\n", &ping),
        ("Content-Length: #\r\nContent-Encoding: gzip\r\n", &ping),
        ("Content-Length: #\r\nHost: localhost\r\n", &ping),
        (
            "Content-Length: #\r\nOrigin: http://evil.example\r\n",
            &ping,
        ),
        ("Content-Length: #\r\nOrigin: null\r\n", &ping),
        ("Content-Length: #\r\nOrigin: http://localhost\r\n", &ping),
        ("Content-Length: #\r\nAuthorization: Bearer x\r\n", &ping),
        ("Content-Length: #\r\nMcp-Session-Id: x\r\n", &ping),
        ("Content-Length: #\r\nContent-Type: text/plain\r\n", &ping),
        (
            "Content-Length: #\r\nMCP-Protocol-Version: 1999-01-01\r\n",
            &ping,
        ),
        (
            "Content-Length: #\r\nMCP-Protocol-Version: 2025-11-25\r\n",
            &ping,
        ),
        (
            "Content-Length: #\r\nMCP-Protocol-Version: 2026-07-28\r\n",
            &ping,
        ),
    ] {
        let lines = lines.replace('#', &number);
        let text = format!("{}{session}{lines}\r\n{body}", edge.post_lines("/mcp"));
        odd.push((format!("{lines:?}"), text.into_bytes()));
    }
    let filler = |count: usize| "X-Filler: x\r\n".repeat(count);
    let long = format!("X-Long: {}\r\n", "x".repeat(7 << 10));
    for (from, to) in [
        ("POST ", "PUT "),
        ("POST ", "OPTIONS "),
        ("POST ", "post "),
        ("POST ", "POST  "),
        ("POST ", " POST "),
        ("POST ", "\r\nPOST "),
        ("POST ", "\r\n\r\nPOST "),
        ("POST ", "\nPOST "),
        ("POST ", "\0POST "),
        ("HTTP/1.1", "HTTP/1.0"),
        ("HTTP/1.1", "HTTP/1.2"),
        ("HTTP/1.1", "HTTP/2.0"),
        ("HTTP/1.1", "http/1.1"),
        ("HTTP/1.1", "HTTP/1.1 "),
        (" HTTP/1.1", ""),
        (" HTTP/1.1\r\n", " HTTP/1.1\n"),
        ("/mcp ", "/mcp?a=b "),
        ("/mcp ", "/mcp# "),
        ("/mcp ", "/mcp/ "),
        ("/mcp ", "//mcp "),
        ("/mcp ", "/mcp/none "),
        ("/mcp ", "/mcp/server-card "),
        ("/mcp ", "/MCP "),
        ("/mcp ", "/%6dcp "),
        ("/mcp ", "/mcp/.. "),
        ("/mcp ", "/./mcp "),
        ("/mcp ", "/sse "),
        ("/mcp ", "/message "),
        ("/mcp ", "/nothing "),
        ("/mcp ", "mcp "),
        ("/mcp ", "* "),
        ("/mcp ", "http://localhost/mcp "),
        ("/mcp ", "http://evil.example/mcp "),
        ("/mcp ", "/mcp<> "),
        ("/mcp ", "/mcp\u{e9} "),
        ("/mcp ", "/m\tcp "),
        ("Host: ", "host: "),
        ("Host: ", "hOsT:"),
        ("Host: ", "Host : "),
        ("Host: ", "X-Host: "),
        ("Host: ", "Host: evil.example\r\nHost: "),
        ("Host: 127", "Host: evil.127"),
        ("Host: ", "Host: user@"),
        ("Authorization: ", "AUTHORIZATION: "),
        ("Authorization: ", "X-Authorization: "),
        ("Authorization: Bearer", "Authorization: bearer"),
        ("Authorization: Bearer", "Authorization: Basic"),
        ("Authorization: Bearer ", "Authorization: Bearer x"),
        ("Content-Type: application/json", "X: y"),
        ("Content-Type: application/json", "Content-Type: text/plain"),
        (
            "Content-Type: application/json",
            "Content-Type: APPLICATION/JSON; charset=utf-8",
        ),
        ("Accept: application/json, text/event-stream", "X: y"),
        (
            "Accept: application/json, text/event-stream",
            "Accept: application/json",
        ),
        ("Accept: application/json, text/event-stream", "Accept: */*"),
        ("Mcp-Session-Id: ", "mcp-session-id: "),
        ("Mcp-Session-Id: ", "X-Session: "),
        ("Mcp-Session-Id: ", "Mcp-Session-Id: x"),
        ("\"ping\"", "\"pi\0g\""),
        ("\"ping\"", "\"none\""),
        ("{\"", "[{\""),
        ("{\"", "x{\""),
        ("Host: ", &format!("{}Host: ", filler(50))),
        ("Host: ", &format!("{}Host: ", filler(70))),
        ("Host: ", &format!("{}Host: ", filler(94))),
        ("Host: ", &format!("{}Host: ", filler(95))),
        ("Host: ", &format!("{}Host: ", filler(200))),
        ("Host: ", &format!("{long}Host: ")),
        ("Host: ", &format!("{long}{long}Host: ")),
        ("Host: ", &format!("{}Host: ", long.repeat(10))),
    ] {
        assert!(plain.contains(from), "{from}");
        let mut name = format!("{from:?} -> {to:?}");
        name.truncate(100);
        odd.push((name, plain.replacen(from, to, 1).into_bytes()));
    }
    let without_returns = plain.replace("\r\n", "\n");
    odd.push(("line feeds".into(), without_returns.into_bytes()));
    let mut latin = plain.replacen("Host: ", "X: \u{1}Host: ", 1).into_bytes();
    odd.push(("a control character".into(), latin.clone()));
    latin = plain.replacen("Host: ", "X: ~\r\nHost: ", 1).into_bytes();
    let place = latin.iter().position(|byte| *byte == b'~').unwrap();
    latin[place] = 0xe9;
    odd.push(("a byte of Latin-1".into(), latin));
    let place = plain.rfind("ping").unwrap();
    let mut latin = plain.into_bytes();
    latin[place] = 0xe9;
    odd.push(("a body that is not UTF-8".into(), latin));
    odd
}
