//! T36: the state of a call that waits for a modern client's answer, tampered with, expired,
//! replayed, and sent by another client.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use switchboard_gateway::cluster::{Alone, Cluster};
use switchboard_gateway::seal::SealKind;

use super::client::{Answer, Gateway, modern, request};

/// A modern call of the demo server's tool that asks for a name.
struct AskingCall {
    tool: String,
}

impl AskingCall {
    fn send(&self, gateway: &Gateway, bearer: &str, more: Value) -> Answer {
        let mut params = modern(json!({"name": self.tool, "arguments": {}}));
        let capabilities = "io.modelcontextprotocol/clientCapabilities";
        params["_meta"][capabilities] = json!({"elicitation": {"form": {}}});
        for (key, value) in more.as_object().unwrap() {
            params[key] = value.clone();
        }
        let headers = [
            ("Authorization", bearer),
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", "tools/call"),
            ("Mcp-Name", self.tool.as_str()),
        ];
        gateway.send(
            "POST",
            "/mcp/demo",
            &headers,
            &request(1, "tools/call", params),
        )
    }

    fn send_state(&self, gateway: &Gateway, bearer: &str, state: &str) -> Answer {
        let more = json!({"requestState": state, "inputResponses": {}});
        self.send(gateway, bearer, more)
    }

    /// Answers the questions of an `input_required` result.
    fn answer(&self, gateway: &Gateway, bearer: &str, asked: &Value) -> Answer {
        let questions = asked["inputRequests"].as_object().unwrap().keys();
        let content = json!({"name": "Ada", "color": "red"});
        let answers: Value = questions
            .map(|key| (key.clone(), json!({"action": "accept", "content": content})))
            .collect();
        let state = &asked["requestState"];
        let more = json!({"requestState": state, "inputResponses": answers});
        self.send(gateway, bearer, more)
    }
}

/// The same state with an expiry that has passed, sealed with the gateway's own keys.
fn expired(gateway: &Gateway, state: &str) -> String {
    let keys = Alone::open(&gateway.home.path("state/switchboard")).unwrap();
    let (prefix, sealed) = state.split_at("switchboard.".len() + 17);
    let opened = keys.open_sealed(SealKind::State, "tester", sealed).unwrap();
    let mut content = opened.content;
    let seal = |content| format!("{prefix}{}", keys.seal(SealKind::State, "tester", content));
    content.expires = SystemTime::now() - Duration::from_secs(1);
    seal(&content)
}

/// T36: each is refused, audited and runs nothing; the untouched state continues its call, once.
#[test]
fn t36_a_tampered_expired_replayed_or_foreign_state_is_refused() {
    let more = "protocol = \"legacy\"\n[permissions]\nallow = [\"*\"]\n";
    let gateway = Gateway::start_with(more, &[]);
    let session = gateway.initialize("/mcp/demo");
    let call = AskingCall {
        tool: gateway.tool("/mcp/demo", &session, "ask_form"),
    };
    let bearer = format!("Bearer {}", gateway.token);
    let asked = call.send(&gateway, &bearer, json!({}));
    let asked = asked.json()["result"].clone();
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let state = asked["requestState"].as_str().unwrap().to_owned();
    gateway.assert_calls(1);

    let other = gateway.home.run(&["token", "new", "other"]);
    let other = format!("Bearer {}", other.stdout.trim_end());
    let refused = |answer: Answer, what: &str| {
        let code = answer.json()["error"]["code"].clone();
        assert_eq!(code, json!(-32602), "{what}: {answer:?}");
    };
    refused(
        call.send_state(&gateway, &other, &state),
        "another client's",
    );
    for index in 0..state.len() {
        let mut tampered = state.clone();
        let replacement = if &state[index..=index] == "A" {
            "B"
        } else {
            "A"
        };
        tampered.replace_range(index..=index, replacement);
        refused(call.send_state(&gateway, &bearer, &tampered), &tampered);
    }
    refused(
        call.send_state(&gateway, &bearer, &session),
        "a session's id",
    );
    refused(
        call.send_state(&gateway, &bearer, &expired(&gateway, &state)),
        "an expired one",
    );
    gateway.assert_refusals("invalid_state", state.len() + 3);
    gateway.assert_calls(1);

    let answer = call.answer(&gateway, &bearer, &asked);
    assert!(answer.body.contains("Ada"), "{answer:?}");
    refused(call.answer(&gateway, &bearer, &asked), "a used one");
    gateway.assert_refusals("invalid_state", state.len() + 4);
    gateway.assert_calls(1);
}
