//! What may differ between dialects. The profile of each is in its own file.

use std::time::Duration;

use super::entry_spelling::{EntrySpelling, UrlField};
use super::native;
use crate::format::Format;
use crate::name::Style;
use crate::reference::ReferenceSyntax;
use crate::{HttpTransportKind, Start, TimeField};

/// How the servers of a dialect behave: as its documentation states, else as in the native file.
#[derive(Debug)]
pub struct DialectProfile {
    /// Its name on the command line.
    pub name: &'static str,
    /// The format of its files, if their extension does not decide it.
    pub(crate) format: Format,
    /// The folder inside the project or the home folder that contains its file. Relative paths start
    /// at the folder around it.
    pub(crate) own_folder: Option<&'static str>,
    /// Whether relative paths of the user's own file start at the current folder instead of the
    /// file's.
    pub user_paths_start_at_current_folder: bool,
    /// A second file in that folder, with the permissions.
    pub(crate) permissions_file: Option<&'static str>,
    /// How its tools are named; `None` uses the style of the whole configuration.
    pub naming: Option<Style>,
    /// How its texts refer to variables.
    pub syntax: ReferenceSyntax,
    /// Whether an invalid entry is an error of the whole file. If not, it is an error of that
    /// server alone, and a field of the other transport is a warning.
    pub strict: bool,
    /// Whether server names are restricted to those that the native naming style keeps unchanged;
    /// else nearly any visible text is a name.
    pub strict_names: bool,
    /// Whether a child process gets the host's whole environment.
    pub inherits_environment: bool,
    /// When its servers start.
    pub start: Start,
    /// The deadline from start to ready, if the entry sets none.
    pub(crate) connect_timeout: Duration,
    /// The deadline of a whole call, which progress does not extend; `None` uses the two native
    /// deadlines.
    pub call_timeout: Option<Duration>,
    /// The field that sets that deadline, if the dialect has its own.
    pub call_timeout_field: Option<TimeField>,
    /// The transport of a URL that names none.
    pub wire: HttpTransportKind,
    /// Whether an HTTP+SSE stream is also looked for at `/sse` below the URL.
    pub sse_path_fallback: bool,
    /// Whether a tool is withheld if its own name is that of a built-in tool, even if its exposed
    /// name is not.
    pub refuses_builtin_names: bool,
    /// Whether the tools `ListMcpResources` and `ReadMcpResource` are offered.
    pub offers_resource_tools: bool,
    /// Whether schemas are reduced to what Gemini's API accepts before a model sees them.
    pub gemini_schemas: bool,
    /// Whether a server that offers prompts or resources, but no tools, is closed.
    pub closes_without_tools: bool,
    /// How a child process is stopped.
    pub stop: StopMethod,
    /// Whether changes of the file are applied while servers run.
    pub watched: bool,
    /// Whether calls are allowed without asking if the file has no permissions section. In a
    /// project's file this must be accepted by a person.
    pub ungated_by_default: bool,
    /// Whether the mode `yolo` skips the deny rules of the same file for servers' tools.
    pub yolo_skips_denies: bool,
    /// Whether calls of different callers are serialised on a session that cannot tell which call a
    /// server's request belongs to.
    pub serializes_callers: bool,
    /// Whether `status` may show many servers on one line each.
    pub compact_status: bool,
    /// Its names for the states of a server.
    pub state_names: StateNames,
    /// Whether stderr lines that a logger marked as INFO are dropped.
    pub drops_info_lines: bool,
    /// How a new entry is written, for edits.
    pub(crate) entry_spelling: EntrySpelling,
    /// How rules in its files name tools.
    pub rule_syntax: RuleSyntax,
    /// What a person may answer when asked to approve a call.
    pub approval_choices: ApprovalChoices,
}

/// How permission rules name tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleSyntax {
    /// `server` and `server/tool`, a glob per part; and all other forms.
    Every,
    /// `mcp:server_tool`: after the colon, a glob on the tool's name in that style.
    Colon,
    /// `mcp__server` for the whole server, `mcp__server__tool`, `mcp__*`.
    Prefix,
    /// `server` and `server.tool`, without wildcards.
    Keys,
    /// A glob on `mcp__server__tool`.
    Exposed,
}

impl RuleSyntax {
    /// The expected form of a rule, for messages.
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

/// What a person may answer when asked to approve a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalChoices {
    /// Once, always this tool or this server (for this run or for good), no.
    Stored,
    /// Proceed once, always allow this tool or this server (until the program ends), cancel.
    InMemory,
}

/// How the states of a server are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateNames {
    /// A name for each state.
    All,
    /// `CONNECTED`, `CONNECTING`, and `DISCONNECTED` for everything else.
    Three,
    /// `ok` and `error`.
    OkError,
}

/// How a child process is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopMethod {
    /// Its input is closed; SIGTERM at 2 s, SIGKILL at 3 s.
    CloseFirst,
    /// SIGTERM at once, SIGKILL at 3 s.
    Terminate,
}

impl DialectProfile {
    /// How to enable a server in its entry, for messages.
    pub fn how_to_enable(&self) -> String {
        match self.entry_spelling.enabled {
            Some((field, on)) => format!("set `{field}` to {on}"),
            None => "enable it".to_owned(),
        }
    }

    /// How to change an entry so that its server is reached over another HTTP transport, for
    /// messages; `None` if such a file cannot express it.
    pub fn how_to_change_wire(&self, wire: HttpTransportKind) -> Option<String> {
        let field = |address: UrlField| address.map(|(field, _)| field);
        let transport = |address: UrlField| address.and_then(|(_, transport)| transport);
        let EntrySpelling {
            auto, http, sse, ..
        } = &self.entry_spelling;
        let (now, other, name) = match wire {
            HttpTransportKind::Auto => return None,
            HttpTransportKind::Streamable => (*http, *sse, "HTTP+SSE"),
            HttpTransportKind::Sse => (*sse, *http, "Streamable HTTP"),
        };
        if let (Some((transport_field, _)), true) = (transport(now), transport(*auto).is_none()) {
            return Some(format!(
                "remove `{transport_field}` from its entry: the transport is then detected"
            ));
        }
        let (now, other) = (field(now)?, field(other)?);
        (now != other).then(|| {
            format!("if it speaks {name}, write `{other}` instead of `{now}` in its entry")
        })
    }
}

/// What the five dialects of other agents have in common.
pub(super) const FOREIGN: DialectProfile = DialectProfile {
    strict: false,
    strict_names: false,
    inherits_environment: true,
    refuses_builtin_names: false,
    compact_status: false,
    ..native::PROFILE
};
