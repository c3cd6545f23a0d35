//! A connected client, as an edge sees it: a legacy session, a connection that carries either era, or
//! one modern request.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::json;
use switchboard::RawJson;
use switchboard::config::MAX_MESSAGE_BYTES;
use switchboard::wire::{self, Incoming, OversizedMessage, RequestId};
use tokio::time::timeout;

use crate::client::{ClientHandshake, ClientKind, ClientState, QuestionAnswer};
use crate::deferred::DeferredRequest;
use crate::dispatch::{self, ReceivedRequest};
use crate::gateway_state::GatewayState;
use crate::outbound::{Outbound, OutboundQueue};
use crate::params::RequestParams;
use crate::principal::Principal;
use crate::refusal::{Refusal, RefusalReason};
use crate::reply::{self, ErrorReply};
use crate::request_tasks::RequestTasks;
use crate::settings::ServerSelection;
use crate::spans::Arrival;

/// How long cancelled requests may take to send their responses.
const LAST_RESPONSES_TIMEOUT: Duration = Duration::from_secs(1);

/// One connected client. Dropping it ends its requests, except those that wait for a modern
/// client's next request.
#[derive(Debug)]
pub struct ClientSession {
    gateway: Arc<GatewayState>,
    request_tasks: RequestTasks,
    client: Arc<ClientState>,
}

/// The kind of a received message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// A request: its response follows, as the last message on the request's outbound queue.
    Request,
    /// A notification or a response: nothing follows.
    Accepted,
    /// Not a message: an error was put on the outbound queue.
    Invalid,
}

impl ClientSession {
    pub(crate) fn new(
        gateway: Arc<GatewayState>,
        request_tasks: RequestTasks,
        kind: ClientKind,
        principal: Principal,
        selection: ServerSelection,
        outbound: Outbound,
    ) -> Self {
        let number = gateway.number();
        let client = ClientState::new(number, kind, principal, selection, outbound);
        let client = Arc::new(client);
        gateway.add_client(&client);
        Self {
            gateway,
            request_tasks,
            client,
        }
    }

    /// Handles one message (or a batch). Messages of a request go to `outbound`, whose last clone is
    /// dropped when the request has ended.
    pub fn receive(&self, message: &Bytes, outbound: &Outbound) -> Received {
        self.receive_from(message, outbound, Arrival::default())
    }

    /// The same, with the headers and the peer of an HTTP request for its span.
    pub(crate) fn receive_from(
        &self,
        message: &Bytes,
        outbound: &Outbound,
        arrival: Arrival<'_>,
    ) -> Received {
        let mut received = Received::Accepted;
        let share = |part: &str| RawJson::share(message, part);
        let mut handle = |incoming| {
            if self.incoming(incoming, outbound, arrival) {
                received = Received::Request;
            }
        };
        let is_valid = std::str::from_utf8(message)
            .is_ok_and(|text| wire::parse(text, &share, &mut handle).is_ok());
        if is_valid {
            return received;
        }
        outbound.send(reply::error(None, &ErrorReply::of_unreadable(message)));
        Received::Invalid
    }

    /// The client's `initialize`, once it was received.
    pub fn handshake(&self) -> Option<Arc<ClientHandshake>> {
        self.client.handshake()
    }

    /// A queue for one response to this client.
    pub fn outbound(&self) -> (Outbound, OutboundQueue) {
        Outbound::metered(&self.gateway.settings.outbound)
    }

    /// The client's principal.
    pub fn principal(&self) -> &Principal {
        &self.client.principal
    }

    /// Whether a request is in flight.
    pub fn is_busy(&self) -> bool {
        self.client.is_busy()
    }

    /// Ends open-ended requests, cancels questions to the client, denies calls that wait for approval,
    /// and waits for the other requests. Those that take longer than `within` are answered with an
    /// error.
    pub async fn drain(&self, within: Duration) {
        self.client.begin_draining();
        if timeout(within, self.idle()).await.is_err() {
            self.gateway.settings.running.end(Some(self.client.number));
            let _ = timeout(LAST_RESPONSES_TIMEOUT, self.idle()).await;
        }
    }

