//! A login page before the person: asked about and opened in a browser, or printed for one
//! elsewhere.

use std::io::BufRead;

use switchboard::auth::{LoginPage, Opener, PageOutcome};
use switchboard::caller::BoxFuture;
use switchboard::untrusted::Untrusted;

use super::tty::Tty;
use super::url;
use crate::output;

/// Asks at the terminal, and opens the browser on a yes.
#[derive(Debug)]
pub(crate) struct OpenInBrowser;

impl Opener for OpenInBrowser {
    fn open<'a>(&'a self, page: &'a LoginPage) -> BoxFuture<'a, PageOutcome> {
        Box::pin(async move {
            match Tty::open() {
                Some(terminal) => url::ask_login(terminal, page).await,
                None => {
                    // Nothing is opened unasked; the address alone does no harm, and the answer may
                    // come.
                    print(page);
                    print_waiting(page);
                    PageOutcome::Shown
                }
            }
        })
    }
}

/// Prints the address, and reads the one that it leads to.
#[derive(Debug)]
pub(crate) struct PasteRedirect;

const QUESTION: &str = "Paste the address that the browser ends at (it begins with http://127.0.0.1), even if it shows an error there:\n";

impl Opener for PasteRedirect {
    fn open<'a>(&'a self, page: &'a LoginPage) -> BoxFuture<'a, PageOutcome> {
        Box::pin(async move {
            print(page);
            let line = match Tty::open() {
                Some(terminal) => terminal.line(QUESTION).await,
                None => {
                    output::line_on_stderr(QUESTION.trim_end());
                    // Left behind if the answer comes another way: it ends with the program.
                    tokio::task::spawn_blocking(read_line_from_stdin)
                        .await
                        .ok()
                        .flatten()
                }
            };
            match line {
                Some(line) if !line.trim().is_empty() => PageOutcome::Returned(line),
                // The end of input is no answer; the browser may be on this machine.
                _ => {
                    print_waiting(page);
                    PageOutcome::Shown
                }
            }
        })
    }
}

fn read_line_from_stdin() -> Option<String> {
    let mut line = String::new();
    let read = std::io::Read::take(std::io::stdin().lock(), 64 * 1024).read_line(&mut line);
    read.is_ok_and(|count| count > 0).then_some(line)
}

fn print(page: &LoginPage) {
    let host = Untrusted::new(page.url.host_str().unwrap_or_default());
    output::line_on_stderr(&format!(
        "log in to server \"{}\" at {}:",
        page.server,
        host.for_terminal_line()
    ));
    // Said at once, also where notices wait for the end. Parsed and written anew, so it is one word
    // of plain characters.
    output::line_on_stderr(page.url.as_str());
}

/// Without it a program that waits for a browser looks like one that hangs.
fn print_waiting(page: &LoginPage) {
    output::line_on_stderr(&format!(
        "waiting up to 10 minutes until a browser on this machine comes back from there to {}; on another machine: \
         `switchboard login {} --no-browser`",
        page.redirect, page.server
    ));
}
