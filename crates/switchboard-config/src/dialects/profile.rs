//! In what the dialects differ beside their syntax: one profile for each.

use std::time::Duration;

use crate::edit::entry_spelling::{self, EntrySpelling, UrlField};
use crate::format::Format;
use crate::name::Style;
use crate::reference::ReferenceSyntax;
use crate::{HttpWire, Start, TimeField};

/// What holds for the servers of a dialect, where their document says it or the native rule does.
#[derive(Debug)]
pub struct DialectProfile {
    /// Its name on the command line.
    pub name: &'static str,
    /// How its files are written, where their name does not tell.
    pub(crate) format: Format,
    /// The folder that it keeps its file in, inside the project's or the user's: relative paths
    /// start outside of it.
    pub(crate) own_folder: Option<&'static str>,
    /// Relative paths of the user's own file start at the current folder (S2-60); elsewhere at a
    /// folder that is the file's.
    pub user_paths_start_at_current_folder: bool,
    /// The file beside its own, in that folder, that says what is permitted.
    pub(crate) permissions_file: Option<&'static str>,
    /// How its tools are named; `None` takes the style that the configuration as a whole has.
    pub naming: Option<Style>,
    /// How its texts refer to variables.
    pub syntax: ReferenceSyntax,
    /// A wrong entry, or a field of the other transport, is an error of the whole file; elsewhere
    /// of that server alone, or a warning.
    pub strict: bool,
    /// A server's name is one that the native style can carry unchanged; elsewhere nearly any
    /// visible text.
    pub narrow_names: bool,
    /// A child gets the whole environment.
    pub inherits_environment: bool,
    /// When its servers start.
    pub start: Start,
    /// From start to ready, where the entry does not say.
    pub(crate) connect_timeout: Duration,
    /// A call may take this long in all, progress or not; `None` goes by the native pair of
    /// deadlines.
    pub call_timeout: Option<Duration>,
    /// What its entries call that deadline, where the dialect has a name of its own for it.
    pub call_timeout_field: Option<TimeField>,
    /// What a URL means that says nothing else.
    pub wire: HttpWire,
    /// An HTTP+SSE stream is looked for at the URL itself, and then at `/sse` under it.
    pub sse_below: bool,
    /// A tool is withheld if its own name is that of a built-in tool, although its exposed name
    /// would not be.
    pub refuses_builtin_names: bool,
    /// `ListMcpResources` and `ReadMcpResource` are on offer beside its tools.
    pub offers_resource_tools: bool,
    /// A model is shown only what Gemini's API accepts of a tool's schema.
    pub gemini_schemas: bool,
    /// A server that offers prompts or resources, but no tool, is closed.
    pub closes_without_tools: bool,
    /// How a child is ended.
    pub stop: StopMethod,
    /// A change of the file is noticed by itself.
    pub watched: bool,
    /// Where the file says nothing about permissions, calls are not asked about. In a project's
    /// file that must be accepted.
    pub ungated_by_default: bool,
    /// The mode `yolo` skips the deny rules of the same file for servers' tools (S0-26).
    pub yolo_skips_denies: bool,
    /// Calls of different callers never overlap on one session that cannot tell whose question it
    /// asks.
    pub keeps_callers_apart: bool,
    /// Many of its servers are shown in a line each: no document says how they look.
    pub is_brief: bool,
    /// What it calls the states of a server.
    pub state_names: StateNames,
    /// Lines of a server's stderr that a logger marked as INFO are not kept.
    pub drops_info_lines: bool,
    /// How its entries are written, for whoever edits a file.
    pub(crate) entry_spelling: EntrySpelling,
    /// How the rules in its files name tools.
    pub rule_syntax: RuleSyntax,
    /// What a person may answer when a call of its servers is asked about.
    pub approval_choices: ApprovalChoices,
}

