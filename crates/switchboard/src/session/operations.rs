//! Completions, subscriptions and the log level; the session's status.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::timeout;

use super::subscriptions::SubscriptionOutcomes;
use super::{ProtocolDeviations, RequestFault, Revision, Session};
use crate::event::LogLevel;
use crate::wire::RawJson;

/// The prompt or resource that an argument to be completed belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompletionTarget {
    /// A prompt, by its name.
    Prompt(String),
    /// A resource or a resource template, by its URI.
    Resource(String),
}

impl Session {
    /// Completes the value of an argument. `given` are the arguments that already have values.
    /// Returns the result byte for byte.
    pub async fn completions(
        &self,
        of: &CompletionTarget,
        argument: &str,
        value: &str,
        given: &Map<String, Value>,
        wait: Duration,
    ) -> Result<RawJson, RequestFault> {
        // The first revision had no such capability.
        if !self.hello.declares(&["completions"]) && self.hello.revision != Revision::V2024_11_05 {
            return Err(RequestFault::not_offered("completions"));
        }
        let reference = match of {
            CompletionTarget::Prompt(name) => json!({"type": "ref/prompt", "name": name}),
            CompletionTarget::Resource(uri) => json!({"type": "ref/resource", "uri": uri}),
        };
        let (reference, argument) = (
            reference.to_string(),
            json!({"name": argument, "value": value}).to_string(),
        );
        let context = json!({"arguments": given}).to_string();
        let mut fields = vec![
            ("ref", reference.as_bytes()),
            ("argument", argument.as_bytes()),
        ];
        if !given.is_empty() {
            fields.push(("context", context.as_bytes()));
        }
        let request = self.era.request("completion/complete", &fields);
        let result = self.peer.request(request, wait).await?;
        self.era.check_complete(&result)?;
        Ok(result)
    }

    /// Subscribes to a resource, for this session and later ones. Returns when the server has
    /// agreed. If it does not, an earlier subscription to the same resource stays.
    pub async fn subscribe(&self, uri: &str, wait: Duration) -> Result<(), RequestFault> {
        if !self.hello.declares(&["resources", "subscribe"]) {
            return Err(RequestFault::not_offered("subscriptions to resources"));
        }
        let receiver = &self.peer.receiver;
        let was_refused = receiver.subscription_status.forget_refusal(uri);
        let is_new = receiver.options.subscriptions.add(uri)?;
        if was_refused && !is_new {
            receiver.options.subscriptions.renew();
        }
        if is_new && self.era.subscribes_one_by_one() {
            // An earlier subscription may be about to end at the server.
            receiver.subscription_status.forget(uri);
        }
        let outcome = self
            .subscribed(wait, |outcomes| outcomes.resources.get(uri).cloned())
            .await;
        if is_new && outcome.is_err() && !matches!(outcome, Err(RequestFault::Closed(_))) {
            receiver.options.subscriptions.remove(uri);
        }
        outcome
    }

    /// Ends a subscription. Succeeds if there is none.
    pub async fn unsubscribe(&self, uri: &str, wait: Duration) -> Result<(), RequestFault> {
        if !self.peer.receiver.options.subscriptions.remove(uri) {
            return Ok(());
        }
        self.subscribed(wait, |outcomes| {
            (!outcomes.resources.contains_key(uri)).then_some(Ok(()))
        })
        .await
    }

    /// Sets the server's minimum log level, for this session and later ones.
    pub async fn set_log_level(&self, level: LogLevel, wait: Duration) -> Result<(), RequestFault> {
        if !self.hello.declares(&["logging"]) {
            return Err(RequestFault::not_offered("logging"));
        }
        self.peer.receiver.options.subscriptions.set_level(level);
        if !self.era.confirms_log_level() {
            return Ok(());
        }
        self.subscribed(wait, |outcomes| {
            let (known, outcome) = outcomes.level.clone()?;
            (known == level).then_some(outcome)
        })
        .await
    }

    /// Waits for the server's response to a subscription.
    async fn subscribed(
        &self,
        wait: Duration,
        outcome: impl Fn(&SubscriptionOutcomes) -> Option<Result<(), RequestFault>>,
    ) -> Result<(), RequestFault> {
        let mut outcomes = self.peer.receiver.subscription_status.follow();
        let known = async {
            let found = outcomes.wait_for(|now| outcome(now).is_some()).await;
            found.ok().and_then(|now| outcome(&now)).unwrap_or(Ok(()))
        };
        tokio::select! {
            known = timeout(wait, known) => {
                known.unwrap_or(Err(RequestFault::Timeout { after: wait, total: true }))
            }
            reason = self.closed() => Err(RequestFault::Closed(reason)),
        }
    }

    /// Whether the server has asked a question on a stream that belongs to no call.
    pub fn asks(&self) -> bool {
        self.peer
            .receiver
            .asked_on_shared_stream
            .load(Ordering::Relaxed)
    }

    /// The deviations from the protocol so far.
    pub fn deviations(&self) -> ProtocolDeviations {
        self.peer.receiver.options.deviations.deviations()
    }

    /// Whether the server has asked a question while a call was in flight.
    pub(crate) fn has_asked(&self) -> bool {
        let receiver = &self.peer.receiver;
        receiver.asked_during_call.load(Ordering::Relaxed)
    }

    /// Whether no caller's request is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        self.peer.receiver.in_flight.is_idle()
    }

    /// Waits until no caller's request is in flight. Cancel-safe.
    pub(crate) async fn idle(&self) {
        self.peer.receiver.in_flight.idle().await;
    }
}
