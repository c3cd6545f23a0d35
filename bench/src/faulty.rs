//! Faulty servers over stdio, for `faults` and `soak`.

use std::io::{BufRead, Write};
use std::time::Duration;

use crate::measure::Fault;

/// The hidden subcommand. The next argument is the kind of fault.
pub(crate) const MARKER: &str = "__faulty";

/// The kinds of faults.
pub(crate) const KINDS: [&str; 4] = ["dead", "hanging", "flooding", "crashing"];

/// Runs a faulty server until its input ends.
pub(crate) fn run(mut words: impl Iterator<Item = String>) -> Result<(), Fault> {
    match words.next().unwrap_or_default().as_str() {
        "dead" => Err("this server never starts".into()),
        "hanging" => {
            std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
            Ok(())
        }
        "flooding" => flood(),
        "crashing" => {
            answer_handshake()?;
            std::thread::sleep(Duration::from_millis(50));
            Err("this server ends as soon as it has started".into())
        }
        kind => Err(format!("unknown kind of fault {kind:?}").into()),
    }
}

/// Sends log messages without pause, from the handshake on.
fn flood() -> Result<(), Fault> {
    answer_handshake()?;
    let line = br#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"and another line"}}"#;
    let batch = [&line[..], b"\n"].concat().repeat(100);
    let mut output = std::io::stdout().lock();
    loop {
        output.write_all(&batch)?;
    }
}

fn answer_handshake() -> Result<(), Fault> {
    let mut output = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let message: serde_json::Value = serde_json::from_str(&line?)?;
        let id = &message["id"];
        let answer = match message["method"].as_str() {
            Some("initialize") => {
                let result = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"logging":{}},"serverInfo":{"name":"faulty","version":"0"}}"#;
                format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
            }
            Some("notifications/initialized") => return Ok(()),
            _ if id.is_null() => continue,
            _ => format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"no such method"}}}}"#
            ),
        };
        writeln!(output, "{answer}")?;
        output.flush()?;
    }
    Ok(())
}
