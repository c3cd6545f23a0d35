//! One run of the tool `errand`: works in steps, can ask a question in the middle, and ends as its
//! arguments say.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use super::POLL_INTERVAL;
use crate::rpc::Fault;

/// The key of its one question.
pub(super) const QUESTION: &str = "name";

/// The arguments of the tool.
#[derive(Debug, Clone, Deserialize)]
#[serde(default)]
pub(super) struct Arguments {
    seconds: f64,
    steps: u32,
    pub(super) ask: bool,
    end: End,
}

/// How it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum End {
    /// With a result.
    Done,
    /// With an error of the protocol.
    Fail,
    /// The server cancels it.
    Cancel,
    /// The server forgets it.
    Forget,
}

impl Default for Arguments {
    fn default() -> Self {
        Self {
            seconds: 1.0,
            steps: 4,
            ask: false,
            end: End::Done,
        }
    }
}

impl Arguments {
    pub(super) fn fault(&self) -> Option<&'static str> {
        match self {
            Self { seconds, .. } if !(0.0..=3600.0).contains(seconds) => {
                Some("seconds must be from 0 to 3600")
            }
            Self { steps: 0, .. } => Some("steps must be at least 1"),
            _ => None,
        }
    }
}

/// The protocol's status of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Working,
    InputRequired,
    Completed,
    Failed,
    Cancelled,
}

impl Status {
    fn name(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::InputRequired => "input_required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    pub(super) fn is_end(self) -> bool {
        !matches!(self, Self::Working | Self::InputRequired)
    }
}

/// The current state of a task.
#[derive(Debug, Clone)]
pub(super) struct State {
    pub(super) status: Status,
    pub(super) message: String,
    /// The answer to its question.
    answer: Option<Value>,
    pub(super) outcome: Option<Result<Value, Fault>>,
    updated: SystemTime,
    /// Whether it was removed from the table.
    is_forgotten: bool,
}

/// One task. All access goes through its state.
#[derive(Debug)]
pub(super) struct Errand {
    id: String,
    created: SystemTime,
    time_to_live: Duration,
    state: watch::Sender<State>,
}