/// Which spellings of a rule count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleSyntax {
    /// `server` and `server/tool`, a glob per part; and all of the others.
    Every,
    /// `mcp:server_tool`: behind the colon a glob on the name that the tool has in that style.
    Colon,
    /// `mcp__server` for the whole server, `mcp__server__tool`, `mcp__*`.
    Prefix,
    /// `server` and `server.tool`, to the letter.
    Keys,
    /// A glob on `mcp__server__tool`.
    Exposed,
}

impl RuleSyntax {
    /// What a rule should look like, for messages.
    pub const fn expected(self) -> &'static str {
        match self {
            Self::Every => "\"server\" or \"server/tool\", a glob per part",
            Self::Colon => "\"mcp:server_tool\"",
            Self::Prefix => "\"mcp__server\" or \"mcp__server__tool\"",
            Self::Keys => "\"server\" or \"server.tool\"",
            Self::Exposed => "a glob on \"mcp__server__tool\"",
        }
    }
}

/// What a person may answer when a call is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalChoices {
    /// Once, always this tool or this server (for this run or for good), no.
    Stored,
    /// Proceed once, always allow this tool or this server (in memory, by a key), cancel.
    InMemory,
}

/// The words that a dialect has for the state of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateNames {
    /// One for each state.
    All,
    /// `CONNECTED`, `CONNECTING`, and `DISCONNECTED` for everything else.
    Three,
    /// `ok` and `error`.
    OkError,
}

/// How a child is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopMethod {
    /// Its input is closed; SIGTERM at 2 s, SIGKILL at 3 s.
    CloseFirst,
    /// SIGTERM at once, SIGKILL at 3 s.
    Terminate,
}

impl DialectProfile {
    /// How an entry says that its server may run.
    pub fn to_enable(&self) -> String {
        match self.entry_spelling.enabled {
            Some((field, on)) => format!("set `{field}` to {on}"),
            None => "enable it".to_owned(),
        }
    }

    /// How an entry with this wire is changed so that the server is reached over another; `None`
    /// where such a file has no word for it.
    pub fn to_change_wire(&self, wire: HttpWire) -> Option<String> {
        let field = |address: UrlField| address.map(|(field, _)| field);
        let beside = |address: UrlField| address.and_then(|(_, beside)| beside);
        let EntrySpelling {
            auto, http, sse, ..
        } = &self.entry_spelling;
        let (now, other, name) = match wire {
            HttpWire::Auto => return None,
            HttpWire::Streamable => (*http, *sse, "HTTP+SSE"),
            HttpWire::Sse => (*sse, *http, "Streamable HTTP"),
        };
        if let (Some((said, _)), true) = (beside(now), beside(*auto).is_none()) {
            return Some(format!(
                "leave out `{said}` in its entry: the wire is then found out"
            ));
        }
        let (now, other) = (field(now)?, field(other)?);
        (now != other).then(|| {
            format!("if it speaks {name}, write `{other}` instead of `{now}` in its entry")
        })
    }
}

pub(super) const NATIVE: DialectProfile = DialectProfile {
    name: "native",
    format: Format::Toml,
    own_folder: None,
    user_paths_start_at_current_folder: false,
    permissions_file: None,
    naming: None,
    syntax: ReferenceSyntax::Native,
    strict: true,
    narrow_names: true,
    inherits_environment: false,
    start: Start::Eager,
    connect_timeout: Duration::from_secs(30),
    call_timeout: None,
    call_timeout_field: None,
    wire: HttpWire::Auto,
    sse_below: false,
    refuses_builtin_names: true,
    offers_resource_tools: false,
    gemini_schemas: false,
    closes_without_tools: false,
    stop: StopMethod::CloseFirst,
    watched: true,
    ungated_by_default: false,
    yolo_skips_denies: false,
    keeps_callers_apart: false,
    is_brief: true,
    state_names: StateNames::All,
    drops_info_lines: false,
    entry_spelling: entry_spelling::NATIVE,
    rule_syntax: RuleSyntax::Every,
    approval_choices: ApprovalChoices::Stored,
};

