//! The modern stream of changes: `subscriptions/listen` stays open and sends notifications under
//! the id it was opened with.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::demo::{Change, SERVER_INFO_KEY};
use crate::exchange::{Call, Outcome};
use crate::outgoing::{OutgoingBuffer, Replies};
use crate::resources;
use crate::rpc::{self, Body, Fault, write_notification, write_result};

const SUBSCRIPTION_KEY: &str = "io.modelcontextprotocol/subscriptionId";

/// One open stream.
#[derive(Debug)]
pub(crate) struct Listener {
    id: Box<RawValue>,
    replies: Replies,
    tools: bool,
    prompts: bool,
    uris: Vec<String>,
}

/// The notifications that the request asks for. Lists that never change have none.
#[derive(Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[derive(Default)]
struct Filter {
    tools_list_changed: bool,
    prompts_list_changed: bool,
    resource_subscriptions: Vec<String>,
}

/// Opens a stream: acknowledged at once, answered when it ends.
pub(crate) fn open(call: &Call<'_>) -> Result<Outcome, Fault> {
    let filter: Filter = rpc::read("notifications", call.params.notifications)?;
    let listener = Listener {
        id: RawValue::from_string(call.id.to_owned())
            .map_err(|error| Fault::invalid_request(error.to_string()))?,
        replies: call.replies.clone(),
        tools: filter.tools_list_changed,
        // Only the fixtures have prompts that change.
        prompts: filter.prompts_list_changed && call.peer.demo.options.has_fixtures,
        uris: filter
            .resource_subscriptions
            .into_iter()
            .filter(|uri| resources::exists(uri))
            .collect(),
    };
    let mut honoured = json!({});
    if listener.tools {
        honoured["toolsListChanged"] = json!(true);
    }
    if listener.prompts {
        honoured["promptsListChanged"] = json!(true);
    }
    if !listener.uris.is_empty() {
        honoured["resourceSubscriptions"] = json!(listener.uris);
    }
    listener.send(
        "notifications/subscriptions/acknowledged",
        json!({"notifications": honoured}),
    );
    call.peer.add_listener(listener);
    // Over HTTP each request has its own peer, which is not registered yet.
    call.peer.demo.add_peer(call.peer);
    Ok(Outcome::Later)
}

impl Listener {
    /// Whether the stream was opened by the request with this id.
    pub(crate) fn is(&self, id: &str) -> bool {
        self.id.get() == id
    }

    pub(crate) fn notify(&self, change: Change) {
        let is_wanted = match change {
            Change::Tools => self.tools,
            Change::Prompts => self.prompts,
            Change::Resource(wanted) => self.uris.iter().any(|uri| uri == wanted),
        };
        // Notifications to a peer that does not read are dropped, to bound memory.
        if is_wanted && !self.outlet().is_full() {
            let (method, params) = change.notification();
            self.send(method, params);
        }
    }

    /// Ends the stream with the response to its request.
    pub(crate) fn end(&self, server_info: &Value) {
        let meta = json!({SUBSCRIPTION_KEY: self.id, SERVER_INFO_KEY: server_info});
        let body = Body::from(json!({"resultType": "complete", "_meta": meta}));
        self.replies
            .settle(|out| write_result(out, self.id.get(), &body, ""));
    }

    fn send(&self, method: &str, mut params: Value) {
        params["_meta"] = json!({SUBSCRIPTION_KEY: self.id});
        self.outlet()
            .push(|out| write_notification(out, method, &params));
    }

    fn outlet(&self) -> &OutgoingBuffer {
        &self.replies.outlet
    }
}

impl Change {
    /// The notification, which is the same in both eras.
    pub(crate) fn notification(self) -> (&'static str, Value) {
        match self {
            Self::Tools => ("notifications/tools/list_changed", json!({})),
            Self::Prompts => ("notifications/prompts/list_changed", json!({})),
            Self::Resource(uri) => ("notifications/resources/updated", json!({"uri": uri})),
        }
    }
}
