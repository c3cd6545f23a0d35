//! The tools that ask: `ask_form`, `ask_url`, `ask_secret`, `ask_twice`, `confirm`, `ask_model`,
//! `ask_roots`.

use serde_json::{Map, Value, json};

use super::{Action, Answer, Question, Script, Step};
use crate::rpc::Body;

/// The tool of that name, if it is one that asks.
pub(crate) fn script(name: &str) -> Option<Script> {
    Some(match name {
        "ask_form" => ask_form,
        "ask_url" => ask_url,
        "ask_secret" => ask_secret,
        "ask_twice" => ask_twice,
        "confirm" => confirm,
        "ask_model" => ask_model,
        "ask_roots" => ask_roots,
        _ => return None,
    })
}

/// One field of every kind that a form can hold.
fn ask_form(_: &Map<String, Value>, answers: &[Answer]) -> Step {
    match answers {
        [] => Step::Ask(Question::Form {
            message: "Please tell us about yourself".to_owned(),
            schema: every_kind(),
        }),
        [answer, ..] => Step::Done(report(answer)),
    }
}

fn every_kind() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "title": "Name", "description": "what to call you", "minLength": 1, "maxLength": 40},
            "email": {"type": "string", "title": "E-mail", "format": "email"},
            "homepage": {"type": "string", "title": "Home page", "format": "uri"},
            "birthday": {"type": "string", "title": "Birthday", "format": "date"},
            "appointment": {"type": "string", "title": "Appointment", "format": "date-time"},
            "city": {"type": "string", "title": "City", "default": "Vienna"},
            "height": {"type": "number", "title": "Height in metres", "minimum": 0.5, "maximum": 2.5},
            "age": {"type": "integer", "title": "Age", "minimum": 0, "maximum": 150, "default": 30},
            "newsletter": {"type": "boolean", "title": "Newsletter", "default": true},
            "color": {"type": "string", "title": "Colour", "enum": ["red", "green", "blue"], "default": "green"},
            "size": {
                "type": "string", "title": "Size",
                "oneOf": [
                    {"const": "s", "title": "Small"}, {"const": "m", "title": "Medium"}, {"const": "l", "title": "Large"},
                ],
                "default": "m",
            },
            "shape": {
                "type": "string", "title": "Shape",
                "enum": ["circle", "square"], "enumNames": ["A round one", "One with corners"],
            },
            "toppings": {
                "type": "array", "title": "Toppings", "maxItems": 2,
                "items": {"type": "string", "enum": ["cheese", "olives", "onions"]},
                "default": ["cheese"],
            },
            "days": {
                "type": "array", "title": "Days", "minItems": 1,
                "items": {"anyOf": [
                    {"const": "mo", "title": "Monday"}, {"const": "we", "title": "Wednesday"}, {"const": "fr", "title": "Friday"},
                ]},
                "default": ["mo", "fr"],
            },
        },
        "required": ["name", "color"],
    })
}

fn ask_url(_: &Map<String, Value>, answers: &[Answer]) -> Step {
    match answers {
        [] => Step::Ask(Question::Url {
            message: "Please look at this page to go on".to_owned(),
            url: "https://example.com/switchboard/demo?step=1&for=you".to_owned(),
        }),
        [answer, ..] => Step::Done(report(answer)),
    }
}

/// Asks for a password in a form, which a server must never do; a good client warns.
fn ask_secret(_: &Map<String, Value>, answers: &[Answer]) -> Step {
    let schema = json!({
        "type": "object",
        "properties": {"password": {"type": "string", "title": "Password", "description": "your password for example.com"}},
        "required": ["password"],
    });
    match answers {
        [] => Step::Ask(Question::Form {
            message: "Please enter your password".to_owned(),
            schema,
        }),
        // The secret itself is not repeated.
        [answer, ..] => Step::Done(Body::from_message(format!(
            "the person chose to {}",
            verb(answer.action)
        ))),
    }
}

