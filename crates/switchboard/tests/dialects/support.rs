//! A host over one file of a dialect, and a server that writes down how it was started.

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

/// The longest that anything here may take, on a machine that is busy with other things.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A folder with a file in it, and what its servers leave there.
pub(crate) struct Stage {
    pub(crate) scratch: Scratch,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self {
            scratch: Scratch::new(),
        }
    }

    /// A program with the tool `ok`, which writes down its environment and its user before anything
    /// else. Returns its path.
    pub(crate) fn server(&self, name: &str) -> String {
        self.server_that(name, Chaos::new().tool("ok", Step::text("fine")))
    }

    /// The same, with what it does.
    pub(crate) fn server_that(&self, name: &str, does: Chaos) -> String {
        let launch = does
            .record(self.scratch.path(&format!("{name}.record")))
            .launch();
        let [script] = &launch.args[..] else {
            panic!("{launch:?}")
        };
        let left = self.scratch.path(name).display().to_string();
        // What the kernel was handed, before the shell adds anything.
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
        assert!(host.settled(PATIENCE).await);
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

    /// The process that a server was started as.
    pub(crate) fn pid(&self, server: &str) -> i32 {
        std::fs::read_to_string(self.scratch.path(&format!("{server}.pid")))
            .unwrap()
            .trim()
            .parse()
            .unwrap()
    }

    /// What a server received so far.
    pub(crate) fn record(&self, server: &str) -> Record {
        Record::read(&self.scratch.path(&format!("{server}.record")))
    }
}

/// Calls a tool, said yes to beforehand.
pub(crate) async fn call(
    host: &Host,
    tool: &str,
    arguments: serde_json::Value,
) -> Result<String, String> {
    let call = Call::new(tool, arguments)
        .caller(Arc::new(Headless(CallerId::new("tester"))))
        .pre_approved()
        .timeout(PATIENCE);
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
