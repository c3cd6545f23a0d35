//! Turns the fields of one entry into a `ServerConfig`: checks how they fit together.

use std::path::PathBuf;
use std::sync::Arc;

use indexmap::IndexMap;

use super::diagnostic::Diagnostics;
use super::fields::{FieldTransport, SERVERS};
use super::package_runner::FIRST_START_TIMEOUT;
use super::raw::{AtOffset, FieldTable, RawServer};
use super::reference::TextRole;
use super::source::Scope;
use super::{
    Asks, Diagnostic, Dialect, DialectProfile, Endpoint, MAX_MESSAGE_BYTES, Protocol, ServerConfig,
    Sharing, Source, Start, Timeouts,
};
use crate::name::{BadName, Glob, ServerName};
use crate::secret::Secret;

pub(super) use http::{check_header, check_url};

mod http;
mod stdio;

/// The file of an entry.
pub(super) struct FileContext {
    pub(super) file: Arc<PathBuf>,
    /// The base of relative paths.
    pub(super) folder: Arc<PathBuf>,
    pub(super) scope: Scope,
    pub(super) dialect: Dialect,
}

impl FileContext {
    fn name(&self, text: &str) -> Result<ServerName, BadName> {
        if self.dialect.profile().strict_names {
            ServerName::new(text)
        } else {
            ServerName::lenient(text)
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

/// The server of an invalid entry in a lenient dialect: it is listed and never started. `None` if
/// its name is invalid too; then the error becomes a warning of the file.
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

/// The server of an entry with native fields; `None` if an error was reported.
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
    let name = context
        .name(&written.name)
        .map_err(|fault| diagnostics.error(written.at, entry.path, fault.to_string()))
        .ok();
    let endpoint = entry.endpoint(context.scope, diagnostics);
    let timeouts = entry.timeouts(diagnostics);
    entry.check_globs(diagnostics);
    let endpoint = endpoint?;
    let sets_connect = fields.duration("connect_timeout").is_some();
    let texts = |field: &str| fields.texts(field).map(plain);
    Some(ServerConfig {
        name: name?,
        dialect: context.dialect,
        source: context.source(diagnostics.lines.line(written.at)),
        first_connect: endpoint
            .package_runner()
            .filter(|_| !sets_connect)
            .map(|_| FIRST_START_TIMEOUT),
        endpoint,
        protocol: match fields.choice("protocol") {
            Some("legacy") => Protocol::Legacy,
            Some("modern") => Protocol::Modern,
            _ => Protocol::Auto,
        },
        start: match fields.choice("start") {
            Some("lazy") => Start::Lazy,
            Some(_) => Start::Eager,
            None => entry.rules.start,
        },
        enabled: fields.flag("enabled").unwrap_or(true),
        trust: context.scope != Scope::Project && fields.flag("trust").unwrap_or(false),
        asks: match fields.choice("asks") {
            Some("yes") => Asks::Yes,
            Some("no") => Asks::No,
            _ if entry.rules.serializes_callers => Asks::Yes,
            _ => Asks::Auto,
        },
        session: match fields.choice("session") {
            Some("per-caller") => Sharing::PerCaller,
            _ => Sharing::Shared,
        },
        timeouts,
        written_call_timeout: fields.duration("call_timeout"),
        include_tools: texts("include_tools"),
        exclude_tools: texts("exclude_tools").unwrap_or_default(),
        idempotent_tools: texts("idempotent_tools").unwrap_or_default(),
        description: fields.text("description").map(str::to_owned),
        max_message_bytes: fields.bytes("max_message").unwrap_or(MAX_MESSAGE_BYTES),
    })
}

/// The fields of an entry while they are checked.
struct ServerEntry<'a> {
    fields: &'a FieldTable,
    at: usize,
    path: &'a str,
    rules: &'static DialectProfile,
}

impl ServerEntry<'_> {
    fn endpoint(&self, scope: Scope, diagnostics: &mut Diagnostics<'_>) -> Option<Endpoint> {
        let transport = self.fields.choice("transport");
        let applies_to = match (
            self.fields.offset_of("command"),
            self.fields.offset_of("url"),
        ) {
            // It is unknown which of the two is intended.
            (Some(command), Some(url)) => {
                let (command_line, url_line) =
                    (diagnostics.lines.line(command), diagnostics.lines.line(url));
                diagnostics.error(
                    command.max(url),
                    self.path,
                    format!(
                        "both `{}` (line {command_line}) and `{}` (line {url_line}) are set; a server is either a program to start \
                         or a URL to reach: remove one of them",
                        self.fields.name_in_file("command"),
                        self.fields.name_in_file("url")
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
        let fits = self.check_transport_fields(applies_to, transport, diagnostics);
        let endpoint = if applies_to == FieldTransport::Stdio {
            self.stdio(scope, diagnostics)
        } else {
            self.http(transport, diagnostics)
        };
        endpoint.filter(|_| fits)
    }

    /// Reports fields of the other transport, and a `transport` that does not fit: ignoring them
    /// would hide a misunderstanding. False if the entry cannot be used.
    fn check_transport_fields(
        &self,
        applies_to: FieldTransport,
        transport: Option<&str>,
        diagnostics: &mut Diagnostics<'_>,
    ) -> bool {
        let (ours, is, other, expected) = match applies_to {
            FieldTransport::Stdio => ("command", "a program to start", "a `url`", "\"stdio\""),
            _ => (
                "url",
                "a URL to reach",
                "a `command`",
                "\"http\" or \"sse\"",
            ),
        };
        let line = self
            .fields
            .offset_of(ours)
            .map(|at| diagnostics.lines.line(at))
            .unwrap_or_default();
        let this = format!("{is} (`{}`, line {line})", self.fields.name_in_file(ours));
        let mut fits = true;
        for field in SERVERS.fields.iter().filter(|field| {
            field.applies_to != FieldTransport::Both && field.applies_to != applies_to
        }) {
            let Some(at) = self.fields.offset_of(field.name) else {
                continue;
            };
            let name = self.fields.name_in_file(field.name);
            let message =
                format!("belongs to servers with {other}; this one is {this}: remove `{name}`");
            let path = self.path_of(field.name);
            if self.rules.strict {
                diagnostics.error(at, path, message);
                fits = false;
            } else {
                diagnostics.warn(at, path, format!("ignored: {message}"));
            }
        }
        let is_program = applies_to == FieldTransport::Stdio;
        if let (Some(transport), Some(at)) = (transport, self.fields.offset_of("transport"))
            && (transport == "stdio") != is_program
        {
            let message = format!(
                "\"{transport}\" does not fit {this}; expected {expected}, or no transport at all"
            );
            diagnostics.error(at, self.path_of("transport"), message);
            fits = false;
        }
        fits
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
                        .offset_of("call_timeout")
                        .map(|at| diagnostics.lines.line(at))
                        .unwrap_or_default();
                    let message = format!(
                        "shorter than `call_timeout` (line {line}); expected at least as long"
                    );
                    self.error("call_timeout_max", message, diagnostics);
                }
                (call, max)
            }
            // The deadline that is set limits the default of the other.
            (Some(call), None) => (call, default.call_max.max(call)),
            (None, Some(max)) => (default.call.min(max), max),
            (None, None) => (default.call, default.call_max),
        };
        // In a dialect with one absolute deadline, progress does not extend it.
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

    /// Checks a text that is passed to a process or sent to a server. Messages do not repeat the
    /// text: it may contain a secret.
    fn check_text(
        &self,
        text: &str,
        at: usize,
        field: &str,
        diagnostics: &mut Diagnostics<'_>,
    ) -> bool {
        let fault = match self.rules.syntax.segments(TextRole::Launch, text) {
            Err(fault) => fault,
            Ok(_) if text.contains('\0') => {
                "contains a zero byte, which cannot be passed to a program"
            }
            Ok(_) => return true,
        };
        diagnostics.error(at, self.path_of(field), fault);
        false
    }

    fn error(&self, field: &str, message: impl Into<String>, diagnostics: &mut Diagnostics<'_>) {
        diagnostics.error(
            self.fields.offset_of(field).unwrap_or(self.at),
            self.path_of(field),
            message,
        );
    }

    fn warn(&self, field: &str, message: &str, diagnostics: &mut Diagnostics<'_>) {
        diagnostics.warn(
            self.fields.offset_of(field).unwrap_or(self.at),
            self.path_of(field),
            message,
        );
    }

    /// The dotted path of a field, with the file's name for it. `field` may have an index or a key
    /// appended.
    fn path_of(&self, field: &str) -> String {
        let end = field.find(['.', '[']).unwrap_or(field.len());
        format!(
            "{}.{}{}",
            self.path,
            self.fields.name_in_file(&field[..end]),
            &field[end..]
        )
    }
}

const BARE_REFERENCE: &str = "\"$NAME\" is not expanded; a reference is written \"${NAME}\"";

/// `$TOKEN` alone is probably meant as a reference, as in most other programs.
fn looks_like_a_bare_reference(value: &Secret) -> bool {
    value.expose().strip_prefix('$').is_some_and(|name| {
        name.starts_with(|first: char| first.is_ascii_uppercase())
            && name
                .bytes()
                .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
    })
}

fn plain(texts: &[AtOffset<String>]) -> Vec<String> {
    texts.iter().map(|text| text.value.clone()).collect()
}

fn by_name(secrets: &[AtOffset<(String, Secret)>]) -> IndexMap<String, Secret> {
    secrets.iter().map(|secret| secret.value.clone()).collect()
}
