//! The naming styles: how the exposed name is derived from server and tool. Each style is injective
//! and has its own characters and length.

use std::collections::HashSet;
use std::sync::Arc;

use super::exposure::{self, NameRequest, NamingError, ReservedNames};
use super::{ExposedName, ServerName, ToolId};

/// How exposed names are made from server and tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Style {
    /// `mcp__server__tool`, with the server's spelling of the tool; at most 256 of
    /// `[A-Za-z0-9_-./:@]`. A model's vendor may accept less.
    #[default]
    Mcp,
    /// `server_tool`, at most 64 of `[A-Za-z0-9_]`.
    ServerTool,
    /// `server-tool` in kebab case, at most 64 of `[a-z0-9-]`.
    ServerDashTool,
    /// The bare tool name for the first server in config order, `server__tool` for later ones; at
    /// most 63 of `[A-Za-z0-9_.-]`.
    FirstWins,
    /// The bare tool name, at most 128 of `[A-Za-z0-9_.-]`; tools with colliding names are
    /// withheld.
    Identity,
}

/// Why a tool has no exposed name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Unnameable {
    /// The reason; if names collide, with the other tool.
    pub reason: String,
}

/// The name of each style in a configuration file, and its meaning.
pub(crate) const STYLE_CHOICES: &[(&str, &str)] = &[
    ("mcp", "mcp__server__tool"),
    ("server_tool", "server_tool"),
    ("server-tool", "server-tool, in kebab case"),
    (
        "first-wins",
        "the bare tool name for the first server that has it, server__tool for later ones",
    ),
    (
        "identity",
        "the bare tool name; tools that share one are withheld",
    ),
];

/// In the order of [`STYLE_CHOICES`].
const STYLES: [Style; STYLE_CHOICES.len()] = [
    Style::Mcp,
    Style::ServerTool,
    Style::ServerDashTool,
    Style::FirstWins,
    Style::Identity,
];

