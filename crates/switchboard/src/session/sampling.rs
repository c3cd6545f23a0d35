//! Sampling, in either era: validates a server's request for a model's answer, has it permitted,
//! and asks the caller.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;
use serde_json::value::RawValue;

use super::in_flight::InFlightCall;
use crate::caller::{BoxFuture, Caller, SampleAnswer, Sampling};
use crate::config::Fingerprint;
use crate::name::ToolId;
use crate::untrusted::Untrusted;
use crate::wire::bounded::{BoundedList, TooMany};
use crate::wire::{RawJson, string_text};

/// The protocol's error code for a refusal by the user.
pub(super) const REJECTED: i64 = -1;

/// The most sampling requests during one call.
const MAX_PER_CALL: usize = 16;

/// Decides whether a server may sample the caller's model. The host implements it with its gate; a
/// session without one refuses.
pub(crate) trait SamplingPolicy: Send + Sync + fmt::Debug {
    /// `launch` is that of the server that asks: a reload may have replaced it by another of the same
    /// name. The error states the reason in one line for the caller, not for the server.
    fn permit<'a>(
        &'a self,
        request: &'a Sampling,
        launch: Fingerprint,
        caller: &'a Arc<dyn Caller>,
    ) -> BoxFuture<'a, Result<(), String>>;
}

/// The policy for the requests of one server.
#[derive(Debug, Clone)]
pub(crate) struct ServerSamplingPolicy {
    pub(crate) policy: Arc<dyn SamplingPolicy>,
    /// The launch of the server.
    pub(crate) launch: Fingerprint,
}

impl InFlightCall {
    /// Asks the policy, then the caller.
    pub(super) async fn sample(
        &self,
        params: RawJson,
        tool: Option<ToolId>,
        sampling_policy: Option<&ServerSamplingPolicy>,
    ) -> Result<RawJson, SamplingRefusal> {
        let request = self.permit_sampling(params, tool, sampling_policy).await?;
        match self.answer(self.caller().sample(&request)).await {
            Ok(SampleAnswer::Answer(answer)) => Ok(answer),
            Ok(SampleAnswer::Refuse(line)) => Err(SamplingRefusal::plain(line)),
            Ok(SampleAnswer::Error(error)) => Err(SamplingRefusal::answered(error)),
            Err(reason) => Err(SamplingRefusal::plain(reason)),
        }
    }

    /// Asks the policy only.
    pub(super) async fn permit_sampling(
        &self,
        params: RawJson,
        tool: Option<ToolId>,
        sampling_policy: Option<&ServerSamplingPolicy>,
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
        let request = Sampling {
            server: self.server().clone(),
            tool,
            params,
        };
        let Some(ServerSamplingPolicy { policy, launch }) = sampling_policy else {
            return Err(SamplingRefusal::rejected(
                "it needs approval, and no person can be asked".to_owned(),
            ));
        };
        let permitted = self.answer(policy.permit(&request, *launch, self.caller()));
        let permitted = permitted.await.unwrap_or_else(Err);
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
        #[derive(Deserialize)]
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

/// The most messages of a request, and content blocks of a message.
const MAX_ELEMENTS: usize = 10_000;

/// Validates the params against the protocol and the caller's capabilities. The error is for the
/// server.
pub(super) fn check(params: &RawJson, tools_offered: bool) -> Result<(), String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct SamplingParams<'a> {
        tools: Option<IgnoredAny>,
        tool_choice: Option<IgnoredAny>,
        #[serde(borrow)]
        messages: Option<&'a RawValue>,
    }
    let wrong = |what: &str| Err(format!("sampling/createMessage: {what}"));
    // An array would be read as the fields in their order.
    if !params.as_str().starts_with('{') {
        return wrong("params are not an object");
    }
    let params: SamplingParams<'_> = match params.decode() {
        Ok(params) => params,
        Err(fault) => return wrong(&fault.to_string()),
    };
    if !tools_offered && (params.tools.is_some() || params.tool_choice.is_some()) {
        return wrong("tools are not offered");
    }
    let Some(messages) = params.messages.and_then(elements) else {
        return wrong("messages are missing");
    };
    let Ok(messages) = messages.elements() else {
        return wrong("too many messages");
    };
    // Tool uses whose results the next message must contain.
    let mut open: HashSet<Cow<'_, str>> = HashSet::new();
    for message in messages {
        let Ok(blocks) = content_blocks(message) else {
            return wrong("too many content blocks");
        };
        let results = blocks.iter().filter(|block| block.is("tool_result"));
        let results = results.count();
        if results > 0 && results < blocks.len() {
            return wrong("Tool results mixed with other content");
        }
        for result in blocks.iter().filter_map(|block| text(block.tool_use_id)) {
            open.remove(&result);
        }
        if !open.is_empty() {
            return wrong("Tool result missing in request");
        }
        let uses = blocks.iter().filter(|block| block.is("tool_use"));
        open.extend(uses.filter_map(|block| text(block.id)));
    }
    if open.is_empty() {
        Ok(())
    } else {
        wrong("Tool result missing in request")
    }
}

/// The members of a content block that are checked, whatever their types.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SamplingContentBlock<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_use_id: Option<&'a RawValue>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
}

impl SamplingContentBlock<'_> {
    fn is(&self, kind: &str) -> bool {
        text(self.kind).is_some_and(|text| text == kind)
    }
}

/// The content blocks of a message. One that cannot be read is of no kind.
fn content_blocks<'a>(message: &'a RawValue) -> Result<Vec<SamplingContentBlock<'a>>, TooMany> {
    #[derive(Deserialize)]
    struct SamplingMessage<'a> {
        #[serde(borrow)]
        content: Option<&'a RawValue>,
    }
    let message = serde_json::from_str(message.get());
    let Some(content) = message
        .ok()
        .and_then(|message: SamplingMessage<'_>| message.content)
    else {
        return Ok(Vec::new());
    };
    let blocks = match elements(content) {
        Some(blocks) => blocks.elements()?,
        None => vec![content],
    };
    let read = |block: &'a RawValue| serde_json::from_str(block.get()).unwrap_or_default();
    Ok(blocks.into_iter().map(read).collect())
}

/// The elements of an array; `None` for any other value.
fn elements(array: &RawValue) -> Option<BoundedList<'_, MAX_ELEMENTS>> {
    serde_json::from_str(array.get()).ok()
}

/// The text of a string; `None` for any other value.
fn text(value: Option<&RawValue>) -> Option<Cow<'_, str>> {
    string_text(value?.get())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

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

    #[test]
    fn p3_a_sampling_request_of_too_many_parts_is_refused() {
        let many = vec![json!({}); MAX_ELEMENTS + 1];
        expect(&json!({"messages": many}), true, Err("too many messages"));
        let message = json!({"role": "user", "content": many});
        expect(
            &json!({"messages": [message]}),
            true,
            Err("too many content blocks"),
        );
    }
}
