//! Options of sessions and calls, the declarations of the handshake, and the counted deviations.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::broadcast;
use tokio::time::Instant;

use super::{Cache, Era, Revision, Roots, ServerSamplingPolicy, Subscriptions};
use crate::catalog::ToolDefinition;
use crate::config::{Asks, MAX_MESSAGE_BYTES, Protocol, Timeouts};
use crate::event::Event;
use crate::name::ServerName;
use crate::secret::{Redacted, Redactor};
use crate::store::LogFile;
use crate::sync::lock;
use crate::wire::{RawJson, for_each_member};

/// What the server declared in the handshake.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Hello {
    /// The negotiated revision of the protocol.
    pub revision: Revision,
    /// `serverInfo`, byte for byte.
    pub server_info: Option<RawJson>,
    /// `capabilities`, byte for byte.
    pub capabilities: RawJson,
    /// `instructions`: how the server wants to be used.
    pub instructions: Option<Redacted>,
}

impl Hello {
    /// The era of the revision.
    pub fn era(&self) -> Era {
        self.revision.era()
    }

    /// Whether the server declared a capability, by its path: `["resources", "subscribe"]`.
    pub fn declares(&self, path: &[&str]) -> bool {
        let declared = self.capabilities.member_at(path);
        declared.is_some_and(|value| !matches!(value, "null" | "false"))
    }

    /// Whether the server declared any extension of the protocol.
    pub(crate) fn declares_extension(&self) -> bool {
        let mut count = 0;
        let extensions = self.capabilities.member("extensions");
        for_each_member(extensions.unwrap_or_default(), |_, _| count += 1);
        count > 0
    }
}

/// The options for opening a session.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// The server's name, for messages.
    pub server: ServerName,
    /// The entry's `protocol`.
    pub protocol: Protocol,
    /// The era that worked last time with this launch.
    pub(crate) known_era: Option<Era>,
    /// Whether the server is known to ask questions during calls.
    pub asks: Asks,
    /// The capabilities that a legacy session advertises; a modern request declares its caller's.
    pub offers: crate::caller::CallerCapabilities,
    /// The roots for callers that have none of their own.
    pub roots: Roots,
    /// Decides on sampling requests; without one they are refused.
    pub(crate) sampling_policy: Option<ServerSamplingPolicy>,
    /// The time limit of opening.
    pub connect_timeout: Duration,
    /// The size limit of one message, for the error that names it.
    pub max_message_bytes: usize,
    /// Receives logs and notices that belong to no call.
    pub events: Option<broadcast::Sender<Event>>,
    /// Counts deviations. The opener keeps a clone, for a session that did not open.
    pub deviations: DeviationCounter,
    /// The server's log file, which also gets its log messages.
    pub(crate) log: Option<LogFile>,
    /// Subscriptions and the log level, shared by all sessions with the server.
    pub(crate) subscriptions: Subscriptions,
    /// Results that the server allowed us to cache.
    pub(crate) cache: Cache,
    /// Redacts the secrets of this launch in the server's texts.
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
            offers: Default::default(),
            roots: Roots::default(),
            sampling_policy: None,
            connect_timeout: Timeouts::default().connect,
            max_message_bytes: MAX_MESSAGE_BYTES,
            events: None,
            deviations: DeviationCounter::default(),
            log: None,
            subscriptions: Subscriptions::default(),
            cache: Cache::default(),
            redactor: Redactor::default(),
        }
    }
}

/// The options of one tool call.
#[derive(Debug, Clone)]
pub(crate) struct CallOptions {
    /// The time limits.
    pub timeouts: Timeouts,
    /// When the call began, if before now; `timeouts.call_max` counts from then.
    pub since: Option<Instant>,
    /// The approved definition as the shared session lists it now, if it may be another than the
    /// permit's. It must still be offered right before each `tools/call`.
    pub definition: Option<Arc<ToolDefinition>>,
    /// The definition as the caller's own session lists it, if there is one.
    pub own_definition: Option<Arc<ToolDefinition>>,
}

/// Deviations from the protocol on a connection, for diagnosis.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProtocolDeviations {
    /// Lines that were not JSON-RPC messages.
    pub junk_lines: u64,
    /// The first 20 of them, truncated to 200 bytes.
    pub junk_samples: Vec<Redacted>,
    /// Responses that match no request.
    pub unknown_ids: u64,
    /// Requests on a modern session, where a server may send none.
    pub forbidden_requests: u64,
    /// Questions declined because nothing showed which call they belong to.
    pub unattributed: u64,
}

/// Counts the [`ProtocolDeviations`] of one connection. Clones share the counts, also after the session has
/// ended.
#[derive(Debug, Clone, Default)]
pub struct DeviationCounter(Arc<Mutex<ProtocolDeviations>>);

impl DeviationCounter {
    /// The deviations so far.
    pub fn deviations(&self) -> ProtocolDeviations {
        self.lock().clone()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, ProtocolDeviations> {
        lock(&self.0)
    }
}
