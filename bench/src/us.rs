//! Switchboard doing the same work through its public API, as an embedder would: the gate asks
//! unless a rule allows, arguments are validated.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use switchboard::call::Call;
use switchboard::caller::{Caller, CallerId, Headless};
use switchboard::catalog::Catalog;
use switchboard::config::{
    Config, Dialect, Endpoint, Environment, HttpEndpoint, Mode, Protocol, RuleText, Scope,
    ServerConfig, Source, StdioEndpoint,
};
use switchboard::gate::{Decision, DecisionRequest, Gate, Grants};
use switchboard::launch::Launcher;
use switchboard::name::ServerName;
use switchboard::schema::Validators;
use switchboard::server::State;
use switchboard::store::{MemoryStore, Store};
use switchboard::wire::RawJson;
use switchboard::{Host, HostBuilder};

use crate::measure::{Contestant, DEMO_ARGUMENTS, ECHO_ARGUMENTS, Era, Fault, Tool};

/// How long servers may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A host with its caller.
#[derive(Clone)]
pub(crate) struct Us {
    pub(crate) host: Host,
    caller: Arc<dyn Caller>,
    /// The exposed names of the two tools of the first server.
    echo: Arc<str>,
    big: Arc<str>,
    echo_arguments: RawJson,
    no_arguments: RawJson,
}

/// The configuration of floor servers, one for each list of flags; the mode is `ask`, and a rule
/// allows each server.
pub(crate) fn config(servers: &[Vec<String>], protocol: Protocol) -> Result<Config, Fault> {
    let program = std::env::current_exe()?
        .to_str()
        .ok_or("the path of this program is not text")?
        .to_owned();
    let endpoint = |flags: &Vec<String>| {
        let args = std::iter::once(crate::server::MARKER.to_owned()).chain(flags.iter().cloned());
        Endpoint::Stdio(StdioEndpoint::new(&program, args))
    };
    entries(servers.iter().map(endpoint), protocol)
}

fn entries(endpoints: impl Iterator<Item = Endpoint>, protocol: Protocol) -> Result<Config, Fault> {
    let file = Arc::new(PathBuf::from("bench"));
    let mut config = Config::default();
    config.permissions.mode = Mode::Ask;
    for (index, endpoint) in endpoints.enumerate() {
        let name = ServerName::new(&format!("floor{index}"))?;
        let source = Source::new(file.clone(), index + 1, Scope::Given);
        let entry = ServerConfig {
            protocol,
            ..ServerConfig::new(name.clone(), source, endpoint)
        };
        config.permissions.allow.push(RuleText {
            text: name.to_string(),
            client: None,
            dialect: Dialect::Native,
            file: file.clone(),
            line: index + 1,
        });
        config.servers.insert(name, Arc::new(entry));
    }
    Ok(config)
}

/// The era of a run, as the configuration spells it.
pub(crate) fn protocol(era: Era) -> Protocol {
    match era {
        Era::Legacy => Protocol::Legacy,
        Era::Modern => Protocol::Modern,
    }
}

/// Starts a host with its launcher. Nothing waits for the servers here.
pub(crate) async fn start(config: Config, store: Arc<dyn Store>) -> Result<Host, Fault> {
    let builder = HostBuilder::new(config)
        .environment(Environment::new(std::env::vars()))
        .store(store)
        .launcher(Launcher::start(std::env::current_exe()?)?);
    Ok(builder.start().await?)
}

/// Waits until `servers` servers are Ready with what they listed just now, and the catalog shows
/// `tools` tools.
pub(crate) async fn listed(host: &Host, servers: usize, tools: usize) -> Result<(), Fault> {
    let mut events = host.events();
    let deadline = Instant::now() + START_TIMEOUT;
    loop {
        let snapshots: Vec<_> = host
            .servers()
            .iter()
            .map(|server| server.snapshot())
            .collect();
        let ready = snapshots
            .iter()
            .filter(|snapshot| matches!(snapshot.state, State::Ready { .. }) && !snapshot.cached)
            .count();
        if ready >= servers && host.catalog().tools().len() >= tools {
            return Ok(());
        }
        if let Some(State::Failed { error } | State::Backoff { error, .. }) = snapshots
            .iter()
            .map(|snapshot| &snapshot.state)
            .find(|state| matches!(state, State::Failed { .. } | State::Backoff { .. }))
        {
            return Err(format!("a floor server did not start: {error}").into());
        }
        if Instant::now() > deadline {
            return Err(format!(
                "after {START_TIMEOUT:?} only {ready} of {servers} servers are ready"
            )
            .into());
        }
        // Waits for an event, but not long: some changes send none.
        let _ = tokio::time::timeout(Duration::from_millis(5), events.next()).await;
    }
}

