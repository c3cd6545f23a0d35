//! Edits YAML by lines: only the lines of one entry are added or removed. Flow mappings on one line
//! are not edited.

use std::ops::Range;

use super::lines::{ending, without};
use super::{EntryPath, NewText, NewValue, Operation};

const ONE_LINE: &str = "this section is written in one line, as `{…}`; edit the file by hand";

/// `front_matter`: only the text between the first two lines of `---` is YAML.
pub(super) fn edit(
    text: &str,
    entry_path: &EntryPath<'_>,
    operation: &Operation,
    front_matter: bool,
) -> Result<String, String> {
    let lines = yaml_lines(text);
    let whole = if front_matter {
        head(&lines)?
    } else {
        body(&lines)
    };
    match operation {
        Operation::Add(fields) => add(text, &lines, whole, entry_path, fields),
        Operation::Remove => {
            let (entries, indent) =
                descend(&lines, whole, entry_path.container)?.ok_or(super::NOT_FOUND)?;
            let entry = find(&lines, entries, indent, entry_path.name).ok_or(super::NOT_FOUND)?;
            Ok(without(&lines, entry.whole))
        }
        Operation::Set(..) => Err("a file of this kind cannot express it".to_owned()),
    }
}

/// The lines with their line endings. In YAML a carriage return alone ends a line, too.
fn yaml_lines(text: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['\n', '\r']) {
        let ending = if rest[at..].starts_with("\r\n") { 2 } else { 1 };
        let (line, below) = rest.split_at(at + ending);
        lines.push(line);
        rest = below;
    }
    if !rest.is_empty() {
        lines.push(rest);
    }
    lines
}

/// A key with the lines that belong to it.
struct KeyLines {
    /// From its own line to the last one that is indented deeper.
    whole: Range<usize>,
    indent: usize,
}

fn head(lines: &[&str]) -> Result<Range<usize>, String> {
    let is_rule = |line: &&str| line.trim_end() == "---";
    let end = lines
        .iter()
        .skip(1)
        .position(is_rule)
        .filter(|_| lines.first().is_some_and(is_rule));
    end.map(|end| 1..end + 1).ok_or_else(|| {
        "it has no front matter between two lines of `---`; edit the file by hand".to_owned()
    })
}

fn body(lines: &[&str]) -> Range<usize> {
    let start = lines
        .iter()
        .position(|line| line.trim_end() == "---")
        .map_or(0, |rule| rule + 1);
    let end = lines[start..]
        .iter()
        .position(|line| matches!(line.trim_end(), "---" | "..."))
        .map(|end| start + end);
    start..end.unwrap_or(lines.len())
}

/// The lines below the last of these keys and their indentation; `None` if it does not exist.
fn descend(
    lines: &[&str],
    whole: Range<usize>,
    keys: &[&str],
) -> Result<Option<(Range<usize>, usize)>, String> {
    let mut range = whole;
    let mut indent = first_indent(lines, range.clone()).unwrap_or(0);
    for key in keys {
        let Some(found) = find(lines, range.clone(), indent, key) else {
            return Ok(None);
        };
        if !opens_a_map(lines[found.whole.start]) {
            return Err(ONE_LINE.to_owned());
        }
        range = found.whole.start + 1..found.whole.end;
        indent = first_indent(lines, range.clone()).unwrap_or(found.indent + 2);
    }
    Ok(Some((range, indent)))
}

