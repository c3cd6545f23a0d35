//! Edits TOML: tables with headers stay tables, inline tables stay inline. Comments directly above
//! a removed entry are removed with it, those separated by a blank line stay.

use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike, value};

use super::{EntryPath, NOT_FOUND, NewText, NewValue, Operation};

/// Edits a text; each line keeps its ending, also if some end in CR LF and others in LF.
pub(super) fn edit(
    text: &str,
    entry_path: &EntryPath<'_>,
    operation: &Operation,
) -> Result<String, String> {
    if !text.contains("\r\n") {
        return edit_lines(text, entry_path, operation);
    }
    let edited = edit_lines(&text.replace("\r\n", "\n"), entry_path, operation)?;
    Ok(with_endings_of(text, &edited))
}

/// The edited text with the endings of the lines before and after the change; new lines end in CR
/// LF.
fn with_endings_of(text: &str, edited: &str) -> String {
    let (old, new): (Vec<_>, Vec<_>) = (
        text.split_inclusive('\n').collect(),
        edited.split_inclusive('\n').collect(),
    );
    let is_same = |(old, new): &(&&str, &&str)| old.replace("\r\n", "\n") == **new;
    let before = old.iter().zip(&new).take_while(is_same).count();
    let after = old[before..]
        .iter()
        .rev()
        .zip(new[before..].iter().rev())
        .take_while(is_same)
        .count();
    let changed = new[before..new.len() - after].concat();
    [
        old[..before].concat(),
        changed.replace('\n', "\r\n"),
        old[old.len() - after..].concat(),
    ]
    .concat()
}

fn edit_lines(
    text: &str,
    entry_path: &EntryPath<'_>,
    operation: &Operation,
) -> Result<String, String> {
    let mut document: DocumentMut = text
        .parse()
        .map_err(|_| "it is not valid TOML".to_owned())?;
    match operation {
        Operation::Add(fields) => {
            // Comments of a file without tables stay above the first table.
            let above = if document.is_empty() {
                document.trailing().as_str().unwrap_or_default().to_owned()
            } else {
                "\n".to_owned()
            };
            if document.is_empty() {
                document.set_trailing("");
            }
            add(document.as_table_mut(), entry_path, fields, &above)?;
        }
        Operation::Remove => remove(&mut document, entry_path)?,
        Operation::Set(field, flag) => set(document.as_table_mut(), entry_path, field, *flag)?,
    }
    let edited = document.to_string();
    // After the first entry is removed, no blank line is left at the top.
    Ok(if text.starts_with(['\n', '\r']) {
        edited
    } else {
        edited.trim_start_matches(['\n', '\r']).to_owned()
    })
}

fn add(
    document: &mut Table,
    entry_path: &EntryPath<'_>,
    fields: &[(&'static str, NewValue)],
    above: &str,
) -> Result<(), String> {
    let mut at: &mut dyn TableLike = document;
    for key in entry_path.container {
        let item = at.entry(key).or_insert_with(|| {
            let mut table = Table::new();
            table.set_implicit(true);
            Item::Table(table)
        });
        at = item.as_table_like_mut().ok_or(NOT_FOUND)?;
    }
    // If the other entries are inline tables, the new one is inline too.
    if at.iter().any(|(_, item)| item.is_value()) {
        let mut entry = InlineTable::new();
        fields
            .iter()
            .for_each(|(key, field)| _ = entry.insert(*key, inline(field)));
        at.insert(entry_path.name, value(entry));
        return Ok(());
    }
    let mut entry = Table::new();
    fields
        .iter()
        .for_each(|(key, field)| _ = entry.insert(key, value(inline(field))));
    entry.decor_mut().set_prefix(above);
    at.insert(entry_path.name, Item::Table(entry));
    Ok(())
}

fn inline(field: &NewValue) -> toml_edit::Value {
    match field {
        NewValue::Text(text) => text.as_str().into(),
        NewValue::Texts(texts) => texts.iter().map(String::as_str).collect::<Array>().into(),
        NewValue::Flag(flag) => (*flag).into(),
        NewValue::Number(number) => i64::from(*number).into(),
        NewValue::Table(pairs) => {
            let pair = |(key, text): &(String, NewText)| match text {
                NewText::Plain(text) => (key.clone(), text.clone()),
                NewText::Call(name) => (key.clone(), format!("${{{name}}}")),
            };
            let mut table: InlineTable = pairs.iter().map(pair).collect();
            table.fmt();
            table.into()
        }
    }
}

fn container<'d>(
    document: &'d mut Table,
    entry_path: &EntryPath<'_>,
) -> Result<&'d mut dyn TableLike, String> {
    let mut at: &mut dyn TableLike = document;
    for key in entry_path.container {
        at = at
            .get_mut(key)
            .and_then(Item::as_table_like_mut)
            .ok_or(NOT_FOUND)?;
    }
    Ok(at)
}

