//! The built-in model `demo`: a script that follows plain orders, so that everything around a model
//! can be tried with nothing installed and no key.

use std::sync::LazyLock;

use super::{Model, TurnEvent, TurnFuture};
use crate::conversation::{
    AnsweredTurn, CallArguments, ContentPart, Conversation, FinishReason, HistoryEntry, ModelTurn,
    ToolCall, TurnOrigin, TurnPart,
};
use crate::json::JsonText;
use crate::settings::{ModelSettings, ModelVendor};
use crate::tools::ToolList;
use crate::usage::TokenUsage;
use crate::wire::chat::ChatWire;
use crate::wire::{ModelWire, TurnContext, TurnDelta};

/// How much of a result is repeated.
const MAX_QUOTED_CHARS: usize = 2000;

/// How many names of tools are listed.
const MAX_LISTED: usize = 20;

static SETTINGS: LazyLock<ModelSettings> =
    LazyLock::new(|| ModelSettings::new(ModelVendor::Demo, "demo"));

/// The scripted model.
///
/// It understands `call TOOL {"argument": …}`, one per line, and calls those tools in parallel; a
/// line `then` begins the calls of the next turn. A tool is named as it is offered, or as
/// `server/tool`. In the end it repeats the last results. To everything else it answers what it is.
#[derive(Debug, Clone, Copy, Default)]
pub struct DemoModel;

impl Model for DemoModel {
    fn description(&self) -> String {
        "demo: a built-in script, not an AI model; configure [model] for a real one".to_owned()
    }

    fn settings(&self) -> &ModelSettings {
        &SETTINGS
    }

    fn turn<'a>(
        &'a self,
        context: TurnContext<'a>,
        sink: &'a mut (dyn FnMut(TurnEvent) + Send),
    ) -> TurnFuture<'a> {
        let turn = answer(&context);
        // It has no wire of its own; what a session records is in the form of Chat Completions.
        let request = Box::new(ChatWire.request(&SETTINGS, &context));
        Box::pin(async move {
            sink(TurnEvent::RequestSent(request));
            for part in &turn.parts {
                let delta = match part {
                    TurnPart::Text(text) => TurnDelta::Text(text.clone()),
                    TurnPart::Thought(text) => TurnDelta::Thought(text.clone()),
                    TurnPart::Call(call) => TurnDelta::CallStarted {
                        name: call.name.clone(),
                    },
                };
                sink(TurnEvent::Delta(delta));
                tokio::task::yield_now().await;
            }
            Ok(turn)
        })
    }
}

fn answer(context: &TurnContext<'_>) -> ModelTurn {
    let input = last_input(context.conversation);
    let entry = context.conversation.entries().len();
    let calls = read_orders(&input.text, input.turns, entry, context.tools);
    let parts = match (calls.is_empty(), input.results) {
        (false, _) => calls.into_iter().map(TurnPart::Call).collect(),
        (true, Some(answered)) => vec![TurnPart::Text(repeat_results(answered))],
        (true, None) => vec![TurnPart::Text(introduction(context))],
    };
    let has_calls = parts.iter().any(|part| matches!(part, TurnPart::Call(_)));
    let input = context.conversation.entries().len() as u64;
    ModelTurn {
        origin: origin(),
        items: Vec::new(),
        parts,
        finish: match has_calls {
            true => FinishReason::Calls,
            false => FinishReason::Done,
        },
        finish_word: None,
        usage: TokenUsage {
            input: Some(input),
            output: Some(1),
            charged_usd: Some(0.0),
            ..TokenUsage::default()
        },
    }
}

fn origin() -> TurnOrigin {
    SETTINGS.origin()
}

/// The input of the model: the person's last message and the results since.
#[derive(Default)]
struct LastInput<'a> {
    text: String,
    /// How many turns with calls came after it.
    turns: usize,
    /// The results of the last of them.
    results: Option<&'a AnsweredTurn>,
}

fn last_input(conversation: &Conversation) -> LastInput<'_> {
    let mut input = LastInput::default();
    for entry in conversation.entries().iter().rev() {
        match entry {
            HistoryEntry::Model(answered) if answered.calls().next().is_some() => {
                input.turns += 1;
                input.results.get_or_insert(answered);
            }
            HistoryEntry::User(message) => {
                let texts = message.parts.iter().filter_map(|part| match part {
                    ContentPart::Text(text) => Some(text.as_str()),
                    ContentPart::Image(_) => None,
                });
                input.text = texts.collect::<Vec<_>>().join("\n");
                break;
            }
            _ => {}
        }
    }
    input
}

/// Every line `call TOOL {…}` of one turn as a call; lines `then` stand between turns.
fn read_orders(text: &str, turn: usize, entry: usize, tools: &ToolList) -> Vec<ToolCall> {
    let mut earlier = 0;
    let lines = text.lines().map(str::trim).filter(|line| {
        earlier += usize::from(*line == "then");
        earlier == turn
    });
    let orders = lines.filter_map(|line| {
        let order = line.strip_prefix("call ")?.trim();
        let (name, arguments) = order.split_once(char::is_whitespace).unwrap_or((order, ""));
        Some((exposed_name(name, tools), CallArguments::read(arguments)))
    });
    let calls = orders
        .enumerate()
        .map(|(index, (name, arguments))| ToolCall {
            id: format!("demo_{entry}_{index}"),
            name,
            arguments,
        });
    calls.collect()
}

