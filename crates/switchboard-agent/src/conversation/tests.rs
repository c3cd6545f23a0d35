use super::*;
use crate::json::JsonText;
use crate::settings::{ModelSettings, ModelVendor};
use crate::usage::TokenUsage;

fn turn(arguments: &[&str]) -> ModelTurn {
    let calls = arguments.iter().enumerate().map(|(index, text)| {
        TurnPart::Call(ToolCall {
            id: format!("id{index}"),
            name: format!("tool{index}"),
            arguments: CallArguments::read(text),
        })
    });
    ModelTurn {
        origin: ModelSettings::new(ModelVendor::Anthropic, "m").origin(),
        items: Vec::new(),
        parts: calls.collect(),
        finish: FinishReason::Calls,
        finish_word: None,
        usage: TokenUsage::default(),
    }
}

fn outcomes(conversation: &Conversation) -> Vec<CallOutcome> {
    match conversation.entries().last() {
        Some(HistoryEntry::Model(answered)) => {
            let outcomes = answered.calls().map(|(_, outcome)| outcome.clone());
            outcomes.collect()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_call_gets_exactly_one_result() {
    let mut waiting = Conversation::new().reply(turn(&["{}", "{\"a\":1}", "", "{}"]));
    let second = CallOutcome::answered("second");
    assert_eq!(waiting.answer(1, second.clone()), Ok(()));
    let again = waiting.answer(1, CallOutcome::Cancelled);
    assert_eq!(again, Err(ResultError::AlreadyAnswered(1)));
    let beyond = waiting.answer(4, CallOutcome::Cancelled);
    assert_eq!(beyond, Err(ResultError::NoSuchCall(4)));
    let denied = CallOutcome::Denied {
        reason: "no".to_owned(),
    };
    assert_eq!(waiting.answer(3, denied.clone()), Ok(()));
    let open: Vec<usize> = waiting.open_calls().map(|(index, _)| index).collect();
    assert_eq!(open, [0, 2]);
    let conversation = waiting.close();
    let expected = [
        CallOutcome::Cancelled,
        second,
        CallOutcome::Cancelled,
        denied,
    ];
    assert_eq!(outcomes(&conversation), expected);
}

#[test]
fn calls_that_a_crash_interrupted_are_marked_lost() {
    let mut waiting = Conversation::new().reply(turn(&["{}", "{}"]));
    waiting
        .answer(0, CallOutcome::answered("done"))
        .expect("open");
    let found = outcomes(&waiting.close_after_crash());
    assert_eq!(found, [CallOutcome::answered("done"), CallOutcome::Lost]);
}

#[test]
fn a_call_whose_arguments_are_not_an_object_never_runs() {
    let broken = ["{\"a\":", "[1]", "\"text\"", "{} {}", "tru"];
    let waiting = Conversation::new().reply(turn(&broken));
    assert_eq!(waiting.open_calls().count(), 0);
    for outcome in outcomes(&waiting.close()) {
        assert!(outcome.is_error());
        assert!(outcome.text().contains("did not run"), "{}", outcome.text());
    }
    for text in ["", " ", "null", "{}", "{\"a\" : 1.0}\n"] {
        assert!(CallArguments::read(text).object().is_some(), "{text}");
    }
    let kept = CallArguments::read(" {\"b\":1, \"a\":1e3} ");
    let expected = JsonText::parse("{\"b\":1, \"a\":1e3}").expect("JSON");
    assert_eq!(kept, CallArguments::Object(expected));
}

#[test]
fn no_result_is_empty() {
    let empty = CallOutcome::Answered(ToolOutput::default());
    assert_eq!(empty.text(), "(no output)");
    for outcome in [
        CallOutcome::answered("  \n"),
        CallOutcome::failed(""),
        CallOutcome::Cancelled,
        CallOutcome::Lost,
        CallOutcome::Denied {
            reason: String::new(),
        },
    ] {
        assert!(!outcome.text().trim().is_empty());
    }
    let word = CallOutcome::failed("it broke").parts_with_error_word();
    assert_eq!(word, [ContentPart::Text("Error: it broke".to_owned())]);
    let word = CallOutcome::failed("error 3").parts_with_error_word();
    assert_eq!(word, [ContentPart::Text("error 3".to_owned())]);
}

#[test]
fn a_summary_replaces_the_oldest_entries() {
    let mut conversation = Conversation::new();
    for text in ["a", "b", "c"] {
        conversation.add_user_message(UserMessage::text(text));
    }
    conversation.add_loaded_tools(Vec::new());
    conversation.replace_by_summary(2, "a and b".to_owned());
    let expected = [
        HistoryEntry::Summary("a and b".to_owned()),
        HistoryEntry::User(UserMessage::text("c")),
    ];
    assert_eq!(conversation.entries(), expected);
}
