//! The end of a stored conversation, shown when it is continued: the last messages and calls.

use switchboard_agent::conversation::TurnPart;
use switchboard_agent::{ContentPart, Conversation, HistoryEntry, UserMessage};

use super::calls;
use super::markdown;
use super::screen::FAINT;
use crate::view::server::escaped;

/// How many entries are shown.
const MAX_ENTRIES: usize = 6;
/// How many lines of a person's message are shown.
const MAX_MESSAGE_LINES: usize = 10;

/// The last entries of a conversation as text.
pub(super) fn render_end(conversation: &Conversation, columns: Option<usize>) -> String {
    let entries = conversation.entries();
    let first = entries.len().saturating_sub(MAX_ENTRIES);
    let mut text = String::new();
    if first > 0 {
        text.push_str(&format!("{FAINT}… {first} earlier entries{FAINT:#}\n"));
    }
    for entry in &entries[first..] {
        match entry {
            HistoryEntry::User(message) => text.push_str(&user_message(message)),
            HistoryEntry::Model(answered) => {
                for part in &answered.turn().parts {
                    if let TurnPart::Text(part) = part {
                        text.push_str(&markdown::render(part, columns.unwrap_or(usize::MAX)));
                    }
                }
                for (call, outcome) in answered.calls() {
                    let arguments = call.arguments.object().map_or("{}", |json| json.as_str());
                    text.push_str(&calls::call_line("", &call.name, arguments));
                    text.push_str(&calls::outcome(outcome));
                }
            }
            HistoryEntry::Summary(summary) => {
                text.push_str(&format!("{FAINT}summary:{FAINT:#}\n"));
                text.push_str(&markdown::render(summary, columns.unwrap_or(usize::MAX)));
            }
            _ => {}
        }
    }
    text
}

/// A message of the person, as at the prompt.
fn user_message(message: &UserMessage) -> String {
    let mut lines = Vec::new();
    for part in &message.parts {
        match part {
            ContentPart::Text(text) => lines.extend(text.lines().map(escaped)),
            _ => lines.push("[image]".to_owned()),
        }
    }
    let more = lines.len().saturating_sub(MAX_MESSAGE_LINES);
    lines.truncate(MAX_MESSAGE_LINES);
    if more > 0 {
        lines.push(format!("… {more} more lines"));
    }
    format!("> {}\n", lines.join("\n  "))
}
