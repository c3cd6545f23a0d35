//! Reads one value of a field, by the kind of the field.

use std::time::Duration;

use super::{AtOffset, FieldValue, RawRule, report_unknown};
use crate::diagnostic::{Diagnostics, visible_key};
use crate::fields::{FieldSpec, ValueKind, nearest};
use crate::quantity;
use crate::reference::{ReferenceSyntax, TextRole};
use crate::secret::Secret;
use crate::tree::{Node, TableEntry, Tree};

/// Reads a value of the field's kind, or reports what was expected.
pub(crate) fn read_value(
    field: &FieldSpec,
    node: &Node,
    syntax: ReferenceSyntax,
    path: &str,
    diagnostics: &mut Diagnostics<'_>,
) -> FieldValue {
    let read = match (field.kind, &node.value) {
        (ValueKind::Text, Tree::Text(text)) => Ok(FieldValue::Text(text.clone())),
        (ValueKind::Texts, Tree::List(items)) => return texts(items, path, diagnostics),
        (ValueKind::Rules, Tree::List(items)) => return rules(items, path, diagnostics),
        (ValueKind::Secrets, Tree::Table(entries)) => {
            return secrets(entries, syntax, path, diagnostics);
        }
        (ValueKind::Secret, Tree::Text(text)) => match syntax.segments(TextRole::Value, text) {
            Ok(_) => Ok(FieldValue::Secret(Secret::new(text.clone()))),
            Err(message) => Err(message.to_owned()),
        },
        (ValueKind::Port, Tree::Number(number)) => match number.parse() {
            Ok(port) if port > 0 => Ok(FieldValue::Port(port)),
            _ => Err(format!(
                "expected {}",
                form(ValueKind::Port, diagnostics.json)
            )),
        },
        (ValueKind::Flag, Tree::Flag(flag)) => Ok(FieldValue::Flag(*flag)),
        (ValueKind::Duration, Tree::Text(text)) => {
            quantity::duration(text).map(FieldValue::Duration)
        }
        (ValueKind::Bytes, Tree::Text(text)) => quantity::bytes(text).map(FieldValue::Bytes),
        (ValueKind::Bytes, Tree::Number(number)) => match number.parse() {
            Ok(number) => quantity::bounded_bytes(number).map(FieldValue::Bytes),
            Err(_) => Err(format!("expected {}", quantity::BYTES_FORM)),
        },
        (ValueKind::Milliseconds, Tree::Number(number)) => match number.parse::<u64>() {
            Ok(milliseconds) if milliseconds > 0 => {
                Ok(FieldValue::Duration(Duration::from_millis(milliseconds)))
            }
            _ => Err(format!(
                "expected {}",
                form(ValueKind::Milliseconds, diagnostics.json)
            )),
        },
        (ValueKind::Seconds, Tree::Number(number)) => seconds(number)
            .map(FieldValue::Duration)
            .ok_or_else(|| format!("expected {}", form(ValueKind::Seconds, diagnostics.json))),
        (ValueKind::Count, Tree::Number(number)) => match number.parse() {
            Ok(count) if count > 0 => Ok(FieldValue::Count(count)),
            _ => Err(format!(
                "expected {}",
                form(ValueKind::Count, diagnostics.json)
            )),
        },
        (ValueKind::Amounts(names), Tree::Table(entries)) => {
            return amounts(entries, names, path, diagnostics);
        }
        (ValueKind::Choice(words), Tree::Text(text)) => choice(field.name, text, words),
        (kind, _) => Err(format!(
            "expected {}, found {}",
            form(kind, diagnostics.json),
            diagnostics.kind(node)
        )),
    };
    read.unwrap_or_else(|message| {
        diagnostics.error(node.at, path, message);
        FieldValue::Invalid
    })
}

fn choice(
    name: &str,
    text: &str,
    words: &'static [(&'static str, &'static str)],
) -> Result<FieldValue, String> {
    if let Some((word, _)) = words.iter().find(|(word, _)| *word == text) {
        return Ok(FieldValue::Choice(word));
    }
    let known = words.iter().map(|(word, _)| *word);
    let noun = if matches!(name, "start" | "asks" | "session" | "audit_arguments") {
        "value"
    } else {
        name
    };
    let expected = format!(
        "unknown {noun} {}; expected {}",
        quoted(text),
        one_of(known.clone())
    );
    Err(match nearest(text, known) {
        Some(near) => format!("{expected} (did you mean \"{near}\"?)"),
        None => expected,
    })
}

fn amounts(
    entries: &[TableEntry],
    names: &'static [&'static str],
    path: &str,
    diagnostics: &mut Diagnostics<'_>,
) -> FieldValue {
    let mut read = Vec::new();
    for TableEntry { key, at, value } in entries {
        let Some(name) = names.iter().find(|name| *name == key) else {
            report_unknown(key, *at, path, "field", names.iter().copied(), diagnostics);
            continue;
        };
        let amount = match &value.value {
            Tree::Number(number) => decimal(number),
            _ => None,
        };
        match amount.filter(|amount: &f64| amount.is_finite() && *amount >= 0.0) {
            Some(amount) => read.push((*name, amount)),
            None => diagnostics.error(
                value.at,
                format!("{path}.{name}"),
                "expected a number that is not negative, such as 0.25",
            ),
        }
    }
    FieldValue::Amounts(read)
}

fn decimal(number: &str) -> Option<f64> {
    // A TOML float has a dot at its end, so that it is never read as a whole number.
    number.replace('_', "").trim_end_matches('.').parse().ok()
}

