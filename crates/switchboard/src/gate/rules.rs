//! Rules as people spell them, compiled against the configured servers into pairs of globs.
//!
//! The native spelling is `server` or `server/tool`. The dialects' spellings are read too: `mcp__server`, `mcp__server__tool`,
//! `mcp:server_tool`, `server.tool`. A spelling whose reading depends on where a server's name ends is read against the names
//! that there are; if several readings remain, `deny` and `ask` hold for all of them, and `allow` is refused. A name copied from
//! a list of tools works too, also where it ends in a hash.

use std::sync::Arc;

use std::fmt;

use crate::config::{Diagnostic, RuleText};
use crate::name::{Glob, ServerName, Style, ToolId, ToolName, as_word};

/// One rule, compiled.
#[derive(Debug)]
pub(super) struct Rule {
    readings: Vec<Reading>,
    exposed: Option<Exposed>,
    /// Read as the name of a tool that is no server's.
    own: Option<Glob>,
    /// The rule and its place, in one line.
    pub(super) shown: Arc<str>,
}

impl Rule {
    pub(super) fn matches(&self, id: &ToolId) -> bool {
        self.readings.iter().any(|reading| reading.matches(id))
            || self.exposed.as_ref().is_some_and(|exposed| exposed.matches(id))
            || id.server.is_host() && self.own.as_ref().is_some_and(|own| own.matches(id.tool.as_wire()))
    }
}

/// A rule that is also the spelling of exposed names.
#[derive(Debug)]
struct Exposed {
    style: Style,
    name: Glob,
    allow: bool,
}

impl Exposed {
    fn of(text: &str, allow: bool) -> Option<Self> {
        let (style, name) = match text.strip_prefix("mcp:") {
            Some(name) => (Style::ServerTool, name),
            None => (Style::Mcp, text.starts_with("mcp__").then_some(text)?),
        };
        Some(Self { style, name: Glob::new(name).ok()?, allow })
    }

    fn matches(&self, id: &ToolId) -> bool {
        let spellings = self.style.spellings(id);
        if self.allow {
            // Only a name with the pair's own hash can be no other pair's.
            spellings.iter().any(|name| name == self.name.as_str() && Style::ends_in_hash_of(name, id))
        } else {
            spellings.iter().any(|name| self.name.matches(name))
        }
    }
}

/// One way to understand a spelling.
struct Reading {
    server: Glob,
    tool: Glob,
    /// The spelling is that of exposed names in which every other character is `_`.
    words: bool,
    /// Then the tool's name matches in that spelling as well. Not for `allow`: two tools can share it.
    loose: bool,
}

impl Reading {
    fn matches(&self, id: &ToolId) -> bool {
        let tool = id.tool.as_wire();
        self.matches_server(&id.server) && (self.tool.matches(tool) || self.loose && self.tool.matches(&as_word(tool)))
    }

    fn matches_server(&self, server: &ServerName) -> bool {
        self.server.matches(server.as_str()) || self.words && self.server.matches(&as_word(server.as_str()))
    }

    /// Whether it leads to a server that none of the others leads to.
    fn reaches(&self, servers: &[&ServerName], others: &[Self]) -> bool {
        let mut reached = servers.iter().filter(|server| self.matches_server(server));
        reached.any(|server| !others.iter().any(|other| other.matches_server(server)))
    }

    fn contains(&self, other: &Self) -> bool {
        self.server.as_str() == other.server.as_str()
            && matches!(self.tool.as_str(), tool if tool == "*" || tool == other.tool.as_str())
    }
}

impl fmt::Debug for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.server.as_str(), self.tool.as_str())
    }
}

/// What was found while compiling.
#[derive(Default)]
pub(super) struct Findings {
    pub(super) errors: Vec<Diagnostic>,
    pub(super) warnings: Vec<Diagnostic>,
}

