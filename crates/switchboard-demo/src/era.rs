//! The protocol era of a request, and the capabilities of its sender.
//!
//! `initialize` makes a peer legacy for the whole connection; a request that carries its version in
//! `_meta` is modern, by itself. Both may happen on one connection.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::options::Eras;
use crate::rpc::{Fault, Params};

/// The one modern revision.
pub(crate) const MODERN_VERSION: &str = "2026-07-28";

/// The revisions that begin with a handshake, the latest last.
pub(crate) const LEGACY_VERSIONS: [&str; 4] =
    ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// The revision in which one line may hold many messages.
pub(crate) const BATCH_VERSION: &str = "2025-03-26";

const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";

/// The `_meta` of a request.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Meta<'a> {
    #[serde(borrow, rename = "progressToken")]
    pub(crate) progress_token: Option<&'a RawValue>,
    #[serde(borrow, rename = "io.modelcontextprotocol/protocolVersion")]
    pub(crate) version: Cow<'a, str>,
    #[serde(borrow, rename = "io.modelcontextprotocol/clientCapabilities")]
    capabilities: Option<&'a RawValue>,
    #[serde(borrow, rename = "io.modelcontextprotocol/clientInfo")]
    peer_info: Option<&'a RawValue>,
    #[serde(borrow, rename = "io.modelcontextprotocol/logLevel")]
    log_level: Cow<'a, str>,
}

impl Meta<'_> {
    /// Whether the request says which modern revision it is made in.
    pub(crate) fn is_modern(&self) -> bool {
        !self.version.is_empty()
    }
}

/// The `initialize` request of a legacy peer.
#[derive(Debug)]
pub(crate) struct Handshake {
    pub(crate) version: &'static str,
    peer_info: Value,
    capabilities: Value,
    /// The least severe level that the peer asked for; `logging/setLevel` changes it.
    log_level: AtomicU8,
}

impl Handshake {
    /// Handles `initialize`: the requested version if it is known, else our latest.
    pub(crate) fn new(params: &Params<'_>) -> Result<Self, Fault> {
        if params.protocol_version.is_empty() {
            return Err(Fault::invalid_params("protocolVersion is missing"));
        }
        let asked = LEGACY_VERSIONS
            .into_iter()
            .find(|version| *version == params.protocol_version);
        Ok(Self {
            version: asked.unwrap_or(LEGACY_VERSIONS[LEGACY_VERSIONS.len() - 1]),
            peer_info: value_of(params.client_info),
            capabilities: value_of(params.capabilities),
            log_level: AtomicU8::new(Level::Info as u8),
        })
    }

    pub(crate) fn set_log_level(&self, level: Level) {
        self.log_level.store(level as u8, Ordering::Relaxed);
    }
}

/// The era, version and client capabilities that apply to one request.
#[derive(Debug)]
pub(crate) enum RequestTerms<'a> {
    /// Those of the handshake (legacy).
    Legacy(Arc<Handshake>),
    /// Those in its own `_meta` (modern).
    Modern(&'a Meta<'a>),
}

/// The kind of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AskMode {
    Form,
    Url,
    /// Sampling.
    Sample,
    /// Roots.
    Roots,
}

impl<'a> RequestTerms<'a> {
    /// Decides the era of one request other than `initialize`.
    pub(crate) fn of(
        meta: &'a Meta<'a>,
        method: &str,
        handshake: Option<Arc<Handshake>>,
        eras: Eras,
    ) -> Result<Self, Fault> {
        let is_modern = meta.is_modern() || (handshake.is_none() && eras != Eras::Legacy);
        match handshake {
            _ if is_modern && eras != Eras::Legacy => {}
            Some(handshake) => return Ok(Self::Legacy(handshake)),
            // Legacy servers answer a probe differently; this is the most common answer.
            None if method == "server/discover" => return Err(Fault::unknown_method(method)),
            None => {
                return Err(Fault::invalid_params(format!(
                    "{method} came before initialize"
                )));
            }
        }
        if meta.version.is_empty() {
            return Err(Fault::invalid_meta(format!(
                "_meta[{VERSION_KEY:?}] is missing, and there was no initialize"
            )));
        }
        if meta.version != MODERN_VERSION {
            return Err(Fault::unsupported_version(&meta.version));
        }
        if !meta
            .capabilities
            .is_some_and(|capabilities| capabilities.get().starts_with('{'))
        {
            return Err(Fault::invalid_meta(format!(
                "_meta[{CAPABILITIES_KEY:?}] is missing or no object"
            )));
        }
        if !meta.log_level.is_empty() && Level::named(&meta.log_level).is_none() {
            return Err(Fault::invalid_meta(format!(
                "unknown log level {:?}",
                meta.log_level
            )));
        }
        Ok(Self::Modern(meta))
    }

    pub(crate) fn is_modern(&self) -> bool {
        matches!(self, Self::Modern(_))
    }

    pub(crate) fn version(&self) -> &'static str {
        match self {
            Self::Legacy(handshake) => handshake.version,
            Self::Modern(_) => MODERN_VERSION,
        }
    }

    pub(crate) fn peer_info(&self) -> Value {
        match self {
            Self::Legacy(handshake) => handshake.peer_info.clone(),
            Self::Modern(meta) => value_of(meta.peer_info),
        }
    }

    pub(crate) fn peer_capabilities(&self) -> Value {
        match self {
            Self::Legacy(handshake) => handshake.capabilities.clone(),
            Self::Modern(meta) => value_of(meta.capabilities),
        }
    }

    /// The least severe level to send; a modern request that names none gets no log messages.
    pub(crate) fn log_level(&self) -> Option<Level> {
        match self {
            Self::Legacy(handshake) => Level::ALL
                .get(usize::from(handshake.log_level.load(Ordering::Relaxed)))
                .copied(),
            Self::Modern(meta) => Level::named(&meta.log_level),
        }
    }

    /// Whether the peer can be asked this kind of question; the error is the missing capability.
    pub(crate) fn may_ask(&self, mode: AskMode) -> Result<(), Value> {
        let capabilities = self.peer_capabilities();
        let elicitation = capabilities.get("elicitation").and_then(Value::as_object);
        let plain = |name: &str| {
            if capabilities[name].is_object() {
                Ok(())
            } else {
                Err(json!({name: {}}))
            }
        };
        let (may, mode) = match mode {
            AskMode::Sample => return plain("sampling"),
            AskMode::Roots => return plain("roots"),
            // An empty declaration means forms, as in the first revision with elicitation.
            AskMode::Form => (
                elicitation.is_some_and(|modes| modes.is_empty() || modes.contains_key("form")),
                "form",
            ),
            AskMode::Url => (
                elicitation.is_some_and(|modes| modes.contains_key("url")),
                "url",
            ),
        };
        if may {
            Ok(())
        } else {
            Err(json!({"elicitation": {mode: {}}}))
        }
    }
}

/// How severe a log message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub(crate) enum Level {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

impl Level {
    /// From the least severe; the position is the discriminant.
    pub(crate) const ALL: [Self; 8] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];

    pub(crate) const NAMES: [&str; 8] = [
        "debug",
        "info",
        "notice",
        "warning",
        "error",
        "critical",
        "alert",
        "emergency",
    ];

    pub(crate) fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }
}

fn value_of(raw: Option<&RawValue>) -> Value {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok())
        .unwrap_or(Value::Null)
}
