//! The immutable picture of every tool, prompt and resource on offer. Replaced whole; readers keep theirs for the whole call.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use foldhash::fast::RandomState;

use crate::config::{Fingerprint, ServerConfig};
use crate::gate::Ruling;
use crate::name::{ExposedName, ServerName, Style, ToolId, ToolName};

pub use definition::{DefinitionHash, ToolDefinition};
use filter::Filter;
pub use icon::Icon;
pub use mirror::Mirrored;
pub(crate) use mirror::parameters;
pub use prompt::PromptDefinition;
pub use resource::{ResourceDefinition, TemplateDefinition};

mod definition;
mod filter;
mod icon;
mod mirror;
mod nearest;
mod prompt;
mod resource;

/// A tool on offer.
#[derive(Debug)]
pub struct Tool {
    /// The identity.
    pub id: ToolId,
    /// The name a model sees.
    pub exposed: ExposedName,
    /// As the server defined it.
    pub definition: Arc<ToolDefinition>,
    /// The entry that brought it.
    pub server: Arc<ServerConfig>,
    /// The launch that its grants are bound to.
    pub launch: Fingerprint,
    /// The tool may be sent again after a lost answer.
    pub idempotent: bool,
    /// Where it stands in its catalog.
    pub(crate) place: usize,
    /// Where its server stands among those that the catalog was built from.
    pub(crate) server_place: usize,
    /// Which rules hold for it. The gate's own.
    pub(crate) ruling: Ruling,
}

/// A tool that is not on offer, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Withheld {
    /// Its server.
    pub server: ServerName,
    /// Its name, as far as it has one.
    pub tool: ToolName,
    /// Why, in one line safe to show.
    pub reason: String,
}

/// What one server offers: the input of [`Catalog::build`].
#[derive(Debug, Clone, Default)]
pub struct Offerings {
    /// Tools, in the server's order.
    pub tools: Vec<Arc<ToolDefinition>>,
    /// Tools that came and cannot be used.
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

/// All that is on offer.
#[derive(Debug, Default)]
pub struct Catalog {
    /// Grows by one with each replacement.
    pub generation: u64,
    /// Which of the host's rosters it was built from.
    pub(crate) roster: u64,
    /// Config order, then the server's.
    tools: Vec<Arc<Tool>>,
    /// Index into `tools`.
    by_exposed: HashMap<ExposedName, usize, RandomState>,
    /// Index into `tools`, or into `withheld`. Two steps, so that a look-up needs no pair of its own.
    by_pair: HashMap<ServerName, HashMap<ToolName, Place>>,
    /// Index into `withheld`, by the name that it would have had.
    withheld_names: HashMap<String, usize>,
    /// Not on offer, with reasons.
    withheld: Vec<Withheld>,
    /// What each server offers beside tools.
    offerings: Vec<(ServerName, Arc<Offerings>)>,
}

#[derive(Debug, Clone, Copy)]
enum Place {
    Tool(usize),
    Withheld(usize),
}

/// Why a name leads to no tool.
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

impl Catalog {
    /// Builds the picture from what each server offers, in config order. With each comes the launch that its grants are bound to.
    pub fn build(
        generation: u64,
        style: Style,
        builtin_names: &[&str],
        servers: &[(Arc<ServerConfig>, Fingerprint, Arc<Offerings>)],
    ) -> Self {
        let mut catalog = Self { generation, ..Self::default() };
        let mut offered = Vec::new();
        for (config, launch, offerings) in servers {
            catalog.sift(config, offerings, builtin_names, *launch, &mut offered);
            catalog.offerings.push((config.name.clone(), Arc::clone(offerings)));
        }
        catalog.name(style, offered);
        catalog.index(style);
        catalog
    }

    /// Keeps what one server may offer; the rest is withheld, one by one, with its reason.
    fn sift(
        &mut self,
        config: &Arc<ServerConfig>,
        offerings: &Offerings,
        builtin_names: &[&str],
        launch: Fingerprint,
        offered: &mut Vec<Offered>,
    ) {
        let filter = Filter::new(config);
        let mut seen: HashSet<&str> = HashSet::with_capacity(offerings.tools.len());
        for (tool, reason) in &offerings.withheld {
            self.withhold(&config.name, tool, reason.clone());
        }
        for definition in &offerings.tools {
            let name = definition.name.as_wire();
            let reason = if !seen.insert(name) {
                Some("its server lists another tool of the same name before it".to_owned())
            } else if builtin_names.contains(&name) {
                Some("its name is that of a built-in tool".to_owned())
            } else {
                filter.refuses(name)
            };
            match reason {
                Some(reason) => self.withhold(&config.name, &definition.name, reason),
                None => offered.push(Offered {
                    server: Arc::clone(config),
                    server_place: self.offerings.len(),
                    launch,
                    idempotent: filter.is_idempotent(name),
                    definition: Arc::clone(definition),
                }),
            }
        }
    }