fn add(
    text: &str,
    lines: &[&str],
    whole: Range<usize>,
    entry_path: &EntryPath<'_>,
    fields: &[(&'static str, NewValue)],
) -> Result<String, String> {
    // Uses as many of the keys as exist, and writes the missing ones.
    let known = (0..=entry_path.container.len()).rev().find_map(|depth| {
        match descend(lines, whole.clone(), &entry_path.container[..depth]) {
            Ok(None) => None,
            found => Some((depth, found)),
        }
    });
    let Some((depth, found)) = known else {
        return Err(ONE_LINE.to_owned());
    };
    let Some((range, mut indent)) = found? else {
        return Err(ONE_LINE.to_owned());
    };
    let mut new = String::new();
    for key in &entry_path.container[depth..] {
        new.push_str(&format!("{:indent$}{key}:\n", ""));
        indent += 2;
    }
    new.push_str(&entry(entry_path.name, fields, indent));
    // After the last line with content.
    let blank = |index: &usize| lines[*index].trim().is_empty();
    let end = range
        .clone()
        .rev()
        .find(|index| !blank(index))
        .map_or(range.start, |last| last + 1);
    let before: String = lines[..end].concat();
    let gap = if before.is_empty() || before.ends_with(['\n', '\r']) {
        ""
    } else {
        "\n"
    };
    Ok(before + &format!("{gap}{new}").replace('\n', ending(text)) + &lines[end..].concat())
}

fn entry(name: &str, fields: &[(&'static str, NewValue)], indent: usize) -> String {
    let mut text = format!("{:indent$}{}:\n", "", scalar(name));
    let inner = indent + 2;
    for (key, value) in fields {
        let value = match value {
            NewValue::Text(text) => scalar(text),
            NewValue::Texts(texts) => format!(
                "[{}]",
                texts
                    .iter()
                    .map(|text| scalar(text))
                    .collect::<Vec<_>>()
                    .join(", ")
            ),
            NewValue::Flag(flag) => flag.to_string(),
            NewValue::Number(number) => number.to_string(),
            NewValue::Table(pairs) if pairs.is_empty() => "{}".to_owned(),
            NewValue::Table(pairs) => {
                let deeper = inner + 2;
                let pair = |(key, text): &(String, NewText)| match text {
                    NewText::Plain(text) => {
                        format!("\n{:deeper$}{}: {}", "", scalar(key), scalar(text))
                    }
                    NewText::Call(name) => {
                        format!("\n{:deeper$}{}: {}", "", scalar(key), scalar(name))
                    }
                };
                text.push_str(&format!(
                    "{:inner$}{key}:{}\n",
                    "",
                    pairs.iter().map(pair).collect::<String>()
                ));
                continue;
            }
        };
        text.push_str(&format!("{:inner$}{key}: {value}\n", ""));
    }
    text
}

fn find(lines: &[&str], range: Range<usize>, indent: usize, key: &str) -> Option<KeyLines> {
    let start = range.clone().find(|index| {
        indent_of(lines[*index]) == Some(indent) && key_of(lines[*index]).as_deref() == Some(key)
    })?;
    let after = (start + 1..range.end)
        .find(|index| indent_of(lines[*index]).is_some_and(|deep| deep <= indent));
    let mut end = after.unwrap_or(range.end);
    // Blank lines and comments below the last value belong to what follows.
    while end > start + 1 && indent_of(lines[end - 1]).is_none_or(|deep| deep <= indent) {
        end -= 1;
    }
    Some(KeyLines {
        whole: start..end,
        indent,
    })
}

fn first_indent(lines: &[&str], range: Range<usize>) -> Option<usize> {
    range.into_iter().find_map(|index| indent_of(lines[index]))
}

/// The indentation of a line; `None` for blank lines and comments.
fn indent_of(line: &str) -> Option<usize> {
    let content = line.trim_start_matches(' ');
    (!content.trim().is_empty() && !content.starts_with('#')).then_some(line.len() - content.len())
}

fn key_of(line: &str) -> Option<String> {
    let line = line.trim();
    let quote = line
        .chars()
        .next()
        .filter(|first| matches!(first, '"' | '\''));
    match quote {
        Some(quote) => line[1..]
            .split_once(quote)
            .filter(|(_, rest)| rest.trim_start().starts_with(':'))
            .map(|(key, _)| key.to_owned()),
        None => {
            let (key, rest) = line.split_once(':')?;
            (rest.is_empty() || rest.starts_with([' ', '\t'])).then(|| key.trim_end().to_owned())
        }
    }
}

/// Whether only a comment follows the key, so that its mapping is on the lines below.
fn opens_a_map(line: &str) -> bool {
    let value = line.trim().rsplit_once(':').map(|(_, value)| value.trim());
    let after = line.find(": ").map(|at| line[at + 1..].trim());
    value == Some("") || after.is_some_and(|after| after.starts_with('#'))
}

/// Unquoted if unambiguous, else quoted.
fn scalar(text: &str) -> String {
    let plain = text
        .starts_with(|first: char| first.is_ascii_alphabetic() || "./_".contains(first))
        && text
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || "./_-@+=".contains(letter))
        && !["true", "false", "yes", "no", "on", "off", "null", "y", "n"]
            .iter()
            .any(|word| text.eq_ignore_ascii_case(word))
        && !text.starts_with(".inf")
        && !text.starts_with(".nan")
        && text.parse::<f64>().is_err();
    if plain
        || text.starts_with("http")
            && !text.contains([' ', '#', ',', '[', ']', '{', '}', '\'', '"'])
            && !text.contains(char::is_control)
    {
        text.to_owned()
    } else if text.contains(char::is_control) {
        // JSON strings are valid YAML.
        serde_json::Value::from(text).to_string()
    } else {
        format!("'{}'", text.replace('\'', "''"))
    }
}
