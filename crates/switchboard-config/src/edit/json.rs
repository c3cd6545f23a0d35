//! Edits JSON with comments: uses the file's own indentation and keeps comments. Line comments
//! directly above a removed entry are removed with it.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{
    CstComment, CstInputValue, CstLeafNode, CstNode, CstObject, CstObjectProp, CstRootNode,
};

use super::{EntryPath, NOT_FOUND, NewText, NewValue, Operation};

pub(super) fn edit(
    text: &str,
    entry_path: &EntryPath<'_>,
    operation: &Operation,
) -> Result<String, String> {
    let blank = text.trim().is_empty();
    let text = if blank { "{}\n" } else { text };
    let root = CstRootNode::parse(text, &ParseOptions::default())
        .map_err(|_| "it is not valid JSON".to_owned())?;
    let document = root
        .object_value()
        .ok_or("it does not hold an object; edit the file by hand")?;
    match operation {
        Operation::Add(fields) => {
            if let Some((key, number)) = entry_path.version.filter(|_| blank) {
                document.append(key, CstInputValue::Number(number.to_string()));
            }
            let entries = entry_path
                .container
                .iter()
                .try_fold(document, |at, key| at.object_value_or_create(key));
            let entries = entries.ok_or(NOT_FOUND)?;
            let entry = fields
                .iter()
                .map(|(key, value)| ((*key).to_owned(), input(value)))
                .collect();
            entries.append(entry_path.name, CstInputValue::Object(entry));
            entries.ensure_multiline();
        }
        Operation::Remove => {
            let entry = container(document, entry_path)?
                .get(entry_path.name)
                .ok_or(NOT_FOUND)?;
            comments_above(&entry)
                .into_iter()
                .for_each(CstComment::remove);
            entry.remove();
        }
        Operation::Set(field, flag) => {
            let entry = container(document, entry_path)?
                .object_value(entry_path.name)
                .ok_or(NOT_FOUND)?;
            match entry.get(field) {
                Some(property) => property.set_value(CstInputValue::Bool(*flag)),
                None => _ = entry.append(field, CstInputValue::Bool(*flag)),
            }
        }
    }
    Ok(root.to_string())
}

/// The line comments on lines of their own directly above an entry.
fn comments_above(entry: &CstObjectProp) -> Vec<CstComment> {
    let mut above = Vec::new();
    // The comment of the line that is walked through, backwards.
    let mut of_line = None;
    let mut is_entrys_line = true;
    for node in entry.previous_siblings() {
        match node {
            CstNode::Leaf(CstLeafNode::Newline(_)) => {
                let is_blank = of_line.is_none() && !is_entrys_line;
                if is_blank {
                    break;
                }
                above.extend(of_line.take());
                is_entrys_line = false;
            }
            CstNode::Leaf(CstLeafNode::Whitespace(_)) => {}
            CstNode::Leaf(CstLeafNode::Comment(comment)) if comment.is_line_comment() => {
                of_line = Some(comment);
            }
            _ => break,
        }
    }
    above
}

fn container(document: CstObject, entry_path: &EntryPath<'_>) -> Result<CstObject, String> {
    let found = entry_path
        .container
        .iter()
        .try_fold(document, |at, key| at.object_value(key));
    found.ok_or_else(|| NOT_FOUND.to_owned())
}

fn input(value: &NewValue) -> CstInputValue {
    match value {
        NewValue::Text(text) => CstInputValue::String(text.clone()),
        NewValue::Texts(texts) => {
            CstInputValue::Array(texts.iter().cloned().map(CstInputValue::String).collect())
        }
        NewValue::Flag(flag) => CstInputValue::Bool(*flag),
        NewValue::Number(number) => CstInputValue::Number(number.to_string()),
        NewValue::Table(pairs) => {
            let pair = |(key, text): &(String, NewText)| match text {
                NewText::Plain(text) => (key.clone(), CstInputValue::String(text.clone())),
                NewText::Call(name) => (key.clone(), CstInputValue::String(format!("${{{name}}}"))),
            };
            CstInputValue::Object(pairs.iter().map(pair).collect())
        }
    }
}
