//! Delivers the messages in a line or an event of a stream that is shared by all requests.

use super::{Inbound, MessageOrigin, TransportFault};
use crate::wire::{Incoming, RawJson, RequestId, parse_inline, text_of};

/// Delivers the messages in a text, and returns how many there are.
#[inline]
pub(super) fn deliver_text(
    text: &[u8],
    keep: impl Fn(&str) -> RawJson,
    inbound: &dyn Inbound,
) -> usize {
    let mut count = 0;
    if read_text(text, &keep, inbound, &mut count).is_err() {
        handle_unreadable(text, &keep, inbound, &mut count);
    }
    count
}

/// Delivers what follows a byte order mark, with which some servers begin their output. Any other text
/// is not a message.
#[cold]
fn handle_unreadable(
    text: &[u8],
    keep: &dyn Fn(&str) -> RawJson,
    inbound: &dyn Inbound,
    count: &mut usize,
) {
    let rest = text.strip_prefix(b"\xEF\xBB\xBF");
    if rest.is_some_and(|rest| read_text(rest, keep, inbound, count).is_ok()) {
        return;
    }
    if !rest.unwrap_or(text).trim_ascii().is_empty() {
        inbound.not_a_message(text);
    }
}

#[inline]
fn read_text(
    text: &[u8],
    keep: impl Fn(&str) -> RawJson,
    inbound: &dyn Inbound,
    count: &mut usize,
) -> Result<(), ()> {
    let Ok(text) = text_of(text) else {
        return fail_unreadable(text, inbound);
    };
    parse_inline(text, keep, |message| {
        *count += 1;
        inbound.message(message, MessageOrigin::Shared)
    })
    .map_err(drop)
}

/// Fails the request of a response that is not UTF-8, which would otherwise wait for its deadline.
fn fail_unreadable(text: &[u8], inbound: &dyn Inbound) -> Result<(), ()> {
    let mut answered = None;
    let text = String::from_utf8_lossy(text);
    parse_inline(&text, RawJson::keep, |message| {
        if let Incoming::Result { id, .. } | Incoming::Error { id: Some(id), .. } = message {
            answered = Some(id);
        }
    })
    .map_err(drop)?;
    let Some(RequestId::Number(id)) = answered else {
        return Err(());
    };
    let fact = "the server's response is not UTF-8 text";
    inbound.failed(id, TransportFault::Lost(fact.to_owned()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::sync::lock;
    use crate::wire::OversizedMessage;

    #[derive(Default)]
    struct Delivered(Mutex<Vec<String>>);

    impl Inbound for Delivered {
        fn message(&self, message: Incoming, _: MessageOrigin) {
            if let Incoming::Result { id, .. } = message {
                lock(&self.0).push(format!("{id:?} answered"));
            }
        }
        fn failed(&self, id: u64, fault: TransportFault) {
            lock(&self.0).push(format!("{id}: {fault}"));
        }
        fn session_renewed(&self) {}
        fn not_a_message(&self, line: &[u8]) {
            lock(&self.0).push(format!("{} bytes", line.len()));
        }
        fn oversized(&self, _: Option<OversizedMessage>) {}
        fn closed(&self, _: String) {}
    }

    /// What is delivered of these lines.
    fn delivered(lines: &[&[u8]]) -> Vec<String> {
        let delivered = Delivered::default();
        for line in lines {
            deliver_text(line, RawJson::keep, &delivered);
        }
        std::mem::take(&mut *lock(&delivered.0))
    }

    /// A server that writes in another encoding, such as Windows-1252.
    #[test]
    fn a_response_that_is_not_utf8_fails_its_request_at_once() {
        let lines = [
            &b"{\"id\":7,\"result\":{\"text\":\"caf\xe9\"}}"[..],
            b"{\"id\":8,\"error\":{\"code\":1,\"message\":\"\xe9\"}}",
            b"{\"method\":\"notifications/x\",\"params\":\"\xe9\"}",
            b"caf\xe9",
        ];
        assert_eq!(
            delivered(&lines),
            [
                "7: the server's response is not UTF-8 text",
                "8: the server's response is not UTF-8 text",
                "41 bytes",
                "4 bytes"
            ]
        );
    }

    /// A server on Windows may begin its output with a byte order mark.
    #[test]
    fn a_message_after_a_byte_order_mark_is_delivered() {
        let lines = [
            &b"\xEF\xBB\xBF{\"id\":1,\"result\":1}"[..],
            b"\xEF\xBB\xBF",
            b"\xEF\xBB\xBF[]x",
        ];
        assert_eq!(delivered(&lines), ["Number(1) answered", "6 bytes"]);
    }

    #[test]
    fn an_invalid_member_of_a_batch_fails_no_other() {
        let batch = br#"[{"id":1,"result":1},7,{"id":2,"result":2}]"#;
        assert_eq!(
            delivered(&[batch]),
            ["Number(1) answered", "Number(2) answered", "43 bytes"]
        );
    }
}
