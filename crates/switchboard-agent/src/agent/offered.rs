//! The tools of a host as the model gets them, and the model's calls as calls of the host.

use std::sync::Arc;

use switchboard::catalog::Catalog;
use switchboard::name::ToolId;
use switchboard::{Call, Host, RawJson, ToolEffect, Toolset, Vendor};

use crate::conversation::{CallOutcome, ToolCall};
use crate::json::JsonText;
use crate::settings::{ModelSettings, ModelVendor};
use crate::tools::budget::{DEFAULT_SHARE_PERCENT, choose_deferred, max_definition_tokens};
use crate::tools::search_tool::{self, SEARCH_TOOL};
use crate::tools::{ToolList, ToolListRecord, ToolSpec, ToolState, projection, vendor_tool_limit};
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

/// The result of an update.
#[derive(Debug, Default)]
pub(super) struct ToolsUpdate {
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
    pub(super) fn update(&mut self, host: &Host) -> ToolsUpdate {
        let Some(specs) = self.changed_specs(host) else {
            return ToolsUpdate::default();
        };
        let specs = self.with_search(specs, host);
        let over_budget = match self.max_tokens {
            Some(limit) => choose_deferred(&specs, limit, &TokenEstimate::default(), is_search),
            None => Default::default(),
        };
        let defers_new = self.has_started && self.defers_late && self.has_search;
        let change = self.list.update(specs, |spec| {
            over_budget.contains(&spec.name) || (defers_new && !is_search(spec))
        });
        let record = self.list.record(&change);
        if !std::mem::replace(&mut self.has_started, true) {
            self.list.start();
            return ToolsUpdate {
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
            record,
            loaded,
            note: self.note(&deferred, &change.changed),
        }
    }

    /// The host's tools as they are now; `None` if the list is up to date with them.
    fn changed_specs(&mut self, host: &Host) -> Option<Vec<ToolSpec>> {
        let catalog = host.catalog();
        let known = self.adapted.take();
        let known = known.filter(|known| Arc::ptr_eq(&known.catalog, &catalog));
        let is_current = known.is_some() && self.is_current;
        let adapted = known.unwrap_or_else(|| AdaptedCatalog::new(self.vendor, catalog));
        let adapted = self.adapted.insert(adapted);
        self.is_current = true;
        (!is_current).then(|| adapted.specs.clone())
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
        let cut = |text: &str| text[..text.floor_char_boundary(MAX_NOTE_BYTES)].to_owned();
        let (description, schema) = (cut(&newer.description), cut(newer.schema.as_str()));
        Some(format!(
            "The tool {name} changed. From now on its arguments are {schema} and its server \
             describes it so: {description}"
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
