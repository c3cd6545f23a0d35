//! The library in twenty lines: `cargo run -p switchboard --example embed -- CONFIG TOOL JSON`.

use std::sync::Arc;
use std::time::Duration;

use switchboard::call::Call;
use switchboard::caller::{Approval, ApprovalRequest, BoxFuture, Caller, CallerId};
use switchboard::config::{self, ConfigFile, Environment, Scope};
use switchboard::launch::Launcher;
use switchboard::wire::RawJson;
use switchboard::{Host, HostBuilder};

type Failure = Box<dyn std::error::Error>;

/// Whoever makes calls answers the gate's questions about them.
struct Agent;

impl Caller for Agent {
    fn id(&self) -> CallerId {
        CallerId::new("embed")
    }

    fn approve<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, Approval> {
        eprintln!(
            "asked about {} ({}): once",
            request.exposed, request.because
        );
        Box::pin(async { Approval::Once })
    }
}

fn main() -> Result<(), Failure> {
    // First of all, before any thread: the launcher that keeps the servers is this program, started
    // again.
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
    let config = config::load(&[ConfigFile::new(file, Scope::Given)])?;
    let host = HostBuilder::new(config)
        .environment(Environment::new(std::env::vars()))
        .launcher(Launcher::start(std::env::current_exe()?)?)
        .start()
        .await?;
    let outcome = call(&host, tool, arguments.parse()?).await;
    host.stop().await;
    outcome
}

async fn call(host: &Host, tool: String, arguments: RawJson) -> Result<(), Failure> {
    host.settled(Duration::from_secs(10)).await;
    for tool in host.catalog().tools() {
        eprintln!("on offer: {}", tool.exposed);
    }
    let result = host
        .call(Call::new(tool, arguments, Arc::new(Agent)).timeout(Duration::from_secs(60)))
        .await?;
    println!("{}", result.for_person()?.for_terminal());
    Ok(())
}
