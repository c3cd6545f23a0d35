//! The program that the official conformance suite tests: a host with one server, whose URL is the
//! last argument.
//!
//! The suite starts it as `conformance-client URL` and sets variables:
//! `MCP_CONFORMANCE_SCENARIO` names the scenario, `MCP_CONFORMANCE_PROTOCOL_VERSION` the revision
//! that the server speaks (the older suite sets none), and `MCP_CONFORMANCE_CONTEXT` holds what an
//! embedder would have in its configuration.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use switchboard::auth::{LoginPage, Opener, PageOutcome};
use switchboard::call::Call;
use switchboard::caller::{
    Approval, ApprovalRequest, BoxFuture, Caller, CallerCapabilities, CallerId, ElicitAnswer,
    Elicitation, ElicitationKind,
};
use switchboard::catalog::Tool;
use switchboard::config::{
    Config, Endpoint, HttpAuth, HttpEndpoint, OAuthGrant, Protocol, ServerConfig, Source,
};
use switchboard::name::ServerName;
use switchboard::secret::Secret;
use switchboard::server::State;
use switchboard::wire::RawJson;
use switchboard::{Host, HostBuilder};
use tempfile::NamedTempFile;
use tokio::task::JoinSet;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The name of the only server.
const SERVER: &str = "suite";

/// The client's metadata document. The suite knows this address, and does not fetch it.
const CLIENT_METADATA_URL: &str = "https://conformance-test.local/client-metadata.json";

/// The time limit of each step.
const TIMEOUT: Duration = Duration::from_secs(20);

/// What each scenario does once the server is ready; all others do [`Task::CallAll`].
const TASKS: [(&str, Task); 7] = [
    ("initialize", Task::Connect),
    ("request-metadata", Task::Connect),
    ("json-schema-ref-no-deref", Task::Connect),
    ("http-standard-headers", Task::UseAll),
    ("http-custom-headers", Task::CallAsScripted),
    ("json-schema-2020-12-preservation", Task::GiveBackSchema),
    ("sep-2322-client-request-state", Task::CallAllAtOnce),
];

#[derive(Clone, Copy)]
enum Task {
    /// Nothing more: connecting includes the handshake and the lists.
    Connect,
    /// One after the other, with arguments made from each tool's schema.
    CallAll,
    /// All at the same time.
    CallAllAtOnce,
    /// Every tool is called, every resource read, every prompt fetched.
    UseAll,
    /// The calls in the scenario's context.
    CallAsScripted,
    /// Calls one tool with the schema of another, byte for byte.
    GiveBackSchema,
}

/// The variable `MCP_CONFORMANCE_CONTEXT`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ScenarioContext {
    #[serde(rename = "toolCalls")]
    tool_calls: Vec<ScenarioCall>,
    client_id: Option<String>,
    client_secret: Option<String>,
    private_key_pem: Option<String>,
}

#[derive(Deserialize)]
struct ScenarioCall {
    name: String,
    arguments: Map<String, Value>,
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let url = std::env::args()
        .next_back()
        .ok_or("the last argument is the URL of the server")?;
    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO")?;
    let context: ScenarioContext = match std::env::var("MCP_CONFORMANCE_CONTEXT") {
        Ok(text) => serde_json::from_str(&text)?,
        Err(_) => ScenarioContext::default(),
    };
    let key = context
        .private_key_pem
        .as_deref()
        .map(key_file)
        .transpose()?;
    let config = config(&url, auth(&scenario, &context, key.as_ref()))?;
    let caller = Arc::new(Agent);
    let host = HostBuilder::new(config)
        .capabilities(caller.capabilities())
        .logins(Arc::new(Browser))
        .start()
        .await?;
    let outcome = run(
        &Run {
            host: host.clone(),
            caller,
            context,
        },
        &scenario,
    )
    .await;
    host.stop().await;
    outcome
}

