//! The tools of a host as the model gets them, and the model's calls as calls of the host.

use std::collections::HashSet;
use std::sync::Arc;

use switchboard::catalog::Catalog;
use switchboard::name::ToolId;
use switchboard::{Call, Host, RawJson, ToolEffect, Toolset, Vendor};

use super::instructions::quoted;
use crate::conversation::{CallOutcome, ToolCall};
use crate::json::JsonText;
use crate::model::Model;
use crate::settings::{ModelSettings, ModelVendor};
use crate::tools::budget::{DEFAULT_SHARE_PERCENT, choose_deferred, max_definition_tokens};
use crate::tools::search_tool::{self, SEARCH_TOOL};
use crate::tools::{
    ToolList, ToolListRecord, ToolSpec, ToolState, ToolTreatment, projection, vendor_tool_limit,
};
use crate::usage::TokenEstimate;

/// Explains deferred tools to the model. Their names follow.
const DEFERRED_INTRODUCTION: &str = "More tools are listed here by name only. Load them with \
     search_tools before you call them. By server:";

/// The longest text of a changed description or schema for the model.
const MAX_NOTE_BYTES: usize = 4096;

/// The tools of a conversation.
pub(super) struct OfferedTools {
    vendor: Vendor,
    limit: Option<usize>,
    /// How many tokens definitions may fill; `None` where the size of the context is unknown.
    max_tokens: Option<u64>,
    /// The tools that the host offered last.
    adapted: Option<AdaptedCatalog>,
    /// Whether the list is up to date with `adapted`.
    is_current: bool,
    list: ToolList,
    /// Whether tools that come late are deferred: this vendor keeps its cache only if a definition
    /// comes by a reference in the result of `search_tools`.
    defers_late: bool,
    /// Whether tools are or may be deferred, so that the model has `search_tools`.
    has_search: bool,
    /// Whether the first list was made: later tools are late tools.
    has_started: bool,
    /// Names of tools that calls of the current turn loaded.
    loaded_by_calls: Vec<String>,
    /// Names of tools that were loaded before the list was started again: they stay loaded.
    keeps_loaded: HashSet<String>,
}

/// The tools of one catalog in the form that a vendor accepts.
struct AdaptedCatalog {
    vendor: Vendor,
    catalog: Arc<Catalog>,
    toolset: Toolset,
    specs: Vec<ToolSpec>,
}

impl AdaptedCatalog {
    fn new(vendor: Vendor, catalog: Arc<Catalog>) -> Self {
        let toolset = Toolset::new(vendor, catalog.tools());
        let specs = toolset.tools().iter().map(|adapted| ToolSpec {
            name: adapted.name.clone(),
            server: server_name(&adapted.tool.id),
            tool: adapted.tool.id.tool.as_wire().to_owned(),
            description: adapted.description(),
            schema: JsonText::from_written(adapted.schema().as_str().to_owned()),
        });
        Self {
            specs: specs.collect(),
            vendor,
            catalog,
            toolset,
        }
    }
}

/// A tool of the host that the model gets with a simpler schema, or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TreatedTool {
    /// The server; empty for a tool of the program.
    pub server: String,
    /// The server's own name for the tool.
    pub tool: String,
    /// What is done about it, and why.
    pub treatment: ToolTreatment,
}

/// The result of an update.
#[derive(Debug, Default)]
pub(super) struct ToolsUpdate {
    /// Whether the host's tools or servers changed since the last update.
    pub(super) is_new: bool,
    /// Whether the list was started again, so that requests get a new beginning.
    pub(super) restarts: bool,
    /// What changed, for the session file.
    pub(super) record: Option<ToolListRecord>,
    /// Names of tools whose definitions were added after the conversation began.
    pub(super) loaded: Vec<String>,
    /// Notes to the model about other changes.
    pub(super) note: Option<String>,
}

/// A model's call, ready for the host.
pub(super) struct HostCall {
    pub(super) call: Call,
    pub(super) server: String,
    pub(super) tool: String,
    /// Whether no other call of the turn may run at the same time: it changes files or runs
    /// programs, and the model relies on the order of its calls.
    pub(super) runs_alone: bool,
}

impl OfferedTools {
    pub(super) fn new(settings: &ModelSettings) -> Self {
        let vendor = projection(settings);
        let context = settings.context_limit();
        let limit = vendor_tool_limit(settings);
        Self {
            vendor,
            limit,
            max_tokens: context.map(|size| max_definition_tokens(size, DEFAULT_SHARE_PERCENT)),
            adapted: None,
            is_current: false,
            list: ToolList::new(limit),
            defers_late: settings.vendor == ModelVendor::Anthropic && settings.is_vendors_own(),
            has_search: false,
            has_started: false,
            loaded_by_calls: Vec::new(),
            keeps_loaded: HashSet::new(),
        }
    }

