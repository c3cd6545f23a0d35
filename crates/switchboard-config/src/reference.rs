//! Parses references to variables, in the syntax of each dialect.
//!
//! The same parser serves checking at load, disclosing before acceptance, and expanding at start,
//! so that they cannot disagree.

/// One segment of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Segment<'a> {
    /// Literal text.
    Literal(&'a str),
    /// A variable, and the default if it is unset or empty.
    Variable {
        name: &'a str,
        default: Option<&'a str>,
    },
}

/// How a dialect writes references to variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReferenceSyntax {
    /// `${NAME}`, `${env:NAME}`, `${NAME:-default}` in every text; `$$` is a literal `$`.
    #[default]
    Native,
    /// As native, but `$$` is a literal `$` only before a `{`; every other `$` is literal.
    Braced,
    /// `${env:NAME}` in the values of variables and headers; everything else is literal.
    Placeholder,
    /// `$NAME`, `${NAME}` and `${NAME:-default}` in every text; every other `$` is literal.
    Shell,
    /// No references: every text is literal.
    Literal,
}

/// The use of a text: some syntaxes have references only in values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextRole {
    /// Command, arguments, working folder or URL.
    Launch,
    /// The value of a variable or a header.
    Value,
}

impl ReferenceSyntax {
    /// Splits a value into literals and variables. The error does not repeat the value.
    pub(crate) fn segments(
        self,
        part: TextRole,
        value: &str,
    ) -> Result<Vec<Segment<'_>>, &'static str> {
        match (self, part) {
            (Self::Native, _) => native(value),
            (Self::Braced, _) => braced(value),
            (Self::Placeholder, TextRole::Value) => Ok(marked(value, placeholder)),
            (Self::Shell, _) => Ok(marked(value, shell)),
            (Self::Placeholder, TextRole::Launch) | (Self::Literal, _) => {
                Ok(marked(value, |_| None))
            }
        }
    }

    /// Whether a value is references to this variable and nothing else: it is empty if the variable
    /// is unset.
    pub fn is_only_reference(self, value: &str, variable: &str) -> bool {
        let is_reference = |segment: &Segment<'_>| match segment {
            Segment::Literal(text) => text.is_empty(),
            Segment::Variable { name, .. } => *name == variable,
        };
        let segments = self.segments(TextRole::Value, value);
        segments.is_ok_and(|segments| segments.iter().all(is_reference))
    }

    /// The segments of a value with adjacent literals joined, for comparison.
    pub(super) fn meaning(
        self,
        part: TextRole,
        value: &str,
    ) -> Result<Vec<(String, Option<String>)>, &'static str> {
        let mut meaning: Vec<(String, Option<String>)> = Vec::new();
        for segment in self.segments(part, value)? {
            match (segment, meaning.last_mut()) {
                (Segment::Literal(text), Some((literal, None))) => literal.push_str(text),
                (Segment::Literal(text), _) => meaning.push((text.to_owned(), None)),
                (Segment::Variable { name, default }, _) => {
                    meaning.push((
                        name.to_owned(),
                        Some(default.unwrap_or_default().to_owned()),
                    ));
                }
            }
        }
        Ok(meaning)
    }

    /// Whether a value refers to any variable. A malformed value counts as one that does.
    pub(crate) fn reads(self, part: TextRole, value: &str) -> bool {
        self.segments(part, value).map_or(true, |segments| {
            segments
                .iter()
                .any(|segment| matches!(segment, Segment::Variable { .. }))
        })
    }

    /// The variables that a value refers to, in order.
    pub(crate) fn variables(self, part: TextRole, value: &str) -> Vec<&str> {
        let found = self.segments(part, value).unwrap_or_default();
        found
            .into_iter()
            .filter_map(|segment| {
                if let Segment::Variable { name, .. } = segment {
                    Some(name)
                } else {
                    None
                }
            })
            .collect()
    }
}

/// Escapes a literal text for the native syntax.
pub(super) fn escape(text: &str) -> String {
    text.replace('$', "$$")
}

/// The literal text of a value in the native syntax, for a field that is not expanded. `None` if it
/// refers to a variable.
pub(super) fn unescape(text: &str) -> Option<String> {
    let segment = |segment| {
        if let Segment::Literal(text) = segment {
            Some(text)
        } else {
            None
        }
    };
    native(text).ok()?.into_iter().map(segment).collect()
}

