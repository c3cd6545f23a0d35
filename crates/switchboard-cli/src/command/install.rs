//! `install` and `uninstall`: write our entry into the files of MCP clients, and remove it again.

use clap::Args;
use clap::builder::PossibleValuesParser;
use serde_json::json;
use switchboard_gateway::tokens::ClientTokens;

use super::token;
use crate::arguments::Options;
use crate::clients::entry::{self, EntryFields, EntryTarget};
use crate::clients::file::{ClientFile, FileChange};
use crate::clients::{CLIENTS, Client, HttpForm, program, servers};
use crate::failure::{Code, Failure};
use crate::paths::Paths;
use crate::terminal::tty::Tty;
use crate::view::server::escaped;
use crate::{failure, hints, output};

use change::{AppliedChange, PlannedChange};

/// The change of one client's file: planned, shown, applied.
mod change;

/// The address that `serve --http` listens at by default.
const DEFAULT_URL: &str = "http://127.0.0.1:8808/mcp";

/// Stands for a token that does not exist yet.
const PLACEHOLDER: &str = "TOKEN";

/// Arguments of `install`.
#[derive(Debug, Args)]
#[command(
    after_help = "The entry starts `switchboard attach --as CLIENT`, so that no file contains a token.\n\nExamples:\n  switchboard install claude-code codex\n  switchboard install --all --yes\n  switchboard install gemini --http\n  switchboard install cursor --print"
)]
pub(crate) struct InstallArgs {
    #[command(flatten)]
    chosen: ChosenClients,
    /// Write the gateway's URL instead of a program to start
    #[arg(long)]
    http: bool,
    /// The gateway's URL
    #[arg(long, value_name = "URL", requires = "http", default_value = DEFAULT_URL, value_parser = http_url)]
    url: String,
    /// Write the client's token into its file, if the file cannot refer to a token; only you can
    /// read the file then
    #[arg(long, requires = "http")]
    token_in_file: bool,
    /// Let Claude Code offer every tool to its model at once, without its own search: for a gateway
    /// that runs with `--tools search`
    #[arg(long)]
    always_load: bool,
    /// Print the entry and change nothing
    #[arg(long)]
    print: bool,
    #[command(flatten)]
    how: WriteArgs,
}

/// Arguments of `uninstall`.
#[derive(Debug, Args)]
pub(crate) struct UninstallArgs {
    #[command(flatten)]
    chosen: ChosenClients,
    #[command(flatten)]
    how: WriteArgs,
}

/// The clients of a command.
#[derive(Debug, Args)]
struct ChosenClients {
    /// Names of clients
    #[arg(value_name = "CLIENT", value_parser = client_names(), required_unless_present = "all")]
    clients: Vec<String>,
    /// Every client that is found on this machine
    #[arg(long, conflicts_with = "clients")]
    all: bool,
}

/// How files are changed.
#[derive(Debug, Args)]
struct WriteArgs {
    /// Do not ask before writing
    #[arg(long, short)]
    yes: bool,
    /// Replace or remove an entry named "switchboard" even if `install` did not write it, or it was
    /// changed since
    #[arg(long)]
    force: bool,
}

/// A URL as it was given, if a client can connect to it.
fn http_url(text: &str) -> Result<String, String> {
    let parsed = url::Url::parse(text).ok();
    let is_http =
        |url: &url::Url| matches!(url.scheme(), "http" | "https") && url.host_str().is_some();
    match parsed.as_ref().is_some_and(is_http) {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "expected a URL with http:// or https://, such as {DEFAULT_URL}"
        )),
    }
}

/// The `-c` and `--dialect` of this run, for a command that runs in another folder.
fn given_files(options: &Options) -> Vec<String> {
    let mut words = Vec::new();
    for file in &options.config {
        let path = std::path::absolute(file).unwrap_or_else(|_| file.clone());
        words.extend(["-c".to_owned(), path.display().to_string()]);
    }
    if let Some(dialect) = options.dialect {
        words.extend(["--dialect".to_owned(), dialect.profile().name.to_owned()]);
    }
    words
}

/// The names of all clients, for the command line.
pub(crate) fn client_names() -> PossibleValuesParser {
    PossibleValuesParser::new(CLIENTS.iter().map(|client| client.name))
}

