//! Validates an answer against its form, with the few keywords that forms use.

use serde_json::{Map, Value};

/// One message for each invalid field.
pub(super) fn faults(schema: &Value, content: &Map<String, Value>) -> Vec<String> {
    let required = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    let missing = required
        .filter(|name| !content.contains_key(*name))
        .map(|name| format!("{name} is missing"));
    let wrong = content.iter().filter_map(|(name, value)| {
        // Fields that the form does not have are ignored, as the specification requires.
        let property = schema["properties"].get(name)?;
        fault(property, value).map(|fault| format!("{name} {fault}"))
    });
    missing.chain(wrong).collect()
}

fn fault(property: &Value, value: &Value) -> Option<String> {
    let limit = |name: &str| property[name].as_f64();
    match property["type"].as_str()? {
        "string" => {
            let Some(text) = value.as_str() else {
                return Some("must be a string".to_owned());
            };
            let length = text.chars().count() as f64;
            out_of(length, limit("minLength"), limit("maxLength"), "characters")
                .or_else(|| not_chosen_from(property, text))
        }
        "number" | "integer" => match value.as_f64() {
            None => Some("must be a number".to_owned()),
            Some(number) if property["type"] == "integer" && number.fract() != 0.0 => {
                Some("must be a whole number".to_owned())
            }
            Some(number) => out_of(number, limit("minimum"), limit("maximum"), ""),
        },
        "boolean" => (!value.is_boolean()).then(|| "must be true or false".to_owned()),
        "array" => {
            let Some(items) = value.as_array() else {
                return Some("must be a list".to_owned());
            };
            let wrong = items.iter().find_map(|item| match item.as_str() {
                Some(text) => not_chosen_from(&property["items"], text),
                None => Some("must be a list of strings".to_owned()),
            });
            out_of(
                items.len() as f64,
                limit("minItems"),
                limit("maxItems"),
                "items",
            )
            .or(wrong)
        }
        _ => None,
    }
}

fn out_of(value: f64, least: Option<f64>, most: Option<f64>, unit: &str) -> Option<String> {
    let (least_fault, most_fault) = (
        least.filter(|least| value < *least),
        most.filter(|most| value > *most),
    );
    let words = match (least_fault, most_fault) {
        (Some(least), _) => format!("must be at least {least} {unit}"),
        (None, Some(most)) => format!("must be at most {most} {unit}"),
        (None, None) => return None,
    };
    Some(words.trim_end().to_owned())
}

/// Checks a choice: the schema lists values, or values with titles.
fn not_chosen_from(schema: &Value, text: &str) -> Option<String> {
    let plain = schema["enum"].as_array();
    let titled = schema["oneOf"]
        .as_array()
        .or_else(|| schema["anyOf"].as_array());
    let is_known = match (plain, titled) {
        (Some(choices), _) => choices.iter().any(|choice| choice == text),
        (None, Some(choices)) => choices.iter().any(|choice| choice["const"] == text),
        (None, None) => true,
    };
    (!is_known).then(|| format!("must be one of the choices, not {text:?}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    fn check(property: Value, value: Value, expected: &[&str]) {
        let schema = json!({"type": "object", "properties": {"it": property}, "required": ["it"]});
        assert_eq!(
            faults(&schema, json!({"it": value}).as_object().unwrap()),
            expected,
            "{schema} {value}"
        );
    }

    #[test]
    fn every_kind_of_field_is_checked() {
        check(json!({"type": "string", "minLength": 2}), json!("ab"), &[]);
        check(
            json!({"type": "string", "minLength": 2}),
            json!("a"),
            &["it must be at least 2 characters"],
        );
        check(
            json!({"type": "string", "enum": ["a"]}),
            json!("b"),
            &["it must be one of the choices, not \"b\""],
        );
        check(
            json!({"type": "string", "oneOf": [{"const": "a"}]}),
            json!("a"),
            &[],
        );
        check(
            json!({"type": "integer", "maximum": 3}),
            json!(4),
            &["it must be at most 3"],
        );
        check(
            json!({"type": "integer"}),
            json!(1.5),
            &["it must be a whole number"],
        );
        check(
            json!({"type": "number"}),
            json!("1"),
            &["it must be a number"],
        );
        check(
            json!({"type": "boolean"}),
            json!("yes"),
            &["it must be true or false"],
        );
        let days = json!({"type": "array", "minItems": 1, "items": {"anyOf": [{"const": "mo"}]}});
        check(days.clone(), json!(["mo"]), &[]);
        check(days.clone(), json!([]), &["it must be at least 1 items"]);
        check(
            days,
            json!(["tu"]),
            &["it must be one of the choices, not \"tu\""],
        );
        let schema = json!({"properties": {}, "required": ["it"]});
        assert_eq!(
            faults(&schema, json!({"other": 1}).as_object().unwrap()),
            ["it is missing"]
        );
    }
}
