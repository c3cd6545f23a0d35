//! An immutable snapshot of the tools, prompts and resources of all servers. It is replaced as a
//! whole; a call uses one snapshot throughout.
//!
//! | file | what it does |
//! |---|---|
//! | `build` | selects the tools of each server, names them, and indexes the names |
//! | `filter`, `builtin_names`, `vendor` | tools that an entry includes; names that are reserved, or that a model's vendor rejects |
//! | `offerings` | what one server offers |
//! | `definition`, `annotations`, `icon`, `mirror` | a tool as its server defines it; arguments that belong in HTTP headers |
//! | `prompt`, `resource` | prompts, resources and templates as servers define them |
//! | `tool`, `address` | a tool that can be called, and its source address |
//! | `owner`, `nearest` | servers that can own an unlisted name; names similar to an unknown one |
//! | `search` | search in a list of tools |

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use foldhash::fast::RandomState;

use crate::config::{Fingerprint, ServerConfig};
use crate::name::{AssignedNames, ExposedName, ServerName, ToolId, ToolName};
use crate::untrusted::quoted;

pub use annotations::ToolAnnotations;
pub use builtin_names::BUILTIN_NAMES;
pub(crate) use builtin_names::{LIST_RESOURCES, READ_RESOURCE, SAMPLING};
pub use definition::ToolDefinition;
use filter::Filter;
pub use icon::Icon;
pub use mirror::MirroredArgument;
pub(crate) use mirror::parameters;
pub use offerings::Offerings;
pub use owner::{PossibleOwners, likely_owner, possible_owners};
pub use prompt::PromptDefinition;
pub use resource::{ResourceDefinition, TemplateDefinition};
pub(crate) use tool::{MatchedRules, RuleMatchCache};
pub use tool::{Tool, ToolEffect};
pub use vendor::Vendor;

pub use crate::schema::DefinitionHash;

mod address;
mod annotations;
mod build;
mod builtin_names;
mod definition;
mod filter;
mod icon;
mod mirror;
mod nearest;
mod offerings;
mod owner;
mod prompt;
mod resource;
mod tool;
mod vendor;

/// Search in a list of tools.
pub mod search;

/// A tool that cannot be called, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Withheld {
    /// The tool's server.
    pub server: ServerName,
    /// The tool's name, if it has one.
    pub tool: ToolName,
    /// Why, in one line that is safe to show.
    pub reason: String,
}

/// One server as a source of [`Catalog::build`].
#[derive(Debug, Clone)]
pub struct CatalogSource {
    /// The server's entry.
    pub config: Arc<ServerConfig>,
    /// The launch that its grants are bound to.
    pub launch: Fingerprint,
    /// What the server offers.
    pub offerings: Arc<Offerings>,
    /// Whether the server is ready, has failed or is not awaited, so that names need not wait for
    /// it.
    pub settled: bool,
}

/// All tools, prompts and resources that can be used, of all servers.
#[derive(Debug, Default)]
pub struct Catalog {
    /// Incremented with each replacement.
    pub generation: u64,
    /// The host's roster that it was built from.
    pub(crate) roster: u64,
    /// In config order, then in the server's order.
    tools: Vec<Arc<Tool>>,
    /// Index into `tools`.
    by_exposed: HashMap<ExposedName, usize, RandomState>,
    /// Index into `tools`, `nameless` or `withheld`. By server, then by tool, so that a lookup
    /// allocates no pair.
    by_pair: HashMap<ServerName, HashMap<ToolName, ToolIndex, RandomState>, RandomState>,
    /// Index into `tools`, by the names that vendors' APIs accept if they do not accept the exposed
    /// one.
    by_projection: HashMap<String, usize, RandomState>,
    /// Index into `withheld`, by the exposed name that the tool would have had.
    withheld_names: HashMap<String, usize, RandomState>,
    /// Tools that are callable only as `server/tool`, since their exposed names are not known yet.
    nameless: Vec<Arc<Tool>>,
    /// Indices of the servers that the nameless tools wait for.
    awaited: Vec<usize>,
    /// Names assigned in this run, by this catalog and earlier ones.
    published: Arc<AssignedNames>,
    /// Withheld tools, with reasons.
    withheld: Vec<Withheld>,
    /// What each server offers.
    offerings: Vec<(ServerName, Arc<Offerings>)>,
}

#[derive(Debug, Clone, Copy)]
enum ToolIndex {
    Tool(usize),
    /// Index into `nameless`.
    Nameless(usize),
    Withheld(usize),
}

/// Why a name was not resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unresolved {
    /// There is no such name.
    Unknown {
        /// The nearest names, at most three.
        nearest: Vec<String>,
    },
    /// The tool exists and is withheld.
    Withheld(Withheld),
}

/// Displays the nearest names, or the server, the tool and why it is withheld; empty if there is
/// neither.
impl fmt::Display for Unresolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { nearest } if nearest.is_empty() => Ok(()),
            Self::Unknown { nearest } => write!(f, "did you mean {}?", nearest.join(", ")),
            Self::Withheld(withheld) => write!(
                f,
                "server \"{}\": tool {} is withheld: {}",
                withheld.server,
                quoted(withheld.tool.as_wire()),
                withheld.reason
            ),
        }
    }
}

impl Catalog {
    /// Every tool that has its exposed name.
    pub fn tools(&self) -> &[Arc<Tool>] {
        &self.tools
    }

    /// Every tool that can be called, also those whose exposed names are not known yet.
    pub(crate) fn callable(&self) -> impl Iterator<Item = &Arc<Tool>> {
        self.tools.iter().chain(&self.nameless)
    }

