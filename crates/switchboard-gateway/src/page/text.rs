//! Text of servers and clients on the page. [`Untrusted`] has no `Display` and implements no
//! `Render`: this is its only way into a template, where hidden characters become visible and HTML
//! is escaped.

use std::borrow::Cow;

use maud::{Render, html};
use switchboard::result::{indent_json, readable_json};
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

/// JSON, indented. Numbers and the order of members stay as they were sent.
pub(super) fn json(text: &str) -> maud::Markup {
    const MAX_INDENT: usize = 20;
    foreign(&indent_json(text, MAX_INDENT, |token| {
        Cow::Owned(readable_json(token))
    }))
}

/// A sentence with commands between backticks.
pub(super) fn with_code(sentence: &str) -> maud::Markup {
    html! {
        @for (index, part) in sentence.split('`').enumerate() {
            @if index % 2 == 1 { code { (foreign(part)) } } @else { (foreign(part)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_on_the_page_is_what_was_sent() {
        let sent = r#"{"to":1234567890123456789012,"amount":1.00,"a":"\u0072m"}"#;
        let shown = json(sent).into_string().replace("&quot;", "\"");
        let expected =
            "{\n  \"to\": 1234567890123456789012,\n  \"amount\": 1.00,\n  \"a\": \"rm\"\n}";
        assert_eq!(shown, expected);
    }
}
