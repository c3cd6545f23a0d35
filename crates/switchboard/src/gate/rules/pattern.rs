//! What a rule matches: a server and a tool by globs, or the exposed names of tools.

use std::fmt;

use crate::catalog::Tool;
use crate::config::RuleSyntax;
use crate::gate::spelling::Candidate;
use crate::name::{Glob, ServerName, Style, ToolId, as_word};

/// A rule that is also a spelling of exposed names.
#[derive(Debug)]
pub(super) struct Exposed {
    style: Style,
    name: Glob,
    matched: MatchedNames,
}

/// The names of a tool that such a rule is matched with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MatchedNames {
    /// A deny or an ask: every name that the pair can have.
    AnySpelling,
    /// An allow whose stars do not span the parts of a name: only the name with the pair's own
    /// hash, which no other pair can have.
    HashedNameOnly,
    /// An allow that is documented as a glob on names: the tool's exposed name.
    ExposedName,
}

impl Exposed {
    pub(super) fn of(text: &str, spellings: RuleSyntax, allow: bool) -> Option<Self> {
        let words = || {
            text.strip_prefix("mcp:")
                .map(|name| (Style::ServerTool, name))
        };
        let dashes = || text.starts_with("mcp__").then_some((Style::Mcp, text));
        let (style, name) = match spellings {
            RuleSyntax::Every => words().or_else(dashes)?,
            RuleSyntax::Colon => words()?,
            RuleSyntax::Prefix => dashes()?,
            RuleSyntax::Exposed => (Style::Mcp, text),
            RuleSyntax::Keys => return None,
        };
        let matched = match (allow, spellings) {
            (false, _) => MatchedNames::AnySpelling,
            (true, RuleSyntax::Colon | RuleSyntax::Exposed) => MatchedNames::ExposedName,
            (true, _) => MatchedNames::HashedNameOnly,
        };
        Some(Self {
            style,
            name: Glob::new(name).ok()?,
            matched,
        })
    }

    /// Whether this allow names a tool by its exposed name alone: two tools of one server may share
    /// the spelling of a reading, as `read.file` and `read_file` do.
    pub(super) fn decides_alone(&self, tool: &Tool) -> bool {
        self.matched == MatchedNames::ExposedName
            && self.style == Style::ServerTool
            && tool.server.dialect.profile().naming == Some(self.style)
    }

    pub(super) fn matches(&self, tool: &Tool, readings: &[RulePattern]) -> bool {
        let id = &tool.id;
        // The exposed name is of this style only if the server's own file names its tools in it.
        let on_offer = (tool.server.dialect.profile().naming == Some(self.style))
            .then(|| tool.exposed.as_str());
        match self.matched {
            MatchedNames::AnySpelling => on_offer
                .into_iter()
                .chain(self.style.spellings(id).iter().map(String::as_str))
                .any(|name| self.name.matches(name)),
            MatchedNames::HashedNameOnly => {
                let spellings = self.style.spellings(id);
                spellings
                    .iter()
                    .any(|name| name == self.name.as_str() && Style::ends_in_hash_of(name, id))
            }
            MatchedNames::ExposedName => {
                let matches_a_reading = readings.is_empty()
                    || readings
                        .iter()
                        .any(|reading| reading.matches_server(&id.server));
                // In the native style a name belongs to one pair, whatever the style of the
                // server's file.
                let spelled = || {
                    (self.style == Style::Mcp)
                        .then(|| self.style.plain(id).ok())
                        .flatten()
                };
                matches_a_reading
                    && (on_offer.is_some_and(|name| self.name.matches(name))
                        || spelled().is_some_and(|name| self.name.matches(&name)))
            }
        }
    }
}

/// One reading of a spelling.
pub(super) struct RulePattern {
    server: Glob,
    tool: Glob,
    /// Whether the spelling is that of exposed names in which every other character is `_`.
    words: bool,
    /// Whether the tool's name then also matches in that spelling. Not for `allow`: two tools can
    /// share it.
    loose: bool,
}

impl RulePattern {
    pub(super) fn new(candidate: &Candidate<'_>, allow: bool) -> Result<Self, String> {
        let Candidate {
            server,
            tool,
            words,
            literal,
        } = *candidate;
        let glob = |part: &str| {
            if literal {
                Ok(Glob::literal(part))
            } else {
                Glob::new(part)
            }
        };
        let tool = tool.map_or_else(|| Glob::new("*"), glob)?;
        Ok(Self {
            server: glob(server)?,
            tool,
            words,
            loose: words && !allow,
        })
    }

    pub(super) fn matches(&self, id: &ToolId) -> bool {
        let tool = id.tool.as_wire();
        self.matches_server(&id.server)
            && (self.tool.matches(tool) || self.loose && self.tool.matches(&as_word(tool)))
    }

    pub(super) fn matches_server(&self, server: &ServerName) -> bool {
        self.server.matches(server.as_str())
            || self.words && self.server.matches(&as_word(server.as_str()))
    }

    /// Whether it matches a server that none of the others matches.
    pub(super) fn reaches(&self, servers: &[&ServerName], others: &[Self]) -> bool {
        let mut reached = servers.iter().filter(|server| self.matches_server(server));
        reached.any(|server| !others.iter().any(|other| other.matches_server(server)))
    }

    pub(super) fn contains(&self, other: &Self) -> bool {
        self.server.as_str() == other.server.as_str()
            && matches!(self.tool.as_str(), tool if tool == "*" || tool == other.tool.as_str())
    }

    /// Splits a name that two servers share once every other character is `_` into one reading for
    /// each.
    pub(super) fn apart(self, servers: &[&ServerName]) -> Vec<Self> {
        let reached: Vec<&&ServerName> = servers
            .iter()
            .filter(|server| self.matches_server(server))
            .collect();
        if !self.words || !self.server.is_literal() || reached.len() < 2 {
            return vec![self];
        }
        let of = |server: &&&ServerName| Self {
            server: Glob::literal(server.as_str()),
            tool: self.tool.clone(),
            words: false,
            ..self
        };
        reached.iter().map(of).collect()
    }
}

impl fmt::Debug for RulePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.server.as_str(), self.tool.as_str())
    }
}