fn ask_twice(_: &Map<String, Value>, answers: &[Answer]) -> Step {
    let name = |answer: &Answer| {
        answer
            .content
            .as_ref()
            .and_then(|content| content.get("name"))
            .and_then(Value::as_str)
            .unwrap_or("nobody")
            .to_owned()
    };
    match answers {
        [] => Step::Ask(Question::Form {
            message: "What is your name?".to_owned(),
            schema: json!({
                "type": "object",
                "properties": {"name": {"type": "string", "title": "Name", "minLength": 1}},
                "required": ["name"],
            }),
        }),
        [first] if first.action == Action::Accept => Step::Ask(yes_or_no(&format!(
            "Is {:?} really your name?",
            name(first)
        ))),
        [first] => Step::Done(report(first)),
        [first, second, ..] if is_yes(second) => Step::Done(Body::from_message(format!(
            "pleased to meet you, {}",
            name(first)
        ))),
        [first, ..] => Step::Done(Body::from_message(format!(
            "so you are not {}",
            name(first)
        ))),
    }
}

fn confirm(arguments: &Map<String, Value>, answers: &[Answer]) -> Step {
    let subject = arguments
        .get("subject")
        .and_then(Value::as_str)
        .unwrap_or("everything");
    match answers {
        [] => Step::Ask(yes_or_no(&format!("Really erase {subject}?"))),
        [answer, ..] => Step::Done(Body::from_message(match answer.action {
            Action::Accept if is_yes(answer) => format!("accepted: {subject} would be erased now"),
            Action::Accept => format!("accepted, with no: {subject} stays"),
            Action::Decline => format!("declined: {subject} stays"),
            Action::Cancel => format!("cancelled: {subject} stays"),
        })),
    }
}

/// Asks the peer's model, and returns its answer.
fn ask_model(arguments: &Map<String, Value>, answers: &[Answer]) -> Step {
    let prompt = arguments
        .get("prompt")
        .and_then(Value::as_str)
        .unwrap_or("Say one kind word.");
    let [answer, ..] = answers else {
        return Step::Ask(Question::Sample {
            prompt: prompt.to_owned(),
        });
    };
    let result = Value::from(answer.content.clone().unwrap_or_default());
    let (model, text) = (&result["model"], &result["content"]["text"]);
    Step::Done(match (model.as_str(), text.as_str()) {
        (Some(model), Some(text)) => Body::from_message(format!("{model} said: {text}")),
        _ => Body::from_failure(format!("the model's answer is not text: {result}")),
    })
}

/// Asks which folders the peer works in, and repeats them.
fn ask_roots(_: &Map<String, Value>, answers: &[Answer]) -> Step {
    let [answer, ..] = answers else {
        return Step::Ask(Question::Roots);
    };
    let roots = answer
        .content
        .as_ref()
        .and_then(|content| content.get("roots"))
        .and_then(Value::as_array);
    let Some(roots) = roots else {
        return Step::Done(Body::from_failure("the answer has no roots"));
    };
    let uris: Vec<&str> = roots
        .iter()
        .filter_map(|root| root["uri"].as_str())
        .collect();
    Step::Done(Body::from_message(format!(
        "{} roots: {}",
        uris.len(),
        uris.join(" ")
    )))
}

fn yes_or_no(message: &str) -> Question {
    let schema = json!({
        "type": "object",
        "properties": {"yes": {"type": "boolean", "title": "Yes", "default": false}},
        "required": ["yes"],
    });
    Question::Form {
        message: message.to_owned(),
        schema,
    }
}

fn is_yes(answer: &Answer) -> bool {
    let yes = answer
        .content
        .as_ref()
        .and_then(|content| content.get("yes"));
    answer.action == Action::Accept && yes == Some(&Value::Bool(true))
}

/// Reports the person's action, and repeats the content.
fn report(answer: &Answer) -> Body {
    let text = match &answer.content {
        Some(content) => format!(
            "the person chose to {}: {}",
            verb(answer.action),
            Value::from(content.clone())
        ),
        None => format!("the person chose to {}", verb(answer.action)),
    };
    Body::from(json!({"content": [{"type": "text", "text": text}], "structuredContent": answer}))
}

fn verb(action: Action) -> &'static str {
    match action {
        Action::Accept => "accept",
        Action::Decline => "decline",
        Action::Cancel => "cancel",
    }
}
