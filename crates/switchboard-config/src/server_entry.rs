//! One server's entry as meant: the fields together make one endpoint, or an error that names them.

use std::path::PathBuf;
use std::sync::Arc;

use indexmap::IndexMap;

use super::diagnostic::Diagnostics;
use super::fields::{FieldTransport, SERVERS};
use super::load::Scope;
use super::package_runner::FIRST_START;
use super::raw::{AtOffset, FieldTable, RawServer};
use super::reference::TextRole;
use super::{
    Asks, Diagnostic, Dialect, DialectProfile, Endpoint, MAX_MESSAGE_BYTES, Protocol, ServerConfig,
    Sharing, Source, Start, Timeouts,
};
use crate::name::{BadName, Glob, ServerName};
use crate::secret::Secret;

pub(super) use http::{check_header, check_url};

mod http;
mod stdio;

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

fn plain(texts: &[AtOffset<String>]) -> Vec<String> {
    texts.iter().map(|text| text.value.clone()).collect()
}

fn by_name(secrets: &[AtOffset<(String, Secret)>]) -> IndexMap<String, Secret> {
    secrets.iter().map(|secret| secret.value.clone()).collect()
}
