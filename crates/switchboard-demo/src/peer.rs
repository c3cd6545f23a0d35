//! One connection: reads its messages, determines their era, and dispatches each request.
//!
//! Owns the state of a connection: the legacy handshake, subscriptions, calls in flight, open
//! questions. Knows no transport: messages come as text, answers go to an [`OutgoingBuffer`].

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::demo::{Change, Demo};
use crate::era::{BATCH_VERSION, Handshake, Level, MODERN_VERSION, RequestTerms};
use crate::exchange::{Call, Outcome};
use crate::listen::{self, Listener};
use crate::options::Eras;
use crate::outgoing::{OutgoingBuffer, Replies};
use crate::rpc::{Body, Concern, Fault, Message, Params, write_notification, write_result};
use crate::{prompts, resources, tasks, tools};

/// One connection to the demo server.
pub struct Peer {
    pub(crate) demo: Arc<Demo>,
    /// Messages to a legacy peer that belong to no request.
    outlet: OutgoingBuffer,
    /// Which eras its transport has.
    eras: Eras,
    /// Whether questions go to `outlet` instead of where the call's answer goes.
    asks_on_outlet: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    handshake: Option<Arc<Handshake>>,
    /// Resources that a legacy peer subscribed to.
    subscriptions: HashSet<String>,
    listeners: Vec<Listener>,
    /// Calls in flight by the text of their id; sending a reason (or dropping the sender) stops one.
    running: HashMap<Box<str>, oneshot::Sender<String>>,
    /// Open questions of ours by id; the other end waits in [`crate::exchange::Exchange::ask`].
    asked: HashMap<u64, oneshot::Sender<PeerResponse>>,
    last_question: u64,
}

/// The response of a legacy peer to a question: its result, or its error.
pub(crate) type PeerResponse = Result<Value, Value>;

impl std::fmt::Debug for Peer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Peer")
            .field("outlet", &self.outlet)
            .finish_non_exhaustive()
    }
}

impl Peer {
    pub(crate) fn new(demo: Arc<Demo>, outlet: OutgoingBuffer) -> Self {
        let eras = demo.options.eras;
        Self {
            demo,
            outlet,
            eras,
            asks_on_outlet: false,
            state: Mutex::default(),
        }
    }

    /// For a transport that has only these eras.
    pub(crate) fn with_eras(self, eras: Eras) -> Self {
        Self { eras, ..self }
    }

    /// Asks questions on the shared stream, as some servers do.
    pub(crate) fn with_questions_on_outlet(self, asks_on_outlet: bool) -> Self {
        Self {
            asks_on_outlet,
            ..self
        }
    }

    /// Handles one message or batch. Responses go to `outlet`, most of them before this returns; slow
    /// calls are spawned on the current tokio runtime.
    pub fn handle(self: &Arc<Self>, text: &[u8], outlet: &OutgoingBuffer) {
        let text = text.trim_ascii();
        match text.first() {
            None => {}
            Some(b'[') => self.handle_batch(text, outlet),
            Some(_) => match Message::parse(text) {
                Ok(message) => self.handle_one(&message, &Replies::single(outlet)),
                Err(fault) => outlet.push(|out| fault.write(out, "null")),
            },
        }
    }

    /// Ends the connection: calls in flight stop without an answer, listeners get their response.
    pub fn close(&self) {
        let (running, listeners) = {
            let mut state = self.state();
            state.asked.clear();
            (
                std::mem::take(&mut state.running),
                std::mem::take(&mut state.listeners),
            )
        };
        drop(running);
        listeners
            .iter()
            .for_each(|listener| listener.end(&self.demo.server_info));
    }

    /// Handles a batch whose replies are the only use of the buffer.
    pub(crate) fn handle_batch_alone(self: &Arc<Self>, text: &[u8], outlet: &OutgoingBuffer) {
        self.handle_batch_for(text, outlet, Replies::ending);
    }

    fn handle_batch(self: &Arc<Self>, text: &[u8], outlet: &OutgoingBuffer) {
        self.handle_batch_for(text, outlet, |replies| replies);
    }

