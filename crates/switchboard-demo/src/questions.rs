//! Questions to the caller of a tool: elicitation, sampling and roots, in both eras.
//!
//! A tool that asks is a [`Script`], which returns the next step for its arguments and the answers so
//! far. A legacy peer is asked by a request while the call waits; a modern one gets the question as a
//! result, and calls again with the answer and a sealed state.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::era::{AskMode, RequestTerms};
use crate::exchange::{Call, Cancellation, Exchange, Outcome};
use crate::rpc::{Body, Fault};

/// Whether an answer fits its form.
mod check;

/// The tools that ask.
mod scripts;

/// State that passes through the peer and must come back unchanged.
mod seal;

pub(crate) use scripts::script;
pub(crate) use seal::Seal;

/// Returns the next step of a tool that asks.
pub(crate) type Script = fn(arguments: &Map<String, Value>, answers: &[Answer]) -> Step;

/// The next step of a tool that asks.
#[derive(Debug)]
pub(crate) enum Step {
    Ask(Question),
    Done(Body),
}

/// A question.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Question {
    Form {
        message: String,
        schema: Value,
    },
    Url {
        message: String,
        url: String,
    },
    /// Sampling: the answer of the peer's model.
    Sample {
        prompt: String,
    },
    /// Roots: the folders that the peer works in.
    Roots,
}

/// The answer to a question: of a person, or of the peer's model or the peer itself (accepted, with
/// the whole result as content).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub(crate) action: Action,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) content: Option<Map<String, Value>>,
}

/// The action of a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Action {
    Accept,
    Decline,
    Cancel,
}

static LAST_ELICITATION: AtomicU64 = AtomicU64::new(0);

/// Runs a tool that asks.
pub(crate) fn run(call: &Call<'_>, script: Script) -> Result<Outcome, Fault> {
    let arguments: Map<String, Value> = match call.arguments() {
        Ok(arguments) => arguments,
        Err(failure) => return Ok(Outcome::Done(failure)),
    };
    match call.terms {
        RequestTerms::Legacy(_) => Ok(run_legacy(call, script, arguments)),
        RequestTerms::Modern(_) => run_modern(call, script, &arguments),
    }
}

/// Seals a state that has only the number of past rounds.
pub(crate) fn close_round(call: &Call<'_>, round: usize) -> String {
    let nothing = Answer {
        action: Action::Cancel,
        content: None,
    };
    let binding = seal::Binding::new(&call.params.name, &Map::new());
    call.peer.demo.seal.close(&vec![nothing; round], &binding)
}

/// Opens such a state.
pub(crate) fn open_round(call: &Call<'_>, state: &str) -> Result<usize, Fault> {
    let binding = seal::Binding::new(&call.params.name, &Map::new());
    let opened = call.peer.demo.seal.open(state, &binding);
    opened
        .map(|answers| answers.len())
        .map_err(Fault::invalid_params)
}

fn run_modern(
    call: &Call<'_>,
    script: Script,
    arguments: &Map<String, Value>,
) -> Result<Outcome, Fault> {
    let seal = &call.peer.demo.seal;
    let binding = seal::Binding::new(&call.params.name, arguments);
    let mut answers: Vec<Answer> = match &*call.params.request_state {
        "" => Vec::new(),
        state => seal.open(state, &binding).map_err(Fault::invalid_params)?,
    };
    // Answers without a state belong to no question of ours, so the question is asked again.
    if !call.params.request_state.is_empty()
        && let Step::Ask(question) = script(arguments, &answers)
        && let Some(answer) =
            answer_among(call.params.input_responses, &key(answers.len()), &question)?
    {
        if let Some(failure) = schema_violation(script, arguments, &answers, &answer) {
            return Ok(Outcome::Done(failure));
        }
        answers.push(answer);
    }
    match script(arguments, &answers) {
        Step::Done(body) => Ok(Outcome::Done(body)),
        Step::Ask(question) => {
            call.terms
                .may_ask(question.mode())
                .map_err(Fault::missing_capability)?;
            let request = json!({"method": question.method(), "params": question.params(call.terms.version())});
            Ok(Outcome::Asking(Body::from(json!({
                "inputRequests": {key(answers.len()): request},
                "requestState": seal.close(&answers, &binding),
            }))))
        }
    }
}

/// The key of a question in its call; each round has another, so that answers cannot be confused.
fn key(round: usize) -> String {
    format!("question_{}", round + 1)
}

fn answer_among(
    responses: Option<&RawValue>,
    key: &str,
    question: &Question,
) -> Result<Option<Answer>, Fault> {
    let Some(responses) = responses else {
        return Ok(None);
    };
    let responses: Map<String, Value> = serde_json::from_str(responses.get())
        .map_err(|error| Fault::invalid_params(format!("inputResponses: {error}")))?;
    let answer = responses
        .get(key)
        .map(|response| question.answer(response))
        .transpose();
    answer.map_err(|error| Fault::invalid_params(format!("inputResponses[{key:?}]: {error}")))
}

