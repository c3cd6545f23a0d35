//! What is remembered of one launch between runs: its era, whether it asks questions, its
//! offerings.
//!
//! Remembering saves time and is never required: a store that fails costs a probe or an empty list.
//! The store may block, so it is used on blocking threads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::time::timeout;

use super::era::EraVerdict;
use crate::catalog::{
    Offerings, PromptDefinition, ResourceDefinition, TemplateDefinition, ToolDefinition,
};
use crate::config::Fingerprint;
use crate::name::ToolName;
use crate::secret::Redactor;
use crate::session::Era;
use crate::store::{Store, StoreError, StoreTable};
use crate::wire::RawJson;

/// How long a server waits for the store.
const READ_TIMEOUT: Duration = Duration::from_secs(1);

/// What a launch offered when it was last listed. May block.
pub fn remembered_offerings(store: &dyn Store, launch: Fingerprint) -> Option<Offerings> {
    let text = or_log(store.get(StoreTable::Catalogs, &launch.to_hex()))??;
    read_offerings(text)
}

/// How a launch behaved before.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct LaunchProfile {
    /// The era that worked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) era: Option<Era>,
    /// Whether a connection worked before `era` was forgotten.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) was_connected: bool,
    /// Whether the server has asked questions during a call.
    #[serde(default)]
    pub(super) asks: bool,
    /// The era that its handlers were found to need.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) verdict: Option<EraVerdict>,
    /// The era that each tool needs, for servers with a connection of each era. A tool that works
    /// with neither has the shared connection's era.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) tool_eras: BTreeMap<String, Era>,
    /// Whether the server could not be listed in time in an earlier run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) was_unlisted: bool,
}

impl LaunchProfile {
    /// The era to try first.
    pub(super) fn first_era(&self) -> Option<Era> {
        self.verdict.map(EraVerdict::era).or(self.era)
    }

    /// Whether no connection to the server has worked yet.
    pub(super) fn is_new(&self) -> bool {
        self.first_era().is_none() && !self.was_connected
    }

    /// The tools that need a different era than `era`.
    pub(super) fn other_era_tools(&self, era: Era) -> BTreeSet<ToolName> {
        let is_carried = self.verdict.is_some_and(EraVerdict::is_carried);
        self.tool_eras
            .iter()
            .filter(|(_, needed)| is_carried && **needed != era)
            .map(|(name, _)| ToolName::new(name))
            .collect()
    }

    /// Drops an expired verdict, so that the server is probed again.
    fn current(self, now: SystemTime) -> Self {
        match self.verdict {
            Some(verdict) if verdict.is_expired(now) => Self {
                era: Some(Era::Modern),
                verdict: None,
                tool_eras: BTreeMap::new(),
                ..self
            },
            _ => self,
        }
    }
}

/// The store's entries for one launch.
#[derive(Debug, Clone)]
pub(super) struct LaunchStore {
    store: Arc<dyn Store>,
    launch: Fingerprint,
}

impl LaunchStore {
    pub(super) fn new(store: Arc<dyn Store>, launch: Fingerprint) -> Self {
        Self { store, launch }
    }

    pub(super) async fn profile(self) -> LaunchProfile {
        let read = move || {
            let text = or_log(self.store.get(StoreTable::Eras, &self.launch.to_hex()))??;
            serde_json::from_str(&text).ok()
        };
        let profile: LaunchProfile = read_blocking(read).await.unwrap_or_default();
        profile.current(SystemTime::now())
    }

    pub(super) async fn store_profile(self, profile: LaunchProfile) {
        self.put(StoreTable::Eras, move || {
            serde_json::to_string(&profile).ok()
        })
        .await;
    }

    /// Remembers that the server could not be listed in time.
    pub(super) async fn store_unlisted(self) {
        let profile = self.clone().profile().await;
        if !profile.was_unlisted {
            let profile = LaunchProfile {
                was_unlisted: true,
                ..profile
            };
            self.store_profile(profile).await;
        }
    }

    pub(super) async fn offerings(self) -> Option<Offerings> {
        read_blocking(move || remembered_offerings(&*self.store, self.launch)).await
    }

