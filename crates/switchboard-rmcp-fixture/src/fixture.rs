//! The fixture's features: tools, resources, a prompt, completion, subscriptions.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::*;
use rmcp::service::{Peer, RequestContext, RoleServer, SubscriptionContext};
use rmcp::{ErrorData, ServerHandler};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::asking;

const COUNTER: &str = "fixture://counter";
const TEXT: &str = "fixture://text";
const NAMES: [&str; 3] = ["Ada", "Alan", "Grace"];

/// The server that all connections share.
#[derive(Clone)]
pub(crate) struct Fixture {
    versions: Cow<'static, [ProtocolVersion]>,
    shared: Arc<Shared>,
}

struct Shared {
    /// What `fixture://counter` shows; modern listeners watch it.
    counter: watch::Sender<u64>,
    /// Legacy peers that subscribed to it.
    subscribers: Mutex<Vec<Peer<RoleServer>>>,
    /// How many slow calls were stopped before their end.
    stopped: AtomicU64,
}

impl Fixture {
    pub(crate) fn new(versions: Cow<'static, [ProtocolVersion]>) -> Self {
        let shared = Shared {
            counter: watch::Sender::new(0),
            subscribers: Mutex::default(),
            stopped: AtomicU64::new(0),
        };
        Self {
            versions,
            shared: Arc::new(shared),
        }
    }

    async fn count_up(&self) -> u64 {
        self.shared.counter.send_modify(|count| *count += 1);
        let subscribers = self
            .shared
            .subscribers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        for subscriber in subscribers {
            // A peer that has disconnected is skipped.
            let _ = subscriber
                .notify_resource_updated(ResourceUpdatedNotificationParam::new(COUNTER))
                .await;
        }
        *self.shared.counter.borrow()
    }

    /// Works in steps with progress, until it is cancelled.
    async fn work(&self, seconds: f64, steps: u32, context: &RequestContext<RoleServer>) -> String {
        struct Running<'a>(&'a AtomicU64, bool);
        impl Drop for Running<'_> {
            fn drop(&mut self) {
                if !self.1 {
                    self.0.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        // Also counts a call that the SDK drops instead of cancelling it.
        let mut running = Running(&self.shared.stopped, false);
        for step in 1..=steps {
            tokio::select! {
                () = context.ct.cancelled() => return "stopped".to_owned(),
                () = tokio::time::sleep(Duration::from_secs_f64(seconds / f64::from(steps))) => {}
            }
            if let Some(token) = context.meta.get_progress_token() {
                let progress = ProgressNotificationParam::new(token, f64::from(step))
                    .with_total(f64::from(steps));
                let _ = context.peer.notify_progress(progress).await;
            }
        }
        running.1 = true;
        format!("worked for {seconds} s")
    }
}

fn tools() -> Vec<Tool> {
    let tool = |name: &'static str, description: &'static str, properties: Value| {
        let Value::Object(schema) = json!({"type": "object", "properties": properties}) else {
            return Tool::default();
        };
        Tool::new(name, description, Arc::new(schema))
    };
    vec![
        tool(
            "echo",
            "returns its message",
            json!({"message": {"type": "string"}}),
        ),
        tool(
            "slow",
            "takes its time, with progress",
            json!({"seconds": {"type": "number"}, "steps": {"type": "integer"}}),
        ),
        tool(
            "stopped",
            "says how many slow calls were stopped",
            json!({}),
        ),
        tool("count_up", "lets fixture://counter count", json!({})),
        tool(
            "ask",
            "asks for a name",
            json!({"message": {"type": "string"}}),
        ),
        tool(
            "sample",
            "asks the peer's model",
            json!({"prompt": {"type": "string"}}),
        ),
        tool("roots", "asks for the peer's folders", json!({})),
    ]
}

fn words(text: impl Into<String>) -> CallToolResponse {
    CallToolResult::success(vec![ContentBlock::text(text.into())]).into()
}

#[allow(deprecated)] // legacy subscriptions are what a part of this is for
impl ServerHandler for Fixture {
    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        self.versions.clone()
    }

    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_prompts()
            .enable_completions()
            .build();
        ServerConfig::new(capabilities).with_server_info(Implementation::new("rmcp-fixture", "1"))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let argument = |name: &str| {
            request
                .arguments
                .as_ref()
                .and_then(|arguments| arguments.get(name))
        };
        let text = |name: &str| {
            argument(name)
                .and_then(Value::as_str)
                .unwrap_or("nothing")
                .to_owned()
        };
        Ok(match &*request.name {
            "echo" => words(text("message")),
            "slow" => {
                let seconds = argument("seconds").and_then(Value::as_f64).unwrap_or(1.0);
                let steps = argument("steps")
                    .and_then(Value::as_u64)
                    .and_then(|steps| u32::try_from(steps).ok())
                    .unwrap_or(5);
                words(self.work(seconds, steps.max(1), &context).await)
            }
            "stopped" => words(format!(
                "{} stopped",
                self.shared.stopped.load(Ordering::Relaxed)
            )),
            "count_up" => words(format!("the counter stands at {}", self.count_up().await)),
            "ask" => return asking::elicit(&request, &context, text("message")).await,
            "sample" => return asking::sample(&request, &context, text("prompt")).await,
            "roots" => return asking::roots(&request, &context).await,
            name => {
                return Err(ErrorData::invalid_params(
                    format!("unknown tool {name:?}"),
                    None,
                ));
            }
        })
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(vec![
            Resource::new(TEXT, "text"),
            Resource::new(COUNTER, "counter"),
        ]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let text = match request.uri.as_str() {
            TEXT => "a text of the fixture".to_owned(),
            COUNTER => self.shared.counter.borrow().to_string(),
            uri => {
                return Err(ErrorData::resource_not_found(
                    format!("no resource {uri}"),
                    None,
                ));
            }
        };
        Ok(ReadResourceResult::new(vec![ResourceContents::text(text, request.uri)]).into())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let name = PromptArgument::new("name").with_required(true);
        Ok(ListPromptsResult::with_all_items(vec![Prompt::new(
            "greet",
            Some("asks for a greeting"),
            Some(vec![name]),
        )]))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let name = request
            .arguments
            .as_ref()
            .and_then(|arguments| arguments.get("name"))
            .and_then(Value::as_str);
        let text = format!("Greet {}.", name.unwrap_or("nobody"));
        Ok(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, text)]).into())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let fits = |name: &&&str| {
            name.to_lowercase()
                .starts_with(&request.argument.value.to_lowercase())
        };
        let values = NAMES
            .iter()
            .filter(fits)
            .map(|name| (*name).to_owned())
            .collect();
        let info =
            CompletionInfo::new(values).map_err(|error| ErrorData::internal_error(error, None))?;
        Ok(CompleteResult::new(info))
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if request.uri == COUNTER {
            self.shared
                .subscribers
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(context.peer);
        }
        Ok(())
    }

    async fn unsubscribe(
        &self,
        _: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        // Only one peer at a time subscribes.
        self.shared
            .subscribers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
        Ok(())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(requested.supported_by(&self.get_info().capabilities))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut counter = self.shared.counter.subscribe();
        // The acknowledgement was sent already, so a change since then is reported, perhaps twice.
        if *counter.borrow_and_update() > 0 {
            let _ = context.sink().notify_resource_updated(COUNTER).await;
        }
        loop {
            tokio::select! {
                () = context.cancelled() => return Ok(()),
                changed = counter.changed() => {
                    if changed.is_err() {
                        return Ok(());
                    }
                    // Not every listener asked for it.
                    let _ = context.sink().notify_resource_updated(COUNTER).await;
                }
            }
        }
    }
}
