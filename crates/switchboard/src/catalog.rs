//! An immutable snapshot of the tools, prompts and resources of all servers. It is replaced as a
//! whole; a call uses one snapshot throughout.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use foldhash::fast::RandomState;

use crate::config::{Fingerprint, ServerConfig};
use crate::name::{
    AssignedNames, ExposedName, NameRequest, NamingError, ReservedNames, ServerName, Style, ToolId,
    ToolName, expose,
};

pub use builtin_names::BUILTIN_NAMES;
pub(crate) use builtin_names::{LIST_RESOURCES, READ_RESOURCE, SAMPLING};
pub use definition::{ToolAnnotations, ToolDefinition};
use filter::Filter;
pub use icon::Icon;
pub(crate) use mirror::parameters;
pub use owner::{PossibleOwners, likely_owner, possible_owners};
pub use prompt::PromptDefinition;
pub use resource::{ResourceDefinition, TemplateDefinition};
pub(crate) use rule_matches::{MatchedRules, RuleMatchCache};
pub use tool::{Tool, ToolEffect};
pub use vendor::Vendor;

pub use crate::schema::DefinitionHash;

mod address;
mod builtin_names;
mod definition;
mod filter;
mod icon;
mod mirror;
mod nearest;
mod owner;
mod prompt;
mod resource;
mod rule_matches;
mod tool;
mod vendor;

/// Search in a list of tools.
pub mod search;

/// A tool that cannot be called, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Withheld {
    /// Its server.
    pub server: ServerName,
    /// Its name, if it has one.
    pub tool: ToolName,
    /// Why, in one line safe to show.
    pub reason: String,
}

/// What one server offers: the input of [`Catalog::build`].
#[derive(Debug, Clone, Default)]
pub struct Offerings {
    /// Tools, in the server's order.
    pub tools: Vec<Arc<ToolDefinition>>,
    /// Listed tools that cannot be used.
    pub withheld: Vec<(ToolName, String)>,
    /// Prompts.
    pub prompts: Vec<Arc<PromptDefinition>>,
    /// Resources.
    pub resources: Vec<Arc<ResourceDefinition>>,
    /// Resource templates.
    pub templates: Vec<Arc<TemplateDefinition>>,
    /// Lists that ended in an error: (method, what happened).
    pub faults: Vec<(&'static str, String)>,
}

impl Offerings {
    /// Replaces `before`: definitions that did not change stay offered, the others are withdrawn, so
    /// that no call that was approved by an old definition is sent.
    pub(crate) fn replace(mut self, before: &Self) -> Self {
        let key = |tool: &ToolDefinition| (tool.name.clone(), tool.hash);
        let known: HashMap<_, _> = (before.tools.iter().rev())
            .map(|tool| (key(tool), tool))
            .collect();
        let mut same = HashSet::new();
        for tool in &mut self.tools {
            if let Some(before) = known.get(&key(tool)) {
                Arc::make_mut(tool).offer = before.offer.clone();
                same.insert(key(tool));
            }
        }
        for tool in before
            .tools
            .iter()
            .filter(|tool| !same.contains(&key(tool)))
        {
            tool.offer.withdraw();
        }
        self
    }
}

/// One server as a source of [`Catalog::build`].
#[derive(Debug, Clone)]
pub struct CatalogSource {
    /// Its entry.
    pub config: Arc<ServerConfig>,
    /// The launch that its grants are bound to.
    pub launch: Fingerprint,
    /// What it offers.
    pub offerings: Arc<Offerings>,
    /// It is ready, has failed, or is not awaited: names no longer wait for it.
    pub settled: bool,
}

/// Everything that can be used, of all servers.
#[derive(Debug, Default)]
pub struct Catalog {
    /// Grows by one with each replacement.
    pub generation: u64,
    /// Which of the host's rosters it was built from.
    pub(crate) roster: u64,
    /// In config order, then in the server's.
    tools: Vec<Arc<Tool>>,
    /// Index into `tools`.
    by_exposed: HashMap<ExposedName, usize, RandomState>,
    /// Index into `tools`, or into `withheld`. By server, then by tool, so that a lookup allocates no
    /// pair.
    by_pair: HashMap<ServerName, HashMap<ToolName, ToolIndex>>,
    /// Index into `tools`, by the names that vendors' APIs take where they do not take the exposed
    /// one.
    by_projection: HashMap<String, usize>,
    /// Index into `withheld`, by the name that it would have had.
    withheld_names: HashMap<String, usize>,
    /// Callable as `server/tool` only: their exposed names are not known yet.
    nameless: Vec<Arc<Tool>>,
    /// Indices of the servers that those wait for.
    awaited: Vec<usize>,
    /// Names that were assigned in this run, by this catalog and earlier ones.
    published: Arc<AssignedNames>,
    /// Withheld tools, with reasons.
    withheld: Vec<Withheld>,
    /// What each server offers.
    offerings: Vec<(ServerName, Arc<Offerings>)>,
}

#[derive(Debug, Clone, Copy)]
enum ToolIndex {
    Tool(usize),
    /// Into `nameless`.
    Nameless(usize),
    Withheld(usize),
}

/// Why a name is not resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unresolved {
    /// No such name. The nearest names are given.
    Unknown {
        /// At most three.
        nearest: Vec<String>,
    },
    /// It exists and is withheld.
    Withheld(Withheld),
}

