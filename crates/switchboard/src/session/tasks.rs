//! A call whose answer is a task, followed to its end: polled, told of as progress, given the input
//! it asks for, cancelled when nobody waits.
//!
//! There are two kinds: the experiment of 2025-11-25 ([`legacy`]), where we ask for a task and its
//! result is fetched; and the modern extension, where the server answers with one when it likes and
//! its result comes with its state. Both live within the call's deadlines.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use self::state::{Status, Task};
use self::table::Followed;
use super::clock::Verdict;
use super::envelope::{self, Field};
use super::link::{Link, Request, Waiting};
use super::ongoing::Ongoing;
use super::pending::Answer;
use super::receiver::read_error;
use super::rounds::Rounds;
use super::{Era, RequestFault};
use crate::transport::WireFault;
use crate::untrusted::Untrusted;
use crate::wire::RawJson;

/// The tasks of 2025-11-25: asked for by us.
mod legacy;

/// What a server says of a task, in either kind.
mod state;

/// The tasks that are followed now, so that what the server says of them finds them.
mod table;

pub(super) use legacy::{ASKS_FOR_A_TASK, complete as complete_legacy, is_task as asks_for_a_task};
pub(super) use table::{Tasks, in_answer, in_raw_answer};

/// What we declare for the modern kind.
pub(super) const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// However often a server says that something changed, it is not asked more often than this.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);

/// However long a server wants to be left alone, it is asked by then.
const LONGEST_INTERVAL: Duration = Duration::from_secs(30);

/// Where the server names no interval.
const USUAL_INTERVAL: Duration = Duration::from_secs(1);

/// Where polls are this far apart, a modern server is asked to tell of changes, too.
const LISTEN_FROM: Duration = Duration::from_secs(5);

/// So many tasks may have a request standing for that: it takes one of the places that polls need.
const MAX_LISTENING: usize = 32;

/// How long the acknowledgement of a cancellation is waited for.
const GRACE: Duration = Duration::from_secs(10);

/// A poll that is lost on the wire is made again, so many times in a row: it only reads.
const MAX_LOST: u32 = 3;

/// A task that asks more often than this does not come to an end.
const MAX_QUESTIONS: usize = 64;

/// No such task: never there, or no longer.
const INVALID_PARAMS: i64 = -32602;

/// Follows the task that a modern server answered with; the final result, byte for byte.
pub(super) async fn follow(
    link: &Link,
    ongoing: &Arc<Ongoing>,
    declared: &str,
    created: &RawJson,
) -> Answer {
    let task = Task::read(created)?;
    let followed = link.receiver.tasks.add(None, ongoing);
    Following::begin(link, Era::Modern, declared, followed, &task)
        .watch_to_the_end(task)
        .await
}

/// One task while its call waits for it. Dropping it before its end tells the server to cancel it.
struct Following<'a> {
    link: &'a Link,
    era: Era,
    declared: &'a str,
    followed: Arc<Followed>,
    id: String,
    id_json: Vec<u8>,
    /// The last status message that was told to the caller.
    told: Option<String>,
    /// How many were.
    count: u32,
    /// Keys of the questions that were answered; a server may go on showing them for a while.
    answered: HashSet<String>,
    /// Nothing is left to cancel.
    is_over: bool,
}

impl<'a> Following<'a> {
    fn begin(
        link: &'a Link,
        era: Era,
        declared: &'a str,
        followed: Arc<Followed>,
        task: &Task,
    ) -> Self {
        followed.created(&task.id);
        Self {
            link,
            era,
            declared,
            followed,
            id: task.id.clone(),
            id_json: envelope::string(&task.id),
            told: None,
            count: 0,
            answered: HashSet::new(),
            is_over: false,
        }
    }

    async fn watch_to_the_end(mut self, mut task: Task) -> Answer {
        let id_json = self.id_json.clone();
        let _listening = self.listen(&task, &id_json);
        let mut lost = 0;
        loop {
            self.notice(&task);
            let is_wanted = task.status.is_end() || task.status == Status::InputRequired;
            let outcome = match self.era {
                Era::Modern if task.status == Status::InputRequired => {
                    self.answer_questions(&task).await.map(|()| None)
                }
                Era::Modern if task.status.is_end() => return self.ended(&task),
                Era::Legacy if task.status == Status::Cancelled => return Err(cancelled(&task)),
                Era::Legacy if is_wanted => self.fetch(&task).await.map(Some),
                _ => Ok(None),
            };
            match outcome {
                Ok(Some(result)) => {
                    self.is_over = true;
                    return Ok(result);
                }
                Ok(None) => {}
                Err(fault) if is_lost(&fault) && lost < MAX_LOST => lost += 1,
                Err(fault) => return Err(fault),
            }
            task = self.next(task.interval).await?;
        }
    }

