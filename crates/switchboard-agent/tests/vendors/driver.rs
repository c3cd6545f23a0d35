//! The driver against scripted vendor servers over real sockets, on four wires.

use std::time::Duration;

use switchboard_agent::json::JsonText;
use switchboard_agent::{
    CallOutcome, Conversation, FaultKind, HttpModel, Model, ModelFault, ModelTurn, ModelVendor,
    ToolList, ToolSpec, TurnContext, TurnDelta, TurnEvent, UserMessage,
};

use crate::continuation::VENDORS;
use crate::fixtures::STREAMS;
use crate::server::{KEY, Reply, VendorServer, error_body, text_stream};

pub(crate) const PLAIN: &str = r#"{"type":"object","properties":{}}"#;
pub(crate) fn tools(schemas: &[(&str, &str)]) -> ToolList {
    let specs = schemas.iter().map(|(name, schema)| ToolSpec {
        name: (*name).to_owned(),
        server: "srv".to_owned(),
        tool: String::new(),
        description: "does something".to_owned(),
        schema: JsonText::parse(schema).expect("JSON"),
    });
    let mut tools = ToolList::new(None);
    tools.update(specs.collect(), |_| false);
    tools
}

pub(crate) fn usual_tools() -> ToolList {
    tools(&[("weather", PLAIN), ("now", PLAIN)])
}

pub(crate) fn question() -> Conversation {
    let mut conversation = Conversation::new();
    conversation.add_user_message(UserMessage::text("What is the weather?"));
    conversation
}

pub(crate) async fn ask(
    model: &HttpModel,
    conversation: &Conversation,
    tools: &ToolList,
) -> (Result<ModelTurn, ModelFault>, Vec<TurnEvent>) {
    let context = TurnContext {
        conversation,
        system: "Be brief.",
        tools,
        cache_key: "key",
    };
    let mut events = Vec::new();
    let mut sink = |event| events.push(event);
    let turn = model.turn(context, &mut sink).await;
    (turn, events)
}

fn calls_stream(vendor: ModelVendor) -> String {
    let fixture = STREAMS.iter().find(|(_, one, _)| *one == vendor);
    fixture.expect("a fixture").2.to_owned()
}

pub(crate) fn retries(events: &[TurnEvent]) -> Vec<(FaultKind, Duration)> {
    let retries = events.iter().filter_map(|event| match event {
        TurnEvent::Retrying { wait, fault, .. } => Some((fault.kind, *wait)),
        _ => None,
    });
    retries.collect()
}

#[tokio::test]
async fn a_conversation_with_parallel_calls_runs_to_its_end() {
    for vendor in VENDORS {
        let replies = vec![
            Reply::Stream(calls_stream(vendor)),
            Reply::Stream(text_stream(vendor, "Sunny.")),
            Reply::Stream(text_stream(vendor, "You are welcome.")),
        ];
        let server = VendorServer::start(vendor, replies).await;
        let model = server.model();
        let tools = usual_tools();
        let conversation = question();
        let (turn, events) = ask(&model, &conversation, &tools).await;
        let turn = turn.unwrap_or_else(|fault| panic!("{vendor:?}: {fault}"));
        let started = events
            .iter()
            .filter(|event| matches!(event, TurnEvent::Delta(TurnDelta::CallStarted { .. })));
        assert!(started.count() >= 1, "{vendor:?}");
        let mut waiting = conversation.reply(turn);
        assert_eq!(waiting.open_calls().count(), 2, "{vendor:?}");
        // Results may come in any order.
        waiting
            .answer(1, CallOutcome::failed("no clock"))
            .expect("open");
        waiting
            .answer(0, CallOutcome::answered("22 degrees"))
            .expect("open");
        let conversation = waiting.close();
        let (turn, events) = ask(&model, &conversation, &tools).await;
        let turn = turn.unwrap_or_else(|fault| panic!("{vendor:?}: {fault}"));
        assert_eq!(turn.text(), "Sunny.", "{vendor:?}");
        let text = TurnEvent::Delta(TurnDelta::Text("Sunny.".to_owned()));
        assert!(events.contains(&text), "{vendor:?}: {events:?}");
        let mut conversation = conversation.reply(turn).close();
        conversation.add_user_message(UserMessage::text("Thank you."));
        let (turn, _) = ask(&model, &conversation, &tools).await;
        assert_eq!(turn.expect("a turn").text(), "You are welcome.");
        assert_eq!(server.requests().len(), 3);
    }
}

#[tokio::test]
async fn transient_errors_are_retried_after_the_vendors_delay() {
    for vendor in VENDORS {
        let error = |status, words| error_body(vendor, status, words).to_string();
        let replies = vec![
            Reply::Status(
                429,
                vec![("retry-after-ms", "30".to_owned())],
                error(429, "slow down"),
            ),
            Reply::Status(
                529,
                vec![("retry-after", "0.02".to_owned())],
                error(529, "Overloaded"),
            ),
            Reply::Status(
                503,
                Vec::new(),
                "<html><title>Bad gateway</title></html>".to_owned(),
            ),
            Reply::Broken(String::new()),
            Reply::Stream(text_stream(vendor, "At last.")),
        ];
        let server = VendorServer::start(vendor, replies).await;
        let (turn, events) = ask(&server.model(), &question(), &usual_tools()).await;
        assert_eq!(turn.expect("a turn").text(), "At last.", "{vendor:?}");
        let retries = retries(&events);
        let kinds: Vec<FaultKind> = retries.iter().map(|retry| retry.0).collect();
        let expected = [
            FaultKind::RateLimited,
            FaultKind::Overloaded,
            FaultKind::Overloaded,
            FaultKind::Network,
        ];
        assert_eq!(kinds, expected, "{vendor:?}");
        assert_eq!(retries[0].1, Duration::from_millis(30));
        assert_eq!(retries[1].1, Duration::from_millis(20));
        assert!(server.requests().windows(2).all(|pair| pair[0] == pair[1]));
    }
}

