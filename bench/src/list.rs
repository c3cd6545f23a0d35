//! `bench list`: catalogs of 10, 1,000 and 10,000 tools: time to list, cost of the steps before a
//! call, memory.

use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use switchboard::store::MemoryStore;

use crate::measure::{Era, Fault, server_command};
use crate::options::Options;
use crate::peer_rmcp::Rmcp;
use crate::report::{Row, Unit};
use crate::us;

/// The hidden subcommand that measures memory in a process of its own.
pub(crate) const MEMORY_MARKER: &str = "__memory";

const CATALOGS: [(usize, &str); 3] = [
    (10, "10 tools"),
    (1_000, "1,000 tools"),
    (10_000, "10,000 tools"),
];
const LARGEST: usize = 10_000;
/// As a server with so many tools would page.
const TOOLS_PER_PAGE: usize = 1_000;
const MEMORY_BYTES: f64 = 40.0 * 1024.0 * 1024.0;
/// How much slower a call may be in a large catalog: cache misses are allowed, a scan is not.
const GROWTH: f64 = 1.5;

/// All rows of the table.
pub(crate) async fn run(options: &Options) -> Result<Vec<Row>, Fault> {
    let mut lists: [[Vec<f64>; 2]; 3] = Default::default();
    let mut walks: [Vec<f64>; 3] = Default::default();
    for round in 0..=options.rounds {
        let counts = round > 0;
        for (index, (tools, _)) in CATALOGS.into_iter().enumerate() {
            if options.with("rmcp") {
                let seconds = list_with_rmcp(tools, options.era).await?;
                lists[index][0].extend(counts.then_some(seconds));
            }
            if options.with("us") {
                let (seconds, local_steps) = list_with_us(tools, options).await?;
                lists[index][1].extend(counts.then_some(seconds));
                walks[index].extend(counts.then_some(local_steps));
            }
        }
    }
    let mut rows: Vec<Row> = CATALOGS
        .into_iter()
        .zip(lists)
        .map(|((_, name), [rmcp, ours])| {
            Row::new(
                format!("{name} listed, process start included"),
                Unit::Seconds,
            )
            .cell("rmcp", rmcp)
            .cell("us", ours)
        })
        .collect();
    let row = Row::new("resolve, validate and gate one call", Unit::Seconds);
    let row = CATALOGS
        .into_iter()
        .zip(walks)
        .fold(row, |row, ((_, name), walks)| row.cell(name, walks));
    rows.push(row.at_most("10,000 tools", GROWTH, "10 tools"));
    rows.extend(memory_rows(options)?);
    Ok(rows)
}

fn flags(tools: usize, era: Era) -> Vec<String> {
    [
        "--tools",
        &tools.to_string(),
        "--page",
        &TOOLS_PER_PAGE.to_string(),
        &format!("--{}", era.name()),
    ]
    .map(str::to_owned)
    .to_vec()
}

async fn list_with_rmcp(tools: usize, era: Era) -> Result<f64, Fault> {
    let start = Instant::now();
    let rmcp = Rmcp::start(server_command(&flags(tools, era))?, era).await?;
    let listed = rmcp.list().await?.len();
    let seconds = start.elapsed().as_secs_f64();
    rmcp.stop().await?;
    if listed == tools {
        Ok(seconds)
    } else {
        Err(format!("rmcp listed {listed} tools, {tools} were expected").into())
    }
}

async fn list_with_us(tools: usize, options: &Options) -> Result<(f64, f64), Fault> {
    let config = us::config(&[flags(tools, options.era)], us::protocol(options.era))?;
    let start = Instant::now();
    let host = us::start(config.clone(), Arc::new(MemoryStore::default())).await?;
    let listed = us::listed(&host, 1, tools).await;
    let seconds = start.elapsed().as_secs_f64();
    let local_steps = listed
        .and_then(|()| us::local_steps(&config, &host.catalog(), options.size(200_000, 20_000)));
    host.stop().await;
    Ok((seconds, local_steps?))
}

/// Measures memory in separate processes, because the allocator of this one still holds memory of
/// earlier rounds.
fn memory_rows(options: &Options) -> Result<Vec<Row>, Fault> {
    let mut now = Row::new("memory with 10,000 tools, above the start", Unit::Bytes);
    let mut peak = Row::new("the same at its highest", Unit::Bytes);
    for who in ["rmcp", "us"] {
        if options.with(who) {
            let output = Command::new(std::env::current_exe()?)
                .args([MEMORY_MARKER, who, options.era.name()])
                .output()?;
            let text = String::from_utf8_lossy(&output.stdout);
            let Some((settled, highest)) = text
                .trim()
                .split_once(' ')
                .filter(|_| output.status.success())
            else {
                return Err(format!(
                    "memory of {who}: {}",
                    String::from_utf8_lossy(&output.stderr)
                )
                .into());
            };
            now = now.cell(who, vec![settled.parse()?]);
            peak = peak.cell(who, vec![highest.parse()?]);
        }
    }
    Ok(vec![
        now.below("us", MEMORY_BYTES),
        peak.below("us", MEMORY_BYTES),
    ])
}

/// The separate process: lists the largest catalog, then prints its growth, current and peak.
pub(crate) async fn memory(who: &str, era: Era) -> Result<(), Fault> {
    let before = status_bytes("VmRSS:")?;
    match who {
        "rmcp" => {
            let rmcp = Rmcp::start(server_command(&flags(LARGEST, era))?, era).await?;
            let tools = rmcp.list().await?;
            print_growth(before)?;
            drop(tools);
            rmcp.stop().await
        }
        _ => {
            let config = us::config(&[flags(LARGEST, era)], us::protocol(era))?;
            let host = us::start(config, Arc::new(MemoryStore::default())).await?;
            let listed = us::listed(&host, 1, LARGEST).await;
            let printed = listed.and_then(|()| print_growth(before));
            host.stop().await;
            printed
        }
    }
}

fn print_growth(before: f64) -> Result<(), Fault> {
    println!(
        "{} {}",
        status_bytes("VmRSS:")? - before,
        status_bytes("VmHWM:")? - before
    );
    Ok(())
}

/// A size in `/proc/self/status`, which counts in KiB.
fn status_bytes(field: &str) -> Result<f64, Fault> {
    let status = std::fs::read_to_string("/proc/self/status").map_err(|error| {
        format!("memory is read from /proc/self/status, which is Linux only: {error}")
    })?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(field))
        .ok_or(format!("/proc/self/status has no {field}"))?;
    Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? * 1024.0)
}
