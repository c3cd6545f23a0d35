//! JSON-RPC messages whose payload is kept as the original bytes.
//!
//! Only the members needed for routing are parsed (`id`, `method`); params, results and errors stay
//! unparsed ([`RawJson`]).

use std::borrow::Cow;
use std::fmt;
use std::str::Utf8Error;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

pub(crate) use message::TOOLS_CALL;
pub(crate) use message::parse_inline;
pub use message::{Incoming, Outgoing, RequestId, RequestMetadata, parse};
pub use oversize::OversizedMessage;

use crate::untrusted::escaped_line;

pub(crate) mod bounded;
pub mod events;
pub mod lines;
mod message;
mod oversize;
pub(crate) mod scan;
mod strings;

/// For JSON writers of other crates.
#[doc(hidden)]
pub use strings::{escaped, push_escaped, string_text};

/// For readers of JSON that is known to be valid: passes each member of an object to `each`, its key
/// without escapes and its value as it stands.
#[doc(hidden)]
pub fn for_each_member<'a>(object: &'a str, mut each: impl FnMut(&str, &'a str)) {
    let _ = scan::members(object, |key, value| {
        each(&message::unescaped(key)?, value);
        Ok(())
    });
}

/// The value of an object's member; of several of that name the last.
pub(crate) fn member_of<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    // Most objects contain the name nowhere, nor a letter as an escape.
    let may_have = object.contains(name) || (object.contains('\\') && object.contains("\\u00"));
    let mut found = None;
    if may_have {
        for_each_member(object, |key, value| {
            if key == name {
                found = Some(value);
            }
        });
    }
    found
}

/// The first element of an array that is known to be valid JSON, if it has any.
#[doc(hidden)]
pub use scan::first_element;

/// The text that these bytes are, if they are UTF-8.
pub(crate) fn text_of(bytes: &[u8]) -> Result<&str, Utf8Error> {
    // Most messages are ASCII: checking that first takes half of the instructions. The one of the
    // standard library takes more.
    let (words, rest) = bytes.as_chunks();
    let word = |word: &[u8; 8]| u64::from_ne_bytes(*word);
    // The last word overlaps the one before it.
    let last = bytes.last_chunk().map_or_else(
        || rest.iter().fold(0, |all, next| all | u64::from(*next)),
        word,
    );
    let all = words.iter().fold(last, |all, next| all | word(next));
    if all & u64::from_ne_bytes([0x80; 8]) == 0 {
        // SAFETY: ASCII is UTF-8.
        return Ok(unsafe { std::str::from_utf8_unchecked(bytes) });
    }
    std::str::from_utf8(bytes)
}

/// JSON text, kept byte for byte. Cheap to clone: clones share the bytes.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RawJson(Bytes);

