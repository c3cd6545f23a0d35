//! The caller that sits at the terminal: approvals and elicitations are asked there; without one
//! they are refused, with a line.

use std::sync::Arc;

use switchboard::caller::{
    Approval, ApprovalRequest, BoxFuture, Caller, CallerId, ElicitAnswer, Elicitation,
    ElicitationKind, LogLine, Offers, Progress,
};
use switchboard::event::LogLevel;
use tokio::sync::Mutex;

use crate::{interrupt, notices, output, progress};

/// The question whether a call may run.
mod approve;
/// A server's form.
mod form;
/// Pages of lines that fit the screen, and the dialogs drawn on them.
mod frame;
/// JSON text laid out for reading, byte for byte the same value.
pub(crate) mod json;
/// What a key press means.
mod keys;
/// A login page.
pub(crate) mod login;
/// The terminal itself.
pub(crate) mod tty;
/// A server's wish that a page be opened.
mod url;

use frame::{Dialog, Key};
use tty::{Screen, Tty};

/// Whoever started this program.
pub(crate) fn caller() -> Arc<dyn Caller> {
    caller_with_log(None)
}

/// The same, who also wants to see what a server logs during the call, from this level on.
pub(crate) fn caller_with_log(level: Option<LogLevel>) -> Arc<dyn Caller> {
    Arc::new(TerminalCaller {
        prompt_lock: Mutex::new(()),
        level,
    })
}

struct TerminalCaller {
    /// One question at a time.
    prompt_lock: Mutex<()>,
    /// What of a server's log they want to see.
    level: Option<LogLevel>,
}

impl Caller for TerminalCaller {
    fn id(&self) -> CallerId {
        CallerId::new("terminal")
    }

    fn offers(&self) -> Offers {
        Offers {
            elicit_form: true,
            elicit_url: true,
            ..Offers::default()
        }
    }

    fn approve<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, Approval> {
        Box::pin(async move {
            let _turn = self.prompt_lock.lock().await;
            // The refusal that follows is the line on stderr.
            let Some(terminal) = Tty::open() else {
                return Approval::Unavailable;
            };
            run_dialog(terminal, &mut approve::ApprovalDialog::new(request))
                .await
                .unwrap_or(Approval::Unavailable)
        })
    }

    fn elicit<'a>(&'a self, question: &'a Elicitation) -> BoxFuture<'a, ElicitAnswer> {
        Box::pin(async move {
            let _turn = self.prompt_lock.lock().await;
            let Some(terminal) = Tty::open() else {
                output::notice(&format!(
                    "server \"{}\" asks something: declined, there is no terminal to ask on",
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
                            output::notice(&format!(
                                "server \"{}\" asks with a form that cannot be shown ({fault}): declined",
                                question.server
                            ));
                            ElicitAnswer::Decline
                        }
                    }
                }
                ElicitationKind::Url { message, url, .. } => {
                    url::ask(terminal, &question.server, message, url).await
                }
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

/// Draws a dialog until a key answers it. Dropping the future takes it off the screen and restores
/// the terminal (F28).
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
                    // The one who waits for this answer drops the question now.
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
