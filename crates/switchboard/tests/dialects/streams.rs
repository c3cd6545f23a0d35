//! URLs of dialects whose remote wire is HTTP+SSE, on real sockets.

use std::sync::Arc;

use serde_json::json;
use switchboard::Host;
use switchboard::config::Dialect;
use switchboard::event::{Event, LogLevel, Next};
use switchboard::name::ServerName;
use switchboard::server::Wire;
use switchboard_demo::{Demo, HttpEdge, HttpOptions};

use crate::support::{PATIENCE, Stage, assert_ready, call, snapshot};

async fn edge() -> HttpEdge {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let demo: Arc<Demo> = Demo::new(Default::default());
    demo.serve_http(listener, HttpOptions::default()).unwrap()
}

/// A call is one more POST, and its answer, like what the server says by itself, comes on the one stream.
async fn posts_and_listens(host: &Host, edge: &HttpEdge, streams_opened: u64) {
    assert_ready(host, "x");
    assert_eq!(snapshot(host, "x").wire, Some(Wire::Sse));
    let before = edge.counts();
    assert_eq!(before.gets, streams_opened);
    assert_eq!(call(host, "x/echo", json!({"message": "hello"})).await.as_deref(), Ok("hello"));
    let after = edge.counts();
    assert_eq!((after.posts - before.posts, after.gets), (1, streams_opened), "one POST, and no other stream");

    let mut events = host.events();
    host.set_log_level(&ServerName::new("x").unwrap(), LogLevel::Alert).await.unwrap();
    call(host, "x/log", json!({"level": "alert", "message": "noticed"})).await.unwrap();
    let logged = async { while !matches!(events.next().await, Some(Next::Event(Event::Log { .. }))) {} };
    tokio::time::timeout(PATIENCE, logged).await.expect("a notification on the stream");
    assert_eq!(edge.counts().gets, streams_opened);
}

/// S1-15: requests by POST, answers on the stream, for each of the three words.
#[tokio::test(flavor = "multi_thread")]
async fn s1_15_requests_are_posted_and_answers_stream_back() {
    for word in ["sse", "http", "http+sse"] {
        let (stage, edge) = (Stage::new(), edge().await);
        let text = format!("mcp_servers {{\n  name = \"x\"\n  transport = \"{word}\"\n  url = \"{}\"\n}}\n", edge.sse_url());
        let host = stage.host(Dialect::A3s, "config.hcl", &text, &[]).await;
        posts_and_listens(&host, &edge, 1).await;
        host.stop().await;
    }
}

/// S4-09: the stream is at the URL itself, or at `/sse` under it; elsewhere it is not looked for, and both are told.
#[tokio::test(flavor = "multi_thread")]
async fn s4_09_a_base_url_finds_its_stream_at_sse_and_a_streams_own_url_at_once() {
    let (stage, first, second) = (Stage::new(), edge().await, edge().await);
    let base = format!("http://{}", first.address());
    let text = |url: &str| format!("[mcp_servers.x]\nurl = {url:?}\n");
    let host = stage.host(Dialect::AgentCode, "config.toml", &text(&base), &[]).await;
    posts_and_listens(&host, &first, 2).await;
    host.stop().await;

    let host = stage.host(Dialect::AgentCode, "config.toml", &text(&second.sse_url()), &[]).await;
    posts_and_listens(&host, &second, 1).await;
    host.stop().await;

    let host = stage.host(Dialect::AgentCode, "config.toml", &text(&format!("{base}/elsewhere")), &[]).await;
    let failed = snapshot(&host, "x").history.iter().map(|(_, line)| line.clone()).collect::<Vec<_>>().join("\n");
    assert!(failed.contains("it has an HTTP+SSE stream neither at its URL (HTTP 404"), "{failed}");
    host.stop().await;

    // Where the dialect does not give base URLs, none is made up.
    let a3s = format!("mcp_servers {{\n  name = \"x\"\n  transport = \"sse\"\n  url = {base:?}\n}}\n");
    let host = stage.host(Dialect::A3s, "config.hcl", &a3s, &[]).await;
    let failed = snapshot(&host, "x").history.iter().map(|(_, line)| line.clone()).collect::<Vec<_>>().join("\n");
    assert!(failed.contains("HTTP 404") && !failed.contains("/sse"), "{failed}");
    host.stop().await;
}
