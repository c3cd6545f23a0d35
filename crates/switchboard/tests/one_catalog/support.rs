//! A host with scripted servers of any dialect, a host tool, and their caller.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use switchboard::call::{Call, CallError};
use switchboard::caller::{Approval, BoxFuture, Caller};
use switchboard::config::{self, ConfigFile, Dialect, Environment, Scope};
use switchboard::host_tools::{HostTool, HostToolDefinition};
use switchboard::launch::Launcher;
use switchboard::result::CallResult;
use switchboard::wire::RawJson;
use switchboard::{Host, HostBuilder};
use switchboard_host_testkit::TestCaller;
use switchboard_testkit::{Chaos, Entry, Record, Scratch};

/// The longest that any step may take, on a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) struct TestHost {
    pub(crate) host: Host,
    pub(crate) scratch: Scratch,
}

impl TestHost {
    /// Servers in this order, each of its dialect; `tables` come before them in the file.
    pub(crate) async fn open(
        tables: &str,
        servers: &[(Dialect, &str, Chaos)],
        more: impl FnOnce(HostBuilder) -> HostBuilder,
    ) -> Self {
        let scratch = Scratch::new();
        let entry = |(_, name, chaos): &(Dialect, &str, Chaos)| {
            chaos.clone().record(scratch.path(name)).entry(name)
        };
        let entries: Vec<_> = servers.iter().map(entry).collect();
        let dialects: Vec<_> = servers.iter().map(|(dialect, ..)| *dialect).collect();
        let host = start(&scratch, tables, &entries, &dialects, more).await;
        Self { host, scratch }
    }

    /// As [`open`](Self::open), with every server settled.
    pub(crate) async fn settled(
        tables: &str,
        servers: &[(Dialect, &str, Chaos)],
        more: impl FnOnce(HostBuilder) -> HostBuilder,
    ) -> Self {
        let test = Self::open(tables, servers, more).await;
        assert!(test.host.wait_until_settled(TIMEOUT).await);
        test
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.host
            .catalog()
            .tools()
            .iter()
            .map(|tool| tool.exposed.to_string())
            .collect()
    }

    /// Waits until a name is on offer.
    pub(crate) async fn appears(&self, name: &str) {
        let mut events = self.host.events();
        let shown = async {
            while !self.names().iter().any(|known| known == name) {
                events.next().await;
            }
        };
        tokio::time::timeout(TIMEOUT, shown)
            .await
            .unwrap_or_else(|_| panic!("{name} is not on offer: {:?}", self.names()));
    }

    pub(crate) fn record(&self, server: &str) -> Record {
        Record::read(&self.scratch.path(server))
    }

    /// The params of each `tools/call` that a server received, without `_meta`.
    pub(crate) fn calls(&self, server: &str) -> Vec<Value> {
        let params = |params: Option<Box<serde_json::value::RawValue>>| {
            let mut params: Value = serde_json::from_str(params.unwrap().get()).unwrap();
            // `_meta` describes the transport of a call, not the call.
            params.as_object_mut().unwrap().remove("_meta");
            params
        };
        self.record(server)
            .with_method("tools/call")
            .into_iter()
            .map(|message| params(message.params))
            .collect()
    }

    pub(crate) async fn call(
        &self,
        tool: &str,
        arguments: Value,
        caller: &Arc<TestCaller>,
    ) -> Result<CallResult, CallError> {
        self.host
            .call_with(Call::new(tool, arguments).caller(caller.clone() as Arc<dyn Caller>))
            .await
    }

    /// The text for a model of a call that is approved.
    pub(crate) async fn text_for_model(&self, tool: &str, arguments: Value) -> String {
        let result = self
            .call(tool, arguments, &caller_that_answers(Approval::Once))
            .await
            .unwrap_or_else(CallResult::from);
        let text = result.untrusted_text().unwrap().raw().to_owned();
        if result.is_error() {
            format!("error: {text}")
        } else {
            text
        }
    }
}

pub(crate) async fn start(
    scratch: &Scratch,
    tables: &str,
    entries: &[Entry],
    dialects: &[Dialect],
    more: impl FnOnce(HostBuilder) -> HostBuilder,
) -> Host {
    let path = scratch.config_with(tables, entries);
    let mut config = config::load(&[ConfigFile::new(path, Scope::User)]).unwrap();
    for (server, dialect) in config.servers.values_mut().zip(dialects) {
        Arc::make_mut(server).dialect = *dialect;
    }
    let launcher = Launcher::start(switchboard_testkit::program("switchboard-launcher")).unwrap();
    let environment = Environment::new(std::env::vars().filter(|(name, _)| name == "PATH"));
    more(
        HostBuilder::new(config)
            .environment(environment)
            .launcher(launcher),
    )
    .start()
    .await
    .unwrap()
}

/// A caller that gives the same answer to every request for approval.
pub(crate) fn caller_that_answers(answer: Approval) -> Arc<TestCaller> {
    TestCaller::new("person").approves(answer).arc()
}

/// A host tool that returns its arguments, and counts its calls.
pub(crate) struct EchoTool {
    pub(crate) name: &'static str,
    pub(crate) ran: Arc<AtomicUsize>,
}

impl EchoTool {
    pub(crate) fn new(name: &'static str) -> (Self, Arc<AtomicUsize>) {
        let ran = Arc::<AtomicUsize>::default();
        (
            Self {
                name,
                ran: ran.clone(),
            },
            ran,
        )
    }
}

impl HostTool for EchoTool {
    fn definition(&self) -> HostToolDefinition {
        let properties = json!({"text": {"type": "string"}});
        HostToolDefinition::new(
            self.name,
            "Says it.",
            json!({"type": "object", "properties": properties, "required": ["text"]}),
        )
    }

    fn call<'a>(
        &'a self,
        arguments: &'a RawJson,
        _: &'a Arc<dyn Caller>,
    ) -> BoxFuture<'a, Result<CallResult, String>> {
        Box::pin(async move {
            self.ran.fetch_add(1, Ordering::Relaxed);
            let text = arguments.to_value().unwrap()["text"]
                .as_str()
                .unwrap()
                .to_owned();
            match text.as_str() {
                "fail" => Err("it did not work".to_owned()),
                "wait" => std::future::pending().await,
                text => Ok(CallResult::success(format!("own: {text}"))),
            }
        })
    }
}