/// What may have been meant, or why it is withheld; empty where neither is known.
impl fmt::Display for Unresolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { nearest } if nearest.is_empty() => Ok(()),
            Self::Unknown { nearest } => write!(f, "did you mean {}?", nearest.join(", ")),
            Self::Withheld(withheld) => write!(
                f,
                "server \"{}\" offers it, but it is withheld: {}",
                withheld.server, withheld.reason
            ),
        }
    }
}

impl Catalog {
    /// Builds the catalog that replaces `before`: the host tools, then what each server offers, in
    /// config order. A name that was assigned before belongs to the same tool as then, or to none.
    /// `naming` applies to servers whose dialect has no naming style of its own.
    pub fn build(
        before: &Self,
        naming: Style,
        host_tools: &[Arc<Tool>],
        parts: &[CatalogSource],
    ) -> Self {
        let mut catalog = Self {
            generation: before.generation + 1,
            published: before.published.clone(),
            tools: host_tools.to_vec(),
            ..Self::default()
        };
        let mut offered = Vec::new();
        for part in parts {
            catalog.sift(part, &mut offered);
            catalog
                .offerings
                .push((part.config.name.clone(), Arc::clone(&part.offerings)));
        }
        catalog.name(naming, offered, parts);
        catalog.index(naming, parts);
        catalog
    }

    /// Selects the tools that a server may offer; each of the others is withheld with a reason.
    fn sift(&mut self, part: &CatalogSource, offered: &mut Vec<UnnamedTool>) {
        let CatalogSource {
            config,
            launch,
            offerings,
            ..
        } = part;
        let filter = Filter::new(config);
        let refuses_builtin = config.dialect.profile().refuses_builtin_names;
        let own: Vec<_> = self.tools.clone();
        let own_names = || own.iter().map(|tool| tool.exposed.as_str());
        let mut seen: HashSet<&str> = HashSet::with_capacity(offerings.tools.len());
        for (tool, reason) in &offerings.withheld {
            self.withhold(&config.name, tool, reason.clone());
        }
        for definition in &offerings.tools {
            let name = definition.name.as_wire();
            let reason = if !seen.insert(name) {
                Some("its server lists another tool of the same name before it".to_owned())
            } else if name == SAMPLING
                || refuses_builtin && builtin_names::is_builtin(name, own_names())
            {
                Some("its name is that of a built-in tool".to_owned())
            } else if definition.is_for_app_only {
                Some(
                    "it is for its server's own app, not for models (_meta.ui.visibility)"
                        .to_owned(),
                )
            } else {
                filter.refuses(name)
            };
            match reason {
                Some(reason) => self.withhold(&config.name, &definition.name, reason),
                None => offered.push(UnnamedTool {
                    id: ToolId {
                        server: config.name.clone(),
                        tool: definition.name.clone(),
                    },
                    server: Arc::clone(config),
                    server_place: self.offerings.len(),
                    launch: *launch,
                    idempotent: filter.is_idempotent(name),
                    definition: Arc::clone(definition),
                }),
            }
        }
    }