    fn name(&mut self, style: Style, offered: Vec<Offered>) {
        let pair = |tool: &Offered| ToolId { server: tool.server.name.clone(), tool: tool.definition.name.clone() };
        let pairs: Vec<ToolId> = offered.iter().map(pair).collect();
        let names = style.expose(&pairs);
        self.tools.reserve_exact(pairs.len());
        for ((id, name), Offered { server, server_place, launch, idempotent, definition }) in
            pairs.into_iter().zip(names).zip(offered)
        {
            match name {
                Ok(exposed) => {
                    let place = self.tools.len();
                    let ruling = Ruling::default();
                    self.tools.push(Arc::new(Tool {
                        id,
                        exposed,
                        definition,
                        server,
                        launch,
                        idempotent,
                        place,
                        server_place,
                        ruling,
                    }));
                }
                Err(unnameable) => self.withhold(&id.server, &id.tool, unnameable.reason),
            }
        }
    }

    fn withhold(&mut self, server: &ServerName, tool: &ToolName, reason: String) {
        self.withheld.push(Withheld { server: server.clone(), tool: tool.clone(), reason });
    }

    fn index(&mut self, style: Style) {
        self.by_exposed = self.tools.iter().enumerate().map(|(index, tool)| (tool.exposed.clone(), index)).collect();
        for (index, tool) in self.tools.iter().enumerate() {
            self.by_pair.entry(tool.id.server.clone()).or_default().insert(tool.id.tool.clone(), Place::Tool(index));
        }
        for (index, Withheld { server, tool, .. }) in self.withheld.iter().enumerate() {
            // The first of two tools of one name is on offer; the pair means that one.
            let place = self.by_pair.entry(server.clone()).or_default().entry(tool.clone());
            place.or_insert(Place::Withheld(index));
            if let Ok(name) = style.plain(&ToolId { server: server.clone(), tool: tool.clone() }) {
                self.withheld_names.entry(name).or_insert(index);
            }
        }
    }

    /// Every tool on offer.
    pub fn tools(&self) -> &[Arc<Tool>] {
        &self.tools
    }

    /// What is not on offer, with reasons.
    pub fn withheld(&self) -> &[Withheld] {
        &self.withheld
    }

    /// What each server offers.
    pub fn offerings(&self) -> &[(ServerName, Arc<Offerings>)] {
        &self.offerings
    }

    /// Looks a name up: first as an exposed name, then as `server/tool` (the configured server names decide where the slash is).
    pub fn resolve(&self, name: &str) -> Result<&Arc<Tool>, Unresolved> {
        if let Some(&index) = self.by_exposed.get(name) {
            return Ok(&self.tools[index]);
        }
        // No server's name has a slash, so the first one ends it.
        let pair = name.split_once('/').and_then(|(server, tool)| self.by_pair.get(server)?.get(tool));
        match pair.copied().or_else(|| self.withheld_names.get(name).map(|&index| Place::Withheld(index))) {
            Some(Place::Tool(index)) => Ok(&self.tools[index]),
            Some(Place::Withheld(index)) => Err(Unresolved::Withheld(self.withheld[index].clone())),
            None => Err(Unresolved::Unknown { nearest: nearest::nearest(name, &self.tools) }),
        }
    }

    /// Tools that came, went or were defined anew since `old`, as `server/tool`, safe to show.
    pub fn changed_since(&self, old: &Self) -> Vec<String> {
        let came_or_changed = self
            .tools
            .iter()
            .filter(|tool| old.by_id(&tool.id).is_none_or(|before| before.definition.hash != tool.definition.hash));
        let went = old.tools.iter().filter(|tool| self.by_id(&tool.id).is_none());
        came_or_changed
            .chain(went)
            .map(|tool| format!("{}/{}", tool.id.server, tool.id.tool.untrusted().for_terminal_line()))
            .collect()
    }

    /// Whether this very tool, or one of the same pair and definition, is on offer.
    pub(crate) fn still_offers(&self, tool: &Arc<Tool>) -> bool {
        let same = self.tools.get(tool.place).is_some_and(|now| Arc::ptr_eq(now, tool));
        same || self.by_id(&tool.id).is_some_and(|now| now.definition.hash == tool.definition.hash && now.launch == tool.launch)
    }

    /// Looks a pair up.
    pub fn by_id(&self, id: &ToolId) -> Option<&Arc<Tool>> {
        match self.by_pair.get(&id.server)?.get(&id.tool)? {
            Place::Tool(index) => Some(&self.tools[*index]),
            Place::Withheld(_) => None,
        }
    }
}

/// A tool that only lacks its name.
struct Offered {
    /// Where the server stands among those given.
    server_place: usize,
    server: Arc<ServerConfig>,
    launch: Fingerprint,
    idempotent: bool,
    definition: Arc<ToolDefinition>,
}

#[cfg(test)]
pub(crate) mod tests;