impl Us {
    /// Starts a host with one floor server and waits until it is listed.
    pub(crate) async fn start(
        flags: Vec<String>,
        era: Era,
        store: Arc<dyn Store>,
    ) -> Result<Self, Fault> {
        Self::on(
            start(config(&[flags], protocol(era))?, store).await?,
            ECHO_ARGUMENTS,
        )
        .await
    }

    /// Starts a host with the demo server at this URL and waits until it is listed.
    pub(crate) async fn connect(url: &str, era: Era) -> Result<Self, Fault> {
        let endpoint = Endpoint::Http(HttpEndpoint::new(url));
        let config = entries(std::iter::once(endpoint), protocol(era))?;
        Self::on(
            start(config, Arc::new(MemoryStore::default())).await?,
            DEMO_ARGUMENTS,
        )
        .await
    }

    /// Starts a host with a healthy server, the first, and others with one tool each, and waits until
    /// all are listed.
    pub(crate) async fn beside_others(
        endpoints: Vec<Endpoint>,
        is_demo: bool,
    ) -> Result<Self, Fault> {
        let count = endpoints.len();
        let host = start(
            entries(endpoints.into_iter(), Protocol::Legacy)?,
            Arc::new(MemoryStore::default()),
        )
        .await?;
        listed(&host, count, count + 1).await?;
        Self::on(
            host,
            if is_demo {
                DEMO_ARGUMENTS
            } else {
                ECHO_ARGUMENTS
            },
        )
        .await
    }

    /// Calls a tool without arguments that must answer within this time.
    pub(crate) async fn call_within(&self, tool: &str, limit: Duration) -> Result<(), Fault> {
        let call = Call::new(tool, self.no_arguments.clone())
            .caller(self.caller.clone())
            .timeout(limit);
        self.host.call_with(call).await?;
        Ok(())
    }

    async fn on(host: Host, echo_arguments: &'static str) -> Result<Self, Fault> {
        listed(&host, 1, 2).await?;
        let catalog = host.catalog();
        let exposed = |wire: &str| -> Result<Arc<str>, Fault> {
            let tool = catalog
                .tools()
                .iter()
                .find(|tool| tool.id.tool.as_wire() == wire)
                .ok_or("a tool of the floor server is missing")?;
            Ok(tool.exposed.as_str().into())
        };
        Ok(Self {
            echo: exposed("echo")?,
            big: exposed("big")?,
            host,
            caller: Arc::new(Headless(CallerId::new("bench"))),
            echo_arguments: RawJson::parse(echo_arguments)?,
            no_arguments: RawJson::parse("{}")?,
        })
    }
}

impl Contestant for Us {
    async fn call(&self, tool: Tool) -> Result<usize, Fault> {
        let (name, arguments) = match tool {
            Tool::Echo => (&self.echo, &self.echo_arguments),
            Tool::Big => (&self.big, &self.no_arguments),
        };
        let call = Call::new(name.clone(), arguments.clone()).caller(self.caller.clone());
        Ok(self.host.call_with(call).await?.raw.as_bytes().len())
    }
}

/// The steps of a call that need no server: resolve, validate, decide. Returns the seconds of one
/// call.
///
/// The calls are spread over the whole catalog; over as many tools in a small one as in a large one,
/// so that the cost of the tools themselves is the same.
pub(crate) fn local_steps(config: &Config, catalog: &Catalog, calls: usize) -> Result<f64, Fault> {
    const SPREAD: usize = 8;
    let (gate, grants, validators) = (
        Gate::compile(config)?,
        Grants::default(),
        Validators::default(),
    );
    let (arguments, caller) = (RawJson::parse(ECHO_ARGUMENTS)?, CallerId::new("bench"));
    let step = (catalog.tools().len() / SPREAD).max(1);
    let names: Vec<&str> = catalog
        .tools()
        .iter()
        .step_by(step)
        .take(SPREAD)
        .map(|tool| tool.exposed.as_str())
        .collect();
    let walk_one = |name: &str| -> Result<(), Fault> {
        let tool = catalog
            .resolve(name)
            .map_err(|why| format!("{name} does not resolve: {why:?}"))?;
        validators.validate(
            tool.definition.hash,
            &tool.definition.input_schema,
            &arguments,
        )?;
        match gate.decide(
            DecisionRequest {
                tool,
                caller: &caller,
                pre_approved: false,
            },
            &grants,
        ) {
            Decision::Allow { .. } => Ok(()),
            other => Err(format!("{name} should be allowed by its rule, but: {other:?}").into()),
        }
    };
    // The first local_steps compiles each schema.
    names.iter().try_for_each(|name| walk_one(name))?;
    let start = Instant::now();
    for name in names.iter().cycle().take(calls) {
        walk_one(name)?;
    }
    Ok(start.elapsed().as_secs_f64() / calls as f64)
}
