//! What a session and its handshake send through: ids, pending answers, deadlines, cancellation.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::coop::unconstrained;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use super::clock::Verdict;
use super::envelope::{self, Field};
use super::ongoing::Ongoing;
use super::pending::Answer;
use super::receiver::Receiver;
use super::{Era, RequestFault, Revision, Still, again};
use crate::transport::{Closed, Delivery, MessageKind, Transport};
use crate::wire::{Outgoing, RequestMetadata};

/// A request on its way out.
#[derive(Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) era: Era,
    pub(super) method: &'a str,
    pub(super) fields: &'a [Field<'a>],
    /// The members of a modern request's `_meta`; empty for those that a request of ours alone
    /// declares.
    pub(super) declared: &'a str,
    /// What HTTP says in `Mcp-Name`.
    pub(super) name: Option<&'a str>,
    /// What HTTP says in `Mcp-Param-*`.
    pub(super) parameters: &'a [(String, String)],
    /// Whether it does no harm to send it twice.
    pub(super) is_harmless: bool,
}

impl<'a> Request<'a> {
    /// A request that belongs to no caller.
    pub(super) fn new(era: Era, method: &'a str, fields: &'a [Field<'a>]) -> Self {
        Self {
            era,
            method,
            fields,
            declared: "",
            name: None,
            parameters: &[],
            is_harmless: method.ends_with("/list"),
        }
    }
}

/// Both halves together.
#[derive(Clone)]
pub(super) struct Link {
    pub(super) receiver: Arc<Receiver>,
    pub(super) transport: Arc<dyn Transport>,
}

impl Link {
    /// Sends a request that belongs to no caller and waits up to `wait`.
    pub(super) async fn request(&self, request: Request<'_>, wait: Duration) -> Answer {
        let deadline = Instant::now() + wait;
        let asking = async {
            let answer = self.begin(request, None)?.answer().await;
            match again::pause(&answer, deadline).filter(|_| request.is_harmless) {
                Some(pause) => {
                    sleep(pause).await;
                    self.begin(request, None)?.answer().await
                }
                None => answer,
            }
        };
        match timeout_at(deadline, asking).await {
            Ok(answer) => answer,
            Err(_) => Err(RequestFault::Timeout {
                after: wait,
                total: true,
            }),
        }
    }

    /// Sends a request of a caller and waits as its clock says, unless it must not be sent any
    /// more. Dropping the future cancels it.
    pub(super) async fn request_for(
        &self,
        ongoing: &Arc<Ongoing>,
        request: &Request<'_>,
        still: Still<'_>,
    ) -> Answer {
        let answer = self.request_once(ongoing, request, still).await;
        if answer.is_ok() || !request.is_harmless {
            return answer;
        }
        let pause = match ongoing.clock.judge(Instant::now()) {
            Verdict::Wait(until) => again::pause(&answer, until),
            Verdict::Late(_) => None,
        };
        match pause {
            Some(pause) => {
                let again = async {
                    sleep(pause).await;
                    self.request_once(ongoing, request, still).await
                };
                // Boxed, like all that few requests come to.
                Box::pin(again).await
            }
            None => answer,
        }
    }

    async fn request_once(
        &self,
        ongoing: &Arc<Ongoing>,
        request: &Request<'_>,
        still: Still<'_>,
    ) -> Answer {
        self.clear_for(ongoing, still).await?;
        let mut waiting = self.begin(*request, Some(ongoing))?;
        self.receiver.watchdog.look_by(ongoing.clock.first_look());
        waiting.answer().await
    }

    /// Sends a request of a caller, unless it must not be sent any more. Whoever takes the reply
    /// cares for its end.
    pub(super) async fn send_for(
        &self,
        ongoing: &Arc<Ongoing>,
        request: Request<'_>,
        still: Still<'_>,
    ) -> Result<(u64, oneshot::Receiver<Answer>), RequestFault> {
        self.clear_for(ongoing, still).await?;
        let sent = self.send(request, Some(ongoing))?;
        self.receiver.watchdog.look_by(ongoing.clock.first_look());
        Ok(sent)
    }

    /// Waits for room. Nothing may be waited for between this and the sending.
    async fn clear_for(&self, ongoing: &Ongoing, still: Still<'_>) -> Result<(), RequestFault> {
        if self.transport.wait_for_room(MessageKind::Request).is_some() {
            Box::pin(self.room_for(ongoing)).await?;
        }
        if still() {
            Ok(())
        } else {
            Err(RequestFault::Moved)
        }
    }

    /// A server that does not read its input must not keep a call past its deadline.
    async fn room_for(&self, ongoing: &Ongoing) -> Result<(), RequestFault> {
        let mut look = ongoing.clock.first_look();
        loop {
            let Some(room) = self.transport.wait_for_room(MessageKind::Request) else {
                return Ok(());
            };
            tokio::select! {
                () = room => return Ok(()),
                () = sleep_until(look) => match ongoing.clock.judge(Instant::now()) {
                    Verdict::Wait(until) => look = until,
                    Verdict::Late(fault) => return Err(fault),
                },
            }
        }
    }

