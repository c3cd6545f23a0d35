//! One request of a caller through all its rounds: a modern server may answer with questions, and
//! is asked again with the answers.

use std::borrow::Cow;
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock};

use memchr::memmem::Finder;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::link::{Link, Request};
use super::ongoing::Ongoing;
use super::questions::{elicit_result, read_elicitation};
use super::{Era, HEADER_MISMATCH, RequestFault, Still, envelope, sampling, tasks, visits};
use crate::caller::{ElicitAnswer, ElicitationKind, Offers, Root};
use crate::wire::RawJson;

/// A server that asks more often than this does not come to an end.
const MAX_ROUNDS: usize = 16;

/// So much may be asked in one round.
const MAX_REQUESTS: usize = 64;

/// Sends the request, answers what the server asks, and returns the final result, byte for byte.
pub(super) async fn complete(
    link: &Link,
    ongoing: &Arc<Ongoing>,
    request: Request<'_>,
    still: Still<'_>,
) -> Result<RawJson, RequestFault> {
    if request.era == Era::Legacy {
        return visits::send(link, ongoing, &request, still).await;
    }
    let rounds = Rounds::of(link, ongoing);
    let declared = envelope::modern_meta(rounds.offers, rounds.roots.is_some());
    let level = ongoing
        .caller
        .log_level()
        .or_else(|| link.receiver.options.wishes.level());
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
        let round = Request {
            fields: &round,
            declared: &declared,
            ..request
        };
        let result = match link.request_for(ongoing, &round, still).await {
            // Said later, what came before may have been executed.
            Err(RequestFault::Answered {
                code: HEADER_MISMATCH,
                message,
                data,
            }) if answers.is_none() => {
                return Err(RequestFault::HeaderMismatch { message, data });
            }
            answer => answer?,
        };
        match Outcome::read(&result)? {
            Outcome::Complete => return Ok(result),
            Outcome::Task if ongoing.tool_id().is_some() => {
                return Box::pin(tasks::follow(link, ongoing, &declared, &result)).await;
            }
            Outcome::Task => {
                return Err(RequestFault::Invalid(format!(
                    "a task in answer to {}",
                    request.method
                )));
            }
            Outcome::InputRequired { requests, state } => {
                ongoing.gave_input.store(true, Ordering::Relaxed);
                answers = Some((Box::pin(rounds.answer(&requests)).await?, state));
            }
        }
    }
    Err(RequestFault::Invalid(format!(
        "the server asked {MAX_ROUNDS} times and came to no end"
    )))
}

/// The member in which a result says what it is.
static RESULT_TYPE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"resultType\""));

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
        // Most results say that they are complete, and some are large: where nothing in it says
        // otherwise, it is not taken apart.
        let bytes = result.as_bytes();
        let is_complete = |at: usize| {
            let value = bytes[at + RESULT_TYPE.needle().len()..]
                .trim_ascii_start()
                .strip_prefix(b":");
            value.is_some_and(|value| value.trim_ascii_start().starts_with(b"\"complete\""))
        };
        if RESULT_TYPE.find_iter(bytes).all(is_complete) {
            return Ok(Self::Complete);
        }
        let wire: Wire<'_> = result
            .decode()
            .map_err(|fault| RequestFault::Invalid(fault.to_string()))?;
        match wire.result_type.as_deref() {
            None | Some("complete") => Ok(Self::Complete),
            Some("task") => Ok(Self::Task),
            Some("input_required")
                if wire.input_requests.is_none() && wire.request_state.is_none() =>
            {
                Err(RequestFault::Invalid(
                    "it wants input and says neither which nor for what".into(),
                ))
            }
            Some("input_required") => {
                let requests = wire.input_requests.unwrap_or_default();
                if requests.len() > MAX_REQUESTS {
                    return Err(RequestFault::Invalid(format!(
                        "it asks {} things at once",
                        requests.len()
                    )));
                }
                Ok(Self::InputRequired {
                    requests: requests
                        .into_iter()
                        .map(|(key, raw)| (key, result.part(raw)))
                        .collect(),
                    state: wire.request_state.map(|state| result.part(state)),
                })
            }
            Some(other) => Err(RequestFault::Invalid(format!(
                "resultType {other:?} is not known"
            ))),
        }
    }
}

/// What the answers to one request's questions are made of.
pub(super) struct Rounds<'a> {
    link: &'a Link,
    ongoing: &'a Ongoing,
    offers: Offers,
    roots: Option<Vec<Root>>,
}

