//! The messages about a server: what happened, and its last stderr. What to do about it is
//! a [`Hint`](crate::hint::Hint), which the front end words. Pure.

use std::time::Duration;

use super::ConnectStep;
use super::switching::EraOutcome;
use crate::duration_text::duration_text;
use crate::launch::Exit;
use crate::name::ServerName;
use crate::session::{Era, Revision};
use crate::transport::TransportFault;

/// How much of a line of stderr a message quotes.
const QUOTED_CHARACTERS: usize = 300;

/// Adds the last lines of stderr to `fact`.
pub(super) fn with_stderr(fact: &str, last_stderr: &[String]) -> String {
    let quoted = quoted(last_stderr)
        .map(|words| format!(" ({words})"))
        .unwrap_or_default();
    format!("{fact}{quoted}")
}

/// How a connection ended, for the error of a call that was in flight.
pub(super) fn connection_end(reason: &str, exit: Option<Exit>, last_stderr: &[String]) -> String {
    let fact = exit.map_or_else(|| reason.to_owned(), |exit| exit.to_string());
    match quoted(last_stderr) {
        Some(words) => format!("{fact}; {words}"),
        None => fact,
    }
}

/// The message when the channel ends during a step of connecting.
pub(super) fn ended_during(step: ConnectStep, reason: &str, exit: Option<Exit>) -> String {
    let when = match step {
        ConnectStep::List => "while its tools were being listed",
        _ => "before the handshake was complete",
    };
    match exit {
        Some(exit) => format!("{exit} {when}"),
        None => format!("the connection ended {when}: {reason}"),
    }
}

/// The message when HTTP brings no response to the handshake.
pub(super) fn handshake_fault(fault: &TransportFault) -> String {
    match fault {
        TransportFault::NotSent(fact) => fact.clone(),
        TransportFault::Lost(reason) => ended_during(ConnectStep::Handshake, reason, None),
        // With a successful status and an unusable body, the body's error suffices.
        TransportFault::Status {
            status: 200..=299,
            detail,
            ..
        } if !detail.is_empty() => detail.trim_start_matches(": ").to_owned(),
        TransportFault::Status { .. } => format!("answered the handshake with {fault}"),
        TransportFault::NeedsLogin(_) => "needs a login".to_owned(),
    }
}

/// The message when a step of connecting times out.
pub(super) fn timed_out(step: ConnectStep, limit: Duration) -> String {
    let limit = duration_text(limit);
    match step {
        ConnectStep::Spawn => format!("its process did not start within {limit}"),
        ConnectStep::List => {
            format!("connected, but did not list its tools within {limit}")
        }
        _ => format!("no answer to the handshake within {limit}"),
    }
}

/// The notice for the caller whose call showed which era a server's handlers need.
pub(super) fn era_notice(
    server: &ServerName,
    outcome: EraOutcome,
    repeated: bool,
    can_have_both: bool,
) -> String {
    let (older, newer) = (Revision::newest(Era::Legacy), Revision::newest(Era::Modern));
    let asks = |form: &str, version: Revision| {
        format!(
            "server \"{server}\" sends its questions in the {form} form, which protocol {version} does not support"
        )
    };
    let again = if repeated {
        "The call is made again."
    } else {
        "The tool may have begun; call it again."
    };
    let lost = |restarted| {
        if restarted {
            " (its process was restarted, so what it kept in memory is lost)"
        } else {
            ""
        }
    };
    match outcome {
        EraOutcome::Reopening {
            era: Era::Legacy,
            restarted,
            ..
        } => {
            format!(
                "{}; reconnected with {older}; this is remembered{}. {again}",
                asks("legacy", newer),
                lost(restarted)
            )
        }
        EraOutcome::Reopening {
            era: Era::Modern,
            restarted,
            both: true,
        } => {
            let of_others = if can_have_both {
                format!(
                    "Its tools that send questions in the legacy form use a second connection, with {older}"
                )
            } else {
                "For its tools that send questions in the legacy form, add an entry with `protocol = \"legacy\"`"
                    .to_owned()
            };
            format!(
                "{}; reconnected with {newer}; this is remembered{}. {again} {of_others}",
                asks("modern", older),
                lost(restarted)
            )
        }
        EraOutcome::Reopening {
            era: Era::Modern,
            restarted,
            both: false,
        } => format!(
            "server \"{server}\" cannot send its questions with protocol {older} either; reconnected with {newer}; this is remembered{}. \
             Questions of this tool cannot be delivered",
            lost(restarted)
        ),
        EraOutcome::WhenIdle(era) => {
            let (form, now, then) = form_of(era);
            format!(
                "{}; its process is restarted with {then} when its other calls have ended. The tool may have begun; call it again then.",
                asks(form, now)
            )
        }
        EraOutcome::OtherConnection(era) => {
            let (form, now, then) = form_of(era);
            format!(
                "{}; from now on this tool is called over a second connection, with {then}; this is remembered. {again}",
                asks(form, now)
            )
        }
        EraOutcome::Stays { era, both: false } => {
            let (form, now, other) = form_of(era.other());
            format!(
                "server \"{server}\" sends its questions in the {form} form, which it supports neither with protocol {now} nor with {other}"
            )
        }
        EraOutcome::Stays { era, both: true } => {
            let (version, other) = match era {
                Era::Legacy => (older, "modern"),
                Era::Modern => (newer, "legacy"),
            };
            format!(
                "server \"{server}\" sends questions in the legacy and in the modern form, and no connection supports both; it stays with {version}. \
                 For this tool, add an entry with `protocol = \"{other}\"`"
            )
        }
    }
}

