//! Errors as exit codes and lines on stderr.

use std::process::ExitCode;

use switchboard::call::CallError;
use switchboard::catalog::{Unresolved, Withheld};
use switchboard::config::ConfigErrors;
use switchboard::server::{NotReady, State};
use switchboard::session::RequestFault;
use switchboard::store::StoreError;
use switchboard::transport::TransportFault;
use switchboard::trust::AcceptError;
use switchboard::untrusted::Untrusted;

use crate::{hints, output};

/// The documented exit codes.
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
    /// A model's vendor is overloaded, limits the rate or cannot be reached.
    MayWorkLater = 75,
    /// SIGHUP.
    HungUp = 129,
    /// Ctrl-C.
    Interrupted = 130,
    /// SIGQUIT.
    Quit = 131,
    /// SIGTERM.
    Terminated = 143,
}

impl Code {
    /// Whether a signal ended the run.
    pub(crate) fn is_signal(self) -> bool {
        matches!(
            self,
            Self::HungUp | Self::Interrupted | Self::Quit | Self::Terminated
        )
    }
}

/// An error for the user: one sentence, the server it concerns, and a hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    pub(crate) server: Option<String>,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl Failure {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            server: None,
            message: message.into(),
            hint: None,
        }
    }

    pub(crate) fn server(self, server: impl ToString) -> Self {
        Self {
            server: Some(server.to_string()),
            ..self
        }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }

    /// A failed call of a tool. Unless its server has answered, which says itself what it did, the
    /// person is warned that the tool may have run.
    pub(crate) fn of_call(error: CallError) -> Self {
        let may_have_run = error.may_have_run();
        let failure = Self::from(error);
        if !may_have_run || failure.code != Code::Unreachable {
            return failure;
        }
        let warning = "the call may have been executed: check before you repeat it";
        let hint = match &failure.hint {
            Some(hint) => format!("{hint}; {warning}"),
            None => warning.to_owned(),
        };
        failure.hint(hint)
    }

    /// The sentence with its hint.
    pub(crate) fn as_line(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{}; {hint}", self.message),
            None => self.message.clone(),
        }
    }

    /// `{"error":{"code","server","message","hint"}}`, with `notices` if there were any.
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

/// One failure for several, with the message and hint of each; the exit code 0 for none.
pub(crate) fn join(mut failures: Vec<Failure>) -> Result<u8, Failure> {
    match failures.len() {
        0 => Ok(0),
        1 => Err(failures.remove(0)),
        _ => {
            let lines: Vec<_> = failures.iter().map(Failure::as_line).collect();
            Err(Failure::new(Code::Usage, lines.join("\n")))
        }
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

/// Ends a run whose arguments clap rejected, or that printed help.
pub(crate) fn exit_with_usage_error(error: &clap::Error) -> ExitCode {
    let wants_json = std::env::args_os()
        .skip(1)
        .take_while(|word| word != "--")
        .any(|word| word == "--json");
    if !error.use_stderr() || !wants_json {
        // Help printed into a closed pipe is not an error.
        let _ = error.print();
        return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(Code::Usage as u8));
    }
    let message = usage_message(&error.render().to_string());
    exit(
        Err(Failure::new(Code::Usage, message).hint("`switchboard --help` shows the usage")),
        true,
    )
}

/// What is wrong, in one line: clap's text without the usage and what follows it.
fn usage_message(text: &str) -> String {
    let text = text.split("\nUsage:").next().unwrap_or_default();
    let text = text
        .split("\nFor more information")
        .next()
        .unwrap_or_default();
    let words: Vec<_> = text.split_whitespace().collect();
    let message = words.join(" ");
    message.trim_start_matches("error: ").to_owned()
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        let message = error.to_string();
        match error {
            CallError::Unresolved { name, why } => {
                let nearest = match why {
                    Unresolved::Withheld(Withheld { server, .. }) => {
                        return Self::new(Code::Usage, message).server(server);
                    }
                    unknown => unknown.to_string(),
                };
                let hint = match nearest.is_empty() {
                    true => format!("{} lists the tools", hints::command(&["tools"])),
                    false => nearest,
                };
                Self::new(Code::Usage, format!("no tool {name:?}")).hint(hint)
            }
            CallError::UnknownServer { .. } => Self::new(Code::Usage, message)
                .hint(format!("{} lists them", hints::command(&["status"]))),
            CallError::InvalidArguments { server, tool, .. } => {
                let hint = format!(
                    "{} shows its arguments",
                    hints::command(&["tools", &format!("{server}/{tool}")])
                );
                Self::new(Code::Usage, message).server(server).hint(hint)
            }
            CallError::Denied {
                server, tool, hint, ..
            } => {
                let hint = hint.and_then(|hint| hints::describe(hint, &server, Some(&tool)));
                Self {
                    hint,
                    ..Self::new(Code::Denied, message).server(server)
                }
            }
            CallError::Replaced { server } => Self::new(Code::Unreachable, message).server(server),
            CallError::DefinitionChanged { server, .. } => {
                Self::new(Code::Denied, message).server(server)
            }
            CallError::NotReady(not_ready) => not_ready.into(),
            CallError::Request {
                server,
                fault,
                hint,
                ..
            } => {
                let code = code_of_fault(&fault);
                let hint = match lacks_capability(&fault) {
                    true => Some(
                        "the server requires a client capability that is not offered here"
                            .to_owned(),
                    ),
                    false => hint.and_then(|hint| hints::describe(hint, &server, None)),
                };
                Self {
                    hint,
                    ..Self::new(code, message).server(server)
                }
            }
            _ => Self::new(Code::Unreachable, message),
        }
    }
}