impl Style {
    /// The names that [`parse`](Self::parse) accepts.
    pub fn words() -> impl Iterator<Item = &'static str> {
        STYLE_CHOICES.iter().map(|(word, _)| *word)
    }

    /// Parses the name from a configuration file.
    pub fn parse(word: &str) -> Option<Self> {
        let mut named = Self::words().zip(STYLES);
        named
            .find(|(known, _)| *known == word)
            .map(|(_, style)| style)
    }

    /// The name in a configuration file.
    pub fn word(self) -> &'static str {
        let mut named = Self::words().zip(STYLES);
        let found = named.find(|(_, style)| *style == self);
        found.expect("every style has a name").0
    }

    /// Names these tools, with servers in config order and no other tools present. The results have
    /// the same order.
    pub fn expose(self, pairs: &[ToolId]) -> Vec<Result<ExposedName, Unnameable>> {
        let wishes: Vec<_> = pairs
            .iter()
            .map(|pair| NameRequest {
                pair,
                style: self,
                may_be_bare: true,
            })
            .collect();
        let reserved = ReservedNames {
            own: &HashSet::new(),
            builtin: &[],
        };
        let named = |name: Result<ExposedName, NamingError>| {
            name.map_err(|why| match why {
                NamingError::Withheld(why) => why,
                NamingError::Pending => Unnameable {
                    reason: "its name is not known yet".into(),
                },
            })
        };
        exposure::expose(&wishes, reserved, &mut Arc::default())
            .into_iter()
            .map(named)
            .collect()
    }

    /// Whether any tool of this server can have this name, whatever other servers there are. Used
    /// to decide which servers need not be started to find a tool; it resolves nothing.
    pub fn can_name(self, server: &ServerName, name: &str) -> bool {
        let server = server.as_str();
        let prefixes = match self {
            // The plain spelling, and the one in names that end in a hash.
            Self::Mcp => vec![
                format!("mcp__{server}__"),
                format!("mcp__{}__", keep(server, is_dashed)),
            ],
            Self::ServerTool => vec![format!("{}_", keep(server, is_word))],
            Self::ServerDashTool => vec![format!("{}-", kebab(server))],
            Self::FirstWins | Self::Identity => return true,
        };
        // A name truncated for its hash may lack the end of a long server name.
        let begins =
            |prefix: &String| name.starts_with(prefix.get(..MIN_BASE_LENGTH).unwrap_or(prefix));
        prefixes.iter().any(begins)
    }

    /// Whether a name depends only on its own server and tool, so that both tools of a collision
    /// are withheld.
    pub(super) fn withholds_both(self) -> bool {
        matches!(self, Self::Mcp | Self::Identity)
    }

    /// Whether its names contain no server name.
    pub(super) fn is_bare(self) -> bool {
        matches!(self, Self::FirstWins | Self::Identity)
    }

    /// The name in [`Style::FirstWins`] if another tool has the bare name.
    pub(super) fn prefixed(pair: &ToolId) -> String {
        squeeze(keep(
            &format!("{}__{}", pair.server, pair.tool.as_wire()),
            is_dotted,
        ))
    }

    /// The name without collisions.
    pub fn plain(self, pair: &ToolId) -> Result<String, Unnameable> {
        let (server, tool) = (pair.server.as_str(), pair.tool.as_wire());
        match self {
            Self::Mcp => Ok(native(pair)),
            Self::ServerTool => {
                let name = format!("{}_{}", keep(server, is_word), keep(tool, is_word));
                Ok(if name.len() > 64 { self.hashed(&name, pair) } else { name })
            }
            Self::ServerDashTool => {
                let (server, tool) = (kebab(server), kebab(tool));
                if server.is_empty() || tool.is_empty() {
                    return Err(Unnameable { reason: "its name has no letter or digit left after sanitising".into() });
                }
                let name = format!("{server}-{tool}");
                Ok(if name.len() > 64 { self.hashed(&name, pair) } else { name })
            }
            Self::FirstWins if tool.is_empty() => Err(Unnameable { reason: "its name is empty".into() }),
            Self::FirstWins => Ok(squeeze(keep(tool, is_dotted))),
            Self::Identity if (1..=128).contains(&tool.len()) && tool.bytes().all(is_dotted) => Ok(tool.to_owned()),
            Self::Identity => Err(Unnameable {
                reason: "its name is not 1 to 128 of A-Z a-z 0-9 _ . -, and this naming style changes no names".into(),
            }),
        }
    }

    /// Whether a name looks like that of a tool of this server. Used to decide which server to
    /// start or to mention for an unknown name; the tool itself is looked up in the catalog.
    pub fn may_name(self, server: &ServerName, name: &str) -> bool {
        let server = server.as_str();
        let begins = |prefix: String| {
            name.strip_prefix(&prefix)
                .is_some_and(|rest| !rest.is_empty())
        };
        match self {
            Self::Mcp => {
                begins(format!("mcp__{server}__"))
                    || begins(format!("mcp__{}__", keep(server, is_dashed)))
            }
            Self::ServerTool => {
                begins(format!("{server}_")) || begins(format!("{}_", keep(server, is_word)))
            }
            Self::ServerDashTool => {
                begins(format!("{server}-")) || begins(format!("{}-", kebab(server)))
            }
            Self::FirstWins => {
                begins(format!("{server}__")) || begins(format!("{}__", keep(server, is_dotted)))
            }
            Self::Identity => false,
        }
    }

    /// Every name that a tool can have in this style, whatever other tools there are.
    pub fn spellings(self, pair: &ToolId) -> Vec<String> {
        let Ok(plain) = self.plain(pair) else {
            return Vec::new();
        };
        let hashed = self.hashed(&plain, pair);
        vec![plain, hashed]
    }

    /// Whether a name ends in the hash of this tool, so that it can be no other's.
    pub fn ends_in_hash_of(name: &str, pair: &ToolId) -> bool {
        name.ends_with(&pair_hash(pair))
    }

    /// The hash that a name ends in if it is not plain.
    pub fn hash_of(pair: &ToolId) -> String {
        pair_hash(pair)
    }

    /// A base truncated so that the hash fits after it.
    pub(super) fn hashed(self, base: &str, pair: &ToolId) -> String {
        let (longest, separator) = match self {
            Self::ServerDashTool => (64, '-'),
            Self::FirstWins => (63, '_'),
            Self::Mcp | Self::ServerTool | Self::Identity => (64, '_'),
        };
        let base = if self == Self::Mcp {
            keep(base, is_dashed)
        } else {
            base.to_owned()
        };
        let base = &base[..base.len().min(longest - 1 - HASH_CHARACTERS)];
        format!("{base}{separator}{}", pair_hash(pair))
    }
}