fn native(value: &str) -> Result<Vec<Segment<'_>>, &'static str> {
    let mut found = Vec::new();
    let mut rest = value;
    while let Some(at) = rest.find('$') {
        let (before, after) = (&rest[..at], &rest[at + 1..]);
        if let Some(body) = after.strip_prefix('{') {
            let end = body
                .find('}')
                .ok_or("a reference opened with \"${\" is not closed with \"}\"; write \"$${\" for the text itself")?;
            push_literal(&mut found, before);
            found.push(variable(&body[..end])?);
            rest = &body[end + 1..];
        } else {
            push_literal(&mut found, &rest[..at + 1]);
            rest = after.strip_prefix('$').unwrap_or(after);
        }
    }
    push_literal(&mut found, rest);
    Ok(found)
}

fn braced(value: &str) -> Result<Vec<Segment<'_>>, &'static str> {
    let mut found = Vec::new();
    let mut rest = value;
    while let Some(at) = rest.find("${") {
        let before = &rest[..at];
        if before.ends_with('$') {
            // `$${` is an escaped `${`.
            push_literal(&mut found, before);
            push_literal(&mut found, "{");
            rest = &rest[at + 2..];
            continue;
        }
        let body = &rest[at + 2..];
        let end =
            body.find('}').ok_or("a reference opened with \"${\" is not closed with \"}\"; write \"$${\" for the text itself")?;
        push_literal(&mut found, before);
        found.push(variable(&body[..end])?);
        rest = &body[end + 1..];
    }
    push_literal(&mut found, rest);
    Ok(found)
}

/// Splits a value in which `reference` recognises references by what follows a `$`: returns the
/// variable and the length.
fn marked<'v>(
    value: &'v str,
    reference: impl Fn(&'v str) -> Option<(Segment<'v>, usize)>,
) -> Vec<Segment<'v>> {
    let mut found = Vec::new();
    let mut literal = 0;
    for (at, _) in value.match_indices('$') {
        if let Some((variable, length)) = reference(&value[at + 1..]).filter(|_| at >= literal) {
            push_literal(&mut found, &value[literal..at]);
            found.push(variable);
            literal = at + 1 + length;
        }
    }
    push_literal(&mut found, &value[literal..]);
    found
}

fn placeholder(after: &str) -> Option<(Segment<'_>, usize)> {
    let (name, _) = after.strip_prefix("{env:")?.split_once('}')?;
    Some((named(name, None)?, name.len() + "{env:}".len()))
}

fn shell(after: &str) -> Option<(Segment<'_>, usize)> {
    if let Some(braced) = after.strip_prefix('{') {
        let (body, _) = braced.split_once('}')?;
        let (name, default) = match body.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (body, None),
        };
        return Some((named(name, default)?, body.len() + "{}".len()));
    }
    let end = after
        .find(|next: char| !next.is_ascii_alphanumeric() && next != '_')
        .unwrap_or(after.len());
    Some((named(&after[..end], None)?, end))
}

/// `None` if this is not the name of a variable.
fn named<'v>(name: &'v str, default: Option<&'v str>) -> Option<Segment<'v>> {
    is_name(name).then_some(Segment::Variable { name, default })
}

/// Whether a text is a valid name of a variable.
pub(super) fn is_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn push_literal<'a>(segments: &mut Vec<Segment<'a>>, text: &'a str) {
    if !text.is_empty() {
        segments.push(Segment::Literal(text));
    }
}

