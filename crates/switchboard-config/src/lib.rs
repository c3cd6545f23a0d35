//! What the files say, in two stages: as written (with positions), then as meant
//! ([`Config`](crate::Config)).
//!
//! Owns reading, checking, merging, expanding and editing, and the names and secrets that a
//! configuration is made of. Remembers nothing, starts nothing and decides nothing about calls.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use indexmap::IndexMap;

use crate::name::{ServerName, Style};
use crate::secret::Secret;

pub use diagnostic::{ConfigErrors, Diagnostic, visible_path};
pub use dialects::{ApprovalChoices, Dialect, DialectProfile, RuleSyntax, StateNames, StopMethod};
pub use disclosure::{Disclosure, disclose};
pub use edit::{Change, EditFault, EditOutcome, NewServer, ServerTarget, edit, sample};
pub use entry_values::{DisplayValue, EntryValue, VariableState, VariableUse, variable_uses};
pub use expand::{
    Environment, LaunchFault, ResolvedLaunch, ResolvedUrl, UrlFault, resolve_launch, resolve_url,
};
pub use fingerprint::Fingerprint;
pub use load::{ConfigFile, Scope, load};
pub use project::ProjectPermissions;
pub use reference::ReferenceSyntax;
pub use schema::schema;
pub use search::{LinkedFile, linked_project_files, project_folder, search, search_order};
pub use shell_command::shell_command;

/// Names: the pair (server, tool) is the identity; what a model sees is made from it.
pub mod name;

/// Text that must not print.
pub mod secret;

/// Text that must not reach a terminal raw.
pub mod untrusted;

/// Text quoted for a shell.
pub mod shell;

mod diagnostic;
mod dialects;
mod disclosure;
mod edit;
mod entry_values;
mod expand;
mod fields;
mod fingerprint;
mod format;
/// Private parsers, for the fuzz targets.
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod load;
mod loader_variables;
mod package_runner;
mod policy;
mod program;
mod project;
mod quantity;
mod raw;
mod reference;
mod schema;
mod search;
mod sensitive;
mod server_entry;
mod shell_command;
mod tree;

#[cfg(test)]
mod tests;

/// Every file read, merged: what the host runs on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Config {
    /// In config order, which decides precedence where names meet. A project's entry has replaced
    /// a user's of the same name whole.
    pub servers: IndexMap<ServerName, Arc<ServerConfig>>,
    /// Rules and mode. Of a project's file only what tightens them is here.
    pub permissions: Permissions,
    /// What project files would let run without asking: it counts once a person has accepted it.
    pub project_permissions: Vec<ProjectPermissions>,
    /// Which servers may run at all.
    pub security: Security,
    /// How tools are named.
    pub naming: Style,
    /// What deserves attention but does not stop us: unknown fields, ignored settings of a project
    /// file.
    pub warnings: Vec<Diagnostic>,
    /// Where each value that is set stands, by dotted field: `servers.git.command`,
    /// `permissions.mode`.
    pub locations: BTreeMap<String, Location>,
    /// What each entry says and where, as its file calls it; for `why`.
    pub values: BTreeMap<ServerName, Vec<EntryValue>>,
    /// The entries that one of the same name in a higher file replaced, nearest first, each with
    /// what it says.
    pub shadowed: Vec<(Arc<ServerConfig>, Vec<EntryValue>)>,
}

/// Servers of an embedder that reads no files; all else as an empty file leaves it. Of two with one
/// name the later one holds.
impl FromIterator<ServerConfig> for Config {
    fn from_iter<I: IntoIterator<Item = ServerConfig>>(servers: I) -> Self {
        let servers = servers
            .into_iter()
            .map(|server| (server.name.clone(), Arc::new(server)))
            .collect();
        Self {
            servers,
            ..Self::default()
        }
    }
}

impl Config {
    /// How a server's tools are named.
    pub fn naming_of(&self, server: &ServerConfig) -> Style {
        server.dialect.profile().naming.unwrap_or(self.naming)
    }

