//! An agent: a model works with files of this folder and with MCP servers until it is done:
//! `cargo run -p switchboard-agent --example agent -- CONFIG MESSAGE`.
//!
//! The model is the built-in script, so that this runs without a key: `call TOOL {…}` is a message
//! that it understands. `HttpModel` takes its place for a real one.

use std::sync::Arc;
use std::time::Duration;

use switchboard::{Approval, Callbacks, HostBuilder};
use switchboard_agent::builtin_tools::{BuiltinTools, Workspace};
use switchboard_agent::{Agent, DemoModel, UserMessage};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Before any thread: it starts the process that starts servers and ends them with us.
    switchboard::launcher_main();
    tokio::runtime::Runtime::new()?.block_on(run())
}

async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(file), Some(message)) = (arguments.next(), arguments.next()) else {
        return Err("expected CONFIG MESSAGE".into());
    };
    let tools = BuiltinTools::new(Workspace::open(["."])?).build();
    let host = HostBuilder::open(file)?.tools(tools).start().await?;
    host.wait_until_settled(Duration::from_secs(10)).await;
    let caller = Callbacks::new("agent").on_approval(|request| async move {
        eprintln!("may it call {}? yes, once", request.exposed);
        Approval::Once
    });
    let mut agent = Agent::new(host.clone(), DemoModel, Arc::new(caller));
    let summary = agent.run(UserMessage::text(message), &mut |_| {}).await;
    host.stop().await;
    println!("{}", summary?.text);
    Ok(())
}
