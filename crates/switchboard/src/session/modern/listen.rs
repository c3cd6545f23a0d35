//! Keeps a `subscriptions/listen` request open that matches the subscriptions: a modern server
//! reports changes only while there is one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::session::peer::{Peer, PendingResponse};
use crate::session::subscriptions::{DesiredSubscriptions, ListenAcknowledgement};
use crate::session::{Hello, RequestFault, Revision};
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

/// After so many refusals, what was not requested alone yet is not requested either.
const MAX_REFUSALS: usize = 64;

/// An open request and its parameters.
struct ListenStream<'a> {
    response: PendingResponse<'a>,
    resources: BTreeSet<String>,
    since: Instant,
}

/// Runs until the connection ends.
pub(super) async fn run(peer: Peer, hello: Hello) {
    let mut desired = peer.receiver.options.subscriptions.follow();
    let mut task = ListenTask {
        peer: &peer,
        revision: hello.revision,
        lists: changing_lists(&hello),
        open: None,
        followed: BTreeSet::new(),
        refused: BTreeMap::new(),
        agreed: desired.borrow().resources.clone(),
        missed_changes: false,
        delay: INITIAL_DELAY,
    };
    loop {
        let resources = desired.borrow_and_update().resources.clone();
        let ended = match task.follow(&resources).await {
            Err(fault) => Err(fault),
            Ok(()) => tokio::select! {
                ended = task.stream_end() => ended,
                changed = desired.changed() => match changed {
                    Ok(()) => continue,
                    Err(_) => return,
                },
            },
        };
        match ended {
            // A clean end; the server may expect a new request.
            Ok(()) => wait_before_reopening(&mut task.delay, &mut desired).await,
            Err(fault) => {
                if !wait_after_fault(&fault, &mut task.delay, &mut desired).await {
                    return;
                }
            }
        }
    }
}

/// The state of [`run`].
struct ListenTask<'a> {
    peer: &'a Peer,
    revision: Revision,
    /// The lists that may change.
    lists: Vec<&'static str>,
    open: Option<ListenStream<'a>>,
    /// The resources of the last [`follow`](Self::follow).
    followed: BTreeSet<String>,
    /// Resources for which the server refused a whole request: later requests leave them out.
    refused: BTreeMap<String, RequestFault>,
    /// Subscriptions that another session of this server agreed to, or this one before its stream
    /// broke.
    agreed: BTreeSet<String>,
    /// No stream was open for a while.
    missed_changes: bool,
    delay: Duration,
}

impl<'a> ListenTask<'a> {
    /// Has a stream open for these resources, except those that the server refuses. Which these are
    /// is found by halves: a refusal is of the whole request.
    async fn follow(&mut self, resources: &BTreeSet<String>) -> Result<(), RequestFault> {
        self.forget_outcomes(resources);
        let is_accepted = |uri: &&String| !self.refused.contains_key(*uri);
        let requested: BTreeSet<String> = resources.iter().filter(is_accepted).cloned().collect();
        if self.is_open_for(&requested) && self.has_outcomes(&requested) {
            return Ok(());
        }
        let open = self.open.as_ref().map(|stream| &stream.resources);
        let mut accepted = open.map_or_else(BTreeSet::new, |open| open & &requested);
        let mut groups = vec![&requested - &accepted];
        let mut refusals = 0;
        while let Some(mut group) = groups.pop() {
            let Err(fault) = self.reopen(&(&accepted | &group)).await else {
                accepted.append(&mut group);
                continue;
            };
            let is_only = group == requested && self.lists.is_empty();
            if !is_refusal(&fault) || group.is_empty() || is_only && group.len() == 1 {
                return Err(self.give_up(&requested, fault));
            }
            refusals += 1;
            if group.len() == 1 || refusals > MAX_REFUSALS {
                self.note_refused(group, &fault);
                self.report_lost();
            } else {
                let middle = group.iter().nth(group.len() / 2).cloned();
                let second = middle.map(|middle| group.split_off(&middle));
                groups.extend(second);
                groups.push(group);
            }
        }
        if !self.is_open_for(&accepted)
            && let Err(fault) = self.reopen(&accepted).await
        {
            return Err(self.give_up(&accepted, fault));
        }
        Ok(())
    }

    /// What was refused is requested again when the subscriptions change, or when somebody
    /// subscribes to it again.
    fn forget_outcomes(&mut self, resources: &BTreeSet<String>) {
        if self.followed != *resources {
            self.followed.clone_from(resources);
            self.refused.clear();
        }
        let outcomes = self.peer.receiver.subscription_status.now().resources;
        let is_refused = |uri: &String| matches!(outcomes.get(uri), Some(Err(_)));
        self.refused.retain(|uri, _| is_refused(uri));
        if outcomes.keys().any(|uri| !resources.contains(uri)) {
            self.note_outcomes(|outcomes| outcomes.retain(|uri, _| resources.contains(uri)));
        }
    }

    fn has_outcomes(&self, resources: &BTreeSet<String>) -> bool {
        let outcomes = self.peer.receiver.subscription_status.now().resources;
        resources.iter().all(|uri| outcomes.contains_key(uri))
    }

    fn is_open_for(&self, resources: &BTreeSet<String>) -> bool {
        let stream = self.open.as_ref();
        stream.is_some_and(|stream| stream.resources == *resources)
    }

