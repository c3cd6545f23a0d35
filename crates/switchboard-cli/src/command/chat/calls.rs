//! A call and its outcome as text: server, tool and arguments on one line, then the first lines of
//! the result behind a bar.

use std::borrow::Cow;

use switchboard::result::readable_json;
use switchboard_agent::conversation::ToolOutput;
use switchboard_agent::{CallOutcome, CallRecord, ContentPart};

use super::screen::{BAR, FAINT, FAULT, NAME};
use crate::terminal::json;
use crate::view::server::escaped;
use crate::view::table;

/// How much of the arguments is shown.
const MAX_ARGUMENT_CHARACTERS: usize = 300;
/// How many lines of a result are shown.
const MAX_RESULT_LINES: usize = 8;
/// Shorter JSON is shown as it came.
const MAX_JSON_LINE_BYTES: usize = 60;

/// `● server/tool {"argument":…}`.
pub(super) fn call_line(server: &str, tool: &str, arguments: &str) -> String {
    let name = tool_name(server, tool);
    let mut arguments: String = escaped(&readable_json(arguments));
    if arguments.chars().count() > MAX_ARGUMENT_CHARACTERS {
        arguments = arguments.chars().take(MAX_ARGUMENT_CHARACTERS).collect();
        arguments.push('…');
    }
    format!("● {NAME}{name}{NAME:#} {arguments}\n")
}

/// The name of a tool for a person.
pub(super) fn tool_name(server: &str, tool: &str) -> String {
    match server.is_empty() {
        true => escaped(tool),
        false => format!("{}/{}", escaped(server), escaped(tool)),
    }
}

/// The outcome of a call; with its name if other output stands between the call's line and this.
pub(super) fn named_outcome(record: &CallRecord, result: &CallOutcome, with_name: bool) -> String {
    match with_name {
        false => outcome(result),
        true => {
            let name = tool_name(&record.server, &record.tool);
            format!("  {FAINT}{name}:{FAINT:#}\n{}", outcome(result))
        }
    }
}

/// The outcome of a call, without its name.
pub(super) fn outcome(result: &CallOutcome) -> String {
    match result {
        CallOutcome::Answered(output) => output_lines(output),
        CallOutcome::Failed(output) => {
            format!("  {FAULT}failed{FAULT:#}\n{}", output_lines(output))
        }
        CallOutcome::Denied { reason } => {
            format!("  {FAULT}denied: {}{FAULT:#}\n", escaped(reason))
        }
        CallOutcome::Cancelled => format!("  {FAULT}cancelled{FAULT:#}\n"),
        _ => format!("  {FAULT}{}{FAULT:#}\n", escaped(&result.text())),
    }
}

/// The first lines of an output: text as text, JSON formatted, images by type and size.
fn output_lines(output: &ToolOutput) -> String {
    let mut lines: Vec<String> = Vec::new();
    for part in &output.parts {
        match part {
            ContentPart::Text(text) => lines.extend(for_person(text).lines().map(escaped)),
            ContentPart::Image(image) => {
                let size = table::bytes((image.base64.trim_end_matches('=').len() * 3 / 4) as u64);
                lines.push(format!("[{}, {size}]", escaped(&image.media_type)));
            }
            _ => lines.push("[other content]".to_owned()),
        }
    }
    let more = lines.len().saturating_sub(MAX_RESULT_LINES);
    // A count of one omitted line would take as much room as the line itself.
    let shown = if more > 1 {
        MAX_RESULT_LINES
    } else {
        lines.len()
    };
    let width = super::screen::columns().map(|columns| columns.saturating_sub(BAR.len()).max(12));
    let cut = |line: &String| width.map_or_else(|| line.clone(), |width| table::cut(line, width));
    let mut text: String = lines[..shown]
        .iter()
        .map(|line| format!("{FAINT}{BAR}{FAINT:#}{}\n", cut(line)))
        .collect();
    if more > 1 {
        text.push_str(&format!("{FAINT}{BAR}… {more} more lines{FAINT:#}\n"));
    }
    text
}

/// The text of a result for a person: long JSON gets a line for each member.
fn for_person(text: &str) -> Cow<'_, str> {
    let is_json = text.len() > MAX_JSON_LINE_BYTES
        && text.trim_start().starts_with(['{', '['])
        && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
    match is_json {
        true => Cow::Owned(json::pretty_json(text, None)),
        false => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use switchboard_agent::CallDecision;

    fn plain(text: String) -> String {
        anstream::adapter::strip_str(&text).to_string()
    }

    #[test]
    fn t8_what_servers_and_models_write_is_escaped_and_stays_behind_the_bar() {
        let line = plain(call_line("s", "t\u{1b}[2J", "{\"a\":\"\u{1b}[31m\\n\"}"));
        assert!(!line.contains('\u{1b}'), "{line:?}");
        assert_eq!(line.lines().count(), 1, "{line:?}");
        let output = ToolOutput::text("one\n\u{1b}[Atwo\n● s/fake {}");
        let record = CallRecord {
            server: "s".to_owned(),
            tool: "t".to_owned(),
            decision: CallDecision::Allowed,
            is_error: false,
        };
        let text = plain(named_outcome(
            &record,
            &CallOutcome::Answered(output),
            false,
        ));
        assert!(!text.contains('\u{1b}'), "{text:?}");
        assert!(text.lines().all(|line| line.starts_with(BAR)), "{text:?}");
        let long = ToolOutput::text("x\n".repeat(20));
        let text = plain(named_outcome(&record, &CallOutcome::Answered(long), false));
        assert_eq!(text.lines().count(), 9, "{text}");
        assert!(text.ends_with("… 12 more lines\n"), "{text}");
    }
}