/// A stream without the events that say why the model stopped.
fn without_end(vendor: ModelVendor, stream: &str) -> String {
    let end = match vendor {
        ModelVendor::Anthropic => "stop_reason",
        ModelVendor::OpenAi => "response.completed",
        ModelVendor::OpenAiChat => "\"finish_reason\":\"",
        _ => "finishReason",
    };
    let end = stream.find(end).expect("an end");
    stream[..stream[..end].rfind("data:").expect("an event")].to_owned()
}

#[tokio::test]
async fn a_truncated_answer_is_retried_only_before_a_call_has_begun() {
    for vendor in VENDORS {
        let cut = without_end(vendor, &text_stream(vendor, "Sunny."));
        let replies = vec![
            Reply::Broken(cut.clone()),
            Reply::Stream(cut),
            Reply::Stream(text_stream(vendor, "Sunny.")),
        ];
        let server = VendorServer::start(vendor, replies).await;
        let (turn, events) = ask(&server.model(), &question(), &usual_tools()).await;
        assert_eq!(turn.expect("a turn").text(), "Sunny.", "{vendor:?}");
        let kinds: Vec<FaultKind> = retries(&events).iter().map(|retry| retry.0).collect();
        assert_eq!(kinds, [FaultKind::Network, FaultKind::CutOff], "{vendor:?}");

        let cut = without_end(vendor, &calls_stream(vendor));
        let server = VendorServer::start(vendor, vec![Reply::Stream(cut)]).await;
        let (turn, events) = ask(&server.model(), &question(), &usual_tools()).await;
        let fault = turn.expect_err("a fault");
        assert_eq!(fault.kind, FaultKind::CutOff, "{vendor:?}");
        assert_eq!(
            (fault.may_work_later(), retries(&events).len()),
            (true, 0),
            "{vendor:?}"
        );
    }
}

/// A stream up to the event that says why the model stopped.
fn up_to_reason(vendor: ModelVendor, text: &str) -> String {
    let stream = text_stream(vendor, text);
    let cut = without_end(vendor, &stream);
    let reason = stream[cut.len()..].split_inclusive("\n\n").next();
    cut + reason.expect("an event")
}

#[tokio::test]
async fn a_complete_answer_is_used_although_its_connection_breaks_or_stays_open() {
    for vendor in VENDORS {
        let answer = up_to_reason(vendor, "Sunny.");
        for reply in [Reply::Broken(answer.clone()), Reply::Open(answer)] {
            let server = VendorServer::start(vendor, vec![reply]).await;
            let (turn, events) = ask(&server.model(), &question(), &usual_tools()).await;
            assert_eq!(turn.expect("a turn").text(), "Sunny.", "{vendor:?}");
            assert_eq!(retries(&events), [], "{vendor:?}");
        }
    }
}

#[tokio::test]
async fn permanent_errors_are_sent_once_and_explained() {
    for vendor in VENDORS {
        let echo = format!("Incorrect API key: {KEY}.");
        let quota = "insufficient_quota: please check your plan and billing details.";
        for (status, headers, words, kind, may_work_later) in [
            (401, Vec::new(), "bad key", FaultKind::Authentication, false),
            (401, Vec::new(), &echo, FaultKind::Authentication, false),
            (429, Vec::new(), quota, FaultKind::QuotaExceeded, false),
            (
                404,
                Vec::new(),
                "no such model",
                FaultKind::UnknownModel,
                false,
            ),
            (
                400,
                Vec::new(),
                "nonsense",
                FaultKind::InvalidRequest,
                false,
            ),
            (
                400,
                Vec::new(),
                "prompt is too long: 3 > 2",
                FaultKind::ContextOverflow { limit: None },
                false,
            ),
            (
                500,
                vec![("x-should-retry", "false".to_owned())],
                "oops",
                FaultKind::Overloaded,
                true,
            ),
            (
                429,
                vec![("retry-after", "90".to_owned())],
                "later",
                FaultKind::RateLimited,
                true,
            ),
        ] {
            let body = error_body(vendor, status, words).to_string();
            let reply = Reply::Status(status, headers, body);
            let server = VendorServer::start(vendor, vec![reply]).await;
            let (turn, events) = ask(&server.model(), &question(), &usual_tools()).await;
            let fault = turn.expect_err("a fault");
            assert_eq!(
                (fault.kind, fault.may_work_later()),
                (kind, may_work_later),
                "{fault}"
            );
            assert!(
                retries(&events).is_empty() && server.requests().len() == 1,
                "{vendor:?} {words}"
            );
            let sentence = fault.to_string();
            assert!(
                sentence.starts_with("model \"gemini-3-x\" at 127.0.0.1: "),
                "{sentence}"
            );
            assert!(
                sentence.contains(&words.replace(KEY, "[secret]")) && !sentence.contains(KEY),
                "{sentence}"
            );
        }
    }
}