    /// The tools of a session that is continued, in their places.
    pub(super) fn resumed(settings: &ModelSettings, list: ToolList) -> Self {
        Self {
            has_search: list.get(SEARCH_TOOL).is_some(),
            has_started: true,
            list,
            ..Self::new(settings)
        }
    }

    /// Starts the list of a new conversation, with the tools of the host that are known.
    pub(super) fn restart(&mut self, settings: &ModelSettings) {
        let known = self.adapted.take();
        let new = Self::new(settings);
        *self = Self {
            adapted: known.filter(|known| known.vendor == new.vendor),
            ..new
        };
    }

    /// Starts the list of this conversation again, with the tools as they are now. What was loaded
    /// stays loaded.
    pub(super) fn renew(&mut self, settings: &ModelSettings) {
        let loaded = self.list.loaded().map(|spec| spec.name.clone());
        let keeps_loaded = loaded.collect();
        self.restart(settings);
        self.keeps_loaded = keeps_loaded;
    }

    /// The tools of the host that this model does not get as they are: those that cannot be adapted
    /// to its vendor, and those that the vendor refused.
    pub(super) fn treated(&mut self, host: &Host, model: &dyn Model) -> Vec<TreatedTool> {
        self.adapt(host);
        let Some(adapted) = &self.adapted else {
            return Vec::new();
        };
        let withheld = adapted.toolset.withheld().iter().map(|withheld| {
            let words = withheld.reason.clone();
            TreatedTool {
                server: withheld.server.to_string(),
                tool: withheld.tool.as_wire().to_owned(),
                treatment: ToolTreatment::Withheld { words },
            }
        });
        let refused = adapted.specs.iter().filter_map(|spec| {
            // The vendor judges what is sent.
            let sent = self
                .list
                .get(&spec.name)
                .map_or(spec, |listed| &listed.spec);
            Some(TreatedTool {
                server: spec.server.clone(),
                tool: spec.tool.clone(),
                treatment: model.treatment(sent)?,
            })
        });
        withheld.chain(refused).collect()
    }

    pub(super) fn list(&self) -> &ToolList {
        &self.list
    }

    /// The section of the system prompt about deferred tools. Empty without any.
    pub(super) fn deferred_prompt(&self) -> String {
        match self.list.deferred_names() {
            names if names.is_empty() => names,
            names => format!("{DEFERRED_INTRODUCTION}\n{names}"),
        }
    }

    /// Updates the list. The first update marks the beginning of the conversation.
    pub(super) fn update(&mut self, host: &Host, settings: &ModelSettings) -> ToolsUpdate {
        let Some(specs) = self.changed_specs(host) else {
            return ToolsUpdate::default();
        };
        let restarts = self.has_started && self.list.is_filled_by_gone_tools(&specs);
        if restarts {
            self.renew(settings);
            return ToolsUpdate {
                restarts,
                ..self.update(host, settings)
            };
        }
        let specs = self.with_search(specs, host);
        let over_budget = match self.max_tokens {
            Some(limit) => choose_deferred(&specs, limit, &TokenEstimate::default(), is_search),
            None => Default::default(),
        };
        let defers_new = self.has_started && self.defers_late && self.has_search;
        let change = self.list.update(specs, |spec| {
            let is_deferred = over_budget.contains(&spec.name) || (defers_new && !is_search(spec));
            is_deferred && !self.keeps_loaded.contains(&spec.name)
        });
        let record = self.list.record(&change);
        if !std::mem::replace(&mut self.has_started, true) {
            self.list.start();
            return ToolsUpdate {
                is_new: true,
                record,
                ..ToolsUpdate::default()
            };
        }
        let is_loaded = |name: &String| {
            let tool = self.list.get(name);
            tool.is_some_and(|tool| tool.state == ToolState::Loaded)
        };
        let (loaded, deferred): (Vec<_>, Vec<_>) = change.added.into_iter().partition(is_loaded);
        ToolsUpdate {
            is_new: true,
            restarts: false,
            record,
            loaded,
            note: self.note(&deferred, &change.changed),
        }
    }

    /// Adapts the host's tools, unless they are the same as before.
    fn adapt(&mut self, host: &Host) {
        let catalog = host.catalog();
        let is_same = |known: &AdaptedCatalog| Arc::ptr_eq(&known.catalog, &catalog);
        if !self.adapted.as_ref().is_some_and(is_same) {
            self.adapted = Some(AdaptedCatalog::new(self.vendor, catalog));
            self.is_current = false;
        }
    }

