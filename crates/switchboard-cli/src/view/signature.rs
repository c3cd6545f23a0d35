//! A tool's arguments and how to call it, for a person.

use serde_json::Value;
use switchboard::catalog::Tool;
use switchboard::shell;

use super::server::escaped;
use super::table;
use crate::coerce;

/// How many values of an `enum` are shown; the rest are counted.
const SHOWN_VALUES: usize = 8;

/// One tool: name, description, arguments, and an example of `call`, the command that calls it.
pub(crate) fn page(call: &str, tool: &Tool, columns: Option<usize>) -> String {
    let schema = tool.definition.input_schema.to_value().unwrap_or_default();
    let own_name = tool.id.tool.untrusted().for_terminal_line().to_string();
    let origin = match tool.is_host_tool() {
        true => "built-in tool".to_owned(),
        false => format!("tool {own_name} of server \"{}\"", tool.id.server),
    };
    let mut text = format!("{}  ({origin})\n", tool.exposed);
    if let Some(title) = tool
        .definition
        .title
        .as_ref()
        .filter(|title| !title.raw().trim().is_empty())
    {
        text.push_str(&format!("\n  {}\n", title.for_terminal_line()));
    }
    if let Some(description) = tool
        .definition
        .description
        .as_ref()
        .filter(|text| !text.raw().trim().is_empty())
    {
        text.push('\n');
        for line in description.for_terminal().to_string().trim().lines() {
            let lines = columns.map_or_else(
                || vec![format!("  {line}")],
                |columns| table::wrapped(&format!("  {line}"), columns),
            );
            lines
                .iter()
                .for_each(|line| text.push_str(&format!("{}\n", line.trim_end())));
        }
    }
    let rows = rows(&schema);
    text.push_str(if rows.is_empty() {
        "\nIt has no arguments.\n"
    } else {
        "\nArguments:\n"
    });
    text.push_str(&table::aligned(&rows, columns));
    text.push_str(&format!(
        "\nCall it:\n  {}\n",
        example(call, tool, &schema, &own_name)
    ));
    text
}

/// Argument names, required ones first.
pub(crate) fn names(schema: &Value) -> Vec<&str> {
    let (mut first, then): (Vec<_>, Vec<_>) = properties(schema)
        .map(|(name, _)| name.as_str())
        .partition(|name| is_required(schema, name));
    first.extend(then);
    first
}

fn rows(schema: &Value) -> Vec<Vec<String>> {
    let row = |name: &str| {
        let property = coerce::property(schema, name).unwrap_or(&Value::Null);
        let required = if is_required(schema, name) {
            ", required"
        } else {
            ""
        };
        let about = coerce::follow_refs(property, schema)
            .get("description")
            .and_then(Value::as_str)
            .unwrap_or_default();
        vec![
            format!("  {}", escaped(name)),
            format!("{}{required}", kind(property, schema)),
            escaped(about.trim()),
        ]
    };
    names(schema).into_iter().map(row).collect()
}

/// `integer, default 5`.
fn kind(property: &Value, root: &Value) -> String {
    let property = coerce::follow_refs(property, root);
    let choices = coerce::enum_values(property);
    let types = coerce::types(property, root, 0);
    let mut words = if !choices.is_empty() {
        let shown: Vec<_> = choices
            .iter()
            .take(SHOWN_VALUES)
            .map(|choice| plain(choice))
            .collect();
        let more = choices.len().saturating_sub(SHOWN_VALUES);
        format!(
            "{}{}",
            shown.join(" | "),
            if more > 0 {
                format!(" | {more} more")
            } else {
                String::new()
            }
        )
    } else if types.is_empty() {
        "anything".to_owned()
    } else {
        let item = coerce::items(Some(property), root)
            .map(|item| coerce::types(item, root, 0).join(" or "))
            .unwrap_or_default();
        let named = |kind: &String| {
            if kind == "array" && !item.is_empty() {
                format!("list of {item}")
            } else {
                kind.clone()
            }
        };
        types.iter().map(named).collect::<Vec<_>>().join(" or ")
    };
    if let Some(default) = property.get("default") {
        words.push_str(&format!(", default {}", plain(default)));
    }
    escaped(&words)
}

fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// `switchboard call demo/add a=NUMBER b=NUMBER`.
fn example(call: &str, tool: &Tool, schema: &Value, own_name: &str) -> String {
    let words: Vec<_> = names(schema)
        .into_iter()
        .filter(|name| is_required(schema, name))
        .map(|name| {
            let types = coerce::property(schema, name)
                .map(|property| coerce::types(property, schema, 0))
                .unwrap_or_default();
            let value = types.first().map_or("VALUE", String::as_str).to_uppercase();
            let sign = if matches!(value.as_str(), "OBJECT" | "ARRAY") {
                ":="
            } else {
                "="
            };
            format!("{}{sign}{}", escaped(name), escaped(&value))
        })
        .collect();
    // The name is server text and the line is for copying, so each word is quoted.
    let words: Vec<_> = std::iter::once(format!("{}/{own_name}", tool.id.server))
        .chain(words)
        .collect();
    let names = if words.iter().any(|word| word.starts_with('-')) {
        " --"
    } else {
        ""
    };
    let words: String = words
        .iter()
        .map(|word| format!(" {}", shell::word(word)))
        .collect();
    format!("{call}{names}{words}")
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    coerce::follow_refs(schema, schema)
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
}

fn is_required(schema: &Value, name: &str) -> bool {
    let required = coerce::follow_refs(schema, schema)
        .get("required")
        .and_then(Value::as_array);
    required.is_some_and(|names| names.iter().any(|required| required == name))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use switchboard::catalog::{Catalog, Offerings, ToolDefinition};
    use switchboard::wire::RawJson;

    use super::*;

    #[test]
    fn a_tools_page_shows_its_arguments_and_how_to_call_it() {
        let raw = serde_json::json!({
            "name": "search", "description": "Finds things.\nSlowly.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "limit": { "type": "integer", "default": 10 },
                    "order": { "enum": ["up", "down"], "description": "which way" },
                    "tags": { "type": "array", "items": { "type": "string" } },
                    "text": { "type": "string", "description": "what to \u{1b}[31mlook for" }
                },
                "required": ["text", "tags"]
            }
        });
        let definition = Arc::new(ToolDefinition::parse(&RawJson::from_value(&raw)).unwrap());
        let offerings = Offerings {
            tools: vec![definition],
            ..Offerings::default()
        };
        let server = crate::command::demo::example_entry();
        let part = switchboard::catalog::CatalogSource {
            config: server.clone(),
            launch: server.fingerprint(),
            offerings: Arc::new(offerings),
            settled: true,
        };
        let catalog = Catalog::build(
            &Catalog::default(),
            switchboard::name::Style::Mcp,
            &[],
            &[part],
        );
        let expected = "mcp__demo-legacy__search  (tool search of server \"demo-legacy\")

  Finds things.
  Slowly.

Arguments:
  tags   list of string, required
  text   string, required          what to \\u{1b}[31mlook for
  limit  integer, default 10
  order  up | down                 which way

Call it:
  switchboard call demo-legacy/search tags:=ARRAY text=STRING
";
        assert_eq!(
            page("switchboard call", &catalog.tools()[0], None),
            expected
        );
    }
}