    /// The servers whose tools must be known before those of this one have their names: itself, and
    /// where the first in the file keeps a bare name (S2-27) every one before it.
    pub fn needed_to_name(&self, server: &ServerConfig) -> Vec<ServerName> {
        match (
            self.naming_of(server),
            self.servers.get_index_of(&server.name),
        ) {
            (Style::FirstWins, Some(place)) => {
                self.servers.keys().take(place + 1).cloned().collect()
            }
            _ => vec![server.name.clone()],
        }
    }
}

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// The file, as it was given.
    pub file: Arc<PathBuf>,
    /// 1-based.
    pub line: usize,
    /// 1-based, in characters.
    pub column: usize,
}

/// One server's entry, as meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// Its key.
    pub name: ServerName,
    /// The kind of file it stands in, whose rules it goes by.
    pub dialect: Dialect,
    /// Where the entry stands.
    pub source: Source,
    /// How to reach it.
    pub endpoint: Endpoint,
    /// Which era to speak.
    pub protocol: Protocol,
    /// When to start it.
    pub start: Start,
    /// `false`: never spawned, still listed.
    pub enabled: bool,
    /// `true`: no confirmation for any of its tools. Always `false` for a project file's entry:
    /// see [`ProjectPermissions::trusted`].
    pub trust: bool,
    /// Whether the server asks questions during calls (decides whether calls of different callers
    /// may overlap).
    pub asks: Asks,
    /// Whether callers share one session.
    pub session: Sharing,
    /// The deadlines.
    pub timeouts: Timeouts,
    /// How long its first start may take, where a package runner may have to install it first and
    /// the entry sets no deadline.
    pub first_connect: Option<Duration>,
    /// How long a call may take, where the entry itself says it.
    pub written_call_timeout: Option<Duration>,
    /// If set, only tools that match one of these globs are offered.
    pub include_tools: Option<Vec<String>>,
    /// Tools that match one of these globs are not offered.
    pub exclude_tools: Vec<String>,
    /// Tools that may be sent again after a lost answer.
    pub idempotent_tools: Vec<String>,
    /// What the person wrote about it.
    pub description: Option<String>,
    /// The longest line or body accepted from it.
    pub max_message_bytes: usize,
}

impl ServerConfig {
    /// An entry that says nothing but where its server is; all else as a file leaves it.
    pub fn new(name: ServerName, source: Source, endpoint: Endpoint) -> Self {
        let first_connect = endpoint
            .package_runner()
            .map(|_| package_runner::FIRST_START);
        Self {
            name,
            dialect: Dialect::default(),
            source,
            endpoint,
            protocol: Protocol::default(),
            start: Start::default(),
            enabled: true,
            trust: false,
            asks: Asks::default(),
            session: Sharing::default(),
            timeouts: Timeouts::default(),
            first_connect,
            written_call_timeout: None,
            include_tools: None,
            exclude_tools: Vec::new(),
            idempotent_tools: Vec::new(),
            description: None,
            max_message_bytes: MAX_MESSAGE_BYTES,
        }
    }

    /// The longest that connecting may take: what whoever waits for the server waits for at most.
    pub fn longest_connect(&self) -> Duration {
        self.first_connect
            .unwrap_or_default()
            .max(self.timeouts.connect)
    }

    /// The field of its entry that gives a call more time: `total`, in all; else between two
    /// reports.
    pub fn time_field(&self, total: bool) -> TimeField {
        match self.dialect.profile().call_timeout_field {
            Some(field) => field,
            None if total => TimeField::CallTimeoutMax,
            None => TimeField::CallTimeout,
        }
    }
}

/// The default bound of one message: 64 MiB.
pub const MAX_MESSAGE_BYTES: usize = 64 * 1024 * 1024;

/// Where an entry stands, so that every message and `why` can name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The file: its folder absolute and free of links.
    pub file: Arc<PathBuf>,
    /// What relative paths start at: the file's folder, or the project's where the dialect keeps
    /// its file in a folder of its own.
    pub folder: Arc<PathBuf>,
    /// 1-based line of the entry's head.
    pub line: usize,
    /// Whose file it is.
    pub scope: Scope,
    /// The file whose entry of the same name this one replaced.
    pub shadows: Option<Arc<PathBuf>>,
}

