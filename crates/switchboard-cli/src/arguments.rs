//! The options and commands of the command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Args, Parser, Subcommand};
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter};

use switchboard::config::Dialect;

use crate::command::{
    approvals, attach, call, chat, complete, completions, demo, doctor, edit, import, install,
    login, logout, logs, permissions, prompt, prompts, read, reload, replay, resources, run, serve,
    status, token, tools, trust, watch, why,
};
use crate::failure::Failure;

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
  switchboard demo                              try it with built-in servers, nothing to install
  switchboard                                   the state of every configured server
  switchboard tools                             list their tools
  switchboard call git/git_status repo_path=.   call one tool; starts only that server
  switchboard chat                              talk to a model that has these tools
  switchboard run -p 'Which tests fail?'        ask a model that has these tools
  switchboard doctor                            start each server and report problems

Exit codes:
  0 done · 1 the tool or server answered with an error
  2 usage, config, unknown tool or invalid arguments
  3 server unreachable, died or timed out · 4 login needed · 5 denied or untrusted
  75 may work later (a model's vendor is overloaded, limits the rate or cannot be reached)
  129, 130, 131, 143 ended by a signal";

/// Options that every command takes.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Options {
    /// Read only this file and trust its servers for this run (repeatable, highest precedence
    /// first)
    #[arg(short, long, value_name = "FILE", global = true, action = ArgAction::Append, add = path_completer())]
    pub(crate) config: Vec<PathBuf>,
    /// Dialect of the files given with -c or --file, if path and content do not identify it
    #[arg(long, value_name = "DIALECT", global = true, value_parser = dialects())]
    pub(crate) dialect: Option<Dialect>,
    /// Print one JSON document; on failure, one JSON line on stderr
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print more details (-v, -vv, -vvv)
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,
    /// The same as -vv
    #[arg(long, global = true, alias = "debug_mode")]
    pub(crate) debug: bool,
    /// A folder to offer to servers that ask for roots, and to built-in tools in addition to the
    /// current one (repeatable)
    #[arg(long, value_name = "DIR", global = true, action = ArgAction::Append, add = path_completer())]
    pub(crate) root: Vec<PathBuf>,
    /// How long to wait for servers to connect [default: 10; on a terminal, or while a first start
    /// may be installing packages, the connect timeout of each server]
    #[arg(long, value_name = "SECS", global = true, value_parser = seconds)]
    pub(crate) wait: Option<Duration>,
}

impl Options {
    /// The level of detail: 0 is quiet.
    pub(crate) fn verbosity(&self) -> u8 {
        self.verbose.max(if self.debug { 2 } else { 0 })
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the state of every configured server (the default)
    Status(status::StatusArgs),
    /// List tools; withheld ones are listed with the reason
    Tools(tools::ToolsArgs),
    /// Call a tool, after the permission check
    Call(call::CallArgs),
    /// Talk to a model that can use the tools of all servers
    Chat(chat::ChatArgs),
    /// Send one request to a model that can use the tools of all servers, and print its answer
    Run(run::RunArgs),
    /// Rebuild each request of a recorded session, and report differences
    Replay(replay::ReplayArgs),
    /// Offer all servers as one MCP server, to the client that starts this command or over HTTP
    Serve(serve::ServeArgs),
    /// List resources and resource templates
    Resources(resources::ResourcesArgs),
    /// Read a resource
    Read(read::ReadArgs),
    /// List prompts
    Prompts(prompts::PromptsArgs),
    /// Get a prompt
    Prompt(prompt::PromptArgs),
    /// Complete the value of an argument of a prompt or resource template
    Complete(complete::CompleteArgs),
    /// Print a line for each change of a resource, until Ctrl-C
    Watch(watch::WatchArgs),
    /// Review the servers of a project's file, and accept them one by one
    Trust(trust::TrustArgs),
    /// List or revoke remembered approvals
    Permissions(permissions::PermissionsArgs),
    /// Show where each value of a server's entry comes from, what it overrides and which variables
    /// it reads
    Why(why::WhyArgs),
    /// Add a server to your own switchboard.toml, or to the file given with --file
    Add(edit::AddArgs),
    /// Remove a server from its file
    Remove(edit::EditArgs),
    /// Enable a disabled server
    Enable(edit::EditArgs),
    /// Disable a server without removing it
    Disable(edit::EditArgs),
    /// Write the gateway's entry into the files of MCP clients
    Install(install::InstallArgs),
    /// Remove the gateway's entry from the files of MCP clients
    Uninstall(install::UninstallArgs),
    /// Copy the servers of MCP clients' files into your own switchboard.toml
    Import(import::ImportArgs),
    /// Log in to a server that requires it
    Login(login::LoginArgs),
    /// Revoke and delete the login of a server
    Logout(logout::LogoutArgs),
    /// Start each server, time each step, and report problems with the next step
    Doctor(doctor::DoctorArgs),
    /// Show what servers wrote to stderr, and their history
    Logs(logs::LogsArgs),
    /// Print a completion script for a shell; server and tool names come from cached catalogs
    Completions(completions::CompletionsArgs),
    /// Connect the standard streams to the running gateway; starts one if none runs
    Attach(attach::AttachArgs),
    /// Show the calls that wait for approval at the running gateway, and answer them
    Approvals(approvals::ApprovalsArgs),
    /// Make the running gateway read its configuration again; accepts what it starts or allows, and lists it
    Reload,
    /// Create, list or revoke the tokens of clients that connect over HTTP
    Token(token::TokenArgs),
    /// Show status, approval and calls with built-in servers; nothing to install
    Demo(demo::DemoArgs),
}

impl Command {
    /// Whether it ends by itself. The others run until a person or a client ends them.
    pub(crate) fn ends_by_itself(&self) -> bool {
        !matches!(
            self,
            Self::Attach(_) | Self::Chat(_) | Self::Serve(_) | Self::Watch(_)
        )
    }

