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
    Endpoint, Environment, Fingerprint, HttpAuth, HttpEndpoint, HttpTransportKind, OAuthGrant,
    Scope, ServerConfig, StdioEndpoint, loader_variables, program,
};
use crate::name::ServerName;
use crate::secret::{Redactor, Secret};

/// Everything that would start, untruncated: command, every argument, working folder, variables,
/// URL, headers.
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
    let mut facts = EntryFacts::new(server);
    match &server.endpoint {
        Endpoint::Stdio(stdio) => facts.add_process(server, stdio),
        Endpoint::Http(http) => facts.add_url(http),
        Endpoint::Invalid(fault) => facts.lines.push(fault.message.clone()),
    }
    let variable_hashes = facts.add_variables(environment);
    let EntryFacts {
        mut lines,
        deciding,
        refused,
        ..
    } = facts;
    if let Some(shadowed) = &server.source.shadows {
        lines.push(format!(
            "replaces the server of the same name in {:?}",
            visible_path(&shadowed.file)
        ));
    }
    let redactor = Redactor::new(secrets(&server.endpoint));
    let stored_lines = lines
        .iter()
        .map(|line| without_secrets(line, &redactor))
        .collect();
    Disclosure {
        name: server.name.clone(),
        file: server.source.file.to_path_buf(),
        lines,
        key: key(server, &deciding, environment),
        refused,
        stored_lines,
        variable_hashes,
    }
}

/// What is disclosed of an entry, while it is collected.
struct EntryFacts<'a> {
    syntax: ReferenceSyntax,
    lines: Vec<String>,
    /// The variables that the entry reads.
    variables: Vec<&'a str>,
    /// The texts that decide what runs or where it connects.
    deciding: Vec<&'a str>,
    refused: Vec<String>,
}

impl<'a> EntryFacts<'a> {
    fn new(server: &ServerConfig) -> Self {
        Self {
            syntax: server.endpoint.syntax(),
            lines: Vec::new(),
            variables: Vec::new(),
            deciding: Vec::new(),
            refused: Vec::new(),
        }
    }

    fn add_process(&mut self, server: &ServerConfig, stdio: &'a StdioEndpoint) {
        self.lines.push(format!("command: {:?}", stdio.command));
        let arguments = stdio.args.iter().map(|arg| format!("argument: {arg:?}"));
        self.lines.extend(arguments);
        self.lines.extend(
            working_folder(server, stdio).map(|folder| format!("working folder: {folder}")),
        );
        self.deciding.push(stdio.command.as_str());
        self.deciding.extend(stdio.args.iter().map(String::as_str));
        self.deciding.extend(stdio.cwd.as_deref());
        let env = stdio.env.iter();
        for (name, value) in sorted(env.map(|(name, value)| (name.as_str(), value.expose()))) {
            self.add_value("variable", name, value);
            // The user's own file may set any variable.
            let effect =
                loader_variables::effect(name).filter(|_| server.source.scope == Scope::Project);
            self.refused
                .extend(effect.map(|effect| format!("{}: {effect}", quoted_name(name))));
        }
        if stdio.inherit_env {
            self.lines
                .push("gets every variable of your environment".to_owned());
        }
    }

    fn add_url(&mut self, http: &'a HttpEndpoint) {
        self.lines.push(format!("url: {:?}", http.url));
        self.deciding.push(http.url.as_str());
        self.lines.extend(match http.wire {
            HttpTransportKind::Auto => None,
            HttpTransportKind::Streamable => Some("transport: \"http\"".to_owned()),
            HttpTransportKind::Sse => Some("transport: \"sse\"".to_owned()),
        });
        let headers = http.headers.iter();
        for (name, value) in sorted(headers.map(|(name, value)| (name.as_str(), value.expose()))) {
            self.add_value("header", name, value);
        }
        self.add_auth(&http.auth);
    }

    fn add_value(&mut self, label: &str, name: &str, value: &'a str) {
        self.lines
            .push(format!("{label}: {} = {value:?}", quoted_name(name)));
        self.variables
            .extend(self.syntax.variables(TextRole::Value, value));
    }

    /// Adds the credentials. Literal values are not shown.
    fn add_auth(&mut self, auth: &'a HttpAuth) {
        for (label, secret) in [
            ("bearer token", &auth.bearer_token),
            ("login secret", &auth.client_secret),
        ] {
            if let Some(secret) = secret {
                let value = secret.expose();
                let shown = if self.syntax.reads(TextRole::Value, value) {
                    format!("{value:?}")
                } else {
                    "given in the file".to_owned()
                };
                self.lines.push(format!("{label}: {shown}"));
                self.variables
                    .extend(self.syntax.variables(TextRole::Value, value));
            }
        }
        for (label, text) in [
            ("logs in as", &auth.client_id),
            ("login key", &auth.client_key),
            ("login document", &auth.client_metadata_url),
            ("login server", &auth.issuer),
        ] {
            if let Some(text) = text {
                self.lines.push(format!("{label}: {text:?}"));
                self.deciding.push(text);
            }
        }
        if auth.grant == OAuthGrant::ClientCredentials {
            self.lines
                .push("logs in by itself, without a person".to_owned());
        }
        if !auth.scopes.is_empty() {
            let scopes = auth.scopes.join(" ");
            self.lines.push(format!("asks for scopes: {scopes:?}"));
        }
        let port = auth.callback_port;
        self.lines
            .extend(port.map(|port| format!("login returns to port: {port}")));
    }

    /// Adds the variables that the entry reads. Returns the hashes of those that the launch depends
    /// on.
    fn add_variables(&mut self, environment: &Environment) -> BTreeMap<String, String> {
        let of_launch: Vec<&str> = self
            .deciding
            .iter()
            .flat_map(|text| self.syntax.variables(TextRole::Launch, text))
            .collect();
        self.variables.extend(&of_launch);
        self.variables.sort_unstable();
        self.variables.dedup();
        let variables = self.variables.iter();
        self.lines
            .extend(variables.map(|name| format!("reads from your environment: {name}")));
        let hashes = of_launch.into_iter();
        hashes
            .map(|name| (name.to_owned(), hash_of_variable(name, environment)))
            .collect()
    }
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

/// The fingerprint of the file, the name, the entry as written, and the launch with its references
/// expanded.
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
