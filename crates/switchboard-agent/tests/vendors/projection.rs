//! How a conversation becomes a request: what goes back as it came, where images stand, and that a
//! longer conversation only adds to the end of its request.

use serde_json::{Value, json};
use switchboard_agent::conversation::{Conversation, ImageData, ToolOutput};
use switchboard_agent::json::JsonText;
use switchboard_agent::wire::wire_of;
use switchboard_agent::{
    CallOutcome, ContentPart, ModelSettings, ModelVendor, ToolList, ToolSpec, TurnContext,
    UserMessage,
};

use crate::continuation::{VENDORS, outcome, request_body};
use crate::fixtures::STREAMS;
use crate::recorded_answers::read_stream;
use crate::rules;

fn image_outcome() -> CallOutcome {
    let image = ImageData {
        media_type: "image/png".to_owned(),
        base64: "iVBORw0KGgo=".to_owned(),
    };
    CallOutcome::Answered(ToolOutput {
        parts: vec![
            ContentPart::Text("a chart".to_owned()),
            ContentPart::Image(image),
        ],
        ..ToolOutput::default()
    })
}

/// The fixture of a vendor, answered.
fn answered(vendor: ModelVendor, model: &str, outcomes: [CallOutcome; 2]) -> Conversation {
    let (_, _, body) = STREAMS
        .iter()
        .find(|(_, one, _)| *one == vendor)
        .expect("a fixture");
    let turn = read_stream(vendor, model, body.as_bytes(), 100).expect("a turn");
    let mut conversation = Conversation::new();
    conversation.add_user_message(UserMessage::text("What is the weather?"));
    let mut waiting = conversation.reply(turn);
    for (index, outcome) in outcomes.into_iter().enumerate() {
        waiting.answer(index, outcome).expect("an open call");
    }
    waiting.close()
}

fn body(vendor: ModelVendor, model: &str, conversation: &Conversation) -> Value {
    let body = request_body(vendor, model, conversation);
    let value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(rules::check(vendor, model, &value), Ok(()), "{body}");
    value
}

#[test]
fn the_same_vendor_gets_its_items_back_as_they_came() {
    for vendor in VENDORS {
        let conversation = answered(vendor, "gemini-3-x", [outcome(0), outcome(1)]);
        let body = request_body(vendor, "gemini-3-x", &conversation);
        let switchboard_agent::HistoryEntry::Model(turn) = &conversation.entries()[1] else {
            panic!("a turn");
        };
        for item in &turn.turn().items {
            assert!(
                body.contains(item.as_str()),
                "{vendor:?}: {}\n{body}",
                item.as_str()
            );
        }
    }
}

#[test]
fn another_vendor_gets_the_neutral_view_without_thoughts() {
    for from in VENDORS {
        let conversation = answered(from, "gemini-3-x", [outcome(0), outcome(2)]);
        for to in VENDORS.into_iter().filter(|to| *to != from) {
            let body = request_body(to, "gemini-3-x", &conversation);
            for expected in ["Let me look.", "Paris", "22 degrees", "not today"] {
                assert!(
                    body.contains(expected),
                    "{from:?} to {to:?}: {expected}\n{body}"
                );
            }
            assert!(!body.contains("Which city?"), "{from:?} to {to:?}\n{body}");
        }
    }
}

