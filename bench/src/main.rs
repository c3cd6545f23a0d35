//! Measures Switchboard, reference clients and other SDKs in one run.

mod chat;
mod cores;
mod faults;
mod faulty;
mod flood;
mod flooder;
mod floor;
mod gateway;
mod gateway_start;
mod http;
mod http_pump;
mod list;
mod measure;
mod options;
mod peer_child;
mod peer_rmcp;
mod process_memory;
mod pump;
mod raw;
mod raw_http;
mod report;
mod rmcp_gateway;
mod rounds;
mod server;
mod soak;
mod startup;
mod stdio;
mod turn;
mod us;

use std::process::ExitCode;

use measure::{Era, Fault};
use options::{Options, Work};
use report::Report;

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(fault) => {
            eprintln!("bench: {fault}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<ExitCode, Fault> {
    let mut words = std::env::args().skip(1).peekable();
    if words.next_if(|word| word == server::MARKER).is_some() {
        server::run(words)?;
        return Ok(ExitCode::SUCCESS);
    }
    if words.next_if(|word| word == flooder::MARKER).is_some() {
        flooder::run(words)?;
        return Ok(ExitCode::SUCCESS);
    }
    if words.next_if(|word| word == faulty::MARKER).is_some() {
        faulty::run(words)?;
        return Ok(ExitCode::SUCCESS);
    }
    if words.next_if(|word| word == pump::MARKER).is_some() {
        pump::run(words)?;
        return Ok(ExitCode::SUCCESS);
    }
    if words.next_if(|word| word == rmcp_gateway::MARKER).is_some() {
        runtime(true)?.block_on(rmcp_gateway::run(words))?;
        return Ok(ExitCode::SUCCESS);
    }
    if words.next_if(|word| word == http::DEMO_MARKER).is_some() {
        return demo(words);
    }
    if words.next_if(|word| word == list::MEMORY_MARKER).is_some() {
        measure_memory(words)?;
        return Ok(ExitCode::SUCCESS);
    }
    // Without Switchboard among the contestants no host is started, and no launcher.
    let options = Options::parse(std::env::args().skip(1));
    if !options.as_ref().is_ok_and(|options| !options.with("us")) {
        switchboard::launcher_main();
    }
    let options = options?;
    if options.work == Work::Soak {
        return runtime(true)?.block_on(soak::run(&options));
    }
    let report = runtime(options.multi_thread)?.block_on(measure(&options))?;
    println!(
        "{}",
        if options.json {
            report.json()?
        } else {
            report.table()
        }
    );
    Ok(ExitCode::SUCCESS)
}

async fn measure(options: &Options) -> Result<Report, Fault> {
    let mut notes = options.left_out();
    let (command, rows) = match options.work {
        Work::Stdio => ("stdio", stdio::run(options).await?),
        Work::Calls => ("calls", stdio::run_many(options).await?),
        Work::Http => ("http", http::run(options).await?),
        Work::Startup => ("startup", startup::run(options).await?),
        Work::List => ("list", list::run(options).await?),
        Work::Flood => ("flood", flood::run(options).await?),
        Work::Turn => ("turn", turn::run(options).await?),
        Work::Chat => ("chat", chat::run(options)?),
        Work::Faults => ("faults", faults::run(options).await?),
        Work::Soak => return Err("a soak has no table".into()),
        Work::Gateway => {
            let (rows, missing) = gateway::run(options).await?;
            notes.extend(missing);
            ("gateway", rows)
        }
    };
    if options.work == Work::Http {
        notes.extend(http::missing(options));
    }
    if matches!(options.work, Work::Stdio | Work::Calls | Work::Http) {
        notes.push(format!("{} (--pin)", options.pin.name()));
    }
    Ok(Report {
        command,
        runtime: options.runtime_name(),
        era: options.era.name(),
        rounds: options.rounds,
        rows,
        notes,
    })
}

/// Runs the demo server, pinned to the core of `--core`.
fn demo(words: impl Iterator<Item = String>) -> Result<ExitCode, Fault> {
    let mut words = words.peekable();
    if words.next_if(|word| word == "--core").is_some() {
        cores::to_core(
            words
                .next()
                .and_then(|core| core.parse().ok())
                .ok_or("--core needs a number")?,
        )?;
    }
    Ok(switchboard_demo::main_stdio(words))
}

fn measure_memory(mut words: impl Iterator<Item = String>) -> Result<(), Fault> {
    let who = words.next().unwrap_or_default();
    let era = if words.next().as_deref() == Some("modern") {
        Era::Modern
    } else {
        Era::Legacy
    };
    runtime(false)?.block_on(list::memory(&who, era))
}

fn runtime(multi_thread: bool) -> std::io::Result<tokio::runtime::Runtime> {
    let mut builder = if multi_thread {
        tokio::runtime::Builder::new_multi_thread()
    } else {
        tokio::runtime::Builder::new_current_thread()
    };
    builder.enable_all().build()
}
