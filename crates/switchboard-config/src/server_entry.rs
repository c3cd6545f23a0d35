//! One server's entry as meant: the fields together make one endpoint, or an error that names them.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use indexmap::IndexMap;

use super::diagnostic::{Diagnostics, visible_key};
use super::fields::{FieldTransport, SERVERS};
use super::load::Scope;
use super::loader_variables;
use super::package_runner::FIRST_START;
use super::raw::{AtOffset, FieldTable, RawServer, UNSET};
use super::reference::{ReferenceSyntax, TextRole};
use super::{
    Asks, Diagnostic, Dialect, DialectProfile, Endpoint, HttpAuth, HttpEndpoint, HttpWire,
    MAX_MESSAGE_BYTES, OAuthGrant, Protocol, ServerConfig, Sharing, Source, Start, StdioEndpoint,
    Timeouts,
};
use crate::name::{BadName, Glob, ServerName};
use crate::secret::Secret;

/// The file an entry stands in.
pub(super) struct FileContext {
    pub(super) file: Arc<PathBuf>,
    /// What relative paths start at.
    pub(super) folder: Arc<PathBuf>,
    pub(super) scope: Scope,
    pub(super) dialect: Dialect,
}

impl FileContext {
    fn name(&self, text: &str) -> Result<ServerName, BadName> {
        if self.dialect.profile().narrow_names {
            ServerName::new(text)
        } else {
            ServerName::dialect(text)
        }
    }

    fn source(&self, line: usize) -> Source {
        let Self {
            file,
            folder,
            scope,
            ..
        } = self;
        Source {
            file: file.clone(),
            folder: folder.clone(),
            line,
            scope: *scope,
            shadows: None,
        }
    }
}

