//! References in values, expanded in one pass when a server starts; and the child's environment.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use super::reference::{ReferenceSyntax, Segment, TextRole};
use super::sensitive::{is_ordinary, says_secret, secrets_of};
use super::{HttpAuth, HttpEndpoint, StdioEndpoint, program, server_entry};
use crate::secret::{Redactor, Secret};

/// The variables a host was handed. The library never reads the process's own.
#[derive(Debug, Clone, Default)]
pub struct Environment(BTreeMap<String, Secret>);

impl Environment {
    /// Takes the variables, as from `std::env::vars()`.
    pub fn new(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(
            variables
                .into_iter()
                .map(|(name, value)| (name, Secret::new(value)))
                .collect(),
        )
    }

    /// One variable.
    pub fn get(&self, name: &str) -> Option<&Secret> {
        self.0.get(name)
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Secret)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }
}

/// A child process as it will be started: everything expanded, the program found.
#[derive(Clone)]
pub struct ResolvedLaunch {
    /// Absolute path, found in the child's PATH.
    pub program: PathBuf,
    /// `argv[0]`, as written.
    pub argv0: String,
    /// The arguments.
    pub args: Vec<String>,
    /// The child's whole environment.
    pub env: Vec<(String, Secret)>,
    /// Its working folder.
    pub cwd: Option<PathBuf>,
    /// References to variables that are not set: (variable, field).
    pub unset: Vec<(String, String)>,
    /// Every value that must not show up in a log: the entry's own env values and what references
    /// expanded to.
    pub secrets: Vec<Secret>,
}

impl fmt::Debug for ResolvedLaunch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Arguments and paths may hold what references expanded to.
        let args = format_args!("[{} arguments]", self.args.len());
        f.debug_struct("ResolvedLaunch")
            .field("args", &args)
            .field("env", &self.env)
            .field("unset", &self.unset)
            .finish_non_exhaustive()
    }
}

/// Why a child cannot be started as written. Each tells what to try.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LaunchFault {
    /// Nothing of that name in PATH.
    #[error("no program {command:?} in PATH; install it, or give its full path in `command`")]
    NoSuchProgram {
        /// As written.
        command: String,
    },
    /// Nothing at that path.
    #[error("there is no file {path:?}; correct `command`{}", starts_at(.folder.as_deref()))]
    NoSuchFile {
        /// The expanded path.
        path: PathBuf,
        /// What the path starts at, where it is written as a relative one.
        folder: Option<PathBuf>,
    },
    /// It is there, and cannot be run.
    #[error("{path:?} is not executable; try `chmod +x`")]
    NotExecutable {
        /// Where it was found.
        path: PathBuf,
    },
    /// The working folder is not one.
    #[error("the working folder {path:?} does not exist or is not a folder; correct `cwd`")]
    BadCwd {
        /// The expanded path.
        path: PathBuf,
    },
    /// A relative path of the user's own file starts at the current folder, where the user's
    /// servers may not run.
    #[error(
        "`{field}` is relative to the current folder, in which your own servers do not run yet; accept the folder with `switchboard \
         trust --folder`, or write the whole path"
    )]
    FolderNotAccepted {
        /// The field.
        field: &'static str,
    },
    /// A variable brought in a zero byte, or a reference cannot be read.
    #[error("`{field}` cannot be passed to a program: {fact}")]
    BadText {
        /// The field.
        field: String,
        /// What is wrong with it; never the text.
        fact: &'static str,
    },
}

fn starts_at(folder: Option<&Path>) -> String {
    folder
        .map(|folder| format!(" (relative paths start at {folder:?})"))
        .unwrap_or_default()
}

impl LaunchFault {
    /// The same, for an entry whose relative paths lead to a folder in which nothing is.
    pub fn not_accepted_below(self, folder: &Path) -> Self {
        match self {
            Self::NoSuchFile { path, .. } if path.starts_with(folder) => {
                Self::FolderNotAccepted { field: "command" }
            }
            Self::BadCwd { path } if path.starts_with(folder) => {
                Self::FolderNotAccepted { field: "cwd" }
            }
            other => other,
        }
    }

    /// A path that holds what a reference expanded to is shown without it.
    fn without(mut self, secrets: &[Secret]) -> Self {
        if let Self::NoSuchFile { path, .. }
        | Self::NotExecutable { path }
        | Self::BadCwd { path } = &mut self
        {
            // A redactor takes a value out whole, so a part of a path goes, and the rest tells
            // enough.
            *path = Redactor::new(secrets.iter().cloned())
                .redact(&path.to_string_lossy())
                .into_owned()
                .into();
        }
        self
    }
}

