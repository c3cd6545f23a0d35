//! The text of `status`: a header, a block for each server, the discovery state.
//!
//! Every text in a view is already masked and escaped.

use std::fmt::Write;

use anstyle::{AnsiColor, Style};

use super::counted;
use super::table::wrapped;
use crate::hints;

/// All servers at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StatusView {
    pub(crate) servers: Vec<ServerView>,
    pub(crate) discovery: Discovery,
}

/// How far discovery has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Discovery {
    NotStarted,
    InProgress,
    Completed,
}

/// The state of a server, as far as its block differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StateWord {
    Connected,
    Connecting,
    Disconnected,
    Disabled,
    Blocked,
    Untrusted,
    Idle,
    NeedsLogin,
    Stopped,
}

/// One server's block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerView {
    pub(crate) name: String,
    /// Decides on icon, colour and lines.
    pub(crate) word: StateWord,
    /// The state as the server's dialect words it.
    pub(crate) dialect_word: &'static str,
    /// The command is `docker`.
    pub(crate) docker: bool,
    /// `Command` or `URL`, and its text.
    pub(crate) endpoint: (&'static str, String),
    /// Shown for connected servers.
    pub(crate) working_directory: Option<String>,
    /// Shown for connected servers.
    pub(crate) timeout_ms: Option<u128>,
    /// Why it is not connected: `Error`, `Reason` or the dialect's own label, and its text.
    pub(crate) why: Option<(&'static str, String)>,
    /// When a server that failed is tried again.
    pub(crate) next_attempt: Option<String>,
    /// The connection of the other era. Not in a block that a document prescribes.
    pub(crate) second_connection: Option<String>,
    pub(crate) tools: Vec<ToolView>,
    /// The tools are from the cache.
    pub(crate) cached: bool,
    /// Shown in one line if there are many servers.
    pub(crate) is_brief: bool,
    /// Withheld tools, each with the reason.
    pub(crate) withheld: Vec<(String, String)>,
    /// Further facts, for the verbose view.
    pub(crate) facts: Vec<(&'static str, String)>,
}

/// One tool of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToolView {
    pub(crate) name: String,
    pub(crate) description: String,
}

impl Discovery {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::NotStarted => "NOT_STARTED",
            Self::InProgress => "IN_PROGRESS",
            Self::Completed => "COMPLETED",
        }
    }
}

impl StateWord {
    /// The state for dialects with two or three words.
    pub(crate) fn plain(self) -> Self {
        match self {
            Self::Connected | Self::Connecting => self,
            _ => Self::Disconnected,
        }
    }

    fn icon(self, docker: bool) -> &'static str {
        match self {
            Self::Connected if docker => "🐳",
            Self::Connected => "📡",
            Self::Connecting => "🔄",
            Self::Idle => "💤",
            Self::Untrusted | Self::Blocked => "🔒",
            Self::NeedsLogin => "🔑",
            Self::Disconnected | Self::Disabled | Self::Stopped => "🔌",
        }
    }

    fn style(self) -> Style {
        match self {
            Self::Connected => AnsiColor::Green.on_default(),
            Self::Connecting | Self::Untrusted | Self::NeedsLogin => AnsiColor::Yellow.on_default(),
            Self::Disconnected | Self::Blocked => AnsiColor::Red.on_default(),
            Self::Disabled | Self::Idle | Self::Stopped => Style::new().dimmed(),
        }
    }
}

/// How much is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Detail {
    /// Each tool on its own line with its description.
    pub(crate) descriptions: bool,
    /// The facts.
    pub(crate) verbose: bool,
}

/// With more servers than this, each is one line, unless its dialect shows servers as blocks.
const MAX_BLOCKS: usize = 8;

/// The most lines of one fact, such as a server's instructions.
const MAX_FACT_LINES: usize = 12;

/// The most tool names of a server on a terminal; a pipe gets all.
const MAX_SCREEN_NAMES: usize = 60;

/// The most withheld tools of a server that are shown.
const MAX_WITHHELD: usize = 5;

/// The whole view, ending in a newline, with colours. On a terminal of `columns`, long lists of
/// names are wrapped and end in a count.
pub(crate) fn render(view: &StatusView, detail: Detail, columns: Option<usize>) -> String {
    let mut text = String::from("MCP Servers Status:\n\n");
    let is_brief = detail == Detail::default() && view.servers.len() > MAX_BLOCKS;
    let (brief, whole): (Vec<_>, Vec<_>) = view
        .servers
        .iter()
        .partition(|server| is_brief && server.is_brief);
    for server in &brief {
        one_line_block(&mut text, server, columns);
    }
    if !brief.is_empty() {
        text.push_str(&format!(
            "\n{} shows the details of each\n\n",
            hints::command(&["-v", "status"])
        ));
    }
    for server in whole {
        block(&mut text, server, detail, columns);
        text.push('\n');
    }
    text.push_str("Discovery State: ");
    text.push_str(view.discovery.as_str());
    text.push('\n');
    text
}

