//! JSON text kept byte for byte, and a writer that keeps the order of an object's members.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use switchboard::wire::escaped;

/// One JSON value as text, byte for byte as it came. Clones share the text.
///
/// It serialises as a string that holds the text: a value may contain line breaks, and a session
/// file has one record per line.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct JsonText(Arc<str>);

impl JsonText {
    /// Checks that the text is one JSON value and keeps it, without the space around it.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        let value: &RawValue = serde_json::from_str(text)?;
        Ok(Self::from_raw(value))
    }

    /// Writes a value as JSON.
    pub fn from_value<T: Serialize + ?Sized>(value: &T) -> Self {
        let text = serde_json::to_string(value).expect("a value of our own serialises");
        Self(text.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the value is an object.
    pub fn is_object(&self) -> bool {
        self.0.starts_with('{')
    }

    pub(crate) fn from_raw(value: &RawValue) -> Self {
        Self(value.get().into())
    }

    /// For text that this crate wrote as JSON.
    pub(crate) fn from_written(text: String) -> Self {
        debug_assert!(serde_json::from_str::<&RawValue>(&text).is_ok(), "{text}");
        Self(text.into())
    }
}

impl fmt::Debug for JsonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for JsonText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for JsonText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

/// Writes one JSON object, member by member, in the order of the calls.
#[derive(Debug)]
pub(crate) struct ObjectWriter(Vec<u8>);

impl ObjectWriter {
    pub(crate) fn new() -> Self {
        let mut json = Vec::with_capacity(256);
        json.push(b'{');
        Self(json)
    }

    /// A member whose value is JSON text already.
    pub(crate) fn raw(mut self, key: &str, json: &str) -> Self {
        self.begin_member(key);
        self.0.extend_from_slice(json.as_bytes());
        self
    }

    /// A member whose value is a string.
    pub(crate) fn text(mut self, key: &str, text: &str) -> Self {
        self.begin_member(key);
        write_string(&mut self.0, text);
        self
    }

    /// A member whose value is a number, a boolean or anything else that serialises.
    pub(crate) fn value<T: Serialize + ?Sized>(mut self, key: &str, value: &T) -> Self {
        self.begin_member(key);
        serde_json::to_writer(&mut self.0, value).expect("a value of our own serialises");
        self
    }

    /// A member that is left out where there is no value.
    pub(crate) fn optional<T: Serialize>(self, key: &str, value: Option<T>) -> Self {
        match value {
            Some(value) => self.value(key, &value),
            None => self,
        }
    }

    pub(crate) fn end(mut self) -> String {
        self.0.push(b'}');
        String::from_utf8(self.0).expect("JSON is text")
    }

    fn begin_member(&mut self, key: &str) {
        if self.0.len() > 1 {
            self.0.push(b',');
        }
        write_string(&mut self.0, key);
        self.0.push(b':');
    }
}

/// Appends a JSON string.
fn write_string(json: &mut Vec<u8>, text: &str) {
    json.push(b'"');
    escaped(text).for_each(|part| json.extend_from_slice(part.as_bytes()));
    json.push(b'"');
}

/// Reads `null` as the default: servers that imitate a vendor's API send it for absent values.
pub(crate) fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// Reads a text without a copy where it has no escape, and `null` as no text.
pub(crate) fn text_or_empty<'de: 'a, 'a, D>(deserializer: D) -> Result<Cow<'a, str>, D::Error>
where
    D: Deserializer<'de>,
{
    #[derive(Deserialize)]
    struct BorrowedText<'a>(#[serde(borrow)] Cow<'a, str>);
    let text = Option::<BorrowedText<'a>>::deserialize(deserializer)?;
    Ok(text.map(|text| text.0).unwrap_or_default())
}

/// An array of JSON texts.
pub(crate) fn array<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> String {
    let mut json = "[".to_owned();
    for item in items {
        if json.len() > 1 {
            json.push(',');
        }
        json.push_str(item.as_ref());
    }
    json.push(']');
    json
}

/// A JSON string.
pub(crate) fn string(text: &str) -> String {
    let mut json = Vec::with_capacity(text.len() + 2);
    write_string(&mut json, text);
    String::from_utf8(json).expect("JSON is text")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_value_is_kept_byte_for_byte() {
        let text = "{\"b\":1.0e0, \"a\" : [1,1],\n \"a\":\"\\u00e9\"}";
        let value = JsonText::parse(&format!(" {text}\n")).expect("JSON");
        assert_eq!(value.as_str(), text);
        let stored = serde_json::to_string(&value).expect("serialises");
        assert!(!stored.contains('\n'));
        let again: JsonText = serde_json::from_str(&stored).expect("reads");
        assert_eq!(again, value);
        assert!(JsonText::parse("{\"a\":").is_err());
    }

    #[test]
    fn a_string_has_the_bytes_that_serde_json_writes() {
        let all: String = ('\0'..='\u{2030}').collect();
        for length in 0..20 {
            let text = format!("{}{all}{}", "a".repeat(length), "é\n".repeat(length));
            let expected = serde_json::to_string(&text).expect("serialises");
            assert_eq!(super::string(&text), expected);
        }
    }

    #[test]
    fn members_are_written_in_order_and_escaped() {
        let object = ObjectWriter::new()
            .text("z", "a\"b")
            .value("n", &1)
            .optional::<u8>("none", None)
            .raw("list", &array(["1", "{}"]))
            .end();
        assert_eq!(object, r#"{"z":"a\"b","n":1,"list":[1,{}]}"#);
    }
}