/// One server at a URL, in the era that the suite tests.
fn config(url: &str, auth: HttpAuth) -> Result<Config, Failure> {
    let protocol = match std::env::var("MCP_CONFORMANCE_PROTOCOL_VERSION") {
        // Revisions are dates.
        Ok(version) if version.as_str() >= "2026-07-28" => Protocol::Modern,
        Ok(_) => Protocol::Legacy,
        Err(_) => Protocol::Auto,
    };
    let endpoint = Endpoint::Http(HttpEndpoint {
        auth,
        ..HttpEndpoint::new(url)
    });
    let server = ServerConfig {
        protocol,
        ..ServerConfig::new(ServerName::new(SERVER)?, Source::code(), endpoint)
    };
    Ok(Config::from_iter([server]))
}

/// The client's identity at an authorization server: from the context, or the metadata document.
fn auth(scenario: &str, context: &ScenarioContext, key: Option<&NamedTempFile>) -> HttpAuth {
    let alone = scenario.starts_with("auth/client-credentials");
    HttpAuth {
        grant: if alone {
            OAuthGrant::ClientCredentials
        } else {
            OAuthGrant::AuthorizationCode
        },
        client_id: context.client_id.clone(),
        client_secret: context.client_secret.clone().map(Secret::new),
        client_key: key.map(|file| file.path().display().to_string()),
        client_metadata_url: Some(CLIENT_METADATA_URL.to_owned()),
        ..HttpAuth::default()
    }
}

/// A configuration names the file of a key, never the key.
fn key_file(pem: &str) -> Result<NamedTempFile, Failure> {
    let mut file = NamedTempFile::new()?;
    file.write_all(pem.as_bytes())?;
    Ok(file)
}

async fn run(run: &Run, scenario: &str) -> Result<(), Failure> {
    let task = TASKS
        .iter()
        .find(|(name, _)| *name == scenario)
        .map_or(Task::CallAll, |(_, task)| *task);
    run.host.wait_until_settled(TIMEOUT).await;
    if !matches!(task, Task::Connect) {
        run.ready()?;
    }
    match task {
        Task::Connect => Ok(()),
        Task::CallAll => run.call_all().await,
        Task::CallAllAtOnce => run.call_all_at_once().await,
        Task::UseAll => run.use_all().await,
        Task::CallAsScripted => run.call_as_scripted().await,
        Task::GiveBackSchema => run.give_back_schema().await,
    }
}

/// The host, its caller and the context of the scenario.
struct Run {
    host: Host,
    caller: Arc<Agent>,
    context: ScenarioContext,
}

impl Run {
    /// Says why the server is not ready.
    fn ready(&self) -> Result<(), Failure> {
        match &self.host.servers()[0].snapshot().state {
            State::Ready { .. } => Ok(()),
            state => Err(format!("the server is not ready: {state:?}").into()),
        }
    }

    async fn call_all(&self) -> Result<(), Failure> {
        for tool in self.host.catalog().tools() {
            self.call(tool.id.tool.as_wire(), arguments_for(tool)?)
                .await?;
        }
        Ok(())
    }

    async fn call_all_at_once(&self) -> Result<(), Failure> {
        let mut calls = JoinSet::new();
        for tool in self.host.catalog().tools() {
            let call =
                Call::new(tool.exposed.as_str(), arguments_for(tool)?).caller(self.caller.clone());
            let host = self.host.clone();
            calls.spawn(async move { host.call_with(call).await });
        }
        while let Some(outcome) = calls.join_next().await {
            outcome??;
        }
        Ok(())
    }

    async fn use_all(&self) -> Result<(), Failure> {
        self.call_all().await?;
        let (server, caller): (_, Arc<dyn Caller>) =
            (ServerName::new(SERVER)?, self.caller.clone());
        for (_, offerings) in self.host.catalog().offerings() {
            for resource in &offerings.resources {
                self.host.read(&server, &resource.uri, &caller).await?;
            }
            for prompt in &offerings.prompts {
                let arguments: Map<_, _> = prompt
                    .arguments
                    .iter()
                    .map(|(name, ..)| (name.clone(), json!("text")))
                    .collect();
                self.host
                    .prompt(
                        &server,
                        &prompt.name,
                        &RawJson::from_value(&arguments),
                        &caller,
                    )
                    .await?;
            }
        }
        Ok(())
    }

