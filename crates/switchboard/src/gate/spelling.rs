//! The possible meanings of a spelling: every way to split it into a server and a tool, by the
//! valid kinds of spellings.

use crate::config::RuleSyntax;

/// One way to split a spelling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Candidate<'t> {
    pub(super) server: &'t str,
    /// `None` is every tool of the server.
    pub(super) tool: Option<&'t str>,
    /// Whether the spelling is that of exposed names in which every other character is `_`.
    pub(super) words: bool,
    /// Whether it is literal: no character is a wildcard.
    pub(super) literal: bool,
}

/// All ways to split a spelling.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Candidates<'t> {
    /// Separate parts for the server and the tool. The first one is the native reading, if that is
    /// valid.
    pub(super) parted: Vec<Candidate<'t>>,
    /// One star matches the end of the server's name and the start of the tool's.
    pub(super) spanning: Vec<Candidate<'t>>,
}

/// Every way to split a spelling, whether or not there is such a server.
pub(super) fn candidates(text: &str, spellings: RuleSyntax) -> Candidates<'_> {
    match spellings {
        RuleSyntax::Every => every(text),
        RuleSyntax::Colon => text.strip_prefix("mcp:").map(colon).unwrap_or_default(),
        RuleSyntax::Prefix => text.strip_prefix("mcp__").map(prefix).unwrap_or_default(),
        // Without the bare prefix: to a glob on names it is a name that no tool has.
        RuleSyntax::Exposed => text
            .strip_prefix("mcp__")
            .map(underscores)
            .unwrap_or_default(),
        RuleSyntax::Keys => keys(text, true),
    }
}

fn every(text: &str) -> Candidates<'_> {
    let native = text
        .split_once('/')
        .map_or_else(|| whole(text), |(server, tool)| pair(server, tool));
    let others = if let Some(name) = text.strip_prefix("mcp__") {
        prefix(name)
    } else if let Some(name) = text.strip_prefix("mcp:") {
        colon(name)
    } else if !text.contains('/') {
        keys(text, false)
    } else {
        Candidates::default()
    };
    let parted = [native].into_iter().chain(others.parted).collect();
    Candidates {
        parted,
        spanning: others.spanning,
    }
}

/// `server_tool`.
fn colon(name: &str) -> Candidates<'_> {
    let words = |candidate| Candidate {
        words: true,
        ..candidate
    };
    Candidates {
        parted: splits(name, "_").map(words).collect(),
        spanning: star_splits(name).map(words).collect(),
    }
}

/// `server` or `server__tool`: the bare prefix is the whole server.
fn prefix(name: &str) -> Candidates<'_> {
    let Candidates { parted, spanning } = underscores(name);
    Candidates {
        parted: [whole(name)].into_iter().chain(parted).collect(),
        spanning,
    }
}

/// `server__tool`.
fn underscores(name: &str) -> Candidates<'_> {
    Candidates {
        parted: splits(name, "__").collect(),
        spanning: star_splits(name).collect(),
    }
}

/// `server` or `server.tool`.
fn keys(text: &str, literal: bool) -> Candidates<'_> {
    let parted = [whole(text)].into_iter().chain(splits(text, "."));
    Candidates {
        parted: parted
            .map(|candidate| Candidate {
                literal,
                ..candidate
            })
            .collect(),
        spanning: Vec::new(),
    }
}

fn pair<'t>(server: &'t str, tool: &'t str) -> Candidate<'t> {
    Candidate {
        server,
        tool: Some(tool),
        words: false,
        literal: false,
    }
}

fn whole(server: &str) -> Candidate<'_> {
    Candidate {
        server,
        tool: None,
        words: false,
        literal: false,
    }
}

/// Every way to split a text at a separator, with two non-empty parts.
fn splits<'t>(text: &'t str, separator: &'t str) -> impl Iterator<Item = Candidate<'t>> {
    let starts = (1..text.len()).filter(|&at| text.is_char_boundary(at));
    starts.filter_map(move |at| {
        let tool = text[at..].strip_prefix(separator)?;
        (!tool.is_empty()).then_some(pair(&text[..at], tool))
    })
}

/// The splits in which a star matches the end of the server's name and the start of the tool's, in
/// a spelling without a separator.
fn star_splits(text: &str) -> impl Iterator<Item = Candidate<'_>> {
    text.match_indices('*')
        .map(move |(at, _)| pair(&text[..=at], &text[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parts as `server tool`, those with a spanning star after a bar.
    fn shown(text: &str, spellings: RuleSyntax) -> String {
        let Candidates { parted, spanning } = candidates(text, spellings);
        let list = |cuts: Vec<Candidate<'_>>| {
            cuts.iter()
                .map(|cut| format!("{} {}", cut.server, cut.tool.unwrap_or("(all)")))
                .collect::<Vec<_>>()
                .join(", ")
        };
        format!("{} | {}", list(parted), list(spanning))
    }

    #[test]
    fn c14_in_a_dialect_only_its_own_spellings_are_valid() {
        let check = |spellings: RuleSyntax, text: &str, expected: &str| {
            assert_eq!(shown(text, spellings), expected, "{text}")
        };
        check(RuleSyntax::Colon, "mcp:a_b_c", "a b_c, a_b c | ");
        check(RuleSyntax::Colon, "mcp:a_*", "a * | a_* *");
        for other in ["a", "a/b", "a.b", "mcp__a__b", "bash:git *"] {
            check(RuleSyntax::Colon, other, " | ");
        }
        check(RuleSyntax::Prefix, "mcp__a", "a (all) | ");
        check(RuleSyntax::Prefix, "mcp__a__b", "a__b (all), a b | ");
        check(RuleSyntax::Prefix, "mcp__*", "* (all) | * *");
        for other in ["a", "a/b", "a.b", "mcp:a_b", "Bash"] {
            check(RuleSyntax::Prefix, other, " | ");
        }
        check(RuleSyntax::Exposed, "mcp__a", " | ");
        check(RuleSyntax::Exposed, "mcp__a__b", "a b | ");
        check(RuleSyntax::Exposed, "mcp:a_b", " | ");
        check(RuleSyntax::Keys, "a", "a (all) | ");
        check(RuleSyntax::Keys, "a.b.c", "a.b.c (all), a b.c, a.b c | ");
        check(RuleSyntax::Every, "a/b", "a b | ");
        check(RuleSyntax::Every, "a.b", "a.b (all), a.b (all), a b | ");
        check(
            RuleSyntax::Every,
            "mcp__a__b",
            "mcp__a__b (all), a__b (all), a b | ",
        );
        check(RuleSyntax::Every, "mcp:a_b", "mcp:a_b (all), a b | ");
    }
}
