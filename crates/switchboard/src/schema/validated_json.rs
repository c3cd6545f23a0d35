//! Lets the validator read arguments from the borrowed [`JsonTree`], so that checking a call copies
//! none of its text.

use std::borrow::Cow;

use jsonschema::JsonType;
use jsonschema::json::{Array, Json, Node, NodeIdentity, Object};
use serde_json::Value;

use super::JsonTree;

/// The representation that schemas are compiled for.
pub(super) struct ValidatedJson;

type TreeEntry<'a> = (Cow<'a, str>, JsonTree<'a>);

impl Json for ValidatedJson {
    type Node<'a> = &'a JsonTree<'a>;
    type PreparedKey = Box<str>;
    type StringBuffer = ();

    fn prepare_key(key: &str) -> Box<str> {
        key.into()
    }

    fn with_string_node<T>(_: &mut (), string: &str, f: impl FnOnce(Self::Node<'_>) -> T) -> T {
        f(&JsonTree::Text(Cow::Borrowed(string)))
    }
}

impl<'a> Node<'a, ValidatedJson> for &'a JsonTree<'a> {
    type Object = &'a [TreeEntry<'a>];
    type Array = &'a [JsonTree<'a>];
    type Number = &'a serde_json::Number;

    fn as_object(&self) -> Option<&'a [TreeEntry<'a>]> {
        if let JsonTree::Object(entries) = self {
            Some(entries)
        } else {
            None
        }
    }

    fn as_array(&self) -> Option<&'a [JsonTree<'a>]> {
        if let JsonTree::List(items) = self {
            Some(items)
        } else {
            None
        }
    }

    fn as_string(&self) -> Option<Cow<'a, str>> {
        if let JsonTree::Text(text) = self {
            Some(Cow::Borrowed(text))
        } else {
            None
        }
    }

    fn as_number(&self) -> Option<&'a serde_json::Number> {
        if let JsonTree::Number(number) = self {
            Some(number)
        } else {
            None
        }
    }

    fn as_boolean(&self) -> Option<bool> {
        if let JsonTree::Bool(truth) = self {
            Some(*truth)
        } else {
            None
        }
    }

    fn is_null(&self) -> bool {
        matches!(self, JsonTree::Null)
    }

    fn json_type(&self) -> JsonType {
        match self {
            JsonTree::Null => JsonType::Null,
            JsonTree::Bool(_) => JsonType::Boolean,
            JsonTree::Number(_) => JsonType::Number,
            JsonTree::Text(_) => JsonType::String,
            JsonTree::List(_) => JsonType::Array,
            JsonTree::Object(_) => JsonType::Object,
        }
    }

    fn to_value(&self) -> Cow<'a, Value> {
        Cow::Owned(owned(self))
    }

    fn identity(&self) -> Option<NodeIdentity> {
        Some(NodeIdentity::new(
            std::ptr::from_ref::<JsonTree<'a>>(self) as usize
        ))
    }
}

/// Copies a value that the validator compares or reports. The recursion is bounded by the parser's
/// depth limit.
fn owned(tree: &JsonTree<'_>) -> Value {
    match tree {
        JsonTree::Null => Value::Null,
        JsonTree::Bool(truth) => Value::Bool(*truth),
        JsonTree::Number(number) => Value::Number(number.clone()),
        JsonTree::Text(text) => Value::String(text.clone().into_owned()),
        JsonTree::List(items) => items.iter().map(owned).collect(),
        JsonTree::Object(entries) => entries
            .iter()
            .map(|(key, value)| (key.clone().into_owned(), owned(value)))
            .collect(),
    }
}

impl<'a> Object<'a, ValidatedJson> for &'a [TreeEntry<'a>] {
    type Node = &'a JsonTree<'a>;
    type MemberName = &'a str;
    type MembersIter = TreeMembers<'a>;

    fn len(&self) -> usize {
        <[TreeEntry<'a>]>::len(self)
    }

    fn get(&self, key: &Box<str>) -> Option<&'a JsonTree<'a>> {
        let at = self
            .binary_search_by(|(known, _)| (**known).cmp(key))
            .ok()?;
        Some(&self[at].1)
    }

    fn members(&self) -> TreeMembers<'a> {
        TreeMembers(self.iter())
    }
}

