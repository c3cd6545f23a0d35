//! A modern server tells of changes only while a `subscriptions/listen` request stands; this keeps
//! one standing that fits the wishes.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};

use super::link::{Link, Request, Waiting};
use super::pending::Answer;
use super::wishes::{Acknowledged, Wanted};
use super::{Era, Hello, RequestFault, tell};
use crate::transport::WireFault;
use crate::wire::RawJson;

/// A stream that ended is opened again after this long, and after twice as long each time that it
/// does not last.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// One that stood for so long did its work; intermediaries end what is silent for half a minute.
const LASTING: Duration = Duration::from_secs(10);

/// The acknowledgement is the first thing that a server says.
const ACKNOWLEDGED_BY: Duration = Duration::from_secs(10);

/// The task that keeps the server told of what is wanted, in its era's way. Dropping it ends what
/// it holds.
#[derive(Debug)]
pub(super) struct Standing(AbortHandle);

impl Drop for Standing {
    fn drop(&mut self) {
        self.0.abort();
    }
}

pub(super) fn start(link: &Link, hello: &Hello) -> Standing {
    let (receiver, link, hello) = (&link.receiver, link.clone(), hello.clone());
    let task = match hello.era() {
        Era::Modern => receiver.spawn(keep_listening(link, hello)),
        Era::Legacy => receiver.spawn(tell::keep_told(link, hello)),
    };
    Standing(task)
}

/// A request that stands, and what it asked for.
struct Stream<'a> {
    waiting: Waiting<'a>,
    resources: BTreeSet<String>,
    since: Instant,
}

/// Runs until the connection ends.
async fn keep_listening(link: Link, hello: Hello) {
    let lists = changing_lists(&hello);
    let mut wishes = link.receiver.options.wishes.follow();
    let mut standing: Option<Stream<'_>> = None;
    let mut pause = PAUSE;
    let mut was_deaf = false;
    // What another session of this server had agreed to, or this one before its stream broke.
    let mut agreed = wishes.borrow().resources.clone();
    loop {
        let wanted = wishes.borrow_and_update().resources.clone();
        if standing
            .as_ref()
            .is_none_or(|stream| stream.resources != wanted)
        {
            let fresh = match lists.is_empty() && wanted.is_empty() {
                true => {
                    // Nothing is left to agree on; who ended the last subscription waits to hear
                    // that.
                    note(&link, &wanted, |_| Ok(()));
                    Ok(None)
                }
                // The old stream stands until the new one does, so that no change falls between
                // them.
                false => open(&link, &lists, &wanted).await.map(Some),
            };
            match fresh {
                Ok(fresh) => {
                    standing = fresh;
                    compare(&link, &mut agreed);
                    if std::mem::take(&mut was_deaf) {
                        // What changed meanwhile was not told. What the server let us keep still
                        // holds.
                        link.receiver.changed.notify_one();
                    }
                }
                Err(fault) => {
                    was_deaf |= standing.take().is_some();
                    if is_refusal(&fault) {
                        note(&link, &wanted, |_| Err(fault.clone()));
                        compare(&link, &mut agreed);
                    }
                    if !after(&fault, &mut pause, &mut wishes).await {
                        return;
                    }
                    continue;
                }
            }
        }
        tokio::select! {
            ended = ended(&mut standing) => {
                let lasted = standing.take().is_some_and(|stream| stream.since.elapsed() > LASTING);
                was_deaf = true;
                if lasted {
                    pause = PAUSE;
                }
                match ended {
                    // A clean end; it may want to be asked anew.
                    Ok(_) => rest(&mut pause, &mut wishes).await,
                    Err(fault) => {
                        if !after(&fault, &mut pause, &mut wishes).await {
                            return;
                        }
                    }
                }
            }
            changed = wishes.changed() => {
                if changed.is_err() {
                    return;
                }
            }
        }
    }
}

/// Waits for the end of the stream, if one stands.
async fn ended(standing: &mut Option<Stream<'_>>) -> Answer {
    match standing {
        Some(stream) => stream.waiting.answer().await,
        None => std::future::pending().await,
    }
}

/// What follows a stream that failed. False when there is nothing left to listen to.
async fn after(
    fault: &RequestFault,
    pause: &mut Duration,
    wishes: &mut watch::Receiver<Wanted>,
) -> bool {
    match fault {
        RequestFault::Closed(_) => false,
        // It will not, until something else is wanted.
        fault if is_refusal(fault) => wishes.changed().await.is_ok(),
        _ => {
            rest(pause, wishes).await;
            true
        }
    }
}

/// Waits, unless something else is wanted meanwhile: somebody waits for that.
async fn rest(pause: &mut Duration, wishes: &mut watch::Receiver<Wanted>) {
    // An error means that nobody can want anything any more, and is met again where wishes are
    // waited for.
    let _ = timeout(*pause, wishes.changed()).await;
    *pause = (*pause * 2).min(LONGEST_PAUSE);
}

