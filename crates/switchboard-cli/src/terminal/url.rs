//! A server's wish that a page be opened: the whole address and its host are shown, and nothing is
//! fetched before a yes.

use serde_json::Map;
use switchboard::auth::{LoginPage, Opened, visitable};
use switchboard::caller::ElicitAnswer;
use switchboard::name::ServerName;
use switchboard::untrusted::Untrusted;
use url::Url;

use super::converse;
use super::frame::{
    Dialog, FAINT, Key, PLAIN, Page, Size, TITLE, WARNING, choices, ours, ours_wrapped, safe,
    strangers, wrap,
};
use super::tty::Tty;
use crate::output;

/// Asks, and opens the page on a yes.
pub(super) async fn ask(
    terminal: Tty,
    server: &ServerName,
    message: &Untrusted,
    address: &Untrusted,
) -> ElicitAnswer {
    let page = match visitable(address.raw()) {
        Ok(page) => page,
        Err(fault) => {
            let shown = address.for_terminal_line();
            output::notice(&format!(
                "server \"{server}\" asks to open {shown}: declined, {fault}"
            ));
            return ElicitAnswer::Decline;
        }
    };
    let title = format!("Server \"{server}\" asks you to open a page");
    let mut visit = Visit {
        title,
        message: message.raw().to_owned(),
        page,
    };
    match converse(terminal, &mut visit).await {
        Some(Wish::Open) => {
            open(visit.page).await;
            ElicitAnswer::Accept(Map::new())
        }
        Some(Wish::ByHand) => {
            output::notice(&format!("open it yourself: {}", visit.page));
            ElicitAnswer::Accept(Map::new())
        }
        Some(Wish::Decline) => ElicitAnswer::Decline,
        Some(Wish::Cancel) | None => ElicitAnswer::Cancel,
    }
}

/// Asks about a login page, and opens it on a yes.
pub(super) async fn ask_login(terminal: Tty, page: &LoginPage) -> Opened {
    // What the library hands over is parsed again: this is what the browser gets.
    let url = match visitable(page.url.as_str()) {
        Ok(url) => url,
        Err(fault) => return Opened::Refused(fault.to_owned()),
    };
    let asks = if page.scopes.is_empty() {
        String::new()
    } else {
        format!("It asks for: {}", page.scopes.join(", "))
    };
    let mut visit = Visit {
        title: format!("Log in to server \"{}\"", page.server),
        message: asks,
        page: url,
    };
    match converse(terminal, &mut visit).await {
        Some(Wish::Open) => {
            open(visit.page).await;
            Opened::Shown
        }
        Some(Wish::ByHand) => {
            output::notice(&format!("open it yourself: {}", visit.page));
            Opened::Shown
        }
        Some(Wish::Decline | Wish::Cancel) | None => {
            Opened::Refused("the page was not opened".to_owned())
        }
    }
}

/// Hands the address to the browser, without a shell, and prints it in any case (T16).
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

/// The question on the screen.
struct Visit {
    title: String,
    message: String,
    page: Url,
}

/// What the person wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    Open,
    ByHand,
    Decline,
    Cancel,
}

impl Dialog for Visit {
    type Answer = Wish;

    fn press(&mut self, key: Key, _: Size) -> Option<Wish> {
        match key {
            Key::Char('o') => Some(Wish::Open),
            Key::Char('m') => Some(Wish::ByHand),
            Key::Char('n') | Key::Ctrl('d') | Key::Enter => Some(Wish::Decline),
            Key::Esc => Some(Wish::Cancel),
            _ => None,
        }
    }

    fn page(&self, columns: usize) -> Page {
        let host = self.page.host_str().unwrap_or_default();
        let mut head = ours_wrapped(&self.title, columns, TITLE);
        head.extend(ours_wrapped(
            "Nothing has been fetched. What stands behind a bar are its words.",
            columns,
            FAINT,
        ));
        let mut body = Vec::new();
        if !self.message.is_empty() {
            body = strangers(&self.message, columns, PLAIN);
            body.push(ours(String::new(), PLAIN));
        }
        body.push(ours("The host:", FAINT));
        body.extend(
            wrap(&format!("  {}", safe(host)), columns)
                .into_iter()
                .map(|line| ours(line, TITLE)),
        );
        if host.split('.').any(|label| label.starts_with("xn--")) {
            let warning =
                "  The name is written in other letters (Punycode) and may imitate another.";
            body.extend(ours_wrapped(warning, columns, WARNING));
        }
        body.push(ours("The whole address:", FAINT));
        body.extend(strangers(self.page.as_str(), columns, PLAIN));
        let mut foot = vec![ours("Enter is no", FAINT)];
        let keys = [
            "[o] open it",
            "[m] I open it myself",
            "[n] decline: it is told no",
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
    fn t31_a_name_in_other_letters_is_warned_about() {
        let page = |address: &str| {
            let visit = Visit {
                title: "x".into(),
                message: String::new(),
                page: visitable(address).unwrap_or_else(|fault| panic!("{fault}")),
            };
            visit
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
