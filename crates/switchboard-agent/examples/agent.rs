//! An agent: a model works with this program's own tools and with those of MCP servers until it is
//! done: `cargo run -p switchboard-agent --example agent -- CONFIG MESSAGE`.
//!
//! The model is the built-in script, so that this runs without a key: `call TOOL {…}` is a message
//! that it understands. `HttpModel` takes its place for a real one.

use std::time::Duration;

use serde_json::json;
use switchboard::{Approval, Callbacks, HostBuilder, HostTool, HostToolDefinition};
use switchboard::{BoxFuture, CallResult, Caller, RawJson};
use switchboard_agent::{Agent, DemoModel, UserMessage};

/// A tool of this program.
struct CountWords;

impl HostTool for CountWords {
    fn definition(&self) -> HostToolDefinition {
        let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}});
        HostToolDefinition::new("count_words", "Counts the words of a text.", schema)
    }

    fn call<'a>(
        &'a self,
        arguments: &'a RawJson,
        _: &'a std::sync::Arc<dyn Caller>,
    ) -> BoxFuture<'a, Result<CallResult, String>> {
        Box::pin(async move {
            let arguments = arguments.to_value().map_err(|error| error.to_string())?;
            let text = arguments["text"].as_str().unwrap_or_default();
            let count = text.split_whitespace().count();
            Ok(CallResult::success(count.to_string()))
        })
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    switchboard::launcher_main();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, message] = &*arguments else {
        return Err("expected CONFIG MESSAGE".into());
    };
    tokio::runtime::Runtime::new()?.block_on(async {
        let host = HostBuilder::open(file)?.tool(CountWords).start().await?;
        host.settled(Duration::from_secs(10)).await;
        let caller = Callbacks::new("agent").on_approval(|request| async move {
            eprintln!("may it call {}? yes, once", request.exposed);
            Approval::Once
        });
        let mut agent = Agent::new(host.clone(), DemoModel, std::sync::Arc::new(caller));
        let summary = agent.run(UserMessage::text(message), &mut |_| {}).await;
        host.stop().await;
        println!("{}", summary?.text);
        Ok(())
    })
}
