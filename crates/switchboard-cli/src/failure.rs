//! Why a command failed: the one place where errors become exit codes and lines on stderr.

use std::process::ExitCode;

use switchboard::call::CallError;
use switchboard::config::ConfigErrors;
use switchboard::server::{NotReady, State};
use switchboard::session::RequestFault;
use switchboard::store::StoreError;
use switchboard::transport::WireFault;
use switchboard::trust::AcceptError;
use switchboard::untrusted::Untrusted;

use crate::output;

/// The exit codes of the command line contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Code {
    /// The tool or server answered with an error.
    Answered = 1,
    /// Usage, config, unknown tool or invalid arguments.
    Usage = 2,
    /// Server unreachable, died or timed out.
    Unreachable = 3,
    /// Login needed.
    Login = 4,
    /// Denied or untrusted.
    Denied = 5,
    /// Ctrl-C.
    Interrupted = 130,
    /// SIGTERM.
    Terminated = 143,
}

/// A failure as it is shown: one sentence, which server, and what to try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    pub(crate) server: Option<String>,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl Failure {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, server: None, message: message.into(), hint: None }
    }

    pub(crate) fn server(self, server: impl ToString) -> Self {
        Self { server: Some(server.to_string()), ..self }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    fn as_line(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{}; {hint}", self.message),
            None => self.message.clone(),
        }
    }

    /// `{"error":{"code","server","message","hint"}}`, with the notices of the run beside it where there were any.
    fn as_json(&self, notices: &[String]) -> String {
        let mut document = serde_json::json!({
            "error": { "code": self.code as u8, "server": self.server, "message": self.message, "hint": self.hint }
        });
        if !notices.is_empty() {
            document["notices"] = notices.into();
        }
        output::escape_for_terminal(&document.to_string())
    }
}

/// Ends the run: prints the failure, if any, and the notices that were held back.
pub(crate) fn exit(outcome: Result<u8, Failure>, json: bool) -> ExitCode {
    let notices = output::take_held_notices();
    match outcome {
        Ok(code) => {
            notices.iter().for_each(|line| output::line_on_stderr(line));
            ExitCode::from(code)
        }
        Err(failure) => {
            if json {
                output::line_on_stderr(&failure.as_json(&notices));
            } else {
                notices.iter().for_each(|line| output::line_on_stderr(line));
                output::error_on_stderr(&failure.as_line());
            }
            ExitCode::from(failure.code as u8)
        }
    }
}

/// Ends a run whose words clap refused, or that asked for help.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    let wants_json = std::env::args_os().skip(1).take_while(|word| word != "--").any(|word| word == "--json");
    if !error.use_stderr() || !wants_json {
        // Help into a closed pipe is nobody's fault.
        let _ = error.print();
        return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(Code::Usage as u8));
    }
    let text = error.render().to_string();
    let message = text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
    exit(Err(Failure::new(Code::Usage, message).hint("`switchboard --help` shows the words")), true)
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        let message = error.to_string();
        match error {
            CallError::Unresolved { .. } | CallError::UnknownServer { .. } => {
                // What follows the fact is what to try.
                match message.split_once("; ") {
                    Some((fact, advice)) => Self::new(Code::Usage, fact).hint(advice),
                    None => Self::new(Code::Usage, message),
                }
            }
            CallError::Misfit { server, tool, .. } => {
                let hint = format!("`switchboard tools {server}/{tool}` shows what is expected");
                Self::new(Code::Usage, message).server(server).hint(hint)
            }
            CallError::Denied { server, reason, .. } => {
                // The reason ends with what to try, where something can be tried.
                let failure = match reason.split_once("; ").and_then(|(_, advice)| Some((message.strip_suffix(advice)?, advice)))
                {
                    Some((fact, advice)) => Self::new(Code::Denied, fact.trim_end_matches("; ")).hint(advice),
                    None => Self::new(Code::Denied, message),
                };
                failure.server(server)
            }
            CallError::Moved { server, .. } => Self::new(Code::Denied, message).server(server),
            CallError::NotReady(not_ready) => not_ready.into(),
            CallError::Request { server, fault, .. } => {
                let (message, advice) = without_advice(&message);
                let code = match fault {
                    RequestFault::Answered { .. }
                    | RequestFault::HeaderMismatch { .. }
                    | RequestFault::TooLarge { .. }
                    | RequestFault::Invalid(_)
                    | RequestFault::Unwilling(_)
                    | RequestFault::Task(_) => Code::Answered,
                    RequestFault::Wire(WireFault::NeedsLogin(_)) => Code::Login,
                    RequestFault::Timeout { .. }
                    | RequestFault::NoTurn { .. }
                    | RequestFault::Closed(_)
                    | RequestFault::Wire(_) => Code::Unreachable,
                    RequestFault::Moved | RequestFault::Declined(_) => Code::Denied,
                    RequestFault::NotAsked(_) => Code::Usage,
                };
                let failure = Self::new(code, message);
                let failure = match advice {
                    Some(advice) => failure.hint(advice),
                    None if matches!(fault, RequestFault::Timeout { total: true, .. }) => {
                        failure.hint("give it longer with --timeout SECS, or with `call_timeout_max` in its entry")
                    }
                    None if matches!(fault, RequestFault::Timeout { .. }) => failure
                        .hint("give it longer with `call_timeout` in its entry: it is the longest silence between two reports"),
                    None if matches!(fault, RequestFault::Wire(WireFault::Lost(_))) => {
                        failure.hint("it may have been done all the same: look before you repeat it")
                    }
                    None if code == Code::Unreachable => failure.hint(doctor_hint(&server)),
                    None if lacks_offer(&fault) => failure.hint("it wants to ask for something that is not on offer here"),
                    None => failure,
                };
                failure.server(server)
            }
        }
    }
}

