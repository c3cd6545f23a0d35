//! The tools that a model is offered: a list that only grows at its end.
//!
//! A vendor caches the beginning of a request, which contains the tools. So a tool keeps its place
//! for the whole conversation: new ones are appended, removed ones stay listed, and a call of them
//! fails. Tools beyond a limit (`budget`) are deferred: the model sees their names and loads them
//! with the tool `search_tools` (`search_tool`, `search`) or by calling them.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use switchboard::vendor::loosened_schema;
use switchboard::{RawJson, Vendor};

use crate::json::JsonText;
use crate::settings::{ModelSettings, ModelVendor};

pub use record::ToolListRecord;

pub mod budget;
mod record;
pub mod search;
pub mod search_tool;

#[cfg(test)]
mod tests;

/// A tool as it is offered to a model. Name and schema are already in a form that the vendor
/// accepts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// The name that the model calls.
    pub name: String,
    /// The server that has it, for the list of names. Empty for built-in tools.
    pub server: String,
    /// The server's own name for it; empty where only `name` is known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tool: String,
    /// What it does.
    pub description: String,
    /// The JSON schema of its arguments: an object.
    pub schema: JsonText,
}

/// What was done about a refused tool, with the vendor's words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolTreatment {
    /// It is sent with a simpler schema.
    Loosened {
        /// Why the schema was refused.
        words: String,
    },
    /// It is not sent.
    Withheld {
        /// Why it was refused.
        words: String,
    },
}

/// Whether the model sees a tool's definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolState {
    /// The definition is in each request.
    Loaded,
    /// Only its name is listed.
    Deferred,
    /// It was loaded and its server no longer offers it. The definition stays, a call fails.
    Gone,
}

/// A tool of the list.
#[derive(Debug, Clone)]
pub struct ListedTool {
    /// The tool, as the model sees it.
    pub spec: ToolSpec,
    /// Its current definition, if that changed after the model saw it. The one that was sent stays in
    /// its place, so that requests begin with the same bytes.
    pub newer: Option<Box<ToolSpec>>,
    /// What the model sees of it.
    pub state: ToolState,
}

impl ListedTool {
    /// Its current definition.
    pub fn current(&self) -> &ToolSpec {
        self.newer.as_deref().unwrap_or(&self.spec)
    }

    fn set_current(&mut self, spec: ToolSpec, was_sent: bool) {
        if !was_sent {
            self.spec = spec;
        } else {
            self.newer = (self.spec != spec).then(|| Box::new(spec));
        }
    }
}

/// All tools of a conversation.
#[derive(Debug, Clone, Default)]
pub struct ToolList {
    /// Every tool that was ever offered, in the order of arrival.
    tools: Vec<ListedTool>,
    by_name: HashMap<String, usize>,
    /// Indices of tools whose definition was loaded, in the order of loading. Only grows.
    loaded: Vec<usize>,
    /// How many of `loaded` were loaded when the conversation began; the others came later.
    initial: usize,
    /// Whether a request was sent: what is loaded from now on comes late.
    has_started: bool,
    /// The most tools that may be loaded.
    limit: Option<usize>,
}

/// What an update of the list changed, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolListChange {
    /// New tools, or tools that came back.
    pub added: Vec<String>,
    /// Tools with a new description or schema.
    pub changed: Vec<String>,
    /// Tools that are no longer offered.
    pub removed: Vec<String>,
}

/// Why a tool could not be loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// No tool has this name.
    #[error("there is no tool named \"{0}\"")]
    Unknown(String),
    /// Its server no longer offers it.
    #[error("the tool \"{0}\" is gone: its server no longer offers it")]
    Gone(String),
    /// The vendor takes no more tools.
    #[error(
        "\"{name}\" cannot be loaded: the vendor takes at most {limit} tools and that many are \
         loaded; use one of these, or start a new conversation"
    )]
    TooMany {
        /// The tool.
        name: String,
        /// The vendor's limit.
        limit: usize,
    },
}

