//! What a person could do about a failure, as a value: whoever shows it words it, in commands and
//! fields that the person has.

/// What a person could do about a failure of one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Advice {
    /// Look closer at the server.
    Examine,
    /// Log in to it.
    LogIn,
    /// Look at its entry, and accept it.
    Accept,
    /// Give its calls more time by this field of its entry.
    AllowTime(TimeField),
    /// Allow the tool by a rule; `beforehand`: or say yes with the call.
    AllowTool {
        /// A yes that is said with the call counts for it.
        beforehand: bool,
    },
}

/// The field of an entry that limits a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeField {
    /// The native one for the silence between two reports.
    CallTimeout,
    /// The native one for the whole call.
    CallTimeoutMax,
    /// Gemini's for the whole call.
    Timeout,
    /// A3S Code's for the whole call.
    TimeoutMs,
}

impl TimeField {
    /// As its file spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::CallTimeout => "call_timeout",
            Self::CallTimeoutMax => "call_timeout_max",
            Self::Timeout => "timeout",
            Self::TimeoutMs => "timeout_ms",
        }
    }
}
