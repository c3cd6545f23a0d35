//! Tests that requests stay within their origin: redirects stay within it, and no value breaks out
//! of its header.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use switchboard::config::Protocol;
use switchboard::session::{OpenFault, RequestFault};
use switchboard::transport::{Connector, Inbound, MessageOrigin, TransportFault};
use switchboard::wire::{Incoming, Outgoing, OversizedMessage, RequestMetadata};

use crate::support::*;

fn status(status: u16, text: &str) -> Result<Value, RequestFault> {
    Err(RequestFault::Transport(TransportFault::Status {
        status,
        detail: text.to_owned(),
        retry_after: None,
        error: None,
    }))
}

#[tokio::test]
async fn t22_no_redirect_to_another_origin_is_followed() {
    let mut other = Peer::start().await;
    for code in [301, 302, 303, 307, 308] {
        let (session, mut peer) = modern().await;
        let reading = read(&session, "a:b");
        let location = format!("Location: http://127.0.0.1:{}/mcp\r\n", other.port);
        peer.expect("resources/read")
            .await
            .status_with(code, &location, "");
        let text = format!(
            ": it redirects to another origin, \"http://127.0.0.1:{}\"; if that is intended, configure that URL",
            other.port
        );
        assert_eq!(outcome(reading).await, status(code, &text));
        other.expect_nothing();
    }
}

#[tokio::test]
async fn t22_a_redirect_that_keeps_the_message_is_followed_within_the_origin() {
    let mut peer = Peer::start().await;
    let opening = open(
        target_with(&peer.url(), &[("X-Key", "k")]),
        Protocol::Modern,
    );
    let first = peer.expect("server/discover").await;
    let sent = first.body.clone();
    first.status_with(307, "Location: /v2/mcp?x=1\r\n", "");
    let second = peer.expect_line("POST /v2/mcp?x=1").await;
    assert_eq!((second.header("x-key"), &second.body), (Some("k"), &sent));
    second.status_with(302, "Location: /login\r\n", "");
    let text = ": it redirects to \"/login\"; configure that URL".to_owned();
    let fault = TransportFault::Status {
        status: 302,
        detail: text,
        retry_after: None,
        error: None,
    };
    assert_eq!(
        opening.await.unwrap().unwrap_err(),
        OpenFault::Transport(fault)
    );
}

#[tokio::test]
async fn t22_circular_redirects_end() {
    let (session, mut peer) = modern().await;
    let reading = read(&session, "a:b");
    for _ in 0..6 {
        peer.expect("resources/read")
            .await
            .status_with(308, "Location: /mcp\r\n", "");
    }
    assert_eq!(
        outcome(reading).await,
        status(308, ": more than 5 redirects in a row")
    );
    peer.expect_nothing();
}

#[tokio::test]
async fn t15_no_line_break_is_sent_in_a_header() {
    let mut peer = Peer::start().await;
    let transport = connector(target(&peer.url()))
        .connect(Arc::new(Heard::default()))
        .await
        .unwrap();
    let parameters = [
        ("Region".to_owned(), "a\r\nX-Evil: 1".to_owned()),
        ("Bad\r\nX-Evil".to_owned(), "1".to_owned()),
        ("Bad X".to_owned(), "1".to_owned()),
    ];
    let metadata = RequestMetadata {
        version: Some("2026-07-28"),
        name: Some("t\r\nX-Evil: 1\r\n\r\n"),
        parameters: &parameters,
    };
    transport
        .send(Outgoing {
            id: Some(1),
            method: Some("tools/call"),
            body: b"{}",
            metadata,
        })
        .unwrap();
    let asked = peer.expect_line("POST /mcp").await;
    let text: Vec<_> = asked
        .headers
        .iter()
        .filter(|(name, _)| name.starts_with("mcp-") || name.contains("evil"))
        .collect();
    let expected = [
        ("mcp-method", "tools/call"),
        ("mcp-name", "=?base64?dA0KWC1FdmlsOiAxDQoNCg==?="),
        ("mcp-param-region", "=?base64?YQ0KWC1FdmlsOiAx?="),
        ("mcp-protocol-version", "2026-07-28"),
    ];
    assert_eq!(
        text.iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect::<Vec<_>>(),
        expected
    );
}

/// Records failures.
#[derive(Default)]
struct Heard(Mutex<Vec<(u64, TransportFault)>>);

impl Inbound for Heard {
    fn message(&self, _: Incoming, _: MessageOrigin) {}

    fn failed(&self, id: u64, fault: TransportFault) {
        self.0.lock().unwrap().push((id, fault));
    }

    fn session_renewed(&self) {}

    fn not_a_message(&self, _: &[u8]) {}

    fn oversized(&self, _: Option<OversizedMessage>) {}

    fn closed(&self, _: String) {}
}
