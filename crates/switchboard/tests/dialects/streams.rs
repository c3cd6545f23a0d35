//! Tests of URLs in dialects whose remote transport is HTTP+SSE, on real sockets.

use std::sync::Arc;

use serde_json::json;
use switchboard::Host;
use switchboard::config::Dialect;
use switchboard::event::{Event, LogLevel, NextEvent};
use switchboard::name::ServerName;
use switchboard::server::DetectedTransport;
use switchboard_demo::{Demo, HttpEdge, HttpOptions};

use crate::support::{TIMEOUT, TestHost, assert_ready, call, snapshot};

async fn edge() -> HttpEdge {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let demo: Arc<Demo> = Demo::new(Default::default());
    demo.serve_http(listener, HttpOptions::default()).unwrap()
}

/// A call is one more POST; its response, like the server's notifications, comes on the one stream.
async fn posts_and_listens(host: &Host, edge: &HttpEdge, streams_opened: u64) {
    assert_ready(host, "x");
    assert_eq!(snapshot(host, "x").wire, Some(DetectedTransport::Sse));
    let before = edge.counts();
    assert_eq!(before.gets, streams_opened);
    assert_eq!(
        call(host, "x/echo", json!({"message": "hello"}))
            .await
            .as_deref(),
        Ok("hello")
    );
    let after = edge.counts();
    assert_eq!(
        (after.posts - before.posts, after.gets),
        (1, streams_opened),
        "one POST, and no other stream"
    );

    let mut events = host.events();
    host.set_log_level(&ServerName::new("x").unwrap(), LogLevel::Alert)
        .await
        .unwrap();
    call(
        host,
        "x/log",
        json!({"level": "alert", "message": "noticed"}),
    )
    .await
    .unwrap();
    let logged = async {
        while !matches!(
            events.next().await,
            Some(NextEvent::Event(Event::Log { .. }))
        ) {}
    };
    tokio::time::timeout(TIMEOUT, logged)
        .await
        .expect("a notification on the stream");
    assert_eq!(edge.counts().gets, streams_opened);
}

/// S1-15: requests by POST, responses on the stream, for each of the three names.
#[tokio::test(flavor = "multi_thread")]
async fn s1_15_requests_are_posted_and_answers_stream_back() {
    for word in ["sse", "http", "http+sse"] {
        let (test, edge) = (TestHost::new(), edge().await);
        let text = format!(
            "mcp_servers {{\n  name = \"x\"\n  transport = \"{word}\"\n  url = \"{}\"\n}}\n",
            edge.sse_url()
        );
        let host = test.host(Dialect::A3s, "config.hcl", &text, &[]).await;
        posts_and_listens(&host, &edge, 1).await;
        host.stop().await;
    }
}

/// S4-09: the stream is at the URL itself, or at `/sse` below it; no other URL is tried, and both
/// errors are reported.
#[tokio::test(flavor = "multi_thread")]
async fn s4_09_a_base_url_finds_its_stream_at_sse_and_a_streams_own_url_at_once() {
    let (test, first, second) = (TestHost::new(), edge().await, edge().await);
    let base = format!("http://{}", first.address());
    let text = |url: &str| format!("[mcp_servers.x]\nurl = {url:?}\n");
    let host = test
        .host(Dialect::AgentCode, "config.toml", &text(&base), &[])
        .await;
    posts_and_listens(&host, &first, 2).await;
    host.stop().await;

    let host = test
        .host(
            Dialect::AgentCode,
            "config.toml",
            &text(&second.sse_url()),
            &[],
        )
        .await;
    posts_and_listens(&host, &second, 1).await;
    host.stop().await;

    let host = test
        .host(
            Dialect::AgentCode,
            "config.toml",
            &text(&format!("{base}/elsewhere")),
            &[],
        )
        .await;
    let failed = snapshot(&host, "x")
        .history
        .iter()
        .map(|(_, line)| line.clone())
        .collect::<Vec<_>>()
        .join("\n");
    assert!(
        failed.contains("it has an HTTP+SSE stream neither at its URL (HTTP 404"),
        "{failed}"
    );
    host.stop().await;

    // In a dialect without base URLs, `/sse` is not appended.
    let a3s =
        format!("mcp_servers {{\n  name = \"x\"\n  transport = \"sse\"\n  url = {base:?}\n}}\n");
    let host = test.host(Dialect::A3s, "config.hcl", &a3s, &[]).await;
    let failed = snapshot(&host, "x")
        .history
        .iter()
        .map(|(_, line)| line.clone())
        .collect::<Vec<_>>()
        .join("\n");
    assert!(
        failed.contains("HTTP 404") && !failed.contains("/sse"),
        "{failed}"
    );
    host.stop().await;
}

/// S1-02: both transports in one file.
#[tokio::test(flavor = "multi_thread")]
async fn s1_02_one_file_has_a_server_on_stdio_and_one_on_http_and_sse() {
    let (test, edge) = (TestHost::new(), edge().await);
    let text = format!(
        "mcp_servers {{\n  name = \"local\"\n  command = {:?}\n}}\nmcp_servers {{\n  name = \"remote\"\n  transport = \"sse\"\n  url = \"{}\"\n}}\n",
        test.server("local"),
        edge.sse_url()
    );
    let host = test
        .host(
            Dialect::A3s,
            "config.hcl",
            &text,
            &[("PATH", &std::env::var("PATH").unwrap())],
        )
        .await;
    assert_eq!(
        call(&host, "local/ok", json!({})).await.as_deref(),
        Ok("fine")
    );
    assert_eq!(
        call(&host, "remote/echo", json!({"message": "hello"}))
            .await
            .as_deref(),
        Ok("hello")
    );
    assert_eq!(
        (
            test.record("local").count("tools/call"),
            snapshot(&host, "local").wire
        ),
        (1, None)
    );
    assert_eq!(
        (edge.counts().gets, snapshot(&host, "remote").wire),
        (1, Some(DetectedTransport::Sse))
    );
    host.stop().await;
}

/// S3-02, S3-03, S3-04: a command is a child on stdio, a URL is Streamable HTTP, and of both the
/// URL is used.
#[tokio::test(flavor = "multi_thread")]
async fn s3_03_a_url_is_spoken_to_over_streamable_http_and_s3_04_goes_before_a_command() {
    let (test, edge) = (TestHost::new(), edge().await);
    let url = edge.url();
    let text = format!(
        "metadata:\n  mcp:\n    local: {{ command: {:?} }}\n    remote: {{ url: {url:?} }}\n    both: {{ command: {:?}, url: {url:?} }}\n",
        test.server("local"),
        test.server("both")
    );
    let host = test
        .host(
            Dialect::AgentApps,
            "agent.yaml",
            &text,
            &[("PATH", &std::env::var("PATH").unwrap())],
        )
        .await;
    assert_eq!(
        call(&host, "local/ok", json!({})).await.as_deref(),
        Ok("fine"),
        "S3-02"
    );
    for name in ["remote", "both"] {
        let hello = call(&host, &format!("{name}/echo"), json!({"message": "hello"})).await;
        assert_eq!(
            (hello.as_deref(), snapshot(&host, name).wire),
            (Ok("hello"), Some(DetectedTransport::Http)),
            "{name}"
        );
    }
    assert_eq!(
        (test.record("local").starts(), test.record("both").starts()),
        (1, 0),
        "S3-04"
    );
    host.stop().await;
}
