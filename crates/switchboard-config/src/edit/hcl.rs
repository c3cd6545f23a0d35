//! Edits HCL by lines: one block for each server. All other text stays unchanged.

use hcl_edit::Span;
use hcl_edit::parser::parse_body;
use hcl_edit::structure::{Block, Body};

use super::lines::{ending, line_at, of, without};
use crate::format::hcl::nesting;

use super::{EntryPath, NOT_FOUND, NewText, NewValue, Operation};

pub(super) fn edit(
    text: &str,
    entry_path: &EntryPath<'_>,
    operation: &Operation,
) -> Result<String, String> {
    if nesting::too_deep_at(text).is_some() {
        return Err("it is nested too deeply".to_owned());
    }
    let body = parse_body(text).map_err(|_| "it is not valid HCL".to_owned())?;
    let keyword = entry_path.container.first().copied().unwrap_or_default();
    match operation {
        Operation::Add(fields) => {
            if body.get_attribute(keyword).is_some() {
                return Err(format!(
                    "`{keyword}` is a list in it; edit the file by hand"
                ));
            }
            let gap = match text {
                "" => "",
                _ if text.ends_with('\n') => "\n",
                _ => "\n\n",
            };
            let added = format!("{gap}{}", block(keyword, entry_path.name, fields));
            Ok(text.to_owned() + &added.replace('\n', ending(text)))
        }
        Operation::Remove => {
            let span = find(&body, keyword, entry_path.name)?
                .span()
                .ok_or(NOT_FOUND)?;
            Ok(without(
                &of(text),
                line_at(text, span.start)..line_at(text, span.end.saturating_sub(1)) + 1,
            ))
        }
        Operation::Set(field, flag) => {
            set(text, find(&body, keyword, entry_path.name)?, field, *flag)
        }
    }
}

fn find<'b>(body: &'b Body, keyword: &str, name: &str) -> Result<&'b Block, String> {
    let named = |block: &&Block| {
        block.has_ident(keyword)
            && block
                .body
                .get_attribute("name")
                .and_then(|own| own.value.as_str())
                == Some(name)
    };
    body.blocks()
        .find(named)
        .ok_or_else(|| NOT_FOUND.to_owned())
}

fn set(text: &str, block: &Block, field: &str, flag: bool) -> Result<String, String> {
    if let Some(attribute) = block.body.get_attribute(field) {
        let span = attribute.value.span().ok_or(NOT_FOUND)?;
        return Ok(format!(
            "{}{flag}{}",
            &text[..span.start],
            &text[span.end..]
        ));
    }
    // After its last attribute, with the same indentation.
    let last = block
        .body
        .attributes()
        .last()
        .and_then(|last| Some((last.key.span()?, last.value.span()?)));
    let (key, value) = last.ok_or(NOT_FOUND)?;
    let lines = of(text);
    let (first, last) = (line_at(text, key.start), line_at(text, value.end));
    let indent = &lines[first][..lines[first].len() - lines[first].trim_start().len()];
    if lines[first].contains('{') && line_at(text, block.span().ok_or(NOT_FOUND)?.start) == first {
        return Err("the block is written in one line; edit the file by hand".to_owned());
    }
    let new = format!("{indent}{field} = {flag}{}", ending(text));
    Ok(lines[..=last]
        .iter()
        .copied()
        .chain([new.as_str()])
        .chain(lines[last + 1..].iter().copied())
        .collect())
}

fn block(keyword: &str, name: &str, fields: &[(&'static str, NewValue)]) -> String {
    let width = fields
        .iter()
        .map(|(key, _)| key.len())
        .max()
        .unwrap_or_default()
        .max("name".len());
    let line = |key: &str, value: String| format!("  {key:width$} = {value}\n");
    let mut text = format!("{keyword} {{\n{}", line("name", quoted(name)));
    fields
        .iter()
        .for_each(|(key, field)| text.push_str(&line(key, value(field))));
    text + "}\n"
}

fn value(field: &NewValue) -> String {
    match field {
        NewValue::Text(text) => quoted(text),
        NewValue::Texts(texts) => format!(
            "[{}]",
            texts
                .iter()
                .map(|text| quoted(text))
                .collect::<Vec<_>>()
                .join(", ")
        ),
        NewValue::Flag(flag) => flag.to_string(),
        NewValue::Number(number) => number.to_string(),
        NewValue::Table(pairs) => {
            let pair = |(key, text): &(String, NewText)| match text {
                NewText::Plain(text) => format!("    {} = {}\n", self::key(key), quoted(text)),
                NewText::Call(name) => format!("    {} = env({})\n", self::key(key), quoted(name)),
            };
            format!("{{\n{}  }}", pairs.iter().map(pair).collect::<String>())
        }
    }
}

fn key(key: &str) -> String {
    let bare = key.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && key
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if bare { key.to_owned() } else { quoted(key) }
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            letter if letter.is_control() => {
                quoted.push_str(&format!("\\u{:04x}", u32::from(letter)))
            }
            letter => quoted.push(letter),
        }
    }
    // Both would begin a template.
    quoted.replace("${", "$${").replace("%{", "%%{") + "\""
}