/// The name that the tool is offered by, where the order names it as `server/tool`.
fn exposed_name(order: &str, tools: &ToolList) -> String {
    let pair = match tools.get(order) {
        Some(_) => None,
        None => order.split_once('/'),
    };
    let offered = pair.and_then(|(server, tool)| {
        let mut specs = tools.all().iter().map(|listed| &listed.spec);
        specs.find(|spec| spec.server == server && spec.tool == tool)
    });
    offered.map_or(order, |spec| &spec.name).to_owned()
}

fn repeat_results(answered: &AnsweredTurn) -> String {
    let results = answered.calls().map(|(call, outcome)| {
        let verb = if outcome.is_error() {
            "failed"
        } else {
            "answered"
        };
        let text = outcome.text();
        let mut quoted: String = text.chars().take(MAX_QUOTED_CHARS).collect();
        if quoted.len() < text.len() {
            quoted.push('…');
        }
        format!("{} {verb}: {quoted}", call.name)
    });
    results.collect::<Vec<_>>().join("\n")
}

fn introduction(context: &TurnContext<'_>) -> String {
    let names: Vec<&str> = context
        .tools
        .all()
        .iter()
        .map(|tool| tool.spec.name.as_str())
        .collect();
    let tools = match names.len() {
        0 => "There are no tools now.".to_owned(),
        count if count > MAX_LISTED => format!(
            "Tools: {}, and {} more.",
            names[..MAX_LISTED].join(", "),
            count - MAX_LISTED
        ),
        _ => format!("Tools: {}.", names.join(", ")),
    };
    let example = JsonText::from_value(&serde_json::json!({"argument": "value"}));
    format!(
        "This is the demo model: a script, not an AI model. Write `call TOOL {}` on a line of its \
         own and it calls that tool; several lines are called in parallel, and a line `then` \
         stands between turns. {tools} For a real model, configure [model].",
        example.as_str()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::{CallOutcome, UserMessage};
    use crate::tools::ToolList;

    async fn ask(conversation: &Conversation) -> ModelTurn {
        let tools = ToolList::default();
        let context = TurnContext {
            conversation,
            system: "",
            tools: &tools,
            cache_key: "",
        };
        let mut shown = 0;
        let mut sink = |event| shown += usize::from(matches!(event, TurnEvent::Delta(_)));
        let turn = DemoModel.turn(context, &mut sink).await.expect("a turn");
        assert_eq!(shown, turn.parts.len());
        turn
    }

    #[tokio::test]
    async fn the_demo_calls_tools_in_parallel_and_repeats_their_results() {
        let mut conversation = Conversation::new();
        conversation.add_user_message(UserMessage::text("hello"));
        let turn = ask(&conversation).await;
        assert!(turn.text().contains("a script, not an AI model"));
        let mut conversation = conversation.reply(turn).close();

        let orders = "please\ncall echo {\"text\":\"hi\"}\ncall add\ncall bad {\"cut";
        conversation.add_user_message(UserMessage::text(orders));
        let turn = ask(&conversation).await;
        assert_eq!(turn.calls().count(), 3);
        let mut waiting = conversation.reply(turn);
        let open: Vec<usize> = waiting.open_calls().map(|(index, _)| index).collect();
        assert_eq!(open, [0, 1]);
        waiting
            .answer(0, CallOutcome::answered("hi"))
            .expect("open");
        let denied = CallOutcome::Denied {
            reason: "not now".to_owned(),
        };
        waiting.answer(1, denied).expect("open");
        let turn = ask(&waiting.close()).await;
        let text = turn.text();
        assert!(
            text.starts_with("echo answered: hi\nadd failed: "),
            "{text}"
        );
        assert!(text.contains("Reason: not now"), "{text}");
    }

    #[test]
    fn a_tool_is_found_by_its_exposed_name_and_by_server_and_tool() {
        let mut tools = ToolList::default();
        let offered = [("files__read", "files", "read"), ("a/b", "x", "y")];
        let specs = offered.map(|(name, server, tool)| crate::ToolSpec {
            name: name.to_owned(),
            server: server.to_owned(),
            tool: tool.to_owned(),
            description: String::new(),
            schema: JsonText::parse("{}").expect("JSON"),
        });
        tools.update(specs.to_vec(), |_| false);
        for (order, expected) in [
            ("files__read", "files__read"),
            ("files/read", "files__read"),
            ("a/b", "a/b"),
            ("files/write", "files/write"),
            ("read", "read"),
        ] {
            assert_eq!(exposed_name(order, &tools), expected);
        }
    }

    #[tokio::test]
    async fn a_line_then_begins_the_calls_of_the_next_turn() {
        let mut conversation = Conversation::new();
        conversation.add_user_message(UserMessage::text("call a\nthen\ncall b\ncall c"));
        for expected in [&["a"][..], &["b", "c"], &[]] {
            let turn = ask(&conversation).await;
            let names: Vec<&str> = turn.calls().map(|call| &*call.name).collect();
            assert_eq!(names, expected);
            conversation = conversation.reply(turn).close();
        }
    }
}
