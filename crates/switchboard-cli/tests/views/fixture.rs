//! Files of each dialect over scripted servers, and programs of our own under the names that
//! documents use.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::{Value, json};
use switchboard_testkit::{Chaos, Launch};

use crate::support::{Home, ProgramOutput};

/// A person's folders, with a folder of programs that comes first in PATH.
pub struct Fixture {
    pub home: Home,
    variables: Vec<(String, String)>,
}

impl Fixture {
    pub fn new() -> Self {
        let home = Home::new();
        std::fs::create_dir_all(home.path("bin")).unwrap();
        Self {
            home,
            variables: Vec::new(),
        }
    }

    /// A variable of the person's own.
    pub fn set(&mut self, name: &str, value: &str) {
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    /// Writes a file in the home folder, with the folders it needs.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.home.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.home.path(name)).unwrap()
    }

    /// A program of this name that is a shell script.
    pub fn program(&self, name: &str, script: &str) {
        let path = self.write(&format!("bin/{name}"), &format!("#!/bin/sh\n{script}\n"));
        std::fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    }

    /// A program of this name that is a scripted server, whatever its arguments are.
    pub fn server(&self, name: &str, chaos: &Chaos) {
        let script = self.write(&format!("{name}.json"), &chaos.json());
        let chaosd = switchboard_testkit::program("chaosd");
        self.program(
            name,
            &format!("exec '{}' '@{}'", chaosd.display(), script.display()),
        );
    }

    pub fn run(&self, words: &[&str]) -> ProgramOutput {
        let mut command = self.home.command(words);
        let path = format!(
            "{}:{}",
            self.home.path("bin").display(),
            std::env::var("PATH").unwrap_or_default()
        );
        command
            .env("PATH", path)
            .envs(self.variables.iter().map(|(name, value)| (name, value)));
        ProgramOutput::of(&command.output().unwrap())
    }
}

/// A launch as the entry of a JSON file.
pub fn entry(launch: &Launch) -> Value {
    json!({ "command": launch.command.to_str().unwrap(), "args": launch.args })
}

/// A server with one tool that answers.
pub fn good() -> Chaos {
    Chaos::new().tool("ok", switchboard_testkit::Step::text("fine"))
}

/// `{"mcpServers": …}`.
pub fn gemini(servers: Value) -> String {
    json!({ "mcpServers": servers }).to_string()
}