    /// Leaves out definitions that contain a secret: approvals are bound to their hashes, so they
    /// cannot be redacted.
    pub(super) async fn store_offerings(self, offerings: Arc<Offerings>, redactor: Redactor) {
        self.put(StoreTable::Catalogs, move || {
            Some(write_offerings(&offerings, &redactor))
        })
        .await;
    }

    async fn put(self, table: StoreTable, text: impl FnOnce() -> Option<String> + Send + 'static) {
        let write = move || {
            let text = text()?;
            put_if_changed(&*self.store, table, &self.launch.to_hex(), &text)
        };
        // If the store panics, nothing was stored.
        let _ = tokio::task::spawn_blocking(write).await;
    }
}

/// Writes only if the value changed, so that starting a server does not rewrite its catalog.
pub(super) fn put_if_changed(
    store: &dyn Store,
    table: StoreTable,
    key: &str,
    text: &str,
) -> Option<()> {
    if or_log(store.get(table, key))?.as_deref() != Some(text) {
        or_log(store.put(table, key, text))?;
    }
    Some(())
}

/// Reads on a blocking thread with a time limit. `None` if the store panics or is too slow.
pub(super) async fn read_blocking<T: Send + 'static>(
    read: impl FnOnce() -> Option<T> + Send + 'static,
) -> Option<T> {
    timeout(READ_TIMEOUT, tokio::task::spawn_blocking(read))
        .await
        .ok()?
        .ok()?
}

pub(super) fn or_log<T>(answer: Result<T, StoreError>) -> Option<T> {
    answer
        .inspect_err(|error| {
            tracing::warn!("what is remembered of a server could not be read or written: {error}")
        })
        .ok()
}

/// The stored catalog of one server: the JSON objects as the server sent them.
#[derive(Deserialize)]
struct DecodedCatalog<'a> {
    #[serde(borrow, default)]
    tools: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    prompts: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    resources: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    templates: Vec<&'a RawValue>,
}

/// Writes what [`DecodedCatalog`] reads. Definitions that contain a secret are left out. Without
/// serde, which would parse each definition again.
fn write_offerings(offerings: &Offerings, redactor: &Redactor) -> String {
    let tools = offerings.tools.iter().map(|tool| &tool.raw);
    let prompts = offerings.prompts.iter().map(|prompt| &prompt.raw);
    let resources = offerings.resources.iter().map(|resource| &resource.raw);
    let templates = offerings.templates.iter().map(|template| &template.raw);
    let list = |json: &mut String, key: &str, items: &mut dyn Iterator<Item = &RawJson>| {
        json.push_str(key);
        let holds_none = |raw: &&RawJson| redactor.redact(raw.as_str()) == raw.as_str();
        for (index, raw) in items.filter(holds_none).enumerate() {
            json.push_str(if index == 0 { "" } else { "," });
            json.push_str(raw.as_str());
        }
    };
    let mut json = String::new();
    list(&mut json, r#"{"tools":["#, &mut { tools });
    list(&mut json, r#"],"prompts":["#, &mut { prompts });
    list(&mut json, r#"],"resources":["#, &mut { resources });
    list(&mut json, r#"],"templates":["#, &mut { templates });
    json.push_str("]}");
    json
}

fn read_offerings(text: String) -> Option<Offerings> {
    let bytes = Bytes::from(text);
    let read: DecodedCatalog<'_> = serde_json::from_slice(&bytes).ok()?;
    let mut offerings = Offerings::default();
    for raw in read.tools {
        match ToolDefinition::parse(&RawJson::share(&bytes, raw.get())) {
            Ok(tool) => offerings.tools.push(Arc::new(tool)),
            Err(withheld) => offerings.withheld.push(withheld),
        }
    }
    offerings.prompts = parsed(&bytes, &read.prompts, PromptDefinition::parse);
    offerings.resources = parsed(&bytes, &read.resources, ResourceDefinition::parse);
    offerings.templates = parsed(&bytes, &read.templates, TemplateDefinition::parse);
    Some(offerings)
}

fn parsed<T>(
    bytes: &Bytes,
    items: &[&RawValue],
    parse: fn(&RawJson) -> Result<T, String>,
) -> Vec<Arc<T>> {
    items
        .iter()
        .filter_map(|raw| parse(&RawJson::share(bytes, raw.get())).ok().map(Arc::new))
        .collect()
}

#[cfg(test)]
mod tests;