    async fn call_as_scripted(&self) -> Result<(), Failure> {
        for ScenarioCall { name, arguments } in &self.context.tool_calls {
            // The host validates arguments, and `null` is not a boolean: it stands for no value.
            let arguments: Map<_, _> = arguments
                .clone()
                .into_iter()
                .filter(|(_, value)| !value.is_null())
                .collect();
            self.call(name, RawJson::from_value(&arguments)).await?;
        }
        Ok(())
    }

    async fn give_back_schema(&self) -> Result<(), Failure> {
        const ECHO: &str = "json_schema_echo";
        let catalog = self.host.catalog();
        let other = catalog
            .tools()
            .iter()
            .find(|tool| tool.id.tool.as_wire() != ECHO)
            .ok_or("there is no other tool")?;
        self.call(
            ECHO,
            RawJson::from_value(&json!({"schema": other.definition.input_schema})),
        )
        .await
    }

    async fn call(&self, tool: &str, arguments: RawJson) -> Result<(), Failure> {
        let call = Call::new(format!("{SERVER}/{tool}"), arguments)
            .caller(self.caller.clone())
            .timeout(TIMEOUT);
        let result = self.host.call_with(call).await?;
        println!("{tool}: {}", result.for_person()?.for_terminal_line());
        Ok(())
    }
}

/// Arguments that a tool takes: a value for each property that it requires.
fn arguments_for(tool: &Tool) -> Result<RawJson, Failure> {
    let schema = tool.definition.input_schema.to_value()?;
    let required: Vec<&str> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let wanted = |(name, _): &(String, Value)| required.contains(&name.as_str());
    Ok(RawJson::from_value(
        &values(&schema)
            .into_iter()
            .filter(wanted)
            .collect::<Map<_, _>>(),
    ))
}

/// A value for each property of an object's schema: its default, the first of its choices, or
/// something of its type.
fn values(schema: &Value) -> Map<String, Value> {
    let properties = schema["properties"].as_object().into_iter().flatten();
    properties
        .map(|(name, property)| (name.clone(), value(property)))
        .collect()
}

fn value(schema: &Value) -> Value {
    if let Some(value) = schema
        .get("default")
        .or_else(|| schema.get("const"))
        .or_else(|| schema["enum"].get(0))
    {
        return value.clone();
    }
    match schema["type"].as_str() {
        Some("boolean") => json!(true),
        Some("integer" | "number") => json!(1),
        Some("array") => json!([]),
        Some("object") => json!({}),
        _ => json!("text"),
    }
}

/// Who calls: says yes to every call, and fills in every form.
struct Agent;

impl Caller for Agent {
    fn id(&self) -> &CallerId {
        static ID: CallerId = CallerId::from_static("conformance");
        &ID
    }

    fn capabilities(&self) -> CallerCapabilities {
        CallerCapabilities {
            elicit_form: true,
            ..CallerCapabilities::default()
        }
    }

    fn approve<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, Approval> {
        Box::pin(async { Approval::Once })
    }

    fn elicit<'a>(&'a self, question: &'a Elicitation) -> BoxFuture<'a, ElicitAnswer> {
        Box::pin(async {
            match &question.kind {
                ElicitationKind::Form { schema, .. } => match schema.to_value() {
                    Ok(schema) => ElicitAnswer::Accept(values(&schema)),
                    Err(_) => ElicitAnswer::Cancel,
                },
                _ => ElicitAnswer::Decline,
            }
        })
    }
}

/// Whoever logs in: a browser that says yes to everything, and follows where that leads: in the end
/// back to the host.
#[derive(Debug)]
struct Browser;

impl Opener for Browser {
    fn open<'a>(&'a self, page: &'a LoginPage) -> BoxFuture<'a, PageOutcome> {
        Box::pin(async {
            match reqwest::get(page.url.clone()).await {
                Ok(_) => PageOutcome::Shown,
                Err(fault) => PageOutcome::Refused(format!("the page cannot be opened: {fault}")),
            }
        })
    }
}
