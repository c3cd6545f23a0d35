//! The prompts, and the completion of their arguments.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::exchange::{Call, Outcome};
use crate::fixtures;
use crate::lists;
use crate::resources::GREETING_TEMPLATE;
use crate::rpc::{self, Body, Fault};

/// The specification's limit of values.
const COMPLETION_LIMIT: usize = 100;

const LANGUAGES: [&str; 12] = [
    "c",
    "clojure",
    "cobol",
    "elixir",
    "go",
    "haskell",
    "java",
    "kotlin",
    "python",
    "ruby",
    "rust",
    "typescript",
];
const STYLES: [&str; 3] = ["brief", "kind", "thorough"];
const NAMES: [&str; 5] = ["Ada", "Alan", "Barbara", "Grace", "Katherine"];

/// `prompts/list`.
pub(crate) fn list(call: &Call<'_>) -> Result<Body, Fault> {
    let prompts = [
        json!({"name": "haiku", "title": "Haiku", "description": "asks for a haiku about switchboards"}),
        json!({
            "name": "review", "title": "Review", "description": "asks for a review of some code",
            "arguments": [
                {"name": "language", "title": "Language", "description": "what it is written in", "required": true},
                {"name": "style", "title": "Style", "description": "how to say it", "required": false},
            ],
        }),
    ]
    .into_iter();
    let has_fixtures = call.peer.demo.options.has_fixtures;
    let fixtures = has_fixtures.then(fixtures::prompts).into_iter().flatten();
    let prompts: Vec<String> = prompts
        .chain(fixtures)
        .map(|prompt| prompt.to_string())
        .collect();
    let prompts: Vec<&str> = prompts.iter().map(String::as_str).collect();
    lists::page(call, "prompts", &prompts)
}

/// `prompts/get`.
pub(crate) fn get(call: &Call<'_>) -> Result<Outcome, Fault> {
    let arguments: Map<String, Value> = match call.params.arguments {
        None => Map::new(),
        arguments => rpc::read("arguments", arguments)?,
    };
    if call.peer.demo.options.has_fixtures
        && let Some(outcome) = fixtures::prompt(call, &arguments)
    {
        return outcome;
    }
    let argument = |name: &str| match arguments.get(name) {
        None => Ok(None),
        Some(Value::String(value)) => Ok(Some(value.as_str())),
        Some(_) => Err(Fault::invalid_params(format!(
            "argument {name} must be a string"
        ))),
    };
    let (description, text) = match &*call.params.name {
        "haiku" => (
            "a haiku about switchboards",
            "Write a haiku about a telephone switchboard at night.".to_owned(),
        ),
        "review" => {
            let language = argument("language")?
                .ok_or_else(|| Fault::invalid_params("argument language is missing"))?;
            let style = argument("style")?.unwrap_or("thorough");
            (
                "a review of some code",
                format!("Give the {language} code that follows a {style} review."),
            )
        }
        "" => return Err(Fault::invalid_params("name is missing")),
        name => return Err(Fault::invalid_params(format!("unknown prompt {name:?}"))),
    };
    Ok(Outcome::Done(Body::from(json!({
        "description": description,
        "messages": [{"role": "user", "content": {"type": "text", "text": text}}],
    }))))
}

/// `completion/complete`.
pub(crate) fn complete(call: &Call<'_>) -> Result<Body, Fault> {
    #[derive(Deserialize)]
    #[serde(tag = "type")]
    enum Reference {
        #[serde(rename = "ref/prompt")]
        Prompt { name: String },
        #[serde(rename = "ref/resource")]
        Resource { uri: String },
    }
    #[derive(Deserialize)]
    struct Argument {
        name: String,
        value: String,
    }
    let reference: Reference = rpc::read("ref", call.params.reference)?;
    let argument: Argument = rpc::read("argument", call.params.argument)?;
    let known: &[&str] = match (&reference, argument.name.as_str()) {
        (Reference::Prompt { name }, "language") if name == "review" => &LANGUAGES,
        (Reference::Prompt { name }, "style") if name == "review" => &STYLES,
        (Reference::Prompt { name }, _) if name == "review" || name == "haiku" => &[],
        (Reference::Resource { uri }, "name") if uri == GREETING_TEMPLATE => &NAMES,
        (Reference::Resource { uri }, _) if uri == GREETING_TEMPLATE => &[],
        (Reference::Prompt { name }, _) if name == fixtures::PROMPT_WITH_ARGUMENTS => {
            &["paris", "park", "party"]
        }
        (Reference::Resource { uri }, _) if uri == fixtures::TEMPLATE => &["1", "2", "3"],
        (Reference::Prompt { name }, _) => {
            return Err(Fault::invalid_params(format!("unknown prompt {name:?}")));
        }
        (Reference::Resource { uri }, _) => {
            return Err(Fault::invalid_params(format!("unknown template {uri:?}")));
        }
    };
    let begun = argument.value.to_lowercase();
    let values: Vec<&str> = known
        .iter()
        .copied()
        .filter(|value| value.to_lowercase().starts_with(&begun))
        .collect();
    let shown = &values[..values.len().min(COMPLETION_LIMIT)];
    Ok(Body::from(json!({
        "completion": {"values": shown, "total": values.len(), "hasMore": shown.len() < values.len()},
    })))
}