/// Expands references against `environment` in one pass and finds the program in the child's own
/// PATH. `folder` is the file's folder.
pub fn resolve_launch(
    endpoint: &StdioEndpoint,
    folder: &Path,
    environment: &Environment,
) -> Result<ResolvedLaunch, LaunchFault> {
    let mut expansion = Expansion::new(environment, endpoint.syntax);
    let command = expansion.expand_for_launch(TextRole::Launch, "command", &endpoint.command)?;
    let mut args = Vec::with_capacity(endpoint.args.len());
    for (index, arg) in endpoint.args.iter().enumerate() {
        args.push(expansion.expand_for_launch(TextRole::Launch, &format!("args[{index}]"), arg)?);
    }
    let mut own = Vec::with_capacity(endpoint.env.len());
    for (name, value) in &endpoint.env {
        let value = Secret::new(expansion.expand_for_launch(
            TextRole::Value,
            &format!("env.{name}"),
            value.expose(),
        )?);
        expansion.secrets.extend(secrets_of(name, value.expose()));
        own.push((name.clone(), value));
    }
    let cwd = match &endpoint.cwd {
        Some(cwd) => Some(program::absolute(
            folder,
            &expansion.expand_for_launch(TextRole::Launch, "cwd", cwd)?,
        )),
        None => None,
    };
    if let Some(path) = cwd.as_ref().filter(|path| !path.is_dir()) {
        return Err(LaunchFault::BadCwd { path: path.clone() }.without(&expansion.secrets));
    }

    let mut env: BTreeMap<String, Secret> = environment
        .iter()
        .filter(|(name, _)| endpoint.inherit_env || is_passed_on(name))
        .filter(|(name, _)| !endpoint.unset.iter().any(|unset| unset == name))
        .map(|(name, value)| (name.to_owned(), value.clone()))
        .collect();
    env.extend(own);
    let path = env.get("PATH").map(Secret::expose).unwrap_or_default();
    let program = program::find(&command, &endpoint.command, folder, path)
        .map_err(|fault| fault.without(&expansion.secrets))?;
    let Expansion {
        unset, mut secrets, ..
    } = expansion;
    secrets.extend(secret_looking(&args));
    secrets.retain(|secret| !is_ordinary(secret.expose()));
    Ok(ResolvedLaunch {
        program,
        argv0: command,
        args,
        env: env.into_iter().collect(),
        cwd,
        unset,
        secrets,
    })
}

/// A URL as it will be used: everything expanded.
#[derive(Clone)]
pub struct ResolvedUrl {
    /// The endpoint.
    pub url: url::Url,
    /// Sent with each request.
    pub headers: Vec<(String, Secret)>,
    /// What to authorize with, expanded.
    pub auth: HttpAuth,
    /// References to variables that are not set: (variable, field).
    pub unset: Vec<(String, String)>,
    /// Every value that must not show up in a log.
    pub secrets: Vec<Secret>,
}

impl fmt::Debug for ResolvedUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The rest of the URL may hold what references expanded to.
        f.debug_struct("ResolvedUrl")
            .field("host", &self.url.host_str())
            .field("headers", &self.headers)
            .finish_non_exhaustive()
    }
}

/// Why a URL cannot be used as written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` cannot be used: {fact}")]
pub struct UrlFault {
    /// The field.
    pub field: String,
    /// What is wrong with it; never the text.
    pub fact: String,
}

/// Expands the references of a URL and its headers against `environment`, in one pass.
pub fn resolve_url(
    endpoint: &HttpEndpoint,
    environment: &Environment,
) -> Result<ResolvedUrl, UrlFault> {
    let mut expansion = Expansion::new(environment, endpoint.syntax);
    let fault = |field: &str, fact: &str| UrlFault {
        field: field.to_owned(),
        fact: fact.to_owned(),
    };
    let text = expansion
        .expand(TextRole::Launch, "url", &endpoint.url)
        .map_err(|fact| fault("url", fact))?;
    let url = server_entry::check_url(&text).map_err(|fact| fault("url", &fact))?;
    let mut headers = Vec::with_capacity(endpoint.headers.len());
    for (name, value) in &endpoint.headers {
        let field = format!("headers.{name}");
        let value = Secret::new(
            expansion
                .expand(TextRole::Value, &field, value.expose())
                .map_err(|fact| fault(&field, fact))?,
        );
        server_entry::check_header(name, &value).map_err(|fact| fault(&field, fact))?;
        expansion.secrets.extend(secrets_of(name, value.expose()));
        headers.push((name.clone(), value));
    }
    let auth = resolve_auth(&endpoint.auth, &mut expansion)?;
    let Expansion {
        unset, mut secrets, ..
    } = expansion;
    secrets.extend(url.password().map(Secret::new));
    secrets.extend(
        url.query_pairs()
            .flat_map(|(name, value)| secrets_of(&name, &value)),
    );
    secrets.retain(|secret| !is_ordinary(secret.expose()));
    Ok(ResolvedUrl {
        url,
        headers,
        auth,
        unset,
        secrets,
    })
}