/// What the five documents have in common where they differ from the native file.
const FOREIGN: DialectProfile = DialectProfile {
    strict: false,
    narrow_names: false,
    inherits_environment: true,
    refuses_builtin_names: false,
    is_brief: false,
    ..NATIVE
};

pub(super) const CORE_AGENT: DialectProfile = DialectProfile {
    name: "core-agent",
    format: Format::Json,
    own_folder: Some(".agents"),
    permissions_file: Some("config.json"),
    naming: Some(Style::ServerTool),
    syntax: ReferenceSyntax::Placeholder,
    strict: true,
    wire: HttpWire::Streamable,
    stop: StopMethod::Terminate,
    watched: false,
    ungated_by_default: true,
    yolo_skips_denies: true,
    state_names: StateNames::OkError,
    entry_spelling: entry_spelling::CORE_AGENT,
    rule_syntax: RuleSyntax::Colon,
    ..FOREIGN
};

pub(super) const A3S: DialectProfile = DialectProfile {
    name: "a3s",
    format: Format::Hcl,
    naming: Some(Style::Mcp),
    // `env("NAME")` is a call, not a text: the reader writes it as the native reference, and every
    // other `$` as `$$`.
    syntax: ReferenceSyntax::Native,
    call_timeout: Some(Duration::from_secs(60)),
    call_timeout_field: Some(TimeField::TimeoutMs),
    wire: HttpWire::Sse,
    refuses_builtin_names: true,
    entry_spelling: entry_spelling::A3S,
    rule_syntax: RuleSyntax::Prefix,
    ..FOREIGN
};

pub(super) const GEMINI: DialectProfile = DialectProfile {
    name: "gemini",
    format: Format::Json,
    own_folder: Some(".gemini"),
    user_paths_start_at_current_folder: true,
    naming: Some(Style::FirstWins),
    syntax: ReferenceSyntax::Shell,
    // S2-21: the document's one timeout is for connecting as well.
    connect_timeout: Duration::from_secs(600),
    call_timeout: Some(Duration::from_secs(600)),
    call_timeout_field: Some(TimeField::Timeout),
    wire: HttpWire::Sse,
    gemini_schemas: true,
    closes_without_tools: true,
    state_names: StateNames::Three,
    drops_info_lines: true,
    entry_spelling: entry_spelling::GEMINI,
    rule_syntax: RuleSyntax::Keys,
    approval_choices: ApprovalChoices::InMemory,
    ..FOREIGN
};

pub(super) const AGENT_APPS: DialectProfile = DialectProfile {
    name: "agent-apps",
    format: Format::Yaml,
    naming: Some(Style::ServerDashTool),
    // `\${NAME}` is what is left for the launch: the reader writes it as the native reference, and
    // every other `$` as `$$`.
    syntax: ReferenceSyntax::Native,
    start: Start::Lazy,
    wire: HttpWire::Streamable,
    keeps_callers_apart: true,
    // S3-13: the document has no gate.
    ungated_by_default: true,
    entry_spelling: entry_spelling::AGENT_APPS,
    ..FOREIGN
};

pub(super) const AGENT_CODE: DialectProfile = DialectProfile {
    name: "agent-code",
    naming: Some(Style::Mcp),
    syntax: ReferenceSyntax::Literal,
    wire: HttpWire::Sse,
    entry_spelling: entry_spelling::AGENT_CODE,
    sse_below: true,
    rule_syntax: RuleSyntax::Exposed,
    offers_resource_tools: true,
    ..FOREIGN
};

pub(super) const MCP_JSON: DialectProfile = DialectProfile {
    name: "mcp-json",
    format: Format::Json,
    syntax: ReferenceSyntax::Braced,
    strict: false,
    narrow_names: false,
    refuses_builtin_names: false,
    entry_spelling: entry_spelling::MCP_JSON,
    ..NATIVE
};
