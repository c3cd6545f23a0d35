//! Tests of `chaosd` in the modern era, and of both eras together.

#![allow(clippy::unwrap_used)]

mod common;

use common::Talk;
use switchboard_testkit::script::Era;
use switchboard_testkit::{Chaos, Step};

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;

const DISCOVERED: &str = r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}},"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"chaosd","version":"1.0.0"}}}"#;

const INITIALIZED: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"chaosd","version":"1.0.0"}}"#;

const REFUSED: &str = r#""error":{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2026-07-28"]}}"#;

const UNKNOWN: &str = r#""error":{"code":-32601,"message":"Method not found"}"#;

fn modern(id: u64, method: &str, params: &str) -> String {
    let comma = if params.is_empty() { "" } else { "," };
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{params}{comma}{META}}}}}"#
    )
}

fn answer(id: u64, body: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},{body}}}"#)
}

#[test]
fn each_era_takes_probe_and_handshake_in_its_own_way() {
    let discover = modern(1, "server/discover", "");
    let initialize = r#"{"jsonrpc":"2.0","id":2,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#;
    let (discovered, initialized) = (
        format!("\"result\":{DISCOVERED}"),
        format!("\"result\":{INITIALIZED}"),
    );
    let table = [
        (Era::Legacy, UNKNOWN, initialized.as_str()),
        (Era::Modern, discovered.as_str(), REFUSED),
        (Era::Dual, discovered.as_str(), REFUSED),
        (Era::RefusesAfterProbe, UNKNOWN, REFUSED),
    ];
    for (era, to_discover, to_initialize) in table {
        let mut talk = Talk::start(&Chaos::new().era(era).launch());
        talk.send(&discover);
        talk.expect(&answer(1, to_discover));
        talk.send(initialize);
        talk.expect(&answer(2, to_initialize));
    }
    for era in [Era::Dual, Era::RefusesAfterProbe] {
        let mut talk = Talk::start(&Chaos::new().era(era).launch());
        talk.send(initialize);
        talk.expect(&answer(2, &initialized));
        talk.send(&discover);
        talk.expect(&answer(1, UNKNOWN));
    }
}

#[test]
fn a_probe_that_is_never_answered_still_burns_the_handshake() {
    let mut talk = Talk::start(
        &Chaos::new()
            .era(Era::Dual)
            .on("server/discover", Step::Drop)
            .launch(),
    );
    talk.send(&modern(1, "server/discover", ""));
    talk.send(r#"{"jsonrpc":"2.0","id":2,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#);
    talk.expect(&answer(2, REFUSED));
}

#[test]
fn a_modern_request_without_its_version_is_refused() {
    let mut talk = Talk::start(&Chaos::new().era(Era::Modern).launch());
    talk.send(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    talk.expect(&answer(
        1,
        r#""error":{"code":-32602,"message":"the request does not say its protocol version"}"#,
    ));
    talk.send(&modern(2, "tools/list", ""));
    talk.expect(&answer(
        2,
        r#""result":{"tools":[],"resultType":"complete","ttlMs":0,"cacheScope":"private"}"#,
    ));
}

#[test]
fn input_is_required_round_by_round_and_state_comes_back_exactly() {
    let asks = r#"{"name":{"method":"elicitation/create","params":{"message":"name?"}}}"#;
    let steps = [
        Step::input_required(Some(asks), Some("one \u{e9}")),
        Step::input_required(None, Some("two")),
        Step::AnswerInput,
    ];
    let mut talk = Talk::start(&Chaos::new().era(Era::Modern).tool("t", steps).launch());
    talk.send(&modern(1, "tools/call", r#""name":"t""#));
    talk.expect(&answer(
        1,
        &format!("\"result\":{{\"resultType\":\"input_required\",\"inputRequests\":{asks},\"requestState\":\"one \u{e9}\"}}"),
    ));
    talk.send(&modern(
        2,
        "tools/call",
        "\"name\":\"t\",\"inputResponses\":{\"name\":{}},\"requestState\":\"one \u{e9}\"",
    ));
    talk.expect(&answer(
        2,
        r#""result":{"resultType":"input_required","requestState":"two"}"#,
    ));
    talk.send(&modern(
        3,
        "tools/call",
        r#""name":"t","inputResponses":{ "x": 1 },"requestState":"two""#,
    ));
    let brought = r#"{"inputResponses":{ "x": 1 },"requestState":"two"}"#;
    let quoted = serde_json::to_string(brought).unwrap();
    talk.expect(&answer(
        3,
        &format!(
            r#""result":{{"resultType":"complete","content":[{{"type":"text","text":{quoted}}}],"structuredContent":{brought}}}"#
        ),
    ));
    talk.send(&modern(
        4,
        "tools/call",
        r#""name":"t","inputResponses":{},"requestState":"three""#,
    ));
    talk.expect(&answer(
        4,
        r#""error":{"code":-32602,"message":"requestState \"three\" was never given"}"#,
    ));
}

#[test]
fn a_subscription_is_acknowledged_and_named_by_what_changes() {
    let mut talk = Talk::start(
        &Chaos::new()
            .era(Era::Modern)
            .tool("t", Step::ListChanged(1))
            .launch(),
    );
    talk.send(&modern(
        5,
        "subscriptions/listen",
        r#""notifications":{"toolsListChanged":true}"#,
    ));
    let subscription = r#""_meta":{"io.modelcontextprotocol/subscriptionId":5}"#;
    talk.expect(&format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{{subscription},"notifications":{{"toolsListChanged":true}}}}}}"#
    ));
    talk.send(&modern(6, "tools/call", r#""name":"t""#));
    talk.expect(&format!(r#"{{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{{{subscription}}}}}"#));
    talk.expect(&answer(
        6,
        r#""result":{"resultType":"complete","content":[{"type":"text","text":"ok"}]}"#,
    ));
}
