//! Durations in messages.

use std::time::Duration;

/// Formats a duration as people write it: `30 s`, `1.5 s`, `200 ms`.
pub(crate) fn duration_text(duration: Duration) -> String {
    if duration < Duration::from_secs(1) {
        format!("{} ms", duration.as_millis())
    } else {
        format!("{} s", (duration.as_secs_f64() * 10.0).round() / 10.0)
    }
}
