//! The state of a task as the server reports it, for both kinds, which differ little in spelling.

use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{LONGEST_INTERVAL, SHORTEST_INTERVAL, USUAL_INTERVAL};
use crate::session::RequestFault;
use crate::session::result_kind::{MAX_REQUESTS, input_requests};
use crate::untrusted::Untrusted;
use crate::wire::RawJson;
use crate::wire::bounded::BoundedMap;

/// The status of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::session) enum TaskStatus {
    Working,
    InputRequired,
    Completed,
    Failed,
    Cancelled,
}

impl TaskStatus {
    /// Whether this status is final.
    pub(in crate::session) fn is_end(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// A task at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::session) struct TaskState {
    pub(in crate::session) id: String,
    pub(in crate::session) status: TaskStatus,
    /// The server's status message.
    pub(in crate::session) message: Option<String>,
    /// The polling interval, within our bounds.
    pub(in crate::session) interval: Duration,
    /// The result of a completed modern task.
    pub(in crate::session) result: Option<RawJson>,
    /// The error of a failed modern task.
    pub(in crate::session) error: Option<RawJson>,
    /// The input that a modern task requires now, by key.
    pub(in crate::session) input_requests: Vec<(String, RawJson)>,
}

impl TaskState {
    pub(in crate::session) fn read(raw: &RawJson) -> Result<Self, RequestFault> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct TaskFields<'a> {
            task_id: String,
            status: TaskStatus,
            #[serde(borrow, default)]
            status_message: Option<&'a RawValue>,
            /// The modern kind has the unit in the name.
            #[serde(borrow, default, alias = "pollIntervalMs")]
            poll_interval: Option<&'a RawValue>,
            #[serde(borrow, default)]
            result: Option<&'a RawValue>,
            #[serde(borrow, default)]
            error: Option<&'a RawValue>,
            #[serde(borrow, default)]
            input_requests: Option<BoundedMap<'a, MAX_REQUESTS>>,
        }
        let read: TaskFields<'_> = raw
            .decode()
            .map_err(|fault| RequestFault::Invalid(format!("a task: {fault}")))?;
        if read.task_id.is_empty() {
            return Err(RequestFault::Invalid("a task without an id".into()));
        }
        // These two may be malformed: the task can be followed without them.
        let message = read
            .status_message
            .and_then(|message| serde_json::from_str::<String>(message.get()).ok());
        let interval = read
            .poll_interval
            .and_then(|interval| serde_json::from_str::<f64>(interval.get()).ok());
        Ok(Self {
            id: read.task_id,
            status: read.status,
            message: message.filter(|message| !message.is_empty()),
            interval: interval.map_or(USUAL_INTERVAL, within_bounds),
            result: read.result.map(|result| raw.part(result)),
            error: read.error.map(|error| raw.part(error)),
            input_requests: input_requests(raw, read.input_requests)?,
        })
    }

    /// The server's status message, safe to show.
    pub(in crate::session) fn words(&self) -> Option<String> {
        let message = self.message.as_ref()?;
        Some(
            Untrusted::new(message.clone())
                .for_terminal_line()
                .to_string(),
        )
    }
}

fn within_bounds(milliseconds: f64) -> Duration {
    let bounded = milliseconds.clamp(
        SHORTEST_INTERVAL.as_secs_f64() * 1e3,
        LONGEST_INTERVAL.as_secs_f64() * 1e3,
    );
    // NaN becomes the maximum.
    Duration::try_from_secs_f64(bounded / 1e3).unwrap_or(LONGEST_INTERVAL)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(fields: &str, expected: Result<(TaskStatus, Option<&str>, u64), &str>) {
        let raw: RawJson = format!(r#"{{"taskId":"t",{fields}}}"#).parse().unwrap();
        let got = TaskState::read(&raw)
            .map(|task| (task.status, task.message, task.interval.as_millis()));
        match expected {
            Ok((status, message, interval)) => {
                assert_eq!(
                    got,
                    Ok((status, message.map(str::to_owned), u128::from(interval))),
                    "{fields}"
                );
            }
            Err(words) => {
                assert!(
                    matches!(&got, Err(RequestFault::Invalid(fault)) if fault.contains(words)),
                    "{fields}: {got:?}"
                )
            }
        }
    }

    #[test]
    fn tasks_of_both_kinds_are_read_and_their_intervals_bounded() {
        check(
            r#""status":"working""#,
            Ok((TaskStatus::Working, None, 1_000)),
        );
        check(
            r#""status":"working","pollInterval":250,"ttl":null"#,
            Ok((TaskStatus::Working, None, 250)),
        );
        check(
            r#""status":"input_required","pollIntervalMs":5000"#,
            Ok((TaskStatus::InputRequired, None, 5_000)),
        );
        check(
            r#""status":"completed","pollInterval":0,"statusMessage":"m""#,
            Ok((TaskStatus::Completed, Some("m"), 100)),
        );
        check(
            r#""status":"failed","pollInterval":-7,"statusMessage":"""#,
            Ok((TaskStatus::Failed, None, 100)),
        );
        check(
            r#""status":"cancelled","pollIntervalMs":1e300,"statusMessage":7"#,
            Ok((TaskStatus::Cancelled, None, 30_000)),
        );
        check(
            r#""status":"working","pollInterval":"soon""#,
            Ok((TaskStatus::Working, None, 1_000)),
        );
        let inputs = |count: usize| {
            let requests: Vec<_> = (0..count)
                .map(|number| format!(r#""{number}":{{}}"#))
                .collect();
            let requests = requests.join(",");
            format!(r#""status":"input_required","inputRequests":{{{requests}}}"#)
        };
        check(&inputs(64), Ok((TaskStatus::InputRequired, None, 1_000)));
        check(
            &inputs(65),
            Err("it requires 65 inputs at once; the limit is 64"),
        );
        check(r#""status":"resting""#, Err("unknown variant"));
        check(r#""task":1"#, Err("missing field"));
    }
}