/// An entry that is wrong, in a dialect in which that stops no other server: listed, and never
/// started. `None` where it cannot even be named; that is told as a warning.
pub(super) fn invalid_server(
    written: &RawServer,
    fault: Diagnostic,
    context: &FileContext,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<ServerConfig> {
    let Ok(name) = context.name(&written.name) else {
        diagnostics.warnings.push(fault);
        return None;
    };
    let source = context.source(diagnostics.lines.line(written.at));
    Some(ServerConfig {
        dialect: context.dialect,
        ..ServerConfig::new(name, source, Endpoint::Invalid(fault))
    })
}

/// What an entry means, its fields being native ones; `None` where an error was found and told.
pub(super) fn server(
    written: &RawServer,
    fields: &FieldTable,
    context: &FileContext,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<ServerConfig> {
    let entry = ServerEntry {
        fields,
        at: written.at,
        path: &written.path,
        rules: context.dialect.profile(),
    };
    let scope = context.scope;

    let name = context
        .name(&written.name)
        .map_err(|fault| diagnostics.error(written.at, entry.path, fault.to_string()))
        .ok();
    let endpoint = entry.endpoint(scope, diagnostics);
    let timeouts = entry.timeouts(diagnostics);
    entry.check_globs(diagnostics);
    let endpoint = endpoint?;
    let sets_connect = entry.fields.duration("connect_timeout").is_some();
    Some(ServerConfig {
        name: name?,
        dialect: context.dialect,
        source: context.source(diagnostics.lines.line(written.at)),
        first_connect: endpoint
            .package_runner()
            .filter(|_| !sets_connect)
            .map(|_| FIRST_START),
        endpoint,
        protocol: match entry.fields.choice("protocol") {
            Some("legacy") => Protocol::Legacy,
            Some("modern") => Protocol::Modern,
            _ => Protocol::Auto,
        },
        start: match entry.fields.choice("start") {
            Some("lazy") => Start::Lazy,
            Some(_) => Start::Eager,
            None => entry.rules.start,
        },
        enabled: entry.fields.flag("enabled").unwrap_or(true),
        trust: scope != Scope::Project && entry.fields.flag("trust").unwrap_or(false),
        asks: match entry.fields.choice("asks") {
            Some("yes") => Asks::Yes,
            Some("no") => Asks::No,
            _ if entry.rules.keeps_callers_apart => Asks::Yes,
            _ => Asks::Auto,
        },
        session: if entry.fields.choice("session") == Some("per-caller") {
            Sharing::PerCaller
        } else {
            Sharing::Shared
        },
        timeouts,
        written_call_timeout: entry.fields.duration("call_timeout"),
        include_tools: entry.fields.texts("include_tools").map(plain),
        exclude_tools: entry
            .fields
            .texts("exclude_tools")
            .map(plain)
            .unwrap_or_default(),
        idempotent_tools: entry
            .fields
            .texts("idempotent_tools")
            .map(plain)
            .unwrap_or_default(),
        description: entry.fields.text("description").map(str::to_owned),
        max_message_bytes: entry
            .fields
            .bytes("max_message")
            .unwrap_or(MAX_MESSAGE_BYTES),
    })
}

/// An entry on its way.
struct ServerEntry<'a> {
    fields: &'a FieldTable,
    at: usize,
    path: &'a str,
    rules: &'static DialectProfile,
}

impl ServerEntry<'_> {
    fn endpoint(&self, scope: Scope, diagnostics: &mut Diagnostics<'_>) -> Option<Endpoint> {
        let transport = self.fields.choice("transport");
        let applies_to = match (self.fields.at("command"), self.fields.at("url")) {
            // C6: which of the two was meant cannot be known.
            (Some(command), Some(url)) => {
                let (command_line, url_line) =
                    (diagnostics.lines.line(command), diagnostics.lines.line(url));
                diagnostics.error(
                    command.max(url),
                    self.path,
                    format!(
                        "both `{}` (line {command_line}) and `{}` (line {url_line}) are set; a server is either a program to start \
                         or a URL to reach: remove one of them",
                        self.fields.spelt("command"),
                        self.fields.spelt("url")
                    ),
                );
                return None;
            }
            (Some(_), None) => FieldTransport::Stdio,
            (None, Some(_)) => FieldTransport::Http,
            (None, None) => {
                let expected = match transport {
                    Some("stdio") => "`command` is missing; expected the program to start",
                    Some(_) => "`url` is missing; expected the address of the server",
                    None => {
                        "neither `command` nor `url` is set; expected a program to start or a URL to reach"
                    }
                };
                diagnostics.missing(self.at, self.path, expected);
                return None;
            }
        };
        let fits = self.check_side(applies_to, transport, diagnostics);
        let endpoint = if applies_to == FieldTransport::Stdio {
            self.stdio(scope, diagnostics)
        } else {
            self.http(transport, diagnostics)
        };
        endpoint.filter(|_| fits)
    }

    /// C18: a field of the other transport shows a misunderstanding; to ignore it would hide that.
    fn check_side(
        &self,
        applies_to: FieldTransport,
        transport: Option<&str>,
        diagnostics: &mut Diagnostics<'_>,
    ) -> bool {
        let (ours, is) = if applies_to == FieldTransport::Stdio {
            ("command", "a program to start")
        } else {
            ("url", "a URL to reach")
        };
        let line = self
            .fields
            .at(ours)
            .map(|at| diagnostics.lines.line(at))
            .unwrap_or_default();
        let mut fits = true;
        for field in SERVERS.fields.iter().filter(|field| {
            field.applies_to != FieldTransport::Both && field.applies_to != applies_to
        }) {
            if let Some(at) = self.fields.at(field.name) {
                let whose = if applies_to == FieldTransport::Stdio {
                    "a `url`"
                } else {
                    "a `command`"
                };
                let message = format!(
                    "belongs to servers with {whose}; this one is {is} (`{}`, line {line}): remove `{}`",
                    self.fields.spelt(ours),
                    self.fields.spelt(field.name)
                );
                let path = self.path_of(field.name);
                if self.rules.strict {
                    diagnostics.error(at, path, message);
                    fits = false;
                } else {
                    diagnostics.warn(at, path, format!("ignored: {message}"));
                }
            }
        }
        let contradicts = transport.is_some_and(|transport| {
            (transport == "stdio") != (applies_to == FieldTransport::Stdio)
        });
        if let (true, Some(transport), Some(at)) =
            (contradicts, transport, self.fields.at("transport"))
        {
            let message = format!(
                "\"{transport}\" does not fit {is} (`{}`, line {line}); expected {}",
                self.fields.spelt(ours),
                if applies_to == FieldTransport::Stdio {
                    "\"stdio\", or no transport at all"
                } else {
                    "\"http\" or \"sse\", or no transport at all"
                }
            );
            diagnostics.error(at, self.path_of("transport"), message);
            fits = false;
        }
        fits
    }

    fn stdio(&self, scope: Scope, diagnostics: &mut Diagnostics<'_>) -> Option<Endpoint> {
        let command = self.fields.text("command");
        if command.is_some_and(|command| command.trim().is_empty()) {
            self.error(
                "command",
                "empty; expected the program to start, such as \"npx\" or \"./server\"",
                diagnostics,
            );
            return None;
        }
        let args = self.fields.texts("args").unwrap_or_default();
        let env = self.fields.secrets("env");
        let mut sound = true;
        for field in ["command", "cwd"] {
            if let (Some(text), Some(at)) = (self.fields.text(field), self.fields.at(field)) {
                sound &= self.check_text(text, at, field, diagnostics);
                if text == "~" || text.starts_with("~/") {
                    self.warn(
                        field,
                        "\"~\" is taken as it is; write \"${HOME}\" for your home folder",
                        diagnostics,
                    );
                }
            }
        }
        if self.fields.text("cwd").is_some_and(str::is_empty) {
            self.error(
                "cwd",
                "empty; expected a folder, or no `cwd` at all",
                diagnostics,
            );
            sound = false;
        }
        for (index, arg) in args.iter().enumerate() {
            sound &= self.check_text(&arg.value, arg.at, &format!("args[{index}]"), diagnostics);
        }
        for AtOffset {
            at,
            value: (name, value),
        } in env
        {
            sound &= self.check_variable(name, value, *at, scope, diagnostics);
        }
        let endpoint = StdioEndpoint {
            command: command?.to_owned(),
            args: plain(args),
            env: by_name(env),
            unset: self.fields.texts(UNSET).map(plain).unwrap_or_default(),
            inherit_env: self
                .fields
                .flag("inherit_env")
                .unwrap_or(self.rules.inherits_environment),
            cwd: self.fields.text("cwd").map(str::to_owned),
            syntax: self.rules.syntax,
        };
        sound.then_some(Endpoint::Stdio(endpoint))
    }

    fn http(&self, transport: Option<&str>, diagnostics: &mut Diagnostics<'_>) -> Option<Endpoint> {
        let url = self.fields.text("url")?;
        let at = self.fields.at("url")?;
        let headers = self.fields.secrets("headers");
        let mut sound = self.check_text(url, at, "url", diagnostics);
        // A reference may hold any part of a URL, so one with references is looked at when it is
        // expanded.
        if sound
            && !self.rules.syntax.reads(TextRole::Launch, url)
            && let Err(message) = check_url(url)
        {
            self.error("url", message, diagnostics);
            sound = false;
        }
        let mut seen = HashSet::new();
        for AtOffset {
            at,
            value: (name, value),
        } in headers
        {
            let path = self.path_of(&format!("headers.{}", visible_key(name)));
            let lower = name.to_ascii_lowercase();
            if let Err(message) = check_header(name, value) {
                diagnostics.error(*at, path, message);
                sound = false;
            } else if !seen.insert(lower) {
                diagnostics.error(
                    *at,
                    path,
                    "set twice; header names do not tell upper from lower case: remove one of them",
                );
                sound = false;
            } else if matches!(
                self.rules.syntax,
                ReferenceSyntax::Native | ReferenceSyntax::Braced
            ) && looks_like_a_bare_reference(value)
            {
                diagnostics.warn(*at, path, BARE_REFERENCE);
            }
        }
        let wire = match transport {
            Some("http") => HttpWire::Streamable,
            Some("sse") => HttpWire::Sse,
            _ => self.rules.wire,
        };
        let auth = self.auth(diagnostics);
        let syntax = self.rules.syntax;
        let endpoint = HttpEndpoint {
            url: url.to_owned(),
            headers: by_name(headers),
            wire,
            auth: auth?,
            syntax,
        };
        sound.then_some(Endpoint::Http(endpoint))
    }

    /// What to authorize with; fields that contradict each other are told, since one of them would
    /// be ignored.
    fn auth(&self, diagnostics: &mut Diagnostics<'_>) -> Option<HttpAuth> {
        let text = |field: &str| self.fields.text(field).map(str::to_owned);
        let auth = HttpAuth {
            bearer_token: self.fields.secret("bearer_token").cloned(),
            grant: match self.fields.choice("oauth_grant") {
                Some("client_credentials") => OAuthGrant::ClientCredentials,
                _ => OAuthGrant::AuthorizationCode,
            },
            issuer: text("oauth_issuer"),
            client_id: text("oauth_client_id"),
            client_secret: self.fields.secret("oauth_client_secret").cloned(),
            client_key: text("oauth_client_key"),
            client_metadata_url: text("oauth_client_metadata_url"),
            scopes: self
                .fields
                .texts("oauth_scopes")
                .map(plain)
                .unwrap_or_default(),
            callback_port: self.fields.port("oauth_callback_port"),
        };
        let mut sound = true;
        for field in [
            "oauth_issuer",
            "oauth_client_id",
            "oauth_client_key",
            "oauth_client_metadata_url",
        ] {
            if let (Some(text), Some(at)) = (self.fields.text(field), self.fields.at(field)) {
                sound &= self.check_text(text, at, field, diagnostics);
            }
        }
        for field in ["bearer_token", "oauth_client_secret"] {
            if self
                .fields
                .secret(field)
                .is_some_and(looks_like_a_bare_reference)
            {
                self.warn(field, BARE_REFERENCE, diagnostics);
            }
        }
        let headers = self.fields.secrets("headers");
        let own = headers
            .iter()
            .any(|header| header.value.0.eq_ignore_ascii_case("authorization"));
        let mut clash = |is: bool, field: &str, message: &str| {
            if is {
                self.error(field, message, diagnostics);
                sound = false;
            }
        };
        clash(
            own && auth.bearer_token.is_some(),
            "bearer_token",
            "`headers` has an Authorization already: remove one of them",
        );
        let lone = "says nothing without `oauth_client_id`: give the id that it belongs to";
        clash(
            auth.client_secret.is_some() && auth.client_id.is_none(),
            "oauth_client_secret",
            lone,
        );
        clash(
            auth.client_key.is_some() && auth.client_id.is_none(),
            "oauth_client_key",
            lone,
        );
        let both =
            "`oauth_client_secret` is set as well; one of them proves who asks: remove the other";
        clash(
            auth.client_secret.is_some() && auth.client_key.is_some(),
            "oauth_client_key",
            both,
        );
        let alone = auth.grant == OAuthGrant::ClientCredentials
            && (auth.client_id.is_none()
                || (auth.client_secret.is_none() && auth.client_key.is_none()));
        let needs = "\"client_credentials\" needs `oauth_client_id`, and `oauth_client_secret` or `oauth_client_key`";
        clash(alone, "oauth_grant", needs);
        let person = auth.grant == OAuthGrant::AuthorizationCode && auth.client_key.is_some();
        clash(
            person,
            "oauth_client_key",
            "is used with `oauth_grant = \"client_credentials\"` only",
        );
        let url = auth
            .client_metadata_url
            .as_deref()
            .filter(|url| !self.rules.syntax.reads(TextRole::Launch, url));
        let bad = url.is_some_and(|url| {
            !url::Url::parse(url).is_ok_and(|url| url.scheme() == "https" && url.path() != "/")
        });
        clash(
            bad,
            "oauth_client_metadata_url",
            "expected an https address with a path, such as \"https://example.com/client.json\"",
        );
        sound.then_some(auth)
    }

    fn timeouts(&self, diagnostics: &mut Diagnostics<'_>) -> Timeouts {
        let default = Timeouts::default();
        let connect = self
            .fields
            .duration("connect_timeout")
            .unwrap_or(self.rules.connect_timeout);
        let (call, call_max) = match (
            self.fields.duration("call_timeout"),
            self.fields.duration("call_timeout_max"),
        ) {
            (Some(call), Some(max)) => {
                if max < call {
                    let line = self
                        .fields
                        .at("call_timeout")
                        .map(|at| diagnostics.lines.line(at))
                        .unwrap_or_default();
                    let message = format!(
                        "shorter than `call_timeout` (line {line}); expected at least as long"
                    );
                    self.error("call_timeout_max", message, diagnostics);
                }
                (call, max)
            }
            // The one that was written decides; the other's default gives way.
            (Some(call), None) => (call, default.call_max.max(call)),
            (None, Some(max)) => (default.call.min(max), max),
            (None, None) => (default.call, default.call_max),
        };
        // C10: where the dialect has one absolute deadline, progress does not extend it.
        let (call, call_max) = match (
            self.rules.call_timeout,
            self.fields.duration("call_timeout"),
        ) {
            (Some(_), Some(written)) => (written, written),
            (Some(absolute), None) => (absolute, absolute),
            (None, _) => (call, call_max),
        };
        Timeouts {
            connect,
            call,
            call_max,
        }
    }

    fn check_globs(&self, diagnostics: &mut Diagnostics<'_>) {
        for field in ["include_tools", "exclude_tools", "idempotent_tools"] {
            for (index, glob) in self
                .fields
                .texts(field)
                .unwrap_or_default()
                .iter()
                .enumerate()
            {
                if let Err(fault) = Glob::new(&glob.value) {
                    let message = format!(
                        "not a glob: {fault}; expected a tool name, with * and ? where needed"
                    );
                    diagnostics.error(glob.at, self.path_of(&format!("{field}[{index}]")), message);
                }
            }
        }
    }

    /// What holds for every text that reaches a process or a wire. The text itself is not repeated:
    /// it may hold a secret.
    fn check_text(
        &self,
        text: &str,
        at: usize,
        field: &str,
        diagnostics: &mut Diagnostics<'_>,
    ) -> bool {
        let fault = match self.rules.syntax.segments(TextRole::Launch, text) {
            Err(fault) => fault,
            Ok(_) if text.contains('\0') => "holds a zero byte, which no program can be given",
            Ok(_) => return true,
        };
        diagnostics.error(at, self.path_of(field), fault);
        false
    }

    fn check_variable(
        &self,
        name: &str,
        value: &Secret,
        at: usize,
        scope: Scope,
        diagnostics: &mut Diagnostics<'_>,
    ) -> bool {
        let path = self.path_of(&format!("env.{}", visible_key(name)));
        if name.is_empty() || name.contains(['=', '\0']) {
            diagnostics.error(
                at,
                path,
                "not the name of a variable; expected a name without \"=\"",
            );
            return false;
        }
        if value.expose().contains('\0') {
            diagnostics.error(at, path, "holds a zero byte, which no program can be given");
            return false;
        }
        if matches!(
            self.rules.syntax,
            ReferenceSyntax::Native | ReferenceSyntax::Braced
        ) && looks_like_a_bare_reference(value)
        {
            diagnostics.warn(at, &path, BARE_REFERENCE);
        }
        if let Some(what) = loader_variables::effect(name) {
            let then = match scope {
                // Refused where trust is decided; no error, since it must not take the person's
                // other servers down.
                Scope::Project => {
                    "a project's file may not set it, and this server cannot be trusted while it does"
                }
                Scope::User | Scope::Given => "keep it only if you mean it",
            };
            diagnostics.warn(at, path, format!("{what}; {then}"));
        }
        true
    }

    fn error(&self, field: &str, message: impl Into<String>, diagnostics: &mut Diagnostics<'_>) {
        diagnostics.error(
            self.fields.at(field).unwrap_or(self.at),
            self.path_of(field),
            message,
        );
    }

    fn warn(&self, field: &str, message: &str, diagnostics: &mut Diagnostics<'_>) {
        diagnostics.warn(
            self.fields.at(field).unwrap_or(self.at),
            self.path_of(field),
            message,
        );
    }

    /// The field dotted, as its file spells it; `field` may go on below the field itself.
    fn path_of(&self, field: &str) -> String {
        let end = field.find(['.', '[']).unwrap_or(field.len());
        format!(
            "{}.{}{}",
            self.path,
            self.fields.spelt(&field[..end]),
            &field[end..]
        )
    }
}

