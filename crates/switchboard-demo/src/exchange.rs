//! One request while it is handled: [`Call`] for immediate responses, [`Exchange`] for those that
//! take time.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::era::{Level, RequestTerms};
use crate::outgoing::Replies;
use crate::peer::{Peer, PeerResponse};
use crate::rpc::{Body, Fault, Params, write_notification, write_result, write_value};

/// How a request ends, if not with a fault.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// With a result.
    Done(Body),
    /// With a modern result that asks for input.
    Asking(Body),
    /// With a modern result that is a task.
    Task(Body),
    /// Later: an [`Exchange`] or a listener settles it.
    Later,
}

/// A request that is being answered.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) peer: &'a Arc<Peer>,
    pub(crate) replies: &'a Replies,
    pub(crate) id: &'a str,
    pub(crate) params: &'a Params<'a>,
    pub(crate) terms: &'a RequestTerms<'a>,
}

impl<'a> Call<'a> {
    /// Parses the arguments. Wrong ones are a failure of the tool, which a model can read and correct,
    /// not a protocol error.
    pub(crate) fn arguments<T: Deserialize<'a>>(&self) -> Result<T, Body> {
        let text = self.params.arguments.map_or("{}", RawValue::get);
        serde_json::from_str(text).map_err(|error| {
            Body::from_failure(format!("wrong arguments for {}: {error}", self.params.name))
        })
    }

    /// Sends a log message, if the peer asked for this level.
    pub(crate) fn log(&self, level: Level, data: &Value) -> bool {
        let is_wanted = self.terms.log_level().is_some_and(|least| level >= least);
        if is_wanted {
            let params = json!({"level": level.name(), "logger": "demo", "data": data});
            self.replies
                .outlet
                .push(|out| write_notification(out, "notifications/message", &params));
        }
        is_wanted
    }

    /// Makes this a request that is answered later and can be cancelled.
    pub(crate) fn detach(&self) -> Exchange {
        Exchange {
            peer: self.peer.clone(),
            replies: self.replies.clone(),
            id: self.id.into(),
            tool: self.params.name.to_string(),
            version: self.terms.version(),
            is_modern: self.terms.is_modern(),
            progress_token: self.params.meta.progress_token.map(ToOwned::to_owned),
            stop: self.peer.begin(self.id),
        }
    }
}

/// A request that is answered later.
#[derive(Debug)]
pub(crate) struct Exchange {
    peer: Arc<Peer>,
    replies: Replies,
    id: Box<str>,
    /// The name of the tool, for log lines.
    tool: String,
    version: &'static str,
    is_modern: bool,
    progress_token: Option<Box<RawValue>>,
    /// Resolves when the peer cancels, with its reason, or when the connection ends.
    stop: oneshot::Receiver<String>,
}

/// Why the peer no longer waits for the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cancellation {
    pub(crate) reason: String,
}

impl Exchange {
    pub(crate) fn version(&self) -> &'static str {
        self.version
    }

    /// Waits until the peer cancels.
    pub(crate) async fn stopped(&mut self) -> Cancellation {
        let reason = (&mut self.stop)
            .await
            .unwrap_or_else(|_| "the connection ended".to_owned());
        Cancellation { reason }
    }

    /// Reports progress, if the peer gave a token for it.
    pub(crate) fn progress(&self, progress: u64, total: u64, message: &str) {
        if let Some(token) = &self.progress_token {
            let params = json!({"progressToken": token, "progress": progress, "total": total, "message": message});
            self.replies
                .outlet
                .push(|out| write_notification(out, "notifications/progress", &params));
        }
    }

    /// Makes the transport drop the connection that would carry the answer.
    pub(crate) fn hang_up(&self) {
        self.replies.outlet.hang_up();
    }

    /// Sends a notification that belongs to no request.
    pub(crate) fn notify(&self, method: &str, params: &Value) {
        self.replies
            .outlet
            .push(|out| write_notification(out, method, params));
    }

    /// Sends a request of ours to a legacy peer and waits for its response; cancels it if the call is
    /// cancelled.
    pub(crate) async fn ask(
        &mut self,
        method: &str,
        params: Value,
    ) -> Result<PeerResponse, Cancellation> {
        let (id, reaction) = self.peer.begin_question();
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.peer
            .asking_outlet(&self.replies)
            .push(|out| write_value(out, &request));
        tokio::select! {
            biased;
            stopped = self.stopped() => {
                self.peer.forget_question(id);
                let params = json!({"requestId": id, "reason": "the call was cancelled"});
                let outlet = self.peer.asking_outlet(&self.replies);
                outlet.push(|out| write_notification(out, "notifications/cancelled", &params));
                Err(stopped)
            }
            reaction = reaction => reaction.map_err(|_| Cancellation { reason: "the connection ended".to_owned() }),
        }
    }

    /// Answers, unless the call was cancelled, as the specification requires.
    pub(crate) fn finish(self, body: &Body) {
        if !self.peer.finish(&self.id) {
            return self.replies.settle_silently();
        }
        let extra = if self.is_modern {
            self.peer.demo.complete_extra.as_str()
        } else {
            ""
        };
        self.replies
            .settle(|out| write_result(out, &self.id, body, extra));
    }

    /// Answers with an error, unless the call was cancelled.
    pub(crate) fn refuse(self, fault: &Fault) {
        if self.peer.finish(&self.id) {
            self.replies.settle_with_fault(&self.id, fault)
        } else {
            self.replies.settle_silently()
        }
    }

    /// Ends without an answer, and logs it on stderr.
    pub(crate) fn abandon(self, stopped: &Cancellation) {
        use std::io::Write;
        self.peer.demo.count_stopped();
        self.replies.settle_silently();
        // stderr may be closed, which is no reason to fail.
        let _ = writeln!(
            std::io::stderr(),
            "{}: call {} cancelled: {}",
            self.tool,
            self.id,
            stopped.reason
        );
    }
}
