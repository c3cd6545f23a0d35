//! Builds a catalog: selects the tools of each server, names them, and indexes the names.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::builtin_names::{self, BUILTIN_NAMES, SAMPLING};
use super::filter::Filter;
use super::{
    Catalog, CatalogSource, RuleMatchCache, Tool, ToolDefinition, ToolIndex, Vendor, Withheld,
};
use crate::config::{Fingerprint, ServerConfig};
use crate::name::{
    ExposedName, NameRequest, NamingError, ReservedNames, ServerName, Style, ToolId, ToolName,
    expose,
};

impl Catalog {
    /// Builds the catalog that replaces `before`: the host tools, then the servers' offerings in
    /// config order. A name that was assigned before stays with the same tool, or is unused.
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
                    server_index: self.offerings.len(),
                    launch: *launch,
                    idempotent: filter.is_idempotent(name),
                    definition: Arc::clone(definition),
                }),
            }
        }
    }

    /// Assigns names in the style of each server. A tool whose bare name an earlier server may
    /// still claim waits without a name.
    fn name(&mut self, naming: Style, offered: Vec<UnnamedTool>, parts: &[CatalogSource]) {
        let own: Vec<_> = self.tools.clone();
        let own: HashSet<&str> = own.iter().map(|tool| tool.exposed.as_str()).collect();
        let first_unsettled = parts
            .iter()
            .position(|part| !part.settled)
            .unwrap_or(parts.len());
        // Each earlier server is known or cannot have a tool of this name.
        let may_be_bare = |tool: &UnnamedTool, style: Style| {
            tool.server_index <= first_unsettled || {
                let name = style.plain(&tool.id).unwrap_or_default();
                let mut earlier = parts[first_unsettled..tool.server_index].iter();
                earlier.all(|part| {
                    part.settled
                        || !style_of(&part.config, naming).can_name(&part.config.name, &name)
                })
            }
        };
        let names = {
            let requests = offered.iter().map(|tool| {
                let style = style_of(&tool.server, naming);
                NameRequest {
                    pair: &tool.id,
                    style,
                    may_be_bare: style != Style::FirstWins || may_be_bare(tool, style),
                }
            });
            let reserved = ReservedNames {
                own: &own,
                builtin: &BUILTIN_NAMES,
            };
            let requests: Vec<_> = requests.collect();
            expose(&requests, reserved, &mut self.published)
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
                        "its name is not known until server \"{earlier}\" is ready or has failed"
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
                .chain(tool.strict_name())
            {
                self.by_projection.entry(name).or_insert(index);
            }
        }
        let styles: HashMap<&ServerName, Style> = parts
            .iter()
            .map(|part| (&part.config.name, style_of(&part.config, naming)))
            .collect();
        for (index, Withheld { server, tool, .. }) in self.withheld.iter().enumerate() {
            // The pair means the first of two tools of one name, which is the one on offer. A
            // nameless tool's pair works too.
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
}

/// The naming style of a server's tools.
fn style_of(server: &ServerConfig, naming: Style) -> Style {
    server.dialect.profile().naming.unwrap_or(naming)
}

/// A tool before its name is assigned.
struct UnnamedTool {
    id: ToolId,
    /// The index of its server among the sources.
    server_index: usize,
    server: Arc<ServerConfig>,
    launch: Fingerprint,
    idempotent: bool,
    definition: Arc<ToolDefinition>,
}

impl UnnamedTool {
    fn named(self, exposed: ExposedName, place: usize) -> Tool {
        let Self {
            id,
            server_index,
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
            server_index,
            rule_matches,
            effect: None,
        }
    }
}
