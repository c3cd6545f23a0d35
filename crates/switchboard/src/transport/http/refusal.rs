//! A response that is no answer, as a fault: its status, the start of what it said, when it wants
//! to be asked again.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reqwest::header::RETRY_AFTER;
use tokio::time::{Instant, timeout_at};

use super::response::Response;
use crate::transport::WireFault;
use crate::untrusted::Untrusted;
use crate::wire::{Incoming, RawJson, RequestId, parse};

/// So much of a body is looked at for an error object, for so long.
const MAX_READ_BYTES: usize = 256 * 1024;
const READ_DEADLINE: Duration = Duration::from_secs(10);

/// So much of it is shown.
const EXCERPT_BYTES: usize = 1024;

/// And so much of a page that is for people.
const PAGE_CHARACTERS: usize = 120;

/// No server is waited for longer than this.
const LONGEST_WAIT: Duration = Duration::from_secs(60 * 60);

/// Reads what a response says that is no answer to request `id`.
pub(in crate::transport) async fn read(response: Response, id: Option<u64>) -> WireFault {
    let status = response.status().as_u16();
    let retry_after = response
        .text(&RETRY_AFTER)
        .and_then(|text| retry_after(text, SystemTime::now()));
    let body = start(response).await;
    fault(status, retry_after, &body, id)
}

/// The same of a response whose status is fine and whose body is of a kind that no answer is.
pub(in crate::transport) async fn wrong_kind(response: Response, kind: &str) -> WireFault {
    let status = response.status().as_u16();
    let excerpt = excerpt(&start(response).await);
    let kind = match kind {
        "" => "no content type".to_owned(),
        kind => Untrusted::new(kind).for_terminal_line().to_string(),
    };
    let said = format!(
        ": answered with {kind} instead of JSON or events{excerpt} (is this the URL of an MCP endpoint?)"
    );
    WireFault::Status {
        status,
        said,
        retry_after: None,
        error: None,
    }
}

fn fault(status: u16, retry_after: Option<Duration>, body: &[u8], id: Option<u64>) -> WireFault {
    let error = error_object(body, id);
    let mut said = match &error {
        Some(error) => message(error),
        None => excerpt(body),
    };
    if let Some(wait) = retry_after {
        said.push_str(&format!(
            "; it wants to be asked again in {} s",
            wait.as_secs()
        ));
    }
    WireFault::Status {
        status,
        said,
        retry_after,
        error,
    }
}

/// The start of a body; what does not come in time is not waited for.
async fn start(mut response: Response) -> Vec<u8> {
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

/// The error object of a JSON-RPC error that is for this request, or for nobody in particular.
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

/// `: …`, safe to show, or nothing.
fn excerpt(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(EXCERPT_BYTES)]);
    if let Some(words) = words_of_page(&text) {
        let told = if words.is_empty() {
            String::new()
        } else {
            format!(": {}", Untrusted::new(words).for_terminal_line())
        };
        return format!(": an HTML page{told}");
    }
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if words.is_empty() {
        return String::new();
    }
    let cut = if body.len() > EXCERPT_BYTES {
        "…"
    } else {
        ""
    };
    format!(": {}{cut}", Untrusted::new(words).for_terminal_line())
}

/// What a page that was meant for a browser says: its title, or else the start of its text. `None`
/// if it is no page.
fn words_of_page(text: &str) -> Option<String> {
    // Lower case of ASCII alone, so that places in one are places in the other.
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
    let words = match title {
        Some(title) => title.to_owned(),
        None => text
            .split('<')
            .filter_map(|part| part.split_once('>'))
            .map(|(_, words)| words)
            .collect::<Vec<_>>()
            .join(" "),
    };
    let mut words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = words.char_indices().nth(PAGE_CHARACTERS) {
        words.truncate(end);
        words.push('…');
    }
    Some(words)
}

/// `Retry-After`: seconds, or a date.
fn retry_after(text: &str, now: SystemTime) -> Option<Duration> {
    let text = text.trim();
    let wait = match text.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than fit are a long time.
        true => Duration::from_secs(text.parse().unwrap_or(u64::MAX)),
        false => date(text)?.duration_since(now).unwrap_or_default(),
    };
    (!text.is_empty()).then_some(wait.min(LONGEST_WAIT))
}

/// The date as HTTP writes it: `Sun, 06 Nov 1994 08:49:37 GMT`.
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
    // Years that begin in March, so that the day that comes and goes is the last one.
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
        let expected = WireFault::Status {
            status: 500,
            said: expected.to_owned(),
            retry_after: None,
            error: error.map(|text| text.parse().unwrap()),
        };
        assert_eq!(fault(500, None, body.as_bytes(), Some(7)), expected);
    }

    #[test]
    fn f23_a_body_that_is_no_answer_is_shown_in_part_and_made_safe() {
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
