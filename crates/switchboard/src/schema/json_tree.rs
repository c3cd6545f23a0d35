//! A JSON value that borrows its text, with sorted keys: parsed once for the hash, the check and the
//! diff of a definition.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

/// A JSON value. The parser refuses nesting deeper than 128, so recursion over it is bounded.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum JsonTree<'a> {
    Null,
    Bool(bool),
    Number(serde_json::Number),
    Text(Cow<'a, str>),
    List(Vec<JsonTree<'a>>),
    /// Sorted by key. A repeated key is kept twice, so that both values count in a hash.
    Object(Vec<(Cow<'a, str>, JsonTree<'a>)>),
}

impl<'a> JsonTree<'a> {
    /// The last value of a key, which most parsers use.
    pub(crate) fn get(&self, key: &str) -> Option<&JsonTree<'a>> {
        let Self::Object(entries) = self else {
            return None;
        };
        let end = entries.partition_point(|(known, _)| &**known <= key);
        entries[..end]
            .last()
            .filter(|(known, _)| known == key)
            .map(|(_, value)| value)
    }

    pub(crate) fn as_str(&self) -> Option<&str> {
        if let Self::Text(text) = self {
            Some(text)
        } else {
            None
        }
    }

    /// A key that occurs twice in one object, at any depth.
    pub(crate) fn repeated_key(&self) -> Option<&str> {
        match self {
            Self::List(items) => items.iter().find_map(Self::repeated_key),
            Self::Object(entries) => {
                let twice = entries
                    .windows(2)
                    .find(|pair| pair[0].0 == pair[1].0)
                    .map(|pair| &*pair[0].0);
                twice.or_else(|| entries.iter().find_map(|(_, value)| value.repeated_key()))
            }
            _ => None,
        }
    }

    /// The nesting depth: 0 for a scalar, 1 for an object of scalars.
    pub(crate) fn depth(&self) -> usize {
        match self {
            Self::List(items) => 1 + items.iter().map(Self::depth).max().unwrap_or(0),
            Self::Object(entries) => {
                1 + entries
                    .iter()
                    .map(|(_, value)| value.depth())
                    .max()
                    .unwrap_or(0)
            }
            _ => 0,
        }
    }
}

impl<'de> Deserialize<'de> for JsonTree<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonTreeVisitor)
    }
}

struct JsonTreeVisitor;

impl<'de> Visitor<'de> for JsonTreeVisitor {
    type Value = JsonTree<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<JsonTree<'de>, E> {
        Ok(JsonTree::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<JsonTree<'de>, E> {
        Ok(JsonTree::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<JsonTree<'de>, E> {
        Ok(JsonTree::Number(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<JsonTree<'de>, E> {
        Ok(JsonTree::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<JsonTree<'de>, E> {
        serde_json::Number::from_f64(value)
            .map(JsonTree::Number)
            .ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<JsonTree<'de>, E> {
        Ok(JsonTree::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<JsonTree<'de>, E> {
        Ok(JsonTree::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<JsonTree<'de>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(JsonTree::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<JsonTree<'de>, A::Error> {
        let mut entries: Vec<(Cow<'de, str>, JsonTree<'de>)> = Vec::new();
        while let Some(BorrowedKey(key)) = object.next_key()? {
            entries.push((key, object.next_value()?));
        }
        // Stable, so that of two equal keys the last stays last.
        entries.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(JsonTree::Object(entries))
    }
}

/// A key that borrows where possible; deserializing a plain `Cow` always copies.
struct BorrowedKey<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for BorrowedKey<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = BorrowedKey<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<BorrowedKey<'de>, E> {
                Ok(BorrowedKey(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<BorrowedKey<'de>, E> {
                Ok(BorrowedKey(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(KeyVisitor)
    }
}

impl Serialize for JsonTree<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Number(value) => value.serialize(serializer),
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(items) => serializer.collect_seq(items),
            Self::Object(entries) => {
                let mut object = serializer.serialize_map(Some(entries.len()))?;
                for (key, value) in entries {
                    object.serialize_entry(key, value)?;
                }
                object.end()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::wire::RawJson;

    #[test]
    fn key_order_and_formatting_do_not_matter() {
        let raw =
            RawJson::parse(r#"{ "b": [1, -2, 2.5, null], "a": {"d":true,"c":"x\ny"} }"#).unwrap();
        let tree: JsonTree<'_> = raw.decode().unwrap();
        assert_eq!(
            serde_json::to_string(&tree).unwrap(),
            r#"{"a":{"c":"x\ny","d":true},"b":[1,-2,2.5,null]}"#
        );
        assert_eq!(tree.depth(), 2);
    }

    #[test]
    fn of_two_equal_keys_the_last_is_found_and_both_are_kept() {
        let raw = RawJson::parse(r#"{"a":1,"b":2,"a":3}"#).unwrap();
        let tree: JsonTree<'_> = raw.decode().unwrap();
        assert_eq!(tree.get("a"), Some(&JsonTree::Number(3.into())));
        assert_eq!(tree.get("c"), None);
        assert_eq!(
            serde_json::to_string(&tree).unwrap(),
            r#"{"a":1,"a":3,"b":2}"#
        );
    }

    #[test]
    fn f5_nesting_too_deep_is_an_error_and_no_overflow() {
        let raw =
            RawJson::parse(format!("{}{}", "[".repeat(100_000), "]".repeat(100_000))).unwrap();
        assert_eq!(
            raw.decode::<JsonTree<'_>>().unwrap_err().to_string(),
            "nested deeper than 128"
        );
    }
}
