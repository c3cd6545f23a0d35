//! One live connection to a server, in either protocol era.
//!
//! Opening consumes a connector and returns the session, so calling too early cannot be written.
//! Owns ids, the table of pending requests, the handshake, lists with pages, calls with deadlines,
//! and what the server asks. Leaves restarting to [`crate::server`].

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::broadcast;
use tokio::time::{Instant, timeout_at};

use self::link::{Link, Request};
use self::ongoing::Ongoing;
use self::receiver::Receiver;
use self::turns::Turns;
use crate::caller::{BoxFuture, Caller};
use crate::catalog::{Offerings, Tool, parameters};
use crate::config::{Asks, MAX_MESSAGE_BYTES, Protocol, Sharing, Timeouts};
use crate::event::Event;
use crate::gate::Permit;
use crate::name::ServerName;
use crate::secret::{Redacted, Redactor};
use crate::store::LogFile;
use crate::transport::{Connector, WireFault};
use crate::wire::RawJson;

mod again;
mod cache;
mod clock;
mod envelope;
mod handshake;
mod in_flight;
mod link;
mod listen;
mod lists;
mod notifications;
mod ongoing;
mod pending;
mod pulse;
mod questions;
mod receiver;
mod roots;
mod rounds;
mod sampling;
mod tasks;
mod tell;
mod turns;
mod verbs;
mod visits;
mod watchdog;
mod wishes;

pub use crate::revision::{Era, Revision};
pub use cache::Cache;
pub use verbs::Reference;
pub use wishes::Wishes;

#[cfg(test)]
mod tests;

pub use roots::Roots;
pub use sampling::Overseer;

/// The code of [`RequestFault::HeaderMismatch`].
const HEADER_MISMATCH: i64 = -32020;

/// What the server said of itself when the session was opened.
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
}

/// What a session needs to know to open.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// Whose session it is, for messages.
    pub server: ServerName,
    /// What the configuration says.
    pub protocol: Protocol,
    /// What worked last time with this launch.
    pub known_era: Option<Era>,
    /// Whether the server is known to ask during calls.
    pub asks: Asks,
    /// Whether callers share the session.
    pub sharing: Sharing,
    /// What a legacy session advertises to the server; a modern request declares what its caller
    /// offers.
    pub offers: crate::caller::Offers,
    /// The folders a server may ask for, where its caller has none of its own.
    pub roots: Roots,
    /// Lets servers have answers of a caller's model; without one they have none.
    pub overseer: Option<Arc<dyn Overseer>>,
    /// How long opening may take.
    pub connect_timeout: Duration,
    /// The bound of one message, for the error that names it.
    pub max_message_bytes: usize,
    /// Where logs and notices go that belong to no call.
    pub events: Option<broadcast::Sender<Event>>,
    /// Where what is odd is counted. Whoever opens keeps a clone, since a session that never came
    /// to be cannot be asked.
    pub noticed: Noticed,
    /// The server's log, which keeps its log messages too.
    pub log: Option<LogFile>,
    /// What is wanted of the server beside answers, in every session with it.
    pub wishes: Wishes,
    /// What the server let us keep.
    pub cache: Cache,
    /// Takes the secrets of this launch out of what the server says.
    pub redactor: Redactor,
}

impl OpenOptions {
    /// As an entry that says nothing has it; for a caller that offers nothing.
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
            noticed: Noticed::default(),
            log: None,
            wishes: Wishes::default(),
            cache: Cache::default(),
            redactor: Redactor::default(),
        }
    }
}

/// Why a session did not come to be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenFault {
    /// The channel did not open, or ended during the handshake.
    #[error("{0}")]
    Channel(String),
    /// No answer in time.
    #[error("no answer to the handshake within {0:?}")]
    Timeout(Duration),
    /// The server answered with an error, or with something that is no answer.
    #[error("the server refused the handshake: {0}")]
    Refused(String),
    /// It refused `initialize` because it had been probed: start it again and speak legacy at once.
    #[error("the server refused `initialize` after a probe")]
    RefusedAfterProbe,
    /// The endpoint does not speak Streamable HTTP (400, 404 or 405 to `initialize`); it may speak
    /// the older wire.
    #[error("{0}")]
    WrongWire(String),
    /// The wire brought no answer, for another reason.
    #[error("{0}")]
    Wire(WireFault),
    /// A person must log in first.
    #[error("{0}")]
    NeedsLogin(crate::auth::NeedsLogin),
    /// It did something that no server may, so we ended the connection. What its process did then
    /// is no news.
    #[error("{0}")]
    Misconduct(String),
}

