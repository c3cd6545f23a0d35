//! The corpus: JSON files in this folder, each a list of messages with their types.

use std::path::Path;

use serde::Deserialize;
use serde_json::value::RawValue;
use switchboard::wire::Incoming;

/// One message of the corpus.
#[derive(Debug, Clone)]
pub struct Example {
    /// The file: a revision, or `odd`.
    pub file: String,
    /// The type that the message is an example of.
    pub kind: String,
    /// The message, as in the file.
    pub text: String,
}

/// The method for params that are an example by themselves.
const WRAPPED: &str = "corpus/wrapped";

/// The parts of a message that must arrive unchanged: its method, and its params, result or error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Core {
    pub what: String,
    pub bytes: String,
}

/// A message as serde parses it, independently of our scanner.
#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(default)]
    method: Option<String>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    // `null` is a result, too.
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

fn present<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// The whole corpus.
pub fn corpus() -> Vec<Example> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let files = [
        "2024-11-05",
        "2025-03-26",
        "2025-06-18",
        "2025-11-25",
        "2026-07-28",
        "odd",
    ];
    files
        .iter()
        .flat_map(|file| {
            read(
                file,
                &std::fs::read_to_string(folder.join(format!("{file}.json"))).unwrap(),
            )
        })
        .collect()
}

fn read(file: &str, text: &str) -> Vec<Example> {
    #[derive(Deserialize)]
    struct Entry<'a> {
        r#type: String,
        #[serde(borrow)]
        message: &'a RawValue,
    }
    let entries: Vec<Entry<'_>> = serde_json::from_str(text).unwrap();
    let example = |entry: Entry<'_>| Example {
        file: file.into(),
        kind: entry.r#type,
        text: entry.message.get().into(),
    };
    entries.into_iter().map(example).collect()
}

impl Example {
    /// A file of the specification's own examples: a message, or a part of one, which is sent as a
    /// result or as params by its name. Line breaks outside of strings are removed, since some
    /// transports use lines; nothing else is.
    pub fn public(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap();
        // JSON has no line breaks inside of strings.
        let text = text.replace(['\n', '\r'], " ").trim().to_owned();
        let kind = path
            .parent()
            .and_then(Path::file_name)
            .unwrap()
            .to_string_lossy()
            .into_owned();
        let is_message = |text: &str| {
            text.contains(r#""jsonrpc""#) && serde_json::from_str::<Wire<'_>>(text).is_ok()
        };
        let text = match text {
            text if is_message(&text) => text,
            text if kind.ends_with("Params") => {
                format!(r#"{{"jsonrpc":"2.0","id":0,"method":"{WRAPPED}","params":{text}}}"#)
            }
            text => format!(r#"{{"jsonrpc":"2.0","result":{text},"id":0}}"#),
        };
        Self {
            file: "public".into(),
            kind,
            text,
        }
    }

    /// Whether only a part of it is the specification's.
    pub fn is_wrapped(&self) -> bool {
        self.text.contains(WRAPPED) || self.text.ends_with(r#","id":0}"#)
    }

    fn wire(&self) -> Wire<'_> {
        serde_json::from_str(&self.text).unwrap_or_else(|fault| panic!("{}: {fault}", self.text))
    }

    pub fn is_batch(&self) -> bool {
        self.text.starts_with('[')
    }

    /// A result or an error.
    pub fn is_answer(&self) -> bool {
        !self.is_batch() && self.wire().method.is_none()
    }

    pub fn is_request(&self) -> bool {
        !self.is_batch() && self.wire().method.is_some() && self.wire().id.is_some()
    }

    pub fn method(&self) -> Option<String> {
        self.wire().method
    }

    /// Its params, if it has any.
    pub fn params(&self) -> Option<String> {
        if self.is_batch() {
            None
        } else {
            self.wire().params.map(|params| params.get().to_owned())
        }
    }

    /// Its result, if it is one.
    pub fn result(&self) -> Option<String> {
        if self.is_batch() {
            None
        } else {
            self.wire().result.map(|result| result.get().to_owned())
        }
    }

    /// The message with another id; every other byte as it is.
    pub fn with_id(&self, id: u64) -> String {
        let old = match self.text.find(r#""id""#) {
            Some(_) if !self.is_batch() => self.wire().id.map(RawValue::get).unwrap_or("null"),
            _ => return self.text.clone(),
        };
        // `null` is not an id for serde; it is found by its position.
        let start = if old == "null" {
            self.text
                .find(r#""id":null"#)
                .expect("an error of no request")
                + 5
        } else {
            old.as_ptr() as usize - self.text.as_ptr() as usize
        };
        format!(
            "{}{id}{}",
            &self.text[..start],
            &self.text[start + old.len()..]
        )
    }

    /// The parts that must arrive.
    pub fn cores(&self) -> Vec<Core> {
        let core = |text: &str| {
            let wire: Wire<'_> = serde_json::from_str(text).unwrap();
            let raw = |part: Option<&RawValue>| {
                part.map_or_else(String::new, |part| part.get().to_owned())
            };
            match (wire.method, wire.result) {
                (Some(method), _) => {
                    let kind = if wire.id.is_some() {
                        "request"
                    } else {
                        "notification"
                    };
                    Core {
                        what: format!("{kind} {method}"),
                        bytes: raw(wire.params),
                    }
                }
                (None, Some(result)) => Core {
                    what: "result".into(),
                    bytes: result.get().to_owned(),
                },
                (None, None) => Core {
                    what: "error".into(),
                    bytes: raw(wire.error),
                },
            }
        };
        if !self.is_batch() {
            return vec![core(&self.text)];
        }
        let members: Vec<&RawValue> = serde_json::from_str(&self.text).unwrap();
        members.iter().map(|member| core(member.get())).collect()
    }
}

impl Core {
    pub fn of(message: &Incoming) -> Self {
        let raw = |part: Option<&switchboard::wire::RawJson>| {
            part.map_or_else(String::new, |part| part.as_str().to_owned())
        };
        match message {
            Incoming::Request { method, params, .. } => Self {
                what: format!("request {method}"),
                bytes: raw(params.as_ref()),
            },
            Incoming::Notification { method, params } => Self {
                what: format!("notification {method}"),
                bytes: raw(params.as_ref()),
            },
            Incoming::Result { result, .. } => Self {
                what: "result".into(),
                bytes: raw(Some(result)),
            },
            Incoming::Error { error, .. } => Self {
                what: "error".into(),
                bytes: raw(Some(error)),
            },
        }
    }

    /// The response to a request without params.
    pub fn empty() -> Self {
        Self {
            what: "result".into(),
            bytes: "{}".into(),
        }
    }
}
