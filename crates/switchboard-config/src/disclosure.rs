//! What a person is shown of a server's entry before accepting it, and the fingerprint that the
//! acceptance is bound to.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::diagnostic::visible_path;
use super::expand::Expansion;
use super::fingerprint::FingerprintHasher;
use super::reference::{ReferenceSyntax, TextRole};
use super::sensitive::{is_ordinary, secrets_in_arguments};
use super::{
    Endpoint, Environment, Fingerprint, HttpAuth, HttpWire, OAuthGrant, Scope, ServerConfig,
    StdioEndpoint, loader_variables, program,
};
use crate::name::ServerName;
use crate::secret::{Redactor, Secret};

/// Everything that would start, untruncated: command, every argument, working folder, variables,
/// URL, header names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disclosure {
    /// The server.
    pub name: ServerName,
    /// Its file.
    pub file: PathBuf,
    /// One fact per line. Every text from the file is quoted, so that no line can imitate another.
    pub lines: Vec<String>,
    /// What the acceptance is bound to.
    pub key: Fingerprint,
    /// Variables that a project may not set; with any of them the entry cannot be accepted.
    pub refused: Vec<String>,
    /// The lines as they are stored: secrets are replaced by hashes, which show a change without
    /// the value.
    pub stored_lines: Vec<String>,
    /// Hashes of the variables that the launch depends on, which show a change without the value.
    pub variable_hashes: BTreeMap<String, String>,
}

/// Describes an entry for a person who may accept it.
pub fn disclose(server: &ServerConfig, environment: &Environment) -> Disclosure {
    let syntax = server.endpoint.syntax();
    let mut variables = Vec::new();
    let mut deciding = Vec::new();
    let mut lines = Vec::new();
    let mut refused = Vec::new();
    match &server.endpoint {
        Endpoint::Stdio(stdio) => {
            lines.push(format!("command: {:?}", stdio.command));
            lines.extend(stdio.args.iter().map(|arg| format!("argument: {arg:?}")));
            lines.extend(
                working_folder(server, stdio).map(|folder| format!("working folder: {folder}")),
            );
            deciding.push(stdio.command.as_str());
            deciding.extend(stdio.args.iter().map(String::as_str));
            deciding.extend(stdio.cwd.as_deref());
            for (name, value) in sorted(
                stdio
                    .env
                    .iter()
                    .map(|(name, value)| (name.as_str(), value.expose())),
            ) {
                lines.push(format!("variable: {} = {value:?}", quoted_name(name)));
                variables.extend(syntax.variables(TextRole::Value, value));
                // The user's own file may set any variable.
                let effect = loader_variables::effect(name)
                    .filter(|_| server.source.scope == Scope::Project);
                refused.extend(effect.map(|what| format!("{}: {what}", quoted_name(name))));
            }
            if stdio.inherit_env {
                lines.push("gets every variable of your environment".to_owned());
            }
        }
        Endpoint::Http(http) => {
            lines.push(format!("url: {:?}", http.url));
            deciding.push(http.url.as_str());
            lines.extend(match http.wire {
                HttpWire::Auto => None,
                HttpWire::Streamable => Some("transport: \"http\"".to_owned()),
                HttpWire::Sse => Some("transport: \"sse\"".to_owned()),
            });
            for (name, value) in sorted(
                http.headers
                    .iter()
                    .map(|(name, value)| (name.as_str(), value.expose())),
            ) {
                lines.push(format!("header: {} = {value:?}", quoted_name(name)));
                variables.extend(syntax.variables(TextRole::Value, value));
            }
            disclose_auth(
                &http.auth,
                syntax,
                &mut lines,
                &mut variables,
                &mut deciding,
            );
        }
        Endpoint::Invalid(fault) => lines.push(fault.message.clone()),
    }
    let values: BTreeMap<String, String> = deciding
        .iter()
        .flat_map(|text| syntax.variables(TextRole::Launch, text))
        .map(|name| (name.to_owned(), hash_of_variable(name, environment)))
        .collect();
    variables.extend(values.keys().map(String::as_str));
    variables.sort_unstable();
    variables.dedup();
    lines.extend(
        variables
            .iter()
            .map(|name| format!("reads from your environment: {name}")),
    );
    if let Some(shadowed) = &server.source.shadows {
        lines.push(format!(
            "replaces the server of the same name in {:?}",
            visible_path(shadowed)
        ));
    }

    let file = server.source.file.to_path_buf();
    let key = key(server, &deciding, environment);
    let redactor = Redactor::new(secrets(&server.endpoint));
    let stored_lines = lines
        .iter()
        .map(|line| without_secrets(line, &redactor))
        .collect();
    Disclosure {
        name: server.name.clone(),
        file,
        lines,
        key,
        refused,
        stored_lines,
        variable_hashes: values,
    }
}

/// The credentials of an entry. Literal values are not shown.
fn disclose_auth<'a>(
    auth: &'a HttpAuth,
    syntax: ReferenceSyntax,
    lines: &mut Vec<String>,
    variables: &mut Vec<&'a str>,
    deciding: &mut Vec<&'a str>,
) {
    for (what, secret) in [
        ("bearer token", &auth.bearer_token),
        ("login secret", &auth.client_secret),
    ] {
        if let Some(secret) = secret {
            let value = secret.expose();
            let shown = if syntax.reads(TextRole::Value, value) {
                format!("{value:?}")
            } else {
                "given in the file".to_owned()
            };
            lines.push(format!("{what}: {shown}"));
            variables.extend(syntax.variables(TextRole::Value, value));
        }
    }
    for (what, text) in [
        ("logs in as", &auth.client_id),
        ("login key", &auth.client_key),
        ("login document", &auth.client_metadata_url),
    ] {
        if let Some(text) = text {
            lines.push(format!("{what}: {text:?}"));
            deciding.push(text);
        }
    }
    if auth.grant == OAuthGrant::ClientCredentials {
        lines.push("logs in by itself, without a person".to_owned());
    }
    lines.extend(
        (!auth.scopes.is_empty()).then(|| format!("asks for scopes: {:?}", auth.scopes.join(" "))),
    );
    lines.extend(
        auth.callback_port
            .map(|port| format!("login returns to port: {port}")),
    );
}