/// Why a request on a session did not complete. An answer with `isError` is not among these.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestFault {
    /// The server answered with a JSON-RPC error.
    #[error("the server answered with error {code}: {message}")]
    Answered {
        /// JSON-RPC code.
        code: i64,
        /// The server's words, escaped.
        message: String,
        /// What it sent beside them.
        data: Option<RawJson>,
    },
    /// A modern server was told one thing in headers and another in the message, and looked no
    /// further: the call was not executed.
    #[error("the server answered with error {HEADER_MISMATCH}: {message}")]
    HeaderMismatch {
        /// The server's words, escaped.
        message: String,
        /// What it sent beside them.
        data: Option<RawJson>,
    },
    /// No answer in time.
    #[error("no answer within {after:?}")]
    Timeout {
        /// Which deadline it was.
        after: Duration,
        /// True: the whole call took too long; false: no progress for too long.
        total: bool,
    },
    /// The connection ended first.
    #[error("the connection ended: {0}")]
    Closed(String),
    /// The answer was larger than the bound.
    #[error("the answer is too large: more than {limit} bytes")]
    TooLarge {
        /// The bound.
        limit: usize,
    },
    /// The answer is not one that the protocol allows.
    #[error("the answer is not valid: {0}")]
    Invalid(String),
    /// Its turn did not come in time.
    #[error(
        "not sent within {after:?}: a call of another caller is under way, and this server asks questions"
    )]
    NoTurn {
        /// The deadline.
        after: Duration,
    },
    /// The wire brought no answer.
    #[error("{0}")]
    Wire(WireFault),
    /// It was not sent: the server does not offer it, or a bound of ours is reached.
    #[error("{0}")]
    NotAsked(String),
    /// The server answered that it does not do it, in another way than with an error.
    #[error("{0}")]
    Unwilling(String),
    /// The server wanted something of the caller without which it does not go on, and it was
    /// refused.
    #[error("not finished: the server wanted an answer of a model and got none: {0}")]
    Declined(String),
    /// The call became a task, and the task came to no result.
    #[error("{0}")]
    Task(String),
    /// What was permitted is no longer what would be called; it was not sent.
    #[error("not sent: the definition changed after it was approved")]
    Moved,
}

/// Whether a request may still be sent: asked after every wait, with nothing between the answer and
/// the sending.
pub(crate) type Still<'a> = &'a (dyn Fn() -> bool + Sync);

/// What holds for one call beside its permit.
#[derive(Clone, Copy)]
pub struct Terms<'a> {
    /// The deadlines.
    pub timeouts: Timeouts,
    /// When the call began, if it has waited for something before; `timeouts.call_max` is counted
    /// from then.
    pub since: Option<Instant>,
    /// Whether the tool is still the one that was approved; looked at right before each sending.
    pub still: &'a (dyn Fn() -> bool + Sync),
}

impl RequestFault {
    fn not_offered(what: &str) -> Self {
        Self::NotAsked(format!("the server does not offer {what}"))
    }

    /// The same with the server's words filtered: a server may put what it was given into its
    /// complaints.
    pub(crate) fn redacted(self, redact: impl Fn(&str) -> String) -> Self {
        // What is beside the words is kept only where it tells nothing: it is for programs, and
        // they compare bytes.
        let without_secrets =
            |data: Option<RawJson>| data.filter(|data| redact(data.as_str()) == data.as_str());
        match self {
            Self::Answered {
                code,
                message,
                data,
            } => Self::Answered {
                code,
                message: redact(&message),
                data: without_secrets(data),
            },
            Self::HeaderMismatch { message, data } => Self::HeaderMismatch {
                message: redact(&message),
                data: without_secrets(data),
            },
            Self::Closed(reason) => Self::Closed(redact(&reason)),
            Self::Invalid(fact) => Self::Invalid(redact(&fact)),
            Self::Wire(fault) => Self::Wire(fault.redacted(redact)),
            Self::Task(fact) => Self::Task(redact(&fact)),
            other => other,
        }
    }
}

/// Counters and findings of a session, for `doctor`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Oddities {
    /// Lines on stdout that were no messages.
    pub junk_lines: u64,
    /// The first 20 of them, cut at 200 bytes.
    pub junk_samples: Vec<Redacted>,
    /// Answers to no request of ours.
    pub unknown_ids: u64,
    /// Requests on a modern session, which may have none.
    pub forbidden_requests: u64,
    /// Questions declined because nobody could tell whose they were.
    pub unattributed: u64,
}

/// The [`Oddities`] of one connection while they are counted. Clones share them, and outlive the
/// session.
#[derive(Debug, Clone, Default)]
pub struct Noticed(Arc<Mutex<Oddities>>);

