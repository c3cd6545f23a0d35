//! Describes a response with an error status as a fault: the status, the start of the body, and
//! `Retry-After`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reqwest::header::RETRY_AFTER;
use tokio::time::{Instant, timeout_at};

use super::response::HttpResponse;
use crate::transport::TransportFault;
use crate::untrusted::Untrusted;
use crate::wire::{Incoming, RawJson, RequestId, parse};

/// How many bytes of a body are searched for an error object, and for how long.
const MAX_READ_BYTES: usize = 256 * 1024;
const READ_DEADLINE: Duration = Duration::from_secs(10);

/// How much of a body is shown.
const MAX_EXCERPT_BYTES: usize = 1024;

/// How much text of an HTML page is shown.
const MAX_PAGE_CHARACTERS: usize = 120;

/// The longest `Retry-After` that is honoured.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60 * 60);

/// Reads an error response to request `id`.
pub(in crate::transport) async fn read(response: HttpResponse, id: Option<u64>) -> TransportFault {
    let status = response.status().as_u16();
    let retry_after = response
        .text_header(&RETRY_AFTER)
        .and_then(|text| retry_after(text, SystemTime::now()));
    let body = body_start(response).await;
    fault(status, retry_after, &body, id)
}

/// As [`read`], for a successful response with the wrong content type.
pub(in crate::transport) async fn wrong_content_type(
    response: HttpResponse,
    kind: &str,
) -> TransportFault {
    let status = response.status().as_u16();
    let excerpt = excerpt(&body_start(response).await);
    let kind = match kind {
        "" => "no content type".to_owned(),
        kind => Untrusted::new(kind).for_terminal_line().to_string(),
    };
    let detail = format!(
        ": answered with {kind} instead of JSON or events{excerpt} (is this the URL of an MCP endpoint?)"
    );
    TransportFault::Status {
        status,
        detail,
        retry_after: None,
        error: None,
    }
}

fn fault(
    status: u16,
    retry_after: Option<Duration>,
    body: &[u8],
    id: Option<u64>,
) -> TransportFault {
    let error = error_object(body, id);
    let mut detail = match &error {
        Some(error) => message(error),
        None => excerpt(body),
    };
    if let Some(wait) = retry_after {
        detail.push_str(&format!("; retry after {} s", wait.as_secs()));
    }
    TransportFault::Status {
        status,
        detail,
        retry_after,
        error,
    }
}

/// Reads the start of a body, within the deadline.
async fn body_start(mut response: HttpResponse) -> Vec<u8> {
    let deadline = Instant::now() + READ_DEADLINE;
    let mut body = Vec::new();
    while let Ok(Ok(Some(chunk))) = timeout_at(deadline, response.chunk()).await {
        let room = MAX_READ_BYTES - body.len();
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if body.len() == MAX_READ_BYTES {
            break;
        }
    }
    body
}

/// The error object of a JSON-RPC error with our id or none.
fn error_object(body: &[u8], ours: Option<u64>) -> Option<RawJson> {
    let mut found = None;
    parse(
        std::str::from_utf8(body).ok()?,
        &RawJson::keep,
        &mut |message| {
            if let Incoming::Error { id, error } = message
                && (id.is_none() || id == ours.map(RequestId::Number))
            {
                found = Some(error);
            }
        },
    )
    .ok()?;
    found
}

fn message(error: &RawJson) -> String {
    let value = error.to_value().unwrap_or_default();
    value["message"]
        .as_str()
        .map(|message| excerpt(message.as_bytes()))
        .unwrap_or_default()
}

/// The text as `: …`, safe to show, or nothing.
fn excerpt(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(MAX_EXCERPT_BYTES)]);
    if let Some(text) = page_text(&text) {
        let quoted = if text.is_empty() {
            String::new()
        } else {
            format!(": {}", Untrusted::new(text).for_terminal_line())
        };
        return format!(": an HTML page{quoted}");
    }
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.is_empty() {
        return String::new();
    }
    let cut = if body.len() > MAX_EXCERPT_BYTES {
        "…"
    } else {
        ""
    };
    format!(": {}{cut}", Untrusted::new(text).for_terminal_line())
}

/// The text of an HTML page: its title, or else the start of its text. `None` if it is not HTML.
fn page_text(text: &str) -> Option<String> {
    // ASCII lower case keeps byte offsets the same in both.
    let lower = text.to_ascii_lowercase();
    if !["<!doctype html", "<html"]
        .iter()
        .any(|start| lower.trim_start().starts_with(start))
    {
        return None;
    }
    let after = lower
        .find("<title")
        .and_then(|at| Some(at + lower[at..].find('>')? + 1));
    let title =
        after.map(|from| &text[from..from + lower[from..].find('<').unwrap_or(lower.len() - from)]);
    let title = title.filter(|title| !title.trim().is_empty());
    let text = match title {
        Some(title) => title.to_owned(),
        None => text
            .split('<')
            .filter_map(|part| part.split_once('>'))
            .map(|(_, text)| text)
            .collect::<Vec<_>>()
            .join(" "),
    };
    let mut text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = text.char_indices().nth(MAX_PAGE_CHARACTERS) {
        text.truncate(end);
        text.push('…');
    }
    Some(text)
}