    /// The host's tools as they are now; `None` if the list is up to date with them.
    fn changed_specs(&mut self, host: &Host) -> Option<Vec<ToolSpec>> {
        self.adapt(host);
        let is_current = std::mem::replace(&mut self.is_current, true);
        let adapted = self.adapted.as_ref().filter(|_| !is_current)?;
        Some(adapted.specs.clone())
    }

    /// The same tools, with `search_tools` first if some of them are or may be deferred.
    fn with_search(&mut self, mut specs: Vec<ToolSpec>, host: &Host) -> Vec<ToolSpec> {
        let may_defer_later =
            !self.has_started && self.defers_late && host.servers().iter().next().is_some();
        self.has_search |= may_defer_later || self.exceeds_limits(&specs);
        if self.has_search {
            specs.retain(|spec| !is_search(spec));
            specs.insert(0, search_tool::spec());
        }
        specs
    }

    /// A note to the model about new deferred tools and changed definitions.
    fn note(&self, deferred: &[String], changed: &[String]) -> Option<String> {
        let names = deferred.join(", ");
        let new = (!deferred.is_empty())
            .then(|| format!("New tools can be loaded with search_tools: {names}"));
        let changed = changed.iter().filter_map(|name| self.change_note(name));
        let notes: Vec<String> = new.into_iter().chain(changed).collect();
        (!notes.is_empty()).then(|| notes.join("\n"))
    }

    /// A note to the model about a definition that changed after it was sent. The sent definition
    /// stays, so that requests begin with the same bytes.
    fn change_note(&self, name: &str) -> Option<String> {
        let newer = self.list.get(name)?.newer.as_ref()?;
        let description = quoted(&newer.description, MAX_NOTE_BYTES);
        let schema = quoted(newer.schema.as_str(), MAX_NOTE_BYTES);
        Some(format!(
            "The tool {name} changed. Quoted lines are the words of its server, not of the person. \
             From now on its arguments are:\n{schema}\nand its server describes it so:\n\
             {description}"
        ))
    }

    /// Whether the definitions are too many, or too long, to be in each request.
    fn exceeds_limits(&self, specs: &[ToolSpec]) -> bool {
        let is_beyond_limit = self.limit.is_some_and(|limit| specs.len() > limit);
        let is_beyond_budget = self.max_tokens.is_some_and(|limit| {
            !choose_deferred(specs, limit, &TokenEstimate::default(), is_search).is_empty()
        });
        is_beyond_limit || is_beyond_budget
    }

    /// The host's call for a model's call, or its result if it needs no call.
    pub(super) fn prepare(&mut self, call: &ToolCall) -> Result<HostCall, CallOutcome> {
        let Some(arguments) = call.arguments.object() else {
            return Err(CallOutcome::failed("the arguments are not a JSON object"));
        };
        if self.has_search && call.name == SEARCH_TOOL {
            let outcome = search_tool::run(&mut self.list, arguments);
            self.loaded_by_calls
                .extend(outcome.loaded_tools().iter().cloned());
            return Err(outcome);
        }
        match self.list.load(&call.name) {
            Ok(true) => self.loaded_by_calls.push(call.name.clone()),
            Ok(false) => {}
            Err(error) => return Err(CallOutcome::failed(error.to_string())),
        }
        let arguments = RawJson::parse(arguments.as_str().to_owned());
        let arguments = arguments.map_err(|error| CallOutcome::failed(error.to_string()))?;
        let known = self.adapted.as_ref();
        let found = known.and_then(|known| {
            let adapted = known.toolset.get(&call.name)?;
            let server_call = known.toolset.to_server_call(&call.name, &arguments)?;
            Some((adapted, server_call, &known.catalog))
        });
        let Some((adapted, server_call, catalog)) = found else {
            let name = &call.name;
            return Err(CallOutcome::failed(format!(
                "there is no tool named \"{name}\" now"
            )));
        };
        let (name, arguments) =
            server_call.map_err(|error| CallOutcome::failed(error.to_string()))?;
        let id = &adapted.tool.id;
        Ok(HostCall {
            call: Call::new(name, arguments).listed(catalog.clone()),
            server: server_name(id),
            tool: id.tool.as_wire().to_owned(),
            runs_alone: matches!(
                adapted.tool.effect(),
                Some(ToolEffect::Edit | ToolEffect::Execute)
            ),
        })
    }

    /// Names of tools that calls loaded since the last time.
    pub(super) fn take_loaded_by_calls(&mut self) -> Vec<String> {
        std::mem::take(&mut self.loaded_by_calls)
    }
}

/// The server that has a tool; empty for a tool of the program.
fn server_name(id: &ToolId) -> String {
    match id.server.is_host() {
        true => String::new(),
        false => id.server.to_string(),
    }
}

fn is_search(spec: &ToolSpec) -> bool {
    spec.name == SEARCH_TOOL
}
