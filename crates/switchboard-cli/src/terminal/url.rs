//! The prompt before a page is opened in the browser: shows the host and the full address; nothing
//! is fetched before a yes.

use serde_json::Map;
use switchboard::auth::{LoginPage, PageOutcome, parse_page_url};
use switchboard::caller::ElicitAnswer;
use switchboard::name::ServerName;
use switchboard::untrusted::Untrusted;
use url::Url;

use super::frame::{
    Dialog, FAINT, Key, PLAIN, Page, Size, TITLE, WARNING, choices, own_line, own_lines,
    quoted_lines, safe, wrap,
};
use super::run_dialog;
use super::tty::Tty;
use crate::output;

/// Asks about a server's page, and opens it after a yes.
pub(super) async fn ask(
    terminal: Tty,
    server: &ServerName,
    message: &Untrusted,
    address: &Untrusted,
) -> ElicitAnswer {
    let page = match parse_page_url(address.raw()) {
        Ok(page) => page,
        Err(fault) => {
            let shown = address.for_terminal_line();
            output::log(format!(
                "server \"{server}\" asks to open {shown}: declined, {fault}"
            ));
            return ElicitAnswer::Decline;
        }
    };
    let title = format!("Server \"{server}\" asks you to open a page");
    let mut dialog = OpenPageDialog {
        title,
        message: message.raw().to_owned(),
        page,
    };
    match run_dialog(terminal, &mut dialog).await {
        Some(OpenPageAnswer::Open) => {
            open(dialog.page).await;
            ElicitAnswer::Accept(Map::new())
        }
        Some(OpenPageAnswer::ByHand) => {
            output::notice(&format!("open it yourself: {}", dialog.page));
            ElicitAnswer::Accept(Map::new())
        }
        Some(OpenPageAnswer::Decline) => ElicitAnswer::Decline,
        Some(OpenPageAnswer::Cancel) | None => ElicitAnswer::Cancel,
    }
}

/// Asks about a login page, and opens it after a yes.
pub(super) async fn ask_login(terminal: Tty, page: &LoginPage) -> PageOutcome {
    // Parsed again: this is what the browser gets.
    let url = match parse_page_url(page.url.as_str()) {
        Ok(url) => url,
        Err(fault) => return PageOutcome::Refused(fault.to_owned()),
    };
    let asks = if page.scopes.is_empty() {
        String::new()
    } else {
        format!("It asks for: {}", page.scopes.join(", "))
    };
    let mut dialog = OpenPageDialog {
        title: format!("Log in to server \"{}\"", page.server),
        message: asks,
        page: url,
    };
    match run_dialog(terminal, &mut dialog).await {
        Some(OpenPageAnswer::Open) => {
            open(dialog.page).await;
            PageOutcome::Shown
        }
        Some(OpenPageAnswer::ByHand) => {
            output::notice(&format!("open it yourself: {}", dialog.page));
            PageOutcome::Shown
        }
        Some(OpenPageAnswer::Decline | OpenPageAnswer::Cancel) | None => {
            PageOutcome::Refused("the page was not opened".to_owned())
        }
    }
}

/// Opens the address in the browser, without a shell, and prints it in any case.
async fn open(page: Url) {
    output::notice(&format!("opening {page}"));
    let opened = tokio::task::spawn_blocking(move || {
        let quiet = webbrowser::BrowserOptions::new()
            .with_suppress_output(true)
            .clone();
        webbrowser::open_browser_with_options(webbrowser::Browser::Default, page.as_str(), &quiet)
    })
    .await;
    if !matches!(opened, Ok(Ok(()))) {
        output::notice("no browser could be started; open the address yourself");
    }
}

/// The prompt as a dialog.
struct OpenPageDialog {
    title: String,
    message: String,
    page: Url,
}

/// The answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OpenPageAnswer {
    Open,
    ByHand,
    Decline,
    Cancel,
}

impl Dialog for OpenPageDialog {
    type Answer = OpenPageAnswer;

    fn press(&mut self, key: Key, _: Size) -> Option<OpenPageAnswer> {
        match key {
            Key::Char('o') => Some(OpenPageAnswer::Open),
            Key::Char('m') => Some(OpenPageAnswer::ByHand),
            Key::Char('n') | Key::Ctrl('d') | Key::Enter => Some(OpenPageAnswer::Decline),
            Key::Esc => Some(OpenPageAnswer::Cancel),
            _ => None,
        }
    }

    fn page(&self, columns: usize) -> Page {
        let host = self.page.host_str().unwrap_or_default();
        let mut head = own_lines(&self.title, columns, TITLE);
        head.extend(own_lines(
            "Nothing has been fetched. Text behind a bar is the server's.",
            columns,
            FAINT,
        ));
        let mut body = Vec::new();
        if !self.message.is_empty() {
            body = quoted_lines(&self.message, columns, PLAIN);
            body.push(own_line(String::new(), PLAIN));
        }
        body.push(own_line("The host:", FAINT));
        body.extend(
            wrap(&format!("  {}", safe(host)), columns)
                .into_iter()
                .map(|line| own_line(line, TITLE)),
        );
        if host.split('.').any(|label| label.starts_with("xn--")) {
            let warning = "  The name has non-ASCII letters (Punycode) and may imitate another.";
            body.extend(own_lines(warning, columns, WARNING));
        }
        body.push(own_line("The full address:", FAINT));
        body.extend(quoted_lines(self.page.as_str(), columns, PLAIN));
        let mut foot = vec![own_line("Enter is no", FAINT)];
        let keys = [
            "[o] open it",
            "[m] I open it myself",
            "[n] decline: answer no",
            "[Esc] cancel: no answer",
        ];
        foot.extend(choices(&keys, columns));
        Page {
            head,
            body,
            foot,
            focus: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t31_a_punycode_host_is_warned_about() {
        let page = |address: &str| {
            let dialog = OpenPageDialog {
                title: "x".into(),
                message: String::new(),
                page: parse_page_url(address).unwrap_or_else(|fault| panic!("{fault}")),
            };
            dialog
                .page(80)
                .body
                .into_iter()
                .map(|line| line.text)
                .collect::<Vec<_>>()
                .join("\n")
        };
        assert!(page("https://ex\u{430}mple.com/").contains("Punycode"));
        assert!(page("https://ex\u{430}mple.com/").contains("  xn--"));
        assert!(!page("https://example.com/").contains("Punycode"));
    }
}
