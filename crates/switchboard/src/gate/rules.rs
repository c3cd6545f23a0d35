//! Compiles rules as people write them into pairs of globs, against the configured servers.
//!
//! The dialect of a rule's file determines which spellings are valid ([`RuleSyntax`]); their
//! possible meanings are in `spelling.rs`. If it is unclear where the server's name ends, the
//! configured names decide. If several readings remain, `deny` and `ask` apply to all of them, and
//! `allow` is an error. The exposed name of a tool is a rule too, even if it ends in a hash.

use std::sync::Arc;

use super::spelling::{Candidate, Candidates, candidates};
use crate::catalog::{BUILTIN_NAMES, Tool};
use crate::config::{Config, Diagnostic, Location, RuleSyntax, RuleText};
use crate::name::{Glob, ServerName, ToolId, ToolName};
use crate::untrusted::{escaped_line, quoted};
use pattern::{Exposed, RulePattern};

mod pattern;

/// The longest rule, and the most ways to split it into a server and a tool. Each way is compiled,
/// so a malicious file must not be able to cause many.
const MAX_RULE_BYTES: usize = 1024;
const MAX_CUTS: usize = 64;

/// The most ways to split all rules with wildcards together: a file of 1 MiB can contain 150,000
/// such rules.
const MAX_PATTERN_CUTS: usize = 10_000;

/// The prefix of rules that deny commands of `Bash`: `bash:git push*`. The tool itself applies
/// them.
const COMMAND_RULE: &str = "bash:";

/// The most readings of an ambiguous rule in an error.
const MAX_LISTED_READINGS: usize = 8;

/// One compiled rule.
#[derive(Debug)]
pub(super) struct Rule {
    readings: Vec<RulePattern>,
    exposed: Option<Exposed>,
    /// The rule as the name of a host tool.
    own: Option<Glob>,
    /// Whether the rule is spelled as a name of servers' tools: `mcp__*` matches all of those and
    /// no host tool.
    of_servers: bool,
    /// Whether `yolo` of the same file skips it for servers' tools.
    pub(super) skipped: bool,
    pub(super) text: RuleText,
    /// The rule with its file and line.
    pub(super) shown: Arc<str>,
}

impl Rule {
    pub(super) fn matches(&self, tool: &Tool) -> bool {
        let matches_a_reading = || {
            self.readings
                .iter()
                .any(|reading| reading.matches(&tool.id))
        };
        if tool.id.server.is_host() {
            return !self.of_servers
                && (matches_a_reading()
                    || self
                        .own
                        .as_ref()
                        .is_some_and(|own| own.matches(tool.id.tool.as_wire())));
        }
        let exposed = self.exposed.as_ref();
        let matches_exposed =
            || exposed.is_some_and(|exposed| exposed.matches(tool, &self.readings));
        let is_name_only = exposed.is_some_and(|exposed| exposed.decides_alone(tool));
        !self.skipped && (!is_name_only && matches_a_reading() || matches_exposed())
    }
}

impl Rule {
    /// Whether the rule can apply to a tool of this server. A glob on exposed names may, whatever
    /// its start.
    pub(super) fn may_apply_to(&self, server: &ServerName) -> bool {
        match self.readings.as_slice() {
            [] => self.exposed.is_some(),
            readings => readings
                .iter()
                .any(|reading| reading.matches_server(server)),
        }
    }
}

/// In a dialect whose `yolo` skips the gate for servers' tools, marks the deny rules of the same
/// file as skipped for them. Returns a warning that lists the rules.
pub(super) fn skip_denies(
    deny: &mut [Rule],
    yolo: &Location,
    config: &Config,
) -> Option<Diagnostic> {
    let mut skipped = Vec::new();
    for rule in deny
        .iter_mut()
        .filter(|rule| rule.of_servers && rule.text.dialect.profile().yolo_skips_denies)
    {
        if config.have_one_policy(&rule.text.file, &yolo.file) {
            rule.skipped = true;
            skipped.push(format!("{:?}", rule.text.text));
        }
    }
    (!skipped.is_empty()).then(|| Diagnostic {
        file: yolo.file.clone(),
        line: yolo.line,
        column: yolo.column,
        field: "permissions.mode".to_owned(),
        message: format!(
            "\"yolo\" skips every question and the deny rules of this file for servers' tools: {} {} not apply; deny rules of other files do",
            skipped.join(", "),
            if skipped.len() == 1 { "does" } else { "do" }
        ),
    })
}

/// What was found while compiling.
#[derive(Default)]
pub(super) struct Findings {
    pub(super) errors: Vec<Diagnostic>,
    pub(super) warnings: Vec<Diagnostic>,
    /// The number of ways to split the rules with wildcards so far.
    pattern_cuts: usize,
}