    /// Sends a request that the holder carries out while it waits for the answer.
    fn begin(
        &self,
        request: Request<'_>,
        ongoing: Option<&Arc<Ongoing>>,
    ) -> Result<Waiting<'_>, RequestFault> {
        let mut delivery = None;
        let (id, reply) = self.hand_over(request, ongoing, |message| {
            delivery = self.transport.send_request(message)?;
            Ok(())
        })?;
        Ok(Waiting {
            link: self,
            id,
            reply,
            delivery,
            is_over: false,
            cancellable: true,
        })
    }

    /// Sends a request; the answer is waited for by the holder, who need not poll for it.
    pub(super) fn post(
        &self,
        request: Request<'_>,
        ongoing: Option<&Arc<Ongoing>>,
    ) -> Result<Waiting<'_>, RequestFault> {
        let cancellable = request.method != "initialize";
        let (id, reply) = self.send(request, ongoing)?;
        Ok(Waiting {
            link: self,
            id,
            reply,
            delivery: None,
            is_over: false,
            cancellable,
        })
    }

    /// Sends a request whose answer nobody needs; its place is given up after `wait`, or when the
    /// connection ends.
    pub(super) fn tell(&self, request: Request<'_>, wait: Duration) {
        let (Ok((id, reply)), Ok(runtime)) = (
            self.send(request, None),
            tokio::runtime::Handle::try_current(),
        ) else {
            return;
        };
        let receiver = self.receiver.clone();
        runtime.spawn(async move {
            if timeout(wait, reply).await.is_err() {
                receiver.pending.give_up(id);
            }
        });
    }

    fn send(
        &self,
        request: Request<'_>,
        ongoing: Option<&Arc<Ongoing>>,
    ) -> Result<(u64, oneshot::Receiver<Answer>), RequestFault> {
        self.hand_over(request, ongoing, |message| self.transport.send(message))
    }

    /// Takes an id and hands the request over to the transport.
    fn hand_over(
        &self,
        request: Request<'_>,
        ongoing: Option<&Arc<Ongoing>>,
        hand: impl FnOnce(Outgoing<'_>) -> Result<(), Closed>,
    ) -> Result<(u64, oneshot::Receiver<Answer>), RequestFault> {
        let Request {
            era,
            method,
            fields,
            declared,
            name,
            parameters,
            is_harmless: _,
        } = request;
        let (id, reply) = self.receiver.pending.add(ongoing.cloned())?;
        let declared = if era == Era::Modern && declared.is_empty() {
            envelope::modern_meta(Default::default(), false)
        } else {
            declared
        };
        let body = envelope::request(era, id, method, fields, ongoing.is_some(), declared);
        let metadata = RequestMetadata {
            version: (era == Era::Modern).then(|| Revision::newest(era).as_str()),
            name,
            parameters,
        };
        match hand(Outgoing {
            id: Some(id),
            method: Some(method),
            body: &body,
            metadata,
        }) {
            Ok(()) => Ok((id, reply)),
            Err(closed) => {
                self.receiver.pending.give_up(id);
                Err(RequestFault::Closed(closed.to_string()))
            }
        }
    }

    pub(super) fn notify(&self, method: &str, params: &serde_json::Value) {
        self.receiver
            .send(&envelope::notification(method, params), Some(method));
    }
}

/// A request that has been sent. Dropping it before its answer tells the server to stop.
pub(super) struct Waiting<'a> {
    link: &'a Link,
    pub(super) id: u64,
    reply: oneshot::Receiver<Answer>,
    /// What brings the answer, where the wire leaves that to whoever waits.
    delivery: Option<Delivery>,
    /// The answer was taken.
    is_over: bool,
    cancellable: bool,
}

impl Waiting<'_> {
    /// The answer. Cancel-safe.
    pub(super) async fn answer(&mut self) -> Answer {
        poll_fn(|task| self.poll_answer(task)).await
    }

    fn poll_answer(&mut self, task: &mut Context<'_>) -> Poll<Answer> {
        self.delivery
            .take_if(|delivery| Pin::new(delivery).poll(task).is_ready());
        let dropped = |_| Err(RequestFault::Closed("the session was dropped".into()));
        // Outside of the task's budget: what the delivery reads may use that up each time, for as
        // long as the server sends.
        let answer = ready!(pin!(unconstrained(&mut self.reply)).poll(task));
        self.is_over = true;
        Poll::Ready(answer.unwrap_or_else(dropped))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.is_over && self.link.receiver.pending.give_up(self.id) && self.cancellable {
            self.link
                .receiver
                .cancel(self.id, "the caller no longer waits");
        }
        self.link.receiver.over(self.id);
    }
}