fn run_legacy(call: &Call<'_>, script: Script, arguments: Map<String, Value>) -> Outcome {
    if let Step::Ask(question) = script(&arguments, &[])
        && let Err(required) = call.terms.may_ask(question.mode())
    {
        let words = format!(
            "this tool asks a question, and the peer did not declare the capability {required}"
        );
        return Outcome::Done(Body::from_failure(words));
    }
    let mut exchange = call.detach();
    // The task ends with the last answer, by cancellation, or with the connection.
    tokio::spawn(async move {
        match converse(&mut exchange, script, &arguments).await {
            Ok(body) => exchange.finish(&body),
            Err(stopped) => exchange.abandon(&stopped),
        }
    });
    Outcome::Later
}

async fn converse(
    exchange: &mut Exchange,
    script: Script,
    arguments: &Map<String, Value>,
) -> Result<Body, Cancellation> {
    let mut answers = Vec::new();
    loop {
        let question = match script(arguments, &answers) {
            Step::Done(body) => return Ok(body),
            Step::Ask(question) => question,
        };
        let mut params = question.params(exchange.version());
        // One counter for all peers of this process, because ids must be unique.
        let elicitation_id = format!(
            "demo-{}",
            LAST_ELICITATION.fetch_add(1, Ordering::Relaxed) + 1
        );
        if question.mode() == AskMode::Url {
            params["elicitationId"] = json!(elicitation_id);
        }
        let result = match exchange.ask(question.method(), params).await? {
            Ok(result) => result,
            Err(error) => {
                return Ok(Body::from_failure(format!(
                    "the peer refused the question: {error}"
                )));
            }
        };
        let answer = match question.answer(&result) {
            Ok(answer) => answer,
            Err(error) => {
                return Ok(Body::from_failure(format!(
                    "the peer's answer is invalid: {error}"
                )));
            }
        };
        if question.mode() == AskMode::Url && answer.action == Action::Accept {
            // Nothing happens at the address, so the elicitation completes as soon as it is opened.
            exchange.notify(
                "notifications/elicitation/complete",
                &json!({"elicitationId": elicitation_id}),
            );
        }
        if let Some(failure) = schema_violation(script, arguments, &answers, &answer) {
            return Ok(failure);
        }
        answers.push(answer);
    }
}

/// The failure of an accepted answer that does not match its form.
fn schema_violation(
    script: Script,
    arguments: &Map<String, Value>,
    before: &[Answer],
    answer: &Answer,
) -> Option<Body> {
    let Step::Ask(Question::Form { schema, .. }) = script(arguments, before) else {
        return None;
    };
    if answer.action != Action::Accept {
        return None;
    }
    let faults = check::faults(&schema, answer.content.as_ref().unwrap_or(&Map::new()));
    (!faults.is_empty()).then(|| {
        Body::from_failure(format!(
            "the answer does not fit the form: {}",
            faults.join("; ")
        ))
    })
}

impl Question {
    fn mode(&self) -> AskMode {
        match self {
            Self::Form { .. } => AskMode::Form,
            Self::Url { .. } => AskMode::Url,
            Self::Sample { .. } => AskMode::Sample,
            Self::Roots => AskMode::Roots,
        }
    }

    fn method(&self) -> &'static str {
        match self {
            Self::Form { .. } | Self::Url { .. } => "elicitation/create",
            Self::Sample { .. } => "sampling/createMessage",
            Self::Roots => "roots/list",
        }
    }

    fn answer(&self, result: &Value) -> serde_json::Result<Answer> {
        match self {
            Self::Form { .. } | Self::Url { .. } => Answer::deserialize(result),
            Self::Sample { .. } | Self::Roots => Map::deserialize(result).map(|content| Answer {
                action: Action::Accept,
                content: Some(content),
            }),
        }
    }

    /// The params of the question in this revision.
    fn params(&self, version: &str) -> Value {
        match self {
            Self::Roots => json!({}),
            Self::Sample { prompt } => {
                let message = json!({"role": "user", "content": {"type": "text", "text": prompt}});
                json!({"messages": [message], "maxTokens": 200})
            }
            Self::Url { message, url } => json!({"mode": "url", "message": message, "url": url}),
            Self::Form { message, schema } if version >= "2025-11-25" => {
                json!({"mode": "form", "message": message, "requestedSchema": schema})
            }
            Self::Form { message, schema } => {
                let mut schema = schema.clone();
                if let Some(properties) = schema["properties"].as_object_mut() {
                    // Titled choices and multiple choices came with a later revision.
                    properties.retain(|_, property| {
                        property.get("oneOf").is_none() && property["type"] != "array"
                    });
                }
                json!({"message": message, "requestedSchema": schema})
            }
        }
    }
}