impl Errand {
    pub(super) fn new(id: String, time_to_live: Duration) -> Self {
        let created = SystemTime::now();
        let state = State {
            status: Status::Working,
            message: "on its way".to_owned(),
            answer: None,
            outcome: None,
            updated: created,
            is_forgotten: false,
        };
        Self {
            id,
            created,
            time_to_live,
            state: watch::Sender::new(state),
        }
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn is_kept(&self, now: SystemTime) -> bool {
        !self.state.borrow().is_forgotten && now < self.created + self.time_to_live
    }

    pub(super) fn watch(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    /// Answers its question, if it asks one.
    pub(super) fn answer(&self, answer: Value) {
        self.change(|state| {
            if state.status == Status::InputRequired {
                (state.status, state.answer, state.message) =
                    (Status::Working, Some(answer), "answered".to_owned());
            }
        });
    }

    /// Cancels it; false if it had ended already.
    pub(super) fn cancel(&self, why: &str) -> bool {
        self.change(|state| (state.status, state.message) = (Status::Cancelled, why.to_owned()))
    }

    /// Changes the state, unless the task has ended.
    fn change(&self, change: impl FnOnce(&mut State)) -> bool {
        self.state.send_if_modified(|state| {
            let is_open = !state.status.is_end();
            if is_open {
                change(state);
                state.updated = SystemTime::now();
            }
            is_open
        })
    }

    /// The task object of either era.
    pub(super) fn as_value(&self, is_modern: bool) -> Value {
        let state = self.state.borrow().clone();
        let mut task = json!({
            "taskId": self.id,
            "status": state.status.name(),
            "statusMessage": state.message,
            "createdAt": timestamp(self.created),
            "lastUpdatedAt": timestamp(state.updated),
        });
        let (time_to_live, poll_interval) = (
            json!(self.time_to_live.as_millis() as u64),
            json!(POLL_INTERVAL.as_millis() as u64),
        );
        if !is_modern {
            (task["ttl"], task["pollInterval"]) = (time_to_live, poll_interval);
            return task;
        }
        (task["ttlMs"], task["pollIntervalMs"]) = (time_to_live, poll_interval);
        if state.status == Status::InputRequired {
            let mut params = question();
            params["mode"] = json!("form");
            task["inputRequests"] =
                json!({QUESTION: {"method": "elicitation/create", "params": params}});
        }
        match state.outcome {
            Some(Ok(result)) => task["result"] = result,
            Some(Err(fault)) => task["error"] = fault.as_value(),
            None => {}
        }
        task
    }
}

/// The question.
pub(super) fn question() -> Value {
    let name = json!({"type": "string", "title": "Name", "minLength": 1});
    json!({"message": "Whose errand is it?", "requestedSchema": {"type": "object", "properties": {"name": name}, "required": ["name"]}})
}

/// Runs the task.
pub(super) async fn run(errand: Arc<Errand>, arguments: Arguments) {
    let mut state = errand.watch();
    let worked = async {
        let Arguments {
            seconds,
            steps,
            ask,
            ..
        } = arguments;
        let mut begin = Instant::now();
        let mut name = None;
        for step in 1..=steps {
            tokio::time::sleep_until(
                begin + Duration::from_secs_f64(seconds * f64::from(step) / f64::from(steps)),
            )
            .await;
            errand.change(|state| state.message = format!("step {step} of {steps}"));
            if ask && step == steps.div_ceil(2) {
                errand.change(|state| {
                    (state.status, state.message) =
                        (Status::InputRequired, "whose is it?".to_owned())
                });
                let asked = Instant::now();
                let mut answers = errand.watch();
                let answered = answers.wait_for(|state| state.answer.is_some()).await;
                name = Some(answered.map_or(Value::Null, |state| {
                    state.answer.clone().unwrap_or_default()
                }));
                begin += asked.elapsed();
            }
        }
        let whose = name.map_or_else(String::new, |answer| {
            match answer["content"]["name"].as_str() {
                Some(name) => format!(" for {name}"),
                None => format!(
                    " for nobody ({})",
                    answer["action"].as_str().unwrap_or("no answer")
                ),
            }
        });
        format!("ran for {seconds} s in {steps} steps{whose}")
    };
    tokio::select! {
        biased;
        _ = state.wait_for(|state| state.status.is_end()) => {}
        words = worked => errand.finish(arguments.end, &words),
    }
}

impl Errand {
    fn finish(&self, end: End, words: &str) {
        let result = json!({"content": [{"type": "text", "text": words}]});
        self.change(|state| match end {
            End::Done => {
                (state.status, state.message, state.outcome) =
                    (Status::Completed, "done".to_owned(), Some(Ok(result)))
            }
            End::Fail => {
                let fault = Fault::internal("the errand came to nothing");
                (state.status, state.message, state.outcome) =
                    (Status::Failed, "out of luck".to_owned(), Some(Err(fault)));
            }
            End::Cancel => {
                (state.status, state.message) =
                    (Status::Cancelled, "somebody else did it".to_owned())
            }
            End::Forget => state.is_forgotten = true,
        });
    }
}

/// ISO 8601, in UTC, to the millisecond.
fn timestamp(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, seconds) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    // Years are counted from March, in spans of 400 years, so that the leap day is the last.
    let shifted = days + 719_468;
    let (span, day_of_span) = (shifted / 146_097, shifted % 146_097);
    let year_of_span =
        (day_of_span - day_of_span / 1_460 + day_of_span / 36_524 - day_of_span / 146_096) / 365;
    let day_of_year = day_of_span - (365 * year_of_span + year_of_span / 4 - year_of_span / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = span * 400 + year_of_span + u64::from(month <= 2);
    let (hour, minute, second, millisecond) = (
        seconds / 3_600,
        seconds / 60 % 60,
        seconds % 60,
        since.subsec_millis(),
    );
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millisecond:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_formatted_as_calendar_dates() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399, "2000-02-28T23:59:59.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
            (1_785_196_800, "2026-07-28T00:00:00.000Z"),
        ] {
            assert_eq!(timestamp(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }
}
