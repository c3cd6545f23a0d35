//! A flooding server: on stdio and in the response once its tool is called, on the GET stream as
//! soon as that is open.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use crate::measure::Fault;

/// The hidden subcommand. The next argument is where the server floods.
pub(crate) const MARKER: &str = "__flooder";

/// Where a server floods.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flood {
    Stdio,
    Response,
    Get,
}

impl Flood {
    pub(crate) const ALL: [Self; 3] = [Self::Stdio, Self::Response, Self::Get];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Response => "HTTP response",
            Self::Get => "HTTP GET",
        }
    }
}

/// Serves until its input ends; over HTTP it first prints the address that it listens on.
pub(crate) fn run(mut words: impl Iterator<Item = String>) -> Result<(), Fault> {
    let word = words.next().unwrap_or_default();
    let flood = Flood::ALL
        .into_iter()
        .find(|flood| flood.name() == word)
        .ok_or("the flooder needs stdio, response or get")?;
    if flood == Flood::Stdio {
        return over_stdio();
    }
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?);
    for stream in listener.incoming() {
        let stream = stream?;
        thread::spawn(move || over_http(&stream, flood));
    }
    Ok(())
}

fn over_stdio() -> Result<(), Fault> {
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    let mut line = String::new();
    while input.read_line(&mut line)? > 0 {
        let message: serde_json::Value = serde_json::from_str(&line)?;
        line.clear();
        if message["method"] == "tools/call" {
            // Further requests stay unanswered: reading them would only cost time.
            return send_flood(&mut output, false);
        }
        if let Some(answer) = answer(&message) {
            writeln!(output, "{answer}")?;
            output.flush()?;
        }
    }
    Ok(())
}

fn over_http(stream: &TcpStream, flood: Flood) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut stream = stream;
    stream.set_nodelay(true).ok()?;
    loop {
        let (is_get, message) = request(&mut reader)?;
        let is_call = message["method"] == "tools/call";
        if (is_get && flood == Flood::Get) || (is_call && flood == Flood::Response) {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n").ok()?;
            return send_flood(&mut stream, true).ok();
        } else if is_get {
            stream
                .write_all(b"HTTP/1.1 405 X\r\nContent-Length: 0\r\n\r\n")
                .ok()?;
        } else if let Some(answer) = answer(&message) {
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
                answer.len()
            );
            stream.write_all((head + &answer).as_bytes()).ok()?;
        } else if !is_call {
            stream
                .write_all(b"HTTP/1.1 202 X\r\nContent-Length: 0\r\n\r\n")
                .ok()?;
        }
    }
}

/// Whether the next request is a GET, and its message.
fn request(reader: &mut BufReader<&TcpStream>) -> Option<(bool, serde_json::Value)> {
    let (mut is_get, mut length) = (false, 0);
    loop {
        let mut line = String::new();
        reader
            .read_line(&mut line)
            .ok()
            .filter(|&count| count > 0)?;
        is_get |= line.starts_with("GET ");
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line.trim_end().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((is_get, serde_json::from_slice(&body).unwrap_or_default()))
}

/// The answer to a request; calls get none.
fn answer(message: &serde_json::Value) -> Option<String> {
    let id = message.get("id")?;
    let result = match message["method"].as_str()? {
        "initialize" => {
            r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"flooder","version":"0"}}"#
        }
        "tools/list" => r#"{"tools":[{"name":"flood","inputSchema":{"type":"object"}}]}"#,
        "tools/call" => return None,
        _ => "{}",
    };
    Some(format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#
    ))
}

/// Sends log messages, and comments in event streams, without end.
fn send_flood(to: &mut impl Write, as_events: bool) -> Result<(), Fault> {
    let log = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"one line of a log"}}"#;
    let messages = if as_events {
        format!("data: {log}\n\n")
    } else {
        format!("{log}\n")
    }
    .repeat(512);
    let comments = ":\n".repeat(if as_events { 32 * 1024 } else { 0 });
    loop {
        to.write_all(messages.as_bytes())?;
        to.write_all(comments.as_bytes())?;
    }
}
