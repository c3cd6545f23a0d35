//! The lines of a client's file that a change adds and removes, with values of other entries masked.

use std::collections::BTreeSet;

use serde_json::Value;
use switchboard::line_diff::changed_lines;

const MASK: &str = "\"***\"";

/// The changed lines, escaped, with `- ` or `+ ` before each. Only keys and the strings of our own
/// entry (`ours`) are shown: a line may contain secrets of other entries.
pub(crate) fn changes(before: &str, after: &str, ours: &Value) -> Vec<String> {
    let mut shown = BTreeSet::new();
    collect_texts(ours, &mut shown);
    let lines = changed_lines(before, after);
    // An entry that only gets or loses its comma is not shown.
    let content = |line: &str| line[1..].trim_end().trim_end_matches(',').to_owned();
    let of = |sign: char| -> BTreeSet<String> {
        let lines = lines.iter().filter(|line| line.starts_with(sign));
        lines.map(|line| content(line)).collect()
    };
    let (removed, added) = (of('-'), of('+'));
    lines
        .iter()
        .filter(|line| {
            let content = content(line);
            !(removed.contains(&content) && added.contains(&content))
        })
        .map(|line| masked(line, &shown))
        .collect()
}

fn collect_texts(value: &Value, texts: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => _ = texts.insert(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| collect_texts(item, texts)),
        Value::Object(fields) => fields.values().for_each(|item| collect_texts(item, texts)),
        _ => {}
    }
}

fn masked(line: &str, shown: &BTreeSet<String>) -> String {
    let mut text = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(start) = rest.find('"') {
        text.push_str(&rest[..start]);
        let quoted = &rest[start..];
        let Some(length) = string_length(quoted) else {
            text.push_str(MASK);
            return text;
        };
        let (literal, after) = quoted.split_at(length);
        let is_key = after.trim_start().starts_with([':', '=']);
        let value: Option<String> = serde_json::from_str(literal).ok();
        if is_key || value.is_some_and(|value| shown.contains(&value)) {
            text.push_str(literal);
        } else {
            text.push_str(MASK);
        }
        rest = after;
    }
    text + rest
}

/// The length of the string literal that a text begins with.
fn string_length(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.char_indices().skip(1).find_map(|(at, character)| {
        if character == '"' && !is_escaped {
            return Some(at + 1);
        }
        is_escaped = character == '\\' && !is_escaped;
        None
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_of_other_entries_are_masked_and_an_added_comma_is_no_change() {
        let before = "{\n  \"a\": 1,\n  \"apiKey\": \"sk-1\"\n}\n";
        let after =
            "{\n  \"a\": 1,\n  \"apiKey\": \"sk-1\",\n  \"new\": { \"command\": \"us\" }\n}\n";
        assert_eq!(
            changes(before, after, &json!({"command": "us"})),
            ["+   \"new\": { \"command\": \"us\" }"]
        );
        let one_line = "{\"a\":{\"env\":{\"TOKEN\":\"x \\\" y\"}}}";
        let lines = changes(one_line, "{}", &Value::Null);
        assert_eq!(lines, ["- {\"a\":{\"env\":{\"TOKEN\":\"***\"}}}", "+ {}"]);
    }
}
