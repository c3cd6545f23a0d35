//! URL elicitations: the server may report when a visit is complete, and may require visits before
//! it processes a request.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::caller::{Caller, CallerId, ElicitationKind};
use crate::name::ServerName;
use crate::session::RequestFault;
use crate::session::elicitation::read_elicitation;
use crate::session::in_flight::InFlightCall;
use crate::session::peer::Peer;
use crate::sync::lock;
use crate::wire::RawJson;
use crate::wire::bounded::BoundedList;

/// The most pages that a request may require.
const MAX_PAGES: usize = 8;

/// The most visits that are remembered; the oldest is dropped first.
const MAX_OPEN: usize = 256;

/// A server need not report that a visit is complete: after this time the request is sent again.
const COMPLETION_TIMEOUT: Duration = Duration::from_secs(60);

/// The visits that are not known to be complete, oldest first.
#[derive(Debug, Default)]
pub(in crate::session) struct UrlElicitations(Mutex<VecDeque<OpenUrlElicitation>>);

struct OpenUrlElicitation {
    /// The server's id of the elicitation.
    id: String,
    caller: Weak<dyn Caller>,
    caller_id: CallerId,
    /// Dropped when the visit is complete. A request that waits for it holds the receiver.
    _complete: oneshot::Sender<()>,
}

impl std::fmt::Debug for OpenUrlElicitation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenUrlElicitation")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl UrlElicitations {
    fn open(&self) -> MutexGuard<'_, VecDeque<OpenUrlElicitation>> {
        lock(&self.0)
    }

    /// Records a visit before the caller is sent to the page. The receiver ends when the visit is
    /// complete or forgotten.
    pub(super) fn begin(&self, id: &str, caller: &Arc<dyn Caller>) -> oneshot::Receiver<()> {
        let (complete, awaited) = oneshot::channel();
        let mut open = self.open();
        if open.len() >= MAX_OPEN {
            open.pop_front();
        }
        open.push_back(OpenUrlElicitation {
            id: id.to_owned(),
            caller: Arc::downgrade(caller),
            caller_id: caller.id().clone(),
            _complete: complete,
        });
        awaited
    }

    /// Removes a visit that the caller declined.
    pub(super) fn forget(&self, id: &str, caller: &Arc<dyn Caller>) {
        self.open().retain(|visit| {
            visit.id != id || !std::ptr::addr_eq(visit.caller.as_ptr(), Arc::as_ptr(caller))
        });
    }

    /// Whether a visit with this id is not known to be complete.
    pub(in crate::session) fn contains(&self, id: &str) -> bool {
        self.open().iter().any(|visit| visit.id == id)
    }

    /// Completes a visit after the server's report, and notifies the callers who made it. Returns
    /// those whose call has ended.
    pub(in crate::session) fn complete(
        &self,
        server: &ServerName,
        id: &str,
        params: &RawJson,
    ) -> Vec<CallerId> {
        let complete: VecDeque<OpenUrlElicitation> = {
            let mut open = self.open();
            let (complete, others) = std::mem::take(&mut *open)
                .into_iter()
                .partition(|visit| visit.id == id);
            *open = others;
            complete
        };
        let mut gone = Vec::new();
        for visit in complete {
            let Some(caller) = visit.caller.upgrade() else {
                gone.push(visit.caller_id);
                continue;
            };
            caller.elicitation_complete(params);
            caller.notice(&format!(
                "server \"{server}\": the step on its page is complete"
            ));
        }
        gone
    }
}

/// Sends the caller to the pages that a request requires, in order, and waits for their completion.
/// False if the error's `data` names no pages, or the caller declined one.
pub(super) async fn visit_pages(
    peer: &Peer,
    call: &Arc<InFlightCall>,
    data: &RawJson,
) -> Result<bool, RequestFault> {
    let Some(pages) = required_pages(data) else {
        return Ok(false);
    };
    let visits = &peer.receiver.url_elicitations;
    let mut awaited = Vec::new();
    for (page, params, id) in pages {
        awaited.push(visits.begin(&id, call.caller()));
        let answer = call.elicit(page, params, call.tool_id()).await;
        if !answer.is_accepted() {
            visits.forget(&id, call.caller());
            return Ok(false);
        }
    }
    let _pause = call.pause_deadlines();
    let all = async {
        for complete in awaited {
            // An error means that the visit is complete or was forgotten.
            let _ = complete.await;
        }
    };
    tokio::select! {
        _ = timeout(COMPLETION_TIMEOUT, all) => Ok(true),
        reason = peer.receiver.end_reason() => Err(RequestFault::Closed(reason)),
    }
}

/// The pages that the error names.
fn required_pages(data: &RawJson) -> Option<Vec<(ElicitationKind, RawJson, String)>> {
    #[derive(Deserialize)]
    struct UrlElicitationRequired<'a> {
        #[serde(borrow)]
        elicitations: BoundedList<'a, MAX_PAGES>,
    }
    let required: UrlElicitationRequired<'_> = data.decode().ok()?;
    let elicitations = required.elicitations.elements().ok()?;
    if elicitations.is_empty() {
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
            data.part(raw),
            id,
        )),
    };
    elicitations.into_iter().map(page).collect()
}
