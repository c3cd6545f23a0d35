//! Sampling, in either era: validates a server's request for a model's answer, has it permitted,
//! and asks the caller.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use tokio::time::timeout;

use super::elicitation::ANSWER_TIMEOUT;
use super::in_flight::InFlightCall;
use crate::caller::{BoxFuture, Caller, SampleAnswer, Sampling};
use crate::name::ToolId;
use crate::untrusted::Untrusted;
use crate::wire::RawJson;

/// The protocol's error code for a refusal by the user.
pub(super) const REJECTED: i64 = -1;

/// The most sampling requests during one call.
const MAX_PER_CALL: usize = 16;

/// Decides whether a server may sample the caller's model. The host implements it with its gate; a
/// session without one refuses.
pub(crate) trait SamplingPolicy: Send + Sync + fmt::Debug {
    /// The error states the reason in one line for the caller, not for the server.
    fn permit<'a>(
        &'a self,
        request: &'a Sampling,
        caller: &'a Arc<dyn Caller>,
    ) -> BoxFuture<'a, Result<(), String>>;
}

impl InFlightCall {
    /// Asks the sampling_policy, then the caller; the time does not count against the deadlines.
    pub(super) async fn sample(
        &self,
        params: RawJson,
        tool: Option<ToolId>,
        sampling_policy: Option<&Arc<dyn SamplingPolicy>>,
    ) -> Result<RawJson, SamplingRefusal> {
        let request = self.permit_sampling(params, tool, sampling_policy).await?;
        let _pause = self.pause_deadlines();
        match timeout(ANSWER_TIMEOUT, self.caller().sample(&request)).await {
            Ok(SampleAnswer::Answer(answer)) => Ok(answer),
            Ok(SampleAnswer::Refuse(line)) => Err(SamplingRefusal::plain(line)),
            Ok(SampleAnswer::Error(error)) => Err(SamplingRefusal::answered(error)),
            Err(_) => Err(SamplingRefusal::plain(format!(
                "no answer within {} s",
                ANSWER_TIMEOUT.as_secs()
            ))),
        }
    }

    /// Asks the sampling_policy only.
    pub(super) async fn permit_sampling(
        &self,
        params: RawJson,
        tool: Option<ToolId>,
        sampling_policy: Option<&Arc<dyn SamplingPolicy>>,
    ) -> Result<Sampling, SamplingRefusal> {
        if !self.caller().capabilities().sampling {
            return Err(SamplingRefusal::plain(
                "the caller does not support sampling",
            ));
        }
        if self.samplings.fetch_add(1, Ordering::Relaxed) >= MAX_PER_CALL {
            return Err(SamplingRefusal::plain(format!(
                "at most {MAX_PER_CALL} sampling requests are allowed during one call"
            )));
        }
        let _pause = self.pause_deadlines();
        let request = Sampling {
            server: self.server().clone(),
            tool,
            params,
        };
        let Some(sampling_policy) = sampling_policy else {
            return Err(SamplingRefusal::rejected(
                "it needs approval, and no person can be asked".to_owned(),
            ));
        };
        let permitted = sampling_policy.permit(&request, self.caller()).await;
        permitted.map_err(SamplingRefusal::rejected)?;
        Ok(request)
    }
}

/// A JSON-RPC error object.
pub(super) fn error_object(code: i64, message: &str) -> RawJson {
    RawJson::from(json!({"code": code, "message": message}))
}

/// Why a sampling request was refused.
#[derive(Debug)]
pub(super) struct SamplingRefusal {
    /// The error object for the server.
    pub(super) to_server: RawJson,
    /// The message for the caller.
    pub(super) to_caller: String,
}

impl SamplingRefusal {
    /// The same message for both.
    fn plain(line: impl Into<String>) -> Self {
        let line = line.into();
        Self {
            to_server: error_object(REJECTED, &line),
            to_caller: line,
        }
    }

    /// The server gets the protocol's message: it need not know which rule refused, or who.
    fn rejected(reason: String) -> Self {
        Self {
            to_server: error_object(REJECTED, "User rejected sampling request"),
            to_caller: reason,
        }
    }

    /// The server gets the error that the caller's client answered with.
    fn answered(error: RawJson) -> Self {
        #[derive(serde::Deserialize)]
        struct AnsweredError {
            #[serde(default)]
            message: String,
        }
        let message = error.decode::<AnsweredError>().map(|error| error.message);
        let message = Untrusted::new(message.unwrap_or_default());
        Self {
            to_caller: format!("the client answered: {}", message.for_terminal_line()),
            to_server: error,
        }
    }
}

/// Validates the params against the protocol and the caller's capabilities. The error is for the
/// server.
pub(super) fn check(params: &RawJson, tools_offered: bool) -> Result<(), String> {
    let wrong = |what: &str| Err(format!("sampling/createMessage: {what}"));
    let Ok(Value::Object(params)) = params.to_value() else {
        return wrong("params are not an object");
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
    // Tool uses whose results the next message must contain.
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

    /// T32: only offered capabilities may be used, and only as the protocol allows.
    #[test]
    fn t32_an_invalid_sampling_request_is_refused_with_the_protocols_message() {
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
        expect(&json!([]), true, Err("params are not an object"));
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
