//! `reload`: tells the running gateway to read its configuration again.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::Value;
use switchboard::untrusted::Untrusted;
use switchboard_gateway::edge::socket::command_line;

use crate::arguments::Options;
use crate::failure::{Code, Failure};
use crate::paths::Paths;
use crate::{gateway_record, hints, notices, output};

/// Limit of a reload, which waits for servers to end.
const TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) fn run(options: &Options) -> Result<u8, Failure> {
    let line = send(options, "reload")?;
    let answer: Value = serde_json::from_str(&line).map_err(|error| {
        let message = format!("the gateway's answer cannot be read: {error}");
        Failure::new(Code::Unreachable, message)
    })?;
    let text = |key: &str| {
        let text = answer[key].as_str().unwrap_or_default();
        Untrusted::new(text).for_terminal().to_string()
    };
    if answer["error"].is_string() {
        return Err(Failure::new(Code::Usage, text("error"))
            .hint("the gateway keeps its previous configuration"));
    }
    match options.json {
        true => output::print_json(&line)?,
        false => output::print(&format!("{}\n{}", text("summary"), accepted(&answer)))?,
    }
    Ok(0)
}

/// What the reload has accepted, each change with what its server runs.
fn accepted(answer: &Value) -> String {
    let changes = answer["accepted"].as_array();
    let texts = changes.into_iter().flatten().map(|change| {
        let lines = change["lines"].as_array().into_iter().flatten();
        notices::accepted(
            change["server"].as_str(),
            change["reason"].as_str().unwrap_or_default(),
            lines.filter_map(Value::as_str),
        )
    });
    texts.collect()
}

/// Sends a command to the running gateway; returns its answer, one line.
pub(crate) fn send(options: &Options, command: &str) -> Result<String, Failure> {
    let socket = gateway_record::find_socket(&Paths::find()?, options);
    let mut stream = UnixStream::connect(&socket).map_err(|_| {
        Failure::new(
            Code::Unreachable,
            "no gateway runs for these configuration files",
        )
        .hint(format!(
            "start one with {}; to reach one that runs with other files, use the folder and the -c \
             that it was started with",
            hints::command_with(&["serve", "--http", "127.0.0.1:8808"], &[])
        ))
    })?;
    let failed = |reason: &str| {
        Failure::new(
            Code::Unreachable,
            format!("the gateway did not answer: {reason}"),
        )
    };
    let mut answer = String::new();
    let exchange = |stream: &mut UnixStream, answer: &mut String| {
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.write_all(command_line(command).as_bytes())?;
        stream.shutdown(Shutdown::Write)?;
        stream.read_to_string(answer)
    };
    exchange(&mut stream, &mut answer).map_err(|error| failed(&error.to_string()))?;
    match answer.trim_end() {
        "" => Err(failed("it closed the connection")),
        answer => Ok(answer.to_owned()),
    }
}
