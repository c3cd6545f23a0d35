//! The `switchboard` program: reads the command line, runs one command, turns its outcome into an
//! exit code.

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use arguments::{Arguments, Command};
use failure::Failure;

/// What may be written on the command line.
mod arguments;
/// `key=value` words, coerced by a tool's schema.
mod coerce;
/// One file for each command.
mod command;
/// The one place where errors become exit codes and lines on stderr.
mod failure;
/// The folder that the user's own servers run in.
mod folder;
/// Files of other programs that are not read.
mod foreign;
/// What to try, in words.
mod hints;
/// Signals that end the run.
mod interrupt;
/// Diagnostics of the program itself, on stderr, without secrets.
mod logging;
/// The word that was probably meant.
mod nearest;
/// What the host has to tell beside the answer.
mod notices;
/// A server that is in no file.
mod on_the_fly;
/// From the command line's options to a running host.
mod opening;
/// The answer, on stdout.
mod output;
/// Folders and variables: all that is read from outside.
mod place;
/// Spinners on a terminal.
mod progress;
/// What last time's catalogs tell without starting anything.
mod remembered;
/// The folders that servers are told of.
mod roots;
/// Binary parts of results, in files.
mod saving;
/// The caller that sits at the terminal.
mod terminal;
/// What a person sees, made from plain data.
mod view;

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
        Err(error) => return failure::usage(&error),
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
        Command::Status(wanted) => command::status::run(&options, &wanted),
        Command::Tools(wanted) => command::tools::run(&options, &wanted),
        Command::Call(wanted) => command::call::run(&options, &wanted),
        Command::Resources(wanted) => command::resources::run(&options, &wanted),
        Command::Read(wanted) => command::read::run(&options, &wanted),
        Command::Prompts(wanted) => command::prompts::run(&options, &wanted),
        Command::Prompt(wanted) => command::prompt::run(&options, &wanted),
        Command::Complete(wanted) => command::complete::run(&options, &wanted),
        Command::Watch(wanted) => command::watch::run(&options, &wanted),
        Command::Trust(wanted) => command::trust::run(&options, &wanted),
        Command::Permissions(wanted) => command::permissions::run(&options, &wanted),
        Command::Why(wanted) => command::why::run(&options, &wanted),
        Command::Add(added) => command::edit::add(&options, added),
        Command::Remove(named) => command::edit::remove(&options, &named),
        Command::Enable(named) => command::edit::enable(&options, &named, true),
        Command::Disable(named) => command::edit::enable(&options, &named, false),
        Command::Login(wanted) => command::login::run(&options, &wanted),
        Command::Logout(wanted) => command::logout::run(&options, &wanted),
        Command::Doctor(wanted) => command::doctor::run(&options, &wanted),
        Command::Logs(wanted) => command::logs::run(&options, &wanted),
        Command::Completions(wanted) => command::completions::run(&wanted),
        Command::Demo => command::demo::run(&options),
    }
}
