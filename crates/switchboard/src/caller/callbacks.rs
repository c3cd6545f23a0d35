//! A caller made of closures, for a program without its own caller type.

use std::fmt;
use std::future::Future;

use super::{
    Approval, ApprovalRequest, BoxFuture, Caller, CallerCapabilities, CallerId, ElicitAnswer,
    Elicitation,
};

/// A [`Caller`] made of closures. Without a closure, questions are answered as by
/// [`Headless`](super::Headless).
///
/// ```
/// use switchboard::{Approval, Callbacks};
///
/// let caller = Callbacks::new("my-agent").on_approval(|request| async move {
///     match request.id.server.as_str() {
///         "files" => Approval::Once,
///         _ => Approval::no("this agent uses files only"),
///     }
/// });
/// ```
pub struct Callbacks {
    id: CallerId,
    approve: Option<AnswerFn<ApprovalRequest, Approval>>,
    elicit: Option<AnswerFn<Elicitation, ElicitAnswer>>,
}

type AnswerFn<Q, A> = Box<dyn Fn(Q) -> BoxFuture<'static, A> + Send + Sync>;

impl Callbacks {
    /// A caller with this id and no closures.
    pub fn new(id: &str) -> Self {
        Self {
            id: CallerId::new(id),
            approve: None,
            elicit: None,
        }
    }

    /// Sets the closure that decides on calls that need approval. Dropping the future withdraws the
    /// question.
    pub fn on_approval<F, R>(mut self, approve: F) -> Self
    where
        F: Fn(ApprovalRequest) -> R + Send + Sync + 'static,
        R: Future<Output = Approval> + Send + 'static,
    {
        self.approve = Some(Box::new(move |request| Box::pin(approve(request))));
        self
    }

    /// Sets the closure that answers servers' questions: forms, and pages to open. Servers are told
    /// that both kinds are supported.
    pub fn on_elicitation<F, R>(mut self, elicit: F) -> Self
    where
        F: Fn(Elicitation) -> R + Send + Sync + 'static,
        R: Future<Output = ElicitAnswer> + Send + 'static,
    {
        self.elicit = Some(Box::new(move |question| Box::pin(elicit(question))));
        self
    }
}

impl Caller for Callbacks {
    fn id(&self) -> &CallerId {
        &self.id
    }

    fn capabilities(&self) -> CallerCapabilities {
        let elicits = self.elicit.is_some();
        CallerCapabilities {
            elicit_form: elicits,
            elicit_url: elicits,
            ..CallerCapabilities::default()
        }
    }

    fn approve<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, Approval> {
        match &self.approve {
            Some(approve) => approve(request.clone()),
            None => Box::pin(async { Approval::Unavailable }),
        }
    }

    fn elicit<'a>(&'a self, question: &'a Elicitation) -> BoxFuture<'a, ElicitAnswer> {
        match &self.elicit {
            Some(elicit) => elicit(question.clone()),
            None => Box::pin(async { ElicitAnswer::Decline }),
        }
    }
}

impl fmt::Debug for Callbacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callbacks")
            .field("id", &self.id)
            .field("approve", &self.approve.is_some())
            .field("elicit", &self.elicit.is_some())
            .finish()
    }
}
