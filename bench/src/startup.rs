//! `bench startup`: fifty servers started and listed at once; and again with a fifty-first that
//! never answers.

use std::sync::Arc;
use std::time::Instant;

use switchboard::config::Protocol;
use switchboard::store::MemoryStore;

use crate::measure::{Fault, server_command};
use crate::options::Options;
use crate::peer_rmcp::Rmcp;
use crate::raw::Raw;
use crate::report::{Row, Unit};
use crate::us;

const SERVERS: usize = 50;
const TOOLS_EACH: usize = 10;

/// All rows of the table.
pub(crate) async fn run(options: &Options) -> Result<Vec<Row>, Fault> {
    // The store outlives the rounds: in the warm-up round it learns the eras, as in an earlier run.
    let store = Arc::new(MemoryStore::default());
    let (mut raw, mut rmcp, mut ours, mut ours_beside_silent) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..=options.rounds {
        let counts = round > 0;
        if options.with("raw") {
            let seconds = with_raw(options).await?;
            raw.extend(counts.then_some(seconds));
        }
        if options.with("rmcp") {
            let seconds = with_rmcp(options).await?;
            rmcp.extend(counts.then_some(seconds));
        }
        if options.with("us") {
            let seconds = with_us(options, &store, false).await?;
            ours.extend(counts.then_some(seconds));
            let seconds = with_us(options, &store, true).await?;
            ours_beside_silent.extend(counts.then_some(seconds));
        }
    }
    Ok(vec![
        Row::new("50 servers listed, in-process, known eras", Unit::Seconds)
            .cell("raw", raw)
            .cell("rmcp", rmcp)
            .cell("us", ours)
            .cell("us, 51st silent", ours_beside_silent)
            .at_most("us", 1.1, "rmcp")
            .at_most("us, 51st silent", 1.2, "us"),
    ])
}

/// The flags of each server, with its number, so that all launches differ.
fn flags(options: &Options) -> Vec<Vec<String>> {
    let era = format!("--{}", options.era.name());
    let flags = |number: usize| {
        [
            "--tools",
            &TOOLS_EACH.to_string(),
            "--number",
            &number.to_string(),
            &era,
        ]
        .map(str::to_owned)
        .to_vec()
    };
    (0..SERVERS).map(flags).collect()
}

/// The cost of starting so many processes, with a minimal client.
async fn with_raw(options: &Options) -> Result<f64, Fault> {
    let era = options.era;
    let start = Instant::now();
    let mut tasks = Vec::with_capacity(SERVERS);
    for flags in flags(options) {
        tasks.push(tokio::spawn(async move {
            let raw = Raw::start(server_command(&flags)?, era).await?;
            raw.list().await?;
            Ok::<_, Fault>(raw)
        }));
    }
    let mut sessions = Vec::with_capacity(SERVERS);
    for task in tasks {
        sessions.push(task.await??);
    }
    Ok(start.elapsed().as_secs_f64())
}

async fn with_rmcp(options: &Options) -> Result<f64, Fault> {
    let era = options.era;
    let start = Instant::now();
    let mut tasks = Vec::with_capacity(SERVERS);
    for flags in flags(options) {
        tasks.push(tokio::spawn(async move {
            let rmcp = Rmcp::start(server_command(&flags)?, era).await?;
            let tools = rmcp.list().await?.len();
            Ok::<_, Fault>((rmcp, tools))
        }));
    }
    let mut sessions = Vec::with_capacity(SERVERS);
    let mut tools = 0;
    for task in tasks {
        let (rmcp, listed) = task.await??;
        sessions.push(rmcp);
        tools += listed;
    }
    let seconds = start.elapsed().as_secs_f64();
    for rmcp in sessions {
        rmcp.stop().await?;
    }
    if tools != SERVERS * TOOLS_EACH {
        return Err(format!(
            "rmcp listed {tools} tools, {} were expected",
            SERVERS * TOOLS_EACH
        )
        .into());
    }
    Ok(seconds)
}

/// From the start, launcher included, until the fifty servers are ready and in the catalog.
async fn with_us(
    options: &Options,
    store: &Arc<MemoryStore>,
    beside_silent: bool,
) -> Result<f64, Fault> {
    let mut servers = flags(options);
    if beside_silent {
        servers.push(vec!["--never".to_owned()]);
    }
    let config = us::config(&servers, Protocol::Auto)?;
    let start = Instant::now();
    let host = us::start(config, store.clone()).await?;
    let listed = us::listed(&host, SERVERS, SERVERS * TOOLS_EACH).await;
    let seconds = start.elapsed().as_secs_f64();
    host.stop().await;
    listed.map(|()| seconds)
}
