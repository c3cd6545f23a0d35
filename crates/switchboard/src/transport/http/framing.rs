//! Where a body ends: after so many bytes, after its last chunk, or with the connection. Takes its pieces from what was read. Pure.

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
                    let Some(length) = line(read, MAX_LINE_BYTES)? else { return Ok(Piece::Waits) };
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
                    let Some(length) = line(read, *room)? else { return Ok(Piece::Waits) };
                    read.advance(length + LINE_END.len());
                    *self = if length == 0 { Self::Over } else { Self::Trailers(*room - length) };
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
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let goes_on = line[digits..].trim_ascii_start().first().is_none_or(|&next| next == b';');
    let text = std::str::from_utf8(&line[..digits]).ok().filter(|_| (1..=MAX_SIZE_DIGITS).contains(&digits) && goes_on);
    text.and_then(|text| u64::from_str_radix(text, 16).ok()).ok_or("a chunk has a size that is none")
}