/// More than zero; at most as long as a duration in milliseconds can be.
fn seconds(number: &str) -> Option<Duration> {
    let seconds = Duration::try_from_secs_f64(decimal(number)?).ok()?;
    (seconds > Duration::ZERO).then_some(seconds)
}

fn texts(items: &[Node], path: &str, diagnostics: &mut Diagnostics<'_>) -> FieldValue {
    let mut read = Vec::with_capacity(items.len());
    let mut wrong = false;
    for (index, item) in items.iter().enumerate() {
        match item.text() {
            Some(text) => read.push(AtOffset {
                at: item.at,
                value: text.to_owned(),
            }),
            None => {
                wrong = true;
                diagnostics.error(
                    item.at,
                    format!("{path}[{index}]"),
                    format!("expected a string, found {}", diagnostics.kind(item)),
                );
            }
        }
    }
    if wrong {
        FieldValue::Invalid
    } else {
        FieldValue::Texts(read)
    }
}

/// Each rule is a string, or a table with a client and its tools.
fn rules(items: &[Node], path: &str, diagnostics: &mut Diagnostics<'_>) -> FieldValue {
    let mut read = Vec::with_capacity(items.len());
    let mut wrong = false;
    for (index, item) in items.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let rule = match &item.value {
            Tree::Text(text) => Some(RawRule {
                text: text.clone(),
                client: None,
            }),
            Tree::Table(_) => client_rule(item, &path, diagnostics),
            _ => {
                let found = diagnostics.kind(item);
                let message = format!("expected {RULE_FORM}, found {found}");
                diagnostics.error(item.at, path, message);
                None
            }
        };
        wrong |= rule.is_none();
        read.extend(rule.map(|value| AtOffset { at: item.at, value }));
    }
    if wrong {
        FieldValue::Invalid
    } else {
        FieldValue::Rules(read)
    }
}

const RULE_FORM: &str = "\"server/tool\" or a table with a client, such as { tool = \"server/tool\", client = \"codex\" }";

/// A rule for one client. Without a tool it applies to all tools.
fn client_rule(item: &Node, path: &str, diagnostics: &mut Diagnostics<'_>) -> Option<RawRule> {
    let (mut tool, mut client) = (Some("*".to_owned()), None);
    for TableEntry { key, at, value } in item.entries() {
        let text = value.text().filter(|text| !text.trim().is_empty());
        match key.as_str() {
            "tool" => tool = text.map(str::to_owned),
            "client" => client = text.map(str::to_owned),
            _ => {
                let known = ["tool", "client"].into_iter();
                report_unknown(key, *at, path, "field", known, diagnostics);
            }
        }
    }
    if client.is_none() || tool.is_none() {
        diagnostics.error(item.at, path, format!("expected {RULE_FORM}"));
    }
    Some(RawRule {
        text: tool?,
        client: Some(client?),
    })
}

fn secrets(
    entries: &[TableEntry],
    syntax: ReferenceSyntax,
    path: &str,
    diagnostics: &mut Diagnostics<'_>,
) -> FieldValue {
    let mut read = Vec::with_capacity(entries.len());
    let mut wrong = false;
    for TableEntry { key, at, value } in entries {
        let path = format!("{path}.{}", visible_key(key));
        match value.text() {
            Some(text) => match syntax.segments(TextRole::Value, text) {
                Ok(_) => read.push(AtOffset {
                    at: *at,
                    value: (key.clone(), Secret::new(text)),
                }),
                Err(message) => {
                    wrong = true;
                    diagnostics.error(value.at, path, message);
                }
            },
            None => {
                wrong = true;
                let quotes = if matches!(value.value, Tree::Other(_)) {
                    ""
                } else {
                    "; put the value in quotes"
                };
                let message = format!(
                    "expected a string, found {}{quotes}",
                    diagnostics.kind(value)
                );
                diagnostics.error(value.at, path, message);
            }
        }
    }
    if wrong {
        FieldValue::Invalid
    } else {
        FieldValue::Secrets(read)
    }
}

fn form(kind: ValueKind, json: bool) -> String {
    match kind {
        ValueKind::Text => "a string in quotes".to_owned(),
        ValueKind::Texts | ValueKind::Rules => {
            "a list of strings, such as [\"a\", \"b\"]".to_owned()
        }
        ValueKind::Secrets if json => {
            "an object of strings, such as { \"NAME\": \"value\" }".to_owned()
        }
        ValueKind::Secrets => "a table of strings, such as { NAME = \"value\" }".to_owned(),
        ValueKind::Secret => "a string in quotes".to_owned(),
        ValueKind::Port => "a port from 1 to 65535".to_owned(),
        ValueKind::Flag => "true or false".to_owned(),
        ValueKind::Duration => quantity::DURATION_FORM.to_owned(),
        ValueKind::Bytes => quantity::BYTES_FORM.to_owned(),
        ValueKind::Milliseconds => "a whole number of milliseconds, more than 0".to_owned(),
        ValueKind::Seconds => "a number of seconds, more than 0".to_owned(),
        ValueKind::Count => "a whole number above 0".to_owned(),
        ValueKind::Amounts(names) => format!("a table of numbers for {}", names.join(", ")),
        ValueKind::Choice(words) => one_of(words.iter().map(|(word, _)| *word)),
    }
}

fn quoted(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}

fn one_of(words: impl Iterator<Item = &'static str>) -> String {
    let words: Vec<String> = words.map(|word| format!("\"{word}\"")).collect();
    match words.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}
