//! Keeps a legacy server's subscriptions and log level as desired: sends each change, and all of
//! them when the server has lost them.

use std::time::Duration;

use crate::session::peer::{ParamField, Peer, json_string};
use crate::session::subscriptions::{DesiredSubscriptions, SubscriptionOutcomes};
use crate::session::{Hello, RequestFault};

/// How long to wait for a response.
const UPDATE_TIMEOUT: Duration = Duration::from_secs(30);

/// Runs until the connection ends. One request at a time, so that the server sees them in order.
pub(super) async fn run(peer: Peer, hello: Hello) {
    let mut desired = peer.receiver.options.subscriptions.follow();
    let mut outcomes = peer.receiver.subscription_status.follow();
    // Subscriptions that another session of this server agreed to, or this one before it was
    // renewed.
    let mut agreed = desired.borrow().resources.clone();
    loop {
        let wanted = desired.borrow_and_update().clone();
        let now = outcomes.borrow_and_update().clone();
        if let Some(update) = next(&wanted, &now) {
            let subject = update.uri().map(str::to_owned);
            match (send(&peer, &hello, update, now.renewals).await, subject) {
                (Err(RequestFault::Closed(_)), _) => return,
                (Err(fault), Some(uri)) if agreed.remove(&uri) => {
                    peer.receiver.lost_subscription(&uri, &fault)
                }
                (Ok(()), Some(uri)) => drop(agreed.insert(uri)),
                _ => {}
            }
            continue;
        }
        let changed = tokio::select! {
            changed = desired.changed() => changed,
            changed = outcomes.changed() => changed,
        };
        if changed.is_err() {
            return;
        }
    }
}

/// One difference between the desired and the server's subscriptions.
#[derive(Debug, PartialEq, Eq)]
enum SubscriptionUpdate {
    Level(crate::event::LogLevel),
    Subscribe(String),
    Unsubscribe(String),
    /// A refused subscription that is no longer desired.
    Forget(String),
}

impl SubscriptionUpdate {
    /// The resource that the update subscribes to.
    fn uri(&self) -> Option<&str> {
        match self {
            Self::Subscribe(uri) => Some(uri),
            Self::Level(_) | Self::Unsubscribe(_) | Self::Forget(_) => None,
        }
    }
}

/// The next update.
fn next(
    desired: &DesiredSubscriptions,
    known: &SubscriptionOutcomes,
) -> Option<SubscriptionUpdate> {
    if let Some(level) = desired.level.or(desired.legacy_level)
        && known.level.as_ref().map(|(level, _)| *level) != Some(level)
    {
        return Some(SubscriptionUpdate::Level(level));
    }
    if let Some(uri) = desired
        .resources
        .iter()
        .find(|uri| !known.resources.contains_key(*uri))
    {
        return Some(SubscriptionUpdate::Subscribe(uri.clone()));
    }
    let (uri, outcome) = known
        .resources
        .iter()
        .find(|(uri, _)| !desired.resources.contains(*uri))?;
    Some(if outcome.is_ok() {
        SubscriptionUpdate::Unsubscribe(uri.clone())
    } else {
        SubscriptionUpdate::Forget(uri.clone())
    })
}

async fn send(
    peer: &Peer,
    hello: &Hello,
    update: SubscriptionUpdate,
    renewals: u64,
) -> Result<(), RequestFault> {
    let status = &peer.receiver.subscription_status;
    match update {
        SubscriptionUpdate::Level(level) => {
            let outcome = match hello.declares(&["logging"]) {
                true => request(peer, "logging/setLevel", "level", level.as_str()).await,
                false => Err(RequestFault::not_offered("logging")),
            };
            status.note(renewals, |outcomes| {
                outcomes.level = Some((level, outcome.clone()))
            });
            outcome
        }
        SubscriptionUpdate::Subscribe(uri) => {
            let outcome = match hello.declares(&["resources", "subscribe"]) {
                true => request(peer, "resources/subscribe", "uri", &uri).await,
                false => Err(RequestFault::not_offered("subscriptions to resources")),
            };
            status.note(renewals, |outcomes| {
                outcomes.resources.insert(uri, outcome.clone());
            });
            outcome
        }
        SubscriptionUpdate::Unsubscribe(uri) => {
            // Reports of the server after an unsubscription are ignored, whatever it responded.
            let outcome = request(peer, "resources/unsubscribe", "uri", &uri).await;
            status.note(renewals, |outcomes| {
                outcomes.resources.remove(&uri);
            });
            outcome
        }
        SubscriptionUpdate::Forget(uri) => {
            status.note(renewals, |outcomes| {
                outcomes.resources.remove(&uri);
            });
            Ok(())
        }
    }
}

async fn request(peer: &Peer, method: &str, key: &str, value: &str) -> Result<(), RequestFault> {
    let value = json_string(value);
    let fields: [ParamField<'_>; 1] = [(key, &value)];
    peer.request(super::request(method, &fields), UPDATE_TIMEOUT)
        .await
        .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::LogLevel;

    fn check(
        wanted: (&[&str], Option<LogLevel>),
        told: (&[(&str, bool)], Option<LogLevel>),
        expected: Option<SubscriptionUpdate>,
    ) {
        let refused = || RequestFault::Invalid("no".to_owned());
        let desired = DesiredSubscriptions {
            resources: wanted.0.iter().map(|uri| (*uri).to_owned()).collect(),
            level: wanted.1,
            ..DesiredSubscriptions::default()
        };
        let outcome = |ok: bool| if ok { Ok(()) } else { Err(refused()) };
        let outcomes = SubscriptionOutcomes {
            renewals: 0,
            resources: told
                .0
                .iter()
                .map(|(uri, ok)| ((*uri).to_owned(), outcome(*ok)))
                .collect(),
            level: told.1.map(|level| (level, Ok(()))),
        };
        assert_eq!(next(&desired, &outcomes), expected, "{wanted:?}, {told:?}");
    }

    #[test]
    fn each_subscription_change_is_sent_once() {
        use LogLevel::{Debug, Error};
        check((&[], None), (&[], None), None);
        check(
            (&["a"], Some(Debug)),
            (&[], None),
            Some(SubscriptionUpdate::Level(Debug)),
        );
        check(
            (&["a"], Some(Debug)),
            (&[], Some(Error)),
            Some(SubscriptionUpdate::Level(Debug)),
        );
        check(
            (&["a"], Some(Debug)),
            (&[], Some(Debug)),
            Some(SubscriptionUpdate::Subscribe("a".into())),
        );
        check((&["a"], None), (&[("a", true)], None), None);
        check((&["a"], None), (&[("a", false)], None), None);
        check(
            (&["a"], None),
            (&[("a", true), ("b", true)], None),
            Some(SubscriptionUpdate::Unsubscribe("b".into())),
        );
        check(
            (&[], None),
            (&[("a", false)], None),
            Some(SubscriptionUpdate::Forget("a".into())),
        );
    }
}