/// Compiles the rules of one list (`allow`, `ask` or `deny`). `own` has the names of host tools.
pub(super) fn compile(
    list: &str,
    rules: &[RuleText],
    servers: &[&ServerName],
    own: &[&str],
    found: &mut Findings,
) -> Vec<Rule> {
    let mut compiled = Vec::with_capacity(rules.len());
    for rule in rules {
        let finding = |message: String| Diagnostic {
            file: rule.file.clone(),
            line: rule.line,
            column: 1,
            field: format!("permissions.{list}"),
            message,
        };
        found.pattern_cuts += pattern_cuts(&rule.text, rule.dialect.profile().rule_syntax);
        if found.pattern_cuts > MAX_PATTERN_CUTS {
            let message = format!(
                "too many rules with wildcards: they have more than {MAX_PATTERN_CUTS} readings; write fewer"
            );
            found.errors.push(finding(message));
            break;
        }
        match compile_rule(list, rule, servers, own) {
            Ok((rule, warning)) => {
                found.warnings.extend(warning.map(finding));
                compiled.push(rule);
            }
            Err(message) => found.errors.push(finding(message)),
        }
    }
    compiled
}

/// Compiles one rule, with a warning if it can match nothing.
fn compile_rule(
    list: &str,
    rule: &RuleText,
    servers: &[&ServerName],
    own: &[&str],
) -> Result<(Rule, Option<String>), String> {
    let text = &rule.text;
    let spellings = rule.dialect.profile().rule_syntax;
    let allow = list == "allow";
    let own_glob = Glob::new(text);
    if let Err(error) = &own_glob
        && allow
        && is_for_other_program(text, spellings)
    {
        let skipped = Rule {
            readings: Vec::new(),
            exposed: None,
            own: None,
            of_servers: false,
            skipped: false,
            text: rule.clone(),
            shown: text.as_str().into(),
        };
        let warning = format!("{text:?} cannot be read, and is left out: {error}");
        return Ok((skipped, Some(warning)));
    }
    let own_glob = own_glob.ok();
    let own_name = own
        .iter()
        .find(|name| own_glob.as_ref().is_some_and(|glob| glob.matches(name)));
    let readings = readings(text, spellings, allow, servers)?;
    if allow {
        check_unambiguous(text, &readings, own_name.copied(), servers)?;
    }
    let exposed = Exposed::of(text, spellings, allow);
    let is_own = own_name.is_some()
        || own.iter().any(|name| {
            readings
                .iter()
                .any(|reading| reading.matches(&own_id(name)))
        });
    let warning = if is_own {
        None
    } else {
        warning_about(text, spellings, &readings, exposed.is_some(), servers)
    };
    let place = format!("{}:{}", rule.file.display(), rule.line);
    let compiled = Rule {
        readings,
        exposed,
        own: own_glob,
        of_servers: text.starts_with("mcp__") || text.starts_with("mcp:"),
        skipped: false,
        text: rule.clone(),
        shown: format!("{list} rule {} ({place})", rule.quoted()).into(),
    };
    Ok((compiled, warning))
}

/// Refuses an `allow` rule that can be read in several ways.
fn check_unambiguous(
    text: &str,
    readings: &[RulePattern],
    own_name: Option<&str>,
    servers: &[&ServerName],
) -> Result<(), String> {
    if readings.len() > 1 {
        let mut listed: Vec<String> = readings
            .iter()
            .take(MAX_LISTED_READINGS)
            .map(|reading| escaped_line(&format!("{reading:?}")).to_string())
            .collect();
        if readings.len() > MAX_LISTED_READINGS {
            listed.push(format!("{} more", readings.len() - MAX_LISTED_READINGS));
        }
        let listed = listed.join(" or as ");
        return Err(format!(
            "{text:?} can be read as {listed}; write one of these instead"
        ));
    }
    match (own_name, readings) {
        (Some(name), [reading]) if means_both(name, readings, servers) => Err(format!(
            "{text:?} can be read as the tool {name} or as {reading:?}; write one of these instead"
        )),
        _ => Ok(()),
    }
}

/// The number of ways to split a rule with wildcards: each is compiled.
fn pattern_cuts(text: &str, spellings: RuleSyntax) -> usize {
    if spellings == RuleSyntax::Keys || text.len() > MAX_RULE_BYTES || !Glob::has_wildcard(text) {
        return 0;
    }
    let candidates = candidates(text, spellings);
    candidates.parted.len() + candidates.spanning.len()
}

