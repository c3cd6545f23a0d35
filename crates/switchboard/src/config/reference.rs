//! References in a value: `${NAME}`, `${env:NAME}`, `${NAME:-default}`; `$$` is a literal `$`.
//!
//! One reader for checking at load, disclosing before trust, and expanding at start, so that the three cannot disagree.

/// One piece of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    /// Text to take as it is.
    Literal(&'a str),
    /// A variable to read, and what to take where it is unset or empty.
    Variable { name: &'a str, default: Option<&'a str> },
}

/// Takes a value apart, once: what a variable holds is never looked at again. The error says what is wrong, without the value.
pub(crate) fn pieces(value: &str) -> Result<Vec<Piece<'_>>, &'static str> {
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
        } else if let Some(after) = after.strip_prefix('$') {
            push_literal(&mut found, &rest[..at + 1]);
            rest = after;
        } else {
            push_literal(&mut found, &rest[..at + 1]);
            rest = after;
        }
    }
    push_literal(&mut found, rest);
    Ok(found)
}

/// Whether a value reads any variable. A malformed one counts as reading.
pub(crate) fn has_references(value: &str) -> bool {
    pieces(value).map_or(true, |pieces| pieces.iter().any(|piece| matches!(piece, Piece::Variable { .. })))
}

/// The variables a value reads, in order.
pub(crate) fn variables(value: &str) -> Vec<&str> {
    let found = pieces(value).unwrap_or_default();
    found.into_iter().filter_map(|piece| if let Piece::Variable { name, .. } = piece { Some(name) } else { None }).collect()
}

fn push_literal<'a>(pieces: &mut Vec<Piece<'a>>, text: &'a str) {
    if !text.is_empty() {
        pieces.push(Piece::Literal(text));
    }
}

fn variable(body: &str) -> Result<Piece<'_>, &'static str> {
    let (name, default) = match body.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (body, None),
    };
    // The first "}" closes a reference, so a default with one inside would silently mean something else.
    if default.is_some_and(|default| default.contains("${")) {
        return Err("a default cannot hold another reference; expected ${NAME:-plain text}");
    }
    let name = name.strip_prefix("env:").unwrap_or(name);
    let mut characters = name.bytes();
    let starts = characters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_');
    if starts && characters.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        Ok(Piece::Variable { name, default })
    } else {
        Err("malformed reference; expected ${NAME}, ${env:NAME} or ${NAME:-default}, or \"$${\" for the text itself")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::Piece::{Literal, Variable};
    use super::*;

    #[test]
    fn c7_references_are_read_in_one_pass() {
        let check = |value: &str, expected: &[Piece<'_>]| assert_eq!(pieces(value).unwrap(), expected, "{value}");
        check("", &[]);
        check("plain", &[Literal("plain")]);
        check("${A}", &[Variable { name: "A", default: None }]);
        check("${env:A}", &[Variable { name: "A", default: None }]);
        check("${A:-}", &[Variable { name: "A", default: Some("") }]);
        check("${env:A_1:-x:-y}", &[Variable { name: "A_1", default: Some("x:-y") }]);
        check("Bearer ${T}!", &[Literal("Bearer "), Variable { name: "T", default: None }, Literal("!")]);
        check("a$$b", &[Literal("a$"), Literal("b")]);
        check("$${A}", &[Literal("$"), Literal("{A}")]);
        check("$$${A}", &[Literal("$"), Variable { name: "A", default: None }]);
        check("$HOME costs 5$", &[Literal("$"), Literal("HOME costs 5$")]);
        check("${A}${B}", &[Variable { name: "A", default: None }, Variable { name: "B", default: None }]);
    }

    #[test]
    fn a_malformed_reference_is_an_error_that_does_not_quote_the_value() {
        for value in ["${", "x ${A", "${}", "${1A}", "${A B}", "${input:token}", "${A:-${B}}", "${A-b}", "${env:}"] {
            let fault = pieces(&format!("hunter2 {value}")).unwrap_err();
            assert!(!fault.contains("hunter2") && fault.contains("${"), "{value}: {fault}");
        }
    }
}
