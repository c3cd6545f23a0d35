//! A client made with the official SDK: lists, makes the calls it is given, and prints what it saw as
//! one line of JSON.
//!
//! ```text
//! rmcp-client initialize|auto '{"command": …, "args": …} | {"url": …, "token": …}' '[["TOOL", {ARGUMENTS}], …]'
//! ```
//!
//! `initialize` begins with the legacy handshake, `auto` with `server/discover`. With `watch` in place
//! of the calls it prints the names of all tools, and again after each change that it is notified of,
//! until its stdin ends.
#![allow(deprecated)] // sampling and roots are part of what is checked

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write as _;
use std::process::{ExitCode, Stdio};

use rmcp::model::*;
use rmcp::service::{
    NotificationContext, RequestContext, RoleClient, RunningService, ServiceError, Subscription,
};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt as _, ErrorData};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt as _;
use tokio::sync::watch;

type Fault = Box<dyn Error>;
type Service = RunningService<RoleClient, Client>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // A closed stderr cannot be reported anywhere.
            let _ = writeln!(std::io::stderr(), "rmcp-client: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Fault> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [mode, target, calls] = arguments.as_slice() else {
        return Err("expected initialize|auto, the target and the calls".into());
    };
    let service = connect(serde_json::from_str(target)?, lifecycle(mode)?).await?;
    if calls == "watch" {
        watch_tools(&service).await?;
    } else {
        let report = call_all(&service, serde_json::from_str(calls)?).await?;
        print_line(&report)?;
    }
    service.cancel().await?;
    Ok(())
}

/// Where the server is: a command to start, or a URL.
#[derive(Deserialize)]
#[serde(untagged)]
enum Target {
    Http { url: String, token: String },
    Stdio { command: String, args: Vec<String> },
}

fn lifecycle(mode: &str) -> Result<ClientLifecycleMode, Fault> {
    match mode {
        "initialize" => Ok(ClientLifecycleMode::Initialize),
        "auto" => Ok(ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: None,
        }),
        _ => Err(format!("{mode}: expected initialize or auto").into()),
    }
}

async fn connect(target: Target, lifecycle: ClientLifecycleMode) -> Result<Service, Fault> {
    let client = Client::default();
    match target {
        Target::Http { url, token } => {
            // reqwest cannot be built without a provider, not even for plain HTTP.
            let _ = rustls::crypto::ring::default_provider().install_default();
            let config = StreamableHttpClientTransportConfig::with_uri(url).auth_header(token);
            let http = reqwest::Client::builder().build()?;
            let transport = StreamableHttpClientTransport::with_client(http, config);
            Ok(client.serve_with_lifecycle(transport, lifecycle).await?)
        }
        Target::Stdio { command, args } => {
            let mut process = tokio::process::Command::new(command);
            process.args(args);
            let (transport, _) = TokioChildProcess::builder(process)
                .stderr(Stdio::null())
                .spawn()?;
            Ok(client.serve_with_lifecycle(transport, lifecycle).await?)
        }
    }
}

/// What the client saw; the scripts of the other SDKs print the same fields.
#[derive(Default, Serialize)]
struct Report {
    elicited: Vec<String>,
    sampled: u64,
    progress: u64,
    tools: BTreeMap<String, Tool>,
    results: BTreeMap<String, CallToolResult>,
    cancelled: bool,
}

async fn call_all(service: &Service, calls: Vec<(String, JsonObject)>) -> Result<Report, Fault> {
    let tools = service.list_all_tools().await?;
    let mut results = BTreeMap::new();
    for (name, arguments) in calls {
        let result = service.call_tool(call(&name, arguments)).await?;
        results.insert(name, result);
    }
    let seen = service.service().seen.borrow().clone();
    // A call that is cancelled ends at once for its client, and the next one is answered.
    let cancelled = cancel_at_first_progress(service).await?;
    let arguments = JsonObject::from_iter([("message".into(), "after the cancelled call".into())]);
    let echo = service.call_tool(call("echo", arguments)).await?;
    results.insert("echo".into(), echo);
    Ok(Report {
        elicited: seen.elicited,
        sampled: seen.sampled,
        progress: seen.progress,
        tools: tools
            .into_iter()
            .map(|tool| (tool.name.to_string(), tool))
            .collect(),
        results,
        cancelled,
    })
}