impl Source {
    /// No file: an embedder's own code, trusted like a file that was given. Relative paths start at
    /// the process's folder.
    pub fn code() -> Self {
        Self::new(Arc::new(PathBuf::from("(code)")), 1, Scope::Given)
    }

    /// An entry of a file; relative paths start at its folder.
    pub fn new(file: Arc<PathBuf>, line: usize, scope: Scope) -> Self {
        let folder = Arc::new(file.parent().map(Path::to_owned).unwrap_or_default());
        Self {
            file,
            folder,
            line,
            scope,
            shadows: None,
        }
    }
}

/// How to reach a server. Texts are as written: references are expanded by [`resolve_launch`] when
/// the server starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// A child process that speaks over its standard streams.
    Stdio(StdioEndpoint),
    /// A URL.
    Http(HttpEndpoint),
    /// An entry that says neither: what is wrong with it, in a dialect in which a wrong entry keeps
    /// no other from running.
    Invalid(Diagnostic),
}

impl Endpoint {
    /// How its texts refer to variables.
    pub fn syntax(&self) -> ReferenceSyntax {
        match self {
            Self::Stdio(stdio) => stdio.syntax,
            Self::Http(http) => http.syntax,
            Self::Invalid(_) => ReferenceSyntax::Literal,
        }
    }

    /// The program that may have to install the server before it starts.
    pub fn package_runner(&self) -> Option<&'static str> {
        match self {
            Self::Stdio(stdio) => package_runner::package_runner(&stdio.command, &stdio.args),
            Self::Http(_) | Self::Invalid(_) => None,
        }
    }

    /// Whether the entry itself says what to authorize with, so that there is nothing that a person
    /// could log in to.
    pub fn has_own_token(&self) -> bool {
        let Self::Http(http) = self else { return false };
        http.auth.bearer_token.is_some()
            || http.auth.grant == OAuthGrant::ClientCredentials
            || http
                .headers
                .keys()
                .any(|name| name.eq_ignore_ascii_case("authorization"))
    }
}

/// A child process, as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StdioEndpoint {
    /// The program: a name looked up in the child's PATH, or a path (`./x` is relative to the
    /// file's folder).
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its own variables; values are secret.
    pub env: IndexMap<String, Secret>,
    /// Variables it must not get, whatever it inherits.
    pub unset: Vec<String>,
    /// Pass the whole environment instead of the short list.
    pub inherit_env: bool,
    /// Its working folder (relative to the file's folder); the host's own where absent.
    pub cwd: Option<String>,
    /// How these texts refer to variables.
    pub syntax: ReferenceSyntax,
}

impl StdioEndpoint {
    /// A program and its arguments, as written: with the short list of variables, in the host's
    /// folder.
    pub fn new(
        command: impl Into<String>,
        args: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let args = args.into_iter().map(Into::into).collect();
        Self {
            command: command.into(),
            args,
            env: IndexMap::new(),
            unset: Vec::new(),
            inherit_env: false,
            cwd: None,
            syntax: ReferenceSyntax::default(),
        }
    }
}

/// A URL, as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpEndpoint {
    /// The endpoint.
    pub url: String,
    /// Sent with each request; values are secret.
    pub headers: IndexMap<String, Secret>,
    /// Which wire.
    pub wire: HttpWire,
    /// What to authorize with, beside the headers.
    pub auth: HttpAuth,
    /// How these texts refer to variables.
    pub syntax: ReferenceSyntax,
}

impl HttpEndpoint {
    /// An address, as written, and nothing else.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            headers: IndexMap::new(),
            wire: HttpWire::default(),
            auth: HttpAuth::default(),
            syntax: ReferenceSyntax::default(),
        }
    }
}

/// What to authorize with: a token, or who to log in as. Texts are as written in an
/// [`HttpEndpoint`], expanded in a [`ResolvedUrl`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HttpAuth {
    /// Sent with each request, instead of a login.
    pub bearer_token: Option<Secret>,
    /// How a token is obtained.
    pub grant: OAuthGrant,
    /// The authorization server that everything below is for, and no other; where absent, the
    /// first one that it is used with.
    pub issuer: Option<String>,
    /// The id that was registered beforehand.
    pub client_id: Option<String>,
    /// What goes with the id.
    pub client_secret: Option<Secret>,
    /// The PEM file that goes with the id (relative to the file's folder).
    pub client_key: Option<String>,
    /// The https address of a client ID metadata document.
    pub client_metadata_url: Option<String>,
    /// What to ask for; empty asks for what the server names.
    pub scopes: Vec<String>,
    /// Where the browser returns to; a free port where absent.
    pub callback_port: Option<u16>,
}