/// Compiles the rules of one list.
pub(super) fn compile(list: &str, rules: &[RuleText], servers: &[&ServerName], own: &[&str], found: &mut Findings) -> Vec<Rule> {
    let mut compiled = Vec::with_capacity(rules.len());
    for rule in rules {
        let own_glob = Glob::new(&rule.text).ok();
        let own_named = own.iter().find(|name| own_glob.as_ref().is_some_and(|glob| glob.matches(name)));
        let finding = |message: String| Diagnostic {
            file: rule.file.clone(),
            line: rule.line,
            column: 1,
            field: format!("permissions.{list}"),
            message,
        };
        match readings(&rule.text, list == "allow", servers) {
            Err(message) => found.errors.push(finding(message)),
            Ok(readings) if list == "allow" && readings.len() > 1 => {
                let listed: Vec<String> = readings.iter().map(|reading| format!("{reading:?}")).collect();
                let message = format!("{:?} can be read as {}; write the one that is meant", rule.text, listed.join(" or as "));
                found.errors.push(finding(message));
            }
            Ok(readings) if list == "allow" && own_named.is_some_and(|name| means_both(name, &readings, servers)) => {
                let named = own_named.copied().unwrap_or_default();
                let message = format!(
                    "{:?} can be read as the tool {named} or as {:?}; write the one that is meant",
                    rule.text, readings[0]
                );
                found.errors.push(finding(message));
            }
            Ok(readings) => {
                if own_named.is_none() && !readings.iter().any(|reading| reading.reaches(servers, &[])) {
                    found.warnings.push(finding(format!("{:?} matches no configured server", rule.text)));
                }
                let shown = format!("{list} rule {:?} ({}:{})", rule.text, rule.file.display(), rule.line).into();
                compiled.push(Rule { readings, exposed: Exposed::of(&rule.text, list == "allow"), own: own_glob, shown });
            }
        }
    }
    compiled
}

/// Whether a spelling that names a tool of no server's leads to a server as well, by a reading that does not mean them all.
fn means_both(own: &str, readings: &[Reading], servers: &[&ServerName]) -> bool {
    let id = ToolId { server: ServerName::host(), tool: ToolName::new(own) };
    readings.iter().any(|reading| reading.reaches(servers, &[])) && !readings.iter().any(|reading| reading.matches(&id))
}

/// Every way to understand a spelling that leads to a configured server; the native one if none does.
fn readings(text: &str, allow: bool, servers: &[&ServerName]) -> Result<Vec<Reading>, String> {
    if text.is_empty() || text.starts_with('/') || text.ends_with('/') {
        return Err(format!("{text:?} is no rule; expected \"server\" or \"server/tool\", a glob per part"));
    }
    let reading = |server: &str, tool: &str, words: bool| -> Result<Reading, String> {
        let glob = |part: &str| Glob::new(part).map_err(|error| format!("{text:?} cannot be read: {error}"));
        Ok(Reading { server: glob(server)?, tool: glob(tool)?, words, loose: words && !allow })
    };
    let (server, tool) = text.split_once('/').unwrap_or((text, "*"));
    let native = reading(server, tool, false)?;

    let mut candidates = vec![(server, tool, false)];
    let mut spanning = Vec::new();
    if let Some(name) = text.strip_prefix("mcp__") {
        // The bare prefix is the whole server.
        candidates.push((name, "*", false));
        candidates.extend(splits(name, "__", false));
        spanning.extend(star_splits(name, false));
    } else if let Some(name) = text.strip_prefix("mcp:") {
        candidates.extend(splits(name, "_", true));
        spanning.extend(star_splits(name, true));
    } else if !text.contains('/') {
        candidates.extend(splits(text, ".", false));
    }
    // A part that is no glob by itself comes of a cut inside a bracket: not what was meant.
    let read = |(server, tool, words): (&str, &str, bool)| reading(server, tool, words).ok();
    let mut readings: Vec<Reading> = Vec::new();
    for candidate in candidates.into_iter().filter_map(read) {
        if candidate.reaches(servers, &[]) && !readings.iter().any(|kept| kept.contains(&candidate)) {
            readings.push(candidate);
        }
    }
    for candidate in spanning.into_iter().filter_map(read) {
        // What a star spans is another reading only where it leads to another server: `mcp:a_*` where there are `a` and `a_b`.
        if candidate.reaches(servers, &readings) {
            readings.push(candidate);
        }
    }
    Ok(if readings.is_empty() { vec![native] } else { readings })
}

/// Every way to cut a text at a separator, both parts not empty.
fn splits<'t>(text: &'t str, separator: &'t str, words: bool) -> impl Iterator<Item = (&'t str, &'t str, bool)> {
    let starts = (1..text.len()).filter(|&at| text.is_char_boundary(at));
    starts.filter_map(move |at| {
        let tool = text[at..].strip_prefix(separator)?;
        (!tool.is_empty()).then_some((&text[..at], tool, words))
    })
}

/// A star can stand for the end of the server's name and the start of the tool's, in a spelling that does not show where it ends.
fn star_splits(text: &str, words: bool) -> impl Iterator<Item = (&str, &str, bool)> {
    text.match_indices('*').map(move |(at, _)| (&text[..=at], &text[at..], words))
}
