//! Lays JSON text out in lines, and changes nothing else: key order, numbers and escapes stay as
//! they came.

use crate::wire::NotJson;

/// What is nested deeper is not shown.
const DEEPEST: usize = 128;

/// The same JSON, two spaces for each step inside. The text must be JSON.
pub(super) fn pretty(text: &str) -> Result<String, NotJson> {
    check_depth(text)?;
    let mut laid = String::with_capacity(text.len() * 2);
    let mut depth = 0_usize;
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (token, after) = rest.split_at(token_length(rest, first));
        rest = after;
        match first {
            ' ' | '\n' | '\t' | '\r' => {}
            '{' | '[' => {
                laid.push(first);
                let closing = if first == '{' { '}' } else { ']' };
                if let Some(after) = rest.trim_start().strip_prefix(closing) {
                    laid.push(closing);
                    rest = after;
                    continue;
                }
                depth += 1;
                new_line(&mut laid, depth);
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut laid, depth);
                laid.push(first);
            }
            ',' => {
                laid.push(',');
                new_line(&mut laid, depth);
            }
            ':' => laid.push_str(": "),
            _ => laid.push_str(token),
        }
    }
    Ok(laid)
}

/// The error that [`pretty`] would end in, found without laying anything out.
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
        if depth > DEEPEST {
            return Err(NotJson("nested deeper than 128".to_owned()));
        }
    }
    Ok(())
}

/// A string is one token with all it holds; other characters stand for themselves.
fn token_length(rest: &str, first: char) -> usize {
    if first != '"' {
        return first.len_utf8();
    }
    let mut escaped = false;
    for (at, byte) in rest.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

fn new_line(laid: &mut String, depth: usize) {
    laid.push('\n');
    laid.extend(std::iter::repeat_n("  ", depth));
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
