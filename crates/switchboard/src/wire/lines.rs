//! Messages as lines. A stream is split with a size limit: of a line over the limit only the id is
//! read; the rest is dropped.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use memchr::{memchr, memchr2};

use super::oversize::{OversizedMessage, OversizedScanner};

/// Shorter lines are passed on borrowed; longer ones can be shared without a copy.
pub const SHARED_LINE_BYTES: usize = 32 * 1024;

/// What the parser found.
#[derive(Debug)]
pub enum Frame<'a> {
    /// A short line, without its newline: borrowed from the buffer, to be copied.
    Short(&'a [u8]),
    /// A long line, without its newline: can be shared without a copy.
    Long(Bytes),
    /// A line over the limit: its id, once, as soon as it is known.
    Oversized(OversizedMessage),
    /// A line over the limit ended, and no id was found in it.
    OversizedUnknown,
}

/// Splits a stream of bytes into lines.
#[derive(Debug)]
pub struct LineFrames {
    buffer: BytesMut,
    /// Bytes at the start of `buffer` that hold no newline.
    scanned: usize,
    max_bytes: usize,
    oversize: Option<OversizedLine>,
}

#[derive(Debug, Default)]
struct OversizedLine {
    scan: OversizedScanner,
    found: bool,
}

/// Appends a message as one line. Line breaks between the tokens of its JSON become spaces: a part of
/// the message would otherwise be a message of its own, such as a call that nobody permitted. Some
/// readers also end a line at a carriage return.
pub fn push_line(out: &mut impl BufMut, message: &[u8]) {
    let mut rest = message;
    while let Some(at) = memchr2(b'\n', b'\r', rest) {
        out.put_slice(&rest[..at]);
        out.put_u8(b' ');
        rest = &rest[at + 1..];
    }
    out.put_slice(rest);
    out.put_u8(b'\n');
}

impl LineFrames {
    /// A splitter with a limit on one line.
    pub fn new(max_bytes: usize) -> Self {
        Self {
            buffer: BytesMut::new(),
            scanned: 0,
            max_bytes,
            oversize: None,
        }
    }

    /// Where the next bytes go: at least `room` free bytes. Call [`drain`](Self::drain) after
    /// adding to it.
    pub fn buffer(&mut self, room: usize) -> &mut BytesMut {
        self.buffer.reserve(room);
        &mut self.buffer
    }

    /// How many bytes are in the buffer.
    pub fn buffered(&self) -> usize {
        self.buffer.len()
    }

    /// Passes every complete line in the buffer to `each`.
    pub fn drain(&mut self, each: &mut dyn FnMut(Frame<'_>)) {
        self.drain_while(&mut |frame| {
            each(frame);
            true
        });
    }

    /// Passes complete lines to `each` for as long as it returns true. Returns false once there is no
    /// complete line left.
    pub fn drain_while(&mut self, each: &mut dyn FnMut(Frame<'_>) -> bool) -> bool {
        let mut wants_more = true;
        loop {
            if !wants_more {
                return true;
            }
            if self.oversize.is_some() {
                if !self.skip(&mut |frame| wants_more &= each(frame)) {
                    return false;
                }
                continue;
            }
            let Some(at) = memchr(b'\n', &self.buffer[self.scanned..]).map(|at| at + self.scanned)
            else {
                self.scanned = self.buffer.len();
                if self.scanned > self.max_bytes {
                    self.oversize = Some(OversizedLine::default());
                    continue;
                }
                return false;
            };
            self.scanned = 0;
            if at > self.max_bytes {
                self.oversize = Some(OversizedLine::default());
            } else if at < SHARED_LINE_BYTES {
                wants_more = each(Frame::Short(&self.buffer[..at]));
                self.buffer.advance(at + 1);
            } else {
                let line = self.buffer.split_to(at).freeze();
                self.buffer.advance(1);
                wants_more = each(Frame::Long(line));
            }
        }
    }

    /// At the end of the stream: a last line without its newline counts as one.
    pub fn finish(mut self, each: &mut dyn FnMut(Frame<'_>)) {
        self.buffer.extend_from_slice(b"\n");
        self.drain(each);
    }

    /// Drops bytes of an oversized line; true once its newline was consumed.
    fn skip(&mut self, each: &mut dyn FnMut(Frame<'_>)) -> bool {
        let Some(oversize) = &mut self.oversize else {
            return true;
        };
        let end = memchr(b'\n', &self.buffer);
        if let Some(message) = oversize
            .scan
            .feed(&self.buffer[..end.unwrap_or(self.buffer.len())])
        {
            oversize.found = true;
            each(Frame::Oversized(message));
        }
        let found = oversize.found;
        self.scanned = 0;
        match end {
            Some(at) => {
                self.buffer.advance(at + 1);
                self.oversize = None;
                if !found {
                    each(Frame::OversizedUnknown);
                }
                true
            }
            None => {
                // Frees the buffer, which may have grown up to the limit.
                self.buffer = BytesMut::new();
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t33_a_message_with_line_breaks_is_one_line() {
        let mut line = Vec::new();
        push_line(&mut line, b"{\"a\":[\n{},\r\n1\r]}\n");
        assert_eq!(line, b"{\"a\":[ {},  1 ]} \n");
    }

    fn frames(input: &[u8], piece: usize, max_bytes: usize) -> Vec<String> {
        let mut found = Vec::new();
        let mut each = |frame: Frame<'_>| {
            found.push(match frame {
                Frame::Short(line) => String::from_utf8_lossy(line).into_owned(),
                Frame::Long(line) => format!("long {}", line.len()),
                Frame::Oversized(message) => format!("oversized {message:?}"),
                Frame::OversizedUnknown => "oversized".into(),
            });
        };
        let mut lines = LineFrames::new(max_bytes);
        for bytes in input.chunks(piece) {
            lines.buffer(bytes.len()).extend_from_slice(bytes);
            lines.drain(&mut each);
        }
        lines.finish(&mut each);
        found
    }

    #[test]
    fn lines_do_not_depend_on_how_the_bytes_came() {
        let long = "x".repeat(SHARED_LINE_BYTES);
        let input = format!("a\n\nb c\r\n{long}\nlast");
        for piece in [1, 2, 5, 4096, input.len()] {
            let mut expected = vec![
                "a".to_owned(),
                String::new(),
                "b c\r".into(),
                format!("long {}", long.len()),
                "last".into(),
            ];
            if input.ends_with('\n') {
                expected.pop();
            }
            assert_eq!(
                frames(input.as_bytes(), piece, 1 << 20),
                expected,
                "pieces of {piece}"
            );
        }
    }

    #[test]
    fn f4_past_the_bound_the_call_is_named_and_the_next_line_works() {
        let padding = "y".repeat(100);
        for (line, expected) in [
            (
                format!(r#"{{"id":3,"result":"{padding}"}}"#),
                "oversized Response(Number(3))",
            ),
            (
                format!(r#"{{"result":"{padding}","id":3}}"#),
                "oversized Response(Number(3))",
            ),
            (format!(r#"{{"result":"{padding}"}}"#), "oversized"),
        ] {
            for piece in [1, 7, 1000] {
                let got = frames(format!("{line}\nnext\n").as_bytes(), piece, 50);
                assert_eq!(got, [expected, "next", ""], "{line} in pieces of {piece}");
            }
        }
    }
}
