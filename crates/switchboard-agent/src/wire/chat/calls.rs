//! Calls of a streamed chat answer, put together from their pieces.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::conversation::{CallArguments, ToolCall};
use crate::json::JsonText;

/// A piece of a call.
#[derive(Deserialize)]
pub(super) struct ChatCallDelta<'a> {
    pub(super) index: Option<u64>,
    id: Option<String>,
    #[serde(borrow)]
    function: Option<ChatFunctionDelta<'a>>,
}

#[derive(Deserialize)]
struct ChatFunctionDelta<'a> {
    name: Option<String>,
    /// Text, in pieces; some servers send an object.
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

/// The calls of an answer.
#[derive(Debug, Clone, Default)]
pub(super) struct ChatCalls {
    calls: Vec<ChatCallBuilder>,
}

#[derive(Debug, Clone)]
struct ChatCallBuilder {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
}

impl ChatCalls {
    /// Adds a piece. Returns the name of a call that begins with it.
    pub(super) fn add(&mut self, piece: ChatCallDelta<'_>) -> Option<String> {
        let id = piece.id.unwrap_or_default();
        let (name, arguments) = match piece.function {
            Some(function) => (function.name.unwrap_or_default(), function.arguments),
            None => (String::new(), None),
        };
        let known = self.find(piece.index, &id, &name);
        let is_new = known.is_none();
        let at = known.unwrap_or_else(|| {
            self.calls.push(ChatCallBuilder {
                index: piece.index,
                id: String::new(),
                name: String::new(),
                arguments: String::new(),
            });
            self.calls.len() - 1
        });
        let call = &mut self.calls[at];
        if call.id.is_empty() {
            call.id = id;
        }
        if call.name.is_empty() {
            call.name = name;
        }
        if let Some(arguments) = arguments {
            match serde_json::from_str::<String>(arguments.get()) {
                Ok(text) => call.arguments.push_str(&text),
                Err(_) => call.arguments.push_str(arguments.get()),
            }
        }
        is_new.then(|| call.name.clone())
    }

    /// The call that a piece belongs to. Ollama gives every call the index 0, and some servers
    /// give none: there another id begins another call.
    fn find(&self, index: Option<u64>, id: &str, name: &str) -> Option<usize> {
        let at = match index {
            Some(_) => self.calls.iter().rposition(|call| call.index == index)?,
            None => self.calls.len().checked_sub(1)?,
        };
        let call = &self.calls[at];
        let has_other_id = !id.is_empty() && !call.id.is_empty() && call.id != id;
        let begins_anew =
            index.is_none() && id.is_empty() && !name.is_empty() && !call.name.is_empty();
        (!has_other_id && !begins_anew).then_some(at)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// The complete calls. Ids are made unique: they pair calls with results. `None` if a call has
    /// no name.
    ///
    /// `is_cut` says that the answer reached its limit or has no end: then a call without
    /// arguments was cut off, while otherwise it needs none.
    pub(super) fn end(self, is_cut: bool) -> Option<Vec<ToolCall>> {
        let mut seen = HashSet::new();
        let calls = self.calls.into_iter().enumerate().map(|(position, call)| {
            let mut id = call.id;
            if id.is_empty() || !seen.insert(id.clone()) {
                id = format!("c00000{position:03}");
                seen.insert(id.clone());
            }
            let arguments = match is_cut && call.arguments.trim().is_empty() {
                true => CallArguments::cut_off(&call.arguments),
                false => read_arguments(&call.arguments),
            };
            let name = Some(call.name).filter(|name| !name.is_empty())?;
            Some(ToolCall {
                id,
                name,
                arguments,
            })
        });
        calls.collect()
    }
}

/// Some servers send the arguments as a string that holds JSON once more.
fn read_arguments(text: &str) -> CallArguments {
    match serde_json::from_str::<String>(text) {
        Ok(inner) if JsonText::parse(&inner).is_ok_and(|json| json.is_object()) => {
            CallArguments::read(&inner)
        }
        _ => CallArguments::read(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pieces: &[&str], expected: &[(&str, &str, &str)]) {
        let mut calls = ChatCalls::default();
        for piece in pieces {
            calls.add(serde_json::from_str(piece).expect("a piece"));
        }
        let calls = calls.end(false).expect("names");
        let found: Vec<_> = calls
            .iter()
            .map(|call| {
                let arguments = call.arguments.object().map_or("?", JsonText::as_str);
                (call.id.as_str(), call.name.as_str(), arguments)
            })
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn pieces_belong_to_the_call_of_their_index() {
        check(
            &[
                r#"{"index":0,"id":"a","function":{"name":"f","arguments":""}}"#,
                r#"{"index":1,"id":"b","function":{"name":"g","arguments":"{"}}"#,
                r#"{"index":0,"id":null,"function":{"arguments":"{\"x\":1.0}"}}"#,
                r#"{"index":1,"function":{"arguments":"}"}}"#,
            ],
            &[("a", "f", "{\"x\":1.0}"), ("b", "g", "{}")],
        );
    }

    #[test]
    fn another_id_at_the_same_index_is_another_call() {
        check(
            &[
                r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}"#,
                r#"{"index":0,"id":"b","function":{"name":"f","arguments":"{\"x\":2}"}}"#,
            ],
            &[("a", "f", "{}"), ("b", "f", "{\"x\":2}")],
        );
    }

    #[test]
    fn calls_without_index_and_id_are_told_apart_by_their_names() {
        check(
            &[
                r#"{"function":{"name":"f","arguments":{"x":1}}}"#,
                r#"{"function":{"name":"g","arguments":null}}"#,
                r#"{"id":"","function":{"name":"h","arguments":"{\"cut\":"}}"#,
            ],
            &[
                ("c00000000", "f", "{\"x\":1}"),
                ("c00000001", "g", "{}"),
                ("c00000002", "h", "?"),
            ],
        );
    }

    #[test]
    fn ids_are_unique_and_a_call_without_a_name_is_none() {
        check(
            &[
                r#"{"index":0,"id":"same","function":{"name":"f","arguments":"\"{}\""}}"#,
                r#"{"index":1,"id":"same","function":{"name":"g"}}"#,
            ],
            &[("same", "f", "{}"), ("c00000001", "g", "{}")],
        );
        let mut calls = ChatCalls::default();
        calls.add(serde_json::from_str(r#"{"index":0,"id":"a"}"#).expect("a piece"));
        assert!(calls.end(false).is_none());
    }
}
