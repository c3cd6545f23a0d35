//! The server at the other end of a session: sends requests to it and waits for their responses,
//! with deadlines and cancellation. Independent of the era.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use super::fault::ResponseResult;
use super::in_flight::{DeadlineCheck, InFlightCall};
use super::receiver::Receiver;
use super::{RequestFault, RequestResult, retry};
use crate::caller::{ForwardedParams, is_answer};
use crate::revision::Revision;
use crate::transport::{Closed, Delivery, MessageKind, Transport};
use crate::wire::{Outgoing, RequestMetadata, TOOLS_CALL, escaped};

/// The most bytes that the buffer for encoding requests keeps allocated.
const MAX_ENCODED_BYTES: usize = 64 * 1024;

/// One member of `params`: its key, and its value as JSON text.
pub(super) type ParamField<'a> = (&'a str, &'a [u8]);

/// A request to the server, created by [`legacy::request`](super::legacy::request) or
/// [`modern::request`](super::modern::request).
#[derive(Clone, Copy)]
pub(super) struct OutboundRequest<'a> {
    pub(super) method: &'a str,
    pub(super) fields: &'a [ParamField<'a>],
    /// Members of `_meta` as JSON text, or empty. Every modern request has some.
    pub(super) meta: &'a str,
    /// The revision that a modern request names in a header.
    pub(super) revision: Option<Revision>,
    /// The header `Mcp-Name`.
    pub(super) name: Option<&'a str>,
    /// The headers `Mcp-Param-*`.
    pub(super) parameters: &'a [(String, String)],
    /// Whether the request may be sent twice.
    pub(super) is_idempotent: bool,
    /// Whether it includes the params that its caller forwards: a request of the caller does, one
    /// that the host makes on the way to its result does not.
    pub(super) forwards_params: bool,
}

