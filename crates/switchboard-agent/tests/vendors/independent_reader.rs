//! A second reading of vendors' answers, written apart from the crate's readers: whole documents as
//! `Value`, streams by folding their events, and the last event's summary where there is one.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use switchboard_agent::{ModelTurn, ModelVendor};

/// What both readings must agree on.
#[derive(Debug, PartialEq)]
pub(crate) struct Reading {
    pub(crate) text: String,
    pub(crate) thoughts: String,
    /// Name and arguments; `Null` for arguments that are no JSON object.
    pub(crate) calls: Vec<(String, Value)>,
    pub(crate) finish_word: Option<String>,
    /// Input without the cache, cache reads, output.
    pub(crate) usage: [Option<u64>; 3],
}

/// The crate's reading in the same form.
pub(crate) fn reading_of(turn: &ModelTurn) -> Reading {
    let calls = turn.calls().map(|call| {
        let arguments = call.arguments.object();
        let arguments = arguments.map(|json| serde_json::from_str(json.as_str()).expect("JSON"));
        (call.name.clone(), arguments.unwrap_or(Value::Null))
    });
    Reading {
        text: turn.text(),
        thoughts: turn.thoughts(),
        calls: calls.collect(),
        finish_word: turn.finish_word.clone(),
        usage: [turn.usage.input, turn.usage.cache_read, turn.usage.output],
    }
}

pub(crate) fn read(vendor: ModelVendor, is_stream: bool, body: &str) -> Reading {
    let documents = match is_stream {
        true => events(body),
        false => vec![serde_json::from_str(body).expect("JSON")],
    };
    match vendor {
        ModelVendor::Anthropic if is_stream => anthropic(&fold_anthropic(&documents)),
        ModelVendor::Anthropic => anthropic(&documents[0]),
        ModelVendor::OpenAi if is_stream => {
            let last = documents
                .iter()
                .rfind(|event| event["response"]["usage"].is_object());
            responses(&last.expect("a last event")["response"])
        }
        ModelVendor::OpenAi => responses(&documents[0]),
        ModelVendor::OpenAiChat => chat(&documents),
        ModelVendor::Gemini => gemini(&documents),
        other => panic!("{other:?} has no wire"),
    }
}

