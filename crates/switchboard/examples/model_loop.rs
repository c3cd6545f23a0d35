//! A model works with this program's own tools and with those of MCP servers, from one catalog,
//! through one gate, until it is done: `cargo run -p switchboard --example model_loop -- CONFIG
//! TOOL JSON`.
//!
//! The model is a script, so that this runs without a key: it calls TOOL, counts the words of the
//! answer with a tool of this program, and says what came of it. Where it stands, a request to a
//! vendor would: `Toolset` is what goes into it, and what leads a call back.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard::builtin::{HostTool, HostToolDefinition};
use switchboard::caller::BoxFuture;
use switchboard::vendor::{Toolset, Vendor};
use switchboard::wire::RawJson;
use switchboard::{Approval, Call, CallResult, Caller, Host, HostBuilder};

type Failure = Box<dyn std::error::Error>;

/// The most turns that a model has.
const MAX_TURNS: usize = 16;

/// A tool of this program.
struct CountWords;

impl HostTool for CountWords {
    fn definition(&self) -> HostToolDefinition {
        let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]});
        HostToolDefinition::new("count_words", "Counts the words of a text.", schema)
    }

    fn call<'a>(
        &'a self,
        arguments: &'a RawJson,
        _: &'a Arc<dyn Caller>,
    ) -> BoxFuture<'a, Result<CallResult, String>> {
        Box::pin(async move {
            let arguments = arguments.to_value().map_err(|error| error.to_string())?;
            let words = arguments["text"]
                .as_str()
                .unwrap_or_default()
                .split_whitespace()
                .count();
            Ok(CallResult::success(words.to_string()))
        })
    }
}

/// What a model says in one turn.
enum Turn {
    Call { tool: String, arguments: Value },
    Done(String),
}

/// A model that follows a script.
struct Scripted {
    tool: String,
    arguments: Value,
}

impl Scripted {
    /// A real one would send `tools` and what was said so far to its vendor.
    fn turn(&self, tools: &Toolset, answers: &[String]) -> Turn {
        match answers {
            [] => Turn::Call {
                tool: self.tool.clone(),
                arguments: self.arguments.clone(),
            },
            [said] => Turn::Call {
                tool: "count_words".to_owned(),
                arguments: json!({"text": said}),
            },
            [said, words, ..] => Turn::Done(format!(
                "of {} tools I used two: {said:?} has {words} words",
                tools.tools().len()
            )),
        }
    }
}

fn main() -> Result<(), Failure> {
    switchboard::launcher_main();
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(run())
}

async fn run() -> Result<(), Failure> {
    let [file, tool, arguments] = std::env::args()
        .skip(1)
        .collect::<Vec<_>>()
        .try_into()
        .map_err(|_| "CONFIG TOOL JSON")?;
    let model = Scripted {
        tool,
        arguments: serde_json::from_str(&arguments)?,
    };
    let host = HostBuilder::open(file)?
        .tool(CountWords)
        // A person would be asked here.
        .on_approval(|request| async move {
            let (name, because) = (&request.exposed, &request.because);
            eprintln!("may it call {name}? ({because}) yes, once");
            Approval::Once
        })
        .start()
        .await?;
    host.settled(Duration::from_secs(10)).await;
    let outcome = converse(&host, &model).await;
    host.stop().await;
    println!("{}", outcome?);
    Ok(())
}

/// Turn by turn until the model is done. What goes wrong with a call is an answer, too: the model
/// may try something else.
async fn converse(host: &Host, model: &Scripted) -> Result<String, Failure> {
    let mut answers = Vec::new();
    for _ in 0..MAX_TURNS {
        let catalog = host.catalog();
        let tools = Toolset::new(Vendor::Anthropic, catalog.tools());
        let (tool, arguments) = match model.turn(&tools, &answers) {
            Turn::Done(said) => return Ok(said),
            Turn::Call { tool, arguments } => (tool, RawJson::from(arguments)),
        };
        let answer = match tools.to_server_call(&tool, &arguments) {
            None => format!("there is no tool {tool}"),
            Some(meant) => {
                let (name, arguments) = meant?;
                let called = host.call_with(Call::new(name, arguments).listed(catalog));
                called.await.unwrap_or_else(CallResult::from).text()
            }
        };
        eprintln!("{tool}: {answer}");
        answers.push(answer);
    }
    Err("the model found no end".into())
}