fn block(text: &mut String, server: &ServerView, detail: Detail, columns: Option<usize>) {
    let style = server.word.style();
    let icon = server.word.icon(server.docker);
    line(
        text,
        "",
        &format!(
            "{icon} {} ({style}{}{style:#})",
            server.name, server.dialect_word
        ),
    );
    fact(text, server.endpoint.0, &server.endpoint.1);
    let connected = server.word == StateWord::Connected;
    if let Some(folder) = server.working_directory.as_ref().filter(|_| connected) {
        fact(text, "Working Directory", folder);
    }
    if let Some(timeout_ms) = server.timeout_ms.filter(|_| connected) {
        fact(text, "Timeout", &format!("{timeout_ms}ms"));
    }
    if let Some((label, why)) = &server.why {
        fact(text, label, why);
    }
    if let Some(next) = &server.next_attempt {
        fact(text, "Next attempt", next);
    }
    let is_free = server.is_brief || detail.verbose;
    if let Some(second) = server.second_connection.as_ref().filter(|_| is_free) {
        fact(text, "Second connection", second);
    }
    tools(text, server, detail, columns);
    withheld(text, server);
    if detail.verbose {
        server
            .facts
            .iter()
            .for_each(|(label, value)| fact(text, label, value));
    }
}

/// One line, and why the server is not connected.
fn one_line_block(text: &mut String, server: &ServerView, columns: Option<usize>) {
    let style = server.word.style();
    let icon = server.word.icon(server.docker);
    let mut offers = match (server.tools.len(), server.word) {
        (0, word) if word != StateWord::Connected => String::new(),
        (count, _) => format!("  {}", counted(count, "tool")),
    };
    if server.cached && !offers.is_empty() {
        offers.push_str(" (cached)");
    }
    if !server.withheld.is_empty() {
        offers.push_str(&format!(", {} withheld", server.withheld.len()));
    }
    line(
        text,
        "",
        &format!(
            "{icon} {} ({style}{}{style:#}){offers}",
            server.name, server.dialect_word
        ),
    );
    if let Some((label, why)) = &server.why {
        let lines = wrapped(&format!("  {label}: {why}"), columns.unwrap_or(usize::MAX));
        lines.iter().for_each(|words| line(text, "", words));
    }
}

fn tools(text: &mut String, server: &ServerView, detail: Detail, columns: Option<usize>) {
    let label = if server.cached {
        "Tools (cached)"
    } else {
        "Tools"
    };
    if server.tools.is_empty() {
        if server.word == StateWord::Connected {
            fact(text, label, "none");
        }
        return;
    }
    if !detail.descriptions {
        let names: Vec<_> = server.tools.iter().map(|tool| tool.name.as_str()).collect();
        let Some(columns) = columns else {
            return fact(text, label, &names.join(", "));
        };
        let (shown, more) = names.split_at(names.len().min(MAX_SCREEN_NAMES));
        let mut shown = shown.join(", ");
        if !more.is_empty() {
            shown.push_str(&format!(
                ", and {} more ({})",
                more.len(),
                hints::command(&["tools", &server.name])
            ));
        }
        let lines = wrapped(&format!("  {label}: {shown}"), columns);
        return lines.iter().for_each(|words| line(text, "", words));
    }
    line(text, "  ", &format!("{label}:"));
    for tool in &server.tools {
        line(text, "  - ", &tool.name);
        tool.description
            .lines()
            .for_each(|words| line(text, "      ", words));
    }
}

/// Withheld tools and reasons, one line each.
fn withheld(text: &mut String, server: &ServerView) {
    for (tool, reason) in server.withheld.iter().take(MAX_WITHHELD) {
        fact(text, "Withheld", &format!("{tool} ({reason})"));
    }
    if let Some(more) = server
        .withheld
        .len()
        .checked_sub(MAX_WITHHELD)
        .filter(|more| *more > 0)
    {
        fact(
            text,
            "Withheld",
            &format!(
                "{more} more ({} says why)",
                hints::command(&["tools", &server.name])
            ),
        );
    }
}

fn fact(text: &mut String, label: &str, value: &str) {
    let lines: Vec<_> = value.trim_end().lines().collect();
    if lines.len() < 2 {
        return line(text, "  ", &format!("{label}: {}", value.trim_end()));
    }
    // Behind a bar, no line of server text can look like a fact of ours.
    line(text, "  ", &format!("{label}:"));
    lines
        .iter()
        .take(MAX_FACT_LINES)
        .for_each(|words| line(text, "  │ ", words));
    if let Some(more) = lines
        .len()
        .checked_sub(MAX_FACT_LINES)
        .filter(|more| *more > 0)
    {
        line(text, "  │ ", &format!("… and {more} more lines"));
    }
}

fn line(text: &mut String, indent: &str, words: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{}", format!("{indent}{words}").trim_end());
}

#[cfg(test)]
mod tests;
