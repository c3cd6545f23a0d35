//! JSON with comments: the file's own indentation is taken up, comments stay where they are.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};

use super::{NOT_FOUND, Operation, Place, Text, Value};

pub(super) fn edit(text: &str, place: &Place<'_>, operation: &Operation) -> Result<String, String> {
    let blank = text.trim().is_empty();
    let text = if blank { "{}\n" } else { text };
    let root = CstRootNode::parse(text, &ParseOptions::default())
        .map_err(|_| "it is not valid JSON".to_owned())?;
    let document = root
        .object_value()
        .ok_or("it does not hold an object; edit the file by hand")?;
    match operation {
        Operation::Add(fields) => {
            if let Some((key, number)) = place.version.filter(|_| blank) {
                document.append(key, CstInputValue::Number(number.to_string()));
            }
            let entries = place
                .container
                .iter()
                .try_fold(document, |at, key| at.object_value_or_create(key));
            let entries = entries.ok_or(NOT_FOUND)?;
            let entry = fields
                .iter()
                .map(|(key, value)| ((*key).to_owned(), input(value)))
                .collect();
            entries.append(place.name, CstInputValue::Object(entry));
            entries.ensure_multiline();
        }
        Operation::Remove => container(document, place)?
            .get(place.name)
            .ok_or(NOT_FOUND)?
            .remove(),
        Operation::Set(field, flag) => {
            let entry = container(document, place)?
                .object_value(place.name)
                .ok_or(NOT_FOUND)?;
            match entry.get(field) {
                Some(property) => property.set_value(CstInputValue::Bool(*flag)),
                None => _ = entry.append(field, CstInputValue::Bool(*flag)),
            }
        }
    }
    Ok(root.to_string())
}

fn container(document: CstObject, place: &Place<'_>) -> Result<CstObject, String> {
    let found = place
        .container
        .iter()
        .try_fold(document, |at, key| at.object_value(key));
    found.ok_or_else(|| NOT_FOUND.to_owned())
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Text(text) => CstInputValue::String(text.clone()),
        Value::Texts(texts) => {
            CstInputValue::Array(texts.iter().cloned().map(CstInputValue::String).collect())
        }
        Value::Table(pairs) => {
            let pair = |(key, text): &(String, Text)| match text {
                Text::Plain(text) => (key.clone(), CstInputValue::String(text.clone())),
                Text::Call(name) => (key.clone(), CstInputValue::String(format!("${{{name}}}"))),
            };
            CstInputValue::Object(pairs.iter().map(pair).collect())
        }
    }
}