pub(crate) fn install(options: &Options, args: &InstallArgs) -> Result<u8, Failure> {
    let paths = Paths::find()?;
    let clients = args.chosen.find(&paths)?;
    if args.print {
        return print_entries(options, args, &paths, &clients);
    }
    let steps = clients.into_iter().map(|client| {
        let PreparedEntry {
            file,
            fields,
            creates_token,
            advice,
        } = args.prepare(options, client, &paths)?;
        let force = args.how.force;
        let change = FileChange::Install { fields, force };
        let tokens = creates_token.then(|| ClientTokens::new(&paths.state));
        PlannedChange::new(file, change, tokens, advice)
    });
    carry_out(options, &args.how, steps.collect())
}

/// `--print`: the entry of each client, for its file.
fn print_entries(
    options: &Options,
    args: &InstallArgs,
    paths: &Paths,
    clients: &[&'static Client],
) -> Result<u8, Failure> {
    let mut entries = Vec::new();
    for client in clients {
        let PreparedEntry { file, fields, .. } = args.prepare(options, client, paths)?;
        if options.json {
            let entry = entry::as_json(&fields);
            entries.push(json!({ "client": client.name, "file": file.path.display().to_string(), "entry": entry }));
            continue;
        }
        output::notice(&format!("{}: {}", client.name, shown(&file)));
        output::print(&escape_lines(&file.sample(&fields)?))?;
    }
    if options.json {
        // One document: that of the client, or of all of them.
        let document = match entries.as_slice() {
            [entry] => entry.clone(),
            _ => json!({ "clients": entries }),
        };
        output::print_json(&document.to_string())?;
    }
    Ok(0)
}

pub(crate) fn uninstall(options: &Options, args: &UninstallArgs) -> Result<u8, Failure> {
    let paths = Paths::find()?;
    let steps = args.chosen.find(&paths)?.into_iter().map(|client| {
        let force = args.how.force;
        let file = ClientFile::read(client, &paths)?;
        PlannedChange::new(file, FileChange::Uninstall { force }, None, Vec::new())
    });
    carry_out(options, &args.how, steps.collect())
}

/// The entry for one client, before its file is changed.
struct PreparedEntry {
    file: ClientFile,
    fields: EntryFields,
    /// Whether the token in the fields is a placeholder for one that is created with the change.
    creates_token: bool,
    /// Notices to print after the change.
    advice: Vec<String>,
}

impl InstallArgs {
    fn prepare(
        &self,
        options: &Options,
        client: &'static Client,
        paths: &Paths,
    ) -> Result<PreparedEntry, Failure> {
        self.check_helper(client, paths)?;
        let program = program::own(client.is_desktop)?;
        let token = self.literal_token(client, paths)?;
        let creates_token = token.as_deref() == Some(PLACEHOLDER);
        let target = match self.http {
            true => EntryTarget::Url {
                url: self.url.clone(),
                program,
                token,
            },
            false => EntryTarget::Attach(program, given_files(options)),
        };
        let mut fields = entry::fields(client, &target)?;
        if self.always_load {
            entry::always_load(client, &mut fields)?;
        }
        Ok(PreparedEntry {
            advice: self.advice(options, client, &target, paths),
            file: ClientFile::read(client, paths)?,
            fields,
            creates_token,
        })
    }

    fn advice(
        &self,
        options: &Options,
        client: &Client,
        target: &EntryTarget,
        paths: &Paths,
    ) -> Vec<String> {
        let variable = entry::needs_variable(client, target).then(|| {
            format!(
                "{}: its entry reads the token from {}; create one with {} and set the variable where the client starts",
                client.name,
                client.token_variable(),
                hints::command(&["token", "new", client.name])
            )
        });
        let unused = (self.http && !options.config.is_empty()).then(|| {
            format!(
                "{}: -c is not part of an entry with a URL: the gateway reads the files that it was started with",
                client.name
            )
        });
        let direct = servers::advice_on_direct_servers(client, paths);
        variable.into_iter().chain(unused).chain(direct).collect()
    }

    /// The token to write, for a client whose file cannot refer to one; a placeholder if it has none
    /// yet.
    fn literal_token(&self, client: &Client, paths: &Paths) -> Result<Option<String>, Failure> {
        if !self.token_in_file || !matches!(client.http, HttpForm::Literal(..)) {
            return Ok(None);
        }
        if self.print {
            return Ok(Some(PLACEHOLDER.to_owned()));
        }
        let tokens = ClientTokens::new(&paths.state);
        let find = || {
            tokens.check_headers(client.name)?;
            match tokens.list()?.contains_key(client.name) {
                true => tokens.for_headers(client.name),
                false => Ok(PLACEHOLDER.to_owned()),
            }
        };
        find().map(Some).map_err(token::headers_failure)
    }

    /// An error if the command that prints the client's headers could not print them.
    fn check_helper(&self, client: &Client, paths: &Paths) -> Result<(), Failure> {
        if !self.http
            || self.print
            || !matches!(client.http, HttpForm::ClaudeCode | HttpForm::Codex)
        {
            return Ok(());
        }
        let tokens = ClientTokens::new(&paths.state);
        tokens
            .check_headers(client.name)
            .map_err(token::headers_failure)
    }
}

impl ChosenClients {
    fn find(&self, paths: &Paths) -> Result<Vec<&'static Client>, Failure> {
        if !self.all {
            return self
                .clients
                .iter()
                .map(|name| Client::named(name))
                .collect();
        }
        let found: Vec<_> = CLIENTS
            .iter()
            .filter(|client| client.is_present(paths))
            .collect();
        if found.is_empty() {
            let names: Vec<_> = CLIENTS.iter().map(|client| client.name).collect();
            return Err(
                Failure::new(Code::Usage, "no client was found on this machine")
                    .hint(format!("name one: {}", names.join(", "))),
            );
        }
        Ok(found)
    }
}

