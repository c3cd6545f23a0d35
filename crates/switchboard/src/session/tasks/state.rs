//! What a server says of a task, in either kind: they spell the same with small differences.

use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{LONGEST_INTERVAL, SHORTEST_INTERVAL, USUAL_INTERVAL};
use crate::session::RequestFault;
use crate::untrusted::Untrusted;
use crate::wire::RawJson;

/// How far a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Status {
    Working,
    InputRequired,
    Completed,
    Failed,
    Cancelled,
}

impl Status {
    /// It stays so.
    pub(super) fn is_end(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// A task at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Task {
    pub(super) id: String,
    pub(super) status: Status,
    /// The server's words on it.
    pub(super) message: Option<String>,
    /// How long to wait before asking again, within our bounds.
    pub(super) interval: Duration,
    /// What a completed modern task came to.
    pub(super) result: Option<RawJson>,
    /// Why a modern one failed.
    pub(super) error: Option<RawJson>,
    /// What a modern one asks now, by key.
    pub(super) questions: Vec<(String, RawJson)>,
}

impl Task {
    pub(super) fn read(raw: &RawJson) -> Result<Self, RequestFault> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Wire<'a> {
            task_id: String,
            status: Status,
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
            input_requests: Option<indexmap::IndexMap<String, &'a RawValue>>,
        }
        let wire: Wire<'_> = raw
            .decode()
            .map_err(|fault| RequestFault::Invalid(format!("a task: {fault}")))?;
        if wire.task_id.is_empty() {
            return Err(RequestFault::Invalid("a task without an id".into()));
        }
        // Only these may be anything: they change how it is told, not what it comes to.
        let message = wire
            .status_message
            .and_then(|message| serde_json::from_str::<String>(message.get()).ok());
        let interval = wire
            .poll_interval
            .and_then(|interval| serde_json::from_str::<f64>(interval.get()).ok());
        Ok(Self {
            id: wire.task_id,
            status: wire.status,
            message: message.filter(|message| !message.is_empty()),
            interval: interval.map_or(USUAL_INTERVAL, within_bounds),
            result: wire.result.map(|result| raw.part(result)),
            error: wire.error.map(|error| raw.part(error)),
            questions: wire
                .input_requests
                .into_iter()
                .flatten()
                .map(|(key, question)| (key, raw.part(question)))
                .collect(),
        })
    }

    /// The server's words, to follow ours: empty, or `: …`, safe to show.
    pub(super) fn words(&self) -> String {
        self.message.as_ref().map_or_else(String::new, |message| {
            format!(": {}", Untrusted::new(message.clone()).for_terminal_line())
        })
    }
}

fn within_bounds(milliseconds: f64) -> Duration {
    let bounded = milliseconds.clamp(
        SHORTEST_INTERVAL.as_secs_f64() * 1e3,
        LONGEST_INTERVAL.as_secs_f64() * 1e3,
    );
    // Of what is no number nothing is left but the bound.
    Duration::try_from_secs_f64(bounded / 1e3).unwrap_or(LONGEST_INTERVAL)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(fields: &str, expected: Result<(Status, Option<&str>, u64), &str>) {
        let raw: RawJson = format!(r#"{{"taskId":"t",{fields}}}"#).parse().unwrap();
        let got =
            Task::read(&raw).map(|task| (task.status, task.message, task.interval.as_millis()));
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
        check(r#""status":"working""#, Ok((Status::Working, None, 1_000)));
        check(
            r#""status":"working","pollInterval":250,"ttl":null"#,
            Ok((Status::Working, None, 250)),
        );
        check(
            r#""status":"input_required","pollIntervalMs":5000"#,
            Ok((Status::InputRequired, None, 5_000)),
        );
        check(
            r#""status":"completed","pollInterval":0,"statusMessage":"m""#,
            Ok((Status::Completed, Some("m"), 100)),
        );
        check(
            r#""status":"failed","pollInterval":-7,"statusMessage":"""#,
            Ok((Status::Failed, None, 100)),
        );
        check(
            r#""status":"cancelled","pollIntervalMs":1e300,"statusMessage":7"#,
            Ok((Status::Cancelled, None, 30_000)),
        );
        check(
            r#""status":"working","pollInterval":"soon""#,
            Ok((Status::Working, None, 1_000)),
        );
        check(r#""status":"resting""#, Err("unknown variant"));
        check(r#""task":1"#, Err("missing field"));
    }
}