/// How a token is obtained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OAuthGrant {
    /// A person logs in.
    #[default]
    AuthorizationCode,
    /// The program logs in by itself.
    ClientCredentials,
}

/// Which HTTP transport to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HttpWire {
    /// Streamable HTTP, then HTTP+SSE as the specification says.
    #[default]
    Auto,
    /// Streamable HTTP.
    Streamable,
    /// HTTP+SSE.
    Sse,
}

/// Which protocol era to speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// Find out, and remember.
    #[default]
    Auto,
    /// `initialize`.
    Legacy,
    /// No handshake; each request self-contained.
    Modern,
}

/// When to start a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Start {
    /// With the host, all at once.
    #[default]
    Eager,
    /// On first use; the catalog of last time is shown until then.
    Lazy,
}

/// Whether a server asks questions during calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Asks {
    /// Found out when it first asks, and remembered.
    #[default]
    Auto,
    /// It does.
    Yes,
    /// It does not.
    No,
}

/// Whether callers share one session with a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sharing {
    /// One session for all.
    #[default]
    Shared,
    /// One session for each caller.
    PerCaller,
}

/// The deadlines of one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// From spawn to Ready.
    pub connect: Duration,
    /// A call without progress.
    pub call: Duration,
    /// A call in all.
    pub call_max: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(30),
            call: Duration::from_secs(60),
            call_max: Duration::from_secs(600),
        }
    }
}

/// The field of an entry that limits a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeField {
    /// The native one for the silence between two reports.
    CallTimeout,
    /// The native one for the whole call.
    CallTimeoutMax,
    /// Gemini's for the whole call.
    Timeout,
    /// A3S Code's for the whole call.
    TimeoutMs,
}

impl TimeField {
    /// As its file spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::CallTimeout => "call_timeout",
            Self::CallTimeoutMax => "call_timeout_max",
            Self::Timeout => "timeout",
            Self::TimeoutMs => "timeout_ms",
        }
    }
}

/// `[permissions]`, as written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Permissions {
    /// What holds where no rule does.
    pub mode: Mode,
    /// `server` or `server/tool`, a glob per part.
    pub allow: Vec<RuleText>,
    /// Always asked.
    pub ask: Vec<RuleText>,
    /// Never allowed.
    pub deny: Vec<RuleText>,
    /// Some file says something about permissions, if only that they are asked about. Where none
    /// does, a dialect whose document calls the gate optional has none
    /// ([`DialectProfile::ungated_by_default`]).
    pub configured: bool,
}

/// A rule as written, with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleText {
    /// The spelling.
    pub text: String,
    /// The kind of file it stands in: only that kind's spellings count.
    pub dialect: Dialect,
    /// The file it stands in.
    pub file: Arc<PathBuf>,
    /// 1-based.
    pub line: usize,
}

/// The gate's mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Ask, unless a rule or a grant says otherwise.
    #[default]
    Ask,
    /// Allow, unless a rule denies.
    Yolo,
    /// Deny everything.
    Deny,
}

/// `[security]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Security {
    /// If not empty, only these servers run.
    pub allow_servers: Vec<String>,
    /// These never run, whatever the allow list says.
    pub deny_servers: Vec<String>,
    /// Definitions that changed since they were pinned are not covered by `allow` rules and
    /// `trust`.
    pub locked: bool,
}

impl Security {
    /// Which list keeps a server from running, if one does.
    pub fn blocks(&self, server: &ServerName) -> Option<&'static str> {
        let names = |list: &[String]| list.iter().any(|name| name == server.as_str());
        if names(&self.deny_servers) {
            Some("the deny list under [security] names it")
        } else if !self.allow_servers.is_empty() && !names(&self.allow_servers) {
            Some("the allow list under [security] does not name it")
        } else {
            None
        }
    }
}
