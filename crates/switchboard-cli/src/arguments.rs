//! What may be written on the command line: options of every command, and the commands.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Args, Parser, Subcommand};
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter};

use switchboard::config::Dialect;

use crate::command::{
    call, complete, completions, doctor, edit, login, logout, logs, permissions, prompt, prompts,
    read, resources, status, tools, trust, watch, why,
};

/// Every MCP server you use, behind one gate.
#[derive(Debug, Parser)]
#[command(name = "switchboard", version, about = "Every MCP server you use, behind one gate", max_term_width = 100, after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) options: Options,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

const EXAMPLES: &str = "\
Examples:
  switchboard demo                              see it work, nothing to install
  switchboard                                   how every configured server stands
  switchboard tools                             what they offer
  switchboard call git/git_status repo_path=.   call one tool; starts only that server
  switchboard doctor                            start each server and say what is wrong

Exit codes:
  0 done · 1 the tool or server answered with an error · 2 usage, config, unknown tool or arguments
  3 server unreachable, died or timed out · 4 login needed · 5 denied or untrusted · 129, 130, 131, 143 ended by a signal";

/// Options that every command takes.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// Read this file only; its servers start without being asked about (repeatable, highest
    /// precedence first)
    #[arg(short, long, value_name = "FILE", global = true, action = ArgAction::Append, add = path_completer())]
    pub(crate) config: Vec<PathBuf>,
    /// What kind of files -c names, where their path and shape do not tell
    #[arg(long, value_name = "DIALECT", global = true, value_parser = dialects(), requires = "config")]
    pub(crate) dialect: Option<Dialect>,
    /// Print one JSON document; on failure, one JSON line on stderr
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Say more (-v, -vv, -vvv)
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,
    /// The same as -vv
    #[arg(long, global = true, alias = "debug_mode")]
    pub(crate) debug: bool,
    /// Let servers know this folder, where they ask for one (repeatable; none by default)
    #[arg(long, value_name = "DIR", global = true, action = ArgAction::Append, add = path_completer())]
    pub(crate) root: Vec<PathBuf>,
    /// How long to wait for servers; late ones are shown as connecting [default: 10; on a
    /// terminal, and for a first start that installs, until they answer]
    #[arg(long, value_name = "SECS", global = true, value_parser = seconds)]
    pub(crate) wait: Option<Duration>,
}

impl Options {
    /// How much to say: 0 is quiet.
    pub(crate) fn verbosity(&self) -> u8 {
        self.verbose.max(if self.debug { 2 } else { 0 })
    }
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// How every configured server stands (the default)
    Status(status::StatusArgs),
    /// What tools are on offer, and which are withheld and why
    Tools(tools::ToolsArgs),
    /// Call one tool, through the gate
    Call(call::CallArgs),
    /// What resources are on offer
    Resources(resources::ResourcesArgs),
    /// Read one resource
    Read(read::ReadArgs),
    /// What prompts are on offer
    Prompts(prompts::PromptsArgs),
    /// Get one prompt
    Prompt(prompt::PromptArgs),
    /// How the value of an argument of a prompt or template may go on
    Complete(complete::CompleteArgs),
    /// One line for each change of a resource, until Ctrl-C
    Watch(watch::WatchArgs),
    /// Look at the servers that a project's file wants to start, and accept them one by one
    Trust(trust::TrustArgs),
    /// Answers that are remembered for good: list them, take them back
    Permissions(permissions::PermissionsArgs),
    /// Where each value of a server's entry comes from, what it shadows, what it reads
    Why(why::WhyArgs),
    /// Write a server into your own switchboard.toml, or into the file that --file names
    Add(edit::AddArgs),
    /// Take a server out of the file
    Remove(edit::EditArgs),
    /// Let a server run that was disabled
    Enable(edit::EditArgs),
    /// Keep a server in the file, and from running
    Disable(edit::EditArgs),
    /// Log in to a server that asks for it
    Login(login::LoginArgs),
    /// Give a login back, and forget it
    Logout(logout::LogoutArgs),
    /// Start each server, time each step, and say what is wrong and what to try
    Doctor(doctor::DoctorArgs),
    /// What servers wrote to stderr, and what happened to them
    Logs(logs::LogsArgs),
    /// Print the completion script of a shell; server and tool names complete from last time
    Completions(completions::CompletionsArgs),
    /// Everything above on an embedded server, nothing to install
    Demo,
}

impl Default for Command {
    fn default() -> Self {
        Self::Status(status::StatusArgs::default())
    }
}

/// Reads the word of a dialect.
fn dialects() -> impl TypedValueParser<Value = Dialect> {
    let words = Dialect::ALL.map(|dialect| dialect.profile().name);
    PossibleValuesParser::new(words).map(|word| Dialect::parse(&word).unwrap_or_default())
}

/// Completes to paths that a shell reads as they stand.
pub(crate) fn path_completer() -> ArgValueCompleter {
    ArgValueCompleter::new(crate::cached_catalog::path_candidates)
}

/// Completes to configured server names. Never starts one.
pub(crate) fn server_names() -> ArgValueCandidates {
    ArgValueCandidates::new(crate::cached_catalog::server_candidates)
}

/// Completes to tool names of last time's catalogs. Never starts a server.
pub(crate) fn tool_names() -> ArgValueCandidates {
    ArgValueCandidates::new(crate::cached_catalog::tool_candidates)
}

/// Completes to `key=` for each argument of the tool on the line.
pub(crate) fn argument_names() -> ArgValueCandidates {
    ArgValueCandidates::new(crate::cached_catalog::argument_candidates)
}

/// Completes to addresses of resources that were listed last time.
pub(crate) fn resource_addresses() -> ArgValueCandidates {
    ArgValueCandidates::new(crate::cached_catalog::resource_candidates)
}

/// Completes to names of prompts that were listed last time.
pub(crate) fn prompt_names() -> ArgValueCandidates {
    ArgValueCandidates::new(crate::cached_catalog::prompt_candidates)
}

/// Reads seconds, whole or not: `10`, `0.5`.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let text = text.strip_suffix('s').unwrap_or(text);
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 1e9 => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("expected a number of seconds, such as 10 or 0.5".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    /// T6: the completer that comes with a path argument does not quote the names of files.
    #[test]
    fn t6_every_path_completes_through_our_own_completer() {
        fn check(command: &clap::Command) {
            for argument in command.get_arguments() {
                let by_itself = !matches!(
                    argument.get_value_hint(),
                    clap::ValueHint::Unknown | clap::ValueHint::Other
                );
                assert!(
                    !by_itself || argument.get::<ArgValueCompleter>().is_some(),
                    "{argument}"
                );
            }
            command.get_subcommands().for_each(check);
        }
        check(&Arguments::command());
    }

    #[test]
    fn s2_52_every_spelling_of_debug_gives_verbose_output() {
        for words in [
            &["--debug"][..],
            &["--debug_mode"],
            &["-vv"],
            &["status", "--debug_mode"],
        ] {
            let arguments = Arguments::try_parse_from(["switchboard"].iter().chain(words)).unwrap();
            assert_eq!(arguments.options.verbosity(), 2, "{words:?}");
        }
    }
}
