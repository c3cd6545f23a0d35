//! The demo server on every transport and in both eras. A transport is one more row.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use switchboard_testkit::{KilledOnDrop, program};

/// One transport and era.
pub(crate) struct Way {
    pub(crate) name: &'static str,
    /// Whether nothing on this transport shows which call a question belongs to.
    pub(crate) single_stream: bool,
    reach: fn() -> Reached,
}

/// A running demo server, until this is dropped.
pub(crate) struct Reached {
    /// The start of its entry, as TOML.
    pub(crate) entry: String,
    _listening: Option<KilledOnDrop>,
}

impl Way {
    pub(crate) fn reach(&self) -> Reached {
        (self.reach)()
    }
}

pub(crate) const STDIO_LEGACY: Way = Way {
    name: "stdio, legacy",
    single_stream: true,
    reach: || stdio("legacy"),
};

pub(crate) const STDIO_MODERN: Way = Way {
    name: "stdio, modern",
    single_stream: false,
    reach: || stdio("modern"),
};

pub(crate) const HTTP_LEGACY: Way = Way {
    name: "streamable HTTP, legacy",
    single_stream: false,
    reach: || http(&["--era", "legacy"], "mcp", "http"),
};

/// A server that asks on the stream that belongs to no request, as some do.
pub(crate) const HTTP_LEGACY_GET: Way = Way {
    name: "streamable HTTP, legacy, questions on the GET stream",
    single_stream: true,
    reach: || http(&["--era", "legacy", "--questions", "get"], "mcp", "http"),
};

pub(crate) const HTTP_MODERN: Way = Way {
    name: "streamable HTTP, modern",
    single_stream: false,
    reach: || http(&["--era", "modern"], "mcp", "http"),
};

pub(crate) const HTTP_SSE: Way = Way {
    name: "HTTP+SSE",
    single_stream: true,
    reach: || http(&["--era", "legacy"], "sse", "sse"),
};

pub(crate) const ALL: [Way; 6] = [
    STDIO_LEGACY,
    STDIO_MODERN,
    HTTP_LEGACY,
    HTTP_LEGACY_GET,
    HTTP_MODERN,
    HTTP_SSE,
];

fn stdio(era: &str) -> Reached {
    let command = program("switchboard-demo");
    Reached {
        entry: format!("command = {command:?}\nargs = [\"--era\", \"{era}\"]\n"),
        _listening: None,
    }
}

fn http(options: &[&str], path: &str, transport: &str) -> Reached {
    let (server, address) = listening(options);
    let entry = format!("url = \"http://{address}/{path}\"\ntransport = \"{transport}\"\n");
    Reached {
        entry,
        _listening: Some(server),
    }
}

/// A demo server on HTTP, and its address.
fn listening(options: &[&str]) -> (KilledOnDrop, String) {
    let mut command = Command::new(program("switchboard-demo"));
    command
        .args(["--http", "127.0.0.1:0"])
        .args(options)
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let mut child = KilledOnDrop(command.spawn().unwrap());
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert!(!line.is_empty(), "the demo server prints its address");
    (child, line.trim_end().to_owned())
}
