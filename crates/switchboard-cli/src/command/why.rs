//! `why`: shows the file, line and scope of each value of an entry, what it overrides, and which
//! variables it reads.

use clap::Args;
use serde_json::{Value, json};
use switchboard::config::{
    self, Config, DisplayValue, Endpoint, EntryValue, ReferenceSyntax, Scope, ServerConfig, Start,
    VariableState, VariableUse,
};

use crate::arguments::{Options, server_names};
use crate::failure::{Code, Failure};
use crate::setup::{OutputScope, Setup};
use crate::view::server::escaped;
use crate::view::{mask, table};
use crate::{hints, output};

use permissions::ServerPermissions;

mod permissions;

/// Arguments of `why`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  switchboard why git\n  switchboard why git timeout\n  switchboard why git env --json"
)]
pub(crate) struct WhyArgs {
    /// Name of the server
    #[arg(add = server_names())]
    server: String,
    /// Only this field, by its name in the file or its native name
    field: Option<String>,
}

pub(crate) fn run(options: &Options, args: &WhyArgs) -> Result<u8, Failure> {
    let setup = Setup::read_for(options, OutputScope::ServerStates)?;
    let server = setup.entry(&args.server)?;
    let entries = entries(
        &setup.config,
        server,
        &config::variable_uses(server, &setup.environment),
    );
    let shown: Vec<EntryView> = match &args.field {
        Some(field) => select_field(entries, field, server)?,
        None => entries,
    };
    let is_whole = args.field.is_none();
    let permissions = is_whole.then(|| ServerPermissions::of(&setup, server));
    if options.json {
        let mut document = as_json(server, &shown, is_whole);
        permissions
            .iter()
            .for_each(|permissions| permissions.write_json(&mut document));
        output::print_json(&document.to_string())?;
    } else {
        let permissions = permissions
            .map(|permissions| permissions.as_text())
            .unwrap_or_default();
        output::print(&(as_text(server, &shown, is_whole) + &permissions))?;
    }
    Ok(0)
}

/// An entry: the one in effect, or one that it overrides.
struct EntryView<'a> {
    server: &'a ServerConfig,
    values: Vec<ValueLine>,
}

/// One value, masked and escaped.
struct ValueLine {
    field: String,
    written: String,
    value: String,
    line: usize,
    column: usize,
    /// Filled only for the entry in effect.
    reads: Vec<VariableUse>,
}

/// The entry in effect, then those that it overrides, nearest first.
fn entries<'a>(
    config: &'a Config,
    server: &'a ServerConfig,
    uses: &[VariableUse],
) -> Vec<EntryView<'a>> {
    let own = config
        .values
        .get(&server.name)
        .map(Vec::as_slice)
        .unwrap_or_default();
    let mut entries = vec![EntryView {
        server,
        values: lines(server, own, uses),
    }];
    let shadowed = config
        .shadowed
        .iter()
        .filter(|(lower, _)| lower.name == server.name);
    entries.extend(shadowed.map(|(lower, values)| EntryView {
        server: lower,
        values: lines(lower, values, &[]),
    }));
    entries
}

fn lines(server: &ServerConfig, values: &[EntryValue], uses: &[VariableUse]) -> Vec<ValueLine> {
    let has_parts = |value: &EntryValue| {
        values
            .iter()
            .any(|part| part.is_part && part.field.starts_with(&format!("{}.", value.field)))
    };
    // A value that the dialect derives from another one has the same position: it is shown once.
    let derived = |value: &EntryValue| {
        value.written != value.field
            && values
                .iter()
                .any(|other| other.location == value.location && is_own_name(other, value))
    };
    let shown = values
        .iter()
        .filter(|value| (value.is_part || !has_parts(value)) && !derived(value));
    shown
        .map(|value| ValueLine {
            field: value.field.clone(),
            written: escaped(&value.written),
            value: escaped(&display_value(server, value)),
            line: value.location.line,
            column: value.location.column,
            reads: uses
                .iter()
                .filter(|usage| is_part_of(&usage.field, &value.field))
                .cloned()
                .collect(),
        })
        .collect()
}

