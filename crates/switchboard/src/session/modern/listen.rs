//! Keeps a `subscriptions/listen` request open that matches the subscriptions: a modern server
//! reports changes only while there is one.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::session::peer::{Peer, PendingResponse};
use crate::session::subscriptions::{DesiredSubscriptions, ListenAcknowledgement};
use crate::session::{Hello, RequestFault, RequestResult, Revision};
use crate::transport::TransportFault;
use crate::wire::RawJson;

/// The delay before a stream that ended is opened again; doubled each time that a stream ends
/// early.
const INITIAL_DELAY: Duration = Duration::from_secs(1);
const MAX_DELAY: Duration = Duration::from_secs(60);

/// A stream that was open for this long resets the delay: intermediaries end silent ones after half
/// a minute.
const STABLE_AFTER: Duration = Duration::from_secs(10);

/// How long to wait for the acknowledgement, the first message on the stream.
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_secs(10);

/// An open request and its parameters.
struct ListenStream<'a> {
    response: PendingResponse<'a>,
    resources: BTreeSet<String>,
    since: Instant,
}

/// Runs until the connection ends.
pub(super) async fn run(peer: Peer, hello: Hello) {
    let lists = changing_lists(&hello);
    let mut desired = peer.receiver.options.subscriptions.follow();
    let mut open: Option<ListenStream<'_>> = None;
    let mut delay = INITIAL_DELAY;
    let mut missed_changes = false;
    // Subscriptions that another session of this server agreed to, or this one before its stream
    // broke.
    let mut agreed = desired.borrow().resources.clone();
    loop {
        let wanted = desired.borrow_and_update().resources.clone();
        if open
            .as_ref()
            .is_none_or(|stream| stream.resources != wanted)
        {
            let fresh = match lists.is_empty() && wanted.is_empty() {
                true => {
                    // Nothing is left to subscribe to; completes the wait of the last
                    // unsubscription.
                    note(&peer, &wanted, |_| Ok(()));
                    Ok(None)
                }
                // The old stream stays open until the new one is, so that no change is missed.
                false => open_stream(&peer, hello.revision, &lists, &wanted)
                    .await
                    .map(Some),
            };
            match fresh {
                Ok(fresh) => {
                    open = fresh;
                    report_lost(&peer, &mut agreed);
                    if std::mem::take(&mut missed_changes) {
                        // Changes between the streams were not reported. What is cached with a
                        // lifetime is still valid.
                        peer.receiver.list_changed.notify_one();
                    }
                }
                Err(fault) => {
                    missed_changes |= open.take().is_some();
                    if is_refusal(&fault) {
                        note(&peer, &wanted, |_| Err(fault.clone()));
                        report_lost(&peer, &mut agreed);
                    }
                    if !wait_after_fault(&fault, &mut delay, &mut desired).await {
                        return;
                    }
                    continue;
                }
            }
        }
        tokio::select! {
            ended = ended(&mut open) => {
                let lasted = open.take().is_some_and(|stream| stream.since.elapsed() > STABLE_AFTER);
                missed_changes = true;
                if lasted {
                    delay = INITIAL_DELAY;
                }
                match ended {
                    // A clean end; the server may expect a new request.
                    Ok(_) => wait_before_reopening(&mut delay, &mut desired).await,
                    Err(fault) => {
                        if !wait_after_fault(&fault, &mut delay, &mut desired).await {
                            return;
                        }
                    }
                }
            }
            changed = desired.changed() => {
                if changed.is_err() {
                    return;
                }
            }
        }
    }
}

/// Waits for the end of the stream, if one is open.
async fn ended(open: &mut Option<ListenStream<'_>>) -> RequestResult {
    match open {
        Some(stream) => Ok((&mut stream.response).await?),
        None => std::future::pending().await,
    }
}

/// Waits after a stream that failed. False when the session is over.
async fn wait_after_fault(
    fault: &RequestFault,
    delay: &mut Duration,
    desired: &mut watch::Receiver<DesiredSubscriptions>,
) -> bool {
    match fault {
        RequestFault::Closed(_) => false,
        // The server would refuse the same request again.
        fault if is_refusal(fault) => desired.changed().await.is_ok(),
        _ => {
            wait_before_reopening(delay, desired).await;
            true
        }
    }
}

