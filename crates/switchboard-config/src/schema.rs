//! The JSON schema of `switchboard.toml`, generated from the table of fields, so that editors and
//! the reader agree.

use serde_json::{Map, Value, json};

use super::fields::{
    FieldSpec, FieldTransport, GATEWAY, MODEL, NAMING, PERMISSIONS, SECURITY, SERVERS, Section,
    ValueKind,
};

/// The schema, as shipped in `schema/switchboard.schema.json`.
pub fn schema() -> Value {
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "switchboard.toml",
        "description": "MCP servers behind one gate: which servers there are, and what may be called.",
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "$schema": { "type": "string" },
            SERVERS.name: {
                "description": SERVERS.description,
                "type": "object",
                "propertyNames": { "pattern": "^[A-Za-z0-9-]+(_[A-Za-z0-9-]+)*$", "maxLength": 32 },
                "additionalProperties": server(),
            },
            PERMISSIONS.name: section(&PERMISSIONS),
            SECURITY.name: section(&SECURITY),
            NAMING.name: section(&NAMING),
            MODEL.name: section(&MODEL),
            GATEWAY.name: section(&GATEWAY),
        },
    })
}

/// Either a program or a URL, each without the other's fields.
fn server() -> Value {
    let mut server = section(&SERVERS);
    server["description"] =
        json!("One server: a program to start (`command`) or a URL to reach (`url`).");
    server["oneOf"] = json!([
        one_side(FieldTransport::Stdio, "command", &["stdio"]),
        one_side(FieldTransport::Http, "url", &["http", "sse"])
    ]);
    server
}

fn one_side(applies_to: FieldTransport, required: &str, transports: &[&str]) -> Value {
    let foreign = SERVERS
        .fields
        .iter()
        .filter(|field| field.applies_to != FieldTransport::Both && field.applies_to != applies_to);
    let mut properties: Map<String, Value> = foreign
        .map(|field| (field.name.to_owned(), json!(false)))
        .collect();
    properties.insert("transport".to_owned(), json!({ "enum": transports }));
    json!({ "required": [required], "properties": properties })
}

fn section(section: &Section) -> Value {
    let properties: Map<String, Value> = section
        .fields
        .iter()
        .map(|field| (field.name.to_owned(), property(field)))
        .collect();
    json!({ "description": section.description, "type": "object", "additionalProperties": false, "properties": properties })
}

fn property(field: &FieldSpec) -> Value {
    let mut property = match field.kind {
        ValueKind::Text => json!({ "type": "string" }),
        ValueKind::Texts => json!({ "type": "array", "items": { "type": "string" } }),
        ValueKind::Rules => json!({ "type": "array", "items": { "anyOf": [
            { "type": "string" },
            {
                "type": "object",
                "additionalProperties": false,
                "required": ["client"],
                "properties": { "tool": { "type": "string" }, "client": { "type": "string" } },
            },
        ] } }),
        ValueKind::Secrets => {
            json!({ "type": "object", "additionalProperties": { "type": "string" } })
        }
        ValueKind::Secret => json!({ "type": "string" }),
        ValueKind::Port => json!({ "type": "integer", "minimum": 1, "maximum": 65535 }),
        ValueKind::Flag => json!({ "type": "boolean" }),
        ValueKind::Duration => json!({ "type": "string", "pattern": "^[0-9]+ ?(ms|s|m|h)$" }),
        ValueKind::Milliseconds => json!({ "type": "integer", "minimum": 1 }),
        ValueKind::Seconds => json!({ "type": "number", "exclusiveMinimum": 0 }),
        ValueKind::Bytes => json!({ "anyOf": [
            { "type": "integer", "minimum": 1024, "maximum": 1_073_741_824 },
            { "type": "string", "pattern": "^[0-9]+ ?(B|KiB|MiB|GiB|kB|KB|MB|GB)?$" },
        ] }),
        ValueKind::Count => json!({ "type": "integer", "minimum": 1 }),
        ValueKind::Amounts(names) => {
            let amount = |name: &&str| {
                let number = json!({ "type": "number", "minimum": 0 });
                ((*name).to_owned(), number)
            };
            let amounts: Map<String, Value> = names.iter().map(amount).collect();
            json!({ "type": "object", "additionalProperties": false, "properties": amounts })
        }
        ValueKind::Choice(words) => {
            json!({ "type": "string", "enum": words.iter().map(|(word, _)| word).collect::<Vec<_>>() })
        }
    };
    property["description"] = json!(described(field));
    if let Some(default) = field
        .default
        .and_then(|default| serde_json::from_str::<Value>(default).ok())
    {
        property["default"] = default;
    }
    if field.name == "command" {
        property["minLength"] = json!(1);
    }
    property
}

