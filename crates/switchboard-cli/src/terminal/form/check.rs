//! Formats that a text field may require.

/// The format of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Email,
    Uri,
    Date,
    DateTime,
}

impl Format {
    /// Parses a schema's `format`; unknown ones are ignored.
    pub(super) fn of(text: &str) -> Option<Self> {
        Some(match text {
            "email" => Self::Email,
            "uri" => Self::Uri,
            "date" => Self::Date,
            "date-time" => Self::DateTime,
            _ => return None,
        })
    }

    pub(super) fn describe(self) -> &'static str {
        match self {
            Self::Email => "e-mail address",
            Self::Uri => "address (URI)",
            Self::Date => "date",
            Self::DateTime => "date and time",
        }
    }
}

/// Checks a text. The error says what was expected.
pub(super) fn format(format: Format, text: &str) -> Result<(), String> {
    let (good, expected) = match format {
        Format::Email => (is_email(text), "an e-mail address, such as ada@example.com"),
        Format::Uri => (
            url::Url::parse(text).is_ok(),
            "an address, such as https://example.com",
        ),
        Format::Date => (is_date(text), "a date, such as 2026-07-28"),
        Format::DateTime => (
            is_date_time(text),
            "a date and time, such as 2026-07-28T09:30:00Z",
        ),
    };
    if good {
        Ok(())
    } else {
        Err(format!("expected {expected}"))
    }
}

fn is_email(text: &str) -> bool {
    let plain = !text
        .chars()
        .any(|character| character.is_whitespace() || character.is_control());
    let parts = text
        .rsplit_once('@')
        .filter(|(name, _)| !name.is_empty() && (!name.contains('@') || name.starts_with('"')));
    let domain = parts.map_or("", |(_, domain)| domain);
    plain
        && !domain.is_empty()
        && domain
            .split('.')
            .all(|label| !label.is_empty() && !label.starts_with('-'))
}

fn is_date(text: &str) -> bool {
    let parts: Vec<_> = text.split('-').collect();
    let [year, month, day] = parts.as_slice() else {
        return false;
    };
    let (Some(year), Some(month), Some(day)) = (digits(year, 4), digits(month, 2), digits(day, 2))
    else {
        return false;
    };
    let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    let days = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return false,
    };
    (1..=days).contains(&day)
}

fn is_date_time(text: &str) -> bool {
    let Some((date, time)) = text.split_once(['T', 't', ' ']) else {
        return false;
    };
    let offset_at = time.find(['Z', 'z', '+', '-']);
    let Some(offset_at) = offset_at else {
        return false;
    };
    let (clock, offset) = time.split_at(offset_at);
    let (clock, fraction) = clock
        .split_once('.')
        .map_or((clock, "0"), |(clock, fraction)| (clock, fraction));
    let good_offset = matches!(offset, "Z" | "z") || is_clock(&offset[1..], 2);
    is_date(date)
        && is_clock(clock, 3)
        && !fraction.is_empty()
        && fraction.bytes().all(|byte| byte.is_ascii_digit())
        && good_offset
}

/// `HH:MM` or `HH:MM:SS`; a leap second is a second.
fn is_clock(text: &str, parts: usize) -> bool {
    let found: Vec<_> = text.split(':').map(|part| digits(part, 2)).collect();
    let limits = [23, 59, 60];
    found.len() == parts
        && found
            .iter()
            .zip(limits)
            .all(|(part, limit)| part.is_some_and(|part| part <= limit))
}

fn digits(text: &str, length: usize) -> Option<u32> {
    (text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| text.parse().ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_accepts_what_it_says_and_nothing_else() {
        let check = |wanted: Format, good: &[&str], bad: &[&str]| {
            good.iter()
                .for_each(|text| assert_eq!(format(wanted, text), Ok(()), "{text}"));
            bad.iter()
                .for_each(|text| assert!(format(wanted, text).is_err(), "{text}"));
        };
        check(
            Format::Email,
            &["a@b.c", "ada.l+x@example.com", "a@localhost"],
            &["a", "@b", "a@", "a@b..c", "a b@c", "a@b@c"],
        );
        check(
            Format::Uri,
            &["https://x", "mailto:a@b", "urn:x:y"],
            &["x", "//x", ""],
        );
        check(
            Format::Date,
            &["2024-02-29", "2026-12-31"],
            &[
                "2026-02-29",
                "2026-13-01",
                "26-1-1",
                "2026-00-10",
                "2026-01-00",
            ],
        );
        check(
            Format::DateTime,
            &[
                "2026-07-28T09:30:00Z",
                "2026-07-28T09:30:00.123+02:00",
                "2026-12-31T23:59:60Z",
            ],
            &[
                "2026-07-28",
                "2026-07-28T09:30:00",
                "2026-07-28T24:00:00Z",
                "2026-07-28T09:30Z",
                "2026-07-28T09:30:00.Z",
            ],
        );
    }
}
