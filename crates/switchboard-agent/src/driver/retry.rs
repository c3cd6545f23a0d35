//! When a failed request is sent again, and after which pause. Pure.

use std::time::{Duration, SystemTime};

use super::DriverLimits;
use crate::fault::{FaultKind, ModelFault};

/// The pause before the next attempt, or `None` if a retry would not help.
///
/// An answer is requested again only before the model began a call: a call that was shown must not be
/// replaced by another one without the person's knowledge.
pub(super) fn pause_before_retry(
    fault: &ModelFault,
    attempt: u32,
    has_started_call: bool,
    limits: &DriverLimits,
) -> Option<Duration> {
    if attempt > limits.max_retries || has_started_call || fault.details.should_retry == Some(false)
    {
        return None;
    }
    let helps = match fault.kind {
        FaultKind::QuotaExceeded | FaultKind::Authentication => false,
        _ => fault.may_work_later() || fault.details.should_retry == Some(true),
    };
    if !helps {
        return None;
    }
    match fault.details.retry_after {
        Some(pause) if pause > limits.max_pause => None,
        Some(pause) => Some(pause),
        None => {
            let doubled = limits.first_pause * 2_u32.saturating_pow(attempt - 1);
            // Jitter, so that clients that failed together do not retry together.
            let jitter = 0.75 + fastrand::f64() * 0.5;
            Some(doubled.mul_f64(jitter).min(limits.max_pause))
        }
    }
}

/// The pause that `retry-after-ms` or `retry-after` asks for: seconds, or a date.
pub(super) fn read_retry_after(
    milliseconds: Option<&str>,
    seconds_or_date: Option<&str>,
    now: SystemTime,
) -> Option<Duration> {
    let seconds = |text: &str, unit: f64| {
        let number: f64 = text.trim().parse().ok()?;
        Duration::try_from_secs_f64(number * unit).ok()
    };
    if let Some(pause) = milliseconds.and_then(|text| seconds(text, 0.001)) {
        return Some(pause);
    }
    let text = seconds_or_date?;
    seconds(text, 1.0).or_else(|| {
        let date = httpdate::parse_http_date(text).ok()?;
        Some(date.duration_since(now).unwrap_or_default())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pause(fault: &ModelFault, attempt: u32) -> Option<Duration> {
        pause_before_retry(fault, attempt, false, &DriverLimits::default())
    }

    #[test]
    fn transient_faults_are_retried_five_times_with_backoff() {
        let fault = ModelFault::new(FaultKind::Overloaded, "");
        let mut before = Duration::ZERO;
        for attempt in 1..=5 {
            let pause = pause(&fault, attempt).expect("a retry");
            assert!(pause > before, "{attempt}");
            before = pause;
        }
        assert!(before >= Duration::from_secs(6) && before <= Duration::from_secs(10));
        assert_eq!(pause(&fault, 6), None);
    }

    #[test]
    fn retry_after_is_honoured_unless_it_is_too_long() {
        let mut fault = ModelFault::new(FaultKind::RateLimited, "");
        fault.details.retry_after = Some(Duration::from_secs(7));
        assert_eq!(pause(&fault, 1), Some(Duration::from_secs(7)));
        fault.details.retry_after = Some(Duration::from_secs(61));
        assert_eq!(pause(&fault, 1), None);
    }

    #[test]
    fn permanent_faults_are_not_retried() {
        for kind in [
            FaultKind::QuotaExceeded,
            FaultKind::Authentication,
            FaultKind::InvalidRequest,
            FaultKind::UnknownModel,
            FaultKind::ContextOverflow { limit: None },
        ] {
            assert_eq!(pause(&ModelFault::new(kind, ""), 1), None, "{kind:?}");
        }
        let mut fault = ModelFault::new(FaultKind::Overloaded, "");
        let after_call = pause_before_retry(&fault, 1, true, &DriverLimits::default());
        assert_eq!(after_call, None);
        fault.details.should_retry = Some(false);
        assert_eq!(pause(&fault, 1), None);
    }

    #[test]
    fn retry_after_is_parsed_in_each_form() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_770);
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        for (milliseconds, seconds, expected) in [
            (Some("250"), Some("9"), Some(Duration::from_millis(250))),
            (None, Some("1.5"), Some(Duration::from_millis(1500))),
            (None, Some(date), Some(Duration::from_secs(7))),
            (Some("x"), Some("-1"), None),
            (None, Some("soon"), None),
            (None, None, None),
        ] {
            let found = read_retry_after(milliseconds, seconds, now);
            assert_eq!(found, expected, "{milliseconds:?} {seconds:?}");
        }
    }
}
