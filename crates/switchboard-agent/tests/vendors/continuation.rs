//! Each recorded conversation with tools is rebuilt, and its request obeys the vendor's rules: with
//! the same vendor, where its items go back as they came, and with every other vendor.

use serde_json::{Value, json};
use switchboard_agent::conversation::Conversation;
use switchboard_agent::json::JsonText;
use switchboard_agent::wire::wire_of;
use switchboard_agent::{
    CallOutcome, ModelSettings, ModelTurn, ModelVendor, ToolList, ToolSpec, TurnContext,
    UserMessage,
};

use crate::recorded_answers::{origin, read_answer};
use crate::recordings::load;
use crate::rules;

pub(crate) const VENDORS: [ModelVendor; 4] = [
    ModelVendor::Anthropic,
    ModelVendor::OpenAi,
    ModelVendor::OpenAiChat,
    ModelVendor::Gemini,
];

/// The request for a conversation, with a definition for each tool that it calls.
pub(crate) fn request_body(
    vendor: ModelVendor,
    model: &str,
    conversation: &Conversation,
) -> String {
    let mut tools = ToolList::new(None);
    let turns = conversation
        .entries()
        .iter()
        .filter_map(|entry| match entry {
            switchboard_agent::HistoryEntry::Model(answered) => Some(answered.turn()),
            _ => None,
        });
    let mut names: Vec<String> = turns
        .flat_map(|turn| turn.calls().map(|call| call.name.clone()))
        .collect();
    names.push("search_tools".to_owned());
    names.sort();
    names.dedup();
    let specs = names.into_iter().map(|name| ToolSpec {
        name,
        server: "srv".to_owned(),
        tool: String::new(),
        description: "does something".to_owned(),
        schema: JsonText::parse(r#"{"type":"object","properties":{}}"#).expect("JSON"),
    });
    tools.update(specs.collect(), |_| false);
    let settings = ModelSettings::new(vendor, model);
    let context = TurnContext {
        conversation,
        system: "Be brief.",
        tools: &tools,
        cache_key: "key",
    };
    wire_of(vendor)
        .expect("a wire")
        .request(&settings, &context)
        .body
}

/// Every kind of outcome, in turn.
pub(crate) fn outcome(number: usize) -> CallOutcome {
    match number % 6 {
        0 => CallOutcome::answered("22 degrees"),
        1 => CallOutcome::failed("no such city"),
        2 => CallOutcome::Denied {
            reason: "not today".to_owned(),
        },
        3 => CallOutcome::Cancelled,
        4 => CallOutcome::Lost,
        _ => CallOutcome::answered(""),
    }
}

/// Answers a turn, says something more, and checks the next request on all four wires.
fn check_continued(place: &str, turn: ModelTurn) {
    let mut conversation = Conversation::new();
    conversation.add_user_message(UserMessage::text("What is the weather?"));
    let model = turn.origin.model.clone();
    let own = turn.origin.vendor;
    let mut waiting = conversation.reply(turn);
    let open: Vec<usize> = waiting.open_calls().map(|(index, _)| index).collect();
    for index in open {
        waiting.answer(index, outcome(index)).expect("an open call");
    }
    let mut conversation = waiting.close();
    conversation.add_user_message(UserMessage::text("And tomorrow?"));
    for vendor in VENDORS {
        let model = match vendor == own {
            true => model.as_str(),
            false => "gemini-3-other",
        };
        let body = request_body(vendor, model, &conversation);
        let value: Value = serde_json::from_str(&body).expect("JSON");
        let checked = rules::check(vendor, model, &value);
        assert_eq!(checked, Ok(()), "{place} for {vendor:?}:\n{body}");
    }
}

#[test]
fn every_recorded_answer_can_be_continued_on_every_wire() {
    let Some(interactions) = load() else {
        return;
    };
    let mut count = 0;
    for interaction in interactions.iter().filter(|one| one.status == 200) {
        if let Ok(turn) = read_answer(interaction) {
            check_continued(&interaction.place, turn);
            count += 1;
        }
    }
    eprintln!("{count} answers were continued on four wires");
}

#[test]
fn fixtures_can_be_continued_on_every_wire() {
    for (name, vendor, body) in crate::fixtures::STREAMS {
        let turn = crate::recorded_answers::read_stream(*vendor, "m", body.as_bytes(), 100);
        check_continued(name, turn.expect("a turn"));
    }
}

#[test]
fn every_recorded_tool_conversation_is_rebuilt_into_an_accepted_request() {
    let Some(interactions) = load() else {
        return;
    };
    let mut counts = [0; 4];
    for interaction in interactions.iter().filter(|one| one.status == 200) {
        let Some(request) = &interaction.request else {
            continue;
        };
        let vendor = interaction.vendor;
        let steps = import(vendor, request);
        let has_results = steps.iter().any(|step| matches!(step, Step::Results(_)));
        if !has_results {
            continue;
        }
        let conversation = rebuild(vendor, &interaction.model, steps);
        for target in VENDORS {
            let model = match target == vendor {
                true => interaction.model.as_str(),
                false => "gemini-3-other",
            };
            let body = request_body(target, model, &conversation);
            let value: Value = serde_json::from_str(&body).expect("JSON");
            let checked = rules::check(target, model, &value);
            assert_eq!(
                checked,
                Ok(()),
                "{} for {target:?}:\n{body}",
                interaction.place
            );
        }
        counts[VENDORS
            .iter()
            .position(|one| *one == vendor)
            .expect("a wire")] += 1;
    }
    eprintln!("rebuilt conversations by wire: {counts:?}");
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
}

/// A recorded request, taken apart.
enum Step {
    User(String),
    /// The vendor's items of one turn.
    Turn(Vec<Value>),
    /// Results as text, in the order of the calls.
    Results(Vec<String>),
}

fn rebuild(vendor: ModelVendor, model: &str, steps: Vec<Step>) -> Conversation {
    let mut conversation = Conversation::new();
    if !matches!(steps.first(), Some(Step::User(_))) {
        conversation.add_user_message(UserMessage::text("Begin."));
    }
    let mut steps = steps.into_iter().peekable();
    while let Some(step) = steps.next() {
        match step {
            Step::User(text) => conversation.add_user_message(UserMessage::text(text)),
            Step::Results(_) => {}
            Step::Turn(items) => {
                let mut waiting = conversation.reply(turn_of(vendor, model, &items));
                let results = match steps.peek() {
                    Some(Step::Results(results)) => results.clone(),
                    _ => Vec::new(),
                };
                for (index, text) in results.into_iter().enumerate() {
                    // A recording may hold results of calls that are not in it.
                    let _ = waiting.answer(index, CallOutcome::answered(text));
                }
                conversation = waiting.close();
            }
        }
    }
    conversation
}

fn turn_of(vendor: ModelVendor, model: &str, items: &[Value]) -> ModelTurn {
    let document = match vendor {
        ModelVendor::Anthropic => json!({"content": items, "stop_reason": "tool_use"}),
        ModelVendor::OpenAi => json!({"output": items, "status": "completed"}),
        ModelVendor::OpenAiChat => {
            json!({"choices": [{"index": 0, "message": items[0], "finish_reason": "stop"}]})
        }
        _ => json!({"candidates": [{"content": {"parts": items}, "finishReason": "STOP"}]}),
    };
    let wire = wire_of(vendor).expect("a wire");
    let turn = wire.read_document(origin(vendor, model), &document.to_string());
    turn.unwrap_or_else(|fault| panic!("{fault}: {document}"))
}

fn import(vendor: ModelVendor, request: &Value) -> Vec<Step> {
    match vendor {
        ModelVendor::Anthropic => import_anthropic(request),
        ModelVendor::OpenAi => import_responses(request),
        ModelVendor::OpenAiChat => import_chat(request),
        _ => import_gemini(request),
    }
}

fn all_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(|part| all_text(&part["text"])).collect(),
        other => other.to_string(),
    }
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

