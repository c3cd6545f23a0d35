//! The `switchboard` program: parses the command line, runs one command, and turns its outcome into
//! an exit code.

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use arguments::Arguments;
use failure::{Code, Failure};

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
/// The values of a configuration that must not be logged.
mod config_secrets;
/// Errors as exit codes and lines on stderr.
mod failure;
/// What a gateway writes down about itself, by which commands find it.
mod gateway_record;
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
/// A line split into words as a shell does.
mod shell_words;
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

// A ninth fewer instructions for a call through the gateway than with the allocator of the GNU C
// library (34,200 against 38,200 from HTTP to stdio, with 64 calls in flight).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

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
    let command = command.unwrap_or_default();
    let holds_notices = options.json && command.ends_by_itself();
    if holds_notices {
        output::hold_notices();
    }
    logging::start(options.verbosity(), holds_notices);
    hints::start(&options, &command);
    if options.dialect.is_some() && options.config.is_empty() && !command.has_file() {
        let fact = "--dialect is the dialect of a given file, and no file is given";
        return Err(Failure::new(Code::Usage, fact).hint("give the file with -c"));
    }
    command.run(&options)
}
