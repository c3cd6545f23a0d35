//! Decides when a conversation is summarised, and which entries the summary replaces. Pure: the agent
//! asks the model for the summary.

use crate::conversation::{ContentPart, Conversation, HistoryEntry, UserMessage};
use crate::usage::TokenEstimate;

/// How many tokens a summary may have at least, also where answers are limited to fewer.
pub(crate) const SUMMARY_TOKENS: u32 = 4096;

/// The request for a summary.
const SUMMARY_REQUEST: &str = "Summarise this conversation so that it can be continued from the \
    summary alone. Keep: what the person wants and decided, what was done and found out, names of \
    files, servers and tools with exact values that are still needed, what failed and why, and \
    what is to be done next. Call no tool. Write nothing but the summary.";

/// Whether the conversation should be summarised: it fills more than four fifths of the context, or
/// leaves less than the vendor reserves for the answer. At most half of the context is reserved.
pub fn is_due(used: u64, reserved: u64, context: u64) -> bool {
    let free = context.saturating_sub(used);
    used.saturating_mul(5) > context.saturating_mul(4) || free < reserved.min(context / 2)
}

/// How many of the oldest entries a summary should replace, so that the rest has at most
/// `keep_tokens`. The last message of the person and what follows it stay, if they fit. `None` if a
/// summary would not help.
pub fn choose(
    conversation: &Conversation,
    keep_tokens: u64,
    estimate: &TokenEstimate,
) -> Option<usize> {
    let entries = conversation.entries();
    let mut tokens = 0;
    let mut earliest = entries.len();
    for (index, entry) in entries.iter().enumerate().rev() {
        tokens += estimate.tokens(entry_bytes(entry));
        if tokens > keep_tokens {
            break;
        }
        earliest = index;
    }
    // A message of the person is the best first entry. Any entry is valid, because each turn contains
    // the results of its calls.
    let is_user = |index: &usize| matches!(entries[*index], HistoryEntry::User(_));
    let at = (earliest..entries.len()).find(is_user).unwrap_or(earliest);
    let is_gain = at > 1 || (at == 1 && !matches!(entries[0], HistoryEntry::Summary(_)));
    is_gain.then_some(at)
}

/// The conversation that asks the model for a summary of the first `count` entries.
pub fn summary_request(conversation: &Conversation, count: usize) -> Conversation {
    let mut request = conversation.first_entries(count);
    request.add_user_message(UserMessage::text(SUMMARY_REQUEST));
    request
}

/// About how many bytes parts have in a request.
pub fn parts_bytes(parts: &[ContentPart]) -> usize {
    let bytes = parts.iter().map(|part| match part {
        ContentPart::Text(text) => text.len(),
        // Vendors count an image by its size in pixels, at most some thousand tokens.
        ContentPart::Image(image) => image.base64.len().min(6000),
    });
    bytes.sum()
}

/// About how many bytes an entry has in a request.
pub fn entry_bytes(entry: &HistoryEntry) -> usize {
    match entry {
        HistoryEntry::User(message) => parts_bytes(&message.parts),
        HistoryEntry::Note(text) | HistoryEntry::Summary(text) => text.len(),
        HistoryEntry::ToolsLoaded(names) => names.iter().map(String::len).sum(),
        HistoryEntry::Model(answered) => {
            let turn = answered.turn();
            let items: usize = turn.items.iter().map(|item| item.as_str().len()).sum();
            let results = answered.calls();
            let results = results.map(|(_, outcome)| parts_bytes(&outcome.parts()));
            items.max(turn.text().len()) + results.sum::<usize>()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conversation(lengths: &[usize]) -> Conversation {
        let mut conversation = Conversation::new();
        for length in lengths {
            conversation.add_user_message(UserMessage::text("x".repeat(*length)));
        }
        conversation
    }

    #[test]
    fn the_oldest_entries_are_chosen_so_that_the_rest_fits() {
        let estimate = TokenEstimate::default();
        for (lengths, keep, expected) in [
            (&[400, 400, 400][..], 200, Some(1)),
            (&[400, 400, 400], 100, Some(2)),
            (&[400, 400, 400], 1000, None),
            // Not even the last one fits: all are summarised.
            (&[400, 4000], 100, Some(2)),
            (&[], 100, None),
        ] {
            let found = choose(&conversation(lengths), keep, &estimate);
            assert_eq!(found, expected, "{lengths:?} {keep}");
        }
        let mut summarised = conversation(&[400, 400]);
        summarised.replace_by_summary(1, "s".repeat(4000));
        assert_eq!(choose(&summarised, 100, &estimate), None);
    }

    #[test]
    fn the_request_for_a_summary_ends_with_the_question() {
        let request = summary_request(&conversation(&[1, 2, 3]), 2);
        assert_eq!(request.entries().len(), 3);
        let last = HistoryEntry::User(UserMessage::text(SUMMARY_REQUEST));
        assert_eq!(request.entries().last(), Some(&last));
    }

    #[test]
    fn a_conversation_is_made_short_beyond_four_fifths_of_the_context() {
        assert!(is_due(81, 0, 100) && !is_due(80, 0, 100));
    }

    #[test]
    fn a_conversation_is_made_short_if_the_reserved_answer_does_not_fit() {
        assert!(is_due(71, 30, 100) && !is_due(70, 30, 100));
        assert!(is_due(51, 100, 100) && !is_due(50, 100, 100));
    }
}
