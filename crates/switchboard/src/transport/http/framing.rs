//! Where a body ends: after so many bytes, after its last chunk, or with the connection. Takes its
//! pieces from what was read. Pure.

use bytes::{Buf as _, Bytes, BytesMut};
use memchr::memchr;

/// The line before a chunk is no longer than this, and the lines after the last one together.
const MAX_LINE_BYTES: usize = 4 * 1024;
const MAX_TRAILER_BYTES: usize = 16 * 1024;

const LINE_END: &[u8] = b"\r\n";

/// More digits than this give no size that a chunk can have.
const MAX_SIZE_DIGITS: usize = 15;

/// How a body ends, and how far it was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// After so many bytes more.
    Length(u64),
    /// After its last chunk.
    Chunks(Place),
    /// With the connection.
    UntilClose,
}

/// What comes next in a body of chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The line that says how long a chunk is.
    Size,
    /// So many bytes more of a chunk.
    Chunk(u64),
    /// The end of the line after a chunk.
    ChunkEnd,
    /// Lines after the last chunk, of which so many bytes may come; the last one is empty.
    Trailers(usize),
    Over,
}

/// What there is to take.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Bytes(Bytes),
    /// Nothing before more is read.
    Waits,
    /// The body has ended.
    End,
}

impl Framing {
    pub(super) fn chunked() -> Self {
        Self::Chunks(Place::Size)
    }

    /// Takes the next piece of the body from what was read.
    pub(super) fn take(&mut self, read: &mut BytesMut) -> Result<Piece, &'static str> {
        match self {
            Self::Length(0) => Ok(Piece::End),
            Self::Length(left) => Ok(some_of(left, read)),
            Self::UntilClose if read.is_empty() => Ok(Piece::Waits),
            Self::UntilClose => Ok(Piece::Bytes(read.split().freeze())),
            Self::Chunks(place) => place.take(read),
        }
    }

    /// How much of the body is left, where that is known.
    pub(super) fn left(&self) -> Option<u64> {
        match self {
            Self::Length(left) => Some(*left),
            Self::Chunks(_) | Self::UntilClose => None,
        }
    }
}

impl Place {
    fn take(&mut self, read: &mut BytesMut) -> Result<Piece, &'static str> {
        loop {
            match self {
                Self::Size => {
                    let Some(length) = line(read, MAX_LINE_BYTES)? else {
                        return Ok(Piece::Waits);
                    };
                    *self = match size(&read[..length])? {
                        0 => Self::Trailers(MAX_TRAILER_BYTES),
                        size => Self::Chunk(size),
                    };
                    read.advance(length + LINE_END.len());
                }
                Self::Chunk(left) => {
                    let piece = some_of(left, read);
                    if *left == 0 {
                        *self = Self::ChunkEnd;
                    }
                    return Ok(piece);
                }
                Self::ChunkEnd => {
                    if read.len() < LINE_END.len() {
                        return Ok(Piece::Waits);
                    }
                    if !read.starts_with(LINE_END) {
                        return Err("a chunk is longer than it says");
                    }
                    read.advance(LINE_END.len());
                    *self = Self::Size;
                }
                Self::Trailers(room) => {
                    let Some(length) = line(read, *room)? else {
                        return Ok(Piece::Waits);
                    };
                    read.advance(length + LINE_END.len());
                    *self = if length == 0 {
                        Self::Over
                    } else {
                        Self::Trailers(*room - length)
                    };
                }
                Self::Over => return Ok(Piece::End),
            }
        }
    }
}

/// As much as there is, and no more than is left.
fn some_of(left: &mut u64, read: &mut BytesMut) -> Piece {
    if read.is_empty() {
        return Piece::Waits;
    }
    let count = usize::try_from(*left).unwrap_or(usize::MAX).min(read.len());
    *left -= count as u64;
    Piece::Bytes(read.split_to(count).freeze())
}

