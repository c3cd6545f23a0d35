//! The open `subscriptions/listen` requests of modern clients, with their notifications.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use switchboard::revision::Era;

use crate::client_catalog::{ClientCatalog, ListKind};
use crate::outbound::Outbound;
use crate::params::SUBSCRIPTION_ID;
use crate::reply;
use crate::settings::ServerSelection;

/// The open `subscriptions/listen` requests, by their numbers.
pub(crate) type Listeners = Mutex<HashMap<u64, Arc<Listener>>>;

/// One open `subscriptions/listen` request of a modern client.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) selection: ServerSelection,
    /// The id of the request, as JSON: each notification names it.
    pub(crate) id: String,
    pub(crate) outbound: Outbound,
    pub(crate) filter: ListenFilter,
}

/// The notifications that a modern client asked for.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ListenFilter {
    tools_list_changed: bool,
    prompts_list_changed: bool,
    resources_list_changed: bool,
    pub(crate) resource_subscriptions: Vec<String>,
    /// Notifications of tasks are an extension: only who declares it may ask for them. None are sent,
    /// and the acknowledgement says so by leaving them out.
    pub(crate) task_ids: Option<IgnoredAny>,
}

/// The lists that changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ListChange {
    tools: bool,
    prompts: bool,
    resources: bool,
}

impl ListChange {
    pub(crate) fn between(old: &ClientCatalog, new: &ClientCatalog) -> Self {
        let differs = |kind| old.list(kind, Era::Legacy) != new.list(kind, Era::Legacy);
        Self {
            tools: differs(ListKind::Tools),
            prompts: differs(ListKind::Prompts),
            resources: differs(ListKind::Resources) || differs(ListKind::Templates),
        }
    }

    pub(crate) fn methods(self) -> impl Iterator<Item = &'static str> {
        [
            (self.tools, "notifications/tools/list_changed"),
            (self.prompts, "notifications/prompts/list_changed"),
            (self.resources, "notifications/resources/list_changed"),
        ]
        .into_iter()
        .filter_map(|(changed, method)| changed.then_some(method))
    }

    pub(crate) fn and(self, filter: &ListenFilter) -> Self {
        Self {
            tools: self.tools && filter.tools_list_changed,
            prompts: self.prompts && filter.prompts_list_changed,
            resources: self.resources && filter.resources_list_changed,
        }
    }
}

impl Listener {
    pub(crate) fn acknowledge(&self) {
        let filter = &self.filter;
        let mut accepted = serde_json::Map::new();
        for (is_accepted, key) in [
            (filter.tools_list_changed, "toolsListChanged"),
            (filter.prompts_list_changed, "promptsListChanged"),
            (filter.resources_list_changed, "resourcesListChanged"),
        ] {
            if is_accepted {
                accepted.insert(key.to_owned(), true.into());
            }
        }
        if !filter.resource_subscriptions.is_empty() {
            let uris = filter.resource_subscriptions.as_slice();
            accepted.insert("resourceSubscriptions".to_owned(), uris.into());
        }
        self.send(
            "notifications/subscriptions/acknowledged",
            json!({"notifications": accepted}),
        );
    }

    pub(crate) fn send(&self, method: &str, mut params: Value) {
        let id: Value = serde_json::from_str(&self.id).unwrap_or_default();
        params["_meta"] = json!({SUBSCRIPTION_ID: id});
        let params = params.to_string();
        // The same message that waits already says as much.
        self.outbound
            .send_once(reply::notification(method, params.as_bytes()));
    }
}
