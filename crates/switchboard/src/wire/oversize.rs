//! Finds the `id` of a message over the size limit without buffering it, so that the right call
//! fails, or the server's request is refused.

use memchr::memchr2;

use super::{RawJson, RequestId};

/// None of our ids is longer.
const MAX_ID_BYTES: usize = 64;

/// The id of a message over the size limit. Both sides number their requests from the same numbers,
/// so the kind of the message decides whose id it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OversizedMessage {
    /// A result or an error; the id is that of our request.
    Response(RequestId),
    /// A request of the other side; the id is its own.
    Request(RequestId),
}

impl OversizedMessage {
    /// The id, whoever assigned it.
    pub fn id(&self) -> &RequestId {
        match self {
            Self::Response(id) | Self::Request(id) => id,
        }
    }
}

/// Scans a message that is being dropped.
#[derive(Debug, Default)]
pub(super) struct OversizedScanner {
    depth: u64,
    in_string: bool,
    escaped: bool,
    /// The start of the depth-1 key being read.
    key: Vec<u8>,
    position: ObjectPosition,
    id: Vec<u8>,
    is_id_complete: bool,
    /// Whether the message is a request, once a key says so: `method`, `result` or `error`.
    is_request: Option<bool>,
    /// Whether the message was reported.
    is_reported: bool,
}

/// Where in the depth-1 object the scanner is.
#[derive(Debug, Default, PartialEq, Eq)]
enum ObjectPosition {
    /// Before or in a key.
    #[default]
    Key,
    /// After a key; `true`: it was `id`.
    Colon(bool),
    /// In a value; `true`: of `id`.
    Value(bool),
}

impl OversizedScanner {
    /// Feeds bytes (without the newline that ends the message). Returns the message once its id and
    /// its kind are known.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Option<OversizedMessage> {
        if self.is_reported {
            return None;
        }
        let mut at = 0;
        while at < bytes.len() {
            if self.in_string && !self.escaped && !self.collects() {
                // Skips to the end of a string that is not needed: most of a message is such text.
                at += memchr2(b'"', b'\\', &bytes[at..])?;
            }
            self.step(bytes[at]);
            at += 1;
            if let (true, Some(is_request)) = (self.is_id_complete, self.is_request) {
                self.is_reported = true;
                let id = self.read_id()?;
                return Some(match is_request {
                    true => OversizedMessage::Request(id),
                    false => OversizedMessage::Response(id),
                });
            }
        }
        None
    }

    /// Whether the message is known to be a response.
    pub(super) fn is_response(&self) -> bool {
        self.is_request == Some(false)
    }

    /// Whether the bytes here belong to a depth-1 key or to the id.
    fn collects(&self) -> bool {
        self.depth == 1
            && matches!(
                self.position,
                ObjectPosition::Key | ObjectPosition::Value(true)
            )
    }

    fn step(&mut self, byte: u8) {
        if self.in_string {
            self.step_in_string(byte);
            return;
        }
        match byte {
            b'"' => {
                self.in_string = true;
                self.key.clear();
                self.collect(byte);
            }
            b'{' | b'[' => {
                self.depth += 1;
                if self.position == ObjectPosition::Value(true) {
                    self.position = ObjectPosition::Value(false);
                }
            }
            b'}' | b']' => {
                self.end_value();
                if self.depth == 1 {
                    // The message ends, and no key said what it is.
                    self.is_request.get_or_insert(false);
                }
                self.depth = self.depth.saturating_sub(1);
            }
            b':' if self.depth == 1 => {
                if let ObjectPosition::Colon(is_id) = self.position {
                    self.position = ObjectPosition::Value(is_id);
                }
            }
            b',' if self.depth == 1 => {
                self.end_value();
                self.position = ObjectPosition::Key;
            }
            b' ' | b'\t' | b'\r' | b'\n' => {}
            _ => self.collect(byte),
        }
    }

    fn step_in_string(&mut self, byte: u8) {
        self.collect(byte);
        if self.escaped {
            self.escaped = false;
        } else if byte == b'\\' {
            self.escaped = true;
        } else if byte == b'"' {
            self.in_string = false;
            if self.depth == 1 && self.position == ObjectPosition::Key {
                self.position = ObjectPosition::Colon(self.key == b"\"id\"");
                match &*self.key {
                    b"\"method\"" => self.is_request = Some(true),
                    b"\"result\"" | b"\"error\"" => self.is_request = Some(false),
                    _ => {}
                }
            }
        }
    }

    /// Stores a byte if it belongs to a depth-1 key or to the id.
    fn collect(&mut self, byte: u8) {
        if self.depth != 1 {
            return;
        }
        let into = match self.position {
            ObjectPosition::Key => &mut self.key,
            ObjectPosition::Value(true) => &mut self.id,
            _ => return,
        };
        if into.len() < MAX_ID_BYTES {
            into.push(byte);
        }
    }

    fn end_value(&mut self) {
        if self.depth == 1 && self.position == ObjectPosition::Value(true) {
            self.is_id_complete = true;
        }
    }

    fn read_id(&self) -> Option<RequestId> {
        let text = std::str::from_utf8(&self.id).ok()?;
        match text.parse::<u64>() {
            Ok(number) => Some(RequestId::Number(number)),
            Err(_) => RawJson::parse(text.to_owned()).ok().map(RequestId::Other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(message: &str, expected: Option<OversizedMessage>) {
        for piece in [1, 3, message.len()] {
            let mut scan = OversizedScanner::default();
            let mut found = None;
            for bytes in message.as_bytes().chunks(piece) {
                if let Some(id) = scan.feed(bytes) {
                    assert_eq!(found.replace(id), None, "answered once");
                }
            }
            assert_eq!(found, expected, "{message} in pieces of {piece}");
        }
    }

    #[test]
    fn f4_the_id_is_found_first_or_last_and_only_at_depth_one() {
        let number = |number| Some(OversizedMessage::Response(RequestId::Number(number)));
        check(r#"{"jsonrpc":"2.0","id":17,"result":{"id":1}}"#, number(17));
        check(
            r#"{"result":{"id":1,"x":["}",{"id":2}],"s":"\"id\":3,"},"id": 17 }"#,
            number(17),
        );
        check(r#"{"note":"id","id":5}"#, number(5));
        check(r#"{"a\"id":4,"id":5}"#, number(5));
        check(
            r#"{"id":"abc","result":0}"#,
            Some(OversizedMessage::Response(RequestId::Other(
                RawJson::parse("\"abc\"").expect("JSON"),
            ))),
        );
        check(r#"{"result":{"id":1}}"#, None);
        check(r#"{"id":{"id":9},"result":0}"#, None);
        check(r#"[{"id":1}]"#, None);
    }

    #[test]
    fn the_id_of_a_request_is_not_taken_for_the_id_of_a_response() {
        let request = |number| Some(OversizedMessage::Request(RequestId::Number(number)));
        check(
            r#"{"id":7,"method":"ping","params":{"result":1}}"#,
            request(7),
        );
        check(r#"{"method":"ping","params":{"id":1},"id":7}"#, request(7));
        check(
            r#"{"params":{"error":1},"id":7,"method":"ping"}"#,
            request(7),
        );
        check(r#"{"method":"notifications/x","params":{"id":1}}"#, None);
    }
}
