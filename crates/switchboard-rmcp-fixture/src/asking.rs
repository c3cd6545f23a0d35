//! The fixture's questions: by requests in the legacy era, by results in the modern one.
#![allow(deprecated)] // sampling and roots are what this is for

use rmcp::ErrorData;
use rmcp::model::*;
use rmcp::service::{RequestContext, RoleServer, ServiceError};
use serde_json::{Value, json};

/// The `requestState` of a call that asked; there is nothing to store in it.
const STATE: &str = "asked once: \"byte for byte\"\n";

/// The key of the question.
const KEY: &str = "question";

pub(crate) async fn elicit(
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
    message: String,
) -> Result<CallToolResponse, ErrorData> {
    let schema =
        json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    let requested_schema = serde_json::from_value(schema)
        .map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
    let params = ElicitRequestParams::FormElicitationParams {
        meta: None,
        message,
        requested_schema,
    };
    let answer = match answered(request, context)? {
        Answered::Legacy => to_value(context.peer.create_elicitation(params).await)?,
        Answered::Modern(answer) => answer,
        Answered::NotYet => {
            return Ok(question(InputRequest::Elicitation(ElicitRequest::new(
                params,
            ))));
        }
    };
    let name = answer["content"]["name"].as_str().unwrap_or("nobody");
    Ok(words(format!(
        "{}: {name}",
        answer["action"].as_str().unwrap_or("nothing")
    )))
}

pub(crate) async fn sample(
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
    prompt: String,
) -> Result<CallToolResponse, ErrorData> {
    let params = CreateMessageRequestParams::new(vec![SamplingMessage::user_text(prompt)], 100);
    let answer = match answered(request, context)? {
        Answered::Legacy => to_value(context.peer.create_message(params).await)?,
        Answered::Modern(answer) => answer,
        Answered::NotYet => {
            return Ok(question(InputRequest::CreateMessage(
                CreateMessageRequest::new(params),
            )));
        }
    };
    let said = answer["content"]["text"].as_str().unwrap_or("nothing");
    Ok(words(format!(
        "{} said: {said}",
        answer["model"].as_str().unwrap_or("nobody")
    )))
}

pub(crate) async fn roots(
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let answer = match answered(request, context)? {
        Answered::Legacy => to_value(context.peer.list_roots().await)?,
        Answered::Modern(answer) => answer,
        Answered::NotYet => {
            return Ok(question(InputRequest::ListRoots(
                ListRootsRequest::default(),
            )));
        }
    };
    let uris: Vec<&str> = answer["roots"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|root| root["uri"].as_str())
        .collect();
    Ok(words(format!("{} roots: {}", uris.len(), uris.join(" "))))
}

enum Answered {
    /// A legacy peer, which is asked by a request.
    Legacy,
    Modern(Value),
    NotYet,
}

fn answered(
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<Answered, ErrorData> {
    if context
        .protocol_version()
        .is_none_or(|version| version != ProtocolVersion::V_2026_07_28)
    {
        return Ok(Answered::Legacy);
    }
    let Some(responses) = &request.input_responses else {
        return Ok(Answered::NotYet);
    };
    if request.request_state.as_deref() != Some(STATE) {
        return Err(ErrorData::invalid_params(
            "the state came back changed",
            None,
        ));
    }
    let answer = responses
        .get(KEY)
        .ok_or_else(|| ErrorData::invalid_params("the answer is missing", None))?;
    Ok(Answered::Modern(
        serde_json::to_value(answer).unwrap_or_default(),
    ))
}

fn question(request: InputRequest) -> CallToolResponse {
    let requests = InputRequests::from_iter([(KEY.to_owned(), request)]);
    InputRequiredResult::new(Some(requests), Some(STATE.to_owned())).into()
}

fn to_value<T: serde::Serialize>(answer: Result<T, ServiceError>) -> Result<Value, ErrorData> {
    let answer = answer
        .map_err(|error| ErrorData::internal_error(format!("the peer refused: {error}"), None))?;
    serde_json::to_value(answer).map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

fn words(text: impl Into<String>) -> CallToolResponse {
    CallToolResult::success(vec![ContentBlock::text(text.into())]).into()
}
