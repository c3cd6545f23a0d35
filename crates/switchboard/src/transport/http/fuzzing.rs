//! Parses one HTTP response from slices of bytes, for the fuzz targets.

use bytes::BytesMut;

use super::framing::{BodyFraming, BodyPart};
use super::head::ResponseHead;

/// A parsed response.
#[derive(Debug, PartialEq, Eq)]
pub struct ParsedResponse {
    /// The status.
    pub status: u16,
    /// The number of bytes after its head.
    pub after_head: usize,
    /// Whether the body is not chunked.
    pub has_plain_body: bool,
    /// The body.
    pub body: ParsedBody,
}

/// A parsed body.
#[derive(Debug, PartialEq, Eq)]
pub enum ParsedBody {
    /// The body is complete.
    Complete {
        /// The whole body.
        body: Vec<u8>,
        /// The bytes after it.
        rest: Vec<u8>,
    },
    /// The body is incomplete.
    Incomplete {
        /// The part that was received.
        body: Vec<u8>,
    },
    /// The body is malformed.
    Malformed,
}

/// Parses a response; `None` if its head is incomplete.
pub fn read_http_response(pieces: &[&[u8]]) -> Result<Option<ParsedResponse>, String> {
    let (mut read, mut interim) = (BytesMut::new(), 0);
    let mut pieces = pieces.iter();
    let mut head = loop {
        let Some(piece) = pieces.next() else {
            return Ok(None);
        };
        read.extend_from_slice(piece);
        if let Some(head) = ResponseHead::take(&mut read, &mut interim)? {
            break head;
        }
    };
    let after_head = read.len() + pieces.clone().map(|piece| piece.len()).sum::<usize>();
    let has_plain_body = !matches!(head.framing, BodyFraming::Chunked(_));
    let mut body = Vec::new();
    let body = loop {
        match head.framing.take(&mut read) {
            Err(_) => break ParsedBody::Malformed,
            Ok(BodyPart::Bytes(bytes)) => body.extend_from_slice(&bytes),
            Ok(BodyPart::End) => {
                let rest = [&read[..], &pieces.copied().collect::<Vec<_>>().concat()].concat();
                break ParsedBody::Complete { body, rest };
            }
            Ok(BodyPart::NeedMore) => match pieces.next() {
                Some(piece) => read.extend_from_slice(piece),
                None => break ParsedBody::Incomplete { body },
            },
        }
    };
    Ok(Some(ParsedResponse {
        status: head.status.as_u16(),
        after_head,
        has_plain_body,
        body,
    }))
}
