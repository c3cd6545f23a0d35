//! A legacy server's question for a caller: asking it, and the response to the server.

use serde_json::{Value, json};

use super::server_requests::INVALID_PARAMS;
use super::url_elicitation::UrlElicitations;
use crate::caller::ElicitationKind;
use crate::session::elicitation::{action_result, elicit_response};
use crate::session::in_flight::InFlightCall;
use crate::session::sampling::{self, REJECTED, ServerSamplingPolicy, error_object};
use crate::session::tasks;
use crate::wire::{RawJson, RequestId};

/// A question for a caller.
pub(super) struct CallerQuestion {
    pub(super) kind: CallerQuestionKind,
    pub(super) params: RawJson,
}

pub(super) enum CallerQuestionKind {
    Elicitation(ElicitationKind),
    Sampling,
    Roots,
}

/// The body of a response to the server.
#[derive(Debug)]
pub(super) struct ReplyBody {
    /// `result` or `error`.
    key: &'static str,
    value: RawJson,
}

impl CallerQuestion {
    /// Asks the caller.
    pub(super) async fn ask(
        self,
        call: &InFlightCall,
        is_certain: bool,
        url_elicitations: &UrlElicitations,
        sampling_policy: Option<&ServerSamplingPolicy>,
    ) -> ReplyBody {
        let tool = if is_certain { call.tool_id() } else { None };
        let params = self.params;
        match self.kind {
            CallerQuestionKind::Sampling => {
                // The host offers what any of its callers supports.
                let with_tools = call.caller().capabilities().sampling_tools;
                if let Err(fault) = sampling::check(&params, with_tools) {
                    return ReplyBody::error(INVALID_PARAMS, &fault);
                }
                match call.sample(params.clone(), tool, sampling_policy).await {
                    Ok(answer) => ReplyBody::response(&params, Ok(answer)),
                    Err(refusal) => {
                        let (server, reason) = (call.server(), refusal.to_caller);
                        call.caller().notice(&format!(
                            "a sampling request of server \"{server}\" was refused: {reason}"
                        ));
                        ReplyBody::response(&params, Err(refusal.to_server))
                    }
                }
            }
            CallerQuestionKind::Roots => {
                let none = || Ok(RawJson::from(json!({"roots": []})));
                let answer = call.ask_roots().await.unwrap_or_else(none);
                ReplyBody::response(&params, answer)
            }
            CallerQuestionKind::Elicitation(kind) => {
                let page = match &kind {
                    ElicitationKind::Url { id, .. } => id.clone(),
                    ElicitationKind::Form { .. } => None,
                };
                let is_form = matches!(kind, ElicitationKind::Form { .. });
                if let Some(page) = &page {
                    drop(url_elicitations.begin(page, call.caller()));
                }
                let answer = call.elicit(kind, params.clone(), tool).await;
                if let Some(page) = page.filter(|_| !answer.is_accepted()) {
                    url_elicitations.forget(&page, call.caller());
                }
                ReplyBody::response(&params, elicit_response(answer, is_form))
            }
        }
    }

    /// Whether the caller supports such questions. Sampling is refused later, with a reason.
    pub(super) fn is_offered_by(&self, call: &InFlightCall) -> bool {
        match &self.kind {
            CallerQuestionKind::Elicitation(kind) => call.caller().capabilities().answers(kind),
            CallerQuestionKind::Sampling => true,
            CallerQuestionKind::Roots => call.caller().roots().is_some(),
        }
    }

    /// The response if no caller can be asked.
    pub(super) fn declined(&self, reason: &str) -> ReplyBody {
        match self.kind {
            CallerQuestionKind::Elicitation(_) => ReplyBody::result(&tasks::with_related_task(
                Some(&self.params),
                action_result("decline"),
            )),
            CallerQuestionKind::Sampling => ReplyBody::error(REJECTED, reason),
            CallerQuestionKind::Roots => ReplyBody::result(&json!({"roots": []})),
        }
    }

    /// The response if the call ended first.
    pub(super) fn withdrawn(&self) -> ReplyBody {
        match self.kind {
            CallerQuestionKind::Elicitation(_) => ReplyBody::result(&action_result("cancel")),
            CallerQuestionKind::Sampling => {
                ReplyBody::error(REJECTED, "the call that caused it has ended")
            }
            CallerQuestionKind::Roots => ReplyBody::result(&json!({"roots": []})),
        }
    }
}

impl ReplyBody {
    pub(super) fn result(result: &Value) -> Self {
        Self {
            key: "result",
            value: RawJson::from_value(result),
        }
    }

    pub(super) fn error(code: i64, message: &str) -> Self {
        Self {
            key: "error",
            value: error_object(code, message),
        }
    }

    /// A caller's answer to the question with these params, as it came. A result also names the task
    /// that the question belongs to.
    fn response(params: &RawJson, answer: Result<RawJson, RawJson>) -> Self {
        match answer {
            Ok(result) => Self {
                key: "result",
                value: tasks::with_related_task_raw(params, result),
            },
            Err(value) => Self {
                key: "error",
                value,
            },
        }
    }

    pub(super) fn message(&self, id: &RequestId) -> Vec<u8> {
        let mut body = br#"{"jsonrpc":"2.0","id":"#.to_vec();
        id.write(&mut body);
        body.extend_from_slice(format!(r#","{}":{}}}"#, self.key, self.value.as_str()).as_bytes());
        body
    }
}