impl Noticed {
    /// What was odd so far.
    pub fn oddities(&self) -> Oddities {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Oddities> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One live connection.
pub struct Session {
    link: Link,
    hello: Hello,
    /// Keeps calls of different callers apart where the wire does not say whose question a
    /// question is.
    turns: Arc<Turns>,
    /// On a legacy session: tells of changed roots.
    _telling: Option<roots::Telling>,
    /// Keeps the server told of what is wanted.
    _standing: listen::Standing,
    /// Ends requests that are late.
    _watching: watchdog::Watching,
    /// On a legacy session whose wire may fall silent for ever: finds out.
    _pulse: Option<pulse::Pulse>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("hello", &self.hello)
            .finish_non_exhaustive()
    }
}

impl Session {
    /// Connects, finds the era, shakes hands.
    pub async fn open(
        connector: &dyn Connector,
        options: OpenOptions,
    ) -> Result<Arc<Self>, OpenFault> {
        let root_changes = options.roots.changes();
        let receiver = Receiver::new(options);
        let transport = connector
            .connect(receiver.clone())
            .await
            .map_err(|fault| OpenFault::Channel(fault.0))?;
        receiver
            .transport
            .set(Arc::downgrade(&transport))
            .expect("a receiver is connected once");
        let link = Link {
            receiver,
            transport,
        };
        let shaken = handshake::shake(&link, &link.receiver.options).await;
        let hello = shaken.map_err(|fault| {
            link.receiver
                .misconduct
                .get()
                .cloned()
                .map_or(fault, OpenFault::Misconduct)
        })?;
        link.receiver
            .era
            .set(hello.era())
            .expect("a session shakes hands once");
        link.receiver.tasks.learn(&hello);
        link.transport.negotiated(hello.revision);
        link.receiver.options.cache.session_began();
        let telling = roots::tell(&link, hello.era(), root_changes);
        let standing = listen::start(&link, &hello);
        let watching = watchdog::start(&link.receiver);
        let pulse = pulse::start(&link, hello.era());
        let turns = Arc::default();
        Ok(Arc::new(Self {
            link,
            hello,
            turns,
            _telling: telling,
            _standing: standing,
            _watching: watching,
            _pulse: pulse,
        }))
    }

    /// What the server said of itself.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// Lists all that the server offers. A list that fails is a fault in the answer; only a lost
    /// connection is an error.
    pub async fn offerings(&self) -> Result<Offerings, RequestFault> {
        lists::offerings(&self.link, &self.hello).await
    }

    /// The list of tools is not to be relied on any more: it is listed again as if the server had
    /// said that it changed.
    pub(crate) fn distrust_tools(&self) {
        self.link.receiver.lists_changed(&["tools/list"]);
    }

    /// Waits for the server to say that a list changed (coalesced: many become one).
    pub async fn list_changed(&self) {
        self.link.receiver.changed.notified().await;
    }

    /// Waits for the end; the reason is one line, safe to show. Cancel-safe, answers at once when
    /// already ended.
    pub async fn closed(&self) -> String {
        let mut ended = self.link.receiver.ended.subscribe();
        match ended.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or_default(),
            Err(_) => "the session was dropped".to_owned(),
        }
    }

    /// Makes the call that the permit is for, and consumes it; there is no other way to send a
    /// `tools/call`.
    pub async fn call(&self, permit: Permit, terms: Terms<'_>) -> Result<RawJson, RequestFault> {
        let (tool, caller) = (permit.tool(), permit.caller());
        let ongoing = Ongoing::start(
            &tool.id.server,
            Some(tool),
            caller,
            terms.timeouts,
            terms.since,
        );
        let name = tool.definition.name_json.as_bytes();
        let task = self.link.receiver.tasks.wanted_by(tool, &ongoing);
        let as_task = task.as_ref().map_or(&b""[..], |task| task.as_bytes());
        let fields: [envelope::Field<'_>; 3] = [
            ("name", name),
            ("arguments", permit.arguments().as_bytes()),
            (tasks::ASKS_FOR_A_TASK, as_task),
        ];
        let fields = if task.is_some() {
            &fields
        } else {
            &fields[..2]
        };
        let parameters = self.parameters(tool, permit.arguments())?;
        let name = Some(tool.id.tool.as_wire());
        let request = Request::new(self.hello.era(), "tools/call", fields);
        let request = Request {
            name,
            parameters: &parameters,
            is_harmless: tool.idempotent,
            ..request
        };
        self.complete(&ongoing, request, terms.still).await
    }