/// The working folder of an entry's process: an absolute path, or as written if a variable decides.
/// A project's server without `cwd` runs in the project's folder. `None` if the entry does not
/// decide.
fn working_folder(server: &ServerConfig, stdio: &StdioEndpoint) -> Option<String> {
    let folder = &server.source.folder;
    match stdio.cwd.as_deref() {
        Some(cwd) if stdio.syntax.reads(TextRole::Launch, cwd) => {
            Some(format!("{cwd:?}, relative to {:?}", visible_path(folder)))
        }
        Some(cwd) => Some(format!(
            "{:?}",
            visible_path(&program::absolute(folder, cwd))
        )),
        None if server.source.scope == Scope::Project => {
            Some(format!("{:?}", visible_path(folder)))
        }
        None => None,
    }
}

/// Over the file, the name, the entry as written, and the launch with its references expanded.
fn key(server: &ServerConfig, deciding: &[&str], environment: &Environment) -> Fingerprint {
    let mut digest = FingerprintHasher::new("switchboard trust 2");
    digest.part("file", server.source.file.as_os_str().as_bytes());
    digest.part("name", server.name.as_str().as_bytes());
    digest.part("launch", &server.fingerprint().0);
    let mut expansion = Expansion::new(environment, server.endpoint.syntax());
    // A text that cannot be expanded cannot be launched; as written, it is already part of the
    // launch fingerprint.
    let expanded: Vec<String> = deciding
        .iter()
        .map(|text| {
            expansion
                .expand(TextRole::Launch, "", text)
                .unwrap_or_default()
        })
        .collect();
    digest.list("expanded", expanded.iter().map(String::as_bytes));
    if let Endpoint::Stdio(stdio) = &server.endpoint {
        let cwd = stdio.cwd.as_deref().map(|cwd| {
            expansion
                .expand(TextRole::Launch, "", cwd)
                .unwrap_or_default()
        });
        let folder = program::absolute(&server.source.folder, &cwd.unwrap_or_default());
        // If a link in the path changes its target, it is another folder.
        digest.part(
            "working folder",
            folder
                .canonicalize()
                .unwrap_or(folder)
                .as_os_str()
                .as_bytes(),
        );
    }
    digest.finish()
}

/// The literal secrets of an entry.
fn secrets(endpoint: &Endpoint) -> Vec<Secret> {
    let mut texts: Vec<String> = match endpoint {
        Endpoint::Stdio(stdio) => {
            let arguments = secrets_in_arguments(&stdio.args)
                .into_iter()
                .map(|secret| secret.expose().to_owned());
            stdio
                .env
                .values()
                .map(|value| value.expose().to_owned())
                .chain(arguments)
                .collect()
        }
        Endpoint::Http(http) => {
            let url = url::Url::parse(&http.url).ok();
            let password = url
                .iter()
                .filter_map(|url| url.password().map(str::to_owned));
            let query = url
                .iter()
                .flat_map(|url| url.query_pairs().map(|(_, value)| value.into_owned()));
            let tokens = [&http.auth.bearer_token, &http.auth.client_secret]
                .into_iter()
                .flatten();
            let secrets = http
                .headers
                .values()
                .chain(tokens)
                .map(|value| value.expose().to_owned());
            secrets.chain(password).chain(query).collect()
        }
        Endpoint::Invalid(_) => Vec::new(),
    };
    texts.retain(|text| !is_ordinary(text) && !endpoint.syntax().reads(TextRole::Value, text));
    // The lines quote them.
    let quoted: Vec<String> = texts
        .iter()
        .map(|text| format!("{text:?}").trim_matches('"').to_owned())
        .collect();
    texts.into_iter().chain(quoted).map(Secret::new).collect()
}

fn without_secrets(line: &str, redactor: &Redactor) -> String {
    let clean = redactor.redact(line);
    if clean == line {
        return line.to_owned();
    }
    let mut digest = FingerprintHasher::new("switchboard line 1");
    digest.part("line", line.as_bytes());
    format!("{clean} ({})", &digest.finish().to_hex()[..8])
}

/// The hash of a variable's value.
fn hash_of_variable(name: &str, environment: &Environment) -> String {
    let mut digest = FingerprintHasher::new("switchboard variable 1");
    digest.part("name", name.as_bytes());
    digest.list(
        "value",
        environment
            .get(name)
            .map(|value| value.expose().as_bytes())
            .into_iter(),
    );
    digest.finish().to_hex()
}

/// Sorted by name, so that another order in the file is not a change.
fn sorted<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<(&'a str, &'a str)> {
    let mut pairs: Vec<_> = pairs.collect();
    pairs.sort_unstable();
    pairs
}

fn quoted_name(name: &str) -> String {
    let plain = !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    if plain {
        name.to_owned()
    } else {
        format!("{name:?}")
    }
}
