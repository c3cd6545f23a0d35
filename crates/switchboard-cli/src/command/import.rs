//! `import`: copies the servers of MCP clients' files into the user's own `switchboard.toml`.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use switchboard::config::{
    ConfigFile, EntryAddress, EntryField, ImportedSecrets, ImportedServer, Scope, check_text,
    import_servers, replace_file,
};

use super::install::{client_names, confirm};
use crate::arguments::Options;
use crate::clients::entry::{as_json, written_fields};
use crate::clients::file::{ClientFile, back_up, read_text};
use crate::clients::servers::{self, ServersFile};
use crate::clients::{CLIENTS, Client, ENTRY_NAME, preview};
use crate::failure::{Code, Failure};
use crate::paths::Paths;
use crate::terminal::tty::Tty;
use crate::view::server::escaped;
use crate::{failure, output};

/// Arguments of `import`.
#[derive(Debug, Args)]
#[command(
    after_help = "Secrets in a client's file become references to variables, which are named. Entries that are in your file already stay as they are. Servers of a project become your own, which need no trust; without a terminal that needs `--yes`.\n\nExamples:\n  switchboard import                 from every client that is found\n  switchboard import codex cursor\n  switchboard import --project claude-code   its own servers, and those of ./.mcp.json"
)]
pub(crate) struct ImportArgs {
    /// Names of clients; without any, every client that is found
    #[arg(value_name = "CLIENT", value_parser = client_names())]
    clients: Vec<String>,
    /// Import the servers of this project's files as well, such as .mcp.json for claude-code
    #[arg(long)]
    project: bool,
    /// Do not ask before writing
    #[arg(long, short)]
    yes: bool,
}

/// An imported server and its source.
struct ImportedEntry {
    client: &'static str,
    place: String,
    server: ImportedServer,
}

/// The result of importing from all clients.
#[derive(Default)]
struct Collected {
    /// The text of the user's file.
    text: String,
    taken: Vec<ImportedEntry>,
    notices: Vec<String>,
    failures: Vec<Failure>,
}

pub(crate) fn run(options: &Options, args: &ImportArgs) -> Result<u8, Failure> {
    let paths = Paths::find()?;
    let own = ConfigFile::new(paths.own_file(), Scope::User);
    let before = read_text(&own.path).map_err(|fault| {
        let shown = escaped(&own.path.display().to_string());
        Failure::new(Code::Usage, format!("{shown} cannot be read: {fault}"))
    })?;
    check_text(&own, before.as_deref().unwrap_or_default())?;
    let mut collected = Collected {
        text: before.clone().unwrap_or_default(),
        ..Collected::default()
    };
    collected.add_clients(args, &paths, &own)?;
    check_text(&own, &collected.text)?;
    let backup = collected.write(options, args, &own, before.as_deref())?;
    for line in &collected.notices {
        output::notice(line);
    }
    collected.print(options, &own, backup.as_deref())?;
    failure::join(collected.failures)
}

fn chosen(args: &ImportArgs, paths: &Paths) -> Result<Vec<&'static Client>, Failure> {
    if args.clients.is_empty() {
        let found = CLIENTS.iter().filter(|client| client.is_present(paths));
        return Ok(found.collect());
    }
    args.clients
        .iter()
        .map(|name| Client::named(name))
        .collect()
}

impl Collected {
    /// Adds the servers of each chosen client.
    fn add_clients(
        &mut self,
        args: &ImportArgs,
        paths: &Paths,
        own: &ConfigFile,
    ) -> Result<(), Failure> {
        let mut secrets = ImportedSecrets::beside(own, &self.text);
        let mut all = Vec::new();
        for client in chosen(args, paths)? {
            match servers::files(client, paths, args.project) {
                Ok(files) => all.extend(files.into_iter().map(|file| (client, file))),
                Err(failure) => self.failures.push(failure),
            }
        }
        for (_, file) in &all {
            secrets.reserve(&file.file, &file.text);
        }
        for (client, file) in all {
            // The gateway's own entry would make the gateway its own server.
            let has_gateway =
                ClientFile::read(client, paths).is_ok_and(|file| file.has_gateway_entry());
            let is_in_project = file.file.scope == Scope::Project;
            let folder = is_in_project.then_some(paths.project.as_path());
            self.add(client, own, file, folder, has_gateway, &mut secrets);
        }
        Ok(())
    }

    /// Writes the user's file after a question. Returns the path of the backup, if there is one.
    fn write(
        &self,
        options: &Options,
        args: &ImportArgs,
        own: &ConfigFile,
        before: Option<&str>,
    ) -> Result<Option<PathBuf>, Failure> {
        if self.taken.is_empty() {
            return Ok(None);
        }
        let shown = escaped(&own.path.display().to_string());
        if !options.json {
            let lines = changes(before.unwrap_or_default(), self);
            output::print_on_stderr(&format!("{shown}\n{lines}"));
        }
        // Nobody has seen a project's servers before they become the user's own.
        if args.project && !args.yes && (options.json || Tty::open().is_none()) {
            let (message, where_to_ask) = match options.json {
                true => (
                    "nothing was written: with --json nobody is asked about the project's servers",
                    "without --json",
                ),
                false => (
                    "nothing was written: no terminal to ask on about the project's servers",
                    "in a terminal",
                ),
            };
            return Err(Failure::new(Code::Denied, message).hint(format!(
                "run it {where_to_ask}, or accept all of them with `--yes`"
            )));
        }
        if !args.yes && !confirm(options, 1)? {
            return Err(Failure::new(Code::Denied, "nothing was written"));
        }
        let failed =
            |fault| Failure::new(Code::Usage, format!("{shown} cannot be written: {fault}"));
        // An editor may have saved the file while the question was on the screen.
        if read_text(&own.path).map_err(failed)?.as_deref() != before {
            let message = format!("nothing was written: {shown} was changed meanwhile");
            return Err(Failure::new(Code::Usage, message).hint("run the command again"));
        }
        let backup = back_up(&own.path, before).map_err(failed)?;
        replace_file(&own.path, self.text.as_bytes()).map_err(failed)?;
        Ok(backup)
    }

