//! From a requested schema to fields: every primitive type of both eras, in the schema's order.

use serde_json::Value;
use switchboard::wire::RawJson;

use super::as_text;
use super::check::Format;
use super::field::{Field, Kind, titled};
use super::input::Input;
use crate::coerce;

/// The most fields that a form is shown for.
const MAX_FIELDS: usize = 100;

/// The fields of a flat object schema. The error is one escaped line.
pub(super) fn fields(schema: &RawJson) -> Result<Vec<Field>, String> {
    let whole = schema.to_value().map_err(|error| error.to_string())?;
    let required: Vec<_> = whole
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let top = coerce::fields(schema)?;
    let Some((_, properties)) = top.into_iter().find(|(key, _)| key == "properties") else {
        return Ok(Vec::new());
    };
    let properties = RawJson::parse(properties.into_bytes()).map_err(|error| error.to_string())?;
    let listed = coerce::fields(&properties)?;
    if listed.len() > MAX_FIELDS {
        return Err(format!(
            "it has {} fields, the limit is {MAX_FIELDS}",
            listed.len()
        ));
    }
    listed
        .into_iter()
        .map(|(name, text)| {
            let property: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
            let kind = kind(&property).ok_or_else(|| {
                format!(
                    "field {} has a type that forms do not support",
                    super::safe(&name)
                )
            })?;
            let words = |key: &str| property.get(key).and_then(Value::as_str).map(str::to_owned);
            let is_required = required.contains(&name.as_str());
            Ok(Field {
                title: words("title"),
                description: words("description"),
                required: is_required,
                kind,
                fault: None,
                name,
            })
        })
        .collect()
}

fn kind(property: &Value) -> Option<Kind> {
    let default = property.get("default");
    if let Some(options) = options(property) {
        let chosen =
            default.and_then(|default| options.iter().position(|(value, _)| value == default));
        return Some(Kind::Choice { options, chosen });
    }
    let number = |key: &str| property.get(key).and_then(Value::as_f64);
    let count = |key: &str| property.get(key).and_then(Value::as_u64);
    let typed = default.map(as_text).unwrap_or_default();
    match property.get("type").and_then(Value::as_str)? {
        "string" => Some(Kind::Text {
            input: Input::new(&typed),
            format: property
                .get("format")
                .and_then(Value::as_str)
                .and_then(Format::of),
            shortest: count("minLength"),
            longest: count("maxLength"),
        }),
        kind @ ("integer" | "number") => Some(Kind::Number {
            input: Input::new(&typed),
            integer: kind == "integer",
            minimum: number("minimum"),
            maximum: number("maximum"),
        }),
        "boolean" => Some(Kind::Boolean {
            value: default.and_then(Value::as_bool),
        }),
        "array" => {
            let options = options(property.get("items")?)?;
            let preset = default
                .and_then(Value::as_array)
                .map(Vec::as_slice)
                .unwrap_or_default();
            let ticked = options
                .iter()
                .map(|(value, _)| preset.contains(value))
                .collect();
            Some(Kind::Many {
                options,
                ticked,
                cursor: 0,
                fewest: count("minItems"),
                most: count("maxItems"),
            })
        }
        _ => None,
    }
}

/// `enum`, with `enumNames` (legacy) or without; or `oneOf`/`anyOf` of `const` with `title`.
fn options(schema: &Value) -> Option<Vec<(Value, String)>> {
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        let titles = schema
            .get("enumNames")
            .and_then(Value::as_array)
            .map(Vec::as_slice)
            .unwrap_or_default();
        return (!values.is_empty()).then(|| titled(values, titles));
    }
    let listed = schema
        .get("oneOf")
        .or_else(|| schema.get("anyOf"))?
        .as_array()?;
    let options: Option<Vec<_>> = listed
        .iter()
        .map(|option| {
            let value = option.get("const")?.clone();
            let title = option.get("title").map_or_else(|| as_text(&value), as_text);
            Some((value, title))
        })
        .collect();
    options.filter(|options| !options.is_empty())
}
