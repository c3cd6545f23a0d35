//! Why there is no turn: a kind that the caller acts on, and a sentence for a person.

use std::fmt;
use std::time::Duration;

use switchboard::Untrusted;

use crate::refusal::ToolRefusal;

pub mod read;

/// How much of a vendor's message is kept.
const MAX_MESSAGE_CHARS: usize = 600;

/// Why there is no turn.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelFault {
    /// What kind of failure it is.
    pub kind: FaultKind,
    /// What happened; the vendor's own words where it had some. Free of control characters.
    pub message: String,
    /// Details. Boxed, because many functions return a fault.
    pub details: Box<FaultDetails>,
}

/// The details of a failure.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FaultDetails {
    /// The HTTP status, where one came.
    pub status: Option<u16>,
    /// The vendor's code or type of the error, such as `overloaded_error`.
    pub code: Option<String>,
    /// The pause that the vendor asks for.
    pub retry_after: Option<Duration>,
    /// Whether a retry makes sense, if the vendor says so explicitly.
    pub should_retry: Option<bool>,
    /// Which tool the vendor refused, where the message is about tools.
    pub refusal: Option<ToolRefusal>,
    /// The vendor's id of the request, for its support.
    pub request_id: Option<String>,
    /// Which model, and where, for the sentence: `"claude-x" at api.anthropic.com`.
    pub model: Option<String>,
}

/// The kinds of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultKind {
    /// The vendor is overloaded or had an internal error.
    Overloaded,
    /// Too many requests or tokens in a time.
    RateLimited,
    /// No connection, or it broke.
    Network,
    /// Nothing came for too long.
    TimedOut,
    /// The answer ended before it was complete.
    CutOff,
    /// The model wrote a call that the vendor could not read.
    MalformedCall,
    /// The key is missing, wrong or not allowed to do this.
    Authentication,
    /// Money or a daily quota is used up.
    QuotaExceeded,
    /// The conversation is longer than the model can read.
    ContextOverflow {
        /// How many tokens the model can read, if the vendor reports it.
        limit: Option<u64>,
    },
    /// The vendor does not have the model.
    UnknownModel,
    /// The vendor does not accept the request.
    InvalidRequest,
    /// The answer is not what the wire describes, or too large.
    Unreadable,
    /// The model was asked for a summary of the conversation, and wrote none that can be used.
    NoSummary,
}

impl ModelFault {
    /// A fault with its kind and message, and nothing else.
    pub fn new(kind: FaultKind, message: impl AsRef<str>) -> Self {
        Self {
            kind,
            message: plain_line(message.as_ref()),
            details: Box::default(),
        }
    }

    pub(crate) fn cut_off(message: &str) -> Self {
        Self::new(FaultKind::CutOff, message)
    }

    pub(crate) fn unreadable(error: impl fmt::Display) -> Self {
        Self::new(
            FaultKind::Unreadable,
            format!("the answer cannot be read: {error}"),
        )
    }

    /// Whether the same request may work later.
    pub fn may_work_later(&self) -> bool {
        matches!(
            self.kind,
            FaultKind::Overloaded
                | FaultKind::RateLimited
                | FaultKind::Network
                | FaultKind::TimedOut
                | FaultKind::CutOff
                | FaultKind::MalformedCall
        )
    }

    /// What to try, for a person.
    pub fn hint(&self) -> &'static str {
        match self.kind {
            FaultKind::Overloaded => "try again in a few minutes, or use another model",
            FaultKind::RateLimited => "wait, or use another model",
            FaultKind::Network => "check the network, the proxy and `base_url` in [model]",
            FaultKind::TimedOut => "try again; check that the model server is not stuck",
            FaultKind::CutOff | FaultKind::MalformedCall => "try again",
            FaultKind::Authentication => "check `api_key` in [model], or the vendor's variable",
            FaultKind::QuotaExceeded => "check plan, credit and limits with the vendor",
            FaultKind::ContextOverflow { .. } => "compact the conversation or start a new one",
            FaultKind::UnknownModel => "check `name`, `vendor` and `base_url` in [model]",
            FaultKind::InvalidRequest => "check [model]; a new conversation may help",
            FaultKind::Unreadable => {
                "check that `base_url` in [model] speaks the API that `vendor` names"
            }
            FaultKind::NoSummary => "try again, use another model, or start a new conversation",
        }
    }
}

impl fmt::Display for ModelFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(model) = &self.details.model {
            write!(f, "model {model}: ")?;
        }
        f.write_str(match self.kind {
            FaultKind::Overloaded => "the vendor cannot answer now",
            FaultKind::RateLimited => "the vendor's rate limit is reached",
            FaultKind::Network => "no connection",
            FaultKind::TimedOut => "no answer in time",
            FaultKind::CutOff => "the answer is incomplete",
            FaultKind::MalformedCall => "the model wrote a call that the vendor could not read",
            FaultKind::Authentication => "the key was not accepted",
            FaultKind::QuotaExceeded => "the quota is used up",
            FaultKind::ContextOverflow { .. } => "the conversation is too long for the model",
            FaultKind::UnknownModel => "the vendor does not have this model",
            FaultKind::InvalidRequest => "the vendor does not accept the request",
            FaultKind::Unreadable => "the answer is not what the vendor's API describes",
            FaultKind::NoSummary => "there is no summary of the conversation",
        })?;
        if let Some(status) = self.details.status {
            write!(f, " (HTTP {status})")?;
        }
        if !self.message.is_empty() {
            write!(f, ": {}", self.message)?;
        }
        if let Some(id) = &self.details.request_id {
            write!(f, " [request {id}]")?;
        }
        if let Some(pause) = self.details.retry_after {
            write!(
                f,
                "; the vendor asks to wait {} s",
                pause.as_secs_f64().ceil()
            )?;
        }
        write!(f, "; {}", self.hint())
    }
}

impl std::error::Error for ModelFault {}

/// A vendor's text as one bounded line without characters that a person would not see: it reaches a
/// terminal.
pub(crate) fn plain_line(text: &str) -> String {
    let text = Untrusted::new(text);
    let visible = text.for_model().0;
    let words: Vec<&str> = visible.split_whitespace().collect();
    let mut line = words.join(" ");
    if line.chars().count() > MAX_MESSAGE_CHARS {
        line = line.chars().take(MAX_MESSAGE_CHARS).collect();
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_one_sentence_with_what_to_try() {
        let mut fault = ModelFault::new(FaultKind::Overloaded, "Over\u{1b}[31mloaded\n now");
        fault.details.status = Some(529);
        fault.details.model = Some("claude-x at api.anthropic.com".to_owned());
        assert_eq!(
            fault.to_string(),
            "model claude-x at api.anthropic.com: the vendor cannot answer now (HTTP 529): \
             Over[31mloaded now; try again in a few minutes, or use another model"
        );
        assert!(fault.may_work_later());
        let key = ModelFault::new(FaultKind::Authentication, "");
        assert!(!key.may_work_later());
    }

    #[test]
    fn long_messages_are_cut() {
        let line = plain_line(&"ab ".repeat(1000));
        assert_eq!(line.chars().count(), MAX_MESSAGE_CHARS + 1);
    }
}