/// The length of the next line without its end, if a whole one was read.
fn line(read: &[u8], max_bytes: usize) -> Result<Option<usize>, &'static str> {
    let room = max_bytes + LINE_END.len();
    match memchr(b'\n', &read[..read.len().min(room)]) {
        Some(end) if read[..=end].ends_with(LINE_END) => Ok(Some(end + 1 - LINE_END.len())),
        Some(_) => Err("a line among the chunks ends in no way that it may"),
        None if read.len() >= room => Err("a line among the chunks is too long"),
        None => Ok(None),
    }
}

/// The size that a line gives. What stands behind it is for others.
fn size(line: &[u8]) -> Result<u64, &'static str> {
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
        .ok_or("a chunk has a size that is none")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    /// A body, and what comes behind it.
    type Whole = (Vec<u8>, Vec<u8>);

    /// A body that comes in these pieces; or why it is none. `None`: it has not ended.
    fn read(mut framing: Framing, pieces: &[&[u8]]) -> Result<Option<Whole>, &'static str> {
        let (mut read, mut body) = (BytesMut::new(), Vec::new());
        let mut pieces = pieces.iter();
        loop {
            match framing.take(&mut read)? {
                Piece::Bytes(bytes) => body.extend_from_slice(&bytes),
                Piece::End => {
                    return Ok(Some((
                        body,
                        [&read[..], &pieces.copied().collect::<Vec<_>>().concat()].concat(),
                    )));
                }
                Piece::Waits => match pieces.next() {
                    Some(piece) => read.extend_from_slice(piece),
                    None => return Ok(None),
                },
            }
        }
    }

    /// However it is sliced, a body is the same.
    #[track_caller]
    fn check(framing: Framing, text: &str, expected: Result<Option<(&str, &str)>, &str>) {
        let expected = expected.map(|whole| {
            whole.map(|(body, rest)| (body.as_bytes().to_vec(), rest.as_bytes().to_vec()))
        });
        let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        assert_eq!(read(framing, &[text.as_bytes()]), expected, "{text:?}");
        assert_eq!(read(framing, &bytes), expected, "{text:?}, byte by byte");
    }

    #[test]
    fn a_body_ends_where_its_head_says() {
        check(Framing::Length(0), "", Ok(Some(("", ""))));
        check(Framing::Length(2), "okHTTP", Ok(Some(("ok", "HTTP"))));
        check(Framing::Length(3), "ok", Ok(None));
        check(Framing::UntilClose, "ok", Ok(None));
    }

    #[test]
    fn chunks_are_joined_and_what_stands_around_them_is_left_out() {
        let chunked = Framing::chunked();
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
    fn chunks_that_are_none_are_refused_within_a_bound() {
        let chunked = Framing::chunked();
        let no_size = "a chunk has a size that is none";
        for line in ["", "x", "-1", "+1", "0x1", "1 2", " 1", "1000000000000000"] {
            check(chunked, &format!("{line}\r\nok\r\n"), Err(no_size));
        }
        check(
            chunked,
            "2\r\nok!\n0\r\n\r\n",
            Err("a chunk is longer than it says"),
        );
        check(
            chunked,
            "2\nok\r\n",
            Err("a line among the chunks ends in no way that it may"),
        );
        let too_long = "a line among the chunks is too long";
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
        fn any_slicing_gives_the_same_body(
            body in prop::collection::vec(any::<u8>(), 0..200),
            sizes in prop::collection::vec(1..40_usize, 1..20),
            cuts in prop::collection::vec(1..50_usize, 1..20),
        ) {
            let mut text = Vec::new();
            let (mut left, mut sizes) = (&body[..], sizes.iter().cycle());
            while !left.is_empty() {
                let (chunk, rest) = left.split_at(left.len().min(*sizes.next().unwrap()));
                text.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                text.extend_from_slice(chunk);
                text.extend_from_slice(b"\r\n");
                left = rest;
            }
            text.extend_from_slice(b"0\r\n\r\nnext");
            let (mut pieces, mut left, mut cuts) = (Vec::new(), &text[..], cuts.iter().cycle());
            while !left.is_empty() {
                let (piece, rest) = left.split_at(left.len().min(*cuts.next().unwrap()));
                pieces.push(piece);
                left = rest;
            }
            prop_assert_eq!(read(Framing::chunked(), &pieces), Ok(Some((body, b"next".to_vec()))));
        }
    }
}