    /// Adds the servers of one file.
    fn add(
        &mut self,
        client: &'static Client,
        own: &ConfigFile,
        file: ServersFile,
        project: Option<&Path>,
        has_gateway: bool,
        secrets: &mut ImportedSecrets,
    ) {
        let is_gateway = |name: &str| has_gateway && name == ENTRY_NAME;
        let shown = escaped(&file.file.path.display().to_string());
        let imported = match import_servers(&file.file, &file.text, secrets) {
            Ok(imported) => imported,
            Err(errors) => return self.failures.push(errors.into()),
        };
        for name in file.left_out {
            self.notices.push(format!(
                "{}: \"{}\" is not an MCP server, and was left out",
                client.name,
                escaped(&name)
            ));
        }
        for problem in imported.invalid {
            let problem = escaped(&problem.to_string());
            self.notices
                .push(format!("not imported, since it does not work: {problem}"));
        }
        for warning in imported.warnings {
            if warning.field.split('.').nth(1).is_some_and(is_gateway) {
                continue;
            }
            let warning = escaped(&warning.to_string());
            self.notices.push(format!("warning: {warning}"));
        }
        for mut server in imported.servers {
            if let Some(project) = project {
                keep_folder(&mut server, project);
            }
            let entry = as_json(&server.fields);
            if is_gateway(&server.name) || written_fields(client, &entry).is_some() {
                continue;
            }
            let place = format!("{shown}:{}", server.line);
            if let Err(failure) = self.take(client, own, server, place) {
                self.failures.push(failure);
            }
        }
    }

    fn take(
        &mut self,
        client: &'static Client,
        own: &ConfigFile,
        server: ImportedServer,
        place: String,
    ) -> Result<(), Failure> {
        let failed = |fault: switchboard::config::EditFault| {
            Failure::new(Code::Usage, escaped(&fault.to_string()))
        };
        let name = escaped(&server.name);
        let address = EntryAddress {
            file: &own.path,
            container: &["servers"],
            name: &server.name,
        };
        if let Some(known) = address.read(&self.text).map_err(failed)? {
            if known != as_json(&server.fields) {
                self.notices.push(format!(
                    "{}: \"{name}\" ({place}) was not imported: your file has another entry of that name",
                    client.name
                ));
            }
            return Ok(());
        }
        let text = address.with(&self.text, &server.fields).map_err(failed)?;
        if let Err(errors) = check_text(own, &text) {
            // One entry that no file of ours can have must not keep the others out.
            let reasons = errors.0.iter().map(|error| escaped(&error.message));
            self.notices.push(format!(
                "{}: \"{name}\" ({place}) was not imported: {}",
                client.name,
                reasons.collect::<Vec<_>>().join("; ")
            ));
            return Ok(());
        }
        self.text = text;
        if let Some(old) = &server.renamed_from {
            self.notices.push(format!(
                "\"{}\" ({place}) is called \"{name}\" here",
                escaped(old)
            ));
        }
        for (field, variable) in &server.secrets {
            self.notices.push(format!(
                "set {variable} in the environment of switchboard: its value is `{}` of \"{name}\" in {place}",
                escaped(field)
            ));
        }
        for field in &server.left_out {
            let reason = match field.as_str() {
                "trust" => "is your own decision",
                _ => "has no place in switchboard.toml",
            };
            self.notices.push(format!(
                "\"{name}\" ({place}): `{}` {reason}, and was left out",
                escaped(field)
            ));
        }
        self.taken.push(ImportedEntry {
            client: client.name,
            place,
            server,
        });
        Ok(())
    }

    fn print(
        &self,
        options: &Options,
        own: &ConfigFile,
        backup: Option<&Path>,
    ) -> Result<(), Failure> {
        if options.json {
            if !self.failures.is_empty() {
                return Ok(());
            }
            let servers: Vec<_> = self
                .taken
                .iter()
                .map(|taken| {
                    let variables: Vec<_> =
                        taken.server.secrets.iter().map(|(_, variable)| variable).collect();
                    json!({ "server": taken.server.name, "client": taken.client, "from": taken.place, "variables": variables })
                })
                .collect();
            let document = json!({
                "file": own.path.display().to_string(),
                "backup": backup.map(|backup| backup.display().to_string()),
                "servers": servers
            });
            return output::print_json(&document.to_string());
        }
        if self.taken.is_empty() {
            return output::print("nothing to import\n");
        }
        let line = |taken: &ImportedEntry| {
            let name = escaped(&taken.server.name);
            format!(
                "imported: \"{name}\" from {} ({})\n",
                taken.client, taken.place
            )
        };
        output::print(&self.taken.iter().map(line).collect::<String>())
    }
}

/// A project's server runs in the project's folder, wherever it is started from.
fn keep_folder(server: &mut ImportedServer, project: &Path) {
    let has = |field: &str| server.fields.iter().any(|(name, _)| *name == field);
    if has("command") && !has("cwd") {
        let folder = EntryField::Text(project.display().to_string());
        server.fields.push(("cwd", folder));
    }
}

fn changes(before: &str, collected: &Collected) -> String {
    let fields = collected
        .taken
        .iter()
        .map(|taken| as_json(&taken.server.fields));
    let lines = preview::changes(before, &collected.text, &fields.collect());
    lines.iter().map(|line| format!("  {line}\n")).collect()
}
