//! Normalises the variants of an entry before its fields are read.

use super::is_empty;
use crate::diagnostic::{Diagnostics, visible_key};
use crate::raw::RawServer;
use crate::tree::{Node, TableEntry, Tree};

/// Approval settings of other programs, which are not applied here.
const APPROVAL_FIELDS: [&str; 3] = ["autoApprove", "alwaysAllow", "default_tools_approval_mode"];

/// Known fields that have no effect here.
const IGNORED_FIELDS: [&str; 8] = [
    "name",
    "dev",
    "gallery",
    "alwaysLoad",
    "required",
    "auth",
    "$schema",
    "supports_parallel_tool_calls",
];

/// Fields that are not supported, with what to do instead.
const UNSUPPORTED_FIELDS: &[(&str, &str)] = &[
    (
        "envFile",
        "not read; put its variables into `env`, or set them before the start",
    ),
    ("sandboxEnabled", "ignored: there is no sandbox here"),
    ("headersHelper", "not run; put the headers into `headers`"),
    (
        "http_headers_helper",
        "not run; put the headers into `http_headers`",
    ),
];

/// How the texts of a file refer to variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextForm {
    Braced,
    /// Codex: not at all.
    Literal,
    /// `{env:NAME}`.
    Opencode,
}

/// The normalised entry.
pub(super) fn entry(server: &RawServer, form: TextForm, diagnostics: &mut Diagnostics<'_>) -> Node {
    let mut node = flat(&server.node);
    let Tree::Table(entries) = &mut node.value else {
        return node;
    };
    entries.retain(|entry| !is_empty(&entry.value));
    drop_unused(entries, &server.path, diagnostics);
    headers_of_list(entries);
    for key in ["env", "environment"] {
        node = node.with_plain_texts(key);
    }
    let Tree::Table(entries) = &mut node.value else {
        return node;
    };
    for entry in &mut *entries {
        texts(
            &mut entry.value,
            &format!("{}.{}", server.path, visible_key(&entry.key)),
            form,
            diagnostics,
        );
    }
    references_by_name(entries);
    split_command(entries);
    node
}

/// Moves the fields of Cline's `transport: {…}`, and of `oauth: {…}`, into the entry itself.
fn flat(node: &Node) -> Node {
    let mut flat = node.without(&["transport", "oauth"]);
    let Tree::Table(entries) = &mut flat.value else {
        return flat;
    };
    for entry in node
        .entries()
        .iter()
        .filter(|entry| matches!(entry.key.as_str(), "transport" | "oauth"))
    {
        match (entry.key.as_str(), &entry.value.value) {
            ("transport", Tree::Table(nested)) => entries.extend(nested.iter().cloned()),
            ("oauth", Tree::Table(nested)) => {
                entries.extend(nested.iter().map(|nested| TableEntry {
                    key: format!("oauth.{}", nested.key),
                    ..nested.clone()
                }));
            }
            // Some files have a boolean.
            ("oauth", Tree::Flag(_)) => {}
            _ => entries.push(entry.clone()),
        }
    }
    flat
}

fn drop_unused(entries: &mut Vec<TableEntry>, path: &str, diagnostics: &mut Diagnostics<'_>) {
    entries.retain(|TableEntry { key, at, value }| {
        let is_off = matches!(value.value, Tree::Flag(false));
        // Codex has a table of approval modes where others have a list of tools.
        let is_approval = APPROVAL_FIELDS.contains(&key.as_str())
            || key == "tools" && matches!(value.value, Tree::Table(_));
        let warning = if is_approval {
            Some("ignored: use `permissions.allow` of your own file instead")
        } else {
            UNSUPPORTED_FIELDS
                .iter()
                .find(|(missed, _)| missed == key)
                .map(|(_, message)| *message)
        };
        if let Some(message) = warning.filter(|_| !is_off) {
            diagnostics.warn(*at, format!("{path}.{key}"), message);
        }
        warning.is_none() && !IGNORED_FIELDS.contains(&key.as_str())
    });
}

/// Turns `["Name: value"]` into a table of headers.
fn headers_of_list(entries: &mut [TableEntry]) {
    for entry in entries.iter_mut().filter(|entry| entry.key == "headers") {
        let Tree::List(items) = &entry.value.value else {
            continue;
        };
        let header = |item: &Node| {
            let (name, value) = item.text()?.split_once(':')?;
            let value = Node {
                at: item.at,
                value: Tree::Text(value.trim().to_owned()),
            };
            Some(TableEntry {
                key: name.trim().to_owned(),
                at: item.at,
                value,
            })
        };
        if let Some(headers) = items.iter().map(header).collect() {
            entry.value.value = Tree::Table(headers);
        }
    }
}

