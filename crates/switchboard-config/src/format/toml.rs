//! Parses TOML. The parser recovers after an error, so that all errors are reported at once.

use std::borrow::Cow;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::diagnostic::Diagnostics;
use crate::tree::{Node, TableEntry, Tree};

pub(super) fn parse(text: &str, diagnostics: &mut Diagnostics<'_>) -> Node {
    let (document, faults) = DeTable::parse_recoverable(text);
    for fault in faults {
        // Only the parser's bare message: its `Display` quotes the line, which may hold a secret.
        let at = fault.span().map(|span| span.start);
        let rest = at.and_then(|at| text.get(at..)).unwrap_or_default();
        diagnostics.syntax_error(
            at,
            format!("not valid TOML: {}", syntax(fault.message(), rest)),
        );
    }
    Node {
        at: 0,
        value: table(document.get_ref()),
    }
}

/// The entries in the order of the file: the parser sorts them by name.
fn table(table: &DeTable<'_>) -> Tree {
    let entry = |(key, value): (&Spanned<Cow<'_, str>>, &Spanned<DeValue<'_>>)| TableEntry {
        key: key.get_ref().to_string(),
        at: key.span().start,
        value: node(value),
    };
    let mut entries: Vec<TableEntry> = table.iter().map(entry).collect();
    entries.sort_by_key(|entry| entry.at);
    Tree::Table(entries)
}

fn node(value: &Spanned<DeValue<'_>>) -> Node {
    let tree = match value.get_ref() {
        DeValue::String(text) => Tree::Text(text.to_string()),
        DeValue::Integer(number) => {
            let digits = i128::from_str_radix(number.as_str(), number.radix());
            Tree::Number(
                digits.map_or_else(|_| number.as_str().to_owned(), |number| number.to_string()),
            )
        }
        DeValue::Float(number) => Tree::Number(format!("{}.", number.as_str())),
        DeValue::Boolean(flag) => Tree::Flag(*flag),
        DeValue::Datetime(_) => Tree::Other("a date"),
        DeValue::Array(items) => Tree::List(items.iter().map(node).collect()),
        DeValue::Table(entries) => table(entries),
    };
    Node {
        at: value.span().start,
        value: tree,
    }
}

/// Rewords the parser's most common messages. `rest` is the text after the error; it is not shown.
fn syntax(message: &str, rest: &str) -> String {
    let next = rest
        .chars()
        .next()
        .filter(|next| *next != '\n' && *next != '\r');
    let is_scalar = [
        "invalid float",
        "invalid integer",
        "invalid boolean",
        "string values must be quoted",
    ];
    if is_scalar.iter().any(|start| message.starts_with(start)) {
        return match next {
            None | Some('#') => "the value is missing".to_owned(),
            Some(next) if next.is_ascii_digit() || matches!(next, '+' | '-') => {
                "neither a number nor a string; a string must be in quotes".to_owned()
            }
            Some(_) => "a string must be in quotes: \"…\"".to_owned(),
        };
    }
    match message {
        "recursion limit" | "cannot recurse further; max recursion depth met" => {
            "nested too deeply".to_owned()
        }
        "duplicate key" => "this name is already set above; each may occur once".to_owned(),
        "invalid key-value pair, expected key" if next == Some('{') => {
            "this looks like JSON; expected TOML, which begins with [servers.NAME]".to_owned()
        }
        "invalid basic string, expected `\"`" | "invalid literal string, expected `'`" => {
            "the string is not closed; expected the closing quote before the end of the line"
                .to_owned()
        }
        other => other.replace('\n', ", "),
    }
}
