//! JSON text with one line for each member or element. Key order, numbers and repeated keys stay as
//! they came, because the text is not parsed.

use std::borrow::Cow;

use crate::wire::NotJson;

/// More deeply nested results are not formatted.
const MAX_DEPTH: usize = 128;

/// The same JSON, indented by two spaces for each level. The text must be JSON.
pub(super) fn pretty(text: &str) -> Result<String, NotJson> {
    check_depth(text)?;
    Ok(indent_json(text, MAX_DEPTH, |token| token.into()))
}

/// Indents JSON by two spaces for each level, up to `max_indent` levels. `scalar` returns the text
/// to print for a string, number or word; `Cow::Borrowed` keeps every token as it is.
pub fn indent_json(text: &str, max_indent: usize, scalar: impl Fn(&str) -> Cow<'_, str>) -> String {
    let mut lines = String::with_capacity(text.len() * 2);
    let new_line = |lines: &mut String, depth: usize| {
        lines.push('\n');
        lines.extend(std::iter::repeat_n("  ", depth.min(max_indent)));
    };
    let mut depth = 0_usize;
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (token, after) = rest.split_at(token_length(rest, first));
        rest = after.trim_start();
        match first {
            '{' | '[' => {
                lines.push(first);
                if let Some(closing) = rest.chars().next().filter(|next| matches!(next, '}' | ']'))
                {
                    lines.push(closing);
                    rest = rest[1..].trim_start();
                    continue;
                }
                depth += 1;
                new_line(&mut lines, depth);
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut lines, depth);
                lines.push(first);
            }
            ',' => {
                lines.push(',');
                new_line(&mut lines, depth);
            }
            ':' => lines.push_str(": "),
            _ => lines.push_str(&scalar(token)),
        }
    }
    lines
}

/// The error that [`pretty`] would return, without formatting anything.
pub(super) fn check_depth(text: &str) -> Result<(), NotJson> {
    let mut depth = 0_usize;
    let mut in_string = false;
    let mut escaped = false;
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => depth += 1,
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return Err(NotJson("nested deeper than 128".to_owned()));
        }
    }
    Ok(())
}

/// The length of the first token: a whole string, a whole number or word, or one punctuation mark.
fn token_length(rest: &str, first: char) -> usize {
    const ENDS: [char; 11] = ['{', '[', '}', ']', ',', ':', '"', ' ', '\n', '\t', '\r'];
    match first {
        '"' => string_length(rest),
        _ if ENDS.contains(&first) => 1,
        _ => rest.find(ENDS).unwrap_or(rest.len()),
    }
}

fn string_length(text: &str) -> usize {
    let mut escaped = false;
    for (index, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return index + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_but_white_space_changes() {
        let text = r#"{"b":[1.50,{"c" : null}],"a":{},"e":[ ], "s":"x,\"{}[]: \u0041\\"}"#;
        let laid = "{\n  \"b\": [\n    1.50,\n    {\n      \"c\": null\n    }\n  ],\n  \"a\": {},\n  \"e\": [],\n  \"s\": \"x,\\\"{}[]: \\u0041\\\\\"\n}";
        assert_eq!(pretty(text).unwrap(), laid);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn it_reads_as_the_same_value(words in proptest::collection::vec(any::<String>(), 0..5), number in any::<i64>()) {
            let value = serde_json::json!({"words": words, "deep": [[[{"n": number}], []]], "none": null});
            prop_assert_eq!(pretty(&value.to_string()).unwrap(), format!("{value:#}"));
        }
    }
}