/// A member of a JSON object: its key, and its value as it stands.
pub type JsonMember = (Cow<'static, str>, RawJson);

/// Why a text is not one JSON value, or cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotJson(pub String);

/// A longer error of the parser is cut: it may quote a text of any length.
const MAX_ERROR_CHARACTERS: usize = 300;

/// The parser's error may quote the text that it did not expect, which is a server's or a client's.
impl From<serde_json::Error> for NotJson {
    fn from(error: serde_json::Error) -> Self {
        let error = error.to_string();
        if error.contains("recursion limit") {
            return Self("nested deeper than 128".into());
        }
        Self(match error.char_indices().nth(MAX_ERROR_CHARACTERS) {
            None => escaped_line(&error).to_string(),
            Some((end, _)) => format!("{}…", escaped_line(&error[..end])),
        })
    }
}

impl RawJson {
    /// Checks that the bytes are one JSON value (of any depth), and keeps them.
    pub fn parse(bytes: impl Into<Bytes>) -> Result<Self, NotJson> {
        let bytes = bytes.into();
        let text = std::str::from_utf8(&bytes).map_err(|error| NotJson(error.to_string()))?;
        let inner = serde_json::from_str::<&RawValue>(text)?.get();
        let inner = bytes.slice_ref(inner.as_bytes());
        Ok(Self(inner))
    }

    /// Writes a value as JSON.
    pub fn from_value<T: serde::Serialize + ?Sized>(value: &T) -> Self {
        Self(
            serde_json::to_vec(value)
                .expect("only serializable values are passed")
                .into(),
        )
    }

    /// Copies a text that is known to be one JSON value.
    pub(crate) fn keep(text: &str) -> Self {
        // A boxed slice, from which `Bytes` are made without a look at the capacity.
        Self(Box::<[u8]>::from(text.as_bytes()).into())
    }

    /// A text that is known to be one JSON value, borrowed from `line`, whose bytes it shares.
    ///
    /// # Panics
    ///
    /// If `text` is not a part of `line`.
    pub fn share(line: &Bytes, text: &str) -> Self {
        Self(line.slice_ref(text.as_bytes()))
    }

    /// The same text in bytes of its own: for what is kept long after the message that it was part of.
    #[must_use]
    pub fn copy(&self) -> Self {
        Self(Bytes::copy_from_slice(&self.0))
    }

    /// A part of this value that was borrowed from it.
    pub(crate) fn part(&self, raw: &RawValue) -> Self {
        Self::share(&self.0, raw.get())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        // SAFETY: every constructor starts from a `str`, and the bytes never change.
        unsafe { std::str::from_utf8_unchecked(&self.0) }
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &Bytes {
        &self.0
    }

    /// The text of a JSON string, without a copy where it has no escape. `None` for any other value.
    pub fn text(&self) -> Option<Cow<'_, str>> {
        string_text(self.as_str())
    }

    /// The value of an object's member as it stands; of several of that name the last, which most
    /// parsers take.
    pub fn member(&self, name: &str) -> Option<&str> {
        member_of(self.as_str(), name)
    }

    /// The value at the end of a path of members, as it stands.
    pub(crate) fn member_at(&self, path: &[&str]) -> Option<&str> {
        let mut names = path.iter();
        names.try_fold(self.as_str(), |object, name| member_of(object, name))
    }

    /// The members of a JSON object in their order, values as they stand. `None` for any other value.
    pub fn members(&self) -> Option<Vec<JsonMember>> {
        let mut members = Vec::with_capacity(4);
        scan::members(self.as_str(), |key, value| {
            let key = match message::frequent_name(key) {
                Some(key) => Cow::Borrowed(key),
                None => message::unescaped(key)?.into_owned().into(),
            };
            members.push((key, Self::share(&self.0, value)));
            Ok(())
        })
        .ok()?;
        Some(members)
    }

    /// An object of these members, in their order, values as they stand.
    pub fn from_members(members: &[JsonMember]) -> Self {
        let mut text = String::from("{");
        for (index, (key, value)) in members.iter().enumerate() {
            text.push_str(if index == 0 { "\"" } else { ",\"" });
            push_escaped(&mut text, key);
            text.push_str("\":");
            text.push_str(value.as_str());
        }
        text.push('}');
        Self(text.into())
    }

    /// Decodes it into `T`, which may borrow from it. Nesting deeper than 128 is an error, never a
    /// stack overflow.
    pub fn decode<'a, T: Deserialize<'a>>(&'a self) -> Result<T, NotJson> {
        Ok(serde_json::from_str(self.as_str())?)
    }

    /// Decodes it into a `serde_json` value.
    pub fn to_value(&self) -> Result<serde_json::Value, NotJson> {
        self.decode()
    }
}

impl From<serde_json::Value> for RawJson {
    fn from(value: serde_json::Value) -> Self {
        Self::from_value(&value)
    }
}

impl std::str::FromStr for RawJson {
    type Err = NotJson;

    fn from_str(text: &str) -> Result<Self, NotJson> {
        Self::parse(text.as_bytes().to_vec())
    }
}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RawJson({} bytes)", self.0.len())
    }
}

impl serde::Serialize for RawJson {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue =
            serde_json::from_str(self.as_str()).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}
