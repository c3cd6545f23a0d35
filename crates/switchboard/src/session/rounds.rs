//! One request of a caller through all its rounds: a modern server may answer with questions, and is asked again with the answers.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::link::{Link, Request};
use super::ongoing::Ongoing;
use super::questions::{elicit_result, read_elicitation};
use super::{Era, RequestFault, Still, envelope, tasks};
use crate::wire::RawJson;

/// A server that asks more often than this does not come to an end.
const MAX_ROUNDS: usize = 16;

/// Sends the request, answers what the server asks, and returns the final result, byte for byte.
pub(super) async fn complete(
    link: &Link,
    ongoing: &Arc<Ongoing>,
    request: Request<'_>,
    still: Still<'_>,
) -> Result<RawJson, RequestFault> {
    if tasks::asks_for_a_task(&request) {
        return tasks::complete_legacy(link, ongoing, request, still).await;
    }
    if request.era == Era::Legacy {
        return link.request_for(ongoing, request, still).await;
    }
    let declared = envelope::modern_meta(ongoing.caller.offers(), link.receiver.options.roots.is_some());
    let level = ongoing.caller.log_level().or_else(|| link.receiver.options.wishes.level());
    let declared = envelope::with_log_level(declared, level);
    let mut answers: Option<(Vec<u8>, Option<RawJson>)> = None;
    for _ in 0..MAX_ROUNDS {
        let mut round = request.fields.to_vec();
        if let Some((responses, state)) = &answers {
            // A server that only wants its state back asked nothing.
            if responses != b"{}" {
                round.push(("inputResponses", responses));
            }
            if let Some(state) = state {
                round.push(("requestState", state.as_bytes()));
            }
        }
        let round = Request { fields: &round, declared: &declared, ..request };
        let result = link.request_for(ongoing, round, still).await?;
        match Outcome::read(&result)? {
            Outcome::Complete => return Ok(result),
            Outcome::Task if request.method == "tools/call" => return tasks::follow(link, ongoing, &declared, &result).await,
            Outcome::Task => return Err(RequestFault::Invalid(format!("a task in answer to {}", request.method))),
            Outcome::InputRequired { requests, state } => {
                ongoing.gave_input.store(true, Ordering::Relaxed);
                let mut responses = Map::new();
                for (key, request) in requests {
                    responses.insert(key, fulfil(link, ongoing, &request).await?);
                }
                answers = Some((Value::from(responses).to_string().into_bytes(), state));
            }
        }
    }
    Err(RequestFault::Invalid(format!("the server asked {MAX_ROUNDS} times and came to no end")))
}

/// What a modern result says of itself.
enum Outcome {
    Complete,
    /// The result comes later.
    Task,
    InputRequired {
        requests: Vec<(String, RawJson)>,
        state: Option<RawJson>,
    },
}

impl Outcome {
    fn read(result: &RawJson) -> Result<Self, RequestFault> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Wire<'a> {
            #[serde(borrow, default)]
            result_type: Option<Cow<'a, str>>,
            #[serde(borrow, default)]
            input_requests: Option<indexmap::IndexMap<String, &'a RawValue>>,
            #[serde(borrow, default)]
            request_state: Option<&'a RawValue>,
        }
        // Most results are complete, and some are large: look for the word before taking the result apart.
        if memchr::memmem::find(result.as_bytes(), b"\"resultType\"").is_none() {
            return Ok(Self::Complete);
        }
        let wire: Wire<'_> = result.decode().map_err(|fault| RequestFault::Invalid(fault.to_string()))?;
        match wire.result_type.as_deref() {
            None | Some("complete") => Ok(Self::Complete),
            Some("task") => Ok(Self::Task),
            Some("input_required") => Ok(Self::InputRequired {
                requests: wire.input_requests.unwrap_or_default().into_iter().map(|(key, raw)| (key, result.part(raw))).collect(),
                state: wire.request_state.map(|state| result.part(state)),
            }),
            Some(other) => Err(RequestFault::Invalid(format!("resultType {other:?} is not known"))),
        }
    }
}

/// Answers one of the server's questions.
pub(super) async fn fulfil(link: &Link, ongoing: &Arc<Ongoing>, request: &RawJson) -> Result<Value, RequestFault> {
    #[derive(Deserialize)]
    struct Wire<'a> {
        method: String,
        #[serde(borrow, default)]
        params: Option<&'a RawValue>,
    }
    let wire: Wire<'_> = request.decode().map_err(|fault| RequestFault::Invalid(format!("an input request: {fault}")))?;
    match wire.method.as_str() {
        "elicitation/create" => {
            let params = wire.params.ok_or_else(|| RequestFault::Invalid("elicitation/create needs params".into()))?;
            let kind = read_elicitation(&request.part(params)).map_err(RequestFault::Invalid)?;
            Ok(elicit_result(ongoing.elicit(kind, ongoing.tool_id()).await))
        }
        "roots/list" if link.receiver.options.roots.is_some() => Ok(link.receiver.roots()),
        other => Err(RequestFault::Invalid(format!("the server asked for {other:?}, which was not offered"))),
    }
}