fn import_anthropic(request: &Value) -> Vec<Step> {
    let mut steps = Vec::new();
    for message in list(&request["messages"]) {
        let blocks = list(&message["content"]);
        if message["role"] == "assistant" && !blocks.is_empty() {
            steps.push(Step::Turn(blocks));
            continue;
        }
        let results = blocks.iter().filter(|block| block["type"] == "tool_result");
        let results: Vec<String> = results.map(|block| all_text(&block["content"])).collect();
        let texts = blocks.iter().filter(|block| block["type"] == "text");
        let text = match blocks.is_empty() {
            true => all_text(&message["content"]),
            false => texts.map(|block| all_text(&block["text"])).collect(),
        };
        if !results.is_empty() {
            steps.push(Step::Results(results));
        }
        if !text.trim().is_empty() || steps.is_empty() {
            steps.push(Step::User(format!("{text}.")));
        }
    }
    steps
}

fn import_responses(request: &Value) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for item in list(&request["input"]) {
        let is_users = matches!(item["role"].as_str(), Some("user" | "system" | "developer"));
        match item["type"].as_str() {
            Some("function_call_output") => match steps.last_mut() {
                Some(Step::Results(results)) => results.push(all_text(&item["output"])),
                _ => steps.push(Step::Results(vec![all_text(&item["output"])])),
            },
            _ if is_users => steps.push(Step::User(all_text(&item["content"]))),
            _ => match steps.last_mut() {
                Some(Step::Turn(items)) => items.push(item),
                _ => steps.push(Step::Turn(vec![item])),
            },
        }
    }
    steps
}

fn import_chat(request: &Value) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for message in list(&request["messages"]) {
        match message["role"].as_str() {
            Some("assistant") => steps.push(Step::Turn(vec![message])),
            Some("tool") => match steps.last_mut() {
                Some(Step::Results(results)) => results.push(all_text(&message["content"])),
                _ => steps.push(Step::Results(vec![all_text(&message["content"])])),
            },
            Some("user") => steps.push(Step::User(all_text(&message["content"]))),
            _ => {}
        }
    }
    steps
}

fn import_gemini(request: &Value) -> Vec<Step> {
    let mut steps = Vec::new();
    for content in list(&request["contents"]) {
        let parts = list(&content["parts"]);
        if content["role"] == "model" {
            steps.push(Step::Turn(parts));
            continue;
        }
        let results = parts.iter().filter_map(|part| part.get("functionResponse"));
        let results: Vec<String> = results
            .map(|result| result["response"].to_string())
            .collect();
        match results.is_empty() {
            true => {
                let texts = parts.iter().map(|part| all_text(&part["text"]));
                steps.push(Step::User(texts.collect()));
            }
            false => steps.push(Step::Results(results)),
        }
    }
    steps
}
