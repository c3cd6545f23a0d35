//! Pages that callers were sent to: a legacy server may say when what is done there is done, and
//! may want it done before a request.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::link::{Link, Request};
use super::ongoing::Ongoing;
use super::pending::Answer;
use super::questions::read_elicitation;
use super::{RequestFault, Still, tasks};
use crate::caller::{Caller, ElicitAnswer, ElicitationKind};
use crate::name::ServerName;
use crate::wire::RawJson;

/// 2025-11-25: a page must be visited before the request can be processed. It was not executed, so
/// it may be sent again.
const URL_ELICITATION_REQUIRED: i64 = -32042;

/// A request may want so many pages visited.
const MAX_PAGES: usize = 8;

/// So many visits are remembered; the oldest is forgotten first.
const MAX_OPEN: usize = 256;

/// A server need not say that a visit is done: after so long the request is sent again without its
/// word.
const DONE_WITHIN: Duration = Duration::from_secs(60);

/// The visits that are not known to be done, oldest first.
#[derive(Debug, Default)]
pub(super) struct Visits(Mutex<VecDeque<Visit>>);

struct Visit {
    /// The server's name for it.
    id: String,
    caller: Weak<dyn Caller>,
    /// Dropped with the visit: a request may hold the other end, and wait for that.
    _done: oneshot::Sender<()>,
}

impl std::fmt::Debug for Visit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Visit")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl Visits {
    fn open(&self) -> MutexGuard<'_, VecDeque<Visit>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The caller is about to be sent to a page. What comes back ends when it is done, or
    /// forgotten.
    pub(super) fn begin(&self, id: &str, caller: &Arc<dyn Caller>) -> oneshot::Receiver<()> {
        let (done, awaited) = oneshot::channel();
        let mut open = self.open();
        if open.len() >= MAX_OPEN {
            open.pop_front();
        }
        open.push_back(Visit {
            id: id.to_owned(),
            caller: Arc::downgrade(caller),
            _done: done,
        });
        awaited
    }

    /// The caller did not go.
    pub(super) fn forget(&self, id: &str, caller: &Arc<dyn Caller>) {
        self.open().retain(|visit| {
            visit.id != id || !std::ptr::addr_eq(visit.caller.as_ptr(), Arc::as_ptr(caller))
        });
    }

    /// The server says that it is done: whoever went there is told, and nobody else.
    pub(super) fn done(&self, server: &ServerName, id: &str) {
        let done: VecDeque<Visit> = {
            let mut open = self.open();
            let (done, others) = std::mem::take(&mut *open)
                .into_iter()
                .partition(|visit| visit.id == id);
            *open = others;
            done
        };
        for caller in done.iter().filter_map(|visit| visit.caller.upgrade()) {
            caller.notice(&format!(
                "server \"{server}\": what it asked for at its page is done"
            ));
        }
    }
}

/// Sends a legacy request. Where the server wants pages visited first, and the caller does that, it
/// is sent once more.
pub(super) async fn send(
    link: &Link,
    ongoing: &Arc<Ongoing>,
    request: &Request<'_>,
    still: Still<'_>,
) -> Answer {
    let answer = complete(link, ongoing, request, still).await;
    let pages = match &answer {
        Err(RequestFault::Answered {
            code: URL_ELICITATION_REQUIRED,
            data: Some(data),
            ..
        }) if link.receiver.options.offers.elicit_url => required(data),
        _ => None,
    };
    let Some(pages) = pages else { return answer };
    // Boxed, like all that few calls come to: a call's future is copied when it begins, with room
    // for the largest part.
    match Box::pin(visit(link, ongoing, pages)).await? {
        true => Box::pin(complete(link, ongoing, request, still)).await,
        false => answer,
    }
}

/// The answer, or what became of the task that was asked for.
async fn complete(
    link: &Link,
    ongoing: &Arc<Ongoing>,
    request: &Request<'_>,
    still: Still<'_>,
) -> Answer {
    if tasks::asks_for_a_task(request) {
        // Few calls are tasks, and what one takes should not make the others larger.
        return Box::pin(tasks::complete_legacy(link, ongoing, *request, still)).await;
    }
    link.request_for(ongoing, request, still).await
}

/// The pages, where the error is what it says it is.
fn required(data: &RawJson) -> Option<Vec<(ElicitationKind, String)>> {
    #[derive(Deserialize)]
    struct Wire<'a> {
        #[serde(borrow)]
        elicitations: Vec<&'a RawValue>,
    }
    let wire: Wire<'_> = data.decode().ok()?;
    if wire.elicitations.is_empty() || wire.elicitations.len() > MAX_PAGES {
        return None;
    }
    let page = |raw: &RawValue| match read_elicitation(&data.part(raw)).ok()? {
        ElicitationKind::Url { id: None, .. } | ElicitationKind::Form { .. } => None,
        ElicitationKind::Url {
            message,
            url,
            id: Some(id),
        } => Some((
            ElicitationKind::Url {
                message,
                url,
                id: Some(id.clone()),
            },
            id,
        )),
    };
    wire.elicitations.into_iter().map(page).collect()
}

/// Puts the pages to the caller, one after the other. True if each was accepted; then a while was
/// given to finish there.
async fn visit(
    link: &Link,
    ongoing: &Arc<Ongoing>,
    pages: Vec<(ElicitationKind, String)>,
) -> Result<bool, RequestFault> {
    let visits = &link.receiver.visits;
    let mut awaited = Vec::new();
    for (page, id) in pages {
        awaited.push(visits.begin(&id, &ongoing.caller));
        if !matches!(
            ongoing.elicit(page, ongoing.tool_id()).await,
            ElicitAnswer::Accept(_)
        ) {
            visits.forget(&id, &ongoing.caller);
            return Ok(false);
        }
    }
    let _asking = ongoing.asking();
    let all = async {
        for done in awaited {
            // An error means that it was done, or that nobody will say.
            let _ = done.await;
        }
    };
    let mut ended = link.receiver.ended.subscribe();
    tokio::select! {
        _ = timeout(DONE_WITHIN, all) => Ok(true),
        reason = ended.wait_for(Option::is_some) => {
            Err(RequestFault::Closed(reason.ok().and_then(|reason| reason.clone()).unwrap_or_default()))
        }
    }
}