/// `Retry-After`: seconds, or a date.
fn retry_after(text: &str, now: SystemTime) -> Option<Duration> {
    let text = text.trim();
    let wait = match text.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than fit mean the maximum.
        true => Duration::from_secs(text.parse().unwrap_or(u64::MAX)),
        false => date(text)?.duration_since(now).unwrap_or_default(),
    };
    (!text.is_empty()).then_some(wait.min(MAX_RETRY_AFTER))
}

/// Parses an HTTP date: `Sun, 06 Nov 1994 08:49:37 GMT`.
fn date(text: &str) -> Option<SystemTime> {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let [_, day, month, year, time, "GMT"] = *text.split(' ').collect::<Vec<_>>() else {
        return None;
    };
    let month = MONTHS.iter().position(|name| *name == month)? as u64;
    let (day, year): (u64, u64) = (day.parse().ok()?, year.parse().ok()?);
    let clock: Vec<u64> = time
        .split(':')
        .map(str::parse)
        .collect::<Result<_, _>>()
        .ok()?;
    let [hour, minute, second] = *clock else {
        return None;
    };
    if !(1..=31).contains(&day)
        || !(1970..=9999).contains(&year)
        || hour > 23
        || minute > 59
        || second > 60
    {
        return None;
    }
    // Counts years from March, so that a leap day is the last day.
    let (year, month) = if month < 2 {
        (year - 1, month + 10)
    } else {
        (year, month - 2)
    };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1;
    const DAYS_BEFORE_1970: u64 = 719_468;
    let seconds = (days.checked_sub(DAYS_BEFORE_1970)? * 24 + hour) * 3600 + minute * 60 + second;
    Some(UNIX_EPOCH + Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn f22_retry_after_is_read_as_seconds_or_a_date_and_clamped() {
        let now = UNIX_EPOCH + Duration::from_secs(784_111_777);
        for (text, expected) in [
            ("7", Some(7)),
            ("0", Some(0)),
            ("99999999999999999999999", Some(3600)),
            ("Sun, 06 Nov 1994 08:50:07 GMT", Some(30)),
            ("Sun, 06 Nov 1994 08:49:00 GMT", Some(0)),
            ("Thu, 29 Feb 2096 00:00:00 GMT", Some(3600)),
            ("soon", None),
            ("", None),
            ("-1", None),
            ("Sun, 99 Nov 1994 08:50:07 GMT", None),
        ] {
            assert_eq!(
                retry_after(text, now),
                expected.map(Duration::from_secs),
                "{text}"
            );
        }
        assert_eq!(date("Thu, 01 Jan 1970 00:00:00 GMT"), Some(UNIX_EPOCH));
        assert_eq!(
            date("Wed, 29 Feb 2024 12:00:00 GMT"),
            Some(UNIX_EPOCH + Duration::from_secs(1_709_208_000))
        );
    }

    #[track_caller]
    fn check(body: &str, expected: &str, error: Option<&str>) {
        let expected = TransportFault::Status {
            status: 500,
            detail: expected.to_owned(),
            retry_after: None,
            error: error.map(|text| text.parse().unwrap()),
        };
        assert_eq!(fault(500, None, body.as_bytes(), Some(7)), expected);
    }

    #[test]
    fn f23_an_unexpected_body_is_quoted_in_part_and_escaped() {
        check("", "", None);
        check(
            "<html>\r\n  <h1>Oh\u{1b}[2J no</h1>",
            ": an HTML page: Oh\\u{1b}[2J no",
            None,
        );
        check(
            "<!DOCTYPE HTML><title lang=en>Error\n response</title><p>x",
            ": an HTML page: Error response",
            None,
        );
        check("<html><title>", ": an HTML page", None);
        check(
            &format!("<HTML>{}", "ä".repeat(200)),
            &format!(": an HTML page: {}…", "ä".repeat(120)),
            None,
        );
        check(&"x".repeat(2000), &format!(": {}…", "x".repeat(1024)), None);
        let error = r#"{"code":-32000,"message":"full"}"#;
        check(
            &format!(r#"{{"jsonrpc":"2.0","id":null,"error":{error}}}"#),
            ": full",
            Some(error),
        );
        check(
            &format!(r#"{{"jsonrpc":"2.0","id":7,"error":{error}}}"#),
            ": full",
            Some(error),
        );
        let other = format!(r#"{{"jsonrpc":"2.0","id":8,"error":{error}}}"#);
        check(&other, &format!(": {other}"), None);
    }
}
