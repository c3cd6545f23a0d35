//! Recognises valid arguments of a simple schema by reading their text once, without a tree and
//! without the validator. Most tools have such a schema, and most arguments are valid.
//!
//! `fits` never accepts what the validator would refuse. Whatever is uncertain is left to the
//! validator, which also words the errors. Validating a call costs 900 instructions instead of
//! 2,400 (callgrind, the calls of `bench/baseline/instructions`).

use super::JsonTree;
use crate::wire::plain_end;

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
    pub(crate) fn fits(&self, json: &str) -> bool {
        let mut cursor = Cursor {
            bytes: json.as_bytes(),
            at: 0,
        };
        cursor.value(self).is_some() && cursor.peek().is_none()
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
    for (keyword, value) in keywords {
        match (&**keyword, value) {
            // These keywords restrict nothing. A `format` is not validated.
            ("title" | "description" | "default" | "examples" | "format" | "$comment", _)
            | ("deprecated" | "readOnly" | "writeOnly" | "type" | "$schema", _) => {}
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
    }
    let is_limited = minimum != i64::MIN || maximum != i64::MAX;
    Some(match (kind, choice, any_of) {
        (None, None, Some(schemas)) => SimpleSchema::AnyOf(schemas),
        (_, _, Some(_)) => return None,
        (Some(Some("string")), Some(texts), None) => SimpleSchema::Choice(texts),
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

/// Reads a text that is valid JSON. Each method returns `None` if it is not certain.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// The next byte that is not white space; it is not consumed.
    #[inline]
    fn peek(&mut self) -> Option<u8> {
        loop {
            match *self.bytes.get(self.at)? {
                b' ' | b'\t' | b'\n' | b'\r' => self.at += 1,
                byte => return Some(byte),
            }
        }
    }

    #[inline]
    fn take(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    fn value(&mut self, schema: &SimpleSchema) -> Option<()> {
        match schema {
            SimpleSchema::Unknown => None,
            SimpleSchema::Null => self.word(b"null"),
            SimpleSchema::Boolean => match self.peek()? {
                b't' => self.word(b"true"),
                _ => self.word(b"false"),
            },
            SimpleSchema::Number => {
                self.integer()?;
                // A fraction of a few digits is in range; an exponent may not be.
                if self.bytes.get(self.at) == Some(&b'.') {
                    self.at += 1;
                    self.digits()?;
                }
                self.number_end()
            }
            SimpleSchema::Integer { minimum, maximum } => {
                let number = self.integer()?;
                self.number_end()?;
                (*minimum <= number && number <= *maximum).then_some(())
            }
            SimpleSchema::Text { shortest, longest } => {
                let text = self.text()?;
                // A character has one to four bytes.
                (text.len() <= *longest && text.len().div_ceil(4) >= *shortest).then_some(())
            }
            SimpleSchema::Choice(texts) => {
                let text = self.text()?;
                texts
                    .iter()
                    .any(|known| known.as_bytes() == text)
                    .then_some(())
            }
            SimpleSchema::List(items) => self.list(items),
            SimpleSchema::Object {
                properties,
                required,
            } => self.object(properties, *required),
            SimpleSchema::AnyOf(schemas) => {
                let from = self.at;
                schemas.iter().find_map(|schema| {
                    self.at = from;
                    self.value(schema)
                })
            }
        }
    }

    fn list(&mut self, items: &SimpleSchema) -> Option<()> {
        self.take(b'[')?;
        if self.take(b']').is_some() {
            return Some(());
        }
        loop {
            self.value(items)?;
            if self.take(b',').is_none() {
                return self.take(b']');
            }
        }
    }

    fn object(&mut self, properties: &[(Box<str>, SimpleSchema)], required: u64) -> Option<()> {
        self.take(b'{')?;
        let mut seen = 0;
        if self.peek()? != b'}' {
            loop {
                let at = self.property(properties)?;
                if seen & 1 << at != 0 {
                    return None;
                }
                seen |= 1 << at;
                self.take(b':')?;
                self.value(&properties[at].1)?;
                if self.take(b',').is_none() {
                    break;
                }
            }
        }
        self.take(b'}')?;
        (seen & required == required).then_some(())
    }

    /// A name that is listed. One with escapes is not certain.
    fn property(&mut self, properties: &[(Box<str>, SimpleSchema)]) -> Option<usize> {
        self.take(b'"')?;
        let rest = &self.bytes[self.at..];
        let at = properties.iter().position(|(name, _)| {
            rest.get(name.len()) == Some(&b'"') && rest.starts_with(name.as_bytes())
        })?;
        self.at += properties[at].0.len() + 1;
        Some(at)
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        self.peek()?;
        self.bytes[self.at..]
            .starts_with(word)
            .then(|| self.at += word.len())
    }

    /// A string without escapes, between its quotes.
    #[inline]
    fn text(&mut self) -> Option<&'a [u8]> {
        self.take(b'"')?;
        let (from, to) = (self.at, plain_end(self.bytes, self.at));
        (self.bytes.get(to) == Some(&b'"')).then(|| self.at = to + 1)?;
        Some(&self.bytes[from..to])
    }

    fn integer(&mut self) -> Option<i64> {
        let is_negative = self.peek()? == b'-';
        self.at += usize::from(is_negative);
        let number = self.digits()?;
        Some(if is_negative { -number } else { number })
    }

    fn digits(&mut self) -> Option<i64> {
        let (from, mut number) = (self.at, 0);
        while let Some(digit @ b'0'..=b'9') = self.bytes.get(self.at) {
            number = number * 10 + i64::from(digit - b'0');
            self.at += 1;
            if self.at - from > MAX_DIGITS {
                return None;
            }
        }
        (self.at > from).then_some(number)
    }

    /// Checks that neither a fraction nor an exponent follows.
    fn number_end(&mut self) -> Option<()> {
        match self.bytes.get(self.at) {
            Some(b'.' | b'e' | b'E') => None,
            _ => Some(()),
        }
    }
}

#[cfg(test)]
mod tests;
