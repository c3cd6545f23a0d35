//! Keeps a legacy server told of the wishes: subscriptions and log level, each when it changes, all
//! of them when it has forgotten.

use std::time::Duration;

use super::link::{Link, Request};
use super::wishes::{Outcomes, Wanted};
use super::{Era, Hello, RequestFault, envelope};

/// How long a server may take to say yes or no.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs until the connection ends. One request at a time, so that the server hears them in order.
pub(super) async fn keep_told(link: Link, hello: Hello) {
    let mut wishes = link.receiver.options.wishes.follow();
    let mut outcomes = link.receiver.told.follow();
    // What another session of this server had agreed to, or this one before it was renewed.
    let mut agreed = wishes.borrow().resources.clone();
    loop {
        let wanted = wishes.borrow_and_update().clone();
        let now = outcomes.borrow_and_update().clone();
        if let Some(order) = next(&wanted, &now) {
            let subject = order.uri().map(str::to_owned);
            match (carry_out(&link, &hello, order, now.renewals).await, subject) {
                (Err(RequestFault::Closed(_)), _) => return,
                (Err(fault), Some(uri)) if agreed.remove(&uri) => {
                    link.receiver.lost_subscription(&uri, &fault)
                }
                (Ok(()), Some(uri)) => drop(agreed.insert(uri)),
                _ => {}
            }
            continue;
        }
        let changed = tokio::select! {
            changed = wishes.changed() => changed,
            changed = outcomes.changed() => changed,
        };
        if changed.is_err() {
            return;
        }
    }
}

/// One thing to tell.
#[derive(Debug, PartialEq, Eq)]
enum Order {
    Level(crate::event::LogLevel),
    Subscribe(String),
    Unsubscribe(String),
    /// It was refused, and nobody wants it any more.
    Forget(String),
}

impl Order {
    /// The resource that it asks the server to tell of.
    fn uri(&self) -> Option<&str> {
        match self {
            Self::Subscribe(uri) => Some(uri),
            Self::Level(_) | Self::Unsubscribe(_) | Self::Forget(_) => None,
        }
    }
}

/// What the server does not know yet.
fn next(wanted: &Wanted, told: &Outcomes) -> Option<Order> {
    if let Some(level) = wanted.level
        && told.level.as_ref().map(|(level, _)| *level) != Some(level)
    {
        return Some(Order::Level(level));
    }
    if let Some(uri) = wanted
        .resources
        .iter()
        .find(|uri| !told.resources.contains_key(*uri))
    {
        return Some(Order::Subscribe(uri.clone()));
    }
    let (uri, outcome) = told
        .resources
        .iter()
        .find(|(uri, _)| !wanted.resources.contains(*uri))?;
    Some(if outcome.is_ok() {
        Order::Unsubscribe(uri.clone())
    } else {
        Order::Forget(uri.clone())
    })
}

async fn carry_out(
    link: &Link,
    hello: &Hello,
    order: Order,
    renewals: u64,
) -> Result<(), RequestFault> {
    let told = &link.receiver.told;
    match order {
        Order::Level(level) => {
            let outcome = match hello.declares(&["logging"]) {
                true => ask(link, "logging/setLevel", "level", level.as_str()).await,
                false => Err(RequestFault::not_offered("logging")),
            };
            told.note(renewals, |told| told.level = Some((level, outcome.clone())));
            outcome
        }
        Order::Subscribe(uri) => {
            let outcome = match hello.declares(&["resources", "subscribe"]) {
                true => ask(link, "resources/subscribe", "uri", &uri).await,
                false => Err(RequestFault::not_offered("subscriptions to resources")),
            };
            told.note(renewals, |told| {
                told.resources.insert(uri, outcome.clone());
            });
            outcome
        }
        Order::Unsubscribe(uri) => {
            // Whether it agrees or not: what it still tells is of no interest.
            let outcome = ask(link, "resources/unsubscribe", "uri", &uri).await;
            told.note(renewals, |told| {
                told.resources.remove(&uri);
            });
            outcome
        }
        Order::Forget(uri) => {
            told.note(renewals, |told| {
                told.resources.remove(&uri);
            });
            Ok(())
        }
    }
}

async fn ask(link: &Link, method: &str, key: &str, value: &str) -> Result<(), RequestFault> {
    let value = envelope::string(value);
    let fields: [envelope::Field<'_>; 1] = [(key, &value)];
    link.request(Request::new(Era::Legacy, method, &fields), PATIENCE)
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
        expected: Option<Order>,
    ) {
        let refused = || RequestFault::Invalid("no".to_owned());
        let wishes = Wanted {
            resources: wanted.0.iter().map(|uri| (*uri).to_owned()).collect(),
            level: wanted.1,
        };
        let outcome = |ok: bool| if ok { Ok(()) } else { Err(refused()) };
        let outcomes = Outcomes {
            renewals: 0,
            resources: told
                .0
                .iter()
                .map(|(uri, ok)| ((*uri).to_owned(), outcome(*ok)))
                .collect(),
            level: told.1.map(|level| (level, Ok(()))),
        };
        assert_eq!(next(&wishes, &outcomes), expected, "{wanted:?}, {told:?}");
    }

    #[test]
    fn a_server_is_told_what_it_does_not_know_and_nothing_twice() {
        use LogLevel::{Debug, Error};
        check((&[], None), (&[], None), None);
        check(
            (&["a"], Some(Debug)),
            (&[], None),
            Some(Order::Level(Debug)),
        );
        check(
            (&["a"], Some(Debug)),
            (&[], Some(Error)),
            Some(Order::Level(Debug)),
        );
        check(
            (&["a"], Some(Debug)),
            (&[], Some(Debug)),
            Some(Order::Subscribe("a".into())),
        );
        check((&["a"], None), (&[("a", true)], None), None);
        check((&["a"], None), (&[("a", false)], None), None);
        check(
            (&["a"], None),
            (&[("a", true), ("b", true)], None),
            Some(Order::Unsubscribe("b".into())),
        );
        check(
            (&[], None),
            (&[("a", false)], None),
            Some(Order::Forget("a".into())),
        );
    }
}
