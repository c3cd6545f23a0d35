//! One server's entry, read and checked.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::{Dialect, Endpoint, Scope, package_runner};
use crate::name::ServerName;

/// One server's entry, as meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// Its key.
    pub name: ServerName,
    /// The kind of file it stands in, whose rules it goes by.
    pub dialect: Dialect,
    /// Where the entry stands.
    pub source: Source,
    /// How to reach it.
    pub endpoint: Endpoint,
    /// Which era to speak.
    pub protocol: Protocol,
    /// When to start it.
    pub start: Start,
    /// `false`: never spawned, still listed.
    pub enabled: bool,
    /// `true`: no confirmation for any of its tools. Always `false` for a project file's entry:
    /// see [`ProjectPermissions::trusted`].
    pub trust: bool,
    /// Whether the server asks questions during calls (decides whether calls of different callers
    /// may overlap).
    pub asks: Asks,
    /// Whether callers share one session.
    pub session: Sharing,
    /// The deadlines.
    pub timeouts: Timeouts,
    /// How long its first start may take, where a package runner may have to install it first and
    /// the entry sets no deadline.
    pub first_connect: Option<Duration>,
    /// How long a call may take, where the entry itself says it.
    pub written_call_timeout: Option<Duration>,
    /// If set, only tools that match one of these globs are offered.
    pub include_tools: Option<Vec<String>>,
    /// Tools that match one of these globs are not offered.
    pub exclude_tools: Vec<String>,
    /// Tools that may be sent again after a lost answer.
    pub idempotent_tools: Vec<String>,
    /// What the person wrote about it.
    pub description: Option<String>,
    /// The longest line or body accepted from it.
    pub max_message_bytes: usize,
}

impl ServerConfig {
    /// An entry that says nothing but where its server is; all else as a file leaves it.
    pub fn new(name: ServerName, source: Source, endpoint: Endpoint) -> Self {
        let first_connect = endpoint
            .package_runner()
            .map(|_| package_runner::FIRST_START);
        Self {
            name,
            dialect: Dialect::default(),
            source,
            endpoint,
            protocol: Protocol::default(),
            start: Start::default(),
            enabled: true,
            trust: false,
            asks: Asks::default(),
            session: Sharing::default(),
            timeouts: Timeouts::default(),
            first_connect,
            written_call_timeout: None,
            include_tools: None,
            exclude_tools: Vec::new(),
            idempotent_tools: Vec::new(),
            description: None,
            max_message_bytes: MAX_MESSAGE_BYTES,
        }
    }

    /// The longest that connecting may take: what whoever waits for the server waits for at most.
    pub fn longest_connect(&self) -> Duration {
        self.first_connect
            .unwrap_or_default()
            .max(self.timeouts.connect)
    }

    /// The field of its entry that gives a call more time: `total`, in all; else between two
    /// reports.
    pub fn time_field(&self, total: bool) -> TimeField {
        match self.dialect.profile().call_timeout_field {
            Some(field) => field,
            None if total => TimeField::CallTimeoutMax,
            None => TimeField::CallTimeout,
        }
    }
}

/// The default bound of one message: 64 MiB.
pub const MAX_MESSAGE_BYTES: usize = 64 * 1024 * 1024;

/// Where an entry stands, so that every message and `why` can name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The file: its folder absolute and free of links.
    pub file: Arc<PathBuf>,
    /// What relative paths start at: the file's folder, or the project's where the dialect keeps
    /// its file in a folder of its own.
    pub folder: Arc<PathBuf>,
    /// 1-based line of the entry's head.
    pub line: usize,
    /// Whose file it is.
    pub scope: Scope,
    /// The file whose entry of the same name this one replaced.
    pub shadows: Option<Arc<PathBuf>>,
}

impl Source {
    /// No file: an embedder's own code, trusted like a file that was given. Relative paths start at
    /// the process's folder.
    pub fn code() -> Self {
        Self::new(Arc::new(PathBuf::from("(code)")), 1, Scope::Given)
    }

    /// An entry of a file; relative paths start at its folder.
    pub fn new(file: Arc<PathBuf>, line: usize, scope: Scope) -> Self {
        let folder = Arc::new(file.parent().map(Path::to_owned).unwrap_or_default());
        Self {
            file,
            folder,
            line,
            scope,
            shadows: None,
        }
    }
}

/// Which protocol era to speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// Find out, and remember.
    #[default]
    Auto,
    /// `initialize`.
    Legacy,
    /// No handshake; each request self-contained.
    Modern,
}

/// When to start a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Start {
    /// With the host, all at once.
    #[default]
    Eager,
    /// On first use; the catalog of last time is shown until then.
    Lazy,
}

/// Whether a server asks questions during calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Asks {
    /// Found out when it first asks, and remembered.
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
    /// From spawn to Ready.
    pub connect: Duration,
    /// A call without progress.
    pub call: Duration,
    /// A call in all.
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