/// The server understood and said no; anything else is a stream that broke.
fn is_refusal(fault: &RequestFault) -> bool {
    match fault {
        RequestFault::Answered { .. } | RequestFault::Invalid(_) => true,
        RequestFault::Wire(WireFault::Status { status, .. }) => {
            (400..500).contains(status) && ![408, 429].contains(status)
        }
        _ => false,
    }
}

/// Opens a stream and waits for its acknowledgement.
async fn open<'a>(
    link: &'a Link,
    lists: &[&'static str],
    wanted: &BTreeSet<String>,
) -> Result<Stream<'a>, RequestFault> {
    let filter = filter(lists, wanted);
    let fields: [(&str, &[u8]); 1] = [("notifications", filter.as_bytes())];
    let mut waiting = link.post(
        Request::new(Era::Modern, "subscriptions/listen", &fields),
        None,
    )?;
    let told = &link.receiver.told;
    let acknowledged = timeout(ACKNOWLEDGED_BY, async {
        loop {
            let bell = told.acknowledging.notified();
            if let Some(acknowledged) = told.take_acknowledged(waiting.id) {
                return Ok(acknowledged);
            }
            tokio::select! {
                () = bell => {}
                // A stream that ends before it began to tell has told nothing.
                answer = waiting.answer() => return Err(answer.err()),
            }
        }
    });
    match acknowledged.await {
        Ok(Ok(acknowledged)) => agree(link, lists, wanted, &acknowledged),
        Ok(Err(Some(fault))) => return Err(fault),
        Ok(Err(None)) => {
            return Err(RequestFault::Wire(WireFault::Lost(
                "the subscription ended at once".to_owned(),
            )));
        }
        // It may tell all the same, so the stream stays.
        Err(_) => note(link, wanted, |_| {
            Err(RequestFault::Invalid(format!(
                "the subscription was not acknowledged within {} s",
                ACKNOWLEDGED_BY.as_secs()
            )))
        }),
    }
    Ok(Stream {
        waiting,
        resources: wanted.clone(),
        since: Instant::now(),
    })
}

/// Notes what the server agreed to tell of. It may agree to less than was asked for, never to more.
fn agree(
    link: &Link,
    lists: &[&'static str],
    wanted: &BTreeSet<String>,
    acknowledged: &Acknowledged,
) {
    let agreed: BTreeSet<&str> = acknowledged
        .resource_subscriptions
        .iter()
        .map(String::as_str)
        .collect();
    let more = agreed.iter().any(|uri| !wanted.contains(*uri))
        || LISTS
            .iter()
            .any(|(_, name, is_agreed)| is_agreed(acknowledged) && !lists.contains(name));
    if more {
        link.receiver
            .notice("it agreed to tell of changes that it was not asked for".to_owned());
    }
    note(link, wanted, |uri| match agreed.contains(uri) {
        true => Ok(()),
        false => Err(RequestFault::Unwilling(
            "the server does not tell of changes to this resource".to_owned(),
        )),
    });
}

/// Replaces the outcomes: those of this stream are the ones that hold.
fn note(
    link: &Link,
    wanted: &BTreeSet<String>,
    outcome: impl Fn(&str) -> Result<(), RequestFault>,
) {
    let told = &link.receiver.told;
    let renewals = told.now().renewals;
    told.note(renewals, |told| {
        told.resources = wanted
            .iter()
            .map(|uri| (uri.clone(), outcome(uri)))
            .collect()
    });
}

/// Tells of what was agreed to once and is not any more.
fn compare(link: &Link, agreed: &mut BTreeSet<String>) {
    for (uri, outcome) in link.receiver.told.now().resources {
        match outcome {
            Ok(()) => drop(agreed.insert(uri)),
            Err(fault) if agreed.remove(&uri) => link.receiver.lost_subscription(&uri, &fault),
            Err(_) => {}
        }
    }
}

/// A capability, its word in the filter, and whether an acknowledgement has it.
type List = (&'static str, &'static str, fn(&Acknowledged) -> bool);

const LISTS: [List; 3] = [
    ("tools", "toolsListChanged", |acknowledged| {
        acknowledged.tools_list_changed
    }),
    ("prompts", "promptsListChanged", |acknowledged| {
        acknowledged.prompts_list_changed
    }),
    ("resources", "resourcesListChanged", |acknowledged| {
        acknowledged.resources_list_changed
    }),
];

/// The lists that may change, as the server declared them.
fn changing_lists(hello: &Hello) -> Vec<&'static str> {
    LISTS
        .iter()
        .filter(|(list, ..)| hello.declares(&[list, "listChanged"]))
        .map(|(_, name, _)| *name)
        .collect()
}

fn filter(lists: &[&'static str], wanted: &BTreeSet<String>) -> RawJson {
    let mut filter: Map<String, Value> = lists
        .iter()
        .map(|name| ((*name).to_owned(), Value::Bool(true)))
        .collect();
    if !wanted.is_empty() {
        filter.insert(
            "resourceSubscriptions".to_owned(),
            wanted.iter().cloned().collect(),
        );
    }
    RawJson::from_value(&filter)
}
