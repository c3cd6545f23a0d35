//! Builds a script for `chaosd` from Rust.

use std::path::{Path, PathBuf};

use crate::program::{Launch, program};
use crate::scratch::Entry;
use crate::script::{
    Cursor, Era, Failure, Flip, Huge, IdPlace, InputRequired, Once, RawJson, Request, Script, Step,
    Steps, Written,
};

/// The kernel takes no single argument of 128 KiB or more.
const LONGEST_ARGUMENT: usize = 120 * 1024;

/// The script of a `chaosd` server. Anything that is not set behaves correctly.
#[derive(Debug, Clone, Default)]
pub struct Chaos {
    /// The script; public for fields without a method here.
    pub script: Script,
}

impl Chaos {
    /// A legacy server without tools.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool and what a call of it does.
    pub fn tool(mut self, name: &str, steps: impl Into<Steps>) -> Self {
        self.script.tools.insert(name.to_owned(), steps.into());
        self
    }

    /// Replaces one field of a tool's definition, with JSON.
    pub fn define(mut self, tool: &str, field: &str, value: &str) -> Self {
        self.script
            .define
            .entry(tool.to_owned())
            .or_default()
            .insert(field.to_owned(), json(value));
        self
    }

    /// Changes a definition later; see [`Flip`] for when.
    pub fn flip(mut self, flip: Flip) -> Self {
        self.script.flips.push(flip);
        self
    }

    /// Adds `count` tools that answer `ok`.
    pub fn fill(mut self, count: usize) -> Self {
        self.script.list.fill = count;
        self
    }

    /// Adds a raw entry to the list of tools.
    pub fn extra_tool(mut self, entry: &str) -> Self {
        self.script.list.extra.push(json(entry));
        self
    }

    /// Sets the number of tools per page.
    pub fn page_size(mut self, size: usize) -> Self {
        self.script.list.page_size = Some(size);
        self
    }

    /// Makes the cursor of the list invalid.
    pub fn cursor(mut self, cursor: Cursor) -> Self {
        self.script.list.cursor = Some(cursor);
        self
    }

    /// Replaces the default response to a method or notification.
    pub fn on(mut self, method: &str, steps: impl Into<Steps>) -> Self {
        self.script.on.insert(method.to_owned(), steps.into());
        self
    }

    /// Sets its behaviour on `server/discover` and `initialize`.
    pub fn era(mut self, era: Era) -> Self {
        self.script.era = era;
        self
    }

    /// Runs these steps before it reads its first message.
    pub fn on_start(mut self, steps: impl Into<Steps>) -> Self {
        self.script.on_start = steps.into();
        self
    }

    /// Runs these steps concurrently with everything else.
    pub fn background(mut self, steps: impl Into<Steps>) -> Self {
        self.script.background = steps.into();
        self
    }

    /// Keeps running when stdin ends.
    pub fn ignore_eof(mut self) -> Self {
        self.script.ignore_eof = true;
        self
    }

    /// Keeps running after SIGTERM.
    pub fn ignore_term(mut self) -> Self {
        self.script.ignore_term = true;
        self
    }

    /// Appends what it receives to this file; see [`crate::Record`].
    pub fn record(mut self, path: impl Into<PathBuf>) -> Self {
        self.script.record = Some(path.into());
        self
    }

    /// The script as JSON, on one line.
    pub fn json(&self) -> String {
        serde_json::to_string(&self.script).expect("a script is plain data")
    }

    /// How to start it.
    pub fn launch(&self) -> Launch {
        let script = self.json();
        assert!(
            script.len() < LONGEST_ARGUMENT,
            "a script of {} bytes is too long for an argument: write it to a file",
            script.len()
        );
        Launch::new(program("chaosd")).arg(script)
    }

    /// Its entry in a `switchboard.toml`.
    pub fn entry(&self, server: &str) -> Entry {
        Entry::new(server, &self.launch())
    }
}

/// Short constructors of the steps that tests use most.
impl Step {
    /// [`Step::Text`].
    pub fn text(text: &str) -> Self {
        Self::Text(text.to_owned())
    }

    /// [`Step::Result`] with these bytes, which must be JSON.
    pub fn result(result: &str) -> Self {
        Self::Result(json(result))
    }

    /// [`Step::Error`] without data.
    pub fn error(code: i64, message: &str) -> Self {
        Self::Error(Failure {
            code,
            message: message.to_owned(),
            data: None,
        })
    }

    /// [`Step::Say`].
    pub fn say(line: &str) -> Self {
        Self::Say(line.to_owned())
    }

    /// [`Step::Huge`].
    pub fn huge(bytes: u64, id: IdPlace) -> Self {
        Self::Huge(Huge { bytes, id })
    }

    /// [`Step::Ask`] for one text, under the name `answer`.
    pub fn ask(message: &str) -> Self {
        let message = serde_json::to_string(message).expect("text is always JSON");
        let schema =
            r#"{"type":"object","properties":{"answer":{"type":"string"}},"required":["answer"]}"#;
        Self::Ask(json(&format!(
            r#"{{"message":{message},"requestedSchema":{schema}}}"#
        )))
    }

    /// [`Step::Request`]; the parameters must be JSON.
    pub fn request(method: &str, params: Option<&str>) -> Self {
        Self::Request(Request {
            method: method.to_owned(),
            params: params.map(json),
        })
    }

    /// [`Step::Notify`]; the parameters must be JSON.
    pub fn notify(method: &str, params: Option<&str>) -> Self {
        Self::Notify(Request {
            method: method.to_owned(),
            params: params.map(json),
        })
    }

    /// [`Step::InputRequired`]; the requests must be a JSON object.
    pub fn input_required(requests: Option<&str>, state: Option<&str>) -> Self {
        Self::InputRequired(InputRequired {
            input_requests: requests.map(json),
            request_state: state.map(str::to_owned),
        })
    }

    /// [`Step::WaitFile`].
    pub fn wait_file(path: impl AsRef<Path>) -> Self {
        Self::WaitFile(path.as_ref().to_owned())
    }

    /// [`Step::Touch`].
    pub fn touch(path: impl AsRef<Path>) -> Self {
        Self::Touch(path.as_ref().to_owned())
    }

    /// [`Step::Write`].
    pub fn write(path: impl AsRef<Path>, text: &str) -> Self {
        Self::Write(Written {
            path: path.as_ref().to_owned(),
            text: text.to_owned(),
        })
    }

    /// [`Step::Turns`].
    pub fn turns(turns: impl IntoIterator<Item = Steps>) -> Self {
        Self::Turns(turns.into_iter().collect())
    }

    /// [`Step::Once`].
    pub fn once(marker: impl AsRef<Path>, steps: impl Into<Steps>) -> Self {
        Self::Once(Once {
            marker: marker.as_ref().to_owned(),
            steps: steps.into(),
        })
    }
}

/// Parses JSON; panics with the position if a test's JSON is invalid.
fn json(text: &str) -> RawJson {
    serde_json::from_str(text)
        .unwrap_or_else(|error| panic!("a script needs JSON here, not {text:?}: {error}"))
}
