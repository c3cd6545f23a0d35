//! Conversations of any shape, with turns of all vendors mixed, obey every vendor's rules.

use proptest::prelude::*;
use serde_json::{Value, json};
use switchboard_agent::conversation::{Conversation, ImageData, ToolOutput};
use switchboard_agent::wire::wire_of;
use switchboard_agent::{
    CallOutcome, ContentPart, ModelSettings, ModelTurn, ModelVendor, ToolList, TurnContext,
    UserMessage,
};

use crate::continuation::{VENDORS, outcome, request_body};
use crate::recorded_answers::origin;
use crate::rules;

const MODEL: &str = "gemini-3-x";

/// One step of a conversation.
#[derive(Debug, Clone)]
enum Happening {
    User(String),
    Image,
    Note(String),
    Summary,
    Turn {
        vendor: usize,
        text: String,
        /// Arguments of each call.
        calls: Vec<String>,
        thinks: bool,
        /// How many calls get a result before the turn ends.
        answered: usize,
    },
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        Just(" \n".to_owned()),
        Just("plain".to_owned()),
        "\\PC{1,12}",
    ]
}

fn happening() -> impl Strategy<Value = Happening> {
    let arguments = prop_oneof![
        4 => Just("{\"a\": 1.0}".to_owned()),
        1 => Just(String::new()),
        1 => Just("{\"cut\":".to_owned()),
        1 => Just("[1]".to_owned()),
    ];
    let calls = proptest::collection::vec(arguments, 0..4);
    let turn = (0usize..4, text(), calls, any::<bool>(), 0usize..5);
    let turn = turn.prop_map(|(vendor, text, calls, thinks, answered)| Happening::Turn {
        vendor,
        text,
        calls,
        thinks,
        answered,
    });
    prop_oneof![
        3 => text().prop_map(Happening::User),
        1 => Just(Happening::Image),
        1 => text().prop_map(Happening::Note),
        1 => Just(Happening::Summary),
        6 => turn,
    ]
}

/// The answer as the vendor would send it.
fn document(
    vendor: ModelVendor,
    number: usize,
    text: &str,
    calls: &[String],
    thinks: bool,
) -> Value {
    let numbered = || calls.iter().enumerate();
    let object = |text: &String| serde_json::from_str::<Value>(text).unwrap_or(json!({}));
    let object = |text: &String| {
        Some(object(text))
            .filter(Value::is_object)
            .unwrap_or(json!({}))
    };
    match vendor {
        ModelVendor::Anthropic => {
            let mut content = Vec::new();
            if thinks {
                content.push(json!({"type": "thinking", "thinking": "t", "signature": "s"}));
            }
            content.push(json!({"type": "text", "text": text}));
            content.extend(numbered().map(|(index, arguments)| {
                json!({"type": "tool_use", "id": format!("toolu_{number}_{index}"), "name": "f", "input": object(arguments)})
            }));
            content.push(json!({"type": "text", "text": text}));
            json!({"content": content, "stop_reason": "end_turn"})
        }
        ModelVendor::OpenAi => {
            let mut output = Vec::new();
            if thinks {
                let mut reasoning = json!({"type": "reasoning", "id": "rs_1", "summary": []});
                if number.is_multiple_of(2) {
                    reasoning["encrypted_content"] = json!("x");
                }
                output.push(reasoning);
            }
            if !text.is_empty() {
                output.push(json!({"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": text}]}));
            }
            output.extend(numbered().map(|(index, arguments)| {
                json!({"type": "function_call", "id": "fc_1", "call_id": format!("call_{number}_{index}"), "name": "f", "arguments": arguments})
            }));
            json!({"output": output, "status": "completed"})
        }
        ModelVendor::OpenAiChat => {
            let calls: Vec<Value> = numbered()
                .map(|(index, arguments)| {
                    json!({"id": format!("call_{number}_{index}"), "type": "function", "function": {"name": "f", "arguments": arguments}})
                })
                .collect();
            let message = json!({"content": text, "reasoning_content": if thinks { "t" } else { "" }, "tool_calls": calls});
            json!({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})
        }
        _ => {
            let mut parts = Vec::new();
            if thinks {
                parts.push(json!({"text": "t", "thought": true}));
            }
            parts.push(json!({"text": text}));
            parts.extend(numbered().map(|(index, arguments)| {
                let mut part = json!({"functionCall": {"name": "f", "args": object(arguments)}});
                if index == 0 && thinks {
                    part["thoughtSignature"] = json!("s");
                }
                part
            }));
            json!({"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]})
        }
    }
}

