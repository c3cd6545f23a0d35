//! `bench faults`: the slowest calls of a healthy server through our gateway, next to a dead, a
//! hanging, a flooding, a crash-looping server, and next to all of them.

use std::time::{Duration, Instant};

use crate::faulty;
use crate::gateway_start::{OUR_ECHO, Setting};
use crate::measure::{Contestant, Fault, Tool};
use crate::options::Options;
use crate::report::{Row, Unit};

/// The columns: the faulty servers next to the healthy one.
const NEIGHBOURS: [(&str, &[&str]); 6] = [
    ("none", &[]),
    ("dead", &["dead"]),
    ("hanging", &["hanging"]),
    ("flooding", &["flooding"]),
    ("crashing", &["crashing"]),
    ("all", &faulty::KINDS),
];

/// Both rows of the table.
pub(crate) async fn run(options: &Options) -> Result<Vec<Row>, Fault> {
    let setting = Setting::new(options)?;
    let (mut medians, mut p99s) = (vec![Vec::new(); 6], vec![Vec::new(); 6]);
    for _ in 0..options.rounds {
        for (column, (_, kinds)) in NEIGHBOURS.iter().enumerate() {
            let mut times = measure(&setting, kinds, options.size(2000, 500)).await?;
            times.sort_unstable();
            let at = |percent: usize| times[times.len() * percent / 100].as_secs_f64();
            medians[column].push(at(50));
            p99s[column].push(at(99));
        }
    }
    let row = |what: &str, rounds: Vec<Vec<f64>>| {
        let row = Row::new(
            format!("healthy {what} beside a faulty server"),
            Unit::Seconds,
        );
        let cells = NEIGHBOURS.iter().zip(rounds);
        cells.fold(row, |row, ((name, _), rounds)| row.cell(name, rounds))
    };
    let p99 = NEIGHBOURS[1..]
        .iter()
        .fold(row("p99", p99s), |row, (name, _)| {
            row.at_most(name, 2.0, "none")
        });
    Ok(vec![row("p50", medians), p99])
}

/// A new gateway with these neighbours, and calls one after the other.
async fn measure(setting: &Setting, kinds: &[&str], calls: usize) -> Result<Vec<Duration>, Fault> {
    let mut entries = setting.stdio_entry(&setting.demo_words());
    for kind in kinds {
        entries.push_str(&faulty_entry(&setting.program, kind));
    }
    let config = setting.config("faults.toml", &entries)?;
    let gateway = setting.serve(&config, OUR_ECHO).await?;
    let mut times = Vec::with_capacity(calls);
    for _ in 0..calls {
        let start = Instant::now();
        gateway.client.call(Tool::Echo).await?;
        times.push(start.elapsed());
    }
    Ok(times)
}

/// The configuration entry of a faulty server.
pub(crate) fn faulty_entry(program: &str, kind: &str) -> String {
    let marker = faulty::MARKER;
    format!(
        "[servers.{kind}]\ncommand = {program:?}\nargs = [{marker:?}, {kind:?}]\nconnect_timeout = \"2s\"\n"
    )
}