    /// Each tool gets its name in the style of its server. One whose bare name an earlier server
    /// may still want waits, without a name.
    fn name(&mut self, naming: Style, offered: Vec<UnnamedTool>, parts: &[CatalogSource]) {
        let own: Vec<_> = self.tools.clone();
        let own: HashSet<&str> = own.iter().map(|tool| tool.exposed.as_str()).collect();
        let first_unsettled = parts
            .iter()
            .position(|part| !part.settled)
            .unwrap_or(parts.len());
        // Of the servers before it, each is known or can have no tool of this name.
        let may_be_bare = |tool: &UnnamedTool, style: Style| {
            tool.server_place <= first_unsettled || {
                let name = style.plain(&tool.id).unwrap_or_default();
                let mut earlier = parts[first_unsettled..tool.server_place].iter();
                earlier.all(|part| {
                    part.settled
                        || !style_of(&part.config, naming).can_name(&part.config.name, &name)
                })
            }
        };
        let wish = |tool: &'_ UnnamedTool| {
            let style = style_of(&tool.server, naming);
            (style, style != Style::FirstWins || may_be_bare(tool, style))
        };
        let names = {
            let wishes: Vec<_> = (offered.iter())
                .map(|tool| (&tool.id, wish(tool)))
                .map(|(pair, (style, may_be_bare))| NameRequest {
                    pair,
                    style,
                    may_be_bare,
                })
                .collect();
            expose(
                &wishes,
                ReservedNames {
                    own: &own,
                    builtin: &BUILTIN_NAMES,
                },
                &mut self.published,
            )
        };
        self.tools.reserve_exact(offered.len());
        for (name, offered) in names.into_iter().zip(offered) {
            match name {
                Ok(exposed) => self
                    .tools
                    .push(Arc::new(offered.named(exposed, self.tools.len()))),
                Err(NamingError::Pending) => {
                    self.awaited = (0..parts.len())
                        .filter(|&index| !parts[index].settled)
                        .collect();
                    let earlier = &parts[first_unsettled].config.name;
                    let reason = format!(
                        "its name is not known before server \"{earlier}\" is there or has failed"
                    );
                    self.withhold(&offered.id.server, &offered.id.tool, reason);
                    let shown = ExposedName::unlisted(&offered.id.shown().to_string());
                    self.nameless
                        .push(Arc::new(offered.named(shown, usize::MAX)));
                }
                Err(NamingError::Withheld(why)) => {
                    self.withhold(&offered.id.server, &offered.id.tool, why.reason)
                }
            }
        }
    }

    fn withhold(&mut self, server: &ServerName, tool: &ToolName, reason: String) {
        self.withheld.push(Withheld {
            server: server.clone(),
            tool: tool.clone(),
            reason,
        });
    }

    fn index(&mut self, naming: Style, parts: &[CatalogSource]) {
        self.by_exposed = self
            .tools
            .iter()
            .enumerate()
            .map(|(index, tool)| (tool.exposed.clone(), index))
            .collect();
        let nameless = self
            .nameless
            .iter()
            .enumerate()
            .map(|(index, tool)| (tool, ToolIndex::Nameless(index)));
        let named = self
            .tools
            .iter()
            .enumerate()
            .map(|(index, tool)| (tool, ToolIndex::Tool(index)));
        for (tool, place) in named.chain(nameless) {
            self.by_pair
                .entry(tool.id.server.clone())
                .or_default()
                .insert(tool.id.tool.clone(), place);
        }
        for (index, tool) in self.tools.iter().enumerate() {
            for name in Vendor::ALL
                .iter()
                .filter_map(|vendor| vendor.projected_name(tool))
            {
                self.by_projection.entry(name).or_insert(index);
            }
        }
        let styles: HashMap<&ServerName, Style> = parts
            .iter()
            .map(|part| (&part.config.name, style_of(&part.config, naming)))
            .collect();
        for (index, Withheld { server, tool, .. }) in self.withheld.iter().enumerate() {
            // The first of two tools of one name is on offer; the pair means that one. So does the
            // pair of one that waits for a name.
            let place = self
                .by_pair
                .entry(server.clone())
                .or_default()
                .entry(tool.clone());
            if matches!(
                place.or_insert(ToolIndex::Withheld(index)),
                ToolIndex::Nameless(_)
            ) {
                continue;
            }
            let id = ToolId {
                server: server.clone(),
                tool: tool.clone(),
            };
            if let Some(Ok(name)) = styles.get(server).map(|style| style.plain(&id)) {
                self.withheld_names.entry(name).or_insert(index);
            }
        }
    }

    /// Every tool that can be called.
    pub fn tools(&self) -> &[Arc<Tool>] {
        &self.tools
    }

    /// The withheld tools, with reasons.
    pub fn withheld(&self) -> &[Withheld] {
        &self.withheld
    }

    /// What each server offers.
    pub fn offerings(&self) -> &[(ServerName, Arc<Offerings>)] {
        &self.offerings
    }

    /// Looks a name up: first as an exposed name, then as `server/tool` (the configured server
    /// names decide where the slash is), then as the name that a vendor's API takes in place of
    /// the exposed one.
    pub fn resolve(&self, name: &str) -> Result<&Arc<Tool>, Unresolved> {
        if let Some(&index) = self.by_exposed.get(name) {
            return Ok(&self.tools[index]);
        }
        // No server's name has a slash, so the first one ends it.
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

    /// The tool of the same pair, definition and launch, if it is offered now.
    pub(crate) fn same_tool<'a>(&'a self, tool: &'a Arc<Tool>) -> Option<&'a Arc<Tool>> {
        match self.tools.get(tool.place) {
            Some(now) if Arc::ptr_eq(now, tool) => Some(now),
            _ => self.by_id(&tool.id).filter(|now| {
                now.definition.hash == tool.definition.hash && now.launch == tool.launch
            }),
        }
    }

    /// Notes which of the definitions that it was built from are exposed, for calls that wait to be
    /// sent.
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

    /// Looks a pair up.
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
    /// beginning matches.
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

    /// Whether a tool waits for its name, and one of the servers that it waits for is `settled` by
    /// now.
    pub(crate) fn can_name_more(&self, settled: impl Fn(usize) -> bool) -> bool {
        self.awaited.iter().any(|&index| settled(index))
    }
}