const BARE_REFERENCE: &str = "\"$NAME\" is taken as it is; a reference is written \"${NAME}\"";

/// `$TOKEN` and nothing else: meant as a reference, by every other program's habit.
fn looks_like_a_bare_reference(value: &Secret) -> bool {
    value.expose().strip_prefix('$').is_some_and(|name| {
        name.starts_with(|first: char| first.is_ascii_uppercase())
            && name
                .bytes()
                .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
    })
}

/// Whether a URL can be reached at all; the message does not repeat it, since it may hold a key.
pub(super) fn check_url(text: &str) -> Result<url::Url, String> {
    let expected = "expected one such as \"https://example.com/mcp\"";
    let url = url::Url::parse(text).map_err(|fault| format!("not a URL: {fault}; {expected}"))?;
    match url.scheme() {
        "http" | "https" => Ok(url),
        other => Err(format!(
            "{other:?} is no wire of an MCP server; expected http or https"
        )),
    }
}

pub(super) fn check_header(name: &str, value: &Secret) -> Result<(), &'static str> {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(token) {
        Err("not the name of a header; expected letters, digits and -")
    } else if value.expose().contains(['\r', '\n', '\0']) {
        Err("holds a line break or a zero byte, which no header can carry")
    } else {
        Ok(())
    }
}

fn plain(texts: &[AtOffset<String>]) -> Vec<String> {
    texts.iter().map(|text| text.value.clone()).collect()
}

fn by_name(secrets: &[AtOffset<(String, Secret)>]) -> IndexMap<String, Secret> {
    secrets.iter().map(|secret| secret.value.clone()).collect()
}
