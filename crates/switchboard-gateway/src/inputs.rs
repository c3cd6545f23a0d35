//! The input that a modern client is asked for during one call: a legacy server's questions and the
//! gate's, until the client's next request answers them.

use std::sync::Mutex;

use serde_json::Value;
use switchboard::RawJson;
use switchboard::sync::lock;
use tokio::sync::{Notify, oneshot};

use crate::reply;

/// The open questions of one call.
#[derive(Debug, Default)]
pub(crate) struct InputRequests {
    open: Mutex<OpenInputs>,
    /// Notified when a question is added.
    added: Notify,
}

#[derive(Debug, Default)]
struct OpenInputs {
    last_number: u64,
    questions: Vec<OpenInput>,
}

#[derive(Debug)]
struct OpenInput {
    key: String,
    /// `{"method":…,"params":…}`.
    request: Vec<u8>,
    answer: oneshot::Sender<RawJson>,
}

impl InputRequests {
    /// Asks the client; `None` if the call ends first. Dropping the future withdraws the question.
    pub(crate) async fn ask(&self, method: &str, params: &[u8]) -> Option<RawJson> {
        let (answer, receiver) = oneshot::channel();
        let key = {
            let mut open = lock(&self.open);
            open.last_number += 1;
            let key = format!("question-{}", open.last_number);
            let method = Value::from(method).to_string();
            let members = [("method", method.as_bytes()), ("params", params)];
            open.questions.push(OpenInput {
                key: key.clone(),
                request: reply::object(members.into_iter()),
                answer,
            });
            key
        };
        self.added.notify_one();
        let _withdrawal = InputWithdrawal { inputs: self, key };
        receiver.await.ok()
    }

    /// Waits until a question is open.
    pub(crate) async fn until_open(&self) {
        while lock(&self.open).questions.is_empty() {
            self.added.notified().await;
        }
    }

    /// The value of `inputRequests`.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        let open = lock(&self.open);
        let questions = open.questions.iter();
        reply::object(questions.map(|question| (question.key.as_str(), &question.request[..])))
    }

    /// Passes on the client's `inputResponses`. Questions without a response stay open.
    pub(crate) fn answer(&self, responses: &RawJson) {
        for (key, response) in responses.members().unwrap_or_default() {
            let mut open = lock(&self.open);
            let place = open.questions.iter().position(|known| known.key == key);
            if let Some(place) = place {
                let question = open.questions.remove(place);
                // The call that asked may have ended.
                let _ = question.answer.send(response);
            }
        }
    }
}

struct InputWithdrawal<'a> {
    inputs: &'a InputRequests,
    key: String,
}

impl Drop for InputWithdrawal<'_> {
    fn drop(&mut self) {
        lock(&self.inputs.open)
            .questions
            .retain(|question| question.key != self.key);
    }
}
