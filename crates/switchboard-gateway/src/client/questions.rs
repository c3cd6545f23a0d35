//! Questions to a legacy client: requests under sealed ids, and the responses it sends.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use switchboard::RawJson;
use switchboard::sync::lock;
use switchboard::wire::RequestId;
use tokio::sync::oneshot;

use crate::cluster::Cluster;
use crate::outbound::Outbound;
use crate::principal::Principal;
use crate::reply;
use crate::seal::{SealKind, SealedContent};

/// How long the id of a question can be opened: longer than anybody waits for its answer.
const ID_LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// A result, or an error object.
pub(crate) type QuestionAnswer = Result<RawJson, RawJson>;

/// The questions that a client has not answered yet.
#[derive(Debug, Default)]
pub(crate) struct OpenQuestions {
    /// By number.
    open: Mutex<HashMap<u64, oneshot::Sender<QuestionAnswer>>>,
    last_number: AtomicU64,
}

/// Seals the ids of questions to one client: another client has no id that opens here.
#[derive(Clone, Copy)]
pub(crate) struct QuestionSeal<'a> {
    pub(super) cluster: &'a dyn Cluster,
    pub(super) principal: &'a Principal,
    /// Distinguishes clients of one principal.
    pub(super) client: u64,
}

impl QuestionSeal<'_> {
    fn seal(&self, number: u64) -> String {
        let content = SealedContent {
            replica: self.cluster.replica(),
            expires: SystemTime::now() + ID_LIFETIME,
            digest: [0; 32],
            payload: [self.client.to_le_bytes(), number.to_le_bytes()].concat(),
        };
        let principal = self.principal.as_str();
        self.cluster.seal(SealKind::Question, principal, &content)
    }

    /// The number of a question to this client; `None` if the id is not one of ours for it.
    fn open(&self, id: &RequestId) -> Option<u64> {
        let RequestId::Other(text) = id else {
            return None;
        };
        let principal = self.principal.as_str();
        let opened = self
            .cluster
            .open_sealed(SealKind::Question, principal, &text.text()?);
        let content = opened.ok()?.content;
        let (client, number) = content.payload.split_first_chunk()?;
        let is_ours =
            content.replica == self.cluster.replica() && u64::from_le_bytes(*client) == self.client;
        let number = number.try_into().ok()?;
        is_ours.then(|| u64::from_le_bytes(number))
    }
}

impl OpenQuestions {
    /// Asks the client. `None` if it disconnected. Dropping the future withdraws the question.
    pub(crate) async fn ask(
        &self,
        seal: QuestionSeal<'_>,
        outbound: &Outbound,
        method: &str,
        params: &[u8],
    ) -> Option<QuestionAnswer> {
        let number = self.last_number.fetch_add(1, Ordering::Relaxed);
        let id = seal.seal(number);
        let (sender, receiver) = oneshot::channel();
        lock(&self.open).insert(number, sender);
        let _withdrawal = Withdrawal {
            questions: self,
            outbound,
            number,
            id: &id,
        };
        outbound.send(reply::request(&id, method, params));
        tokio::select! {
            answer = receiver => answer.ok(),
            () = outbound.closed() => None,
        }
    }

    /// The client answered. False if the id is not one of ours for this client. An answer to a question
    /// that was withdrawn is ignored.
    pub(crate) fn answer(
        &self,
        seal: QuestionSeal<'_>,
        id: &RequestId,
        answer: QuestionAnswer,
    ) -> bool {
        let Some(number) = seal.open(id) else {
            return false;
        };
        let sender = lock(&self.open).remove(&number);
        if let Some(sender) = sender {
            // The call that asked may have ended.
            let _ = sender.send(answer);
        }
        true
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
    number: u64,
    id: &'a str,
}

impl Drop for Withdrawal<'_> {
    fn drop(&mut self) {
        if lock(&self.questions.open).remove(&self.number).is_some() {
            let id = self.id;
            let params =
                format!(r#"{{"requestId":"{id}","reason":"the call that asked is over"}}"#);
            let message = reply::notification("notifications/cancelled", params.as_bytes());
            self.outbound.send(message);
        }
    }
}
