//! Parses JSON with comments and trailing commas, as editors allow them in configuration files.
//!
//! The parser stops at the first error and limits the depth. Messages repeat no value, which may be
//! a secret.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;

use jsonc_parser::ast::{Object, Value};
use jsonc_parser::common::Ranged;
use jsonc_parser::errors::ParseErrorKind;
use jsonc_parser::{CollectOptions, ParseOptions, ParseStringErrorKind, parse_to_ast};

use crate::diagnostic::{Diagnostics, visible_key};
use crate::tree::{Node, TableEntry, Tree};

/// Some editors write it before the text.
const BYTE_ORDER_MARK: char = '\u{feff}';

const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

pub(super) fn parse(text: &str, diagnostics: &mut Diagnostics<'_>) -> Node {
    let bare = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    let mut reader = JsonReader {
        before: text.len() - bare.len(),
        diagnostics,
    };
    let empty = Node {
        at: 0,
        value: Tree::Table(Vec::new()),
    };
    match parse_to_ast(bare, &CollectOptions::default(), &OPTIONS) {
        Ok(parsed) => match parsed.value {
            Some(value @ Value::Object(_)) => reader.node(value),
            Some(other) => {
                let at = reader.before + other.start();
                let kind = reader.node(other).kind();
                reader.diagnostics.syntax_error(
                    Some(at),
                    format!("expected an object, {{ … }}, found {kind}"),
                );
                empty
            }
            None => {
                reader
                    .diagnostics
                    .syntax_error(None, "empty; expected a JSON object, { … }");
                empty
            }
        },
        Err(fault) => {
            let at = fault.range().start.min(bare.len());
            let rest = bare.get(at..).unwrap_or_default();
            reader.diagnostics.syntax_error(
                Some(reader.before + at),
                format!("not valid JSON: {}", syntax(fault.kind(), rest)),
            );
            empty
        }
    }
}

/// Turns the parser's values into nodes.
struct JsonReader<'f, 'a> {
    /// The offset of the parsed text in the file.
    before: usize,
    diagnostics: &'f mut Diagnostics<'a>,
}

impl JsonReader<'_, '_> {
    fn node(&mut self, value: Value<'_>) -> Node {
        let at = self.before + value.start();
        let value = match value {
            Value::StringLit(text) => Tree::Text(text.value.into_owned()),
            Value::NumberLit(number) => Tree::Number(number.value.to_owned()),
            Value::BooleanLit(flag) => Tree::Flag(flag.value),
            Value::NullKeyword(_) => Tree::Null,
            Value::Array(list) => Tree::List(
                list.elements
                    .into_iter()
                    .map(|item| self.node(item))
                    .collect(),
            ),
            Value::Object(object) => Tree::Table(self.entries(object)),
        };
        Node { at, value }
    }

    /// A repeated key is an error: programs disagree on which value counts.
    fn entries(&mut self, object: Object<'_>) -> Vec<TableEntry> {
        let mut entries = Vec::with_capacity(object.properties.len());
        let mut seen = HashMap::new();
        for property in object.properties {
            let at = self.before + property.name.start();
            let key = property.name.into_string();
            match seen.entry(key.clone()) {
                Slot::Occupied(first) => {
                    let line = self.diagnostics.lines.line(*first.get());
                    let message = format!(
                        "{} is already set in line {line}; each key may occur once",
                        visible_key(&key)
                    );
                    self.diagnostics.syntax_error(Some(at), message);
                }
                Slot::Vacant(free) => {
                    free.insert(at);
                    let value = self.node(property.value);
                    entries.push(TableEntry { key, at, value });
                }
            }
        }
        entries
    }
}

/// The parser's errors in words to act on. Of `rest`, the text after the error, only the first
/// character is used.
fn syntax(kind: &ParseErrorKind, rest: &str) -> &'static str {
    use ParseErrorKind as Fault;
    let next = rest.chars().next();
    match kind {
        Fault::ExpectedColonAfterObjectKey | Fault::UnexpectedColon => {
            "expected `\"key\": value`, with one colon between them"
        }
        Fault::ExpectedObjectValue => "the value is missing after the colon",
        Fault::ExpectedStringObjectProperty => "a key must be in double quotes: \"…\"",
        Fault::ExpectedComma => "expected a comma before this",
        Fault::UnexpectedComma => "unexpected comma",
        Fault::MultipleRootJsonValues => {
            "more follows after the closing brace; a file is one object, { … }"
        }
        Fault::SingleQuotedStringsNotAllowed => {
            "a string must be in double quotes, not in single quotes"
        }
        Fault::String(ParseStringErrorKind::UnterminatedStringLiteral) => {
            "the string is not closed; expected the closing double quote before the end of the line"
        }
        Fault::String(
            ParseStringErrorKind::ExpectedFourHexDigits
            | ParseStringErrorKind::InvalidUnicodeEscapeSequence(_),
        ) => "invalid Unicode escape; expected \\u and four hexadecimal digits",
        Fault::String(_) => "invalid escape; a backslash is written \\\\",
        Fault::UnexpectedCloseBrace => "a closing brace without its opening one",
        Fault::UnexpectedCloseBracket => "a closing bracket without its opening one",
        Fault::UnterminatedArray => "the list that begins here is not closed; expected ]",
        Fault::UnterminatedObject => "the object that begins here is not closed; expected }",
        Fault::UnterminatedCommentBlock => {
            "the comment that begins here is not closed; expected */"
        }
        Fault::NestingDepthExceeded => "nested too deeply",
        Fault::UnexpectedWord | Fault::UnexpectedToken | Fault::UnexpectedTokenInObject
            if next.is_some_and(|next| next == '[' || next.is_alphabetic()) =>
        {
            "expected a string in double quotes, a number, true, false, null, a list or an object"
        }
        Fault::ExpectedDigit
        | Fault::ExpectedDigitFollowingNegativeSign
        | Fault::ExpectedPlusMinusOrDigitInNumberLiteral
        | Fault::BareDecimalPointNumbersNotAllowed
        | Fault::HexadecimalNumbersNotAllowed
        | Fault::NonFiniteNumbersNotAllowed
        | Fault::UnaryPlusNumbersNotAllowed => "invalid number; expected one such as 15000",
        _ => "unexpected text",
    }
}
