//! JSON-RPC messages: accepted ones are JSON to `serde_json` too, and every part is the text that
//! was received.

use serde_json::Value;
use switchboard::wire::{Incoming, RawJson, RequestId, parse};

use super::Target;

pub(super) const TARGET: Target = Target {
    name: "messages",
    seeds: &[
        r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"a\u00e9\ud83d\ude00"}],"n":-1.5e+3}}"#,
        r#"{"jsonrpc":"2.0","id":"a","method":"elicitation/create","params":{"message":"x","requestedSchema":{}}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":[1,true,false,null]}}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"no"}}"#,
        r#"[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","method":"x"}]"#,
        "{\"\\u0069d\":1,\"result\":[[[[]]]]}",
    ],
    words: &[
        "\"id\":",
        "\"method\":",
        "\"result\":",
        "\"error\":",
        "\\u0000",
        "\\ud800",
        "1e999",
        "-0",
        "01",
        "{}",
        "[]",
        "null",
        "\"\"",
    ],
    check,
};

fn check(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let mut messages = Vec::new();
    let parsed = parse(
        text,
        &|value| value.parse().expect("what is kept is JSON"),
        &mut |message| messages.push(message),
    );
    // Deeper than `serde_json` reads a tree, so compared as raw text.
    let is_json = RawJson::parse(input.to_vec()).is_ok();
    if parsed.is_err() {
        assert!(
            messages.is_empty(),
            "a part of a refused text was delivered"
        );
        return;
    }
    assert!(is_json, "accepted, and not JSON");
    let trees: Vec<Value> = match serde_json::from_str(text) {
        Ok(Value::Array(batch)) => batch,
        Ok(one) => vec![one],
        // Too deep for a tree.
        Err(_) => return,
    };
    assert_eq!(messages.len(), trees.len());
    for (message, tree) in messages.iter().zip(&trees) {
        match message {
            Incoming::Request { id, method, params } => {
                assert_eq!(tree["method"], **method);
                compare(Some(id), &tree["id"], params.as_ref(), tree.get("params"));
            }
            Incoming::Notification { method, params } => {
                assert_eq!(tree["method"], **method);
                compare(None, &tree["id"], params.as_ref(), tree.get("params"));
            }
            Incoming::Result { id, result } => {
                compare(Some(id), &tree["id"], Some(result), tree.get("result"))
            }
            Incoming::Error { id, error } => {
                compare(id.as_ref(), &tree["id"], Some(error), tree.get("error"))
            }
        }
    }
}

fn compare(
    id: Option<&RequestId>,
    expected_id: &Value,
    part: Option<&RawJson>,
    expected: Option<&Value>,
) {
    match id {
        None => assert!(expected_id.is_null()),
        Some(id) => {
            let mut written = Vec::new();
            id.write(&mut written);
            assert_eq!(
                serde_json::from_slice::<Value>(&written).ok().as_ref(),
                Some(expected_id)
            );
        }
    }
    assert_eq!(
        part.map(|part| part.to_value().expect("not too deep"))
            .as_ref(),
        expected
    );
}