/// The exit code for a failed request.
fn code_of_fault(fault: &RequestFault) -> Code {
    match fault {
        RequestFault::ErrorResponse { .. }
        | RequestFault::HeaderMismatch { .. }
        | RequestFault::TooLarge { .. }
        | RequestFault::Invalid(_)
        | RequestFault::NotSupported(_)
        | RequestFault::Task(_) => Code::Answered,
        RequestFault::Transport(TransportFault::NeedsLogin(_)) => Code::Login,
        RequestFault::DefinitionChanged | RequestFault::Declined(_) => Code::Denied,
        RequestFault::NotSent(_) => Code::Usage,
        // No response in time, or the connection was lost.
        _ => Code::Unreachable,
    }
}

/// The server requires a client capability that the caller does not offer, such as sampling
/// (2026-07-28).
fn lacks_capability(fault: &RequestFault) -> bool {
    matches!(fault, RequestFault::ErrorResponse { code: -32021, .. })
}

impl From<NotReady> for Failure {
    fn from(not_ready: NotReady) -> Self {
        let hint = not_ready
            .hint
            .and_then(|hint| hints::describe(hint, &not_ready.server, None));
        let failure = Self::new(code_of_state(&not_ready.state), not_ready.to_string());
        Self {
            hint,
            ..failure.server(not_ready.server)
        }
    }
}

/// The exit code for a server that is not ready.
pub(crate) fn code_of_state(state: &State) -> Code {
    match state {
        State::Untrusted { .. } | State::Blocked { .. } => Code::Denied,
        State::NeedsLogin { .. } => Code::Login,
        _ => Code::Unreachable,
    }
}

impl From<ConfigErrors> for Failure {
    fn from(errors: ConfigErrors) -> Self {
        // A file may contain anything: its findings are printed escaped, one per line.
        let lines: Vec<_> = errors
            .0
            .iter()
            .map(|finding| {
                Untrusted::new(finding.to_string())
                    .for_terminal_line()
                    .to_string()
            })
            .collect();
        Self::new(Code::Usage, lines.join("\n"))
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let shown = |text: String| Untrusted::new(text).for_terminal_line().to_string();
        let StoreError::Io { path, source } = &error else {
            return Self::new(Code::Usage, shown(error.to_string()));
        };
        let path = shown(path.display().to_string());
        let is_full = source.kind() == std::io::ErrorKind::StorageFull;
        Self::new(
            Code::Usage,
            format!("the state folder cannot be used: {path}: {source}"),
        )
        .hint(match is_full {
            true => "make room, or set XDG_STATE_HOME",
            false => "check its permissions, or set XDG_STATE_HOME",
        })
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_failure_with_json_is_one_line_with_every_key() {
        let failure = Failure::new(Code::Denied, "no\nterminal").server("git");
        let line = failure.as_json(&[]);
        assert_eq!(
            line,
            r#"{"error":{"code":5,"hint":null,"message":"no\nterminal","server":"git"}}"#
        );
        let with = failure.as_json(&["declined".into()]);
        assert_eq!(with.lines().count(), 1);
        assert!(with.contains(r#""notices":["declined"]"#));
    }

    #[test]
    fn a_usage_error_with_json_names_the_arguments_that_are_missing() {
        let check = |text: &str, expected: &str| assert_eq!(usage_message(text), expected);
        check(
            "error: the following required arguments were not provided:\n  <TOOL>\n\nUsage: switchboard call <TOOL>\n\nFor more information, try '--help'.\n",
            "the following required arguments were not provided: <TOOL>",
        );
        check(
            "error: unrecognized subcommand 'stat'\n\n  tip: a similar subcommand exists: 'status'\n\nUsage: switchboard [OPTIONS]\n",
            "unrecognized subcommand 'stat' tip: a similar subcommand exists: 'status'",
        );
        check(
            "error: invalid value 'x' for '--wait <SECS>': expected a number\n\nFor more information, try '--help'.\n",
            "invalid value 'x' for '--wait <SECS>': expected a number",
        );
    }

    #[test]
    fn a_call_that_may_have_run_says_so_and_another_request_does_not() {
        let late = || CallError::Request {
            server: switchboard::name::ServerName::new("s").unwrap(),
            fault: RequestFault::Closed("it exited".into()),
            detail: None,
            hint: Some(switchboard::Hint::CheckToken),
        };
        let hint = "check `bearer_token` of its entry";
        assert_eq!(Failure::from(late()).hint.as_deref(), Some(hint));
        let expected =
            format!("{hint}; the call may have been executed: check before you repeat it");
        assert_eq!(Failure::of_call(late()).hint, Some(expected));
    }

    #[test]
    fn only_an_error_of_the_file_system_blames_the_state_folder() {
        let damaged = Failure::from(StoreError::Damaged {
            path: "a\u{1b}".into(),
            kept_as: "b".into(),
        });
        assert_eq!(damaged.hint, None);
        assert!(!damaged.message.contains('\u{1b}'), "{damaged:?}");
        assert_eq!(Failure::from(StoreError::Failed).hint, None);
    }

    #[test]
    fn each_state_has_its_exit_code() {
        let check = |state: State, code: Code| assert_eq!(code_of_state(&state), code, "{state:?}");
        check(
            State::Untrusted {
                reason: "new".into(),
            },
            Code::Denied,
        );
        check(
            State::Blocked {
                rule: "deny_servers".into(),
            },
            Code::Denied,
        );
        check(
            State::NeedsLogin {
                url: "https://x".into(),
                reason: "there is no login".into(),
                hint: switchboard::Hint::LogIn,
            },
            Code::Login,
        );
        check(State::Disabled, Code::Unreachable);
        check(
            State::Failed {
                error: "gone".into(),
            },
            Code::Unreachable,
        );
        check(State::Stopped, Code::Unreachable);
    }
}
