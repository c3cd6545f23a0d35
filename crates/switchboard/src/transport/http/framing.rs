//! Splits the body of an HTTP/1.1 response from the bytes that were read: it ends by its length,
//! after its last chunk, or with the connection. Pure.

use bytes::{Buf as _, Bytes, BytesMut};
use memchr::memchr;

/// The limits of a chunk size line, and of all trailers together.
const MAX_LINE_BYTES: usize = 4 * 1024;
const MAX_TRAILER_BYTES: usize = 16 * 1024;

const LINE_END: &[u8] = b"\r\n";

/// More digits than this cannot be a valid chunk size.
const MAX_SIZE_DIGITS: usize = 15;

/// How a body ends, and how much of it was consumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyFraming {
    /// After this many more bytes.
    Length(u64),
    /// After the last chunk.
    Chunked(ChunkedState),
    /// When the connection is closed.
    UntilClose,
}

/// What comes next in a chunked body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChunkedState {
    /// The size line of a chunk.
    Size,
    /// This many more bytes of a chunk.
    Chunk(u64),
    /// The line end after a chunk.
    ChunkEnd,
    /// The trailers, which may have this many bytes; the last line is empty.
    Trailers(usize),
    Over,
}

/// What the framing found in the bytes that were read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BodyPart {
    Bytes(Bytes),
    /// Nothing; more must be read.
    NeedMore,
    /// The body has ended.
    End,
}

impl BodyFraming {
    pub(super) fn chunked() -> Self {
        Self::Chunked(ChunkedState::Size)
    }

    /// Takes the next part of the body out of the bytes that were read.
    pub(super) fn take(&mut self, read: &mut BytesMut) -> Result<BodyPart, &'static str> {
        match self {
            Self::Length(0) => Ok(BodyPart::End),
            Self::Length(remaining) => Ok(take_at_most(remaining, read)),
            Self::UntilClose if read.is_empty() => Ok(BodyPart::NeedMore),
            Self::UntilClose => Ok(BodyPart::Bytes(read.split().freeze())),
            Self::Chunked(state) => state.take(read),
        }
    }

    /// How much of the body remains, if known.
    pub(super) fn remaining(&self) -> Option<u64> {
        match self {
            Self::Length(remaining) => Some(*remaining),
            Self::Chunked(_) | Self::UntilClose => None,
        }
    }
}

impl ChunkedState {
    fn take(&mut self, read: &mut BytesMut) -> Result<BodyPart, &'static str> {
        loop {
            match self {
                Self::Size => {
                    let Some(length) = line_length(read, MAX_LINE_BYTES)? else {
                        return Ok(BodyPart::NeedMore);
                    };
                    *self = match chunk_size(&read[..length])? {
                        0 => Self::Trailers(MAX_TRAILER_BYTES),
                        size => Self::Chunk(size),
                    };
                    read.advance(length + LINE_END.len());
                }
                Self::Chunk(remaining) => {
                    let piece = take_at_most(remaining, read);
                    if *remaining == 0 {
                        *self = Self::ChunkEnd;
                    }
                    return Ok(piece);
                }
                Self::ChunkEnd => {
                    if read.len() < LINE_END.len() {
                        return Ok(BodyPart::NeedMore);
                    }
                    if !read.starts_with(LINE_END) {
                        return Err("a chunk is longer than its size");
                    }
                    read.advance(LINE_END.len());
                    *self = Self::Size;
                }
                Self::Trailers(room) => {
                    let Some(length) = line_length(read, *room)? else {
                        return Ok(BodyPart::NeedMore);
                    };
                    read.advance(length + LINE_END.len());
                    *self = if length == 0 {
                        Self::Over
                    } else {
                        Self::Trailers(*room - length)
                    };
                }
                Self::Over => return Ok(BodyPart::End),
            }
        }
    }
}

/// Takes as many bytes as were read, but no more than remain.
fn take_at_most(remaining: &mut u64, read: &mut BytesMut) -> BodyPart {
    if read.is_empty() {
        return BodyPart::NeedMore;
    }
    let count = usize::try_from(*remaining)
        .unwrap_or(usize::MAX)
        .min(read.len());
    *remaining -= count as u64;
    BodyPart::Bytes(read.split_to(count).freeze())
}

/// The length of the next complete line, without its end.
fn line_length(read: &[u8], max_bytes: usize) -> Result<Option<usize>, &'static str> {
    let room = max_bytes + LINE_END.len();
    match memchr(b'\n', &read[..read.len().min(room)]) {
        Some(end) if read[..=end].ends_with(LINE_END) => Ok(Some(end + 1 - LINE_END.len())),
        Some(_) => Err("invalid line end in the chunked body"),
        None if read.len() >= room => Err("a line of the chunked body is too long"),
        None => Ok(None),
    }
}