fn read(vendor: ModelVendor, document: &Value) -> ModelTurn {
    let wire = wire_of(vendor).expect("a wire");
    let turn = wire.read_document(origin(vendor, MODEL), &document.to_string());
    turn.unwrap_or_else(|fault| panic!("{fault}: {document}"))
}

fn image() -> ContentPart {
    ContentPart::Image(ImageData {
        media_type: "image/png".to_owned(),
        base64: "iVBORw0KGgo=".to_owned(),
    })
}

fn build(happenings: &[Happening]) -> Conversation {
    let mut conversation = Conversation::new();
    conversation.add_user_message(UserMessage::text("Begin."));
    for (number, happening) in happenings.iter().enumerate() {
        match happening {
            Happening::User(text) => conversation.add_user_message(UserMessage::text(text)),
            Happening::Image => {
                let parts = vec![image()];
                conversation.add_user_message(UserMessage { parts });
            }
            Happening::Note(text) => conversation.add_note(format!("Note: {text}")),
            Happening::Summary => conversation.replace_by_summary(2, "so far".to_owned()),
            Happening::Turn {
                vendor,
                text,
                calls,
                thinks,
                answered,
            } => {
                let vendor = VENDORS[*vendor];
                let document = document(vendor, number, text, calls, *thinks);
                let mut waiting = conversation.reply(read(vendor, &document));
                let open: Vec<usize> = waiting.open_calls().map(|(index, _)| index).collect();
                for index in open.into_iter().take(*answered) {
                    let outcome = match (index + number) % 7 {
                        6 => CallOutcome::Answered(ToolOutput {
                            parts: vec![image()],
                            ..ToolOutput::default()
                        }),
                        kind => outcome(kind),
                    };
                    waiting.answer(index, outcome).expect("an open call");
                }
                conversation = waiting.close();
            }
        }
    }
    conversation
}

/// A model that does not reason refuses the reasoning of another one, and ids that refer to it.
#[test]
fn reasoning_is_sent_to_models_that_reason_and_to_no_other() {
    let mut conversation = Conversation::new();
    conversation.add_user_message(UserMessage::text("Begin."));
    let calls = ["{}".to_owned()];
    let document = document(ModelVendor::OpenAi, 2, "Let me look.", &calls, true);
    let waiting = conversation.reply(read(ModelVendor::OpenAi, &document));
    let conversation = waiting.close();
    for (model, takes_reasoning) in [
        ("gpt-5", true),
        ("o4-mini", true),
        ("gpt-4.1", false),
        ("gpt-5-chat-latest", false),
    ] {
        let body = request_body(ModelVendor::OpenAi, model, &conversation);
        let value: Value = serde_json::from_str(&body).expect("JSON");
        assert_eq!(value.get("include").is_some(), takes_reasoning, "{body}");
        for word in [
            "encrypted_content\":\"x\"",
            "\"rs_1\"",
            "\"msg_1\"",
            "\"fc_1\"",
        ] {
            assert_eq!(
                body.contains(word),
                takes_reasoning,
                "{model} {word}: {body}"
            );
        }
        assert!(
            body.contains("Let me look.") && body.contains("call_2_0"),
            "{body}"
        );
    }
}

/// Anthropic refuses calls in a history where no tool is defined.
#[test]
fn a_history_with_calls_is_accepted_where_no_tool_is_offered() {
    for origin in VENDORS {
        let mut conversation = Conversation::new();
        conversation.add_user_message(UserMessage::text("Begin."));
        let document = document(origin, 1, "text", &["{}".to_owned()], false);
        let conversation = conversation.reply(read(origin, &document)).close();
        let context = TurnContext {
            conversation: &conversation,
            system: "",
            tools: &ToolList::new(None),
            cache_key: "",
        };
        for vendor in VENDORS {
            let wire = wire_of(vendor).expect("a wire");
            let body = wire
                .request(&ModelSettings::new(vendor, MODEL), &context)
                .body;
            let value: Value = serde_json::from_str(&body).expect("JSON");
            assert_eq!(rules::check(vendor, MODEL, &value), Ok(()), "{body}");
        }
    }
}

proptest! {
    #[test]
    fn every_conversation_is_accepted_by_every_vendor(
        happenings in proptest::collection::vec(happening(), 0..12),
    ) {
        let conversation = build(&happenings);
        for vendor in VENDORS {
            let body = request_body(vendor, MODEL, &conversation);
            let value: Value = serde_json::from_str(&body).expect("JSON");
            let checked = rules::check(vendor, MODEL, &value);
            prop_assert_eq!(checked, Ok(()), "{:?}\n{}", vendor, body);
        }
    }
}
