//! A host for one test, its callers, and helpers to wait.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use switchboard::call::{Call, CallError};
use switchboard::caller::{Caller, CallerCapabilities};
use switchboard::config::{self, ConfigFile, Scope};
use switchboard::launch::Launcher;
use switchboard::result::CallResult;
use switchboard::server::ServerHandle;
use switchboard::session::ProtocolDeviations;
use switchboard::wire::RawJson;
use switchboard::{Host, HostBuilder};
use switchboard_host_testkit::TestCaller;
use switchboard_testkit::script::Flip;
pub(crate) use switchboard_testkit::until;
use switchboard_testkit::{Chaos, Entry, Launch, Record, Scratch, program};

/// The longest that any step may take, on a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(120);

/// How much later than promised an event may be observed.
pub(crate) const ALLOWANCE: Duration = Duration::from_secs(1);

/// The deadline of most calls in these tests.
pub(crate) const DEADLINE: Duration = Duration::from_millis(300);

/// A host, and the folder of its configuration and records.
pub(crate) struct TestHost {
    pub(crate) host: Host,
    pub(crate) scratch: Scratch,
}

impl TestHost {
    /// Starts a host in mode `yolo` and waits until every server is settled.
    pub(crate) async fn open(scratch: Scratch, servers: &[Entry]) -> Self {
        Self::open_with(scratch, "[permissions]\nmode = \"yolo\"\n", servers).await
    }

    /// As [`open`](Self::open), with these tables instead of the mode.
    pub(crate) async fn open_with(scratch: Scratch, tables: &str, servers: &[Entry]) -> Self {
        let test = Self::start(scratch, tables, servers).await;
        assert!(
            test.host.wait_until_settled(TIMEOUT).await,
            "the servers do not settle"
        );
        test
    }

    /// Starts a host without waiting.
    pub(crate) async fn start(scratch: Scratch, tables: &str, servers: &[Entry]) -> Self {
        let path = scratch.config_with(tables, servers);
        let config = config::load(&[ConfigFile::new(path, Scope::Given)]).unwrap();
        let launcher =
            Launcher::start(switchboard_testkit::program("switchboard-launcher")).unwrap();
        let offers = CallerCapabilities {
            elicit_form: true,
            elicit_url: true,
            ..CallerCapabilities::default()
        };
        let builder = HostBuilder::new(config)
            .launcher(launcher)
            .capabilities(offers);
        Self {
            host: builder.start().await.unwrap(),
            scratch,
        }
    }

    /// A call of the default caller, without arguments.
    pub(crate) async fn call(&self, tool: &str) -> Result<CallResult, CallError> {
        self.host
            .call_with(call(tool, &(person("somebody").arc() as _)))
            .await
    }

    /// The error of a call that must fail, and how long it took.
    pub(crate) async fn failure(&self, tool: &str) -> (String, Duration) {
        let began = Instant::now();
        let error = self.call(tool).await.expect_err(tool);
        (error.to_string(), began.elapsed())
    }

    /// The text of a call that must succeed.
    pub(crate) async fn text(&self, tool: &str) -> String {
        text(
            &self
                .call(tool)
                .await
                .unwrap_or_else(|error| panic!("{tool}: {error}")),
        )
    }

    pub(crate) fn server(&self, name: &str) -> ServerHandle {
        self.host.server(name).unwrap()
    }

    /// The deviations of a connected server.
    pub(crate) fn deviations(&self, server: &str) -> ProtocolDeviations {
        self.server(server)
            .snapshot()
            .session
            .as_ref()
            .expect("the server is up")
            .deviations()
    }

    /// The first failure of a server, from its history; it may be connected again by now.
    pub(crate) async fn error(&self, server: &str) -> String {
        let message = || {
            let history = self.server(server).snapshot().history.clone();
            history.iter().find_map(|(_, line)| {
                line.strip_prefix("backoff after failure 1: ")
                    .map(str::to_owned)
            })
        };
        until("the server has failed", || message().is_some()).await;
        message().unwrap()
    }

    /// The record of a server with this name.
    pub(crate) fn record(&self, name: &str) -> Record {
        Record::read(&self.scratch.path(name))
    }
}

/// A server called `chaos` that records its messages in `seen`, and has a short call deadline.
pub(crate) fn chaos(scratch: &Scratch, server: &Chaos) -> Entry {
    server
        .clone()
        .record(scratch.path("seen"))
        .entry("chaos")
        .set("call_timeout", "300ms")
}

/// As [`Chaos::entry`], for a script too long for an argument.
pub(crate) fn by_file(scratch: &Scratch, name: &str, server: &Chaos) -> Entry {
    let script = scratch.write(&format!("{name}.json"), &server.json());
    Entry::new(
        name,
        &Launch::new(program("chaosd")).arg(format!("@{}", script.display())),
    )
}

/// Another description of this tool, once the file exists.
pub(crate) fn flip(tool: &str, when: &Path) -> Flip {
    Flip {
        after_file: Some(when.to_owned()),
        ..flip_to(tool, "does something else")
    }
}

/// Another description of this tool, after this many lists.
pub(crate) fn flip_after_lists(tool: &str, lists: usize) -> Flip {
    Flip {
        after_lists: Some(lists),
        ..flip_to(tool, &format!("was listed {lists} times"))
    }
}

fn flip_to(tool: &str, description: &str) -> Flip {
    let description = serde_json::value::to_raw_value(description).unwrap();
    Flip {
        tool: tool.to_owned(),
        define: [("description".to_owned(), description)]
            .into_iter()
            .collect(),
        ..Flip::default()
    }
}

/// A call without arguments.
pub(crate) fn call(tool: &str, caller: &Arc<dyn Caller>) -> Call {
    call_with(tool, "{}", caller)
}

/// A call with arguments, as JSON.
pub(crate) fn call_with(tool: &str, arguments: &str, caller: &Arc<dyn Caller>) -> Call {
    let arguments = RawJson::parse(arguments.to_owned()).unwrap();
    Call::new(tool, arguments).caller(caller.clone())
}

/// The text for a model.
pub(crate) fn text(result: &CallResult) -> String {
    result.untrusted_text().unwrap().raw().to_owned()
}

/// Asserts that a deadline was met, and not undercut.
#[track_caller]
pub(crate) fn assert_on_time(took: Duration, deadline: Duration, what: &str) {
    assert!(
        took >= deadline && took <= deadline + ALLOWANCE,
        "{what} took {took:?} with a deadline of {deadline:?}"
    );
}

/// Runs the test of this name in a process of its own, to measure its memory. True in that process.
pub(crate) fn is_alone(test: &str) -> bool {
    const ALONE: &str = "SWITCHBOARD_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output = command
        .args(["--exact", test, "--nocapture"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(
        output.status.success() && message.contains("1 passed"),
        "{message}"
    );
    false
}

/// A caller of this name that supports forms and URLs.
pub(crate) fn person(name: &str) -> TestCaller {
    let offers = CallerCapabilities {
        elicit_form: true,
        elicit_url: true,
        ..CallerCapabilities::default()
    };
    let caller = TestCaller::new(name).capabilities(offers);
    caller.fills_in(serde_json::json!({"answer": name}))
}