fn set(
    document: &mut Table,
    entry_path: &EntryPath<'_>,
    field: &str,
    flag: bool,
) -> Result<(), String> {
    let entries = container(document, entry_path)?;
    let entry = entries
        .get_mut(entry_path.name)
        .and_then(Item::as_table_like_mut)
        .ok_or(NOT_FOUND)?;
    match entry.get_mut(field) {
        // Whitespace and comments around the value stay.
        Some(Item::Value(old)) => {
            let decor = old.decor().clone();
            *old = flag.into();
            *old.decor_mut() = decor;
        }
        _ => _ = entry.insert(field, value(flag)),
    }
    Ok(())
}

fn remove(document: &mut DocumentMut, entry_path: &EntryPath<'_>) -> Result<(), String> {
    let entries = container(document.as_table_mut(), entry_path)?;
    let removed = entries.remove(entry_path.name).ok_or(NOT_FOUND)?;
    let Item::Table(table) = removed else {
        return Ok(());
    };
    let prefix = table
        .decor()
        .prefix()
        .and_then(|prefix| prefix.as_str())
        .unwrap_or_default();
    let comments = separated_comments(prefix).to_owned();
    if comments.trim().is_empty() {
        return Ok(());
    }
    let position = table.position().unwrap_or(isize::MAX);
    match next(document.as_table_mut(), position) {
        Some(after) => {
            let prefix = after
                .decor()
                .prefix()
                .and_then(|prefix| prefix.as_str())
                .unwrap_or_default()
                .to_owned();
            after
                .decor_mut()
                .set_prefix(comments + prefix.trim_start_matches('\n'));
        }
        None => {
            let trailing = document.trailing().as_str().unwrap_or_default().to_owned();
            document.set_trailing(comments + &trailing);
        }
    }
    Ok(())
}

/// The comments above an entry that a blank line separates from it: they belong to the file, not to
/// the entry.
pub(super) fn separated_comments(prefix: &str) -> &str {
    match prefix.trim_end_matches([' ', '\t']).rfind("\n\n") {
        Some(at) => &prefix[..at + 2],
        None => "",
    }
}

/// The next table after this position.
fn next(table: &mut Table, position: isize) -> Option<&mut Table> {
    fn nearest(table: &Table, position: isize) -> Option<isize> {
        let own = table
            .position()
            .filter(|own| *own > position && !table.is_implicit());
        let inner = table.iter().filter_map(|(_, item)| match item {
            Item::Table(inner) => nearest(inner, position),
            Item::ArrayOfTables(tables) => tables
                .iter()
                .filter_map(|inner| nearest(inner, position))
                .min(),
            _ => None,
        });
        own.into_iter().chain(inner).min()
    }
    fn at(table: &mut Table, position: isize) -> Option<&mut Table> {
        if table.position() == Some(position) && !table.is_implicit() {
            return Some(table);
        }
        table.iter_mut().find_map(|(_, item)| match item {
            Item::Table(inner) => at(inner, position),
            Item::ArrayOfTables(tables) => tables.iter_mut().find_map(|inner| at(inner, position)),
            _ => None,
        })
    }
    let position = nearest(table, position)?;
    at(table, position)
}