/// The JSON events of a stream.
pub(crate) fn events(body: &str) -> Vec<Value> {
    let lines = body.lines().filter_map(|line| line.strip_prefix("data:"));
    let lines = lines.map(str::trim).filter(|data| *data != "[DONE]");
    lines
        .map(|data| serde_json::from_str(data).expect("JSON"))
        .collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn arguments(text: &str) -> Value {
    // Groq writes `null` for a tool without parameters.
    let is_none = matches!(text.trim(), "" | "null");
    let text = if is_none { "{}" } else { text };
    let value: Value = serde_json::from_str(text).unwrap_or_default();
    if value.is_object() {
        value
    } else {
        Value::Null
    }
}

/// The message that a stream stands for.
fn fold_anthropic(events: &[Value]) -> Value {
    let mut blocks: BTreeMap<u64, Value> = BTreeMap::new();
    let mut inputs: BTreeMap<u64, String> = BTreeMap::new();
    let (mut usage, mut stop) = (json!({}), Value::Null);
    for event in events {
        let index = event["index"].as_u64().unwrap_or(0);
        for counts in [&event["message"]["usage"], &event["usage"]] {
            for (key, value) in counts.as_object().into_iter().flatten() {
                usage[key] = value.clone();
            }
        }
        if event["type"] == "content_block_start" {
            blocks.insert(index, event["content_block"].clone());
        }
        let delta = &event["delta"];
        for key in ["text", "thinking"] {
            if let (Some(more), Some(block)) = (delta[key].as_str(), blocks.get_mut(&index)) {
                let before = text(&block[key]).to_owned();
                block[key] = json!(before + more);
            }
        }
        inputs
            .entry(index)
            .or_default()
            .push_str(text(&delta["partial_json"]));
        if !delta["stop_reason"].is_null() {
            stop = delta["stop_reason"].clone();
        }
    }
    for (index, block) in &mut blocks {
        if block["type"] == "tool_use" {
            block["input"] = arguments(&inputs[index]);
        }
    }
    let content: Vec<Value> = blocks.into_values().collect();
    json!({"content": content, "stop_reason": stop, "usage": usage})
}

fn anthropic(message: &Value) -> Reading {
    let blocks = message["content"].as_array().cloned().unwrap_or_default();
    let of = |kind: &str, key: &str| -> String {
        let blocks = blocks.iter().filter(|block| block["type"] == kind);
        blocks.map(|block| text(&block[key])).collect()
    };
    let calls = blocks.iter().filter(|block| block["type"] == "tool_use");
    Reading {
        text: of("text", "text"),
        thoughts: of("thinking", "thinking"),
        calls: calls
            .map(|block| (text(&block["name"]).to_owned(), block["input"].clone()))
            .collect(),
        finish_word: message["stop_reason"].as_str().map(str::to_owned),
        usage: [
            message["usage"]["input_tokens"].as_u64(),
            message["usage"]["cache_read_input_tokens"].as_u64(),
            message["usage"]["output_tokens"].as_u64(),
        ],
    }
}

fn responses(response: &Value) -> Reading {
    let mut reading = Reading {
        text: String::new(),
        thoughts: String::new(),
        calls: Vec::new(),
        finish_word: None,
        usage: without_cache(
            response["usage"]["input_tokens"].as_u64(),
            response["usage"]["input_tokens_details"]["cached_tokens"].as_u64(),
            response["usage"]["output_tokens"].as_u64(),
        ),
    };
    for item in response["output"].as_array().into_iter().flatten() {
        let parts = |key: &str| item[key].as_array().cloned().unwrap_or_default();
        match text(&item["type"]) {
            "message" => {
                for part in parts("content") {
                    reading.text += text(&part["text"]);
                    reading.text += text(&part["refusal"]);
                }
            }
            "reasoning" => {
                for part in parts("summary").iter().chain(&parts("content")) {
                    reading.thoughts += text(&part["text"]);
                }
            }
            "function_call" => {
                let arguments = arguments(text(&item["arguments"]));
                reading
                    .calls
                    .push((text(&item["name"]).to_owned(), arguments));
            }
            _ => {}
        }
    }
    let reason = response["incomplete_details"]["reason"].as_str();
    reading.finish_word = reason.or(response["status"].as_str()).map(str::to_owned);
    reading
}

fn chat(chunks: &[Value]) -> Reading {
    let mut reading = Reading {
        text: String::new(),
        thoughts: String::new(),
        calls: Vec::new(),
        finish_word: None,
        usage: [None; 3],
    };
    let mut calls: BTreeMap<u64, (String, String)> = BTreeMap::new();
    for chunk in chunks {
        let usage = &chunk["usage"];
        if usage.is_object() {
            reading.usage = without_cache(
                usage["prompt_tokens"].as_u64(),
                usage["prompt_tokens_details"]["cached_tokens"].as_u64(),
                usage["completion_tokens"].as_u64(),
            );
        }
        for choice in chunk["choices"].as_array().into_iter().flatten() {
            if choice["index"].as_u64().unwrap_or(0) != 0 {
                continue;
            }
            let delta = match choice["delta"].is_object() {
                true => &choice["delta"],
                false => &choice["message"],
            };
            match &delta["content"] {
                Value::Array(parts) => {
                    for part in parts {
                        reading.text += text(&part["text"]);
                        for thought in part["thinking"].as_array().into_iter().flatten() {
                            reading.thoughts += text(&thought["text"]);
                        }
                    }
                }
                other => reading.text += text(other),
            }
            reading.text += text(&delta["refusal"]);
            let thought = delta["reasoning_content"]
                .as_str()
                .or(delta["reasoning"].as_str());
            reading.thoughts += thought.unwrap_or_default();
            let pieces = delta["tool_calls"].as_array().into_iter().flatten();
            for (position, piece) in pieces.enumerate() {
                let index = piece["index"].as_u64().unwrap_or(position as u64);
                let call = calls.entry(index).or_default();
                if call.0.is_empty() {
                    call.0 = text(&piece["function"]["name"]).to_owned();
                }
                call.1 += text(&piece["function"]["arguments"]);
            }
            let word = choice["finish_reason"].as_str().map(str::to_owned);
            reading.finish_word = word.or(reading.finish_word);
        }
    }
    let is_cut = reading.finish_word.as_deref() == Some("length");
    let calls = calls
        .into_values()
        .map(|(name, text)| match is_cut && text.is_empty() {
            true => (name, Value::Null),
            false => (name, arguments(&text)),
        });
    reading.calls = calls.collect();
    reading
}

fn gemini(chunks: &[Value]) -> Reading {
    let mut reading = Reading {
        text: String::new(),
        thoughts: String::new(),
        calls: Vec::new(),
        finish_word: None,
        usage: [None; 3],
    };
    for chunk in chunks {
        let candidate = &chunk["candidates"][0];
        for part in candidate["content"]["parts"]
            .as_array()
            .into_iter()
            .flatten()
        {
            match part["thought"] == true {
                true => reading.thoughts += text(&part["text"]),
                false => reading.text += text(&part["text"]),
            }
            if let Some(name) = part["functionCall"]["name"].as_str() {
                let arguments = match &part["functionCall"]["args"] {
                    Value::Null => json!({}),
                    arguments => arguments.clone(),
                };
                reading.calls.push((name.to_owned(), arguments));
            }
        }
        let word = candidate["finishReason"].as_str().map(str::to_owned);
        reading.finish_word = word.or(reading.finish_word);
        let usage = &chunk["usageMetadata"];
        let count = |key: &str| usage[key].as_u64();
        if usage.is_object() {
            let prompt = count("promptTokenCount");
            let of_tools = count("toolUsePromptTokenCount").unwrap_or(0);
            let output = match (count("candidatesTokenCount"), count("thoughtsTokenCount")) {
                (None, None) => None,
                (answer, thoughts) => Some(answer.unwrap_or(0) + thoughts.unwrap_or(0)),
            };
            let cached = count("cachedContentTokenCount");
            reading.usage = without_cache(prompt.map(|count| count + of_tools), cached, output);
        }
    }
    reading
}

fn without_cache(input: Option<u64>, cached: Option<u64>, output: Option<u64>) -> [Option<u64>; 3] {
    [
        input.map(|input| input - cached.unwrap_or(0)),
        cached,
        output,
    ]
}
