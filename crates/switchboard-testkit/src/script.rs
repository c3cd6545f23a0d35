//! The script of `chaosd`: its steps, and their spelling in JSON.
//!
//! One set of types for both ends: a test builds them (see [`crate::chaos`]), `chaosd` reads them.
//! An unknown word is an error, so a typing mistake in a test is not a server that behaves.

use std::path::PathBuf;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

mod step;

pub use step::{
    Failure, Huge, IdForm, IdPlace, InputRequired, Once, Request, Step, Steps, Written,
};

/// JSON that is passed on as it was written, byte for byte.
pub type RawJson = Box<RawValue>;

/// Everything one `chaosd` process does.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Script {
    /// Which protocol era it speaks.
    #[serde(skip_serializing_if = "is_default")]
    pub era: Era,
    /// `serverInfo.name`; `chaosd` when absent.
    #[serde(skip_serializing_if = "is_default")]
    pub name: Option<String>,
    /// The revision `initialize` is answered with; the one asked for when absent.
    #[serde(skip_serializing_if = "is_default")]
    pub version: Option<String>,
    /// What it says about how to use it.
    #[serde(skip_serializing_if = "is_default")]
    pub instructions: Option<String>,
    /// Its capabilities; when absent: tools, and prompts and resources if `on` answers their
    /// lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<RawJson>,
    /// The tools in the order they are listed, and what a call of each does.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub tools: IndexMap<String, Steps>,
    /// Fields that replace or extend the definition of a tool.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub define: IndexMap<String, IndexMap<String, RawJson>>,
    /// Definitions that change while it runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flips: Vec<Flip>,
    /// What is odd about the list of tools.
    #[serde(skip_serializing_if = "Listing::is_plain")]
    pub list: Listing,
    /// What is done for a method or notification instead of the usual answer.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub on: IndexMap<String, Steps>,
    /// Done before the first message is read.
    #[serde(skip_serializing_if = "Steps::is_empty")]
    pub on_start: Steps,
    /// Done beside everything else, from the start.
    #[serde(skip_serializing_if = "Steps::is_empty")]
    pub background: Steps,
    /// Done when stdin ends, before it exits with 0.
    #[serde(skip_serializing_if = "Steps::is_empty")]
    pub on_eof: Steps,
    /// Done when SIGTERM, SIGINT or SIGHUP arrives, before it dies of it.
    #[serde(skip_serializing_if = "Steps::is_empty")]
    pub on_term: Steps,
    /// It lives on when stdin ends (ten minutes at most).
    #[serde(skip_serializing_if = "is_default")]
    pub ignore_eof: bool,
    /// It lives on after SIGTERM, SIGINT and SIGHUP.
    #[serde(skip_serializing_if = "is_default")]
    pub ignore_term: bool,
    /// The file that everything it receives is appended to; see [`crate::record`].
    #[serde(skip_serializing_if = "is_default")]
    pub record: Option<PathBuf>,
}

/// How it takes to `server/discover` and `initialize`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Era {
    /// Handshake; `server/discover` is an unknown method.
    #[default]
    Legacy,
    /// No handshake; `initialize` is refused with -32022.
    Modern,
    /// Whichever comes first; once probed, `initialize` is refused with -32022.
    Dual,
    /// Legacy, but once probed `initialize` is refused with -32022.
    RefusesAfterProbe,
}

/// A definition that changes: when each condition given holds.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Flip {
    /// Which tool.
    pub tool: String,
    /// When so many lists have been answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_lists: Option<usize>,
    /// When so many calls, of any tool, have come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_calls: Option<usize>,
    /// When this file is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_file: Option<PathBuf>,
    /// The fields that replace those of the definition.
    pub define: IndexMap<String, RawJson>,
}

/// What is odd about the list of tools.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Listing {
    /// So many more tools, `tool_00000` and on, which answer `ok`.
    #[serde(skip_serializing_if = "is_default")]
    pub fill: usize,
    /// More entries as they stand: duplicates, invalid ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extra: Vec<RawJson>,
    /// Tools per page; all on one page when absent.
    #[serde(skip_serializing_if = "is_default")]
    pub page_size: Option<usize>,
    /// What is wrong with the cursor.
    #[serde(skip_serializing_if = "is_default")]
    pub cursor: Option<Cursor>,
}

impl Listing {
    fn is_plain(&self) -> bool {
        self.fill == 0 && self.extra.is_empty() && self.page_size.is_none() && self.cursor.is_none()
    }
}

/// What is wrong with the cursor of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cursor {
    /// Every page names the same next one.
    Repeat,
    /// Every page names a new next one and brings new tools (`page_size`, or one).
    Endless,
    /// Every page names a next one with this many bytes.
    Huge(usize),
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
