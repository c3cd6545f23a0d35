//! Parses HCL: blocks and attributes become entries of a table; repeated blocks are repeated
//! entries.
//!
//! Strings are converted to the native reference syntax: `env("NAME")` becomes `${NAME}`, and a
//! literal `$` becomes `$$`. Other expressions are not evaluated: they become a value that no field
//! accepts, so that only the field itself is reported.

use hcl_edit::Span;
use hcl_edit::expr::{Expression, FuncCall, ObjectKey, UnaryOperator};
use hcl_edit::parser::parse_body;
use hcl_edit::structure::{Block, Body, Structure};
use hcl_edit::template::{Element, Strip};

use crate::diagnostic::Diagnostics;
use crate::reference::{escape, is_name};
use crate::tree::{Node, TableEntry, Tree};

pub(crate) mod nesting;

const COMPUTED: &str = "an expression; only plain values and env(\"NAME\") are read";
const OTHER_FUNCTION: &str =
    "a function other than env(\"NAME\"), which is the only one that is read";
const BAD_ENV: &str = "env() without the name of one variable; expected env(\"NAME\")";
const TEMPLATE: &str = "a template with other expressions; only ${env(\"NAME\")} is read in it, and $${ is the text ${";

const TOO_DEEP: &str = "nested too deeply";

/// The parser searches an object for each key that it adds, which takes quadratic time.
const MAX_BYTES: usize = 256 * 1024;

pub(super) fn parse(text: &str, diagnostics: &mut Diagnostics<'_>) -> Node {
    if text.len() > MAX_BYTES {
        diagnostics.syntax_error(
            None,
            "larger than 256 KiB, which no HCL configuration is; is it the right file?",
        );
        return Node {
            at: 0,
            value: Tree::Table(Vec::new()),
        };
    }
    // A byte order mark is skipped.
    let start = text.len() - text.trim_start_matches('\u{feff}').len();
    if let Some(at) = nesting::too_deep_at(text) {
        diagnostics.syntax_error(Some(at), format!("not valid HCL: {TOO_DEEP}"));
        return Node {
            at: 0,
            value: Tree::Table(Vec::new()),
        };
    }
    let value = match parse_body(&text[start..]) {
        Ok(parsed) => body(&parsed, start),
        Err(fault) => {
            // Only the parser's bare message: its `Display` quotes the line, which may hold a
            // secret.
            let at = start + fault.location().offset();
            diagnostics.syntax_error(
                Some(at),
                format!("not valid HCL: {}", syntax(fault.message())),
            );
            Tree::Table(Vec::new())
        }
    };
    Node { at: 0, value }
}

fn body(body: &Body, start: usize) -> Tree {
    let entry = |structure: &Structure| match structure {
        Structure::Attribute(attribute) => {
            let at = place(&attribute.key, start);
            TableEntry {
                key: attribute.key.as_str().to_owned(),
                at,
                value: expression(&attribute.value, start),
            }
        }
        Structure::Block(found) => block(found, start),
    };
    Tree::Table(body.iter().map(entry).collect())
}

/// A label becomes a table around the block, as in HCL's JSON form.
fn block(block: &Block, start: usize) -> TableEntry {
    let at = place(&block.ident, start);
    let inner = Node {
        at,
        value: body(&block.body, start),
    };
    let value = block.labels.iter().rev().fold(inner, |value, label| {
        let entry = TableEntry {
            key: label.as_str().to_owned(),
            at: place(label, start),
            value,
        };
        Node {
            at,
            value: Tree::Table(vec![entry]),
        }
    });
    TableEntry {
        key: block.ident.as_str().to_owned(),
        at,
        value,
    }
}

fn expression(found: &Expression, start: usize) -> Node {
    let value = match found {
        Expression::Null(_) => Tree::Null,
        Expression::Bool(flag) => Tree::Flag(*flag.value()),
        Expression::Number(number) => Tree::Number(number.value().to_string()),
        Expression::String(text) => Tree::Text(escape(text.value())),
        Expression::StringTemplate(text) => template(text.iter()),
        Expression::HeredocTemplate(text) => template(text.template.iter()),
        Expression::Array(items) => {
            Tree::List(items.iter().map(|item| expression(item, start)).collect())
        }
        Expression::Object(object) => {
            let entries = object.iter().map(|(key, value)| {
                let at = place(key, start);
                key_text(key).map(|key| TableEntry {
                    key,
                    at,
                    value: expression(value.expr(), start),
                })
            });
            entries
                .collect::<Option<_>>()
                .map_or(Tree::Other(COMPUTED), Tree::Table)
        }
        Expression::Parenthesis(inner) => return expression(inner.inner(), start),
        Expression::FuncCall(call) => variable(call),
        // HCL parses a negative number as an operation. No field accepts one, but the message
        // should call it a number.
        Expression::UnaryOp(operation) => match &operation.expr {
            Expression::Number(number) if *operation.operator.value() == UnaryOperator::Neg => {
                Tree::Number(format!("-{}", number.value()))
            }
            _ => Tree::Other(COMPUTED),
        },
        Expression::Variable(_)
        | Expression::Conditional(_)
        | Expression::Traversal(_)
        | Expression::BinaryOp(_)
        | Expression::ForExpr(_) => Tree::Other(COMPUTED),
    };
    Node {
        at: place(found, start),
        value,
    }
}

/// A key as text. Keys are never expanded, so nothing is escaped. `None` for an expression.
fn key_text(key: &ObjectKey) -> Option<String> {
    match key {
        ObjectKey::Ident(name) => Some(name.as_str().to_owned()),
        ObjectKey::Expression(Expression::String(text)) => Some(text.value().clone()),
        ObjectKey::Expression(Expression::Number(number)) => Some(number.value().to_string()),
        ObjectKey::Expression(_) => None,
    }
}

/// Converts text and `${env("NAME")}`; other templates are not evaluated.
fn template<'a>(elements: impl Iterator<Item = &'a Element>) -> Tree {
    let mut text = String::new();
    for element in elements {
        match element {
            Element::Literal(literal) => text.push_str(&escape(literal)),
            Element::Interpolation(inner) if inner.strip == Strip::None => match &inner.expr {
                Expression::FuncCall(call) => match variable(call) {
                    Tree::Text(reference) => text.push_str(&reference),
                    other => return other,
                },
                _ => return Tree::Other(TEMPLATE),
            },
            _ => return Tree::Other(TEMPLATE),
        }
    }
    Tree::Text(text)
}

/// `env("NAME")` as the native reference.
fn variable(call: &FuncCall) -> Tree {
    if call.name.is_namespaced() || call.name.name.as_str() != "env" {
        return Tree::Other(OTHER_FUNCTION);
    }
    let mut arguments = call.args.iter();
    match (arguments.next(), arguments.next()) {
        (Some(Expression::String(name)), None)
            if is_name(name.value()) && !call.args.expand_final() =>
        {
            Tree::Text(format!("${{{}}}", name.value()))
        }
        _ => Tree::Other(BAD_ENV),
    }
}

fn place(found: &impl Span, start: usize) -> usize {
    start + found.span().map_or(0, |span| span.start)
}

/// Rewords the parser's most common messages.
fn syntax(message: &str) -> String {
    if message.starts_with("invalid nesting depth") {
        return TOO_DEEP.to_owned();
    }
    if message.contains("found redefined") {
        return "this name is already set above; each may occur once".to_owned();
    }
    message.replace('\n', ", ")
}
