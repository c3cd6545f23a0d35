//! The settings of a server, independent of the dialect.

use std::time::Duration;

/// The default size limit of one message: 64 MiB.
pub const MAX_MESSAGE_BYTES: usize = 64 * 1024 * 1024;

/// Which protocol era to speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// Detected, and remembered.
    #[default]
    Auto,
    /// With the `initialize` handshake.
    Legacy,
    /// Without a handshake; each request is self-contained.
    Modern,
}

/// When to start a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Start {
    /// With the host, all servers concurrently.
    #[default]
    Eager,
    /// On first use; the cached catalog of the last run is shown until then.
    Lazy,
}

/// Whether a server sends requests to the caller (elicitation, sampling) during calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Asks {
    /// Detected at the first such request, and remembered.
    #[default]
    Auto,
    /// It does.
    Yes,
    /// It does not.
    No,
}

/// Whether callers share one session with a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sharing {
    /// One session for all.
    #[default]
    Shared,
    /// One session for each caller.
    PerCaller,
}

/// The deadlines of one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// From spawn to ready.
    pub connect: Duration,
    /// A call without progress notifications.
    pub call: Duration,
    /// A call in total.
    pub call_max: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(30),
            call: Duration::from_secs(60),
            call_max: Duration::from_secs(600),
        }
    }
}

/// The field of an entry that limits a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeField {
    /// The native field for the time between two progress notifications.
    CallTimeout,
    /// The native field for the whole call.
    CallTimeoutMax,
    /// Gemini's field for the whole call.
    Timeout,
    /// A3S Code's field for the whole call.
    TimeoutMs,
}

impl TimeField {
    /// The name of the field in its file.
    pub fn name(self) -> &'static str {
        match self {
            Self::CallTimeout => "call_timeout",
            Self::CallTimeoutMax => "call_timeout_max",
            Self::Timeout => "timeout",
            Self::TimeoutMs => "timeout_ms",
        }
    }
}
