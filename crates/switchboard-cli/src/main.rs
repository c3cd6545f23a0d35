//! The `switchboard` program: reads the command line, runs one command, turns its outcome into an
//! exit code.

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use arguments::{Arguments, Command};
use failure::Failure;

/// A server that is in no file.
mod ad_hoc_server;
/// What may be written on the command line.
mod arguments;
/// What last time's catalogs tell without starting anything.
mod cached_catalog;
/// `key=value` words, coerced by a tool's schema.
mod coerce;
/// One file for each command.
mod command;
/// The one place where errors become exit codes and lines on stderr.
mod failure;
/// What to try, in words.
mod hints;
/// Signals that end the run.
mod interrupt;
/// Diagnostics of the program itself, on stderr, without secrets.
mod logging;
/// What the host has to tell beside the answer.
mod notices;
/// The answer, on stdout.
mod output;
/// Folders and variables: all that is read from outside.
mod paths;
/// Spinners on a terminal.
mod progress;
/// The folders that servers are told of.
mod roots;
/// Binary parts of results, in files.
mod save_files;
/// From the command line's options to a running host.
mod setup;
/// The word that was probably meant.
mod suggestion;
/// The caller that sits at the terminal.
mod terminal;
/// Files of other programs that are not read.
mod unread_configs;
/// What a person sees, made from plain data.
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
        Command::Login(args) => command::login::run(&options, &args),
        Command::Logout(args) => command::logout::run(&options, &args),
        Command::Doctor(args) => command::doctor::run(&options, &args),
        Command::Logs(args) => command::logs::run(&options, &args),
        Command::Completions(args) => command::completions::run(&args),
        Command::Demo => command::demo::run(&options),
    }
}
