//! The tasks of 2025-11-25, an experiment of that revision: we ask for a task where a tool can be
//! called in no other way.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::state::Task;
use super::table::Followed;
use super::{Following, GRACE, Tasks, cancel};
use crate::catalog::Tool;
use crate::session::link::{Link, Request};
use crate::session::ongoing::{ANSWER_TIMEOUT, Ongoing};
use crate::session::pending::Answer;
use crate::session::{Era, RequestFault, Still};
use crate::wire::RawJson;

/// The member of `params` that asks for a task.
pub(in crate::session) const ASKS_FOR_A_TASK: &str = "task";

impl Tasks {
    /// What a call of this tool says to become a task, where it must be one. A tool that can be
    /// called either way is called directly: that is one answer instead of several, with the
    /// same progress.
    pub(in crate::session) fn wanted_by(&self, tool: &Tool, ongoing: &Ongoing) -> Option<RawJson> {
        let ttl = ongoing.clock.longest() + ANSWER_TIMEOUT;
        let is_wanted = tool.definition.is_task && self.may_be_asked_for();
        is_wanted.then(|| RawJson::from_value(&json!({"ttl": ttl.as_millis() as u64})))
    }
}

/// Whether this request asks for a task.
pub(in crate::session) fn is_task(request: &Request<'_>) -> bool {
    request.era == Era::Legacy
        && request
            .fields
            .iter()
            .any(|(key, _)| *key == ASKS_FOR_A_TASK)
}

/// Sends a request that asks for a task, and follows the task to its end.
pub(in crate::session) async fn complete(
    link: &Link,
    ongoing: &Arc<Ongoing>,
    request: Request<'_>,
    still: Still<'_>,
) -> Answer {
    let (id, reply) = link.send_for(ongoing, request, still).await?;
    let mut creating = Creating {
        link,
        id,
        reply: Some(reply),
        followed: link.receiver.tasks.add(Some(id), ongoing),
    };
    let result = creating.answer().await?;
    match created(&result)? {
        Some(task) => {
            Following::begin(link, Era::Legacy, "", creating.followed.clone(), &task)
                .watch_to_the_end(task)
                .await
        }
        // It had the result at once.
        None => Ok(result),
    }
}

/// The task in an answer, where it is one.
fn created(result: &RawJson) -> Result<Option<Task>, RequestFault> {
    #[derive(Deserialize)]
    struct Wire<'a> {
        #[serde(borrow, default)]
        task: Option<&'a RawValue>,
    }
    let wire: Wire<'_> = result
        .decode()
        .map_err(|fault| RequestFault::Invalid(fault.to_string()))?;
    wire.task
        .map(|task| Task::read(&result.part(task)))
        .transpose()
}

/// A task that is being created. Such a request is not cancelled by a notification: where the
/// caller goes away meanwhile, the answer is waited for, and the task that it brings is cancelled.
struct Creating<'a> {
    link: &'a Link,
    id: u64,
    /// Taken by the answer.
    reply: Option<oneshot::Receiver<Answer>>,
    followed: Arc<Followed>,
}

impl Creating<'_> {
    async fn answer(&mut self) -> Answer {
        let Some(reply) = &mut self.reply else {
            return Err(RequestFault::Invalid("asked twice".into()));
        };
        let answer = reply.await;
        self.reply = None;
        answer.unwrap_or_else(|_| Err(RequestFault::Closed("the session was dropped".into())))
    }
}

impl Drop for Creating<'_> {
    fn drop(&mut self) {
        let (link, id) = (self.link.clone(), self.id);
        link.receiver.tasks.remove(&self.followed);
        link.receiver.over(id);
        let Some(reply) = self.reply.take() else {
            return;
        };
        // Nobody is there to be asked any more.
        link.receiver.pending.disown(id);
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        // Ends with the answer, with the connection, or after the grace.
        runtime.spawn(async move {
            match timeout(GRACE, reply).await {
                Ok(Ok(Ok(result))) => {
                    if let Ok(Some(task)) = created(&result) {
                        cancel(&link, Era::Legacy, "", &task.id);
                    }
                }
                Ok(_) => {}
                Err(_) => {
                    link.receiver.pending.give_up(id);
                }
            }
        });
    }
}
