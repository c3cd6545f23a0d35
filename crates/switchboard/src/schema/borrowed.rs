//! Arguments as the validator reads them: the borrowed [`Tree`], so that checking a call copies
//! none of its text.

use std::borrow::Cow;

use jsonschema::JsonType;
use jsonschema::json::{Array, Json, Node, NodeIdentity, Object};
use serde_json::Value;

use super::Tree;

/// The representation that schemas are compiled for.
pub(super) struct Borrowed;

type Entry<'a> = (Cow<'a, str>, Tree<'a>);

impl Json for Borrowed {
    type Node<'a> = &'a Tree<'a>;
    type PreparedKey = Box<str>;
    type StringBuffer = ();

    fn prepare_key(key: &str) -> Box<str> {
        key.into()
    }

    fn with_string_node<T>(_: &mut (), string: &str, f: impl FnOnce(Self::Node<'_>) -> T) -> T {
        f(&Tree::Text(Cow::Borrowed(string)))
    }
}

impl<'a> Node<'a, Borrowed> for &'a Tree<'a> {
    type Object = &'a [Entry<'a>];
    type Array = &'a [Tree<'a>];
    type Number = &'a serde_json::Number;

    fn as_object(&self) -> Option<&'a [Entry<'a>]> {
        if let Tree::Object(entries) = self {
            Some(entries)
        } else {
            None
        }
    }

    fn as_array(&self) -> Option<&'a [Tree<'a>]> {
        if let Tree::List(items) = self {
            Some(items)
        } else {
            None
        }
    }

    fn as_string(&self) -> Option<Cow<'a, str>> {
        if let Tree::Text(text) = self {
            Some(Cow::Borrowed(text))
        } else {
            None
        }
    }

    fn as_number(&self) -> Option<&'a serde_json::Number> {
        if let Tree::Number(number) = self {
            Some(number)
        } else {
            None
        }
    }

    fn as_boolean(&self) -> Option<bool> {
        if let Tree::Bool(truth) = self {
            Some(*truth)
        } else {
            None
        }
    }

    fn is_null(&self) -> bool {
        matches!(self, Tree::Null)
    }

    fn json_type(&self) -> JsonType {
        match self {
            Tree::Null => JsonType::Null,
            Tree::Bool(_) => JsonType::Boolean,
            Tree::Number(_) => JsonType::Number,
            Tree::Text(_) => JsonType::String,
            Tree::List(_) => JsonType::Array,
            Tree::Object(_) => JsonType::Object,
        }
    }

    fn to_value(&self) -> Cow<'a, Value> {
        Cow::Owned(owned(self))
    }

    fn identity(&self) -> Option<NodeIdentity> {
        Some(NodeIdentity::new(
            std::ptr::from_ref::<Tree<'a>>(self) as usize
        ))
    }
}

/// For what the validator compares or tells, not for what it passes over. As deep as the parser
/// lets a tree be.
fn owned(tree: &Tree<'_>) -> Value {
    match tree {
        Tree::Null => Value::Null,
        Tree::Bool(truth) => Value::Bool(*truth),
        Tree::Number(number) => Value::Number(number.clone()),
        Tree::Text(text) => Value::String(text.clone().into_owned()),
        Tree::List(items) => items.iter().map(owned).collect(),
        Tree::Object(entries) => entries
            .iter()
            .map(|(key, value)| (key.clone().into_owned(), owned(value)))
            .collect(),
    }
}

impl<'a> Object<'a, Borrowed> for &'a [Entry<'a>] {
    type Node = &'a Tree<'a>;
    type MemberName = &'a str;
    type MembersIter = Members<'a>;

    fn len(&self) -> usize {
        <[Entry<'a>]>::len(self)
    }

    fn get(&self, key: &Box<str>) -> Option<&'a Tree<'a>> {
        let at = self
            .binary_search_by(|(known, _)| (**known).cmp(key))
            .ok()?;
        Some(&self[at].1)
    }

    fn members(&self) -> Members<'a> {
        Members(self.iter())
    }
}

/// The members of an object, by key.
pub(super) struct Members<'a>(std::slice::Iter<'a, Entry<'a>>);

impl<'a> Iterator for Members<'a> {
    type Item = (&'a str, &'a Tree<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|(key, value)| (&**key, value))
    }
}

impl<'a> Array<'a, Borrowed> for &'a [Tree<'a>] {
    type Node = &'a Tree<'a>;
    type ElementsIter = std::slice::Iter<'a, Tree<'a>>;

    fn len(&self) -> usize {
        <[Tree<'a>]>::len(self)
    }

    fn elements(&self) -> std::slice::Iter<'a, Tree<'a>> {
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
        let ours = jsonschema::options_for::<Borrowed>()
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
            let tree: Tree<'_> = serde_json::from_str(text).expect("JSON");
            let value: Value = serde_json::from_str(text).expect("JSON");
            assert_eq!(ours.is_valid(&tree), theirs.is_valid(&value), "{text}");
            let told = |errors: Vec<String>| errors;
            assert_eq!(
                told(
                    ours.iter_errors(&tree)
                        .map(|error| format!("{}: {error}", error.instance_path()))
                        .collect()
                ),
                told(
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
