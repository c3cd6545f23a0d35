//! The `switchboard` program: parses the command line, runs one command, and turns its outcome into
//! an exit code.

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use arguments::{Arguments, Command};
use failure::Failure;

/// A server given on the command line with `--server`.
mod ad_hoc_server;
/// The agent's own tools.
mod agent_tools;
/// The options and commands of the command line.
mod arguments;
/// Catalogs cached by earlier runs: used to find servers and for completion, without starting
/// anything.
mod cached_catalog;
/// The MCP clients whose files `install` and `import` know.
mod clients;
/// `key=value` arguments, converted by a tool's schema.
mod coerce;
/// One file for each command.
mod command;
/// Errors as exit codes and lines on stderr.
mod failure;
/// Hints: the next step for a person, as text.
mod hints;
/// Signals that end the run.
mod interrupt;
/// Tracing output on stderr, without secrets.
mod logging;
/// Host events printed on stderr.
mod notices;
/// Output on stdout and stderr.
mod output;
/// Folders, files and environment variables of this run.
mod paths;
/// The spinner, on a terminal.
mod progress;
/// The roots that are offered to servers.
mod roots;
/// Saves binary parts of results to files.
mod save_files;
/// From the options to a running host.
mod setup;
/// "Did you mean …?".
mod suggestion;
/// The caller at the terminal.
mod terminal;
/// Reports configuration files of other programs that are not read.
mod unread_configs;
/// Views: plain data turned into text.
mod view;
/// The folder that the user's own servers run in.
mod working_folder;

fn main() -> ExitCode {
    switchboard::launcher_main();
    if let Some(options) = command::demo::server_options() {
        return switchboard_demo::main_stdio(options);
    }
    clap_complete::CompleteEnv::with_factory(Arguments::command)
        .var(command::completions::VARIABLE)
        .complete();
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return failure::exit_with_usage_error(&error),
    };
    let json = arguments.options.json;
    failure::exit(run(arguments), json)
}

fn run(arguments: Arguments) -> Result<u8, Failure> {
    let Arguments { options, command } = arguments;
    logging::start(options.verbosity());
    let command = command.unwrap_or_default();
    hints::start(&options, &command);
    match command {
        Command::Status(args) => command::status::run(&options, &args),
        Command::Tools(args) => command::tools::run(&options, &args),
        Command::Call(args) => command::call::run(&options, &args),
        Command::Chat(args) => command::chat::run(&options, &args),
        Command::Run(args) => command::run::run(&options, &args),
        Command::Replay(args) => command::replay::run(&options, &args),
        Command::Serve(args) => command::serve::run(&options, &args),
        Command::Resources(args) => command::resources::run(&options, &args),
        Command::Read(args) => command::read::run(&options, &args),
        Command::Prompts(args) => command::prompts::run(&options, &args),
        Command::Prompt(args) => command::prompt::run(&options, &args),
        Command::Complete(args) => command::complete::run(&options, &args),
        Command::Watch(args) => command::watch::run(&options, &args),
        Command::Trust(args) => command::trust::run(&options, &args),
        Command::Permissions(args) => command::permissions::run(&options, &args),
        Command::Why(args) => command::why::run(&options, &args),
        Command::Add(args) => command::edit::add(&options, args),
        Command::Remove(args) => command::edit::remove(&options, &args),
        Command::Enable(args) => command::edit::enable(&options, &args, true),
        Command::Disable(args) => command::edit::enable(&options, &args, false),
        Command::Install(args) => command::install::install(&options, &args),
        Command::Uninstall(args) => command::install::uninstall(&options, &args),
        Command::Import(args) => command::import::run(&options, &args),
        Command::Login(args) => command::login::run(&options, &args),
        Command::Logout(args) => command::logout::run(&options, &args),
        Command::Doctor(args) => command::doctor::run(&options, &args),
        Command::Logs(args) => command::logs::run(&options, &args),
        Command::Completions(args) => command::completions::run(&args),
        Command::Attach(args) => command::attach::run(&options, &args),
        Command::Approvals(args) => command::approvals::run(&options, &args),
        Command::Reload => command::reload::run(&options),
        Command::Token(args) => command::token::run(&options, &args),
        Command::Demo(args) => command::demo::run(&options, &args),
    }
}