/// Waits for the delay, or until the subscriptions change.
async fn wait_before_reopening(
    delay: &mut Duration,
    desired: &mut watch::Receiver<DesiredSubscriptions>,
) {
    // An error means that the session is over; the caller's loop handles it.
    let _ = timeout(*delay, desired.changed()).await;
    *delay = (*delay * 2).min(MAX_DELAY);
}

/// Whether the server refused; otherwise the stream broke.
fn is_refusal(fault: &RequestFault) -> bool {
    match fault {
        RequestFault::ErrorResponse { .. } | RequestFault::Invalid(_) => true,
        RequestFault::Transport(TransportFault::Status { status, .. }) => {
            (400..500).contains(status) && ![408, 429].contains(status)
        }
        _ => false,
    }
}

/// Opens a stream and waits for its acknowledgement.
async fn open_stream<'a>(
    peer: &'a Peer,
    revision: Revision,
    lists: &[&'static str],
    wanted: &BTreeSet<String>,
) -> Result<ListenStream<'a>, RequestFault> {
    let filter = filter(lists, wanted);
    let fields: [(&str, &[u8]); 1] = [("notifications", filter.as_bytes())];
    let request = super::request(revision, "subscriptions/listen", &fields);
    let mut response = peer.start(request)?;
    let status = &peer.receiver.subscription_status;
    let acknowledged = timeout(ACKNOWLEDGE_TIMEOUT, async {
        loop {
            let notified = status.acknowledging.notified();
            if let Some(acknowledged) = status.take_acknowledgement(response.id) {
                return Ok(acknowledged);
            }
            tokio::select! {
                () = notified => {}
                // The stream ended before its acknowledgement.
                result = &mut response => return Err(result.err()),
            }
        }
    });
    match acknowledged.await {
        Ok(Ok(acknowledged)) => agree(peer, lists, wanted, &acknowledged),
        Ok(Err(Some(fault))) => return Err(*fault),
        Ok(Err(None)) => {
            return Err(RequestFault::Transport(TransportFault::Lost(
                "the subscription ended at once".to_owned(),
            )));
        }
        // The server may report changes all the same, so the stream stays open.
        Err(_) => note(peer, wanted, |_| {
            Err(RequestFault::Invalid(format!(
                "the subscription was not acknowledged within {} s",
                ACKNOWLEDGE_TIMEOUT.as_secs()
            )))
        }),
    }
    Ok(ListenStream {
        response,
        resources: wanted.clone(),
        since: Instant::now(),
    })
}

/// Records what the server agreed to report: possibly less than was requested, never more.
fn agree(
    peer: &Peer,
    lists: &[&'static str],
    wanted: &BTreeSet<String>,
    acknowledged: &ListenAcknowledgement,
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
        peer.receiver
            .notice("it agreed to report changes that were not requested".to_owned());
    }
    note(peer, wanted, |uri| match agreed.contains(uri) {
        true => Ok(()),
        false => Err(RequestFault::NotSupported(
            "the server does not report changes of this resource".to_owned(),
        )),
    });
}

/// Replaces the outcomes by those of this stream.
fn note(
    peer: &Peer,
    wanted: &BTreeSet<String>,
    outcome: impl Fn(&str) -> Result<(), RequestFault>,
) {
    let status = &peer.receiver.subscription_status;
    let renewals = status.now().renewals;
    status.note(renewals, |outcomes| {
        outcomes.resources = wanted
            .iter()
            .map(|uri| (uri.clone(), outcome(uri)))
            .collect()
    });
}

/// Reports the subscriptions that the server no longer agrees to.
fn report_lost(peer: &Peer, agreed: &mut BTreeSet<String>) {
    for (uri, outcome) in peer.receiver.subscription_status.now().resources {
        match outcome {
            Ok(()) => drop(agreed.insert(uri)),
            Err(fault) if agreed.remove(&uri) => peer.receiver.lost_subscription(&uri, &fault),
            Err(_) => {}
        }
    }
}

/// A capability, its name in the filter, and its field in an acknowledgement.
type ListFilter = (
    &'static str,
    &'static str,
    fn(&ListenAcknowledgement) -> bool,
);

const LISTS: [ListFilter; 3] = [
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

/// The lists that may change, as the server declared.
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