    /// The withheld tools, with reasons.
    pub fn withheld(&self) -> &[Withheld] {
        &self.withheld
    }

    /// What each server offers.
    pub fn offerings(&self) -> &[(ServerName, Arc<Offerings>)] {
        &self.offerings
    }

    /// Resolves a name: first as an exposed name, then as `server/tool` (the first slash separates
    /// them), then as the name that a vendor's API or a strict
    /// client uses instead of the exposed one.
    #[inline]
    pub fn resolve(&self, name: &str) -> Result<&Arc<Tool>, Unresolved> {
        match self.by_exposed.get(name) {
            Some(&index) => Ok(&self.tools[index]),
            None => self.resolve_unexposed(name),
        }
    }

    fn resolve_unexposed(&self, name: &str) -> Result<&Arc<Tool>, Unresolved> {
        // No server name contains a slash, so the first slash ends it.
        let pair = name
            .split_once('/')
            .and_then(|(server, tool)| self.by_pair.get(server)?.get(tool));
        let projected = || {
            self.by_projection
                .get(name)
                .map(|&index| ToolIndex::Tool(index))
        };
        match pair.copied().or_else(projected).or_else(|| {
            self.withheld_names
                .get(name)
                .map(|&index| ToolIndex::Withheld(index))
        }) {
            Some(ToolIndex::Tool(index)) => Ok(&self.tools[index]),
            Some(ToolIndex::Nameless(index)) => Ok(&self.nameless[index]),
            Some(ToolIndex::Withheld(index)) => {
                Err(Unresolved::Withheld(self.withheld[index].clone()))
            }
            None => Err(Unresolved::Unknown {
                nearest: nearest::nearest(name, &self.tools),
            }),
        }
    }

    /// Tools that were added, removed or redefined since `old`, as `server/tool`, safe to show.
    pub(crate) fn changed_since(&self, old: &Self) -> Vec<String> {
        let came_or_changed = self.tools.iter().filter(|tool| {
            old.by_id(&tool.id)
                .is_none_or(|before| !before.is_like(tool))
        });
        let went = old
            .tools
            .iter()
            .filter(|tool| self.by_id(&tool.id).is_none());
        came_or_changed
            .chain(went)
            .map(|tool| {
                format!(
                    "{}/{}",
                    tool.id.server,
                    tool.id.tool.untrusted().for_terminal_line()
                )
            })
            .collect()
    }

    /// The tool with the same pair, definition and launch, if it is offered now.
    pub(crate) fn same_tool<'a>(&'a self, tool: &'a Arc<Tool>) -> Option<&'a Arc<Tool>> {
        match self.tools.get(tool.place) {
            Some(now) if Arc::ptr_eq(now, tool) => Some(now),
            _ => self.by_id(&tool.id).filter(|now| {
                now.definition.hash == tool.definition.hash && now.launch == tool.launch
            }),
        }
    }

    /// Marks which definitions of the sources are exposed, for calls that are about to be sent.
    pub(crate) fn mark_exposed(&self, sources: &[CatalogSource]) {
        for source in sources {
            let tools = self.by_pair.get(&source.config.name);
            for definition in &source.offerings.tools {
                let index = tools.and_then(|tools| tools.get(&definition.name));
                let exposed = index.and_then(|index| self.at(index));
                definition
                    .offer
                    .hide(exposed.is_none_or(|tool| tool.definition.hash != definition.hash));
            }
        }
    }

    /// The tool of this server and name.
    pub fn by_id(&self, id: &ToolId) -> Option<&Arc<Tool>> {
        self.at(self.by_pair.get(&id.server)?.get(&id.tool)?)
    }

    fn at(&self, index: &ToolIndex) -> Option<&Arc<Tool>> {
        match index {
            ToolIndex::Tool(index) => Some(&self.tools[*index]),
            ToolIndex::Nameless(index) => Some(&self.nameless[*index]),
            ToolIndex::Withheld(_) => None,
        }
    }

    /// The servers that offer a resource: those that list it; otherwise those with a template whose
    /// prefix matches.
    pub fn servers_of_resource(&self, uri: &str) -> Vec<ServerName> {
        let offering = |offers: &dyn Fn(&Offerings) -> bool| {
            let found = self.offerings.iter().filter(|(_, offered)| offers(offered));
            found.map(|(name, _)| name.clone()).collect::<Vec<_>>()
        };
        let listing =
            offering(&|offered| offered.resources.iter().any(|resource| resource.uri == uri));
        if !listing.is_empty() {
            return listing;
        }
        offering(&|offered| {
            offered.templates.iter().any(|template| {
                let fixed = template.uri_template.split('{').next().unwrap_or_default();
                !fixed.is_empty() && uri.starts_with(fixed)
            })
        })
    }

    /// Whether a tool waits for its name, and a server that it waits for is now `settled`.
    pub(crate) fn can_name_more(&self, settled: impl Fn(usize) -> bool) -> bool {
        self.awaited.iter().any(|&index| settled(index))
    }
}

impl Tool {
    fn is_like(&self, other: &Self) -> bool {
        self.definition.hash == other.definition.hash && self.exposed == other.exposed
    }
}

/// Whether the entry's filter includes any of these tools.
pub(crate) fn includes_any(config: &ServerConfig, tools: &[Arc<ToolDefinition>]) -> bool {
    let filter = Filter::new(config);
    tools
        .iter()
        .any(|tool| filter.refuses(tool.name.as_wire()).is_none())
}

#[cfg(test)]
pub(crate) mod tests;