    /// No more messages are read: open-ended requests end, questions to the client are cancelled, and
    /// calls that wait for approval are denied.
    pub(crate) fn begin_draining(&self) {
        self.client.begin_draining();
    }

    /// A function that does what [`begin_draining`](Self::begin_draining) does; it does not borrow
    /// the session.
    pub(crate) fn begin_draining_later(&self) -> impl FnOnce() + Send + use<> {
        let client = self.client.clone();
        move || client.begin_draining()
    }

    /// Cancels the requests in flight: the client has ended its session.
    pub(crate) fn end_requests(&self) {
        self.client.end();
    }

    /// Waits until no request is in flight.
    pub async fn idle(&self) {
        self.client.idle().await;
    }

    /// Rejects a message that was too large to be read. If it answers a question, the question fails.
    pub(crate) fn reject_oversized(&self, message: Option<&OversizedMessage>, outbound: &Outbound) {
        self.gateway.settings.recorder.request_refused(&Refusal {
            reason: RefusalReason::OversizedBody,
            peer: None,
            principal: Some(self.client.principal.clone()),
            path: String::new(),
        });
        let text = format!("the message is larger than {MAX_MESSAGE_BYTES} bytes");
        let error = ErrorReply::new(reply::INVALID_REQUEST, &text);
        match message {
            Some(OversizedMessage::Response(id)) => {
                let error = json!({"code": reply::INVALID_REQUEST, "message": text});
                self.answer(id, Err(RawJson::from_value(&error)));
            }
            Some(OversizedMessage::Request(id)) => outbound.send(reply::error(Some(id), &error)),
            None => outbound.send(reply::error(None, &error)),
        }
    }

    /// Begins a request that its edge has parsed. One that takes time is returned, for the edge to
    /// run.
    pub(crate) fn begin(
        &self,
        request: ReceivedRequest<'_>,
        outbound: &Outbound,
    ) -> Option<DeferredRequest> {
        dispatch::request(&self.gateway, &self.client, request, outbound)
    }

    /// Handles a message; true for a request.
    pub(crate) fn incoming(
        &self,
        incoming: Incoming,
        outbound: &Outbound,
        arrival: Arrival<'_>,
    ) -> bool {
        match incoming {
            Incoming::Request { id, method, params } => {
                let request = ReceivedRequest {
                    id,
                    method,
                    params: RequestParams::read(params.as_ref()),
                    arrived: Instant::now(),
                    arrival,
                };
                if let Some(request) = self.begin(request, outbound) {
                    self.request_tasks.answer(request);
                }
                return true;
            }
            Incoming::Notification { method, params } => {
                dispatch::notification(&self.gateway, &self.client, &method, params.as_ref());
            }
            Incoming::Result { id, result } => self.answer(&id, Ok(result)),
            Incoming::Error { id, error } => {
                if let Some(id) = id {
                    self.answer(&id, Err(error));
                }
            }
        }
        false
    }

    /// The client answers a question. One that is not a question to it is refused.
    fn answer(&self, id: &RequestId, answer: QuestionAnswer) {
        let settings = &self.gateway.settings;
        let seal = self.client.question_seal(&*settings.cluster);
        if !self.client.questions.answer(seal, id, answer) {
            settings.recorder.request_refused(&Refusal {
                reason: RefusalReason::UnknownQuestion,
                peer: None,
                principal: Some(self.client.principal.clone()),
                path: String::new(),
            });
        }
    }
}

impl Drop for ClientSession {
    fn drop(&mut self) {
        self.gateway.remove_client(self.client.number);
        self.client.end();
        if self.client.handshake().is_some() {
            let recorder = &self.gateway.settings.recorder;
            recorder.session_ended(self.client.connected.elapsed());
            self.gateway.update_roots();
        }
        self.gateway.end_subscriptions(self.client.number);
    }
}
