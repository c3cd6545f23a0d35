//! Text of servers and clients on the page. [`Untrusted`] has no `Display` and implements no
//! `Render`: this is its only way into a template, where hidden characters become visible and HTML
//! is escaped.

use maud::{Render, html};
use serde_json::Value;
use switchboard::untrusted::Untrusted;

/// Untrusted text, on one line or as it is.
pub(super) struct ForeignText<'a>(pub(super) &'a Untrusted);

impl Render for ForeignText<'_> {
    fn render_to(&self, buffer: &mut String) {
        self.0.for_terminal().to_string().render_to(buffer);
    }
}

/// Untrusted text that is not marked as such by its type: names and arguments of clients.
pub(super) fn foreign(text: &str) -> maud::Markup {
    let text = Untrusted::new(text);
    html! { (ForeignText(&text)) }
}

/// JSON, indented.
pub(super) fn json(text: &str) -> maud::Markup {
    let indented = serde_json::from_str::<Value>(text)
        .ok()
        .and_then(|value| serde_json::to_string_pretty(&value).ok());
    foreign(indented.as_deref().unwrap_or(text))
}

/// A sentence with commands between backticks.
pub(super) fn with_code(sentence: &str) -> maud::Markup {
    html! {
        @for (index, part) in sentence.split('`').enumerate() {
            @if index % 2 == 1 { code { (foreign(part)) } } @else { (foreign(part)) }
        }
    }
}
