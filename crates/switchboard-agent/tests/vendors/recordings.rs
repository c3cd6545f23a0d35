//! Recorded interactions, read from YAML and JSON files.

use std::path::{Path, PathBuf};

use granit_parser::{Event, Parser};
use serde_json::{Map, Value};
use switchboard_agent::ModelVendor;
use switchboard_testkit::outside_data;

/// One request and its answer, of one of our wires.
#[derive(Debug, Clone)]
pub(crate) struct Interaction {
    /// File and number, for messages.
    pub(crate) place: String,
    pub(crate) vendor: ModelVendor,
    pub(crate) model: String,
    pub(crate) request: Option<Value>,
    pub(crate) status: u16,
    pub(crate) is_stream: bool,
    pub(crate) body: String,
}

/// All interactions of our wires, or `None` where there are no recordings.
pub(crate) fn load() -> Option<Vec<Interaction>> {
    let folder = outside_data("SWITCHBOARD_RECORDINGS", "shared/recordings")?;
    let mut files = Vec::new();
    collect_files(&folder, &mut files);
    files.sort();
    let interactions: Vec<Interaction> = files.iter().flat_map(|file| read(file)).collect();
    assert!(
        interactions.len() > 500,
        "{} interactions",
        interactions.len()
    );
    Some(interactions)
}

fn collect_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect_files(&path, files);
        } else {
            files.push(path);
        }
    }
}

fn read(file: &Path) -> Vec<Interaction> {
    let extension = file.extension().and_then(|extension| extension.to_str());
    let documents = match extension {
        Some("yaml") => {
            let text = std::fs::read_to_string(file).expect("text");
            let documents = read_yaml(&text).into_iter();
            documents.map(|document| normalize_rig(&document)).collect()
        }
        Some("json") => {
            let text = std::fs::read_to_string(file).expect("text");
            let value: Value = serde_json::from_str(&text).expect("JSON");
            let list = value["interactions"].as_array().cloned();
            let list = list.unwrap_or_default().into_iter();
            list.map(|interaction| normalize_opencode(&interaction))
                .collect()
        }
        _ => Vec::new(),
    };
    let numbered = documents.into_iter().enumerate();
    let interactions = numbered.filter_map(|(number, document): (usize, Recorded)| {
        let name = file.iter().rev().take(3).collect::<Vec<_>>();
        let name: Vec<_> = name
            .iter()
            .rev()
            .map(|part| part.to_string_lossy())
            .collect();
        document.interaction(format!("{}#{number}", name.join("/")))
    });
    interactions.collect()
}

struct Recorded {
    path: String,
    request: String,
    status: u16,
    content_type: String,
    body: String,
}

impl Recorded {
    fn interaction(self, place: String) -> Option<Interaction> {
        let path = self.path.split('?').next().unwrap_or_default();
        let vendor = match path {
            _ if path.ends_with("/messages") => ModelVendor::Anthropic,
            _ if path.ends_with("/responses") => ModelVendor::OpenAi,
            _ if path.ends_with("/chat/completions") => ModelVendor::OpenAiChat,
            _ if path.ends_with("enerateContent") => ModelVendor::Gemini,
            _ => return None,
        };
        let request = serde_json::from_str::<Value>(&self.request).ok();
        let request = request.filter(Value::is_object);
        let in_body = request
            .as_ref()
            .and_then(|request| request["model"].as_str());
        let in_path = path
            .rsplit('/')
            .next()
            .and_then(|last| last.split(':').next());
        let model = in_body.or(in_path).unwrap_or_default().to_owned();
        Some(Interaction {
            place,
            vendor,
            model,
            request,
            status: self.status,
            is_stream: self.content_type.starts_with("text/event-stream"),
            body: self.body,
        })
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn normalize_rig(document: &Value) -> Recorded {
    let (when, then) = (&document["when"], &document["then"]);
    let headers = then["header"].as_array().cloned().unwrap_or_default();
    let content_type = headers
        .iter()
        .find(|header| header["name"] == "content-type");
    Recorded {
        path: text(&when["path"]),
        request: text(&when["body"]),
        status: text(&then["status"]).parse().unwrap_or(0),
        content_type: content_type
            .map(|header| text(&header["value"]))
            .unwrap_or_default(),
        body: text(&then["body"]),
    }
}

fn normalize_opencode(interaction: &Value) -> Recorded {
    let (request, response) = (&interaction["request"], &interaction["response"]);
    Recorded {
        path: text(&request["url"]),
        request: text(&request["body"]),
        status: response["status"].as_u64().unwrap_or(0) as u16,
        content_type: text(&response["headers"]["content-type"]),
        body: text(&response["body"]),
    }
}

/// Every document of a YAML stream, with all scalars as text.
fn read_yaml(source: &str) -> Vec<Value> {
    enum Open {
        List(Vec<Value>),
        Table(Map<String, Value>, Option<String>),
    }
    let mut documents = Vec::new();
    let mut open: Vec<Open> = Vec::new();
    for event in Parser::new_from_str(source) {
        let (event, _) = event.expect("YAML");
        let value = match event {
            Event::Scalar(text, ..) => Value::String(text.into_owned()),
            Event::SequenceStart(..) => {
                open.push(Open::List(Vec::new()));
                continue;
            }
            Event::MappingStart(..) => {
                open.push(Open::Table(Map::new(), None));
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                Some(Open::List(items)) => Value::Array(items),
                Some(Open::Table(members, _)) => Value::Object(members),
                None => continue,
            },
            _ => continue,
        };
        match open.last_mut() {
            None => documents.push(value),
            Some(Open::List(items)) => items.push(value),
            Some(Open::Table(members, key)) => match key.take() {
                Some(key) => {
                    members.insert(key, value);
                }
                None => *key = Some(text(&value)),
            },
        }
    }
    documents
}
