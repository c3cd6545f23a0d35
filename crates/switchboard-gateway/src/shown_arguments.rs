//! The arguments of a call as a person is asked about them: bounded, so that no value can push
//! another out of sight.

use std::borrow::Cow;

use switchboard::RawJson;
use switchboard::result::{indent_json, readable_json};
use switchboard::untrusted::escaped_line;

/// One line for each value, and no hidden character. Long values are cut in the middle.
pub(crate) fn shown_arguments(arguments: &RawJson) -> String {
    const MAX_SHOWN: usize = 16 << 10;
    const MAX_INDENT: usize = 20;
    let mut shown = String::new();
    for max_bytes in [1000, 200, 60] {
        shown = indent_json(arguments.as_str(), MAX_INDENT, |token| {
            let token = elided(&readable_json(token), max_bytes);
            Cow::Owned(escaped_line(&token).to_string())
        });
        if shown.len() <= MAX_SHOWN {
            return shown;
        }
    }
    let end = shown.floor_char_boundary(MAX_SHOWN);
    let rest = shown.len() - end;
    shown.truncate(end);
    format!("(too many to show: {rest} bytes are missing at the end)\n{shown} …")
}

/// A token without its middle, if it is long.
fn elided(token: &str, max_bytes: usize) -> String {
    if token.len() <= max_bytes {
        return token.to_owned();
    }
    let head = token.floor_char_boundary(max_bytes * 2 / 3);
    let tail = token.ceil_char_boundary(token.len() - max_bytes / 3);
    let (first, last, count) = (&token[..head], &token[tail..], tail - head);
    format!("{first} … [{count} bytes not shown] … {last}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(arguments: &str) -> String {
        shown_arguments(&arguments.parse().expect("JSON"))
    }

    /// T11, T13: what a person approves for a client is visible, also if it is escaped.
    #[test]
    fn t11_t13_a_clients_approval_form_shows_hidden_characters() {
        let arguments = "{\"path\": \"a\u{202e}b\u{200b}c\", \"\\u0072m\":\n\"\\u202e\\n\"}";
        let expected = r#"{
  "path": "a\u{202e}b\u{200b}c",
  "rm": "\u{202e}\n"
}"#;
        assert_eq!(shown(arguments), expected);
    }

    /// T13: a long value is cut in the middle, and hides no other.
    #[test]
    fn t13_a_long_value_of_a_clients_approval_form_hides_no_other() {
        let long = format!("{}{}", "a".repeat(50_000), "z".repeat(50_000));
        let form = shown(&format!(r#"{{"text":"{long}","command":"rm -rf /"}}"#));
        let (head, tail) = ("a".repeat(665), "z".repeat(332));
        let expected = format!(
            "{{\n  \"text\": \"{head} … [99003 bytes not shown] … {tail}\",\n  \"command\": \"rm -rf /\"\n}}"
        );
        assert_eq!(form, expected);
        let many = vec![format!("\"{}\"", "x".repeat(5000)); 30].join(",");
        let form = shown(&format!(r#"[{many},"rm -rf /"]"#));
        assert!(form.ends_with("\"rm -rf /\"\n]"), "{form}");
        let form = shown(&format!("[{}1]", "1,".repeat(100_000)));
        assert!(form.starts_with("(too many to show: "), "{form}");
    }
}