/// Whether a spelling of a host tool also matches a server, by a reading that does not match all
/// servers.
fn means_both(own: &str, readings: &[RulePattern], servers: &[&ServerName]) -> bool {
    let id = own_id(own);
    readings.iter().any(|reading| reading.reaches(servers, &[]))
        && !readings.iter().any(|reading| reading.matches(&id))
}

fn own_id(name: &str) -> ToolId {
    ToolId {
        server: ServerName::host(),
        tool: ToolName::new(name),
    }
}

/// Whether a rule is for the own tools of the program whose file it is in.
fn is_for_other_program(text: &str, spellings: RuleSyntax) -> bool {
    matches!(spellings, RuleSyntax::Colon | RuleSyntax::Prefix) && !text.starts_with("mcp")
}

/// Every reading of a spelling that matches a configured server. If none does, the native reading,
/// in a native file.
fn readings(
    text: &str,
    spellings: RuleSyntax,
    allow: bool,
    servers: &[&ServerName],
) -> Result<Vec<RulePattern>, String> {
    let is_native = spellings == RuleSyntax::Every;
    if text.is_empty() || is_native && (text.starts_with('/') || text.ends_with('/')) {
        return Err(format!(
            "{text:?} is not a valid rule; expected {}",
            spellings.expected()
        ));
    }
    if text.len() > MAX_RULE_BYTES {
        // A long rule for another program's own tools is left to that program.
        if is_for_other_program(text, spellings) {
            return Ok(Vec::new());
        }
        return Err(format!(
            "{} has {} bytes; a rule has at most {MAX_RULE_BYTES}",
            quoted(text),
            text.len()
        ));
    }
    let unreadable = |error: String| format!("{text:?} cannot be read: {error}");
    let candidates = candidates(text, spellings);
    let cuts = candidates.parted.len() + candidates.spanning.len();
    if cuts > MAX_CUTS {
        let expected = spellings.expected();
        return Err(format!(
            "{} can be split into a server and a tool in {cuts} ways; expected {expected}",
            quoted(text)
        ));
    }
    if is_native {
        RulePattern::new(&candidates.parted[0], allow).map_err(unreadable)?;
    } else if spellings != RuleSyntax::Keys {
        Glob::new(text).map_err(unreadable)?;
    }
    let mut readings = readings_of_configured(&candidates, allow, servers);
    if readings.is_empty() && is_native {
        readings.extend(RulePattern::new(&candidates.parted[0], allow).ok());
    }
    Ok(readings
        .into_iter()
        .flat_map(|reading| reading.apart(servers))
        .collect())
}

/// The readings that match a configured server.
fn readings_of_configured(
    candidates: &Candidates<'_>,
    allow: bool,
    servers: &[&ServerName],
) -> Vec<RulePattern> {
    // A part that is not a valid glob comes from a split inside a bracket, which was not meant.
    let read = |candidate: &Candidate<'_>| RulePattern::new(candidate, allow).ok();
    let mut readings: Vec<RulePattern> = Vec::new();
    for candidate in candidates.parted.iter().filter_map(read) {
        if candidate.reaches(servers, &[]) && !readings.iter().any(|kept| kept.contains(&candidate))
        {
            readings.push(candidate);
        }
    }
    for candidate in candidates.spanning.iter().filter_map(read) {
        // A star that spans both parts is another reading only if it matches another server:
        // `mcp:a_*` with servers `a` and `a_b`.
        if candidate.reaches(servers, &readings) {
            readings.push(candidate);
        }
    }
    readings
}

/// The warning about a rule that can match nothing. A rule of another program may be for that
/// program's own tools.
fn warning_about(
    text: &str,
    spellings: RuleSyntax,
    readings: &[RulePattern],
    is_name: bool,
    servers: &[&ServerName],
) -> Option<String> {
    if readings.iter().any(|reading| reading.reaches(servers, &[])) {
        return None;
    }
    // The agent's own tools are offered in some commands only; a rule for them is no mistake.
    if BUILTIN_NAMES.contains(&text) || text.starts_with(COMMAND_RULE) {
        return None;
    }
    if spellings == RuleSyntax::Every
        || text.starts_with("mcp__") && is_name
        || text.starts_with("mcp:") && is_name
    {
        return Some(format!("{text:?} matches no configured server"));
    }
    let natively = candidates(text, RuleSyntax::Every)
        .parted
        .iter()
        .any(|candidate| {
            RulePattern::new(candidate, false).is_ok_and(|reading| reading.reaches(servers, &[]))
        });
    (!is_name && natively).then(|| {
        format!(
            "{text:?} matches no server's tool here; expected {}",
            spellings.expected()
        )
    })
}