impl Tool {
    fn is_like(&self, other: &Self) -> bool {
        self.definition.hash == other.definition.hash && self.exposed == other.exposed
    }
}

/// How a server's tools are named.
fn style_of(server: &ServerConfig, naming: Style) -> Style {
    server.dialect.profile().naming.unwrap_or(naming)
}

/// Whether the entry's filter includes any of these tools.
pub(crate) fn is_let_through(config: &ServerConfig, tools: &[Arc<ToolDefinition>]) -> bool {
    let filter = Filter::new(config);
    tools
        .iter()
        .any(|tool| filter.refuses(tool.name.as_wire()).is_none())
}

/// A tool before its name is assigned.
struct UnnamedTool {
    id: ToolId,
    /// The index of its server among the sources.
    server_place: usize,
    server: Arc<ServerConfig>,
    launch: Fingerprint,
    idempotent: bool,
    definition: Arc<ToolDefinition>,
}

impl UnnamedTool {
    fn named(self, exposed: ExposedName, place: usize) -> Tool {
        let Self {
            id,
            server_place,
            server,
            launch,
            idempotent,
            definition,
        } = self;
        let rule_matches = RuleMatchCache::default();
        Tool {
            id,
            exposed,
            definition,
            server,
            launch,
            idempotent,
            place,
            server_place,
            rule_matches,
            effect: None,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