/// The most tools that a vendor accepts in one request.
pub fn vendor_tool_limit(settings: &ModelSettings) -> Option<usize> {
    let is_openai = matches!(
        settings.vendor,
        ModelVendor::OpenAi | ModelVendor::OpenAiChat
    );
    match is_openai && !settings.is_vendors_own() {
        true => None,
        false => projection(settings).max_tools(),
    }
}

/// The form that definitions have for a model.
pub(crate) fn projection(settings: &ModelSettings) -> Vendor {
    match settings.vendor {
        ModelVendor::Gemini => Vendor::Gemini,
        ModelVendor::Demo => Vendor::Anthropic,
        // llama.cpp and similar servers speak three of the wires.
        _ if settings.is_on_this_machine() => Vendor::Local,
        ModelVendor::OpenAi => Vendor::OpenAi,
        ModelVendor::OpenAiChat => Vendor::OpenAiChat,
        ModelVendor::Anthropic => Vendor::Anthropic,
    }
}

/// The schema, reduced to the keywords that every vendor accepts.
fn loosened(schema: &JsonText) -> JsonText {
    let raw = RawJson::parse(schema.as_str().to_owned());
    let loose = raw.map(|raw| loosened_schema(&raw));
    let loose = loose
        .ok()
        .and_then(|loose| JsonText::parse(loose.as_str()).ok());
    loose.unwrap_or_else(|| schema.clone())
}

impl ToolList {
    /// An empty list with a limit on how many tools may be loaded.
    pub fn new(limit: Option<usize>) -> Self {
        Self {
            limit,
            ..Self::default()
        }
    }

    /// Updates the list with the tools that are offered now. `deferred` decides for each new tool
    /// whether only its name is listed; past the limit every new tool is deferred.
    pub fn update(
        &mut self,
        offered: Vec<ToolSpec>,
        mut deferred: impl FnMut(&ToolSpec) -> bool,
    ) -> ToolListChange {
        let mut change = ToolListChange::default();
        let mut is_offered = vec![false; self.tools.len()];
        for spec in offered {
            let name = spec.name.clone();
            let Some(&index) = self.by_name.get(&name) else {
                let is_deferred = deferred(&spec) || self.is_full();
                self.append(spec, is_deferred);
                change.added.push(name);
                continue;
            };
            if let Some(seen) = is_offered.get_mut(index) {
                *seen = true;
            }
            let tool = &mut self.tools[index];
            if tool.state == ToolState::Gone {
                tool.state = if self.loaded.contains(&index) {
                    ToolState::Loaded
                } else {
                    ToolState::Deferred
                };
                change.added.push(name);
            } else if *tool.current() != spec {
                change.changed.push(name);
            }
            tool.set_current(spec, self.has_started && self.loaded.contains(&index));
        }
        for (index, is_offered) in is_offered.into_iter().enumerate() {
            let tool = &mut self.tools[index];
            if !is_offered && tool.state != ToolState::Gone {
                tool.state = ToolState::Gone;
                change.removed.push(tool.spec.name.clone());
            }
        }
        change
    }

    /// Marks the beginning of the conversation: tools loaded after it are late tools. Must be called
    /// before the first request.
    pub fn start(&mut self) {
        if !std::mem::replace(&mut self.has_started, true) {
            self.initial = self.loaded.len();
        }
    }

    /// Loads a tool by its name. Returns whether it was deferred until now.
    pub fn load(&mut self, name: &str) -> Result<bool, LoadError> {
        let index = self.by_name.get(name).copied();
        let index = index.ok_or_else(|| LoadError::Unknown(name.to_owned()))?;
        match self.tools[index].state {
            ToolState::Loaded => Ok(false),
            ToolState::Gone => Err(LoadError::Gone(name.to_owned())),
            ToolState::Deferred if self.is_full() => Err(LoadError::TooMany {
                name: name.to_owned(),
                limit: self.loaded.len(),
            }),
            ToolState::Deferred => {
                self.tools[index].state = ToolState::Loaded;
                self.loaded.push(index);
                Ok(true)
            }
        }
    }

