//! Questions to a legacy client: requests under our own ids, and the responses it sends.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use switchboard::RawJson;
use switchboard::sync::lock;
use switchboard::wire::RequestId;
use tokio::sync::oneshot;

use crate::outbound::Outbound;
use crate::reply;

/// A result, or an error object.
pub(crate) type QuestionAnswer = Result<RawJson, RawJson>;

/// The questions that a client has not answered yet.
#[derive(Debug, Default)]
pub(crate) struct OpenQuestions {
    /// By the id as JSON text.
    open: Mutex<HashMap<String, oneshot::Sender<QuestionAnswer>>>,
    last_number: AtomicU64,
}

impl OpenQuestions {
    /// Asks the client. `None` if it disconnected. Dropping the future withdraws the question.
    pub(crate) async fn ask(
        &self,
        outbound: &Outbound,
        method: &str,
        params: &[u8],
    ) -> Option<QuestionAnswer> {
        let number = self.last_number.fetch_add(1, Ordering::Relaxed);
        let id = format!("switchboard-{number}");
        let (sender, receiver) = oneshot::channel();
        lock(&self.open).insert(format!("\"{id}\""), sender);
        let _withdrawal = Withdrawal {
            questions: self,
            outbound,
            id: &id,
        };
        outbound.send(reply::request(&id, method, params));
        tokio::select! {
            answer = receiver => answer.ok(),
            () = outbound.closed() => None,
        }
    }

    /// The client answered. An id that is not ours is ignored.
    pub(crate) fn answer(&self, id: &RequestId, answer: QuestionAnswer) {
        if let RequestId::Other(text) = id
            && let Some(sender) = lock(&self.open).remove(text.as_str())
        {
            // The call that asked may have ended.
            let _ = sender.send(answer);
        }
    }

    /// The client disconnected.
    pub(super) fn withdraw_all(&self) {
        lock(&self.open).clear();
    }
}

/// Cancels the question at the client, unless it was answered.
struct Withdrawal<'a> {
    questions: &'a OpenQuestions,
    outbound: &'a Outbound,
    id: &'a str,
}

impl Drop for Withdrawal<'_> {
    fn drop(&mut self) {
        let id = format!("\"{}\"", self.id);
        if lock(&self.questions.open).remove(&id).is_some() {
            let params = format!(r#"{{"requestId":{id},"reason":"the call that asked is over"}}"#);
            let message = reply::notification("notifications/cancelled", params.as_bytes());
            self.outbound.send(message);
        }
    }
}