/// Shows what would change, asks, and writes. A client whose file cannot be changed is reported, and
/// the others are still changed.
fn carry_out(
    options: &Options,
    how: &WriteArgs,
    steps: Vec<Result<PlannedChange, Failure>>,
) -> Result<u8, Failure> {
    let mut failures = Vec::new();
    let mut planned = Vec::new();
    for step in steps {
        match step {
            Ok(step) => planned.push(step),
            Err(failure) => failures.push(failure),
        }
    }
    let mut changes = 0;
    for step in &planned {
        let lines = step.preview();
        if !lines.is_empty() {
            changes += 1;
            let lines: String = lines.iter().map(|line| format!("  {line}\n")).collect();
            let text = format!("{}: {}\n{lines}", step.file.client.name, shown(&step.file));
            if !options.json {
                output::print_on_stderr(&text);
            }
        }
    }
    if changes > 0 && !how.yes && !confirm(options, changes)? {
        return Err(Failure::new(Code::Denied, "nothing was written"));
    }
    let mut done = Vec::new();
    for step in planned {
        match step.apply() {
            Ok(result) => done.push(result),
            Err(failure) => failures.push(failure),
        }
    }
    if options.json {
        let clients: Vec<_> = done.iter().map(AppliedChange::as_json).collect();
        if failures.is_empty() {
            output::print_json(&json!({ "clients": clients }).to_string())?;
        }
    } else {
        let lines: String = done.iter().map(AppliedChange::as_line).collect();
        output::print(&lines)?;
    }
    done.iter()
        .flat_map(|done| &done.advice)
        .for_each(|line| output::notice(line));
    failure::join(failures)
}

/// Asks at a terminal. Without one the answer is yes: the command line names the clients.
pub(super) fn confirm(options: &Options, changes: usize) -> Result<bool, Failure> {
    let Some(terminal) = Tty::open().filter(|_| !options.json) else {
        return Ok(true);
    };
    let question = match changes {
        1 => "Write this file?".to_owned(),
        many => format!("Write these {many} files?"),
    };
    Ok(terminal.confirm_blocking(&question)? == Some(true))
}

fn shown(file: &ClientFile) -> String {
    escaped(&file.path.display().to_string())
}

fn escape_lines(text: &str) -> String {
    text.lines().map(|line| escaped(line) + "\n").collect()
}