    /// Whether it changes a file that is given with `--file`.
    pub(crate) fn has_file(&self) -> bool {
        match self {
            Self::Add(args) => args.target_file.file.is_some(),
            Self::Remove(args) | Self::Enable(args) | Self::Disable(args) => {
                args.target_file.file.is_some()
            }
            _ => false,
        }
    }

    /// Runs the command, and returns the exit code.
    pub(crate) fn run(self, options: &Options) -> Result<u8, Failure> {
        match self {
            Self::Status(args) => status::run(options, &args),
            Self::Tools(args) => tools::run(options, &args),
            Self::Call(args) => call::run(options, &args),
            Self::Chat(args) => chat::run(options, &args),
            Self::Run(args) => run::run(options, &args),
            Self::Replay(args) => replay::run(options, &args),
            Self::Serve(args) => serve::run(options, &args),
            Self::Resources(args) => resources::run(options, &args),
            Self::Read(args) => read::run(options, &args),
            Self::Prompts(args) => prompts::run(options, &args),
            Self::Prompt(args) => prompt::run(options, &args),
            Self::Complete(args) => complete::run(options, &args),
            Self::Watch(args) => watch::run(options, &args),
            Self::Trust(args) => trust::run(options, &args),
            Self::Permissions(args) => permissions::run(options, &args),
            Self::Why(args) => why::run(options, &args),
            Self::Add(args) => edit::add(options, args),
            Self::Remove(args) => edit::remove(options, &args),
            Self::Enable(args) => edit::enable(options, &args, true),
            Self::Disable(args) => edit::enable(options, &args, false),
            Self::Install(args) => install::install(options, &args),
            Self::Uninstall(args) => install::uninstall(options, &args),
            Self::Import(args) => import::run(options, &args),
            Self::Login(args) => login::run(options, &args),
            Self::Logout(args) => logout::run(options, &args),
            Self::Doctor(args) => doctor::run(options, &args),
            Self::Logs(args) => logs::run(options, &args),
            Self::Completions(args) => completions::run(&args),
            Self::Attach(args) => attach::run(options, &args),
            Self::Approvals(args) => approvals::run(options, &args),
            Self::Reload => reload::run(options),
            Self::Token(args) => token::run(options, &args),
            Self::Demo(args) => demo::run(options, &args),
        }
    }
}

impl Default for Command {
    fn default() -> Self {
        Self::Status(status::StatusArgs::default())
    }
}

/// Parses the name of a dialect.
fn dialects() -> impl TypedValueParser<Value = Dialect> {
    let words = Dialect::ALL.map(|dialect| dialect.profile().name);
    PossibleValuesParser::new(words).map(|word| Dialect::parse(&word).unwrap_or_default())
}

/// Completes paths, and leaves out those that a shell would not read as one plain word.
pub(crate) fn path_completer() -> ArgValueCompleter {
    ArgValueCompleter::new(crate::cached_catalog::path_candidates)
}

/// Completes configured server names. Never starts a server.
pub(crate) fn server_names() -> ArgValueCandidates {
    ArgValueCandidates::new(crate::cached_catalog::server_candidates)
}

/// Completes tool names from cached catalogs. Never starts a server.
pub(crate) fn tool_names() -> ArgValueCandidates {
    ArgValueCandidates::new(crate::cached_catalog::tool_candidates)
}

/// Completes `key=` for each argument of the tool on the command line.
pub(crate) fn argument_names() -> ArgValueCandidates {
    ArgValueCandidates::new(crate::cached_catalog::argument_candidates)
}

/// Completes resource URIs from cached catalogs.
pub(crate) fn resource_addresses() -> ArgValueCandidates {
    ArgValueCandidates::new(crate::cached_catalog::resource_candidates)
}

/// Completes prompt names from cached catalogs.
pub(crate) fn prompt_names() -> ArgValueCandidates {
    ArgValueCandidates::new(crate::cached_catalog::prompt_candidates)
}

/// Parses seconds: `10`, `0.5`.
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

    #[test]
    fn no_example_of_the_help_is_wrapped_or_escaped() {
        fn check(command: &clap::Command) {
            let name = command.get_name();
            let text = command.get_after_help().map(ToString::to_string);
            let text = text.unwrap_or_default();
            let examples = text.lines().filter(|line| line.starts_with("  "));
            for line in examples {
                assert!(line.chars().count() <= 100, "{name}: {line}");
            }
            for argument in command.get_arguments() {
                let help = argument.get_help().map(ToString::to_string);
                assert!(
                    !help.unwrap_or_default().contains('\\'),
                    "{name}: {argument}"
                );
            }
            command.get_subcommands().for_each(check);
        }
        check(&Arguments::command());
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
