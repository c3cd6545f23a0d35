//! The files of a client that define servers, converted to text that one of our dialects reads.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use switchboard::config::{
    self, ConfigFile, Dialect, EditFault, EntryAddress, ImportedSecrets, ImportedServer, Scope,
    import_servers,
};

use super::entry::{as_json, written_fields};
use super::file::read_text;
use super::{Client, ENTRY_NAME, StdioForm};
use crate::failure::{Code, Failure};
use crate::hints;
use crate::paths::Paths;
use crate::view::counted;
use crate::view::server::escaped;

/// A file with servers.
#[derive(Debug)]
pub(crate) struct ServersFile {
    pub(crate) file: ConfigFile,
    pub(crate) text: String,
    /// Entries that are not MCP servers, or cannot be reached from here.
    pub(crate) left_out: Vec<String>,
}

/// The existing files of a client: the user's own, and on request this project's.
pub(crate) fn files(
    client: &Client,
    paths: &Paths,
    with_project: bool,
) -> Result<Vec<ServersFile>, Failure> {
    let own = own_files(client, paths).into_iter();
    let mut candidates: Vec<_> = own.map(|path| (path, Scope::User)).collect();
    if with_project {
        let of_project = client.files_in_project(paths).into_iter();
        candidates.extend(of_project.map(|path| (path, Scope::Project)));
    }
    let mut all = Vec::new();
    for (path, scope) in candidates {
        let failed = |fact: String| {
            let file = escaped(&path.display().to_string());
            Failure::new(Code::Usage, format!("{}: {file}{fact}", client.name))
        };
        let text = read_text(&path).map_err(|fault| failed(format!(" cannot be read: {fault}")))?;
        let Some(text) = text else {
            continue;
        };
        let (text, left_out) = converted(client, &path, text).map_err(|fault| {
            let lines: Vec<_> = fault.to_string().lines().map(escaped).collect();
            failed(format!(": {}", lines.join("\n    ")))
        })?;
        let dialect = match client.name {
            "gemini" => Dialect::Gemini,
            _ => Dialect::McpJson,
        };
        let file = ConfigFile {
            dialect: Some(dialect),
            ..ConfigFile::new(path, scope)
        };
        all.push(ServersFile {
            file,
            text,
            left_out,
        });
    }
    Ok(all)
}

fn own_files(client: &Client, paths: &Paths) -> Vec<PathBuf> {
    let own = client.file(paths);
    if client.stdio != StdioForm::Continue {
        return vec![own];
    }
    let folder = own.parent().unwrap_or(Path::new("/")).to_owned();
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let is_block = |path: &PathBuf| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        *path != own && matches!(extension, Some("yaml" | "yml" | "json"))
    };
    let mut blocks: Vec<_> = entries.map(|entry| entry.path()).filter(is_block).collect();
    blocks.sort();
    let main = folder.with_file_name("config.yaml");
    [main].into_iter().chain(blocks).collect()
}

/// Advice after the gateway's entry was installed: which servers the client still starts itself,
/// bypassing the gateway's rules and log, and how to move them behind it.
pub(crate) fn advice_on_direct_servers(client: &Client, paths: &Paths) -> Vec<String> {
    let own = ConfigFile::new(paths.own_file(), Scope::User);
    let own = config::load(&[own]).unwrap_or_default();
    let is_imported = |name: &String| own.servers.keys().any(|known| known.as_str() == name);
    let mut lines = Vec::new();
    // A file that cannot be read is reported by `import`.
    for found in files(client, paths, true).unwrap_or_default() {
        let DirectServers { names, invalid } = DirectServers::find(client, &found);
        let place = escaped(&found.file.path.display().to_string());
        let in_quotes = |names: &[String]| {
            let names: Vec<_> = names
                .iter()
                .map(|name| format!("\"{}\"", escaped(name)))
                .collect();
            names.join(", ")
        };
        if !invalid.is_empty() {
            lines.push(format!(
                "{} still connects to {} itself, bypassing the gateway: {} ({place}); `switchboard \
                 import` cannot convert them: define them with {}, then remove them from that file",
                client.name,
                counted(invalid.len(), "server"),
                in_quotes(&invalid),
                hints::command(&["add"]),
            ));
        }
        if names.is_empty() {
            continue;
        }
        let import: &[&str] = match found.file.scope {
            Scope::Project => &["import", "--project"],
            _ => &["import"],
        };
        let next = match names.iter().all(is_imported) {
            true => {
                let (are, them) = match names.len() {
                    1 => ("it is", "it"),
                    _ => ("they are", "them"),
                };
                format!("{are} already in your switchboard.toml: remove {them} from {place}")
            }
            false => format!(
                "to move them behind the gateway: {}, then remove them from that file",
                hints::command_with(import, &[client.name])
            ),
        };
        lines.push(format!(
            "{} still connects to {} itself, bypassing the gateway: {} ({place}); {next}",
            client.name,
            counted(names.len(), "server"),
            in_quotes(&names),
        ));
    }
    lines
}

/// The servers of a client's file that are not the gateway, by their native names.
#[derive(Default)]
struct DirectServers {
    /// Those that are enabled, and can be imported.
    names: Vec<String>,
    /// Those that only the client itself can start.
    invalid: Vec<String>,
}

