//! core-agent: `.agents/mcp.json` with `servers`, and permissions in the same file or in
//! `config.json` beside it.

use super::recognise::tell_of_foreign_container;
use super::{Dialect, Reader};
use crate::diagnostic::Findings;
use crate::fields::{Field, Kind, OURS, PERMISSIONS, Side, field};
use crate::reference::Syntax;
use crate::tree::{Node, Tree};
use crate::written::{self, Fields, Written, WrittenServer};

pub(super) struct CoreAgent;

const SECTION: &str = "servers";

const TRANSPORT: Kind = Kind::Choice(&[
    ("stdio", "a program that speaks over its standard streams"),
    ("http", "Streamable HTTP"),
]);

const FIELDS: &[Field] = &[
    field("transport", TRANSPORT, Side::Both, None, ""),
    field("command", Kind::Text, Side::Stdio, None, ""),
    field("args", Kind::Texts, Side::Stdio, None, ""),
    field("env", Kind::Secrets, Side::Stdio, None, ""),
    field("url", Kind::Text, Side::Http, None, ""),
    field("headers", Kind::Secrets, Side::Http, None, ""),
];

/// What stands at the top of the file.
const SECTIONS: [&str; 3] = ["version", SECTION, PERMISSIONS.name];

impl Reader for CoreAgent {
    fn open(&self, document: &Node, findings: &mut Findings<'_>) -> Written {
        let mut written = self.permissions(document, findings);
        for entry in document.entries() {
            match entry.key.as_str() {
                SECTION => written.servers = written::servers(SECTION, &entry.value, findings),
                "version" => check_version(&entry.value, findings),
                "permissions" | "$schema" => {}
                key => {
                    if !tell_of_foreign_container(entry, SECTION, Dialect::CoreAgent, findings) {
                        written::unknown(
                            key,
                            entry.at,
                            "",
                            "field",
                            SECTIONS.into_iter(),
                            findings,
                        );
                    }
                }
            }
        }
        written
    }

    fn permissions(&self, document: &Node, findings: &mut Findings<'_>) -> Written {
        let Some(section) = document.get(PERMISSIONS.name) else {
            return Written::default();
        };
        let fields = written::table(
            &section.value,
            PERMISSIONS.fields,
            Syntax::Literal,
            PERMISSIONS.name,
            findings,
        );
        Written {
            permissions: fields.unwrap_or_default(),
            gated: true,
            ..Written::default()
        }
    }

    fn entry(&self, server: &WrittenServer, findings: &mut Findings<'_>) -> Option<Fields> {
        let fields = written::entry(
            &server.node,
            FIELDS,
            OURS,
            Syntax::Placeholder,
            &server.path,
            findings,
        )?;
        if fields.at("transport").is_none() {
            let message = "`transport` is missing; expected \"stdio\" with a `command`, or \"http\" with a `url`";
            findings.missing(server.at, &server.path, message);
        }
        // What the fields mean together is looked at only where one transport is meant.
        (!mixes(&fields, server, findings)).then_some(fields)
    }
}

/// S0-14: `transport` says which fields there can be, and those of the other one show a
/// misunderstanding.
fn mixes(fields: &Fields, server: &WrittenServer, findings: &mut Findings<'_>) -> bool {
    let (Some(transport), Some(at)) = (fields.choice("transport"), fields.at("transport")) else {
        return false;
    };
    let (ours, other) = if transport == "stdio" {
        (Side::Stdio, "http")
    } else {
        (Side::Http, "stdio")
    };
    let own = FIELDS
        .iter()
        .find(|field| field.side == ours && fields.at(field.name).is_some());
    let own = own.and_then(|own| Some((own.name, findings.lines.line(fields.at(own.name)?))));
    let own = own
        .map(|(name, line)| format!(" with `{name}` in line {line}"))
        .unwrap_or_default();
    let line = findings.lines.line(at);
    let mut mixed = false;
    for field in FIELDS
        .iter()
        .filter(|field| field.side != Side::Both && field.side != ours)
    {
        if let Some(at) = fields.at(field.name) {
            let message = format!(
                "mixes transports: `{}` belongs to \"{other}\", and this server is \"{transport}\" (`transport`, line {line}){own}; \
                 remove one of them",
                field.name
            );
            findings.error(at, format!("{}.{}", server.path, field.name), message);
            mixed = true;
        }
    }
    mixed
}

/// S0-41: it may be left out.
fn check_version(version: &Node, findings: &mut Findings<'_>) {
    let message = match &version.value {
        Tree::Number(number) if number == "1" => return,
        Tree::Number(number)
            if number.bytes().all(|byte| byte.is_ascii_digit()) && number.len() < 10 =>
        {
            format!("version {number} is not known; expected 1")
        }
        _ => format!("expected 1, found {}", findings.kind(version)),
    };
    findings.error(version.at, "version", message);
}
