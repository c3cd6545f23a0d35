//! What a session is opened with, what the handshake declared, how a call is made, and what was
//! odd.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::broadcast;
use tokio::time::Instant;

use super::{Cache, Era, Overseer, Revision, Roots, Subscriptions};
use crate::catalog::ToolDefinition;
use crate::config::{Asks, MAX_MESSAGE_BYTES, Protocol, Sharing, Timeouts};
use crate::event::Event;
use crate::name::ServerName;
use crate::secret::{Redacted, Redactor};
use crate::store::LogFile;
use crate::sync::lock;
use crate::wire::RawJson;

/// What the server declared in the handshake.
#[derive(Debug, Clone)]
pub struct Hello {
    /// Which revision of the protocol it speaks.
    pub revision: Revision,
    /// `serverInfo`, as it came.
    pub server_info: Option<RawJson>,
    /// `capabilities`, as they came.
    pub capabilities: RawJson,
    /// How it wants to be used.
    pub instructions: Option<Redacted>,
}

impl Hello {
    /// The era of its revision.
    pub fn era(&self) -> Era {
        self.revision.era()
    }

    /// Whether the server declared this capability: `["resources", "subscribe"]`.
    pub fn declares(&self, path: &[&str]) -> bool {
        let Ok(declared) = self.capabilities.to_value() else {
            return false;
        };
        let found = path.iter().try_fold(&declared, |value, key| value.get(key));
        found.is_some_and(|value| !matches!(value, Value::Null | Value::Bool(false)))
    }

    /// Whether the server declared any extension of the protocol.
    pub(crate) fn declares_extension(&self) -> bool {
        let declared = self.capabilities.to_value().unwrap_or_default();
        let extensions = declared["extensions"].as_object();
        extensions.is_some_and(|extensions| !extensions.is_empty())
    }
}

/// What a session is opened with.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// The server's name, for messages.
    pub server: ServerName,
    /// The entry's `protocol`.
    pub protocol: Protocol,
    /// The era that worked last time with this launch.
    pub(crate) known_era: Option<Era>,
    /// Whether the server is known to ask during calls.
    pub asks: Asks,
    /// Whether callers share the session.
    pub sharing: Sharing,
    /// What a legacy session advertises to the server; a modern request declares what its caller
    /// offers.
    pub offers: crate::caller::Offers,
    /// The folders a server may ask for, where its caller has none of its own.
    pub roots: Roots,
    /// Permits servers to have answers of a caller's model; without one they have none.
    pub(crate) overseer: Option<Arc<dyn Overseer>>,
    /// How long opening may take.
    pub connect_timeout: Duration,
    /// The bound of one message, for the error that names it.
    pub max_message_bytes: usize,
    /// Receives logs and notices that belong to no call.
    pub events: Option<broadcast::Sender<Event>>,
    /// Where oddities are counted. Whoever opens keeps a clone, for a session that did not open.
    pub oddities: OddityLog,
    /// The server's log file, which also gets its log messages.
    pub(crate) log: Option<LogFile>,
    /// Subscriptions and the log level, for every session with the server.
    pub(crate) subscriptions: Subscriptions,
    /// Results that the server allowed us to cache.
    pub(crate) cache: Cache,
    /// Removes the secrets of this launch from what the server says.
    pub redactor: Redactor,
}

impl OpenOptions {
    /// The defaults of an entry, for a caller that offers nothing.
    pub fn new(server: ServerName) -> Self {
        Self {
            server,
            protocol: Protocol::default(),
            known_era: None,
            asks: Asks::default(),
            sharing: Sharing::default(),
            offers: Default::default(),
            roots: Roots::default(),
            overseer: None,
            connect_timeout: Timeouts::default().connect,
            max_message_bytes: MAX_MESSAGE_BYTES,
            events: None,
            oddities: OddityLog::default(),
            log: None,
            subscriptions: Subscriptions::default(),
            cache: Cache::default(),
            redactor: Redactor::default(),
        }
    }
}

/// How one tool call is made.
#[derive(Debug, Clone)]
pub struct CallOptions {
    /// The deadlines.
    pub timeouts: Timeouts,
    /// When the call began, if that was before now; `timeouts.call_max` is counted from then.
    pub since: Option<Instant>,
    /// The definition that was approved, as the shared session lists it. Right before each
    /// `tools/call` it must still be offered.
    pub definition: Arc<ToolDefinition>,
    /// The same of the caller's own session, where it has one.
    pub own_definition: Option<Arc<ToolDefinition>>,
}

/// What was odd on a connection, for diagnosis.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Oddities {
    /// Lines that were not JSON-RPC messages.
    pub junk_lines: u64,
    /// The first 20 of them, cut at 200 bytes.
    pub junk_samples: Vec<Redacted>,
    /// Responses to no request of ours.
    pub unknown_ids: u64,
    /// Requests of the server on a modern session, where it may send none.
    pub forbidden_requests: u64,
    /// Questions declined because nothing said which call they belong to.
    pub unattributed: u64,
}

/// The [`Oddities`] of one connection while they are counted. Clones share them, also after the
/// session has ended.
#[derive(Debug, Clone, Default)]
pub struct OddityLog(Arc<Mutex<Oddities>>);

impl OddityLog {
    /// The oddities so far.
    pub fn oddities(&self) -> Oddities {
        self.lock().clone()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Oddities> {
        lock(&self.0)
    }
}