    /// The tool with this name.
    pub fn get(&self, name: &str) -> Option<&ListedTool> {
        let index = self.by_name.get(name)?;
        Some(&self.tools[*index])
    }

    /// Every tool that was ever offered, in the order of arrival.
    pub fn all(&self) -> &[ListedTool] {
        &self.tools
    }

    /// Tools whose definitions are in each request, in their fixed order.
    pub fn loaded(&self) -> impl Iterator<Item = &ToolSpec> {
        let tools = self.loaded.iter().map(|&index| &self.tools[index]);
        tools.map(|tool| &tool.spec)
    }

    /// Those that were loaded when the conversation began.
    pub fn initial(&self) -> impl Iterator<Item = &ToolSpec> {
        let count = if self.has_started {
            self.initial
        } else {
            self.loaded.len()
        };
        self.loaded().take(count)
    }

    /// Whether the tool was loaded after the conversation began.
    pub fn is_late(&self, name: &str) -> bool {
        let late = self.loaded.iter().skip(self.initial);
        let mut late = late.map(|&index| &self.tools[index].spec.name);
        self.has_started && late.any(|late| late == name)
    }

    /// Tools of which only the name is listed.
    pub fn deferred(&self) -> impl Iterator<Item = &ToolSpec> {
        let tools = self.tools.iter();
        let deferred = tools.filter(|tool| tool.state == ToolState::Deferred);
        deferred.map(|tool| &tool.spec)
    }

    /// The names of deferred tools, one line per server, for the system prompt.
    pub fn deferred_names(&self) -> String {
        let mut lines: Vec<(&str, Vec<&str>)> = Vec::new();
        for spec in self.deferred() {
            match lines.iter_mut().find(|(server, _)| *server == spec.server) {
                Some((_, names)) => names.push(&spec.name),
                None => lines.push((&spec.server, vec![&spec.name])),
            }
        }
        let lines = lines.into_iter().map(|(server, names)| {
            let server = if server.is_empty() {
                "built-in"
            } else {
                server
            };
            format!("{server}: {}", names.join(", "))
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// The list for one request: withheld tools are left out, loosened ones have a simpler schema.
    pub(crate) fn with_treatments(
        &self,
        treatment: impl Fn(&ToolSpec) -> Option<ToolTreatment>,
    ) -> Self {
        let mut list = self.clone();
        for (position, &index) in self.loaded.iter().enumerate().rev() {
            match treatment(&self.tools[index].spec) {
                None => {}
                Some(ToolTreatment::Loosened { .. }) => {
                    let spec = &mut list.tools[index].spec;
                    spec.schema = loosened(&spec.schema);
                }
                Some(ToolTreatment::Withheld { .. }) => {
                    list.loaded.remove(position);
                    list.initial -= usize::from(position < self.initial);
                }
            }
        }
        list
    }

    fn append(&mut self, spec: ToolSpec, is_deferred: bool) {
        let index = self.tools.len();
        self.by_name.insert(spec.name.clone(), index);
        let state = if is_deferred {
            ToolState::Deferred
        } else {
            self.loaded.push(index);
            ToolState::Loaded
        };
        let newer = None;
        self.tools.push(ListedTool { spec, newer, state });
    }

    /// Whether tools that are gone hold places that these tools need.
    pub(crate) fn is_filled_by_gone_tools(&self, offered: &[ToolSpec]) -> bool {
        let Some(limit) = self.limit else {
            return false;
        };
        let is_gone = |name: &str| {
            name != search_tool::SEARCH_TOOL && !offered.iter().any(|spec| spec.name == name)
        };
        let has_gone = || self.loaded().any(|spec| is_gone(&spec.name));
        let is_new = |spec: &&ToolSpec| !self.by_name.contains_key(&spec.name);
        self.loaded.len() + offered.iter().filter(is_new).count() > limit && has_gone()
    }

    fn is_full(&self) -> bool {
        self.limit.is_some_and(|limit| self.loaded.len() >= limit)
    }
}