    /// Tells the caller what the server says of the task, where that is something new.
    fn notice(&mut self, task: &Task) {
        self.is_over |= task.status.is_end();
        let Some(message) = &task.message else { return };
        if self.told.as_ref() != Some(message) {
            self.count += 1;
            self.followed.tell(
                self.count,
                self.link.receiver.options.redactor.words(message),
            );
            self.told = Some(message.clone());
        }
    }

    /// The state after a while, or earlier where the server says that it changed.
    async fn next(&mut self, interval: Duration) -> Result<Task, RequestFault> {
        let mut lost = 0;
        loop {
            self.pause(interval).await?;
            match self
                .request("tasks/get", &[("taskId", &self.id_json)])
                .await
            {
                Ok(state) => {
                    // An answer is a sign of life, of a task that takes long as of any other. The
                    // total is not touched by it.
                    self.followed.ongoing.clock.touch(Instant::now());
                    let task = Task::read(&state)?;
                    if task.id != self.id {
                        return Err(RequestFault::Invalid(
                            "the state of another task than the one that was asked for".into(),
                        ));
                    }
                    return Ok(task);
                }
                Err(RequestFault::Answered {
                    code: INVALID_PARAMS,
                    message,
                    ..
                }) => {
                    self.is_over = true;
                    return Err(RequestFault::Task(format!(
                        "the task is gone before its result came: {message}; a server keeps a task only for its time to live"
                    )));
                }
                Err(fault) if is_lost(&fault) && lost < MAX_LOST => lost += 1,
                Err(fault) => return Err(fault),
            }
        }
    }

    /// Asks the caller what the task asks, and gives the answers to the server.
    async fn answer_questions(&mut self, task: &Task) -> Result<(), RequestFault> {
        let questions: Vec<(String, RawJson)> = task
            .questions
            .iter()
            .filter(|(key, _)| !self.answered.contains(key))
            .cloned()
            .collect();
        if questions.is_empty() {
            return Ok(());
        }
        if self.answered.len() + questions.len() > MAX_QUESTIONS {
            return Err(RequestFault::Invalid(format!(
                "the task asked {MAX_QUESTIONS} times and came to no end"
            )));
        }
        let responses = Rounds::of(self.link, &self.followed.ongoing)
            .answer(&questions)
            .await?;
        let keys: Vec<String> = questions.into_iter().map(|(key, _)| key).collect();
        let mut lost = 0;
        loop {
            // It may be sent again: what is answered already is ignored.
            match self
                .request(
                    "tasks/update",
                    &[("taskId", &self.id_json), ("inputResponses", &responses)],
                )
                .await
            {
                Ok(_) => break,
                Err(fault) if is_lost(&fault) && lost < MAX_LOST => lost += 1,
                Err(fault) => return Err(fault),
            }
            self.pause(SHORTEST_INTERVAL).await?;
        }
        self.answered.extend(keys);
        Ok(())
    }

    /// What a modern task came to.
    fn ended(&self, task: &Task) -> Answer {
        match (task.status, &task.result, &task.error) {
            (Status::Completed, Some(result), _) => Ok(result.clone()),
            (Status::Completed, None, _) => Err(RequestFault::Invalid(
                "a completed task without its result".into(),
            )),
            (Status::Failed, _, Some(error)) => Err(read_error(error)),
            (Status::Failed, _, None) => Err(RequestFault::Task(format!(
                "the task failed{}",
                task.words()
            ))),
            _ => Err(cancelled(task)),
        }
    }

