//! Approval of calls whose client cannot be asked: it declared neither elicitation nor the modern
//! `input_required`.

use switchboard::{Approval, ApprovalRequest, BoxFuture};

use crate::{CommandWords, Principal};

/// Decides on calls whose client cannot be asked. A queue for an operator implements it; without
/// one, such calls are denied ([`DenyUnasked`]).
pub trait Approvals: Send + Sync {
    /// Decides on a call. Dropping the future withdraws the question. The reason of `Approval::no`
    /// becomes the call's error result.
    fn approve<'a>(&'a self, call: &'a HeldCall<'a>) -> BoxFuture<'a, Approval>;
}

/// A call that waits for approval.
pub struct HeldCall<'a> {
    /// The client that made the call.
    pub principal: &'a Principal,
    /// The tool, the arguments, and why approval is needed.
    pub request: &'a ApprovalRequest,
    /// Sends progress to the client, so that it does not time out; does nothing if the client sent no
    /// progress token.
    pub keep_alive: &'a (dyn Fn(&str) + Send + Sync),
    /// Words a command of the program in the call's error.
    pub command_words: CommandWords,
}

/// Denies every call whose client cannot be asked.
#[derive(Debug, Clone, Default)]
pub struct DenyUnasked {
    /// What else a person can do to let such a call run, beside a rule.
    pub advice: Option<String>,
}

impl Approvals for DenyUnasked {
    fn approve<'a>(&'a self, call: &'a HeldCall<'a>) -> BoxFuture<'a, Approval> {
        let id = call.request.id.shown();
        let mut reason = format!(
            "the client cannot be asked; to let it run without asking, add \"{id}\" to `allow` under [permissions]"
        );
        if let Some(advice) = &self.advice {
            reason.push_str(", or ");
            reason.push_str(advice);
        }
        Box::pin(async move { Approval::no(reason) })
    }
}