fn resolve_auth(auth: &HttpAuth, expansion: &mut Expansion<'_>) -> Result<HttpAuth, UrlFault> {
    let fault = |field: &str, fact: &str| UrlFault {
        field: field.to_owned(),
        fact: fact.to_owned(),
    };
    let mut resolved = auth.clone();
    for (field, text) in [
        ("oauth_issuer", &mut resolved.issuer),
        ("oauth_client_id", &mut resolved.client_id),
        ("oauth_client_key", &mut resolved.client_key),
        (
            "oauth_client_metadata_url",
            &mut resolved.client_metadata_url,
        ),
    ] {
        if let Some(text) = text {
            *text = expansion
                .expand(TextRole::Launch, field, text)
                .map_err(|fact| fault(field, fact))?;
        }
    }
    for (field, secret) in [
        ("bearer_token", &mut resolved.bearer_token),
        ("oauth_client_secret", &mut resolved.client_secret),
    ] {
        if let Some(secret) = secret {
            *secret = Secret::new(
                expansion
                    .expand(TextRole::Value, field, secret.expose())
                    .map_err(|fact| fault(field, fact))?,
            );
            server_entry::check_header(field, secret).map_err(|fact| fault(field, fact))?;
            expansion.secrets.push(secret.clone());
        }
    }
    Ok(resolved)
}

/// What values expand to, and what was met on the way.
pub(crate) struct Expansion<'a> {
    environment: &'a Environment,
    syntax: ReferenceSyntax,
    unset: Vec<(String, String)>,
    secrets: Vec<Secret>,
}

impl<'a> Expansion<'a> {
    pub(crate) fn new(environment: &'a Environment, syntax: ReferenceSyntax) -> Self {
        Self {
            environment,
            syntax,
            unset: Vec::new(),
            secrets: Vec::new(),
        }
    }

    /// C7, C8: one pass; an unset variable is empty, and remembered.
    pub(crate) fn expand(
        &mut self,
        part: TextRole,
        field: &str,
        value: &str,
    ) -> Result<String, &'static str> {
        let mut expanded = String::with_capacity(value.len());
        for segment in self.syntax.segments(part, value)? {
            match segment {
                Segment::Literal(text) => expanded.push_str(text),
                // As in a shell, ":-" stands in for an empty variable too.
                Segment::Variable { name, default } => {
                    match (self.environment.get(name), default) {
                        (Some(value), None) => self.push(name, value, &mut expanded),
                        (Some(value), Some(_)) if !value.expose().is_empty() => {
                            self.push(name, value, &mut expanded)
                        }
                        (_, Some(default)) => expanded.push_str(default),
                        (None, None) => self.unset.push((name.to_owned(), field.to_owned())),
                    }
                }
            }
        }
        Ok(expanded)
    }

    fn expand_for_launch(
        &mut self,
        part: TextRole,
        field: &str,
        value: &str,
    ) -> Result<String, LaunchFault> {
        let bad = |fact| LaunchFault::BadText {
            field: field.to_owned(),
            fact,
        };
        let expanded = self.expand(part, field, value).map_err(bad)?;
        if expanded.contains('\0') {
            Err(bad("it holds a zero byte"))
        } else {
            Ok(expanded)
        }
    }

    fn push(&mut self, name: &str, value: &Secret, expanded: &mut String) {
        expanded.push_str(value.expose());
        // What every child is given is no secret (a folder, a language); a proxy's address may hold
        // a password.
        if !is_passed_on(name) || is_proxy(name) {
            self.secrets.push(value.clone());
        }
    }
}

/// C9: what a child gets of our own environment.
fn is_passed_on(name: &str) -> bool {
    matches!(
        name,
        "HOME" | "PATH" | "LANG" | "TERM" | "TMPDIR" | "TZ" | "USER" | "SHELL" | "LOGNAME"
    ) || name.starts_with("LC_")
        || is_proxy(name)
}

fn is_proxy(name: &str) -> bool {
    matches!(
        name,
        "http_proxy"
            | "https_proxy"
            | "no_proxy"
            | "all_proxy"
            | "HTTP_PROXY"
            | "HTTPS_PROXY"
            | "NO_PROXY"
            | "ALL_PROXY"
    )
}

/// Values of arguments whose name says that they are secret: `--token=x`, `--api-key x`, `-e
/// API_KEY=x`, `-H "Authorization: x"`; and the passwords of addresses.
pub(crate) fn secret_looking(args: &[String]) -> Vec<Secret> {
    let mut found = Vec::new();
    for (index, arg) in args.iter().enumerate() {
        // A header in an argument of its own: `Authorization: Bearer x`.
        let (flag, value) = match arg.split_once('=').or_else(|| arg.split_once(": ")) {
            Some((flag, value)) => (flag, Some(value)),
            None if arg.starts_with('-') => (arg.as_str(), args.get(index + 1).map(String::as_str)),
            None => (arg.as_str(), None),
        };
        if let Some(value) = value.filter(|value| !value.starts_with('-'))
            && says_secret(flag)
        {
            found.extend(secrets_of(flag, value));
        }
        found.extend(
            url::Url::parse(arg)
                .ok()
                .and_then(|url| url.password().map(Secret::new)),
        );
    }
    found
}