/// Whether `other` is the transport that the field name of `value` implies, as `httpUrl` does.
fn is_own_name(other: &EntryValue, value: &EntryValue) -> bool {
    other.field != value.field && other.written == value.written && value.field == "transport"
}

/// `args[0]` belongs to `args`; `env.A` belongs to `env.A` only.
fn is_part_of(usage: &str, field: &str) -> bool {
    usage == field
        || usage
            .strip_prefix(field)
            .is_some_and(|rest| rest.starts_with('['))
}

/// The value as written, with secrets masked.
fn display_value(server: &ServerConfig, value: &EntryValue) -> String {
    let text = |text: &str| match (value.field.as_str(), &server.endpoint) {
        ("url", _) => mask::url(text),
        ("command" | "cwd" | "description", Endpoint::Stdio(_) | Endpoint::Http(_)) => {
            plain(server, text)
        }
        _ => text.to_owned(),
    };
    match &value.value {
        DisplayValue::Text(written) => format!("{:?}", text(written)),
        DisplayValue::Quantity(shown) | DisplayValue::Masked(shown) => shown.clone(),
        DisplayValue::Flag(flag) => flag.to_string(),
        DisplayValue::Texts(texts) if value.field == "args" => {
            let masked: Vec<_> = mask::arguments(texts)
                .iter()
                .map(|text| plain(server, text))
                .collect();
            format!("{masked:?}")
        }
        DisplayValue::Texts(texts) => format!("{texts:?}"),
    }
}

/// The text as its file has it: native references keep `$` as `$$`.
fn plain(server: &ServerConfig, text: &str) -> String {
    let kept_so = server.endpoint.syntax() == ReferenceSyntax::Native
        && !server.dialect.profile().strict_names;
    if kept_so {
        text.replace("$$", "$")
    } else {
        text.to_owned()
    }
}

/// The values of one field; an error with the default if the entry does not set it.
fn select_field<'a>(
    entries: Vec<EntryView<'a>>,
    field: &str,
    server: &ServerConfig,
) -> Result<Vec<EntryView<'a>>, Failure> {
    let is_selected = |name: &str| {
        name == field
            || name
                .strip_prefix(field)
                .is_some_and(|rest| rest.starts_with(['.', '[']))
    };
    let mut entries = entries;
    for entry in &mut entries {
        entry
            .values
            .retain(|line| is_selected(&line.field) || is_selected(&line.written));
    }
    if entries.first().is_none_or(|own| own.values.is_empty()) {
        let fact = format!(
            "server \"{}\": its entry does not set `{}`",
            server.name,
            escaped(field)
        );
        let hint = match defaults(server)
            .into_iter()
            .find(|(name, _)| *name == field)
        {
            Some((_, value)) => format!(
                "the default applies, of a {} file: {value}",
                server.dialect.profile().name
            ),
            None => format!(
                "{} shows the fields that it sets",
                hints::command(&["why", server.name.as_str()])
            ),
        };
        return Err(Failure::new(Code::Usage, fact)
            .server(&server.name)
            .hint(hint));
    }
    entries.retain(|entry| !entry.values.is_empty());
    Ok(entries)
}

/// The defaults of fields that the entry may not set.
fn defaults(server: &ServerConfig) -> Vec<(&'static str, String)> {
    let limits = server.timeouts;
    let mut found = vec![
        (
            "start",
            if server.start == Start::Lazy {
                "lazy"
            } else {
                "eager"
            }
            .to_owned(),
        ),
        ("connect_timeout", table::duration(limits.connect)),
        ("call_timeout", table::duration(limits.call)),
        ("call_timeout_max", table::duration(limits.call_max)),
        ("enabled", server.enabled.to_string()),
        ("trust", server.trust.to_string()),
    ];
    if let Endpoint::Stdio(stdio) = &server.endpoint {
        found.push(("inherit_env", stdio.inherit_env.to_string()));
    }
    found
}

/// The scope of a file, for people.
fn scope(scope: Scope) -> &'static str {
    match scope {
        Scope::User => "your own file",
        Scope::Project => "the project's file",
        Scope::Given => "given with -c",
    }
}

