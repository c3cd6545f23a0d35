//! What may be asked of a server beside calls: completions, subscriptions, how much it logs. Each
//! only where the server offers it.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::timeout;

use super::link::Request;
use super::wishes::Outcomes;
use super::{Era, Hello, RequestFault, Revision, Session};
use crate::event::LogLevel;
use crate::wire::RawJson;

/// What an argument to be completed belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    /// A prompt, by its name.
    Prompt(String),
    /// A resource or a family of them, by its address or template.
    Resource(String),
}

impl Hello {
    /// Whether the server declared this capability: `["resources", "subscribe"]`.
    pub fn declares(&self, path: &[&str]) -> bool {
        let Ok(declared) = self.capabilities.to_value() else {
            return false;
        };
        let found = path.iter().try_fold(&declared, |value, key| value.get(key));
        found.is_some_and(|value| !matches!(value, Value::Null | Value::Bool(false)))
    }
}

impl Session {
    /// Asks how the value of an argument may go on. `given` are the arguments that have their
    /// values already. The result, byte for byte.
    pub async fn completions(
        &self,
        of: &Reference,
        argument: &str,
        value: &str,
        given: &Map<String, Value>,
        wait: Duration,
    ) -> Result<RawJson, RequestFault> {
        // In the first revision there was no capability to declare.
        if !self.hello.declares(&["completions"]) && self.hello.revision != Revision::V2024_11_05 {
            return Err(RequestFault::not_offered("completions"));
        }
        let reference = match of {
            Reference::Prompt(name) => json!({"type": "ref/prompt", "name": name}),
            Reference::Resource(uri) => json!({"type": "ref/resource", "uri": uri}),
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
        self.link
            .request(
                Request::new(self.hello.era(), "completion/complete", &fields),
                wait,
            )
            .await
    }

    /// Subscribes to a resource, for this session and those after it. Returns when the server has
    /// agreed.
    pub async fn subscribe(&self, uri: &str, wait: Duration) -> Result<(), RequestFault> {
        if !self.hello.declares(&["resources", "subscribe"]) {
            return Err(RequestFault::not_offered("subscriptions to resources"));
        }
        let receiver = &self.link.receiver;
        receiver.told.forget_refusal(uri);
        receiver.options.wishes.add(uri)?;
        let outcome = self
            .told(wait, |told| told.resources.get(uri).cloned())
            .await;
        if outcome.is_err() && !matches!(outcome, Err(RequestFault::Closed(_))) {
            receiver.options.wishes.remove(uri);
        }
        outcome
    }

    /// Ends a subscription. One that was not there has ended already.
    pub async fn unsubscribe(&self, uri: &str, wait: Duration) -> Result<(), RequestFault> {
        if !self.link.receiver.options.wishes.remove(uri) {
            return Ok(());
        }
        self.told(wait, |told| {
            (!told.resources.contains_key(uri)).then_some(Ok(()))
        })
        .await
    }

    /// Sets from which level on the server logs, for this session and those after it. A modern
    /// server is told with each request.
    pub async fn set_log_level(&self, level: LogLevel, wait: Duration) -> Result<(), RequestFault> {
        if !self.hello.declares(&["logging"]) {
            return Err(RequestFault::not_offered("logging"));
        }
        self.link.receiver.options.wishes.set_level(level);
        match self.hello.era() {
            Era::Modern => Ok(()),
            Era::Legacy => {
                let of_level =
                    |told: &Outcomes| told.level.clone().filter(|(known, _)| *known == level);
                self.told(wait, |told| of_level(told).map(|(_, outcome)| outcome))
                    .await
            }
        }
    }

    /// Waits for what the server says to a wish.
    async fn told(
        &self,
        wait: Duration,
        outcome: impl Fn(&Outcomes) -> Option<Result<(), RequestFault>>,
    ) -> Result<(), RequestFault> {
        let mut outcomes = self.link.receiver.told.follow();
        let said = async {
            let told = outcomes.wait_for(|told| outcome(told).is_some()).await;
            told.ok().and_then(|told| outcome(&told)).unwrap_or(Ok(()))
        };
        tokio::select! {
            said = timeout(wait, said) => said.unwrap_or(Err(RequestFault::Timeout { after: wait, total: true })),
            reason = self.closed() => Err(RequestFault::Closed(reason)),
        }
    }
}