#[test]
fn images_in_results_stand_where_each_vendor_takes_them() {
    let outcomes = || [image_outcome(), outcome(0)];
    let conversation = answered(ModelVendor::Anthropic, "m", outcomes());
    let sent = body(ModelVendor::Anthropic, "m", &conversation);
    let source = json!({"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="});
    let expected =
        json!([{"type": "text", "text": "a chart"}, {"type": "image", "source": source}]);
    assert_eq!(sent["messages"][2]["content"][0]["content"], expected);

    let sent = body(ModelVendor::OpenAi, "m", &conversation);
    let url = "data:image/png;base64,iVBORw0KGgo=";
    let expected = json!([{"type": "input_text", "text": "a chart"}, {"type": "input_image", "image_url": url}]);
    let items = sent["input"].as_array().expect("items");
    let output = items
        .iter()
        .find(|item| item["type"] == "function_call_output");
    assert_eq!(output.expect("an output")["output"], expected);

    let sent = body(ModelVendor::OpenAiChat, "m", &conversation);
    let messages = sent["messages"].as_array().expect("messages");
    let last = messages.last().expect("a message");
    assert_eq!(last["role"], "user");
    assert_eq!(last["content"][1]["image_url"]["url"], url);

    let data = json!({"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}});
    let sent = body(ModelVendor::Gemini, "gemini-3-x", &conversation);
    assert_eq!(
        sent["contents"][2]["parts"][0]["functionResponse"]["parts"],
        json!([data])
    );
    let sent = body(ModelVendor::Gemini, "gemini-2.5-x", &conversation);
    assert_eq!(sent["contents"][2]["parts"][2], data);
}

#[test]
fn an_image_that_no_vendor_accepts_is_sent_as_text() {
    let parts = [("image/svg+xml", "PHN2Zy8+"), ("image/png", "/9j/4A==")];
    let image = |(media_type, base64): (&str, &str)| {
        ContentPart::Image(ImageData {
            media_type: media_type.to_owned(),
            base64: base64.to_owned(),
        })
    };
    let parts: Vec<_> = parts.map(image).into();
    let outcome = CallOutcome::Answered(ToolOutput {
        parts: parts.clone(),
        ..ToolOutput::default()
    });
    for vendor in VENDORS {
        let mut conversation = answered(vendor, "gemini-3-x", [outcome.clone(), outcome.clone()]);
        conversation.add_user_message(UserMessage {
            parts: parts.clone(),
        });
        let sent = body(vendor, "gemini-3-x", &conversation).to_string();
        assert!(!sent.contains("PHN2Zy8+"), "{vendor:?}: {sent}");
        assert!(!sent.contains("image/png"), "{vendor:?}: {sent}");
        let texts = sent
            .matches("[image/svg+xml of 6 bytes, left out: ")
            .count();
        let images = sent.matches("/9j/4A==").count();
        assert_eq!((texts, images), (3, 3), "{vendor:?}: {sent}");
        assert!(sent.contains("image/jpeg"), "{vendor:?}: {sent}");
    }
}

#[test]
fn a_longer_conversation_only_adds_to_the_end_of_its_request() {
    for vendor in VENDORS {
        let model = "gemini-3-x";
        let mut conversation = answered(vendor, model, [outcome(0), outcome(1)]);
        let mut before = request_body(vendor, model, &conversation);
        for round in 0..3 {
            let (_, _, stream) = STREAMS
                .iter()
                .find(|(_, one, _)| *one == vendor)
                .expect("one");
            let stream = stream
                .replace("_1\"", &format!("_1{round}\""))
                .replace("_2\"", &format!("_2{round}\""));
            let turn = read_stream(vendor, model, stream.as_bytes(), 100).expect("a turn");
            conversation = conversation.reply(turn).close();
            let body = request_body(vendor, model, &conversation);
            let prefix = before.strip_suffix("]}").expect("the list stands last");
            assert!(body.starts_with(prefix), "{vendor:?}\n{prefix}\n{body}");
            before = body;
        }
    }
}

fn spec(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        server: "srv".to_owned(),
        tool: String::new(),
        description: format!("does {name}"),
        schema: JsonText::parse(r#"{"type":"object","properties":{}}"#).expect("JSON"),
    }
}

fn request_with(
    vendor: ModelVendor,
    conversation: &Conversation,
    tools: &ToolList,
) -> (String, Value) {
    let settings = ModelSettings::new(vendor, "gemini-3-x");
    let context = TurnContext {
        conversation,
        system: "Be brief.",
        tools,
        cache_key: "key",
    };
    let body = wire_of(vendor)
        .expect("a wire")
        .request(&settings, &context)
        .body;
    let value: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(rules::check(vendor, "gemini-3-x", &value), Ok(()), "{body}");
    (body, value)
}

/// Tools that a search loads in the middle of a conversation leave the beginning as it was.
#[test]
fn late_tools_are_added_in_the_vendors_own_way() {
    for vendor in VENDORS {
        let mut tools = ToolList::new(None);
        let offered = vec![
            spec("weather"),
            spec("now"),
            spec("search_tools"),
            spec("late"),
        ];
        tools.update(offered, |spec| spec.name == "late");
        tools.start();
        let mut conversation = answered(vendor, "gemini-3-x", [outcome(0), outcome(1)]);
        let (before, _) = request_with(vendor, &conversation, &tools);

        assert_eq!(tools.load("late"), Ok(true));
        let (_, _, stream) = STREAMS
            .iter()
            .find(|(_, one, _)| *one == vendor)
            .expect("one");
        let stream = stream
            .replace("weather", "search_tools")
            .replace("_1\"", "_3\"")
            .replace("_2\"", "_4\"");
        let turn = read_stream(vendor, "gemini-3-x", stream.as_bytes(), 100).expect("a turn");
        let mut waiting = conversation.reply(turn);
        let found = ToolOutput {
            loaded_tools: vec!["late".to_owned()],
            ..ToolOutput::text("loaded: late")
        };
        waiting
            .answer(0, CallOutcome::Answered(found))
            .expect("open");
        waiting.answer(1, outcome(0)).expect("open");
        conversation = waiting.close();
        conversation.add_loaded_tools(vec!["late".to_owned()]);
        let (after, value) = request_with(vendor, &conversation, &tools);
        match vendor {
            ModelVendor::Anthropic => {
                let late = &value["tools"][3];
                assert_eq!(
                    (&late["name"], &late["defer_loading"]),
                    (&json!("late"), &json!(true))
                );
                let last = value["messages"].as_array().and_then(|list| list.last());
                let reference = json!([{"type": "tool_reference", "tool_name": "late"}]);
                assert_eq!(last.expect("results")["content"][0]["content"], reference);
            }
            ModelVendor::OpenAi => {
                let prefix = before.strip_suffix("]}").expect("the list stands last");
                assert!(after.starts_with(prefix), "{after}");
                let last = value["input"].as_array().and_then(|list| list.last());
                assert_eq!(last.expect("an item")["type"], "additional_tools");
            }
            ModelVendor::OpenAiChat => assert_eq!(value["tools"][3]["function"]["name"], "late"),
            _ => {
                let declared = &value["tools"][0]["functionDeclarations"];
                assert_eq!(declared[3]["name"], "late");
            }
        }
    }
}

fn tools_of(vendor: ModelVendor, body: &Value) -> Vec<Value> {
    let tools = match vendor {
        ModelVendor::Gemini => &body["tools"][0]["functionDeclarations"],
        _ => &body["tools"],
    };
    tools.as_array().cloned().expect("tools")
}

/// Servers connect late, change their lists and go: what stands in the request stays in its place.
#[test]
fn tools_that_come_and_go_leave_the_beginning_of_the_request() {
    for vendor in VENDORS {
        let mut tools = ToolList::new(None);
        let names = |names: &[&str]| names.iter().map(|name| spec(name)).collect::<Vec<_>>();
        tools.update(names(&["weather", "now", "b"]), |_| false);
        tools.start();
        let mut conversation = answered(vendor, "gemini-3-x", [outcome(0), outcome(1)]);
        let (mut before, mut value) = request_with(vendor, &conversation, &tools);
        for offered in [
            &["now", "weather"][..],
            &["a", "now", "weather", "b"],
            &["a"],
            &["weather", "now", "b", "a", "c"],
        ] {
            let change = tools.update(names(offered), |_| false);
            let new = change.added.into_iter().filter(|name| tools.is_late(name));
            conversation.add_loaded_tools(new.collect());
            conversation.add_user_message(UserMessage::text("Go on."));
            let (after, new_value) = request_with(vendor, &conversation, &tools);
            let (old, new) = (tools_of(vendor, &value), tools_of(vendor, &new_value));
            assert!(new.starts_with(&old), "{vendor:?}\n{before}\n{after}");
            if vendor == ModelVendor::OpenAi {
                let prefix = before.strip_suffix("]}").expect("the list stands last");
                assert!(after.starts_with(prefix), "{before}\n{after}");
            }
            (before, value) = (after, new_value);
        }
    }
}