/// `mcp__server__tool`, with the hash if the plain spelling could be that of another tool.
fn native(pair: &ToolId) -> String {
    let (server, tool) = (pair.server.as_str(), pair.tool.as_wire());
    let name = format!("mcp__{server}__{tool}");
    let changed = !name.bytes().all(is_inert);
    // Only in lenient dialects: the end of such a server name would be ambiguous.
    let unclear = server.contains("__") || server.starts_with('_') || server.ends_with('_');
    if changed || unclear || name.len() > MAX_NATIVE_LENGTH || looks_hashed(&name) {
        Style::Mcp.hashed(&name, pair)
    } else {
        name
    }
}

/// No documentation limits these names; this keeps lists readable.
const MAX_NATIVE_LENGTH: usize = 256;

const HASH_CHARACTERS: usize = 10;

/// The shortest base of a name before a hash: here, in names for vendors and in names for strict
/// clients of a gateway.
const MIN_BASE_LENGTH: usize = 40;

/// Ten base32 characters of BLAKE3(server, tool), at least one of them a digit.
///
/// The digit distinguishes a hash from a word: otherwise `create_repository` would look like a
/// hashed name.
fn pair_hash(pair: &ToolId) -> String {
    let (server, tool) = (
        pair.server.as_str().as_bytes(),
        pair.tool.as_wire().as_bytes(),
    );
    let mut hasher = blake3::Hasher::new();
    // The length prefix distinguishes ("a", "bc") from ("ab", "c").
    hasher
        .update(&(server.len() as u64).to_le_bytes())
        .update(server)
        .update(tool);
    let mut stream = hasher.finalize_xof();
    let mut block = [0; 10];
    loop {
        stream.fill(&mut block);
        let mut text = data_encoding::BASE32_NOPAD
            .encode(&block)
            .to_ascii_lowercase();
        text.truncate(HASH_CHARACTERS);
        if text.contains(|character: char| character.is_ascii_digit()) {
            return text;
        }
    }
}

fn looks_hashed(name: &str) -> bool {
    let Some((_, end)) = name.rsplit_once('_') else {
        return false;
    };
    end.len() == HASH_CHARACTERS
        && end
            .bytes()
            .all(|byte| matches!(byte, b'a'..=b'z' | b'2'..=b'7'))
        && end.bytes().any(|byte| byte.is_ascii_digit())
}

pub(super) fn name_collision(name: &str, other: &ToolId) -> Unnameable {
    Unnameable {
        reason: format!("its name {name} is also that of {}", other.shown()),
    }
}

/// Replaces every other character by `_`.
fn keep(text: &str, is_allowed: fn(u8) -> bool) -> String {
    let safe = |character: char| {
        u8::try_from(character).is_ok_and(|byte| byte.is_ascii() && is_allowed(byte))
    };
    text.chars()
        .map(|character| if safe(character) { character } else { '_' })
        .collect()
}

pub(crate) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn is_dashed(byte: u8) -> bool {
    is_word(byte) || byte == b'-'
}

/// Characters that are visible, ASCII, and not special in any shell.
fn is_inert(byte: u8) -> bool {
    is_dotted(byte) || matches!(byte, b'/' | b':' | b'@')
}

fn is_dotted(byte: u8) -> bool {
    is_dashed(byte) || byte == b'.'
}

/// The spelling of a name in [`Style::ServerTool`]: every character outside `[A-Za-z0-9_]` is `_`.
pub fn as_word(text: &str) -> String {
    keep(text, is_word)
}

/// Lower case; each run of other characters is one hyphen; none at the ends.
pub fn kebab(text: &str) -> String {
    let mut kebab = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_ascii_alphanumeric() {
            kebab.push(character.to_ascii_lowercase());
        } else if !kebab.is_empty() && !kebab.ends_with('-') {
            kebab.push('-');
        }
    }
    kebab.truncate(kebab.trim_end_matches('-').len());
    kebab
}

/// Over 63 characters: the first 28, `___`, the last 32.
fn squeeze(name: String) -> String {
    if name.len() > 63 {
        format!("{}___{}", &name[..28], &name[name.len() - 32..])
    } else {
        name
    }
}

#[cfg(test)]
mod tests;
