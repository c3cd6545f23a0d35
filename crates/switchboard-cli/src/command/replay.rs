//! `replay`: builds each request of a recorded session again, offline, and reports what differs.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use switchboard_agent::session::{ReplayDifference, ReplayReport, replay};

use crate::arguments::{Options, path_completer};
use crate::failure::{Code, Failure};
use crate::output;
use crate::view::counted;
use crate::view::server::escaped;

/// Arguments of `replay`.
#[derive(Debug, Args)]
#[command(after_help = "\
Nothing is started and nothing is sent: the model's turns and the results of calls are those of the
recording. A difference means that this version of the program would send another request.

Example:
  switchboard replay ~/.local/state/switchboard/sessions/ID.jsonl

Exit codes: 0 every request is the same · 1 some differ · 2 the file is not a session")]
pub(crate) struct ReplayArgs {
    /// The file of a session
    #[arg(value_name = "FILE", add = path_completer())]
    file: PathBuf,
}

pub(crate) fn run(options: &Options, args: &ReplayArgs) -> Result<u8, Failure> {
    let report = replay(&args.file)?;
    match options.json {
        true => output::print_json(&document(&report).to_string())?,
        false => output::print_model_text(&text(&report))?,
    }
    match report.differences.is_empty() {
        true => Ok(0),
        false => Ok(Code::Answered as u8),
    }
}

fn document(report: &ReplayReport) -> serde_json::Value {
    let difference = |difference: &ReplayDifference| {
        json!({
            "request": difference.request,
            "line": difference.line,
            "at": difference.at,
            "recorded": difference.recorded,
            "rebuilt": difference.rebuilt,
        })
    };
    let repairs = report.repairs.iter().map(ToString::to_string);
    json!({
        "requests": report.requests,
        "turns": report.turns,
        "results": report.results,
        "differences": report.differences.iter().map(difference).collect::<Vec<_>>(),
        "repairs": repairs.collect::<Vec<_>>(),
    })
}

fn text(report: &ReplayReport) -> String {
    let mut lines = Vec::new();
    for difference in &report.differences {
        lines.push(format!(
            "request {} (line {}) differs at byte {}",
            difference.request, difference.line, difference.at
        ));
        lines.push(format!("  recorded: …{}…", escaped(&difference.recorded)));
        lines.push(format!("  now:      …{}…", escaped(&difference.rebuilt)));
    }
    lines.extend(report.repairs.iter().map(ToString::to_string));
    lines.push(format!(
        "{} compared, {} differ; {} and {} replayed",
        counted(report.requests, "request"),
        report.differences.len(),
        counted(report.turns, "turn"),
        counted(report.results, "result")
    ));
    lines.join("\n")
}