fn as_text(server: &ServerConfig, entries: &[EntryView<'_>], whole: bool) -> String {
    let mut text = String::new();
    for (index, entry) in entries.iter().enumerate() {
        let source = &entry.server.source;
        let file = escaped(&source.file.display().to_string());
        let kind = format!(
            "{}, {}",
            scope(source.scope),
            entry.server.dialect.profile().name
        );
        match index {
            0 => text.push_str(&format!(
                "{} is the entry in {file}:{} ({kind})\n",
                escaped(server.name.as_str()),
                source.line
            )),
            _ => text.push_str(&format!(
                "\nIt overrides the entry in {file}:{} ({kind})\n",
                source.line
            )),
        }
        if let Endpoint::Invalid(fault) = &entry.server.endpoint {
            text.push_str(&format!(
                "  error in line {}: {}\n",
                fault.line,
                escaped(&fault.message)
            ));
        }
        for line in &entry.values {
            let native = if line.written == line.field {
                String::new()
            } else {
                format!(" ({})", escaped(&line.field))
            };
            text.push_str(&format!(
                "  {}{native} = {}    line {}\n",
                line.written, line.value, line.line
            ));
            line.reads
                .iter()
                .for_each(|usage| text.push_str(&format!("      {}\n", describe_use(usage))));
        }
        if index == 0 && whole {
            let set = |name: &str| entry.values.iter().any(|line| line.field == name);
            let unset: Vec<_> = defaults(server)
                .into_iter()
                .filter(|(name, _)| !set(name))
                .map(|(name, value)| format!("{name} = {value}"))
                .collect();
            text.push_str(&format!("  defaults: {}\n", unset.join(", ")));
        }
    }
    text
}

fn describe_use(usage: &VariableUse) -> String {
    let variable = escaped(&usage.variable);
    match usage.state {
        VariableState::Set => format!("{variable} is set"),
        VariableState::Empty => format!("{variable} is set, and empty"),
        VariableState::Default => format!("{variable} is not set or empty: its default is used"),
        VariableState::Unset => format!("{variable} is not set: it is empty"),
    }
}

fn as_json(server: &ServerConfig, entries: &[EntryView<'_>], whole: bool) -> Value {
    let word = |found: VariableState| match found {
        VariableState::Set => "set",
        VariableState::Empty => "empty",
        VariableState::Default => "default",
        VariableState::Unset => "unset",
    };
    let value = |line: &ValueLine| {
        let reads: Vec<_> = line
            .reads
            .iter()
            .map(|usage| json!({ "variable": usage.variable, "state": word(usage.state) }))
            .collect();
        json!({
            "field": line.field, "written": line.written, "value": line.value,
            "line": line.line, "column": line.column, "reads": reads
        })
    };
    let entry = |entry: &EntryView<'_>| {
        let source = &entry.server.source;
        json!({
            "file": source.file.display().to_string(),
            "line": source.line,
            "scope": match source.scope { Scope::User => "user", Scope::Project => "project", Scope::Given => "given" },
            "dialect": entry.server.dialect.profile().name,
            "error": if let Endpoint::Invalid(fault) = &entry.server.endpoint { Value::from(fault.message.as_str()) } else { Value::Null },
            "values": entry.values.iter().map(value).collect::<Vec<_>>(),
        })
    };
    let mut document = entries.first().map(entry).unwrap_or_else(|| json!({}));
    document["server"] = server.name.as_str().into();
    document["shadows"] = entries.iter().skip(1).map(entry).collect::<Vec<_>>().into();
    if whole {
        let set = |name: &str| {
            entries
                .first()
                .is_some_and(|own| own.values.iter().any(|line| line.field == name))
        };
        let defaults = defaults(server).into_iter().filter(|(name, _)| !set(name));
        let defaults = defaults.map(|(name, value)| (name.to_owned(), Value::from(value)));
        document["defaults"] = defaults.collect::<serde_json::Map<_, _>>().into();
    }
    document
}
