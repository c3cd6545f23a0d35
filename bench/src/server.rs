//! The benchmark server (floor server): a minimal MCP server over stdio, so that the client side is
//! measured.
//!
//! One thread, blocking reads and writes with large buffers. Requests are not parsed beyond the
//! fields that are needed; all answers to one read are sent in one write. It ends with its input.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use crate::measure::{BIG_BYTES, Fault};
use crate::raw::field;

/// The hidden subcommand.
pub(crate) const MARKER: &str = "__server";

const READ_BYTES: usize = 256 * 1024;

/// How it behaves.
struct Flags {
    /// Tools offered: `echo`, `big`, then numbered ones.
    tools: usize,
    /// Tools per page; 0 puts all into one.
    page: usize,
    /// A delay before the first answer.
    delay: Duration,
    modern: bool,
    legacy: bool,
    /// Whether it reads and never answers.
    never: bool,
}

struct Server {
    flags: Flags,
    /// The members of each `tools/list` result, made at the first request.
    pages: Vec<Vec<u8>>,
    /// The members of the big tool's result, made at the first call.
    big: Vec<u8>,
    /// The first member of each result: the modern era's `resultType`, or nothing.
    result_start: &'static [u8],
    /// Answers that wait to be written.
    out: Vec<u8>,
}

/// Serves until the input ends.
pub(crate) fn run(arguments: impl Iterator<Item = String>) -> Result<(), Fault> {
    let flags = parse(arguments)?;
    let mut input = File::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    let mut output = File::from(std::io::stdout().as_fd().try_clone_to_owned()?);
    let mut server = Server {
        flags,
        pages: Vec::new(),
        big: Vec::new(),
        result_start: b"",
        out: Vec::with_capacity(READ_BYTES),
    };
    let (mut buffer, mut filled) = (vec![0; READ_BYTES], 0);
    loop {
        if filled == buffer.len() {
            buffer.resize(filled * 2, 0);
        }
        let count = input.read(&mut buffer[filled..])?;
        if count == 0 {
            return Ok(());
        }
        filled += count;
        let mut done = 0;
        while let Some(end) = memchr::memchr(b'\n', &buffer[done..filled]) {
            server.answer(&buffer[done..done + end]);
            done += end + 1;
        }
        buffer.copy_within(done..filled, 0);
        filled -= done;
        if !server.out.is_empty() {
            std::thread::sleep(std::mem::take(&mut server.flags.delay));
            output.write_all(&server.out)?;
            server.out.clear();
        }
    }
}

impl Server {
    fn answer(&mut self, line: &[u8]) {
        let (Some(id), Some(method)) = (field(line, b"id"), field(line, b"method")) else {
            return;
        };
        if self.flags.never {
            return;
        }
        let params = field(line, b"params").unwrap_or(b"{}");
        match method {
            b"\"tools/call\"" => self.call(id, params),
            b"\"tools/list\"" => self.list(id, params),
            b"\"initialize\"" if !self.flags.modern => {
                let version = field(params, b"protocolVersion").unwrap_or(b"\"2025-11-25\"");
                self.result(
                    id,
                    &[
                        b"\"protocolVersion\":",
                        version,
                        b",\"capabilities\":{\"tools\":{}},\"serverInfo\":{\"name\":\"floor\",\"version\":\"0\"}",
                    ],
                );
            }
            b"\"server/discover\"" if !self.flags.legacy => {
                self.result_start = b"\"resultType\":\"complete\",";
                self.result(id, &[
                    b"\"supportedVersions\":[\"2026-07-28\"],\"capabilities\":{\"tools\":{}},\"ttlMs\":0,\"cacheScope\":\"private\"",
                    b",\"_meta\":{\"io.modelcontextprotocol/serverInfo\":{\"name\":\"floor\",\"version\":\"0\"}}",
                ]);
            }
            b"\"ping\"" => self.result(id, &[]),
            _ => self.error(id, b"-32601,\"message\":\"no such method\""),
        }
    }

    fn call(&mut self, id: &[u8], params: &[u8]) {
        let text = field(params, b"arguments")
            .and_then(|arguments| field(arguments, b"text"))
            .unwrap_or(b"\"\"");
        match field(params, b"name") {
            Some(b"\"big\"") => {
                if self.big.is_empty() {
                    self.big = big();
                }
                let big = std::mem::take(&mut self.big);
                self.result(id, &[&big]);
                self.big = big;
            }
            Some(_) => self.result(
                id,
                &[b"\"content\":[{\"type\":\"text\",\"text\":", text, b"}]"],
            ),
            None => self.error(id, b"-32602,\"message\":\"a call needs a name\""),
        }
    }

    /// The cursor is the number of the page.
    fn list(&mut self, id: &[u8], params: &[u8]) {
        if self.pages.is_empty() {
            self.pages = pages(&self.flags);
        }
        let cursor = field(params, b"cursor").and_then(|text| {
            std::str::from_utf8(text)
                .ok()?
                .trim_matches('"')
                .parse()
                .ok()
        });
        let pages = std::mem::take(&mut self.pages);
        let lasting: &[u8] = if self.result_start.is_empty() {
            b""
        } else {
            b",\"ttlMs\":0,\"cacheScope\":\"private\""
        };
        match pages.get(cursor.unwrap_or(0)) {
            Some(page) => self.result(id, &[page, lasting]),
            None => self.error(id, b"-32602,\"message\":\"no such cursor\""),
        }
        self.pages = pages;
    }

    fn result(&mut self, id: &[u8], parts: &[&[u8]]) {
        for part in [b"{\"jsonrpc\":\"2.0\",\"id\":", id, b",\"result\":{"] {
            self.out.extend_from_slice(part);
        }
        let start = if parts.is_empty() {
            b""
        } else {
            self.result_start
        };
        self.out.extend_from_slice(start);
        parts
            .iter()
            .for_each(|part| self.out.extend_from_slice(part));
        self.out.extend_from_slice(b"}}\n");
    }