    /// No stream can be opened now.
    fn give_up(&mut self, requested: &BTreeSet<String>, fault: RequestFault) -> RequestFault {
        self.missed_changes |= self.open.take().is_some();
        if is_refusal(&fault) {
            self.note(requested, |_| Err(fault.clone()));
            self.report_lost();
        }
        fault
    }

    /// Replaces the stream. The old one stays open until the new one is, so that no change is
    /// missed.
    async fn reopen(&mut self, requested: &BTreeSet<String>) -> Result<(), RequestFault> {
        self.open = match self.lists.is_empty() && requested.is_empty() {
            // Nothing is left to subscribe to. Completes the wait of the last unsubscription.
            true => {
                self.note(requested, |_| Ok(()));
                None
            }
            false => Some(self.open_stream(requested).await?),
        };
        self.report_lost();
        if std::mem::take(&mut self.missed_changes) {
            // Changes between the streams were not reported. What is cached with a lifetime is
            // still valid.
            self.peer.receiver.list_changed.notify_one();
        }
        Ok(())
    }

    /// Waits for the end of the stream, if one is open. Cancel-safe.
    async fn stream_end(&mut self) -> Result<(), RequestFault> {
        let ended = match &mut self.open {
            Some(stream) => (&mut stream.response).await,
            None => std::future::pending().await,
        };
        let stream = self.open.take();
        if stream.is_some_and(|stream| stream.since.elapsed() > STABLE_AFTER) {
            self.delay = INITIAL_DELAY;
        }
        self.missed_changes = true;
        match ended {
            Ok(_) => Ok(()),
            Err(fault) => Err(*fault),
        }
    }

    /// Opens a stream and waits for its acknowledgement.
    async fn open_stream(
        &mut self,
        requested: &BTreeSet<String>,
    ) -> Result<ListenStream<'a>, RequestFault> {
        let peer = self.peer;
        let filter = filter(&self.lists, requested);
        let fields: [(&str, &[u8]); 1] = [("notifications", filter.as_bytes())];
        let request = super::request(self.revision, "subscriptions/listen", &fields);
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
            Ok(Ok(acknowledged)) => self.agree(requested, &acknowledged),
            Ok(Err(Some(fault))) => return Err(*fault),
            Ok(Err(None)) => {
                return Err(RequestFault::Transport(TransportFault::Lost(
                    "the subscription ended at once".to_owned(),
                )));
            }
            // The server may report changes all the same, so the stream stays open.
            Err(_) => self.note(requested, |_| {
                Err(RequestFault::Invalid(format!(
                    "the subscription was not acknowledged within {} s",
                    ACKNOWLEDGE_TIMEOUT.as_secs()
                )))
            }),
        }
        Ok(ListenStream {
            response,
            resources: requested.clone(),
            since: Instant::now(),
        })
    }

    /// Records what the server agreed to report: possibly less than was requested, never more.
    fn agree(&self, requested: &BTreeSet<String>, acknowledged: &ListenAcknowledgement) {
        let agreed: BTreeSet<&str> = acknowledged
            .resource_subscriptions
            .iter()
            .map(String::as_str)
            .collect();
        let more = agreed.iter().any(|uri| !requested.contains(*uri))
            || LISTS
                .iter()
                .any(|(_, name, is_agreed)| is_agreed(acknowledged) && !self.lists.contains(name));
        if more {
            let notice = "it agreed to report changes that were not requested";
            self.peer.receiver.notice(notice.to_owned());
        }
        self.note(requested, |uri| match agreed.contains(uri) {
            true => Ok(()),
            false => Err(RequestFault::NotSupported(
                "the server does not report changes of this resource".to_owned(),
            )),
        });
    }

    /// Replaces the outcomes by those of a request, and of what it left out.
    fn note(
        &self,
        requested: &BTreeSet<String>,
        outcome: impl Fn(&str) -> Result<(), RequestFault>,
    ) {
        self.note_outcomes(|outcomes| {
            let refused = self.refused.iter();
            *outcomes = refused
                .map(|(uri, fault)| (uri.clone(), Err(fault.clone())))
                .chain(requested.iter().map(|uri| (uri.clone(), outcome(uri))))
                .collect();
        });
    }

    /// Leaves resources out of later requests.
    fn note_refused(&mut self, uris: BTreeSet<String>, fault: &RequestFault) {
        self.note_outcomes(|outcomes| {
            outcomes.extend(uris.iter().map(|uri| (uri.clone(), Err(fault.clone()))));
        });
        let refused = uris.into_iter().map(|uri| (uri, fault.clone()));
        self.refused.extend(refused);
    }

    fn note_outcomes(&self, change: impl FnOnce(&mut BTreeMap<String, Result<(), RequestFault>>)) {
        let status = &self.peer.receiver.subscription_status;
        let renewals = status.now().renewals;
        status.note(renewals, |outcomes| change(&mut outcomes.resources));
    }

    /// Reports the subscriptions that the server no longer agrees to.
    fn report_lost(&mut self) {
        let receiver = &self.peer.receiver;
        for (uri, outcome) in receiver.subscription_status.now().resources {
            match outcome {
                Ok(()) => drop(self.agreed.insert(uri)),
                Err(fault) if self.agreed.remove(&uri) => receiver.lost_subscription(&uri, &fault),
                Err(_) => {}
            }
        }
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
