//! A host with one file of a dialect, and a server that records how it was started.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

use switchboard::call::Call;
use switchboard::caller::{CallerId, Headless};
use switchboard::config::{self, Config, ConfigFile, Dialect, Environment, Scope};
use switchboard::launch::Launcher;
use switchboard::server::{Snapshot, State};
use switchboard::{Host, HostBuilder};
use switchboard_testkit::{Chaos, Record, Scratch, Step};

/// The longest that any step may take, on a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// A folder with a file, and the records of its servers.
pub(crate) struct TestHost {
    pub(crate) scratch: Scratch,
}

impl TestHost {
    pub(crate) fn new() -> Self {
        Self {
            scratch: Scratch::new(),
        }
    }

    /// A program with the tool `ok`, which records its environment and its user before anything
    /// else. Returns its path.
    pub(crate) fn server(&self, name: &str) -> String {
        self.server_that(name, Chaos::new().tool("ok", Step::text("fine")))
    }

    /// Like [`server`](Self::server), with this script.
    pub(crate) fn server_that(&self, name: &str, does: Chaos) -> String {
        let launch = does
            .record(self.scratch.path(&format!("{name}.record")))
            .launch();
        let [script] = &launch.args[..] else {
            panic!("{launch:?}")
        };
        let left = self.scratch.path(name).display().to_string();
        // The environment that the kernel passed, before the shell adds anything.
        let text = format!(
            "#!/bin/sh\ncat /proc/$$/environ > '{left}.environ'\nid -u > '{left}.user'\necho $$ > '{left}.pid'\nexec '{}' '{script}'\n",
            launch.command.display()
        );
        let path = self.scratch.write(&format!("{name}.sh"), &text);
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        path.display().to_string()
    }

    pub(crate) fn load(&self, dialect: Dialect, name: &str, text: &str) -> Config {
        let file = ConfigFile {
            dialect: Some(dialect),
            ..ConfigFile::new(self.scratch.write(name, text), Scope::Given)
        };
        config::load(&[file]).unwrap()
    }

    /// Starts a host over a file, with these variables.
    pub(crate) async fn host(
        &self,
        dialect: Dialect,
        name: &str,
        text: &str,
        variables: &[(&str, &str)],
    ) -> Host {
        let variables = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let launcher =
            Launcher::start(switchboard_testkit::program("switchboard-launcher")).unwrap();
        let builder = HostBuilder::new(self.load(dialect, name, text)).launcher(launcher);
        let host = builder
            .environment(Environment::new(variables))
            .start()
            .await
            .unwrap();
        assert!(host.wait_until_settled(TIMEOUT).await);
        host
    }

    /// The environment that a server was started with, by name.
    pub(crate) fn environment(&self, server: &str) -> Vec<(String, String)> {
        let text =
            std::fs::read_to_string(self.scratch.path(&format!("{server}.environ"))).unwrap();
        let pairs = text
            .split_terminator('\0')
            .map(|line| line.split_once('=').unwrap());
        let mut pairs: Vec<_> = pairs
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        pairs.sort();
        pairs
    }

    pub(crate) fn user(&self, server: &str) -> String {
        std::fs::read_to_string(self.scratch.path(&format!("{server}.user")))
            .unwrap()
            .trim()
            .to_owned()
    }

    /// The pid of a server's process.
    pub(crate) fn pid(&self, server: &str) -> i32 {
        std::fs::read_to_string(self.scratch.path(&format!("{server}.pid")))
            .unwrap()
            .trim()
            .parse()
            .unwrap()
    }

    /// The messages that a server has received so far.
    pub(crate) fn record(&self, server: &str) -> Record {
        Record::read(&self.scratch.path(&format!("{server}.record")))
    }
}

/// Calls a tool that is approved beforehand.
pub(crate) async fn call(
    host: &Host,
    tool: &str,
    arguments: serde_json::Value,
) -> Result<String, String> {
    let call = Call::new(tool, arguments)
        .caller(Arc::new(Headless(CallerId::new("tester"))))
        .pre_approved()
        .timeout(TIMEOUT);
    let result = host
        .call_with(call)
        .await
        .map_err(|error| error.to_string())?;
    Ok(result.for_person().unwrap().for_terminal().to_string())
}

pub(crate) fn snapshot(host: &Host, server: &str) -> Arc<Snapshot> {
    host.server(server).unwrap().snapshot()
}

#[track_caller]
pub(crate) fn assert_ready(host: &Host, server: &str) {
    let state = &snapshot(host, server).state;
    assert!(matches!(state, State::Ready { .. }), "{server}: {state}");
}