    fn error(&mut self, id: &[u8], code_and_message: &[u8]) {
        for part in [
            b"{\"jsonrpc\":\"2.0\",\"id\":",
            id,
            b",\"error\":{\"code\":",
            code_and_message,
            b"}}\n",
        ] {
            self.out.extend_from_slice(part);
        }
    }
}

/// Lines of text as a file has them, with escaped newlines.
fn big() -> Vec<u8> {
    const LINE: &str = "a line of sixty-four characters, such as a source file may hold\\n";
    let lines = BIG_BYTES.div_ceil(LINE.len() - 1);
    format!(
        "\"content\":[{{\"type\":\"text\",\"text\":\"{}\"}}]",
        LINE.repeat(lines)
    )
    .into_bytes()
}

fn pages(flags: &Flags) -> Vec<Vec<u8>> {
    let per_page = if flags.page == 0 {
        flags.tools.max(1)
    } else {
        flags.page
    };
    let count = flags.tools.div_ceil(per_page).max(1);
    let page = |number: usize| {
        let tools: Vec<String> = (number * per_page..flags.tools.min((number + 1) * per_page))
            .map(definition)
            .collect();
        let next = if number + 1 < count {
            format!(",\"nextCursor\":\"{}\"", number + 1)
        } else {
            String::new()
        };
        format!("\"tools\":[{}]{next}", tools.join(",")).into_bytes()
    };
    (0..count).map(page).collect()
}

/// A definition of ordinary size: 400 bytes, two described properties.
fn definition(index: usize) -> String {
    let name = match index {
        0 => "echo".to_owned(),
        1 => "big".to_owned(),
        _ => format!("tool_{index:05}"),
    };
    let required = if index == 0 {
        r#","required":["text"]"#
    } else {
        ""
    };
    format!(
        r#"{{"name":"{name}","title":"Tool {index}","description":"Gives back the text that it was called with, as often as it was asked to.","inputSchema":{{"type":"object","properties":{{"text":{{"type":"string","description":"what to give back","maxLength":65536}},"count":{{"type":"integer","description":"how often","minimum":1,"maximum":100}}}}{required},"additionalProperties":false}}}}"#
    )
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Flags, Fault> {
    let mut flags = Flags {
        tools: 2,
        page: 0,
        delay: Duration::ZERO,
        modern: false,
        legacy: false,
        never: false,
    };
    while let Some(flag) = arguments.next() {
        let mut number = || {
            arguments
                .next()
                .and_then(|text| text.parse().ok())
                .ok_or(format!("{flag} needs a number"))
        };
        match flag.as_str() {
            "--tools" => flags.tools = number()?,
            "--page" => flags.page = number()?,
            "--delay" => flags.delay = Duration::from_millis(number()? as u64),
            "--core" => crate::cores::to_core(number()?)?,
            "--modern" => flags.modern = true,
            "--legacy" => flags.legacy = true,
            "--never" => flags.never = true,
            // Only makes two launches of the same server differ.
            "--number" => drop(number()?),
            _ => return Err(format!("the floor server has no flag {flag:?}").into()),
        }
    }
    Ok(flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_carry_the_id_exactly_and_the_text_untouched() {
        let check = |words: &str, line: &str, expected: &str| {
            let flags =
                parse(words.split_whitespace().map(str::to_owned)).expect("the words are flags");
            let mut server = Server {
                flags,
                pages: Vec::new(),
                big: Vec::new(),
                result_start: b"",
                out: Vec::new(),
            };
            server.answer(line.as_bytes());
            assert_eq!(String::from_utf8_lossy(&server.out), expected, "{line}");
        };
        // Nested ids, escapes, blanks and any order of keys: only the top-level id counts.
        check(
            "",
            r#"{"params":{"id":9,"name":"echo","arguments":{"text":"a \"}\\","id":8}}, "method" : "tools/call" ,"id":"x\"1","jsonrpc":"2.0"}"#,
            "{\"jsonrpc\":\"2.0\",\"id\":\"x\\\"1\",\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"a \\\"}\\\\\"}]}}\n",
        );
        check(
            "",
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            "",
        );
        check("--never", r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, "");
        check(
            "",
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n",
        );
        let refused = "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32601,\"message\":\"no such method\"}}\n";
        check(
            "--legacy",
            r#"{"jsonrpc":"2.0","id":1,"method":"server/discover"}"#,
            refused,
        );
        check(
            "--modern",
            r#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#,
            refused,
        );
    }

    #[test]
    fn pages_hold_every_tool_once_and_are_json() {
        let flags = parse(
            ["--tools", "25", "--page", "10"]
                .map(str::to_owned)
                .into_iter(),
        )
        .expect("the words are flags");
        let mut names = Vec::new();
        let mut cursors = Vec::new();
        for page in pages(&flags) {
            let text = format!("{{{}}}", String::from_utf8_lossy(&page));
            let page: serde_json::Value = serde_json::from_str(&text).expect("a page is JSON");
            let tools = page["tools"].as_array().expect("a page has tools");
            names.extend(
                tools
                    .iter()
                    .map(|tool| tool["name"].as_str().unwrap_or_default().to_owned()),
            );
            cursors.push(page["nextCursor"].as_str().map(str::to_owned));
        }
        let expected: Vec<String> = ["echo".to_owned(), "big".to_owned()]
            .into_iter()
            .chain((2..25).map(|index| format!("tool_{index:05}")))
            .collect();
        assert_eq!(names, expected);
        assert_eq!(cursors, [Some("1".to_owned()), Some("2".to_owned()), None]);
    }
}
