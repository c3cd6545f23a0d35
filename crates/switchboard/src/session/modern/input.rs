//! Provides the input that a modern server requires before it completes a request: asks the caller
//! its questions, and encodes the answers as `inputResponses`.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::caller::{CallerCapabilities, ElicitAnswer, ElicitationKind, Root};
use crate::session::elicitation::{action_result, elicit_response, read_elicitation};
use crate::session::in_flight::InFlightCall;
use crate::session::peer::{Peer, json_string};
use crate::session::{RequestFault, sampling};
use crate::untrusted::quoted;
use crate::wire::RawJson;

const SAMPLING_METHOD: &str = "sampling/createMessage";

/// One question of a result that requires input.
#[derive(Deserialize)]
struct ServerInputRequest<'a> {
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
}

impl<'a> ServerInputRequest<'a> {
    fn read(request: &'a RawJson) -> Result<Self, RequestFault> {
        request
            .decode()
            .map_err(|fault| RequestFault::Invalid(format!("an input request: {fault}")))
    }

    fn params_in(&self, request: &RawJson) -> Result<RawJson, RequestFault> {
        let needed = || RequestFault::Invalid(format!("{} needs params", quoted(&self.method)));
        Ok(request.part(self.params.ok_or_else(needed)?))
    }
}

/// Answers the questions of one call.
pub(super) struct InputResponder<'a> {
    peer: &'a Peer,
    call: &'a InFlightCall,
    pub(super) offers: CallerCapabilities,
    pub(super) roots: Option<Vec<Root>>,
}

impl<'a> InputResponder<'a> {
    /// Queries the caller's capabilities once: what was declared is what is answered.
    pub(super) fn new(peer: &'a Peer, call: &'a Arc<InFlightCall>) -> Self {
        let roots = call
            .caller()
            .roots()
            .or_else(|| peer.receiver.options.roots.of_call());
        Self {
            peer,
            call,
            offers: call.caller().capabilities(),
            roots,
        }
    }

    /// Asks the caller the questions in order and encodes `inputResponses`.
    pub(super) async fn respond(
        &self,
        requests: &[(String, RawJson)],
    ) -> Result<Vec<u8>, RequestFault> {
        let mut responses = vec![b'{'];
        for (key, request) in requests {
            let response = self.answer(request).await?;
            if responses.len() > 1 {
                responses.push(b',');
            }
            responses.extend_from_slice(&json_string(key));
            responses.push(b':');
            responses.extend_from_slice(response.as_bytes());
        }
        responses.push(b'}');
        Ok(responses)
    }

    /// Whether the caller declared support for all of these questions. One that answers them itself
    /// gets no others.
    pub(super) fn caller_supports(&self, requests: &[(String, RawJson)]) -> bool {
        let supports = |request| {
            let read = ServerInputRequest::read(request).ok()?;
            Some(match &*read.method {
                "elicitation/create" => {
                    let kind = read_elicitation(&read.params_in(request).ok()?).ok()?;
                    self.offers.answers(&kind)
                }
                SAMPLING_METHOD if self.offers.sampling => {
                    let params = read.params_in(request).ok()?;
                    sampling::check(&params, self.offers.sampling_tools).is_ok()
                }
                "roots/list" => self.call.caller().roots().is_some(),
                _ => false,
            })
        };
        requests
            .iter()
            .all(|(_, request)| supports(request) == Some(true))
    }

    /// Passes the sampling requests among these questions through the gate. The caller supports them
    /// all, and answers them itself.
    pub(super) async fn permit_sampling(
        &self,
        requests: &[(String, RawJson)],
    ) -> Result<(), RequestFault> {
        for (_, request) in requests {
            let read = ServerInputRequest::read(request)?;
            if read.method == SAMPLING_METHOD {
                let params = read.params_in(request)?;
                let sampling_policy = self.peer.receiver.options.sampling_policy.as_ref();
                let permitted =
                    self.call
                        .permit_sampling(params, self.call.tool_id(), sampling_policy);
                permitted
                    .await
                    .map_err(|refusal| RequestFault::Declined(refusal.to_caller))?;
            }
        }
        Ok(())
    }

    /// Answers one question.
    async fn answer(&self, request: &RawJson) -> Result<RawJson, RequestFault> {
        let read = ServerInputRequest::read(request)?;
        match &*read.method {
            "elicitation/create" => self.elicit(&read.params_in(request)?).await,
            SAMPLING_METHOD if self.offers.sampling => self.sample(read.params_in(request)?).await,
            "roots/list" if self.roots.is_some() => {
                let asked = self.call.ask_roots().await.and_then(Result::ok);
                let known = || RawJson::from(json!({"roots": self.roots}));
                Ok(asked.unwrap_or_else(known))
            }
            other => Err(RequestFault::Invalid(format!(
                "the server requested {other:?}, which was not offered"
            ))),
        }
    }

    async fn elicit(&self, params: &RawJson) -> Result<RawJson, RequestFault> {
        let kind = read_elicitation(params).map_err(RequestFault::Invalid)?;
        let is_form = matches!(kind, ElicitationKind::Form { .. });
        let answer = if self.offers.answers(&kind) {
            self.call
                .elicit(kind, params.clone(), self.call.tool_id())
                .await
        } else {
            // Declined because it was not offered, so that the call can end.
            self.peer.receiver.notice_unanswered();
            ElicitAnswer::Decline
        };
        // There is no way to send the server an error.
        let response = elicit_response(answer, is_form);
        Ok(response.unwrap_or_else(|_| RawJson::from(action_result("cancel"))))
    }

    /// The protocol has no way to decline sampling: the call fails instead, as the specification
    /// says.
    async fn sample(&self, params: RawJson) -> Result<RawJson, RequestFault> {
        sampling::check(&params, self.offers.sampling_tools).map_err(RequestFault::Invalid)?;
        let sampling_policy = self.peer.receiver.options.sampling_policy.as_ref();
        match self
            .call
            .sample(params, self.call.tool_id(), sampling_policy)
            .await
        {
            Ok(answer) => Ok(answer),
            Err(refusal) => Err(RequestFault::Declined(refusal.to_caller)),
        }
    }
}
