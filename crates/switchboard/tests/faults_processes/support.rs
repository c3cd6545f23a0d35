//! A host with scripted servers, in a folder of its own, whose processes can be found wherever they
//! are.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use switchboard::call::{Call, CallError};
use switchboard::caller::Headless;
use switchboard::config::{self, Config, ConfigFile, Environment, Scope};
use switchboard::launch::Launcher;
use switchboard::server::{Snapshot, State};
use switchboard::store::{MemoryStore, Store};
use switchboard::{Host, HostBuilder};
use switchboard_testkit::{Chaos, Entry, Process, Record, Scratch, Step, descendants_with_env};

/// The longest that any step may take, on a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// The environment of one test.
pub(crate) struct TestHost {
    pub(crate) scratch: Scratch,
    /// Kept from one host to the next.
    pub(crate) store: Arc<dyn Store>,
    /// The variables that references expand to, and that children get a part of.
    pub(crate) environment: Environment,
    pub(crate) name: String,
}

impl TestHost {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        Self {
            scratch: Scratch::new(),
            store: Arc::new(MemoryStore::default()),
            environment: Environment::new([("PATH".to_owned(), std::env::var("PATH").unwrap())]),
            name: format!(
                "{}-{}",
                std::process::id(),
                COUNT.fetch_add(1, Ordering::Relaxed)
            ),
        }
    }

    /// The entry of a server whose processes are found by [`of`](Self::of), and whose record by
    /// [`record`](Self::record).
    pub(crate) fn entry(&self, server: &str, chaos: Chaos) -> Entry {
        let chaos = chaos.record(self.record_file(server));
        chaos
            .entry(server)
            .env("CANARY", &self.canary(server))
            .env("STAGE", &self.name)
    }

    pub(crate) async fn host(&self, entries: &[Entry]) -> Host {
        self.host_of(self.scratch.config(entries)).await
    }

    /// With other tables than `[servers.…]`, and the mode `yolo`.
    pub(crate) async fn host_with(&self, tables: &str, entries: &[Entry]) -> Host {
        self.host_of(self.scratch.config_with(
            &format!("[permissions]\nmode = \"yolo\"\n{tables}"),
            entries,
        ))
        .await
    }

    pub(crate) async fn host_of(&self, file: PathBuf) -> Host {
        let config = config::load(&[ConfigFile::new(file, Scope::Given)]).unwrap();
        self.builder(config).start().await.unwrap()
    }

    pub(crate) fn builder(&self, config: Config) -> HostBuilder {
        let launcher =
            Launcher::start(switchboard_testkit::program("switchboard-launcher")).unwrap();
        HostBuilder::new(config)
            .environment(self.environment.clone())
            .store(self.store.clone())
            .launcher(launcher)
            .log_folder(self.scratch.path("state"))
    }

    /// The live processes of one server.
    pub(crate) fn of(&self, server: &str) -> Vec<Process> {
        descendants_with_env(&format!("CANARY={}", self.canary(server)))
    }

    /// The live processes of all servers.
    pub(crate) fn all(&self) -> Vec<Process> {
        descendants_with_env(&format!("STAGE={}", self.name))
    }

    /// The messages that the processes of a server have received so far.
    pub(crate) fn record(&self, server: &str) -> Record {
        Record::read(&self.record_file(server))
    }

    fn record_file(&self, server: &str) -> PathBuf {
        self.scratch.path(&format!("{server}.record"))
    }

    fn canary(&self, server: &str) -> String {
        format!("{}/{server}", self.name)
    }
}

/// A server that works.
pub(crate) fn good() -> Chaos {
    Chaos::new().tool("ok", Step::text("fine"))
}

/// A server that ignores the end of its input and SIGTERM.
pub(crate) fn stuck() -> Chaos {
    good().ignore_eof().ignore_term()
}

/// Calls `server/tool` without arguments; returns the whole result.
pub(crate) async fn result_of(host: &Host, tool: &str) -> Result<Value, CallError> {
    let call = Call::new(tool, json!({})).caller(Arc::new(Headless::new("test")));
    let result = tokio::time::timeout(TIMEOUT, host.call_with(call))
        .await
        .expect("every call ends")?;
    Ok(result.raw.to_value().unwrap())
}

/// Calls `server/tool` without arguments; returns its text.
pub(crate) async fn text_of(host: &Host, tool: &str) -> Result<String, CallError> {
    Ok(result_of(host, tool).await?["content"][0]["text"]
        .as_str()
        .unwrap()
        .to_owned())
}

pub(crate) async fn settled(host: &Host) {
    assert!(
        host.wait_until_settled(TIMEOUT).await,
        "{:#?}",
        states(host)
    );
}

pub(crate) fn snapshot(host: &Host, server: &str) -> Arc<Snapshot> {
    host.server(server).unwrap().snapshot()
}

/// Every server's name and state, as in its history.
pub(crate) fn states(host: &Host) -> Vec<(String, String)> {
    host.servers()
        .iter()
        .map(|server| {
            (
                server.config.name.to_string(),
                server.snapshot().state.to_string(),
            )
        })
        .collect()
}

pub(crate) fn is_ready(state: &State) -> bool {
    matches!(state, State::Ready { .. })
}

/// Waits until the server's state satisfies the condition.
pub(crate) async fn until_state(
    host: &Host,
    server: &str,
    wanted: impl Fn(&State) -> bool,
) -> Arc<Snapshot> {
    let mut events = host.events();
    let look = async {
        loop {
            let now = snapshot(host, server);
            if wanted(&now.state) {
                return now;
            }
            events.next().await;
        }
    };
    match tokio::time::timeout(TIMEOUT, look).await {
        Ok(now) => now,
        Err(_) => panic!("{server} is {:?}", snapshot(host, server).state),
    }
}

/// Polls for changes of other processes, for which there is no event.
pub(crate) async fn until(what: &str, limit: Duration, condition: impl Fn() -> bool) {
    let began = tokio::time::Instant::now();
    while !condition() {
        assert!(began.elapsed() < limit, "{what}: not within {limit:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The history without its times.
pub(crate) fn history(snapshot: &Snapshot) -> Vec<&str> {
    snapshot
        .history
        .iter()
        .map(|(_, happened)| happened.as_str())
        .collect()
}
