//! Login pages: opened in a browser after a yes, or printed for a browser elsewhere.

use std::io::{BufRead, Read};

use switchboard::auth::{LoginPage, Opener, PageOutcome};
use switchboard::caller::BoxFuture;
use switchboard::untrusted::Untrusted;

use super::tty::Tty;
use super::url;
use crate::{hints, output};

/// Asks at the terminal, and opens the browser after a yes.
#[derive(Debug)]
pub(crate) struct OpenInBrowser;

impl Opener for OpenInBrowser {
    fn open<'a>(&'a self, page: &'a LoginPage) -> BoxFuture<'a, PageOutcome> {
        Box::pin(async move {
            match Tty::open() {
                Some(terminal) => url::ask_login(terminal, page).await,
                None => {
                    // Without a terminal nothing is opened; the address is printed, and the browser
                    // may still return.
                    print(page);
                    print_waiting(page);
                    PageOutcome::Shown
                }
            }
        })
    }
}

/// The longest line that is read from stdin.
const MAX_LINE_BYTES: u64 = 64 * 1024;

/// Prints the address, and reads the redirect address.
#[derive(Debug)]
pub(crate) struct PasteRedirect;

const QUESTION: &str = "Paste the address that the browser is redirected to (it begins with http://127.0.0.1), even if the page shows an error:\n";

impl Opener for PasteRedirect {
    fn open<'a>(&'a self, page: &'a LoginPage) -> BoxFuture<'a, PageOutcome> {
        Box::pin(async move {
            print(page);
            let line = match Tty::open() {
                Some(terminal) => terminal.line(QUESTION).await,
                None => {
                    output::line_on_stderr(QUESTION.trim_end());
                    // The thread stays blocked if the browser returns first; it ends with the
                    // program.
                    tokio::task::spawn_blocking(read_line_from_stdin)
                        .await
                        .ok()
                        .flatten()
                }
            };
            match line {
                Some(line) if !line.trim().is_empty() => PageOutcome::Returned(line),
                // End of input is no answer; the browser may be on this machine.
                _ => {
                    print_waiting(page);
                    PageOutcome::Shown
                }
            }
        })
    }
}

/// One line from stdin; `None` at the end of input.
pub(crate) fn read_line_from_stdin() -> Option<String> {
    let mut line = String::new();
    let stdin = std::io::stdin().lock();
    let read = stdin.take(MAX_LINE_BYTES).read_line(&mut line);
    read.is_ok_and(|count| count > 0).then_some(line)
}

fn print(page: &LoginPage) {
    let host = Untrusted::new(page.url.host_str().unwrap_or_default());
    output::line_on_stderr(&format!(
        "log in to server \"{}\" at {}:",
        page.server,
        host.for_terminal_line()
    ));
    // Printed now even if notices are held back. It was parsed and serialised again, so it is plain
    // ASCII.
    output::line_on_stderr(page.url.as_str());
}

/// Says what the program waits for, because it would seem to hang otherwise.
fn print_waiting(page: &LoginPage) {
    output::line_on_stderr(&format!(
        "waiting up to 10 minutes for a browser on this machine to return to {}; for a browser elsewhere: {}",
        page.redirect,
        hints::login_without_browser(&page.server)
    ));
}