fn described(field: &FieldSpec) -> String {
    let ValueKind::Choice(words) = field.kind else {
        return field.description.to_owned();
    };
    let meanings: Vec<String> = words
        .iter()
        .map(|(word, meaning)| format!("{word}: {meaning}"))
        .collect();
    format!("{} ({})", field.description, meanings.join("; "))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::format::Format;
    use crate::server_entry::{self, FileContext};
    use crate::{Dialect, Scope};

    #[test]
    fn the_shipped_schema_is_current() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../schema/switchboard.schema.json"
        );
        if std::env::var_os("SWITCHBOARD_WRITE_SCHEMA").is_some() {
            std::fs::write(path, format!("{:#}\n", schema())).unwrap();
        }
        let shipped: Value =
            serde_json::from_str(&std::fs::read_to_string(path).unwrap_or_default())
                .unwrap_or_default();
        assert!(
            shipped == schema(),
            "schema/switchboard.schema.json is old; run the tests once with SWITCHBOARD_WRITE_SCHEMA=1"
        );
    }

    #[test]
    fn the_schema_accepts_exactly_what_the_reader_accepts() {
        let validator = jsonschema::validator_for(&schema()).unwrap();
        let check = |text: &str, fits: bool| {
            let document: Value = toml::from_str(text).unwrap();
            assert_eq!(validator.is_valid(&document), fits, "{text}");
            let mut diagnostics = crate::diagnostic::Diagnostics::new(Default::default(), text);
            let reader = Dialect::Native.reader();
            let document = Format::Toml.parse(text, &mut diagnostics);
            let context = FileContext {
                file: Default::default(),
                folder: Default::default(),
                scope: Scope::User,
                dialect: Dialect::Native,
            };
            for server in &reader.open(&document, &mut diagnostics).servers {
                if let Some(fields) = reader.entry(server, &mut diagnostics) {
                    server_entry::server(server, &fields, &context, &mut diagnostics);
                }
            }
            assert_eq!(
                diagnostics.errors.len() + diagnostics.warnings.len() + diagnostics.unknown.len()
                    == 0,
                fits,
                "{text}: {diagnostics:?}"
            );
        };
        check("", true);
        check(
            "[servers.a]\ncommand = 'x'\nargs = ['-y']\nenv = { K = 'v' }\nconnect_timeout = '5s'\nmax_message = '1MiB'",
            true,
        );
        check(
            "[servers.a]\nurl = 'https://x.example/mcp'\ntransport = 'sse'\nheaders = { A = 'b' }\nmax_message = 4096",
            true,
        );
        check(
            "[servers.a]\nurl = 'https://x.example/mcp'\nbearer_token = '${T}'\noauth_callback_port = 8123",
            true,
        );
        check(
            "[servers.a]\nurl = 'https://x.example/mcp'\noauth_callback_port = 0",
            false,
        );
        check("[servers.a]\ncommand = 'x'\nbearer_token = 'y'", false);
        check(
            "[permissions]\nmode = 'deny'\nallow = ['a/b']\n[security]\nlocked = true\n[naming]\nstyle = 'first-wins'",
            true,
        );
        check("[servers.a]\n", false);
        check("[servers.a]\ncommand = ''", false);
        check(
            "[servers.a]\ncommand = 'x'\nurl = 'https://x.example'",
            false,
        );
        check("[servers.a]\ncommand = 'x'\nheaders = { A = 'b' }", false);
        check("[servers.a]\ncommand = 'x'\ntransport = 'http'", false);
        check("[servers.a__b]\ncommand = 'x'", false);
        check("[servers.a]\ncomand = 'x'\ncommand = 'x'", false);
        check("[servers.a]\ncommand = 'x'\ncall_timeout = 30", false);
        check("[servers.a]\ncommand = 'x'\ncall_timeout = 'soon'", false);
        check("[servers.a]\ncommand = 'x'\nmax_message = 12", false);
        check("[permissions]\nmode = 'maybe'", false);
        check("[mcpServers]\n", false);
    }
}
