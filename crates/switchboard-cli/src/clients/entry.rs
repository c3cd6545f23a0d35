//! The gateway's entry in a client's file: its fields, and whether an existing entry is ours.

use std::path::Path;

use serde_json::{Map, Value};
use switchboard::config::EntryField;
use switchboard::shell;
use switchboard_gateway::tokens::TOKEN_PREFIX;

use super::{Client, ENTRY_NAME, HttpForm, StdioForm};
use crate::failure::{Code, Failure};

/// The fields of an entry, in the order of the file.
pub(crate) type EntryFields = Vec<(&'static str, EntryField)>;

/// The arguments of the command that prints the headers, before the client's name.
const HELPER: &str = " token headers ";

const BEARER: &str = "Bearer ";

/// A field of Claude Code's entries.
const ALWAYS_LOAD: &str = "alwaysLoad";

const DESCRIPTION: &str = "Every MCP server you use, behind one gate";

/// The form that the entry takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EntryTarget {
    /// Starts this program, which connects to the gateway, with these options.
    Attach(String, Vec<String>),
    /// The URL of the gateway.
    Url {
        url: String,
        /// This program, for clients that ask it for the headers.
        program: String,
        /// The token, for clients whose file cannot refer to one.
        token: Option<String>,
    },
}

/// The fields of the entry for a client.
pub(crate) fn fields(client: &Client, target: &EntryTarget) -> Result<EntryFields, Failure> {
    match target {
        EntryTarget::Attach(program, options) => {
            let words = ["attach", "--as", client.name].map(str::to_owned);
            let arguments = [&words, options.as_slice()].concat();
            Ok(stdio_fields(client.stdio, program, &arguments))
        }
        EntryTarget::Url {
            url,
            program,
            token,
        } => {
            let helper = format!("{}{HELPER}{}", shell::word(program), client.name);
            http_fields(client, url, &helper, token.as_deref())
        }
    }
}

fn text(value: &str) -> EntryField {
    EntryField::Text(value.to_owned())
}

fn stdio_fields(form: StdioForm, program: &str, arguments: &[String]) -> EntryFields {
    let command = ("command", text(program));
    let args = ("args", EntryField::Texts(arguments.to_vec()));
    match form {
        StdioForm::Plain | StdioForm::Continue => vec![command, args],
        StdioForm::Typed => vec![("type", text("stdio")), command, args],
        StdioForm::TypedWithTools => vec![
            ("type", text("stdio")),
            command,
            args,
            ("tools", all_tools()),
        ],
        StdioForm::Zed => vec![
            ("source", text("custom")),
            command,
            args,
            ("env", EntryField::Table(Vec::new())),
        ],
        StdioForm::WithDisabled => vec![command, args, ("disabled", EntryField::Flag(false))],
        StdioForm::Opencode => {
            let words = [program.to_owned()].into_iter().chain(arguments.to_vec());
            vec![
                ("type", text("local")),
                ("command", EntryField::Texts(words.collect())),
                ("enabled", EntryField::Flag(true)),
            ]
        }
        StdioForm::Goose => {
            let mut fields = vec![
                ("type", text("stdio")),
                ("name", text(ENTRY_NAME)),
                ("cmd", text(program)),
                args,
                ("env_keys", EntryField::Texts(Vec::new())),
            ];
            fields.extend(goose_fields());
            fields
        }
    }
}

fn goose_fields() -> EntryFields {
    vec![
        ("envs", EntryField::Table(Vec::new())),
        ("timeout", EntryField::Number(300)),
        ("enabled", EntryField::Flag(true)),
        ("description", text(DESCRIPTION)),
    ]
}

/// Lets Claude Code offer every tool of the entry to its model at once, without its own search.
pub(crate) fn always_load(client: &Client, fields: &mut EntryFields) -> Result<(), Failure> {
    if client.http != HttpForm::ClaudeCode {
        let fact = format!("{}: only claude-code takes --always-load", client.name);
        return Err(Failure::new(Code::Usage, fact));
    }
    fields.push((ALWAYS_LOAD, EntryField::Flag(true)));
    Ok(())
}

fn http_fields(
    client: &Client,
    url: &str,
    helper: &str,
    token: Option<&str>,
) -> Result<EntryFields, Failure> {
    let variable = client.token_variable();
    let reference = |(before, after): (&str, &str)| bearer(&format!("{before}{variable}{after}"));
    let refused = |fact: &str| {
        Failure::new(Code::Usage, format!("{}: {fact}", client.name))
            .hint("install it without --http: `attach` needs no token in a file")
    };
    Ok(match client.http {
        HttpForm::ClaudeCode => vec![
            ("type", text("http")),
            ("url", text(url)),
            ("headersHelper", text(helper)),
        ],
        HttpForm::Codex => vec![("url", text(url)), ("http_headers_helper", text(helper))],
        HttpForm::Reference(field, kind, around) => {
            url_fields(client, kind, (field, text(url)), reference(around))
        }
        HttpForm::Opencode => vec![
            ("type", text("remote")),
            ("url", text(url)),
            ("headers", reference(("{env:", "}"))),
            ("oauth", EntryField::Flag(false)),
            ("enabled", EntryField::Flag(true)),
        ],
        HttpForm::Goose => {
            let mut fields = vec![
                ("type", text("streamable_http")),
                ("name", text(ENTRY_NAME)),
                ("uri", text(url)),
                ("headers", reference(("${", "}"))),
                ("env_keys", EntryField::Texts(vec![variable])),
            ];
            fields.extend(goose_fields());
            fields
        }
        HttpForm::Continue => vec![
            ("type", text("streamable-http")),
            ("url", text(url)),
            ("headers", reference(("${{ secrets.", " }}"))),
        ],
        HttpForm::Literal(field, kind) => {
            let token = token.ok_or_else(|| {
                refused(
                    "its file cannot refer to a token; `--token-in-file` writes the token itself",
                )
            })?;
            url_fields(client, kind, (field, text(url)), bearer(token))
        }
        HttpForm::None => return Err(refused("its file takes no URL")),
    })
}

