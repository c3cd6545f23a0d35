//! A machine on which the documents' examples run: stand-ins for the programs that they name, and a
//! server on the network.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use switchboard_testkit::{Chaos, Step};

use crate::support::{DemoServer, Home, PROGRAM, ProgramOutput, Terminal};

/// A fresh folder, the stand-ins on its PATH, and variables.
pub(crate) struct Machine {
    home: Home,
    variables: Vec<(&'static str, &'static str)>,
    remote: DemoServer,
}

impl Machine {
    pub(crate) fn new() -> Self {
        let home = Home::new();
        let bin = home.path("bin");
        std::fs::create_dir_all(&bin).unwrap();
        let machine = Self {
            home,
            variables: Vec::new(),
            remote: DemoServer::start(),
        };
        let filesystem = Chaos::new()
            .tool("read_file", Step::text("hello from the disk"))
            .define("read_file", "description", r#""Reads a file""#)
            .define(
                "read_file",
                "inputSchema",
                r#"{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}"#,
            )
            .tool("write_file", Step::text("written"));
        let github = Chaos::new().tool("create_issue", Step::text("Issue created: #42"));
        let python = ["calculate_sum", "file_analyzer", "data_processor"];
        let python = python.iter().fold(Chaos::new(), |server, tool| {
            server.tool(tool, Step::text("done"))
        });
        let docker = Chaos::new()
            .tool("docker__deploy", Step::text("deployed"))
            .tool("docker__status", Step::text("up"));
        machine.stand_in("mcp-server-filesystem", &filesystem);
        machine.stand_in("python", &python);
        machine.stand_in("docker", &docker);
        // `npx` runs the stand-in of its package.
        let (files, issues) = (
            machine.script("filesystem", &filesystem),
            machine.script("github", &github),
        );
        machine.write_program(
            "npx",
            &format!("case \"$*\" in *server-github*) exec {issues} ;; *) exec {files} ;; esac"),
        );
        machine
    }

    /// Sets an environment variable.
    pub(crate) fn variable(mut self, name: &'static str, value: &'static str) -> Self {
        self.variables.push((name, value));
        self
    }

    /// Writes a file of the project.
    pub(crate) fn file(self, name: &str, text: &str) -> Self {
        let path = self.home.path("project").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    /// A program on the PATH that does this.
    pub(crate) fn program(self, name: &str, body: &str) -> Self {
        self.write_program(name, body);
        self
    }

    /// Where the server on the network listens.
    pub(crate) fn address(&self) -> &str {
        &self.remote.address
    }

    /// Runs these commands one after the other, and returns the transcript for a snapshot.
    pub(crate) fn transcript(&self, commands: &[&str]) -> String {
        commands
            .iter()
            .map(|line| self.shown(line))
            .collect::<Vec<_>>()
            .join("\n")
    }

    pub(crate) fn run(&self, words: &[&str]) -> ProgramOutput {
        let mut command = self.home.command(words);
        let path = format!(
            "{}:{}",
            self.home.path("bin").display(),
            std::env::var("PATH").unwrap_or_default()
        );
        command
            .env("PATH", path)
            .envs(self.variables.iter().copied());
        ProgramOutput::of(&command.output().unwrap())
    }

    /// The same, at a terminal.
    pub(crate) fn spawn_in_terminal(&self, words: &[&str]) -> Terminal {
        let path = format!(
            "PATH={}:{}",
            self.home.path("bin").display(),
            std::env::var("PATH").unwrap_or_default()
        );
        let variables = self.variables.iter();
        let variables: Vec<_> = variables
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let all: Vec<&str> = ["env", &path]
            .into_iter()
            .chain(variables.iter().map(String::as_str))
            .chain([PROGRAM])
            .chain(words.iter().copied())
            .collect();
        self.home.spawn_in_terminal(&all)
    }

    /// A file of this machine.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path(name)
    }

    /// One command with its output; parts that differ between runs are replaced.
    fn shown(&self, line: &str) -> String {
        let words: Vec<&str> = line.split(' ').collect();
        let ProgramOutput {
            code,
            stdout,
            stderr,
        } = self.run(&words);
        let mut text = format!("$ switchboard {line}\n{stdout}");
        if !stderr.is_empty() {
            text.push_str(&format!("stderr:\n{stderr}"));
        }
        if code != Some(0) {
            text.push_str(&format!("exit code: {}\n", code.unwrap_or(-1)));
        }
        let folder = self.home.folder.path().canonicalize().unwrap();
        text.replace(&folder.display().to_string(), "HOME")
            .replace(&self.home.folder.path().display().to_string(), "HOME")
            .replace(&self.remote.address, "http://REMOTE")
            .replace(", in less than a second", ", …")
            .replace(", under way", ", …")
    }

    pub(crate) fn stand_in(&self, name: &str, server: &Chaos) {
        let script = self.script(name, server);
        self.write_program(name, &format!("exec {script}"));
    }

    /// The same, and each start of it is counted.
    pub(crate) fn counted(&self, name: &str, server: &Chaos) {
        let (script, starts) = (
            self.script(name, server),
            self.path(&format!("{name}.starts")),
        );
        self.write_program(
            name,
            &format!("echo >> {}; exec {script}", starts.display()),
        );
    }

    /// How often a counted server was started.
    pub(crate) fn starts(&self, name: &str) -> usize {
        std::fs::read_to_string(self.path(&format!("{name}.starts")))
            .unwrap_or_default()
            .lines()
            .count()
    }

    /// The command line of a server whose script stands in a file.
    fn script(&self, name: &str, server: &Chaos) -> String {
        let launch = server.launch();
        let path: PathBuf = self.home.path("bin").join(format!("{name}.json"));
        std::fs::write(&path, &launch.args[0]).unwrap();
        format!("{} \"$(cat {})\"", launch.command.display(), path.display())
    }

    fn write_program(&self, name: &str, body: &str) {
        let path = self.home.path("bin").join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    }
}