fn call(name: &str, arguments: JsonObject) -> CallToolRequestParams {
    CallToolRequestParams::new(name.to_owned()).with_arguments(arguments)
}

/// Drops a call at its first progress notification, for which the SDK cancels the request. A request
/// sent with `send_cancellable_request` would not answer `input_required`.
async fn cancel_at_first_progress(service: &Service) -> Result<bool, Fault> {
    let arguments =
        JsonObject::from_iter([("duration".into(), 60.into()), ("steps".into(), 60.into())]);
    let mut seen = service.service().seen.subscribe();
    let before = seen.borrow_and_update().progress;
    tokio::select! {
        result = service.call_tool(call("trigger-long-running-operation", arguments)) => {
            result?;
            Ok(false)
        }
        seen = seen.wait_for(|seen| seen.progress > before) => Ok(seen.map(|_| true)?),
    }
}

async fn watch_tools(service: &Service) -> Result<(), Fault> {
    let is_modern = service
        .peer_info()
        .is_some_and(|info| info.protocol_version == ProtocolVersion::V_2026_07_28);
    let filter = SubscriptionFilter::builder().tools_list_changed().build();
    let mut subscription = if is_modern {
        Some(service.listen(filter).await?)
    } else {
        None
    };
    let mut seen = service.service().seen.subscribe();
    let mut stdin = tokio::io::stdin();
    loop {
        seen.mark_unchanged();
        let tools = service.list_all_tools().await?;
        print_line(&tools.iter().map(|tool| &tool.name).collect::<Vec<_>>())?;
        tokio::select! {
            read = stdin.read_u8() => {
                if read.is_err() {
                    return Ok(());
                }
            }
            changed = seen.changed() => changed?,
            ended = next_change(&mut subscription) => {
                if ended? {
                    return Err("the subscription ended".into());
                }
            }
        }
    }
}

/// Waits for the next notification of a subscription; true if the subscription has ended.
async fn next_change(subscription: &mut Option<Subscription>) -> Result<bool, ServiceError> {
    match subscription {
        Some(subscription) => Ok(subscription.next().await?.is_none()),
        None => std::future::pending().await,
    }
}

fn print_line(value: &impl Serialize) -> Result<(), Fault> {
    let mut line = serde_json::to_string(value)?;
    line.push('\n');
    let mut stdout = std::io::stdout();
    stdout.write_all(line.as_bytes())?;
    Ok(stdout.flush()?)
}

/// Answers the server's questions, and counts them.
#[derive(Default)]
struct Client {
    seen: watch::Sender<Seen>,
}

#[derive(Clone, Default)]
struct Seen {
    elicited: Vec<String>,
    sampled: u64,
    progress: u64,
    list_changes: u64,
}

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        let capabilities = ClientCapabilities::builder()
            .enable_elicitation()
            .enable_sampling()
            .enable_roots()
            .build();
        ClientConfig::new(capabilities, Implementation::new("rmcp", "1"))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        if let ElicitRequestParams::FormElicitationParams { message, .. } = request {
            self.seen.send_modify(|seen| seen.elicited.push(message));
        }
        Ok(ElicitResult::new(ElicitationAction::Decline))
    }

    async fn create_message(
        &self,
        _params: CreateMessageRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        self.seen.send_modify(|seen| seen.sampled += 1);
        let message = SamplingMessage::assistant_text("sampled");
        Ok(CreateMessageResult::new(message, "scripted".to_owned()))
    }

    async fn list_roots(
        &self,
        _context: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::new(vec![
            Root::new("file:///tmp").with_name("tmp"),
        ]))
    }

    async fn on_progress(
        &self,
        _params: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.seen.send_modify(|seen| seen.progress += 1);
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.seen.send_modify(|seen| seen.list_changes += 1);
    }
}