/// Parses a size line. Chunk extensions are ignored.
fn chunk_size(line: &[u8]) -> Result<u64, &'static str> {
    let digits = line
        .iter()
        .take_while(|byte| byte.is_ascii_hexdigit())
        .count();
    let goes_on = line[digits..]
        .trim_ascii_start()
        .first()
        .is_none_or(|&next| next == b';');
    let text = std::str::from_utf8(&line[..digits])
        .ok()
        .filter(|_| (1..=MAX_SIZE_DIGITS).contains(&digits) && goes_on);
    text.and_then(|text| u64::from_str_radix(text, 16).ok())
        .ok_or("invalid chunk size")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    /// A body, and the bytes after it.
    type BodyAndRest = (Vec<u8>, Vec<u8>);

    /// The body that arrives in these pieces, or its error; `None` if it has not ended.
    fn read(
        mut framing: BodyFraming,
        pieces: &[&[u8]],
    ) -> Result<Option<BodyAndRest>, &'static str> {
        let (mut read, mut body) = (BytesMut::new(), Vec::new());
        let mut pieces = pieces.iter();
        loop {
            match framing.take(&mut read)? {
                BodyPart::Bytes(bytes) => body.extend_from_slice(&bytes),
                BodyPart::End => {
                    return Ok(Some((
                        body,
                        [&read[..], &pieces.copied().collect::<Vec<_>>().concat()].concat(),
                    )));
                }
                BodyPart::NeedMore => match pieces.next() {
                    Some(piece) => read.extend_from_slice(piece),
                    None => return Ok(None),
                },
            }
        }
    }

    /// Checks that a body is the same however it is split.
    #[track_caller]
    fn check(framing: BodyFraming, text: &str, expected: Result<Option<(&str, &str)>, &str>) {
        let expected = expected.map(|whole| {
            whole.map(|(body, rest)| (body.as_bytes().to_vec(), rest.as_bytes().to_vec()))
        });
        let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        assert_eq!(read(framing, &[text.as_bytes()]), expected, "{text:?}");
        assert_eq!(read(framing, &bytes), expected, "{text:?}, byte by byte");
    }

    #[test]
    fn a_body_ends_where_its_framing_says() {
        check(BodyFraming::Length(0), "", Ok(Some(("", ""))));
        check(BodyFraming::Length(2), "okHTTP", Ok(Some(("ok", "HTTP"))));
        check(BodyFraming::Length(3), "ok", Ok(None));
        check(BodyFraming::UntilClose, "ok", Ok(None));
    }

    #[test]
    fn chunks_are_joined_without_their_framing() {
        let chunked = BodyFraming::chunked();
        check(chunked, "0\r\n\r\nHTTP", Ok(Some(("", "HTTP"))));
        check(chunked, "2\r\nok\r\n00\r\n\r\n", Ok(Some(("ok", ""))));
        check(
            chunked,
            "A;name=\"value\"\r\n0123456789\r\n1 \r\n\n\r\n0\r\nX-After: 1\r\nY: 2\r\n\r\n",
            Ok(Some(("0123456789\n", ""))),
        );
        check(chunked, "2\r\nok\r\n0\r\nX: 1\r\n", Ok(None));
    }

    #[test]
    fn invalid_chunks_are_refused_within_a_limit() {
        let chunked = BodyFraming::chunked();
        let no_size = "invalid chunk size";
        for line in ["", "x", "-1", "+1", "0x1", "1 2", " 1", "1000000000000000"] {
            check(chunked, &format!("{line}\r\nok\r\n"), Err(no_size));
        }
        check(
            chunked,
            "2\r\nok!\n0\r\n\r\n",
            Err("a chunk is longer than its size"),
        );
        check(
            chunked,
            "2\nok\r\n",
            Err("invalid line end in the chunked body"),
        );
        let too_long = "a line of the chunked body is too long";
        check(
            chunked,
            &format!("1;{}", "x".repeat(MAX_LINE_BYTES)),
            Err(too_long),
        );
        check(
            chunked,
            &format!("0\r\n{}", "X: 1\r\n".repeat(MAX_TRAILER_BYTES)),
            Err(too_long),
        );
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_body(
            body in prop::collection::vec(any::<u8>(), 0..200),
            sizes in prop::collection::vec(1..40_usize, 1..20),
            cuts in prop::collection::vec(1..50_usize, 1..20),
        ) {
            let mut text = Vec::new();
            let (mut remaining, mut sizes) = (&body[..], sizes.iter().cycle());
            while !remaining.is_empty() {
                let (chunk, rest) = remaining.split_at(remaining.len().min(*sizes.next().unwrap()));
                text.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                text.extend_from_slice(chunk);
                text.extend_from_slice(b"\r\n");
                remaining = rest;
            }
            text.extend_from_slice(b"0\r\n\r\nnext");
            let (mut pieces, mut remaining, mut cuts) = (Vec::new(), &text[..], cuts.iter().cycle());
            while !remaining.is_empty() {
                let (piece, rest) = remaining.split_at(remaining.len().min(*cuts.next().unwrap()));
                pieces.push(piece);
                remaining = rest;
            }
            prop_assert_eq!(read(BodyFraming::chunked(), &pieces), Ok(Some((body, b"next".to_vec()))));
        }
    }
}
