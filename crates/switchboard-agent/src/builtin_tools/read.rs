//! The tool Read: lines of a text file, with their numbers, or an image.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use switchboard::{
    CallResult, Caller, HostTool, HostToolDefinition, HostToolFuture, RawJson, ToolEffect,
};

use super::blocking::run_blocking;
use super::image_file::image_result;
use super::parse_args;
use super::read_record::ReadRecord;
use super::text_file::{TextFile, read_regular};
use super::workspace::Workspace;
use crate::conversation::{MAX_RESULT_BYTES, image_type};

const MAX_LINES: usize = 2000;
const MAX_LINE_CHARS: usize = 2000;
/// A result ends before the line that would pass this. Less than the agent cuts a result at, so that
/// the rest is read on with `offset`.
const MAX_BYTES: usize = MAX_RESULT_BYTES - 1024;
const TIME_LIMIT: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct ReadTool {
    workspace: Arc<Workspace>,
    record: Arc<ReadRecord>,
}

#[derive(Deserialize)]
struct ReadArgs {
    path: String,
    offset: Option<usize>,
    limit: Option<usize>,
}

impl ReadTool {
    pub(super) fn new(workspace: Arc<Workspace>, record: Arc<ReadRecord>) -> Self {
        Self { workspace, record }
    }
}

impl HostTool for ReadTool {
    fn definition(&self) -> HostToolDefinition {
        let schema = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "The file"},
                "offset": {"type": "integer", "minimum": 1, "description": "The first line, counted from 1"},
                "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LINES, "description": "How many lines"},
            },
            "required": ["path"],
            "additionalProperties": false,
        });
        HostToolDefinition::new(
            "Read",
            "Reads a text file or an image of the workspace. Each line of text follows its number and a tab. A file must be read before it is edited.",
            schema,
        )
        .effect(ToolEffect::Read)
    }

    fn call<'a>(
        &'a self,
        arguments: &'a RawJson,
        caller: &'a Arc<dyn Caller>,
    ) -> HostToolFuture<'a> {
        Box::pin(async move {
            let args: ReadArgs = parse_args(arguments)?;
            let (workspace, record) = (self.workspace.clone(), self.record.clone());
            let caller = caller.id().clone();
            let result = run_blocking(TIME_LIMIT, move |_| {
                let place = workspace.locate(Some(&args.path))?;
                let file = read_regular(&place)?;
                if let Some(image_type) = image_type(&file.0) {
                    let image = image_result(image_type, &file.0);
                    return image.map_err(|fact| format!("path {}: {fact}", place.shown()));
                }
                let file = TextFile::new(file, &place)?;
                record.add(caller, place.path(), file.hash);
                let lines = numbered_lines(&file.text, args.offset.unwrap_or(1), args.limit);
                lines.map(CallResult::success)
            });
            result.await
        })
    }
}

/// Lines from `first` on, counted from 1, and how to read the rest.
fn numbered_lines(text: &str, first: usize, limit: Option<usize>) -> Result<String, String> {
    let count = text.lines().count();
    if count == 0 {
        return Ok("[the file is empty]".to_owned());
    }
    if first > count {
        return Err(format!("offset {first}: the file has {count} lines"));
    }
    let mut shown = String::new();
    let mut last = first;
    let limit = limit.unwrap_or(MAX_LINES).min(MAX_LINES);
    for (number, line) in text.lines().enumerate().skip(first - 1).take(limit) {
        let line = numbered_line(number + 1, line);
        if shown.len() + line.len() > MAX_BYTES {
            break;
        }
        last = number + 1;
        shown.push_str(&line);
    }
    if first > 1 || last < count {
        // Writing to a string cannot fail.
        let _ = write!(shown, "[lines {first} to {last} of {count}");
        if last < count {
            let _ = write!(shown, "; read on with offset {}", last + 1);
        }
        shown.push_str("]\n");
    }
    Ok(shown)
}

/// The number, a tab and the line, which is cut if it is too long.
fn numbered_line(number: usize, line: &str) -> String {
    match line.char_indices().nth(MAX_LINE_CHARS) {
        Some((at, _)) => {
            let left_out = line.len() - at;
            format!("{number}\t{} [… {left_out} bytes]\n", &line[..at])
        }
        None => format!("{number}\t{line}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_numbered_and_the_rest_can_be_read() {
        let check = |text: &str, first: usize, limit: Option<usize>, expected: &str| {
            let shown = numbered_lines(text, first, limit).unwrap_or_else(|error| error);
            assert_eq!(shown, expected);
        };
        check("", 1, None, "[the file is empty]");
        check("a\nb", 1, None, "1\ta\n2\tb\n");
        let rest = "2\tb\n[lines 2 to 2 of 3; read on with offset 3]\n";
        check("a\nb\nc\n", 2, Some(1), rest);
        check("a\nb\n", 2, None, "2\tb\n[lines 2 to 2 of 2]\n");
        check("a\n", 5, None, "offset 5: the file has 1 lines");
    }

    #[test]
    fn t26_what_is_read_at_once_is_bounded() {
        let long = "é".repeat(5000);
        let shown = numbered_lines(&long, 1, None).unwrap_or_default();
        assert!(shown.ends_with("é [… 6000 bytes]\n"), "{}", shown.len());
        let many = format!("{}\n", "x".repeat(1000)).repeat(3000);
        let shown = numbered_lines(&many, 1, None).unwrap_or_default();
        // The agent cuts a longer result in its middle.
        assert!(shown.len() <= MAX_RESULT_BYTES, "{}", shown.len());
        assert!(
            shown.ends_with("of 3000; read on with offset 48]\n"),
            "{}",
            &shown[shown.len() - 80..]
        );
    }
}