/// The form of questions that needs this era, the revision that does not support it, and the one
/// that does.
fn form_of(era: Era) -> (&'static str, Revision, Revision) {
    let form = match era {
        Era::Legacy => "legacy",
        Era::Modern => "modern",
    };
    (form, Revision::newest(era.other()), Revision::newest(era))
}

fn quoted(last_stderr: &[String]) -> Option<String> {
    let lines: Vec<_> = last_stderr
        .iter()
        .filter(|line| !line.trim().is_empty())
        .map(|line| format!("\"{}\"", cut(line)))
        .collect();
    (!lines.is_empty()).then(|| format!("last stderr: {}", lines.join(", ")))
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(QUOTED_CHARACTERS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn check(sentence: &str, expected: &str) {
        assert_eq!(sentence, expected);
    }

    /// S2-65: each kind of failure to connect has its own message.
    #[test]
    fn s2_65_each_connection_failure_has_its_own_message() {
        let token = ["GITHUB_TOKEN not set".to_owned()];
        check(
            &with_stderr(
                &ended_during(
                    ConnectStep::Handshake,
                    "end of output",
                    Some(Exit::Status(1)),
                ),
                &token,
            ),
            "exited with status 1 before the handshake was complete (last stderr: \"GITHUB_TOKEN not set\")",
        );
        check(
            &with_stderr(
                &ended_during(ConnectStep::List, "end of output", Some(Exit::Signal(9))),
                &[],
            ),
            "was killed by SIGKILL while its tools were being listed",
        );
        check(
            &with_stderr(
                &ended_during(ConnectStep::Handshake, "end of output", None),
                &[],
            ),
            "the connection ended before the handshake was complete: end of output",
        );
        check(
            &timed_out(ConnectStep::Handshake, Duration::from_secs(30)),
            "no answer to the handshake within 30 s",
        );
        check(
            &timed_out(ConnectStep::List, Duration::from_millis(1500)),
            "connected, but did not list its tools within 1.5 s",
        );
        check(
            &timed_out(ConnectStep::Spawn, Duration::from_millis(200)),
            "its process did not start within 200 ms",
        );
    }

    /// F23, F24: each HTTP fault during the handshake has its own message.
    #[test]
    fn f24_each_http_fault_of_a_handshake_has_its_own_message() {
        let status = |status, said: &str| TransportFault::Status {
            status,
            detail: said.to_owned(),
            retry_after: None,
            error: None,
        };
        let refused = "example.com:443 refused the connection (is the server running?)";
        check(
            &handshake_fault(&TransportFault::NotSent(refused.to_owned())),
            refused,
        );
        check(
            &handshake_fault(&TransportFault::Lost("reset".to_owned())),
            "the connection ended before the handshake was complete: reset",
        );
        check(
            &handshake_fault(&status(500, ": boom")),
            "answered the handshake with HTTP 500: boom",
        );
        check(
            &handshake_fault(&status(503, "")),
            "answered the handshake with HTTP 503",
        );
        check(
            &handshake_fault(&status(200, ": answered with text/html")),
            "answered with text/html",
        );
    }

    #[test]
    fn f7_a_lost_process_is_reported_with_status_and_last_stderr() {
        let words = ["one".to_owned(), " ".to_owned(), "two".to_owned()];
        check(
            &connection_end("end of output", Some(Exit::Status(3)), &words),
            "exited with status 3; last stderr: \"one\", \"two\"",
        );
        check(&connection_end("end of output", None, &[]), "end of output");
    }

    #[test]
    fn a_long_line_is_truncated_at_a_character_boundary() {
        let line = "ä".repeat(QUOTED_CHARACTERS + 1);
        check(&cut(&line), &format!("{}…", "ä".repeat(QUOTED_CHARACTERS)));
    }
}
