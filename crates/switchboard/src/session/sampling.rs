//! What a server wants of a caller's model: who lets it, and whether the request is one that the
//! protocol allows.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::caller::{BoxFuture, Caller, Sampling};
use crate::wire::RawJson;

/// The protocol's code for a person's no.
pub(super) const REJECTED: i64 = -1;

/// So many answers of a model one call may want.
pub(super) const MAX_PER_CALL: usize = 16;

/// Decides whether a server may have an answer of a caller's model. The host brings it, over its
/// gate; a session without one lets none.
pub trait Overseer: Send + Sync + fmt::Debug {
    /// The error is why not: one line for the caller, not for the server.
    fn permit<'a>(
        &'a self,
        request: &'a Sampling,
        caller: &'a Arc<dyn Caller>,
    ) -> BoxFuture<'a, Result<(), String>>;
}

/// Why a server gets no answer of a model.
#[derive(Debug)]
pub(super) struct Refusal {
    /// What the server is told.
    pub(super) told: String,
    /// What the caller is told.
    pub(super) reason: String,
}

impl Refusal {
    /// The same for both.
    pub(super) fn plain(line: impl Into<String>) -> Self {
        let line = line.into();
        Self {
            told: line.clone(),
            reason: line,
        }
    }

    /// The server gets the protocol's words: it need not know which rule or who said so.
    pub(super) fn rejected(reason: String) -> Self {
        Self {
            told: "User rejected sampling request".to_owned(),
            reason,
        }
    }
}

/// Whether the params are what the protocol allows to this caller. The error is for the server.
pub(super) fn check(params: &RawJson, tools_offered: bool) -> Result<(), String> {
    let wrong = |what: &str| Err(format!("sampling/createMessage: {what}"));
    let Ok(Value::Object(params)) = params.to_value() else {
        return wrong("params are no object");
    };
    if !tools_offered
        && ["tools", "toolChoice"]
            .iter()
            .any(|key| params.contains_key(*key))
    {
        return wrong("tools are not offered");
    }
    let Some(messages) = params.get("messages").and_then(Value::as_array) else {
        return wrong("messages are missing");
    };
    // Uses of tools that the next message must have the results of.
    let mut open: HashSet<&str> = HashSet::new();
    for message in messages {
        let blocks = match &message["content"] {
            Value::Array(blocks) => blocks.as_slice(),
            block => std::slice::from_ref(block),
        };
        let results = blocks
            .iter()
            .filter(|block| block["type"] == "tool_result")
            .count();
        if results > 0 && results < blocks.len() {
            return wrong("Tool results mixed with other content");
        }
        for result in blocks
            .iter()
            .filter_map(|block| block["toolUseId"].as_str())
        {
            open.remove(result);
        }
        if !open.is_empty() {
            return wrong("Tool result missing in request");
        }
        open.extend(
            blocks
                .iter()
                .filter(|block| block["type"] == "tool_use")
                .filter_map(|block| block["id"].as_str()),
        );
    }
    if open.is_empty() {
        Ok(())
    } else {
        wrong("Tool result missing in request")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn expect(params: &Value, tools_offered: bool, expected: Result<(), &str>) {
        let expected = expected.map_err(|what| format!("sampling/createMessage: {what}"));
        assert_eq!(
            check(&RawJson::from_value(params), tools_offered),
            expected,
            "{params}"
        );
    }

    /// T32: only what was offered, and only what the protocol allows.
    #[test]
    fn t32_a_request_that_the_protocol_does_not_allow_is_refused_with_its_words() {
        let text = json!({"role": "user", "content": {"type": "text", "text": "hi"}});
        let uses = json!({"role": "assistant", "content": [{"type": "tool_use", "id": "a"}, {"type": "tool_use", "id": "b"}]});
        let result = |id: &str| json!({"type": "tool_result", "toolUseId": id, "content": []});
        let results = |blocks: Vec<Value>| json!({"role": "user", "content": blocks});
        let missing = Err("Tool result missing in request");
        expect(&json!({"messages": [text]}), false, Ok(()));
        expect(
            &json!({"messages": [text], "tools": []}),
            false,
            Err("tools are not offered"),
        );
        expect(&json!({"messages": [text], "tools": []}), true, Ok(()));
        expect(&json!([]), true, Err("params are no object"));
        expect(&json!({"messages": 1}), true, Err("messages are missing"));
        expect(
            &json!({"messages": [text, uses, results(vec![result("a"), result("b")])]}),
            true,
            Ok(()),
        );
        expect(
            &json!({"messages": [text, uses, results(vec![result("a")])]}),
            true,
            missing,
        );
        expect(&json!({"messages": [uses, text]}), true, missing);
        expect(&json!({"messages": [uses]}), true, missing);
        let mixed = results(vec![result("a"), json!({"type": "text", "text": "x"})]);
        expect(
            &json!({"messages": [uses, mixed]}),
            true,
            Err("Tool results mixed with other content"),
        );
    }
}
