//! Recognises valid arguments of a simple schema by reading their text once, without a tree and
//! without the validator. Most tools have such a schema, and most arguments are valid.
//!
//! `fits` never accepts what the validator would refuse. Whatever is uncertain is left to the
//! validator, which also words the errors. Recognising the arguments of `bench/baseline/instructions`
//! takes 440 instructions, by callgrind; the validator takes more than 2,000.

use super::JsonTree;
use crate::wire::scan::{next, plain_end, take};

/// The most properties of one object: a bit stands for each.
const MAX_PROPERTIES: usize = 64;

/// Integers with this many digits are exact in every parser.
const MAX_DIGITS: usize = 15;

/// What is known of a schema: never larger than the schema. Where a keyword is not listed here, the schema is `Unknown`.
#[derive(Debug)]
pub(crate) enum SimpleSchema {
    /// Only the validator can decide.
    Unknown,
    Null,
    Boolean,
    Number,
    Integer {
        minimum: i64,
        maximum: i64,
    },
    Text {
        shortest: usize,
        longest: usize,
    },
    /// One of these strings.
    Choice(Vec<Box<str>>),
    List(Box<SimpleSchema>),
    Object {
        properties: Vec<(Box<str>, SimpleSchema)>,
        /// One bit for each required property.
        required: u64,
    },
    /// At least one of these.
    AnyOf(Vec<SimpleSchema>),
}

impl SimpleSchema {
    /// Converts a schema that was checked already, so that recursion is bounded.
    pub(super) fn read(schema: &JsonTree<'_>) -> Self {
        read(schema).unwrap_or(Self::Unknown)
    }

    /// Whether a JSON text is certainly valid. No key may occur twice, either.
    #[inline(always)]
    pub(crate) fn fits(&self, json: &str) -> bool {
        let bytes = json.as_bytes();
        value(self, bytes, 0).is_some_and(|mut end| next(bytes, &mut end).is_none())
    }
}

fn read(schema: &JsonTree<'_>) -> Option<SimpleSchema> {
    let JsonTree::Object(keywords) = schema else {
        return None;
    };
    let kind = schema.get("type").map(JsonTree::as_str);
    let (mut shortest, mut longest) = (0, usize::MAX);
    let (mut minimum, mut maximum) = (i64::MIN, i64::MAX);
    let (mut choice, mut any_of, mut items) = (None, None, None);
    let (mut properties, mut required) = (Vec::new(), &[][..]);
    let mut restrictions = 0;
    for (keyword, value) in keywords {
        match (&**keyword, value) {
            // These keywords restrict nothing. A `format` is not validated.
            ("title" | "description" | "default" | "examples" | "format" | "$comment", _)
            | ("deprecated" | "readOnly" | "writeOnly" | "type" | "$schema", _) => continue,
            // A property that is not listed is left to the validator.
            ("additionalProperties", JsonTree::Bool(_) | JsonTree::Object(_)) => {}
            ("minLength", value) => shortest = usize::try_from(whole(value)?).ok()?,
            ("maxLength", value) => longest = usize::try_from(whole(value)?).ok()?,
            ("minimum", value) => minimum = whole(value)?,
            ("maximum", value) => maximum = whole(value)?,
            ("enum", JsonTree::List(texts)) => choice = Some(read_choice(texts)?),
            ("items", value) => items = Some(SimpleSchema::read(value)),
            ("anyOf", JsonTree::List(schemas)) => {
                any_of = Some(schemas.iter().map(SimpleSchema::read).collect());
            }
            ("properties", JsonTree::Object(entries)) => {
                // The validator decides which of two equal names counts.
                if entries.windows(2).any(|pair| pair[0].0 == pair[1].0) {
                    return None;
                }
                properties = entries
                    .iter()
                    .map(|(name, schema)| ((**name).into(), SimpleSchema::read(schema)))
                    .collect();
            }
            ("required", JsonTree::List(names)) => required = names,
            _ => return None,
        }
        restrictions += 1;
    }
    // `anyOf` and `enum` are recognised alone: other keywords restrict further.
    let is_alone = restrictions == 1;
    let is_limited = minimum != i64::MIN || maximum != i64::MAX;
    Some(match (kind, choice, any_of) {
        (None, None, Some(schemas)) if is_alone => SimpleSchema::AnyOf(schemas),
        (_, _, Some(_)) => return None,
        (Some(Some("string")), Some(texts), None) if is_alone => SimpleSchema::Choice(texts),
        (_, Some(_), None) => return None,
        (Some(Some("string")), None, None) => SimpleSchema::Text { shortest, longest },
        (Some(Some("integer")), None, None) => SimpleSchema::Integer { minimum, maximum },
        (Some(Some("number")), None, None) if !is_limited => SimpleSchema::Number,
        (Some(Some("boolean")), None, None) => SimpleSchema::Boolean,
        (Some(Some("null")), None, None) => SimpleSchema::Null,
        (Some(Some("array")), None, None) => SimpleSchema::List(Box::new(items?)),
        (Some(Some("object")), None, None) => {
            let required = required_bits(&properties, required)?;
            SimpleSchema::Object {
                properties,
                required,
            }
        }
        _ => return None,
    })
}

fn whole(value: &JsonTree<'_>) -> Option<i64> {
    let JsonTree::Number(number) = value else {
        return None;
    };
    number.as_i64()
}

