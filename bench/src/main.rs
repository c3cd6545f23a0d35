//! Measures Switchboard, the floor and the peers side by side in one run.

mod cores;
mod floor;
mod list;
mod measure;
mod options;
mod peer_rmcp;
mod raw;
mod report;
mod server;
mod startup;
mod stdio;
mod us;

use std::process::ExitCode;

use measure::{Era, Fault};
use options::{Options, Work};
use report::Report;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("bench: {fault}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Fault> {
    let mut words = std::env::args().skip(1).peekable();
    if words.next_if(|word| word == server::MARKER).is_some() {
        return server::run(words);
    }
    if words.next_if(|word| word == list::MEMORY_MARKER).is_some() {
        return measure_memory(words);
    }
    // A run without us starts no host, and so no launcher.
    let options = Options::parse(std::env::args().skip(1));
    if !options.as_ref().is_ok_and(|options| !options.with("us")) {
        switchboard::launcher_main();
    }
    let options = options?;
    let report = runtime(options.multi_thread)?.block_on(measure(&options))?;
    println!("{}", if options.json { report.json()? } else { report.table() });
    Ok(())
}

async fn measure(options: &Options) -> Result<Report, Fault> {
    let (command, rows) = match options.work {
        Work::Stdio => ("stdio", stdio::run(options).await?),
        Work::Startup => ("startup", startup::run(options).await?),
        Work::List => ("list", list::run(options).await?),
    };
    let mut notes = options.left_out();
    if options.work == Work::Stdio {
        notes.push(format!("{} (--pin)", options.pin.name()));
    }
    Ok(Report { command, runtime: options.runtime_name(), era: options.era.name(), rounds: options.rounds, rows, notes })
}

fn measure_memory(mut words: impl Iterator<Item = String>) -> Result<(), Fault> {
    let who = words.next().unwrap_or_default();
    let era = if words.next().as_deref() == Some("modern") { Era::Modern } else { Era::Legacy };
    runtime(false)?.block_on(list::memory(&who, era))
}

fn runtime(multi_thread: bool) -> std::io::Result<tokio::runtime::Runtime> {
    let mut builder =
        if multi_thread { tokio::runtime::Builder::new_multi_thread() } else { tokio::runtime::Builder::new_current_thread() };
    builder.enable_all().build()
}