/// The members of an object, sorted by key.
pub(super) struct TreeMembers<'a>(std::slice::Iter<'a, TreeEntry<'a>>);

impl<'a> Iterator for TreeMembers<'a> {
    type Item = (&'a str, &'a JsonTree<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|(key, value)| (&**key, value))
    }
}

impl<'a> Array<'a, ValidatedJson> for &'a [JsonTree<'a>] {
    type Node = &'a JsonTree<'a>;
    type ElementsIter = std::slice::Iter<'a, JsonTree<'a>>;

    fn len(&self) -> usize {
        <[JsonTree<'a>]>::len(self)
    }

    fn elements(&self) -> std::slice::Iter<'a, JsonTree<'a>> {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Every keyword says the same of the borrowed tree as of the value that `serde_json` makes.
    #[test]
    fn the_borrowed_tree_is_judged_as_the_value_is() {
        let schema = json!({
            "type": "object",
            "properties": {
                "text": {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^[a-zé]+$"},
                "count": {"type": "integer", "minimum": 1, "multipleOf": 2},
                "kind": {"enum": ["a", 1, null, {"b": [1.0]}]},
                "list": {"type": "array", "items": {"type": ["number", "boolean"]}, "uniqueItems": true, "maxItems": 3},
                "more": {"type": "object", "minProperties": 1, "propertyNames": {"maxLength": 1}},
                "same": {"const": {"x": 1, "y": [true]}},
                "tree": {"$ref": "#/$defs/tree"},
            },
            "$defs": {"tree": {"type": "object", "properties": {"next": {"$ref": "#/$defs/tree"}}, "additionalProperties": false}},
            "required": ["text"],
            "additionalProperties": false,
        });
        let ours = jsonschema::options_for::<ValidatedJson>()
            .build(&schema)
            .expect("a good schema");
        let theirs = jsonschema::options().build(&schema).expect("a good schema");
        for text in [
            r#"{"text":"ab"}"#,
            r#"{}"#,
            r#"{"text":"a"}"#,
            r#"{"text":"ééééé"}"#,
            r#"{"text":"éé"}"#,
            r#"{"text":"\u0061b"}"#,
            r#"{"text":"AB"}"#,
            r#"{"text":"ab","count":2}"#,
            r#"{"text":"ab","count":2.0}"#,
            r#"{"text":"ab","count":3}"#,
            r#"{"text":"ab","count":"2"}"#,
            r#"{"text":"ab","count":1e2}"#,
            r#"{"text":"ab","count":18446744073709551615}"#,
            r#"{"text":"ab","kind":{"b":[1]}}"#,
            r#"{"text":"ab","kind":null}"#,
            r#"{"text":"ab","kind":2}"#,
            r#"{"text":"ab","list":[1,true]}"#,
            r#"{"text":"ab","list":[1,1.0]}"#,
            r#"{"text":"ab","list":["1"]}"#,
            r#"{"text":"ab","list":[1,2,3,4]}"#,
            r#"{"text":"ab","more":{}}"#,
            r#"{"text":"ab","more":{"a":1}}"#,
            r#"{"text":"ab","more":{"ab":1}}"#,
            r#"{"text":"ab","same":{"y":[true],"x":1.0}}"#,
            r#"{"text":"ab","same":{"x":1}}"#,
            r#"{"text":"ab","tree":{"next":{"next":{}}}}"#,
            r#"{"text":"ab","tree":{"next":{"text":{}}}}"#,
            r#"{"text":"ab","extra":1}"#,
            r#"[]"#,
            r#"null"#,
        ] {
            let tree: JsonTree<'_> = serde_json::from_str(text).expect("JSON");
            let value: Value = serde_json::from_str(text).expect("JSON");
            assert_eq!(ours.is_valid(&tree), theirs.is_valid(&value), "{text}");
            let reported = |errors: Vec<String>| errors;
            assert_eq!(
                reported(
                    ours.iter_errors(&tree)
                        .map(|error| format!("{}: {error}", error.instance_path()))
                        .collect()
                ),
                reported(
                    theirs
                        .iter_errors(&value)
                        .map(|error| format!("{}: {error}", error.instance_path()))
                        .collect()
                ),
                "{text}"
            );
        }
    }
}