    /// The result of a legacy task. Where it has not ended, the server's questions come meanwhile,
    /// and its state is watched.
    async fn fetch(&mut self, task: &Task) -> Answer {
        let (link, ongoing, id_json) = (
            self.link,
            self.followed.ongoing.clone(),
            self.id_json.clone(),
        );
        let fields: [Field<'_>; 1] = [("taskId", &id_json)];
        let request = Request::new(Era::Legacy, "tasks/result", &fields);
        let mut result = pin!(link.request_for(&ongoing, &request, &|| true));
        let (mut is_end, mut interval, mut words) =
            (task.status.is_end(), task.interval, task.message.clone());
        let answer = loop {
            tokio::select! {
                biased;
                answer = &mut result => break answer,
                next = self.next(interval), if !is_end => {
                    let next = next?;
                    self.notice(&next);
                    (is_end, interval, words) = (next.status.is_end(), next.interval, next.message);
                }
            }
        };
        match (answer, words) {
            // The error says what went wrong inside; what the server says of the task may say it
            // better.
            (
                Err(RequestFault::Answered {
                    code,
                    message,
                    data,
                }),
                Some(words),
            ) if is_end && !message.contains(&words) => {
                let words = Untrusted::new(words).for_terminal_line().to_string();
                Err(RequestFault::Answered {
                    code,
                    message: format!("{message} (of the task: {words})"),
                    data,
                })
            }
            (answer, _) => answer,
        }
    }

    async fn request(&self, method: &str, fields: &[Field<'_>]) -> Answer {
        // The task runs already: this sends no call.
        self.link
            .request_for(
                &self.followed.ongoing,
                &self.as_request(method, fields),
                &|| true,
            )
            .await
    }

    fn as_request<'b>(&'b self, method: &'b str, fields: &'b [Field<'b>]) -> Request<'b> {
        Request {
            declared: self.declared,
            name: Some(&self.id),
            ..Request::new(self.era, method, fields)
        }
    }

    /// Asks a modern server to tell of changes, where polls are far apart. That it may refuse.
    fn listen(&self, task: &Task, id_json: &[u8]) -> Option<Waiting<'a>> {
        if self.era == Era::Legacy || task.interval < LISTEN_FROM || task.status.is_end() {
            return None;
        }
        if self.link.receiver.tasks.count() > MAX_LISTENING {
            return None;
        }
        let filter = [br#"{"taskIds":["#, id_json, b"]}"].concat();
        let fields: [Field<'_>; 1] = [("notifications", &filter)];
        let request = Request {
            declared: self.declared,
            ..Request::new(Era::Modern, "subscriptions/listen", &fields)
        };
        self.link.post(request, None).ok()
    }

    /// Waits until the next poll: for the interval, or until the server tells of a change.
    async fn pause(&self, interval: Duration) -> Result<(), RequestFault> {
        self.rest(SHORTEST_INTERVAL).await?;
        tokio::select! {
            outcome = self.rest(interval.saturating_sub(SHORTEST_INTERVAL)) => outcome,
            () = self.followed.changed.notified() => Ok(()),
        }
    }

    /// Waits within the call's deadlines, and no longer than the connection lives.
    async fn rest(&self, time: Duration) -> Result<(), RequestFault> {
        let until = Instant::now() + time;
        let mut ended = self.link.receiver.ended.subscribe();
        loop {
            let now = Instant::now();
            let look = match self.followed.ongoing.clock.judge(now) {
                Verdict::Wait(look) => look,
                Verdict::Late(fault) => return Err(fault),
            };
            if now >= until {
                return Ok(());
            }
            let end = async {
                ended
                    .wait_for(Option::is_some)
                    .await
                    .map(|reason| reason.clone().unwrap_or_default())
            };
            tokio::select! {
                () = sleep_until(until.min(look)) => {}
                reason = end => return Err(RequestFault::Closed(reason.unwrap_or_default())),
            }
        }
    }
}

impl Drop for Following<'_> {
    fn drop(&mut self) {
        self.link.receiver.tasks.remove(&self.followed);
        if let Some(request) = self.followed.request {
            self.link.receiver.over(request);
        }
        if !self.is_over {
            cancel(self.link, self.era, self.declared, &self.id);
        }
    }
}

/// Tells the server that nobody waits for the task any more, where it can be told.
fn cancel(link: &Link, era: Era, declared: &str, id: &str) {
    if era == Era::Modern || link.receiver.tasks.can_cancel() {
        let id_json = envelope::string(id);
        let fields: [Field<'_>; 1] = [("taskId", &id_json)];
        link.tell(
            Request {
                declared,
                name: Some(id),
                ..Request::new(era, "tasks/cancel", &fields)
            },
            GRACE,
        );
    }
}

fn cancelled(task: &Task) -> RequestFault {
    RequestFault::Task(format!("the server cancelled the task{}", task.words()))
}

/// The wire brought no answer, and reading once more does no harm.
fn is_lost(fault: &RequestFault) -> bool {
    matches!(
        fault,
        RequestFault::Wire(WireFault::NotSent(_) | WireFault::Lost(_))
    )
}