/// The server cannot do it without asking for what the caller does not offer, such as an answer of a model (2026-07-28).
fn lacks_offer(fault: &RequestFault) -> bool {
    matches!(fault, RequestFault::Answered { code: -32021, .. })
}

impl From<NotReady> for Failure {
    fn from(not_ready: NotReady) -> Self {
        let (message, advice) = without_advice(&not_ready.to_string());
        let failure = Self::new(code_of_state(&not_ready.state), message);
        let failure = match not_ready.state {
            _ if advice.is_some() => Self { hint: advice, ..failure },
            State::Untrusted { .. } => failure.hint(format!("look at it with `switchboard trust {}`", not_ready.server)),
            State::Backoff { .. } | State::Failed { .. } | State::Connecting { .. } => {
                failure.hint(doctor_hint(&not_ready.server))
            }
            _ => failure,
        };
        failure.server(not_ready.server)
    }
}

/// A sentence, and the advice at its end: `…; try "switchboard doctor git"`.
pub(crate) fn without_advice(message: &str) -> (String, Option<String>) {
    for verb in ["try", "run"] {
        if let Some((fact, advice)) = message.rsplit_once(&format!("; {verb} "))
            && !advice.contains('\n')
        {
            return (fact.to_owned(), Some(format!("{verb} {advice}")));
        }
    }
    (message.to_owned(), None)
}

/// What it means for a command when the server it needs stands like this.
pub(crate) fn code_of_state(state: &State) -> Code {
    match state {
        State::Untrusted { .. } | State::Blocked { .. } => Code::Denied,
        State::Disabled => Code::Usage,
        State::NeedsLogin { .. } => Code::Login,
        _ => Code::Unreachable,
    }
}

impl From<ConfigErrors> for Failure {
    fn from(errors: ConfigErrors) -> Self {
        // A file may quote anything: what it says goes out escaped, one finding a line.
        let lines: Vec<_> =
            errors.0.iter().map(|finding| Untrusted::new(finding.to_string()).for_terminal_line().to_string()).collect();
        Self::new(Code::Usage, lines.join("\n"))
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::new(Code::Usage, format!("the state folder cannot be used: {error}"))
            .hint("check its permissions, or set XDG_STATE_HOME")
    }
}

impl From<AcceptError> for Failure {
    fn from(error: AcceptError) -> Self {
        let message = error.to_string();
        match error {
            AcceptError::Store(error) => error.into(),
            _ => Self::new(Code::Denied, message),
        }
    }
}

fn doctor_hint(server: &switchboard::name::ServerName) -> String {
    format!("try `switchboard doctor {server}`")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_failure_with_json_is_one_line_with_every_key() {
        let failure = Failure::new(Code::Denied, "no\nterminal").server("git");
        let line = failure.as_json(&[]);
        assert_eq!(line, r#"{"error":{"code":5,"hint":null,"message":"no\nterminal","server":"git"}}"#);
        let with = failure.as_json(&["declined".into()]);
        assert_eq!(with.lines().count(), 1);
        assert!(with.contains(r#""notices":["declined"]"#));
    }

    #[test]
    fn advice_at_the_end_of_a_sentence_becomes_the_hint() {
        let check = |message: &str, fact: &str, advice: Option<&str>| {
            assert_eq!(without_advice(message), (fact.to_owned(), advice.map(str::to_owned)));
        };
        check("exited; try \"switchboard doctor git\"", "exited", Some("try \"switchboard doctor git\""));
        check("needs a login; run \"switchboard login git\"", "needs a login", Some("run \"switchboard login git\""));
        check("no answer within 60s", "no answer within 60s", None);
    }

    #[test]
    fn each_state_has_its_exit_code() {
        let check = |state: State, code: Code| assert_eq!(code_of_state(&state), code, "{state:?}");
        check(State::Untrusted { reason: "new".into() }, Code::Denied);
        check(State::Blocked { rule: "deny_servers".into() }, Code::Denied);
        check(State::NeedsLogin { url: "https://x".into(), reason: "nobody is logged in".into() }, Code::Login);
        check(State::Disabled, Code::Usage);
        check(State::Failed { error: "gone".into() }, Code::Unreachable);
        check(State::Stopped, Code::Unreachable);
    }
}