fn variable(body: &str) -> Result<Segment<'_>, &'static str> {
    let (name, default) = match body.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (body, None),
    };
    // The first "}" closes a reference, so a default with a reference inside would be cut.
    if default.is_some_and(|default| default.contains("${")) {
        return Err("a default cannot hold another reference; expected ${NAME:-plain text}");
    }
    let name = name.strip_prefix("env:").unwrap_or(name);
    if is_name(name) {
        Ok(Segment::Variable { name, default })
    } else {
        Err(
            "malformed reference; expected ${NAME}, ${env:NAME} or ${NAME:-default}, or \"$${\" for the text itself",
        )
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::Segment::{Literal, Variable};
    use super::*;

    #[test]
    fn c7_references_are_expanded_in_one_pass() {
        let check = |value: &str, expected: &[Segment<'_>]| {
            assert_eq!(native(value).unwrap(), expected, "{value}")
        };
        check("", &[]);
        check("plain", &[Literal("plain")]);
        check(
            "${A}",
            &[Variable {
                name: "A",
                default: None,
            }],
        );
        check(
            "${env:A}",
            &[Variable {
                name: "A",
                default: None,
            }],
        );
        check(
            "${A:-}",
            &[Variable {
                name: "A",
                default: Some(""),
            }],
        );
        check(
            "${env:A_1:-x:-y}",
            &[Variable {
                name: "A_1",
                default: Some("x:-y"),
            }],
        );
        check(
            "Bearer ${T}!",
            &[
                Literal("Bearer "),
                Variable {
                    name: "T",
                    default: None,
                },
                Literal("!"),
            ],
        );
        check("a$$b", &[Literal("a$"), Literal("b")]);
        check("$${A}", &[Literal("$"), Literal("{A}")]);
        check(
            "$$${A}",
            &[
                Literal("$"),
                Variable {
                    name: "A",
                    default: None,
                },
            ],
        );
        check("$HOME costs 5$", &[Literal("$"), Literal("HOME costs 5$")]);
        check(
            "${A}${B}",
            &[
                Variable {
                    name: "A",
                    default: None,
                },
                Variable {
                    name: "B",
                    default: None,
                },
            ],
        );
    }

    #[test]
    fn gemini_has_defaults() {
        let check = |value: &str, expected: &[Segment<'_>]| {
            let segments = ReferenceSyntax::Shell.segments(TextRole::Value, value);
            assert_eq!(segments.unwrap(), expected, "{value}")
        };
        let variable = |default| Variable { name: "A", default };
        check("${A:-x:y}", &[variable(Some("x:y"))]);
        check(
            "${A:-}-$A",
            &[variable(Some("")), Literal("-"), variable(None)],
        );
        check("${A:-$B}", &[variable(Some("$B"))]);
        check("${1:-x}", &[Literal("${1:-x}")]);
    }

    #[test]
    fn a_malformed_reference_is_an_error_that_does_not_quote_the_value() {
        for value in [
            "${",
            "x ${A",
            "${}",
            "${1A}",
            "${A B}",
            "${input:token}",
            "${A:-${B}}",
            "${A-b}",
            "${env:}",
        ] {
            let fault = native(&format!("hunter2 {value}")).unwrap_err();
            assert!(
                !fault.contains("hunter2") && fault.contains("${"),
                "{value}: {fault}"
            );
        }
    }

    #[test]
    fn c7_each_dialect_has_its_own_reference_syntax() {
        let check =
            |syntax: ReferenceSyntax, part: TextRole, value: &str, expected: &[Segment<'_>]| {
                assert_eq!(
                    syntax.segments(part, value).unwrap(),
                    expected,
                    "{syntax:?} {part:?} {value}"
                );
            };
        let variable = |name| Variable {
            name,
            default: None,
        };
        check(
            ReferenceSyntax::Placeholder,
            TextRole::Value,
            "Bearer ${env:T}",
            &[Literal("Bearer "), variable("T")],
        );
        check(
            ReferenceSyntax::Placeholder,
            TextRole::Value,
            "$T ${T} $${env:T}",
            &[Literal("$T ${T} $"), variable("T")],
        );
        check(
            ReferenceSyntax::Placeholder,
            TextRole::Value,
            "${env:}${env:A",
            &[Literal("${env:}${env:A")],
        );
        check(
            ReferenceSyntax::Placeholder,
            TextRole::Launch,
            "${env:T}",
            &[Literal("${env:T}")],
        );
        check(
            ReferenceSyntax::Shell,
            TextRole::Value,
            "$A-${B}$",
            &[variable("A"), Literal("-"), variable("B"), Literal("$")],
        );
        check(
            ReferenceSyntax::Shell,
            TextRole::Launch,
            "${PWD}:/workspace",
            &[variable("PWD"), Literal(":/workspace")],
        );
        check(
            ReferenceSyntax::Shell,
            TextRole::Value,
            "$1 ${} ${A-b}",
            &[Literal("$1 ${} ${A-b}")],
        );
        check(
            ReferenceSyntax::Literal,
            TextRole::Value,
            "$A ${B}",
            &[Literal("$A ${B}")],
        );
        check(
            ReferenceSyntax::Braced,
            TextRole::Value,
            "pa$$word $A ",
            &[Literal("pa$$word $A ")],
        );
        check(
            ReferenceSyntax::Braced,
            TextRole::Launch,
            "${env:A}$",
            &[variable("A"), Literal("$")],
        );
        check(
            ReferenceSyntax::Braced,
            TextRole::Value,
            "$${A}${B:-c}",
            &[
                Literal("$"),
                Literal("{"),
                Literal("A}"),
                Variable {
                    name: "B",
                    default: Some("c"),
                },
            ],
        );
    }
}