    /// What HTTP says in headers of a call's arguments.
    fn parameters(
        &self,
        tool: &Tool,
        arguments: &RawJson,
    ) -> Result<Vec<(String, String)>, RequestFault> {
        match &tool.definition.mirrored {
            Ok(mirrored)
                if self.hello.era() == Era::Modern
                    && self.link.transport.properties().sends_headers =>
            {
                parameters(mirrored, arguments)
                    .map_err(|fact| RequestFault::NotAsked(format!("not sent: {fact}")))
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Reads a resource, unless the server said that an earlier answer may still be used.
    pub async fn read(
        &self,
        uri: &str,
        caller: &Arc<dyn Caller>,
        timeouts: Timeouts,
    ) -> Result<RawJson, RequestFault> {
        let OpenOptions { server, cache, .. } = &self.link.receiver.options;
        let ongoing = Ongoing::start(server, None, caller, timeouts, None);
        let asked = cache.asking();
        if self.hello.era() == Era::Modern
            && let Some(kept) = cache.read(uri, &ongoing.caller_id)
        {
            return Ok(kept);
        }
        let uri_json = envelope::string(uri);
        let fields: [envelope::Field<'_>; 1] = [("uri", &uri_json)];
        let request = Request {
            name: Some(uri),
            ..Request::new(self.hello.era(), "resources/read", &fields)
        };
        let result = self.complete(&ongoing, request, &|| true).await?;
        // What depends on answers of the caller is not what another reading would bring.
        if self.hello.era() == Era::Modern && !ongoing.gave_input.load(Ordering::Relaxed) {
            cache.keep_read(asked, uri, &ongoing.caller_id, &result);
        }
        Ok(result)
    }

    /// Gets a prompt. `arguments` is a JSON object of strings.
    pub async fn prompt(
        &self,
        name: &str,
        arguments: &RawJson,
        caller: &Arc<dyn Caller>,
        timeouts: Timeouts,
    ) -> Result<RawJson, RequestFault> {
        let name_json = envelope::string(name);
        let ongoing = Ongoing::start(
            &self.link.receiver.options.server,
            None,
            caller,
            timeouts,
            None,
        );
        let fields: [envelope::Field<'_>; 2] =
            [("name", &name_json), ("arguments", arguments.as_bytes())];
        let request = Request {
            name: Some(name),
            ..Request::new(self.hello.era(), "prompts/get", &fields)
        };
        self.complete(&ongoing, request, &|| true).await
    }

    /// Waits for the caller's turn where there are turns, within the deadline; then the request
    /// goes its rounds.
    async fn complete(
        &self,
        ongoing: &Arc<Ongoing>,
        request: Request<'_>,
        still: Still<'_>,
    ) -> Result<RawJson, RequestFault> {
        let _in_flight = self.link.receiver.in_flight.begin();
        let _turn = match self.takes_turns() {
            true => Some(Box::pin(self.turn(ongoing)).await?),
            false => None,
        };
        rounds::complete(&self.link, ongoing, request, still).await
    }

    async fn turn(&self, ongoing: &Ongoing) -> Result<turns::Turn, RequestFault> {
        let turn = timeout_at(
            ongoing.clock.first_look(),
            self.turns.enter(&ongoing.caller_id),
        )
        .await;
        turn.map_err(|_| RequestFault::NoTurn {
            after: ongoing.clock.shortest(),
        })
    }

    /// Whether the server was seen to ask where nothing says for which call.
    pub fn asks(&self) -> bool {
        self.link.receiver.asked.load(Ordering::Relaxed)
    }

    /// What was odd so far.
    pub fn oddities(&self) -> Oddities {
        self.link.receiver.options.noticed.oddities()
    }

    /// Whether the server has asked something while a call was under way.
    pub(crate) fn was_questioned(&self) -> bool {
        self.link.receiver.questioned.load(Ordering::Relaxed)
    }

    /// Whether no request of a caller is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.link.receiver.in_flight.is_idle()
    }

    /// Waits until no request of a caller is under way. Cancel-safe.
    pub(crate) async fn idle(&self) {
        self.link.receiver.in_flight.idle().await;
    }

    /// Ends the session: pending requests fail, the server sees the end of its input.
    pub fn close(&self) {
        self.link.receiver.end("it was closed");
        drop(self.link.transport.close());
    }

    /// Waits until the server has been told that the session is over, where the wire tells it.
    pub(crate) fn farewell(&self) -> BoxFuture<'static, ()> {
        self.link.transport.close()
    }

    /// Where nothing else says for which call a question is, only the order of calls tells.
    fn takes_turns(&self) -> bool {
        self.hello.era() == Era::Legacy
            && match self.link.receiver.options.asks {
                Asks::Yes => true,
                Asks::No => false,
                Asks::Auto => self.asks(),
            }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.close();
    }
}