impl<'a> Rounds<'a> {
    /// One picture of the caller for all rounds: what was declared is what is answered.
    pub(super) fn of(link: &'a Link, ongoing: &'a Ongoing) -> Self {
        let roots = ongoing
            .caller
            .roots()
            .or_else(|| link.receiver.options.roots.list());
        Self {
            link,
            ongoing,
            offers: ongoing.caller.offers(),
            roots,
        }
    }

    /// Puts the questions of one round to the caller, one after the other in their order:
    /// `inputResponses`.
    pub(super) async fn answer(
        &self,
        requests: &[(String, RawJson)],
    ) -> Result<Vec<u8>, RequestFault> {
        let mut responses = vec![b'{'];
        for (key, request) in requests {
            let response = self.fulfil(request).await?;
            if responses.len() > 1 {
                responses.push(b',');
            }
            responses.extend_from_slice(&envelope::string(key));
            responses.push(b':');
            responses.extend_from_slice(response.as_bytes());
        }
        responses.push(b'}');
        Ok(responses)
    }

    /// Answers one of the server's questions.
    async fn fulfil(&self, request: &RawJson) -> Result<RawJson, RequestFault> {
        #[derive(Deserialize)]
        struct Wire<'a> {
            method: Cow<'a, str>,
            #[serde(borrow, default)]
            params: Option<&'a RawValue>,
        }
        let wire: Wire<'_> = request
            .decode()
            .map_err(|fault| RequestFault::Invalid(format!("an input request: {fault}")))?;
        let params = || match wire.params {
            Some(params) => Ok(request.part(params)),
            None => Err(RequestFault::Invalid(format!(
                "{} needs params",
                wire.method
            ))),
        };
        match &*wire.method {
            "elicitation/create" => self.elicit(&params()?).await,
            "sampling/createMessage" if self.offers.sampling => self.sample(params()?).await,
            "roots/list" if self.roots.is_some() => {
                Ok(RawJson::from_value(&json!({"roots": self.roots})))
            }
            other => Err(RequestFault::Invalid(format!(
                "the server asked for {other:?}, which was not offered"
            ))),
        }
    }

    async fn elicit(&self, params: &RawJson) -> Result<RawJson, RequestFault> {
        let kind = read_elicitation(params).map_err(RequestFault::Invalid)?;
        let is_form = matches!(kind, ElicitationKind::Form { .. });
        let answer = if self.offers.answers(&kind) {
            self.ongoing.elicit(kind, self.ongoing.tool_id()).await
        } else {
            // A server that asks what it was told it may not is told no, so that the call can end
            // (S0-37).
            self.link.receiver.unheard();
            ElicitAnswer::Decline
        };
        Ok(RawJson::from_value(&elicit_result(answer, is_form)))
    }

    /// There is no way to say no within a round: the call ends instead, as the specification has
    /// it.
    async fn sample(&self, params: RawJson) -> Result<RawJson, RequestFault> {
        sampling::check(&params, self.offers.sampling_tools).map_err(RequestFault::Invalid)?;
        let overseer = self.link.receiver.options.overseer.as_ref();
        match self
            .ongoing
            .sample(params, self.ongoing.tool_id(), overseer)
            .await
        {
            Ok(answer) => Ok(answer),
            Err(refusal) => Err(RequestFault::Declined(refusal.reason)),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn what_a_result_says_of_itself_counts_wherever_it_stands_and_what_is_said_within_it_does_not()
    {
        let read = |text: &str| match Outcome::read(&RawJson::parse(text.to_owned()).unwrap()) {
            Ok(Outcome::Complete) => "complete",
            Ok(Outcome::Task) => "task",
            Ok(Outcome::InputRequired { .. }) => "input",
            Err(_) => "wrong",
        };
        for (text, expected) in [
            (r#"{}"#, "complete"),
            (r#"{"content":[],"resultType":"complete"}"#, "complete"),
            ("{\"resultType\"\n:\t\"complete\" }", "complete"),
            (r#"{"resultType":"task"}"#, "task"),
            (
                r#"{"structuredContent":{"resultType":"complete"},"resultType":"task"}"#,
                "task",
            ),
            (
                r#"{"structuredContent":{"resultType":"task"},"resultType":"complete"}"#,
                "complete",
            ),
            (r#"{"structuredContent":{"resultType":"task"}}"#, "complete"),
            (
                r#"{"text":"\"resultType\":\"task\"","resultType":"complete"}"#,
                "complete",
            ),
            (
                r#"{"resultType":"input_required","requestState":"s"}"#,
                "input",
            ),
            (r#"{"resultType":"input_required"}"#, "wrong"),
            (r#"{"resultType":"completed"}"#, "wrong"),
            (r#"{"resultType":7}"#, "wrong"),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }
}