fn read_choice(texts: &[JsonTree<'_>]) -> Option<Vec<Box<str>>> {
    texts
        .iter()
        .map(|text| text.as_str().map(Box::from))
        .collect()
}

fn required_bits(
    properties: &[(Box<str>, SimpleSchema)],
    required: &[JsonTree<'_>],
) -> Option<u64> {
    if properties.len() > MAX_PROPERTIES {
        return None;
    }
    required.iter().try_fold(0, |bits, name| {
        let at = position(properties, name.as_str()?.as_bytes())?;
        Some(bits | 1 << at)
    })
}

fn position(properties: &[(Box<str>, SimpleSchema)], name: &[u8]) -> Option<usize> {
    properties
        .iter()
        .position(|(known, _)| known.as_bytes() == name)
}

// Each function below reads valid JSON at a place in the text and returns the place after what it
// read, or `None` where it is not certain. A place is returned and not kept in a struct, so that it
// stays in a register.

/// Inlined where a value stands in an object or a list: most are no object and no list.
#[inline(always)]
fn value(schema: &SimpleSchema, bytes: &[u8], mut at: usize) -> Option<usize> {
    match schema {
        SimpleSchema::Null => word(bytes, at, b"null"),
        SimpleSchema::Boolean => match next(bytes, &mut at)? {
            b't' => word(bytes, at, b"true"),
            _ => word(bytes, at, b"false"),
        },
        SimpleSchema::Number => {
            (_, at) = integer(bytes, at)?;
            // A fraction of a few digits is in range; an exponent may not be.
            if bytes.get(at) == Some(&b'.') {
                (_, at) = digits(bytes, at + 1)?;
            }
            number_end(bytes, at)
        }
        SimpleSchema::Integer { minimum, maximum } => {
            let (number, at) = integer(bytes, at)?;
            (*minimum..=*maximum).contains(&number).then_some(())?;
            number_end(bytes, at)
        }
        SimpleSchema::Text { shortest, longest } => {
            let (text, at) = text(bytes, at)?;
            // A character has one to four bytes.
            (text.len() <= *longest && text.len().div_ceil(4) >= *shortest).then_some(at)
        }
        SimpleSchema::Choice(texts) => {
            let (text, at) = text(bytes, at)?;
            let is_listed = texts.iter().any(|known| known.as_bytes() == text);
            is_listed.then_some(at)
        }
        _ => nested(schema, bytes, at),
    }
}

/// A value that may contain others.
fn nested(schema: &SimpleSchema, bytes: &[u8], at: usize) -> Option<usize> {
    match schema {
        SimpleSchema::List(items) => list(items, bytes, at),
        SimpleSchema::Object {
            properties,
            required,
        } => object(properties, *required, bytes, at),
        SimpleSchema::AnyOf(schemas) => {
            (schemas.iter()).find_map(|schema| value(schema, bytes, at))
        }
        _ => None,
    }
}

fn list(items: &SimpleSchema, bytes: &[u8], at: usize) -> Option<usize> {
    let mut at = take(bytes, at, b'[')?;
    if next(bytes, &mut at)? == b']' {
        return Some(at + 1);
    }
    loop {
        at = value(items, bytes, at)?;
        match next(bytes, &mut at)? {
            b',' => at += 1,
            b']' => return Some(at + 1),
            _ => return None,
        }
    }
}

fn object(
    properties: &[(Box<str>, SimpleSchema)],
    required: u64,
    bytes: &[u8],
    at: usize,
) -> Option<usize> {
    let mut at = take(bytes, at, b'{')?;
    let mut seen = 0;
    if next(bytes, &mut at)? != b'}' {
        loop {
            let property;
            (property, at) = property_name(properties, bytes, at)?;
            if seen & 1 << property != 0 {
                return None;
            }
            seen |= 1 << property;
            at = take(bytes, at, b':')?;
            at = value(&properties[property].1, bytes, at)?;
            if next(bytes, &mut at)? != b',' {
                break;
            }
            at += 1;
        }
    }
    let at = take(bytes, at, b'}')?;
    (seen & required == required).then_some(at)
}

/// A name that is listed: its index. One with escapes is not certain.
fn property_name(
    properties: &[(Box<str>, SimpleSchema)],
    bytes: &[u8],
    at: usize,
) -> Option<(usize, usize)> {
    let at = take(bytes, at, b'"')?;
    let rest = bytes.get(at..)?;
    let index = properties.iter().position(|(name, _)| {
        rest.get(name.len()) == Some(&b'"') && rest.starts_with(name.as_bytes())
    })?;
    Some((index, at + properties[index].0.len() + 1))
}

fn word(bytes: &[u8], mut at: usize, word: &[u8]) -> Option<usize> {
    next(bytes, &mut at)?;
    bytes[at..].starts_with(word).then_some(at + word.len())
}

/// A string without escapes, between its quotes.
#[inline]
fn text(bytes: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let start = take(bytes, at, b'"')?;
    let end = plain_end(bytes, start);
    (bytes.get(end) == Some(&b'"')).then(|| (&bytes[start..end], end + 1))
}

#[inline(always)]
fn integer(bytes: &[u8], mut at: usize) -> Option<(i64, usize)> {
    let is_negative = next(bytes, &mut at)? == b'-';
    let (number, at) = digits(bytes, at + usize::from(is_negative))?;
    Some((if is_negative { -number } else { number }, at))
}

#[inline(always)]
fn digits(bytes: &[u8], start: usize) -> Option<(i64, usize)> {
    let (mut at, mut number) = (start, 0);
    while let Some(digit @ b'0'..=b'9') = bytes.get(at) {
        number = number * 10 + i64::from(digit - b'0');
        at += 1;
        if at - start > MAX_DIGITS {
            return None;
        }
    }
    (at > start).then_some((number, at))
}

/// Checks that neither a fraction nor an exponent follows.
fn number_end(bytes: &[u8], at: usize) -> Option<usize> {
    match bytes.get(at) {
        Some(b'.' | b'e' | b'E') => None,
        _ => Some(at),
    }
}

#[cfg(test)]
mod tests;