impl OutboundRequest<'_> {
    /// Writes the message. `reports_progress` asks for progress under the request's own id.
    #[inline(always)]
    pub(super) fn encode(
        &self,
        id: u64,
        reports_progress: bool,
        forwarded: Option<&ForwardedParams>,
        out: &mut Vec<u8>,
    ) {
        let mut number = itoa::Buffer::new();
        let id = number.format(id).as_bytes();
        out.clear();
        match (self.method, self.meta, forwarded, self.fields) {
            (TOOLS_CALL, "", None, [("name", name), ("arguments", arguments)])
                if reports_progress =>
            {
                encode_usual_call(id, name, arguments, out)
            }
            _ => self.encode_any(id, reports_progress, forwarded, out),
        }
    }

    fn encode_any(
        &self,
        id: &[u8],
        reports_progress: bool,
        forwarded: Option<&ForwardedParams>,
        out: &mut Vec<u8>,
    ) {
        let fields = self.fields.iter();
        let fields_len: usize = fields.map(|(key, value)| key.len() + value.len() + 4).sum();
        out.reserve(160 + self.meta.len() + fields_len);
        out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
        out.extend_from_slice(id);
        out.extend_from_slice(br#","method":""#);
        out.extend_from_slice(self.method.as_bytes());
        out.extend_from_slice(br#"","params":{"#);
        let mut is_first = true;
        let forwarded_meta = forwarded.map_or(&[][..], |forwarded| &forwarded.meta);
        if !self.meta.is_empty() || reports_progress || !forwarded_meta.is_empty() {
            out.extend_from_slice(br#""_meta":{"#);
            out.extend_from_slice(self.meta.as_bytes());
            let mut is_first_meta = self.meta.is_empty();
            if reports_progress {
                separate(out, &mut is_first_meta);
                out.extend_from_slice(br#""progressToken":"#);
                out.extend_from_slice(id);
            }
            for (key, value) in forwarded_meta {
                separate(out, &mut is_first_meta);
                write_member(out, key, value.as_bytes());
            }
            out.push(b'}');
            is_first = false;
        }
        for (key, value) in self.fields {
            separate(out, &mut is_first);
            out.push(b'"');
            out.extend_from_slice(key.as_bytes());
            out.extend_from_slice(br#"":"#);
            out.extend_from_slice(value);
        }
        for (key, value) in forwarded.map_or(&[][..], |forwarded| &forwarded.params) {
            let is_ours = key == "_meta" || self.fields.iter().any(|(known, _)| known == key);
            // What the host answers replaces all of an earlier answer of the client.
            let is_answered =
                is_answer(key) && self.fields.iter().any(|(known, _)| is_answer(known));
            if !is_ours && !is_answered {
                separate(out, &mut is_first);
                write_member(out, key, value.as_bytes());
            }
        }
        out.extend_from_slice(b"}}");
    }
}

/// Writes a legacy call without forwarded params, in half of the instructions: fewer parts are copied.
fn encode_usual_call(id: &[u8], name: &[u8], arguments: &[u8], out: &mut Vec<u8>) {
    out.reserve(160 + name.len() + arguments.len());
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    out.extend_from_slice(id);
    out.extend_from_slice(br#","method":""#);
    out.extend_from_slice(TOOLS_CALL.as_bytes());
    out.extend_from_slice(br#"","params":{"_meta":{"progressToken":"#);
    out.extend_from_slice(id);
    out.extend_from_slice(br#"},"name":"#);
    out.extend_from_slice(name);
    out.extend_from_slice(br#","arguments":"#);
    out.extend_from_slice(arguments);
    out.extend_from_slice(b"}}");
}

/// Writes a comma before each member but the first.
fn separate(out: &mut Vec<u8>, is_first: &mut bool) {
    if !std::mem::take(is_first) {
        out.push(b',');
    }
}

/// Writes a member whose key may need escapes.
fn write_member(out: &mut Vec<u8>, key: &str, value: &[u8]) {
    push_json_string(out, key);
    out.push(b':');
    out.extend_from_slice(value);
}

/// Both halves of a connection.
///
/// Functions on the path of every call are inlined: calling one costs about twenty instructions.
#[derive(Clone)]
pub(super) struct Peer {
    pub(super) receiver: Arc<Receiver>,
    pub(super) transport: Arc<dyn Transport>,
}

impl Peer {
    /// Sends a request that belongs to no caller and waits up to `wait`.
    pub(super) async fn request(
        &self,
        request: OutboundRequest<'_>,
        wait: Duration,
    ) -> RequestResult {
        let deadline = Instant::now() + wait;
        let attempts = async {
            let fault = match self.begin(&request, None)?.await {
                Err(fault) if request.is_idempotent => *fault,
                result => return Ok(result?),
            };
            match retry::pause(&fault, deadline) {
                Some(pause) => {
                    sleep(pause).await;
                    Ok(self.begin(&request, None)?.await?)
                }
                None => Err(fault),
            }
        };
        match timeout_at(deadline, attempts).await {
            Ok(result) => result,
            Err(_) => Err(RequestFault::Timeout {
                after: wait,
                total: true,
            }),
        }
    }

    /// Sends a caller's request and waits within its deadlines. Dropping the future cancels the
    /// request.
    pub(super) async fn request_for(
        &self,
        call: &Arc<InFlightCall>,
        request: &OutboundRequest<'_>,
    ) -> RequestResult {
        match self.request_once(call, request).await {
            // Boxed: rare, and it would make every call's future larger.
            Err(fault) => Box::pin(self.retry(call, request, fault)).await,
            result => result,
        }
    }

    async fn request_once(
        &self,
        call: &Arc<InFlightCall>,
        request: &OutboundRequest<'_>,
    ) -> RequestResult {
        if let Some(response) = self.begin_now(call, request)? {
            return Ok(response.await?);
        }
        Box::pin(self.wait_for_room(call)).await?;
        Ok(self.begin_for(call, request)?.await?)
    }

    /// Sends a caller's request again after this fault, if it is idempotent and a retry may
    /// succeed.
    pub(super) async fn retry(
        &self,
        call: &Arc<InFlightCall>,
        request: &OutboundRequest<'_>,
        fault: RequestFault,
    ) -> RequestResult {
        if !request.is_idempotent {
            return Err(fault);
        }
        let pause = match call.deadlines.check(Instant::now()) {
            DeadlineCheck::Wait(until) => retry::pause(&fault, until),
            DeadlineCheck::Late(_) => None,
        };
        match pause {
            Some(pause) => {
                sleep(pause).await;
                self.request_once(call, request).await
            }
            None => Err(fault),
        }
    }

    /// Sends a caller's request, unless the transport has no room at the moment.
    #[inline(always)]
    pub(super) fn begin_now(
        &self,
        call: &Arc<InFlightCall>,
        request: &OutboundRequest<'_>,
    ) -> Result<Option<PendingResponse<'_>>, Box<RequestFault>> {
        match self.transport.wait_for_room(MessageKind::Request) {
            Some(_) => Ok(None),
            None => self.begin_for(call, request).map(Some),
        }
    }

    /// Sends a caller's request, if its tool is still the approved one.
    #[inline(always)]
    fn begin_for(
        &self,
        call: &Arc<InFlightCall>,
        request: &OutboundRequest<'_>,
    ) -> Result<PendingResponse<'_>, Box<RequestFault>> {
        check_approved(call, request)?;
        self.begin(request, Some(call))
    }

    /// Sends a caller's request and returns its id. The code that gets the id must take or abandon the
    /// response.
    pub(super) async fn send_for(
        &self,
        call: &Arc<InFlightCall>,
        request: OutboundRequest<'_>,
    ) -> Result<u64, RequestFault> {
        if self.transport.wait_for_room(MessageKind::Request).is_some() {
            self.wait_for_room(call).await?;
        }
        check_approved(call, &request)?;
        Ok(self.send(&request, Some(call))?)
    }

    /// Waits for room within the deadline: a server that does not read its input must not keep a
    /// call longer.
    async fn wait_for_room(&self, call: &InFlightCall) -> Result<(), RequestFault> {
        let mut check_at = call.deadlines.first;
        loop {
            let Some(room) = self.transport.wait_for_room(MessageKind::Request) else {
                return Ok(());
            };
            tokio::select! {
                () = room => return Ok(()),
                () = sleep_until(check_at) => match call.deadlines.check(Instant::now()) {
                    DeadlineCheck::Wait(until) => check_at = until,
                    DeadlineCheck::Late(fault) => return Err(fault),
                },
            }
        }
    }

    /// Sends a request whose delivery is polled along with its response.
    fn begin(
        &self,
        request: &OutboundRequest<'_>,
        call: Option<&Arc<InFlightCall>>,
    ) -> Result<PendingResponse<'_>, Box<RequestFault>> {
        let mut delivery = None;
        let id = self.send_by(request, call, |message| {
            // Most transports return none, which is not copied.
            if let Some(returned) = self.transport.send_request(message)? {
                delivery = Some(returned);
            }
            Ok(())
        })?;
        Ok(PendingResponse {
            peer: self,
            id,
            delivery,
            is_over: false,
            is_cancellable: true,
        })
    }

    /// Sends a request that belongs to no caller, and continues without being polled.
    pub(super) fn start(
        &self,
        request: OutboundRequest<'_>,
    ) -> Result<PendingResponse<'_>, RequestFault> {
        let id = self.send(&request, None)?;
        Ok(PendingResponse {
            peer: self,
            id,
            delivery: None,
            is_over: false,
            is_cancellable: request.method != "initialize",
        })
    }

    /// Sends a request whose response is not needed; it is cancelled after `wait`, and ends with the
    /// connection.
    pub(super) fn send_and_forget(&self, request: OutboundRequest<'_>, wait: Duration) {
        let (Ok(id), Ok(runtime)) = (
            self.send(&request, None),
            tokio::runtime::Handle::try_current(),
        ) else {
            return;
        };
        let receiver = self.receiver.clone();
        runtime.spawn(async move {
            let is_late = timeout(wait, receiver.pending.response(id)).await.is_err();
            if is_late && receiver.pending.abandon(id) {
                receiver.cancel(id, "it took too long");
            }
        });
    }

    fn send(
        &self,
        request: &OutboundRequest<'_>,
        call: Option<&Arc<InFlightCall>>,
    ) -> Result<u64, Box<RequestFault>> {
        self.send_by(request, call, |message| self.transport.send(message))
    }

    /// Assigns an id and passes the request to the transport.
    fn send_by(
        &self,
        request: &OutboundRequest<'_>,
        call: Option<&Arc<InFlightCall>>,
        send: impl FnOnce(Outgoing<'_>) -> Result<(), Closed>,
    ) -> Result<u64, Box<RequestFault>> {
        let id = self.receiver.pending.add(call.cloned())?;
        let forwarded = call
            .and_then(|call| call.caller().forwarded())
            .filter(|forwarded| request.forwards_params && !forwarded.is_empty());
        // A second thread at the same moment has a buffer of its own.
        let (mut reused, mut own) = (self.receiver.encoded.try_lock(), Vec::new());
        let body = reused.as_deref_mut().unwrap_or(&mut own);
        request.encode(id, call.is_some(), forwarded, body);
        let metadata = RequestMetadata {
            version: request.revision.map(|revision| revision.as_str()),
            name: request.name,
            parameters: request.parameters,
        };
        let sent = send(Outgoing {
            id: Some(id),
            method: Some(request.method),
            body,
            metadata,
        });
        body.shrink_to(MAX_ENCODED_BYTES);
        match sent {
            Ok(()) => Ok(id),
            Err(closed) => {
                self.receiver.pending.abandon(id);
                Err(Box::new(RequestFault::Closed(closed.to_string())))
            }
        }
    }

    pub(super) fn notify(&self, method: &str, params: &Value) {
        self.receiver
            .send(&notification(method, params), Some(method));
    }
}

/// A request that has been sent. Dropping it before its response cancels the request.
pub(super) struct PendingResponse<'a> {
    peer: &'a Peer,
    pub(super) id: u64,
    /// Delivers the response, if the transport leaves that to the waiter.
    delivery: Option<Delivery>,
    /// Whether the response was taken.
    is_over: bool,
    is_cancellable: bool,
}

/// Cancel-safe by `&mut`.
impl Future for PendingResponse<'_> {
    type Output = ResponseResult;

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<ResponseResult> {
        self.delivery
            .take_if(|delivery| Pin::new(delivery).poll(task).is_ready());
        let result = ready!(self.peer.receiver.pending.poll_response(self.id, task));
        self.is_over = true;
        Poll::Ready(result)
    }
}

impl Drop for PendingResponse<'_> {
    fn drop(&mut self) {
        let receiver = &self.peer.receiver;
        if !self.is_over && receiver.pending.abandon(self.id) && self.is_cancellable {
            receiver.cancel(self.id, "the caller no longer waits");
        }
        receiver.request_ended(self.id);
    }
}

/// Checks that a tool is still the approved one. Nothing may be awaited between this and sending.
#[inline(always)]
fn check_approved(
    call: &InFlightCall,
    request: &OutboundRequest<'_>,
) -> Result<(), Box<RequestFault>> {
    if request.method == TOOLS_CALL && !call.is_still_approved() {
        return Err(Box::new(RequestFault::DefinitionChanged));
    }
    Ok(())
}

/// Encodes a notification.
pub(super) fn notification(method: &str, params: &Value) -> Vec<u8> {
    let mut message = Map::new();
    message.insert("jsonrpc".into(), "2.0".into());
    message.insert("method".into(), method.into());
    if !params.is_null() {
        message.insert("params".into(), params.clone());
    }
    Value::from(message).to_string().into_bytes()
}

/// Encodes a JSON string.
pub(super) fn json_string(text: &str) -> Vec<u8> {
    let mut json = Vec::with_capacity(text.len() + 2);
    push_json_string(&mut json, text);
    json
}

fn push_json_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    escaped(text).for_each(|part| out.extend_from_slice(part.as_bytes()));
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_usual_call_is_written_as_any_other_request_and_has_one_meta() {
        let fields: [ParamField<'_>; 2] = [("name", b"\"echo\""), ("arguments", b"{\"a\": 1}")];
        let request = super::super::legacy::request(TOOLS_CALL, &fields);
        let encoded = |forwarded: Option<&ForwardedParams>| {
            let mut out = b"what was written before".to_vec();
            request.encode(17, true, forwarded, &mut out);
            String::from_utf8(out).expect("JSON is text")
        };
        let expected = r#"{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{"_meta":{"progressToken":17},"name":"echo","arguments":{"a": 1}}}"#;
        assert_eq!(encoded(None), expected);
        let nothing = ForwardedParams::default();
        assert_eq!(encoded(Some(&nothing)), expected);
        // T21: the progress token of another call could be in it.
        let meta = r#"{"progressToken":18}"#.parse().expect("JSON");
        let second_meta = ForwardedParams {
            params: vec![("_meta".into(), meta)],
            ..ForwardedParams::default()
        };
        assert_eq!(encoded(Some(&second_meta)), expected);
    }
}