impl DirectServers {
    fn find(client: &Client, found: &ServersFile) -> Self {
        let imported = import_servers(&found.file, &found.text, &mut ImportedSecrets::new());
        let Ok(imported) = imported else {
            return Self::default();
        };
        let is_direct = |server: &ImportedServer| {
            let fields = as_json(&server.fields);
            written_fields(client, &fields).is_none() && fields["enabled"] != false
        };
        // Our own entry may have fields that an import leaves out.
        let is_other = |name: &String| name != ENTRY_NAME;
        let servers = imported.servers.into_iter().filter(is_direct);
        let invalid = imported.invalid.iter().filter_map(|fault| {
            let name = fault.field.split('.').nth(1)?;
            Some(name.to_owned())
        });
        let mut invalid: Vec<_> = invalid.filter(is_other).collect();
        invalid.dedup();
        Self {
            names: servers.map(|server| server.name).filter(is_other).collect(),
            invalid,
        }
    }
}

/// The text, with the servers where our reader looks for them.
fn converted(
    client: &Client,
    path: &Path,
    text: String,
) -> Result<(String, Vec<String>), EditFault> {
    let address = EntryAddress {
        file: path,
        container: &[],
        name: "",
    };
    let document = address.value_at(&text, &[])?.unwrap_or_default();
    let as_text = |servers: Value| json!({ "mcpServers": servers }).to_string();
    let none = Vec::new();
    Ok(match client.stdio {
        StdioForm::Goose => {
            let (servers, left_out) = goose_servers(&document);
            (as_text(servers), left_out)
        }
        StdioForm::Continue => (as_text(continue_servers(&document)), none),
        StdioForm::Opencode => {
            let container = client.container(Some(&document));
            let servers = container.iter().try_fold(&document, |at, key| at.get(key));
            let servers = servers.cloned().unwrap_or_else(|| json!({}));
            // Under this key our reader expects opencode's references.
            (json!({ "mcp": servers }).to_string(), none)
        }
        _ if client.name == "amp" => {
            let servers = document.get("amp.mcpServers").cloned();
            (as_text(servers.unwrap_or_else(|| json!({}))), none)
        }
        _ => (text, none),
    })
}

/// Copies a field under another name.
fn copy_field(to: &mut Map<String, Value>, name: &str, from: &Value, field: &str) {
    let value = from.get(field).filter(|value| !value.is_null());
    if let Some(value) = value {
        to.insert(name.to_owned(), value.clone());
    }
}

/// goose's `extensions`, without its built-in ones.
fn goose_servers(document: &Value) -> (Value, Vec<String>) {
    let (mut servers, mut left_out) = (Map::new(), Vec::new());
    let extensions = document.get("extensions").and_then(Value::as_object);
    for (name, extension) in extensions.into_iter().flatten() {
        let mut server = Map::new();
        match extension.get("type").and_then(Value::as_str) {
            Some("stdio") => copy_field(&mut server, "command", extension, "cmd"),
            Some("streamable_http" | "sse") => {
                copy_field(&mut server, "url", extension, "uri");
                copy_field(&mut server, "type", extension, "type");
                copy_field(&mut server, "headers", extension, "headers");
            }
            _ => {
                left_out.push(name.clone());
                continue;
            }
        }
        copy_field(&mut server, "args", extension, "args");
        copy_field(&mut server, "enabled", extension, "enabled");
        copy_field(&mut server, "includeTools", extension, "available_tools");
        let tools = server.get("includeTools").and_then(Value::as_array);
        if tools.is_some_and(Vec::is_empty) {
            server.remove("includeTools");
        }
        if let Some(seconds) = extension.get("timeout").and_then(Value::as_u64) {
            server.insert("timeout".to_owned(), seconds.saturating_mul(1000).into());
        }
        if server.contains_key("command") {
            let variables = extension.get("envs").and_then(Value::as_object);
            let mut variables = variables.cloned().unwrap_or_default();
            let keys = extension.get("env_keys").and_then(Value::as_array);
            for key in keys.into_iter().flatten().filter_map(Value::as_str) {
                variables.insert(key.to_owned(), format!("${{{key}}}").into());
            }
            if !variables.is_empty() {
                server.insert("env".to_owned(), Value::Object(variables));
            }
        }
        servers.insert(name.clone(), Value::Object(server));
    }
    (Value::Object(servers), left_out)
}

/// Continue's list of servers, whose secrets are variables here.
fn continue_servers(document: &Value) -> Value {
    let mut servers = Map::new();
    match document.get("mcpServers") {
        Some(Value::Array(list)) => {
            for entry in list {
                let mut server = Map::new();
                for field in ["type", "command", "args", "env", "cwd", "url"] {
                    copy_field(&mut server, field, entry, field);
                }
                if let Some(options) = entry.get("requestOptions") {
                    copy_field(&mut server, "headers", options, "headers");
                }
                let name = entry
                    .get("name")
                    .and_then(Value::as_str)
                    .unwrap_or("server");
                servers.insert(name.to_owned(), Value::Object(server));
            }
        }
        Some(Value::Object(named)) => servers = named.clone(),
        _ => {}
    }
    plain_references(Value::Object(servers))
}

/// `${{ secrets.NAME }}` as `${NAME}`.
fn plain_references(value: Value) -> Value {
    match value {
        Value::String(text) => {
            let mut plain = String::new();
            let mut rest = text.as_str();
            while let Some((before, after)) = rest.split_once("${{") {
                let Some((name, end)) = after.split_once("}}") else {
                    break;
                };
                let name = name.trim();
                let name = name.rsplit('.').next().unwrap_or(name);
                plain.push_str(&format!("{before}${{{name}}}"));
                rest = end;
            }
            Value::String(plain + rest)
        }
        Value::Array(items) => items.into_iter().map(plain_references).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(key, value)| (key, plain_references(value)))
            .collect(),
        other => other,
    }
}