/// The header with a token, or with a reference to one.
fn bearer(token: &str) -> EntryField {
    EntryField::Table(vec![(
        "Authorization".to_owned(),
        format!("{BEARER}{token}"),
    )])
}

/// The fields of an entry with a URL and headers, and those that the client has in every entry.
fn url_fields(
    client: &Client,
    kind: Option<&str>,
    url: (&'static str, EntryField),
    headers: EntryField,
) -> EntryFields {
    let mut fields: EntryFields = Vec::new();
    fields.extend(kind.map(|kind| ("type", text(kind))));
    fields.extend([url, ("headers", headers)]);
    match client.stdio {
        StdioForm::WithDisabled => fields.push(("disabled", EntryField::Flag(false))),
        StdioForm::TypedWithTools => fields.push(("tools", all_tools())),
        _ => {}
    }
    fields
}

fn all_tools() -> EntryField {
    EntryField::Texts(vec!["*".to_owned()])
}

/// Whether a person must set the client's token in a variable.
pub(crate) fn needs_variable(client: &Client, target: &EntryTarget) -> bool {
    matches!(target, EntryTarget::Url { .. })
        && !matches!(
            client.http,
            HttpForm::ClaudeCode | HttpForm::Codex | HttpForm::Literal(..)
        )
}

/// Whether these fields contain the token itself.
pub(crate) fn holds_token(client: &Client, fields: &EntryFields) -> bool {
    matches!(client.http, HttpForm::Literal(..)) && fields.iter().any(|(key, _)| *key == "headers")
}

/// Replaces the token in the fields of an entry that contains one.
pub(crate) fn set_token(fields: &mut EntryFields, token: &str) {
    if let Some((_, headers)) = fields.iter_mut().find(|(key, _)| *key == "headers") {
        *headers = bearer(token);
    }
}

/// The entry with its token masked, for display.
pub(crate) fn without_token(client: &Client, mut entry: Value) -> Value {
    if matches!(client.http, HttpForm::Literal(..))
        && let Some(header) = entry.pointer_mut("/headers/Authorization")
    {
        *header = Value::Null;
    }
    entry
}

/// The fields as JSON.
pub(crate) fn as_json(fields: &EntryFields) -> Value {
    let pair = |(key, field): &(&'static str, EntryField)| ((*key).to_owned(), field.to_json());
    Value::Object(fields.iter().map(pair).collect::<Map<_, _>>())
}

/// Whether an entry has every one of these fields. Clients add fields of their own.
pub(crate) fn has_fields(entry: &Value, fields: &EntryFields) -> bool {
    fields
        .iter()
        .all(|(key, field)| entry.get(key) == Some(&field.to_json()))
}

/// How much of an entry is ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ownership {
    /// As `install` writes it, perhaps by another path of the program or for another URL.
    Ours,
    /// It starts `switchboard attach` or has our token, but has other fields than `install` writes.
    Changed,
    /// Something else.
    Foreign,
}

/// Who wrote an entry of our name.
pub(crate) fn ownership(client: &Client, entry: &Value) -> Ownership {
    match written_fields(client, entry) {
        Some(fields) if as_json(&fields) == *entry => Ownership::Ours,
        Some(_) => Ownership::Changed,
        None => Ownership::Foreign,
    }
}

/// What `install` writes for the program or URL of this entry; `None` if it has neither of ours.
pub(crate) fn written_fields(client: &Client, entry: &Value) -> Option<EntryFields> {
    let mut fields = written_target(client, entry)?;
    if entry.get(ALWAYS_LOAD) == Some(&Value::Bool(true)) {
        let _ = always_load(client, &mut fields);
    }
    Some(fields)
}

fn written_target(client: &Client, entry: &Value) -> Option<EntryFields> {
    let words = launch_words(entry);
    if let [program, attach, ..] = words.as_slice()
        && Path::new(program)
            .file_name()
            .is_some_and(|name| name == ENTRY_NAME)
        && attach == "attach"
    {
        return Some(stdio_fields(client.stdio, program, &words[1..]));
    }
    let first_of = |names: &[&str]| {
        let found = names.iter().find_map(|field| entry.get(field)?.as_str());
        found.map(str::to_owned)
    };
    let url = first_of(&["url", "httpUrl", "serverUrl", "uri"])?;
    let helper = first_of(&["headersHelper", "http_headers_helper"])
        .filter(|helper| helper.contains(HELPER));
    let header = entry.pointer("/headers/Authorization");
    let header = header.and_then(Value::as_str).unwrap_or_default();
    let token = header
        .strip_prefix(BEARER)
        .filter(|token| token.starts_with(TOKEN_PREFIX));
    if helper.is_none() && token.is_none() && !header.contains(&client.token_variable()) {
        return None;
    }
    http_fields(client, &url, &helper.unwrap_or_default(), token).ok()
}

/// The command line of an entry, in whichever fields the client has it.
pub(crate) fn launch_words(entry: &Value) -> Vec<String> {
    let words = |value: Option<&Value>| -> Vec<String> {
        match value {
            Some(Value::String(word)) => vec![word.clone()],
            Some(Value::Array(items)) => items
                .iter()
                .filter_map(|item| item.as_str().map(str::to_owned))
                .collect(),
            _ => Vec::new(),
        }
    };
    let mut all = words(entry.get("command").or_else(|| entry.get("cmd")));
    all.extend(words(entry.get("args")));
    all
}
