//! Makes the names that a model sees from pairs: five styles, each injective, each within its
//! characters and length.

use std::collections::HashSet;
use std::sync::Arc;

use super::exposure::{self, NameRequest, NamingError, ReservedNames};
use super::{ExposedName, ServerName, ToolId};

/// How exposed names are made from pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Style {
    /// `mcp__server__tool`, as the server spells its tool; at most 256 of `[A-Za-z0-9_-./:@]`. A
    /// model's vendor may accept less.
    #[default]
    Mcp,
    /// `server_tool`, at most 64 of `[A-Za-z0-9_]`.
    ServerTool,
    /// `server-tool` in kebab case, at most 64 of `[a-z0-9-]`.
    ServerDashTool,
    /// The bare tool name for the first server in config order, `server__tool` for later ones; at
    /// most 63 of `[A-Za-z0-9_.-]`.
    FirstWins,
    /// The bare tool name, at most 128 of `[A-Za-z0-9_.-]`; pairs that meet are withheld.
    Identity,
}

/// Why a pair has no exposed name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Unnameable {
    /// What stands in the way, naming the other pair where two met.
    pub reason: String,
}

/// Every style with the word for it in a configuration file.
const WORDS: [(&str, Style); 5] = [
    ("mcp", Style::Mcp),
    ("server_tool", Style::ServerTool),
    ("server-tool", Style::ServerDashTool),
    ("first-wins", Style::FirstWins),
    ("identity", Style::Identity),
];

impl Style {
    /// The words that [`parse`](Self::parse) takes.
    pub fn words() -> impl Iterator<Item = &'static str> {
        WORDS.iter().map(|(word, _)| *word)
    }

    /// Reads the word of a configuration file.
    pub fn parse(word: &str) -> Option<Self> {
        WORDS
            .iter()
            .find(|(known, _)| *known == word)
            .map(|(_, style)| *style)
    }

    /// The word for a configuration file.
    pub fn word(self) -> &'static str {
        WORDS
            .iter()
            .find(|(_, style)| *style == self)
            .expect("every style has a word")
            .0
    }

    /// Names every pair, in the order given (servers in config order), where nothing else is on
    /// offer. The answer stands in the same order.
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

    /// Whether a tool of this server can have this name, whatever the tool and whatever other
    /// servers there are. It leads to no tool: it only says which servers need not be started
    /// to find one.
    pub fn can_name(self, server: &ServerName, name: &str) -> bool {
        let server = server.as_str();
        let prefixes = match self {
            // As it is spelled, and as it is in names that end in a hash.
            Self::Mcp => vec![
                format!("mcp__{server}__"),
                format!("mcp__{}__", keep(server, is_dashed)),
            ],
            Self::ServerTool => vec![format!("{}_", keep(server, is_word))],
            Self::ServerDashTool => vec![format!("{}-", kebab(server))],
            Self::FirstWins | Self::Identity => return true,
        };
        // A name that was cut for its hash may lack the end of a long server's name.
        let begins =
            |prefix: &String| name.starts_with(prefix.get(..SHORTEST_BASE).unwrap_or(prefix));
        prefixes.iter().any(begins)
    }

    /// A name depends on nothing but its pair; pairs that meet all the same are withheld.
    pub(super) fn withholds_both(self) -> bool {
        matches!(self, Self::Mcp | Self::Identity)
    }

    /// Its names show no server.
    pub(super) fn is_bare(self) -> bool {
        matches!(self, Self::FirstWins | Self::Identity)
    }

    /// What a pair is called in [`Style::FirstWins`] where another has the bare name.
    pub(super) fn prefixed(pair: &ToolId) -> String {
        squeeze(keep(
            &format!("{}__{}", pair.server, pair.tool.as_wire()),
            is_dotted,
        ))
    }

    /// The name a pair has when it meets no other.
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

    /// Whether a name looks like that of a tool of this server: which server is worth starting or
    /// explaining for a name that nobody is known to offer. What it means is looked up in the
    /// catalog.
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

    /// Every name that a pair can have in this style, whatever other pairs there are.
    pub fn spellings(self, pair: &ToolId) -> Vec<String> {
        let Ok(plain) = self.plain(pair) else {
            return Vec::new();
        };
        let hashed = self.hashed(&plain, pair);
        vec![plain, hashed]
    }

    /// Whether a name carries the hash of a pair, so that it is that pair's alone.
    pub fn ends_in_hash_of(name: &str, pair: &ToolId) -> bool {
        name.ends_with(&pair_hash(pair))
    }

    /// What a name ends in where it is not plain.
    pub fn hash_of(pair: &ToolId) -> String {
        pair_hash(pair)
    }

    /// A base cut so that the hash of the pair fits behind it.
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

/// `mcp__server__tool`, ending in the hash where the plain spelling could be that of another pair.
fn native(pair: &ToolId) -> String {
    let (server, tool) = (pair.server.as_str(), pair.tool.as_wire());
    let name = format!("mcp__{server}__{tool}");
    let changed = !name.bytes().all(is_inert);
    // Only a dialect's server can be so named: where it ends could not be told.
    let unclear = server.contains("__") || server.starts_with('_') || server.ends_with('_');
    if changed || unclear || name.len() > LONGEST_NATIVE || looks_hashed(&name) {
        Style::Mcp.hashed(&name, pair)
    } else {
        name
    }
}

/// No document limits its names; this keeps a list readable.
const LONGEST_NATIVE: usize = 256;

const HASH_CHARACTERS: usize = 10;

/// What is left of a name at least where a hash was put behind it, by us or for a vendor.
const SHORTEST_BASE: usize = 50;

/// Ten base32 characters of BLAKE3(pair), of which at least one is a digit.
///
/// The digit tells a hash from a word: without it `create_repository` would look like a hashed
/// name.
fn pair_hash(pair: &ToolId) -> String {
    let (server, tool) = (
        pair.server.as_str().as_bytes(),
        pair.tool.as_wire().as_bytes(),
    );
    let mut hasher = blake3::Hasher::new();
    // The length in front keeps ("a", "bc") and ("ab", "c") apart.
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

pub(super) fn met(name: &str, other: &ToolId) -> Unnameable {
    Unnameable {
        reason: format!("its name {name} is also that of {}", other.shown()),
    }
}

/// Every character that is not kept becomes `_`, one for one.
fn keep(text: &str, kept: fn(u8) -> bool) -> String {
    let safe =
        |character: char| u8::try_from(character).is_ok_and(|byte| byte.is_ascii() && kept(byte));
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

/// What can stand in a name as it is: visible, ASCII, and to no shell anything but itself.
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
