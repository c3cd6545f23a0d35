//! Parses durations (`30s`) and sizes (`64MiB`).

use std::time::Duration;

use crate::untrusted::quoted;

/// The form of a duration, for messages.
pub(super) const DURATION_FORM: &str =
    "a whole number and a unit, such as \"500ms\", \"30s\", \"10m\" or \"1h\"";

/// The form of a size, for messages.
pub(super) const BYTES_FORM: &str =
    "a whole number of bytes, or one with a unit, such as \"512KiB\" or \"64MiB\"";

/// The longest time limit: deadlines are points in time, whose sums must not overflow.
pub const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// The largest message limit accepted.
const MAX_BYTES: u64 = 1 << 30;

/// A smaller message limit would not let a handshake through.
const MIN_BYTES: u64 = 1 << 10;

/// Parses `500ms`, `30s`, `10m`, `1h`; the error says what is wrong.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text).ok_or_else(|| {
        format!(
            "{} is not a duration; expected {DURATION_FORM}",
            quoted(text)
        )
    })?;
    let milliseconds_each: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "" => {
            return Err(format!(
                "{} has no unit; expected {DURATION_FORM}",
                quoted(text)
            ));
        }
        _ => {
            return Err(format!(
                "{} is not a duration; expected {DURATION_FORM}",
                quoted(text)
            ));
        }
    };
    match number
        .checked_mul(milliseconds_each)
        .map(Duration::from_millis)
    {
        Some(Duration::ZERO) => Err(format!(
            "{} is zero; expected a longer duration",
            quoted(text)
        )),
        Some(duration) if duration <= MAX_TIMEOUT => Ok(duration),
        _ => Err(format!(
            "{} is too long; expected at most \"24h\"",
            quoted(text)
        )),
    }
}

/// Parses `512KiB`, `64MiB`; the error says what is wrong.
pub(super) fn bytes(text: &str) -> Result<usize, String> {
    let (number, unit) = split(text)
        .ok_or_else(|| format!("{} is not a size; expected {BYTES_FORM}", quoted(text)))?;
    let each: u64 = match unit {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        _ => {
            return Err(format!(
                "{} is not a size; expected {BYTES_FORM}",
                quoted(text)
            ));
        }
    };
    number
        .checked_mul(each)
        .map_or(Err(too_large()), bounded_bytes)
}

/// Checks the bounds of a size.
pub(super) fn bounded_bytes(bytes: u64) -> Result<usize, String> {
    match bytes {
        ..MIN_BYTES => Err("too small; expected at least \"1KiB\"".to_owned()),
        MIN_BYTES..=MAX_BYTES => usize::try_from(bytes).map_err(|_| too_large()),
        _ => Err(too_large()),
    }
}

fn too_large() -> String {
    "too large; expected at most \"1GiB\"".to_owned()
}

fn split(text: &str) -> Option<(u64, &str)> {
    let digits = text
        .find(|character: char| !character.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    Some((number.parse().ok()?, unit.strip_prefix(' ').unwrap_or(unit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_a_number_and_a_unit() {
        let check = |text: &str, expected: Result<u64, &str>| {
            let read = duration(text).map(|read| read.as_millis() as u64);
            assert_eq!(
                read.as_ref().map_err(String::as_str).copied(),
                expected,
                "{text}"
            );
        };
        check("500ms", Ok(500));
        check("30s", Ok(30_000));
        check("10m", Ok(600_000));
        check("1h", Ok(3_600_000));
        check("24h", Ok(86_400_000));
        check("0s", Err("\"0s\" is zero; expected a longer duration"));
        check("25h", Err("\"25h\" is too long; expected at most \"24h\""));
        check(
            "18446744073709551615h",
            Err("\"18446744073709551615h\" is too long; expected at most \"24h\""),
        );
        for nothing in [
            "",
            "s",
            "fast",
            "-1s",
            "1.5s",
            "30 seconds",
            "99999999999999999999s",
        ] {
            assert_eq!(
                duration(nothing),
                Err(format!(
                    "{nothing:?} is not a duration; expected {DURATION_FORM}"
                )),
                "{nothing}"
            );
        }
        assert_eq!(
            duration("30"),
            Err(format!("\"30\" has no unit; expected {DURATION_FORM}"))
        );
    }

    #[test]
    fn sizes_are_bytes_or_have_a_unit() {
        let check = |text: &str, expected: Result<usize, &str>| {
            assert_eq!(
                bytes(text).as_ref().map_err(String::as_str).copied(),
                expected,
                "{text}"
            );
        };
        check("2048", Ok(2048));
        check("64MiB", Ok(64 << 20));
        check("2MB", Ok(2_000_000));
        check("1GiB", Ok(1 << 30));
        check("2GiB", Err("too large; expected at most \"1GiB\""));
        check(
            "18446744073709551615GiB",
            Err("too large; expected at most \"1GiB\""),
        );
        check("1B", Err("too small; expected at least \"1KiB\""));
        assert_eq!(
            bytes("64 megs"),
            Err(format!("\"64 megs\" is not a size; expected {BYTES_FORM}"))
        );
    }
}
