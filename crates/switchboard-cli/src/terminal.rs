//! The caller at the terminal: asks for approvals and elicitations; without a terminal they are
//! refused, with a line on stderr.

use std::sync::Arc;

use switchboard::caller::{
    Approval, ApprovalRequest, BoxFuture, Caller, CallerCapabilities, CallerId, ElicitAnswer,
    Elicitation, ElicitationKind, LogLine, Progress,
};
use switchboard::event::LogLevel;
use tokio::sync::Mutex;

use crate::{interrupt, notices, output, progress};

/// The approval prompt.
mod approve;
/// An elicitation form.
mod form;
/// Pages that fit the screen, and the dialogs on them.
mod frame;
/// One line that is not shown while it is typed.
pub(crate) mod hidden_line;
/// JSON formatted for reading, with every token unchanged.
pub(crate) mod json;
/// Bytes of the terminal as keys.
mod keys;
/// Login pages.
pub(crate) mod login;
/// The terminal device.
pub(crate) mod tty;
/// Keys that are typed while the program is busy.
mod typing;
/// The prompt before a page is opened in the browser.
mod url;

use frame::Dialog;
use tty::{Screen, Tty};

pub(crate) use frame::Key;
pub(crate) use typing::Typing;

/// The person who started this program.
pub(crate) fn caller() -> Arc<dyn Caller> {
    caller_with_log(None)
}

/// The same, with the server's log messages of this level and above.
pub(crate) fn caller_with_log(level: Option<LogLevel>) -> Arc<dyn Caller> {
    Arc::new(TerminalCaller {
        prompt_lock: Mutex::new(()),
        level,
        asks_for_reason: false,
    })
}

/// The person in a conversation: a model reads why a call was not approved.
pub(crate) fn conversation_caller() -> Arc<dyn Caller> {
    Arc::new(TerminalCaller {
        prompt_lock: Mutex::new(()),
        level: None,
        asks_for_reason: true,
    })
}

struct TerminalCaller {
    /// Held while a question is on the screen: one at a time.
    prompt_lock: Mutex<()>,
    /// The least level of log messages to print.
    level: Option<LogLevel>,
    /// Whether a no may have a reason.
    asks_for_reason: bool,
}

impl Caller for TerminalCaller {
    fn id(&self) -> &CallerId {
        static ID: CallerId = CallerId::from_static("terminal");
        &ID
    }

    fn capabilities(&self) -> CallerCapabilities {
        CallerCapabilities {
            elicit_form: true,
            elicit_url: true,
            ..CallerCapabilities::default()
        }
    }

    fn approve<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, Approval> {
        Box::pin(async move {
            let _turn = self.prompt_lock.lock().await;
            // The error that follows is the line on stderr.
            let Some(terminal) = Tty::open() else {
                return Approval::Unavailable;
            };
            let mut dialog = approve::ApprovalDialog::new(request, self.asks_for_reason);
            run_dialog(terminal, &mut dialog)
                .await
                .unwrap_or(Approval::Unavailable)
        })
    }

    fn elicit<'a>(&'a self, question: &'a Elicitation) -> BoxFuture<'a, ElicitAnswer> {
        Box::pin(async move {
            let _turn = self.prompt_lock.lock().await;
            let Some(terminal) = Tty::open() else {
                output::log(format!(
                    "server \"{}\" asked a question, which was declined: there is no terminal to ask on",
                    question.server
                ));
                return ElicitAnswer::Decline;
            };
            match &question.kind {
                ElicitationKind::Form { message, schema } => {
                    match form::Form::new(&question.server, message, schema) {
                        Ok(mut form) => run_dialog(terminal, &mut form)
                            .await
                            .unwrap_or(ElicitAnswer::Cancel),
                        Err(fault) => {
                            output::log(format!(
                                "server \"{}\" sent a form that cannot be shown ({fault}): declined",
                                question.server
                            ));
                            ElicitAnswer::Decline
                        }
                    }
                }
                ElicitationKind::Url { message, url, .. } => {
                    url::ask(terminal, &question.server, message, url).await
                }
                _ => ElicitAnswer::Decline,
            }
        })
    }

    fn log_level(&self) -> Option<LogLevel> {
        self.level
    }

    fn log(&self, line: &LogLine) {
        if self
            .level
            .is_some_and(|least| line.level.is_none_or(|level| level >= least))
        {
            notices::log_line(
                &line.server,
                line.level.map_or("?", LogLevel::as_str),
                &line.text,
            );
        }
    }

    fn progress(&self, report: &Progress) {
        progress::show(progress::describe(report));
    }

    fn notice(&self, line: &str) {
        output::notice(line);
    }
}

/// Draws a dialog until a key answers it. Dropping the future removes it and restores the terminal.
async fn run_dialog<D: Dialog>(terminal: Tty, dialog: &mut D) -> Option<D::Answer> {
    let _quiet = progress::pause();
    let mut screen = Screen::enter(terminal).ok()?;
    let mut resized = tokio::time::interval(std::time::Duration::from_millis(250));
    let mut drawn = None;
    loop {
        let size = Screen::size();
        if drawn != Some(size) {
            screen.draw(&frame::lay_out(dialog, size));
            drawn = Some(size);
        }
        tokio::select! {
            key = screen.key() => match key? {
                Key::Ctrl('c') => {
                    interrupt::ctrl_c_pressed();
                    // The signal handler ends the work, which drops this future.
                    std::future::pending::<()>().await;
                }
                key => {
                    if let Some(answer) = dialog.press(key, size) {
                        return Some(answer);
                    }
                    drawn = None;
                }
            },
            _ = resized.tick() => {}
        }
    }
}
