//! The shape of a call's arguments: their names, and the types of their values.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use switchboard::RawJson;

use super::line::{MAX_JSON_BYTES, push_size, push_string};

/// Deeper values are shown by their type alone.
const MAX_DEPTH: usize = 3;

/// More members are counted.
const MAX_MEMBERS: usize = 24;

/// Writes it as JSON: `{"path":"string","lines":["number"]}`.
pub(super) fn push_shape(out: &mut String, arguments: &RawJson) {
    let text = arguments.as_str();
    if text.len() > MAX_JSON_BYTES {
        return push_size(out, arguments);
    }
    let start = out.len();
    let mut reader = serde_json::Deserializer::from_str(text);
    let shape = Shape { out, depth: 0 };
    if shape.deserialize(&mut reader).is_err() {
        out.truncate(start);
        out.push_str("\"unreadable\"");
    }
}

/// Writes the shape of one value as it is read.
struct Shape<'a> {
    out: &'a mut String,
    depth: usize,
}

impl Shape<'_> {
    fn write<E>(self, text: &str) -> Result<(), E> {
        self.out.push_str(text);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Shape<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        value.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Shape<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.write("\"null\"")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        self.write("\"boolean\"")
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        self.write("\"number\"")
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        self.write("\"number\"")
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        self.write("\"number\"")
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        self.write("\"string\"")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Self { out, depth } = self;
        let is_shown = depth < MAX_DEPTH;
        out.push_str(if is_shown { "[" } else { "\"array\"" });
        if is_shown {
            // The first element represents all.
            let depth = depth + 1;
            items.next_element_seed(Shape { out, depth })?;
            out.push(']');
        }
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let Self { out, depth } = self;
        let is_shown = depth < MAX_DEPTH;
        out.push_str(if is_shown { "{" } else { "\"object\"" });
        let mut count = 0;
        while let Some(MemberName(name)) = members.next_key()? {
            count += 1;
            if !is_shown || count > MAX_MEMBERS {
                members.next_value::<IgnoredAny>()?;
                continue;
            }
            if count > 1 {
                out.push(',');
            }
            push_string(out, &shortened(&name));
            out.push(':');
            let depth = depth + 1;
            members.next_value_seed(Shape { out, depth })?;
        }
        if let (true, Some(more @ 1..)) = (is_shown, count.checked_sub(MAX_MEMBERS)) {
            out.push_str(&format!(",\"…\":\"{more} more\""));
        }
        if is_shown {
            out.push('}');
        }
        Ok(())
    }
}

/// Borrowed where it has no escapes.
#[derive(serde::Deserialize)]
struct MemberName<'a>(#[serde(borrow)] std::borrow::Cow<'a, str>);

fn shortened(key: &str) -> std::borrow::Cow<'_, str> {
    match key.char_indices().nth(64) {
        Some((end, _)) => format!("{}…", &key[..end]).into(),
        None => key.into(),
    }
}
