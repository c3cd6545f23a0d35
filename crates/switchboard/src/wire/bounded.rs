//! Arrays and objects of a server, read up to a limit: members beyond it are counted, not kept.
//!
//! A message may have millions of members of a few bytes each, which take many times as much memory
//! once they are read.

use std::fmt;
use std::marker::PhantomData;

use indexmap::IndexMap;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// An array of at most `MAX` elements.
#[derive(Debug)]
pub(crate) struct BoundedList<'a, const MAX: usize> {
    elements: Vec<&'a RawValue>,
    count: usize,
}

/// An object of at most `MAX` members, in their order. Of a repeated key the last value counts.
#[derive(Debug)]
pub(crate) struct BoundedMap<'a, const MAX: usize> {
    members: IndexMap<String, &'a RawValue>,
    count: usize,
}

/// There are more members than allowed: this many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooMany(pub(crate) usize);

impl<'a, const MAX: usize> BoundedList<'a, MAX> {
    pub(crate) fn elements(self) -> Result<Vec<&'a RawValue>, TooMany> {
        match self.count <= MAX {
            true => Ok(self.elements),
            false => Err(TooMany(self.count)),
        }
    }
}

impl<'a, const MAX: usize> BoundedMap<'a, MAX> {
    pub(crate) fn members(self) -> Result<IndexMap<String, &'a RawValue>, TooMany> {
        match self.count <= MAX {
            true => Ok(self.members),
            false => Err(TooMany(self.count)),
        }
    }
}

impl<'de: 'a, 'a, const MAX: usize> Deserialize<'de> for BoundedList<'a, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Elements<'a, const MAX: usize>(PhantomData<&'a ()>);

        impl<'de: 'a, 'a, const MAX: usize> Visitor<'de> for Elements<'a, MAX> {
            type Value = BoundedList<'a, MAX>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Self::Value, A::Error> {
                let mut elements = Vec::new();
                while elements.len() < MAX
                    && let Some(element) = from.next_element()?
                {
                    elements.push(element);
                }
                let mut count = elements.len();
                while count >= MAX && from.next_element::<IgnoredAny>()?.is_some() {
                    count += 1;
                }
                Ok(BoundedList { elements, count })
            }
        }

        deserializer.deserialize_seq(Elements(PhantomData))
    }
}

impl<'de: 'a, 'a, const MAX: usize> Deserialize<'de> for BoundedMap<'a, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members<'a, const MAX: usize>(PhantomData<&'a ()>);

        impl<'de: 'a, 'a, const MAX: usize> Visitor<'de> for Members<'a, MAX> {
            type Value = BoundedMap<'a, MAX>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Self::Value, A::Error> {
                let (mut members, mut count) = (IndexMap::new(), 0);
                while count < MAX
                    && let Some((key, value)) = from.next_entry()?
                {
                    members.insert(key, value);
                    count += 1;
                }
                while count >= MAX && from.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
                    count += 1;
                }
                Ok(BoundedMap { members, count })
            }
        }

        deserializer.deserialize_map(Members(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn p3_members_beyond_the_limit_are_counted_and_not_kept() {
        for (text, kept, count) in [
            ("[]", 0, 0),
            ("[1,[2]]", 2, 2),
            ("[1,2,3]", 3, 3),
            ("[1,2,3,4,{}]", 3, 5),
        ] {
            let read: BoundedList<'_, 3> = serde_json::from_str(text).unwrap();
            assert_eq!((read.elements.len(), read.count), (kept, count), "{text}");
            assert_eq!(read.elements().is_ok(), count <= 3, "{text}");
        }
        for (text, kept, count) in [
            ("{}", 0, 0),
            (r#"{"a":1,"b":2}"#, 2, 2),
            (r#"{"a":1,"a":2,"b":3}"#, 2, 3),
            (r#"{"a":1,"b":2,"c":3,"d":4}"#, 3, 4),
        ] {
            let read: BoundedMap<'_, 3> = serde_json::from_str(text).unwrap();
            assert_eq!((read.members.len(), read.count), (kept, count), "{text}");
            assert_eq!(read.members().is_ok(), count <= 3, "{text}");
        }
        for wrong in ["{}", "[1,", "[1,2,3,4", "1"] {
            assert!(serde_json::from_str::<BoundedList<'_, 3>>(wrong).is_err());
        }
    }
}