/// Splits `["program", "argument"]` into a command and its arguments.
fn split_command(entries: &mut Vec<TableEntry>) {
    let Some(command) = entries.iter_mut().find(|entry| entry.key == "command") else {
        return;
    };
    let Tree::List(words) = &mut command.value.value else {
        return;
    };
    if words.is_empty() {
        return;
    }
    let mut rest = words.split_off(1);
    let at = command.at;
    if let Some(program) = words.pop() {
        command.value = program;
    }
    if let Some(TableEntry {
        value: Node {
            value: Tree::List(args),
            ..
        },
        ..
    }) = entries.iter_mut().find(|entry| entry.key == "args")
    {
        rest.append(args);
        *args = rest;
    } else if !rest.is_empty() {
        entries.push(TableEntry {
            key: "args".to_owned(),
            at,
            value: Node {
                at,
                value: Tree::List(rest),
            },
        });
    }
}

/// Turns Codex's fields with names of variables into references.
fn references_by_name(entries: &mut Vec<TableEntry>) {
    let mut remove = |key: &str| {
        let at = entries.iter().position(|entry| entry.key == key)?;
        Some(entries.remove(at))
    };
    let named = ["bearer_token_env_var", "bearerTokenEnv"]
        .into_iter()
        .find_map(&mut remove);
    let (headers, variables) = (remove("env_http_headers"), remove("env_vars"));
    if let Some(TableEntry { at, value, .. }) = named {
        entries.push(TableEntry {
            key: "bearer_token".to_owned(),
            at,
            value: reference(value),
        });
    }
    if let Some(TableEntry {
        at,
        value: Node {
            value: Tree::Table(named),
            ..
        },
        ..
    }) = headers
    {
        let named = named.into_iter().map(|header| TableEntry {
            value: reference(header.value),
            ..header
        });
        extend_table(entries, "http_headers", at, named);
    }
    if let Some(TableEntry {
        at,
        value: Node {
            value: Tree::List(names),
            ..
        },
        ..
    }) = variables
    {
        let variable = |name: Node| {
            Some(TableEntry {
                key: name.text()?.to_owned(),
                at: name.at,
                value: reference(name),
            })
        };
        extend_table(entries, "env", at, names.into_iter().filter_map(variable));
    }
}

fn reference(mut name: Node) -> Node {
    if let Tree::Text(name) = &mut name.value {
        *name = format!("${{{name}}}");
    }
    name
}

fn extend_table(
    entries: &mut Vec<TableEntry>,
    key: &str,
    at: usize,
    more: impl Iterator<Item = TableEntry>,
) {
    match entries.iter_mut().find(|entry| entry.key == key) {
        Some(TableEntry {
            value:
                Node {
                    value: Tree::Table(table),
                    ..
                },
            ..
        }) => {
            let more: Vec<TableEntry> = more
                .filter(|more| table.iter().all(|entry| entry.key != more.key))
                .collect();
            table.extend(more);
        }
        Some(_) => {}
        None => {
            let value = Node {
                at,
                value: Tree::Table(more.collect()),
            };
            entries.push(TableEntry {
                key: key.to_owned(),
                at,
                value,
            });
        }
    }
}

/// Checks every text of a value: references that only an editor can resolve are reported.
fn texts(node: &mut Node, path: &str, form: TextForm, diagnostics: &mut Diagnostics<'_>) {
    match &mut node.value {
        Tree::Text(text) if form == TextForm::Literal => *text = text.replace("${", "$${"),
        Tree::Text(text) => {
            *text = text.replace("${userHome}", "${HOME}");
            if form == TextForm::Opencode {
                *text = braced_references(text);
            }
            let message = if form == TextForm::Opencode && text.contains("{file:") {
                "\"{file:…}\" is not read here; set a variable and write \"{env:NAME}\""
            } else if text.contains("${input:") {
                "\"${input:…}\" is a prompt that only an editor shows; set an environment variable and write \"${NAME}\""
            } else if text.contains("${workspaceFolder") {
                "\"${workspaceFolder}\" is known to an editor only; write the folder, or a relative path"
            } else {
                return;
            };
            diagnostics.error(node.at, path, message);
        }
        Tree::List(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                texts(item, &format!("{path}[{index}]"), form, diagnostics);
            }
        }
        Tree::Table(entries) => {
            for entry in entries {
                texts(
                    &mut entry.value,
                    &format!("{path}.{}", visible_key(&entry.key)),
                    form,
                    diagnostics,
                );
            }
        }
        _ => {}
    }
}

/// opencode's `{env:NAME}` as `${NAME}`. `${env:NAME}` is a reference already.
fn braced_references(text: &str) -> String {
    let mut braced = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{env:") {
        braced.push_str(before);
        braced.push_str(if before.ends_with('$') { "{" } else { "${" });
        rest = after;
    }
    braced + rest
}