    fn handle_batch_for(
        self: &Arc<Self>,
        text: &[u8],
        outlet: &OutgoingBuffer,
        make: fn(Replies) -> Replies,
    ) {
        let refuse = |fault: Fault| make(Replies::single(outlet)).settle_with_fault("null", &fault);
        let parts: Vec<&RawValue> = match serde_json::from_slice(text) {
            Ok(parts) => parts,
            Err(error) => return refuse(Fault::parse(&error)),
        };
        if self
            .handshake()
            .is_none_or(|handshake| handshake.version != BATCH_VERSION)
        {
            return refuse(Fault::invalid_request(format!(
                "batches belong to {BATCH_VERSION} only"
            )));
        }
        if parts.is_empty() {
            return refuse(Fault::invalid_request("the batch is empty"));
        }
        let messages: Vec<_> = parts
            .iter()
            .map(|part| Message::parse(part.get().as_bytes()))
            .collect();
        let is_settled_later = |message: &Result<Message<'_>, Fault>| match message {
            Ok(message) => !message.method.is_empty() && message.id.is_some(),
            Err(_) => true,
        };
        let open = messages
            .iter()
            .filter(|message| is_settled_later(message))
            .count();
        let replies = make(Replies::batch(outlet, open));
        if open == 0 {
            replies.settle_nothing();
        }
        for message in &messages {
            match message {
                Ok(message) => self.handle_one(message, &replies),
                Err(fault) => replies.settle_with_fault("null", fault),
            }
        }
    }

    fn handle_one(self: &Arc<Self>, message: &Message<'_>, replies: &Replies) {
        match message.id {
            _ if message.method.is_empty() => self.take_response(message),
            None => self.take_notification(message),
            Some(id) => match Params::parse(message.params) {
                Ok(params) => _ = self.take_request(id.get(), &message.method, &params, replies),
                Err(fault) => replies.settle_with_fault(id.get(), &fault),
            },
        }
    }

    /// Handles a notification, or a response to a question of ours.
    pub(crate) fn take_notification_or_response(&self, message: &Message<'_>) {
        if message.method.is_empty() {
            self.take_response(message)
        } else {
            self.take_notification(message)
        }
    }

    /// Handles a request; returns its fault, if that is known at once.
    pub(crate) fn take_request(
        self: &Arc<Self>,
        id: &str,
        method: &str,
        params: &Params<'_>,
        replies: &Replies,
    ) -> Option<Concern> {
        match self.answer(id, method, params, replies) {
            Ok((Outcome::Done(body), is_modern)) => {
                let extra = if is_modern {
                    self.demo.complete_extra.as_str()
                } else {
                    ""
                };
                replies.settle(|out| write_result(out, id, &body, extra));
            }
            Ok((Outcome::Asking(body), _)) => {
                replies.settle(|out| write_result(out, id, &body, &self.demo.asking_extra))
            }
            Ok((Outcome::Task(body), _)) => {
                replies.settle(|out| write_result(out, id, &body, &self.demo.task_extra))
            }
            Ok((Outcome::Later, _)) => {}
            Err(fault) => {
                replies.settle_with_fault(id, &fault);
                return Some(fault.concern);
            }
        }
        None
    }

    /// Answers a request; the flag says whether it was a modern one.
    fn answer(
        self: &Arc<Self>,
        id: &str,
        method: &str,
        params: &Params<'_>,
        replies: &Replies,
    ) -> Result<(Outcome, bool), Fault> {
        let eras = self.eras;
        if method == "initialize" {
            return self
                .initialize(params, eras)
                .map(|body| (Outcome::Done(body), false));
        }
        let handshake = self.handshake();
        if method == "ping"
            && handshake.is_none()
            && !params.meta.is_modern()
            && eras != Eras::Modern
        {
            // The only request that a legacy peer may send before its handshake.
            return Ok((Outcome::Done(Body::from(json!({}))), false));
        }
        let terms = RequestTerms::of(&params.meta, method, handshake, eras)?;
        let call = Call {
            peer: self,
            replies,
            id,
            params,
            terms: &terms,
        };
        let done = |body: Body| Ok(Outcome::Done(body));
        let outcome = match (method, &terms) {
            ("tools/call", _) => tools::call(&call),
            ("tools/list", _) => tools::list(&call).and_then(done),
            ("resources/list", _) => resources::list(&call).and_then(done),
            ("resources/templates/list", _) => resources::list_templates(&call).and_then(done),
            ("resources/read", _) => resources::read(&call).and_then(done),
            ("prompts/list", _) => prompts::list(&call).and_then(done),
            ("prompts/get", _) => prompts::get(&call),
            ("completion/complete", _) => prompts::complete(&call).and_then(done),
            ("tasks/get", _) => tasks::get(&call).and_then(done),
            ("tasks/cancel", _) => tasks::cancel(&call).and_then(done),
            ("tasks/update", RequestTerms::Modern(_)) => tasks::update(&call).and_then(done),
            ("tasks/result", RequestTerms::Legacy(_)) => tasks::result(&call),
            ("server/discover", RequestTerms::Modern(_)) => done(self.discover()),
            ("subscriptions/listen", RequestTerms::Modern(_)) => listen::open(&call),
            ("ping", RequestTerms::Legacy(_)) => done(Body::from(json!({}))),
            ("logging/setLevel", RequestTerms::Legacy(handshake)) => {
                set_level(handshake, params).and_then(done)
            }
            ("resources/subscribe", RequestTerms::Legacy(_)) => {
                self.subscribe(params, true).and_then(done)
            }
            ("resources/unsubscribe", RequestTerms::Legacy(_)) => {
                self.subscribe(params, false).and_then(done)
            }
            _ => Err(Fault::unknown_method(method)),
        };
        outcome.map(|outcome| (outcome, terms.is_modern()))
    }

    fn initialize(&self, params: &Params<'_>, eras: Eras) -> Result<Body, Fault> {
        if eras == Eras::Modern {
            return Err(Fault::unsupported_version(&params.protocol_version));
        }
        let handshake = Arc::new(Handshake::new(params)?);
        let body = json!({
            "protocolVersion": handshake.version,
            "capabilities": self.demo.capabilities(handshake.version),
            "serverInfo": self.demo.server_info,
            "instructions": self.demo.instructions(),
        });
        self.state().handshake = Some(handshake);
        Ok(Body::from(body))
    }

    fn discover(&self) -> Body {
        Body::from(json!({
            "supportedVersions": [MODERN_VERSION],
            "capabilities": self.demo.capabilities(MODERN_VERSION),
            "instructions": self.demo.instructions(),
            "ttlMs": 3_600_000,
            "cacheScope": "public",
        }))
    }

    fn subscribe(&self, params: &Params<'_>, wanted: bool) -> Result<Body, Fault> {
        if !resources::exists(&params.uri) {
            return Err(Fault::no_resource(&params.uri, false));
        }
        if wanted {
            self.state().subscriptions.insert(params.uri.to_string());
        } else {
            self.state().subscriptions.remove(&*params.uri);
        }
        Ok(Body::from(json!({})))
    }

    fn take_notification(&self, message: &Message<'_>) {
        #[derive(Deserialize)]
        struct Cancelled<'a> {
            #[serde(borrow, rename = "requestId")]
            id: &'a RawValue,
            #[serde(default)]
            reason: String,
        }
        if message.method != "notifications/cancelled" {
            return;
        }
        // The specification says to ignore an invalid cancellation: it may be late.
        let Some(Ok(cancelled)) = message
            .params
            .map(|params| serde_json::from_str::<Cancelled<'_>>(params.get()))
        else {
            return;
        };
        let id = cancelled.id.get();
        let mut state = self.state();
        state.listeners.retain(|listener| !listener.is(id));
        if let Some(stop) = state.running.remove(id) {
            // The call may have ended meanwhile.
            let _ = stop.send(cancelled.reason);
        }
    }

    fn take_response(&self, message: &Message<'_>) {
        let value = |raw: &RawValue| serde_json::from_str(raw.get()).unwrap_or(Value::Null);
        let Some(Ok(id)) = message.id.map(|id| id.get().parse::<u64>()) else {
            return;
        };
        let reaction = match (message.result, message.error) {
            (Some(result), _) => Ok(value(result)),
            (None, Some(error)) => Err(value(error)),
            (None, None) => return,
        };
        if let Some(asked) = self.state().asked.remove(&id) {
            // The call may have been cancelled meanwhile.
            let _ = asked.send(reaction);
        }
    }

    /// Notifies the peer of a change, on every stream that subscribed to it.
    pub(crate) fn notify(&self, change: Change) {
        let state = self.state();
        let is_subscribed = match change {
            Change::Tools | Change::Prompts => true,
            Change::Resource(uri) => state.subscriptions.contains(uri),
        };
        // Notifications to a peer that does not read are dropped, to bound memory.
        if state.handshake.is_some() && is_subscribed && !self.outlet.is_full() {
            let (method, params) = change.notification();
            self.outlet
                .push(|out| write_notification(out, method, &params));
        }
        state
            .listeners
            .iter()
            .for_each(|listener| listener.notify(change));
    }

    /// The buffer for questions about a call.
    pub(crate) fn asking_outlet<'a>(&'a self, replies: &'a Replies) -> &'a OutgoingBuffer {
        if self.asks_on_outlet {
            &self.outlet
        } else {
            &replies.outlet
        }
    }

    /// The revision agreed on, after a legacy handshake.
    pub(crate) fn agreed_version(&self) -> Option<&'static str> {
        self.handshake().map(|handshake| handshake.version)
    }

    pub(crate) fn add_listener(&self, listener: Listener) {
        self.state().listeners.push(listener);
    }

    /// Registers a slow call; the receiver resolves when it shall stop.
    pub(crate) fn begin(&self, id: &str) -> oneshot::Receiver<String> {
        let (stop, stopped) = oneshot::channel();
        self.state().running.insert(id.into(), stop);
        stopped
    }

    /// Whether the call was still running.
    pub(crate) fn finish(&self, id: &str) -> bool {
        self.state().running.remove(id).is_some()
    }

    /// Registers a question of ours and gives it an id.
    pub(crate) fn begin_question(&self) -> (u64, oneshot::Receiver<PeerResponse>) {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.state();
        state.last_question += 1;
        let id = state.last_question;
        state.asked.insert(id, sender);
        (id, receiver)
    }

    pub(crate) fn forget_question(&self, id: u64) {
        self.state().asked.remove(&id);
    }

    fn handshake(&self) -> Option<Arc<Handshake>> {
        self.state().handshake.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn set_level(handshake: &Handshake, params: &Params<'_>) -> Result<Body, Fault> {
    let level = Level::named(&params.level)
        .ok_or_else(|| Fault::invalid_params(format!("unknown log level {:?}", params.level)))?;
    handshake.set_log_level(level);
    Ok(Body::from(json!({})))
}
