//! Which era a connection or a request is in, and what belongs to which.
#![allow(clippy::unwrap_used)]

mod process;

use process::{MODERN, Process, error};
use serde_json::{Value, json};

#[test]
fn a_known_version_is_accepted_and_an_unknown_one_is_answered_with_our_latest() {
    for (asked, answered) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ] {
        let mut server = Process::start(&["--name", "mine"]);
        let hello = server.shake_hands(asked, json!({}));
        assert_eq!(
            (&hello["protocolVersion"], &hello["serverInfo"]["name"]),
            (&json!(answered), &json!("mine")),
            "{asked}"
        );
        let mut expected = json!({"tools": {"listChanged": true}, "resources": {"subscribe": true}, "prompts": {}, "completions": {}, "logging": {}});
        if answered == "2025-11-25" {
            expected["tasks"] = json!({"cancel": {}, "requests": {"tools": {"call": {}}}});
        }
        assert_eq!(hello["capabilities"], expected);
        assert_eq!(
            server.call("whoami", json!({}))["structuredContent"]["protocolVersion"],
            answered
        );
    }
}

#[test]
fn discover_reports_capabilities_without_a_handshake() {
    let mut server = Process::modern(json!({}), &[]);
    let mut discovered = server.result("server/discover", json!({}));
    assert!(discovered["instructions"].take().is_string());
    assert_eq!(
        discovered,
        json!({
            "supportedVersions": [MODERN],
            "capabilities": {
                "tools": {"listChanged": true}, "resources": {"subscribe": true}, "prompts": {}, "completions": {}, "logging": {},
                "extensions": {"io.modelcontextprotocol/tasks": {}},
            },
            "instructions": null,
            "ttlMs": 3_600_000,
            "cacheScope": "public",
        })
    );
}

#[test]
fn a_modern_request_must_carry_its_meta() {
    let mut server = Process::start(&[]);
    let mut check = |meta: Value, expected: (i64, Value)| {
        let params = json!({"name": "echo", "arguments": {"message": "hi"}, "_meta": meta});
        server
            .send(&json!({"jsonrpc": "2.0", "id": "q", "method": "tools/call", "params": params}));
        assert_eq!(error(&server.next()), expected, "{meta}");
    };
    let version = "io.modelcontextprotocol/protocolVersion";
    let capabilities = "io.modelcontextprotocol/clientCapabilities";
    check(json!({}), (-32602, Value::Null));
    check(json!({capabilities: {}}), (-32602, Value::Null));
    check(json!({version: MODERN}), (-32602, Value::Null));
    check(
        json!({version: MODERN, capabilities: 5}),
        (-32602, Value::Null),
    );
    check(
        json!({version: MODERN, capabilities: {}, "io.modelcontextprotocol/logLevel": "loud"}),
        (-32602, Value::Null),
    );
    check(
        json!({version: "1900-01-01", capabilities: {}}),
        (
            -32022,
            json!({"supported": [MODERN], "requested": "1900-01-01"}),
        ),
    );
    server.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "server/discover"}));
    assert_eq!(error(&server.next()), (-32602, Value::Null));
}

#[test]
fn methods_of_the_other_era_are_unknown() {
    let [mut legacy, mut modern] = Process::both(&[]);
    for method in ["server/discover", "subscriptions/listen", "nothing/at/all"] {
        assert_eq!(
            legacy.error(method, json!({"notifications": {}})),
            (-32601, Value::Null),
            "{method}"
        );
    }
    for method in [
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "nothing/at/all",
    ] {
        assert_eq!(
            modern.error(method, json!({"uri": "demo://text", "level": "info"})),
            (-32601, Value::Null),
            "{method}"
        );
    }
    assert_eq!(legacy.result("ping", json!({})), json!({}));
}

#[test]
fn both_eras_may_be_spoken_on_one_connection() {
    let mut server = Process::modern(json!({}), &[]);
    assert_eq!(
        server.call("whoami", json!({}))["structuredContent"]["era"],
        "modern"
    );
    let meta = server.meta();
    server.shake_hands("2025-03-26", json!({}));
    assert_eq!(
        server.call("whoami", json!({}))["structuredContent"]["era"],
        "legacy"
    );
    let again = server.call("whoami", json!({}));
    assert_eq!(again.get("resultType"), None);
    let modern = server.request("tools/call", json!({"name": "whoami", "_meta": meta}));
    assert_eq!(
        (
            &modern["result"]["resultType"],
            &modern["result"]["structuredContent"]["era"]
        ),
        (&json!("complete"), &json!("modern"))
    );
}

#[test]
fn a_server_of_one_era_refuses_the_other() {
    let mut legacy = Process::modern(json!({}), &["--era", "legacy"]);
    assert_eq!(
        legacy.error("server/discover", json!({})),
        (-32601, Value::Null)
    );
    assert_eq!(legacy.error("tools/list", json!({})), (-32602, Value::Null));
    assert_eq!(
        legacy.shake_hands("2025-06-18", json!({}))["protocolVersion"],
        "2025-06-18"
    );
    assert_eq!(legacy.words("echo", json!({"message": "hi"})), "hi");

    let mut modern = Process::start(&["--era", "modern"]);
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    modern.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}));
    assert_eq!(
        error(&modern.next()),
        (
            -32022,
            json!({"supported": [MODERN], "requested": "2025-11-25"})
        )
    );
    assert_eq!(modern.words("echo", json!({"message": "hi"})), "hi");
}

#[test]
fn ping_is_answered_before_the_handshake_and_initialize_needs_a_version() {
    let mut server = Process::start(&[]);
    server.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}));
    assert_eq!(
        server.next(),
        json!({"jsonrpc": "2.0", "id": 1, "result": {}})
    );
    server.send(
        &json!({"jsonrpc": "2.0", "id": 2, "method": "initialize", "params": {"capabilities": {}}}),
    );
    assert_eq!(error(&server.next()), (-32602, Value::Null));
}
