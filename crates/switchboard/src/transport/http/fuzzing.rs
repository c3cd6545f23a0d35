//! Reads one HTTP response from pieces of bytes, for the fuzz targets.

use bytes::BytesMut;

use super::framing::{Framing, Piece};
use super::head::Head;

/// A response as it was read.
#[derive(Debug, PartialEq, Eq)]
pub struct HttpResponse {
    /// Its status.
    pub status: u16,
    /// How many bytes were sent after its head.
    pub after_head: usize,
    /// The body is not chunked.
    pub has_plain_body: bool,
    /// Its body.
    pub body: HttpBody,
}

/// A body as far as it came.
#[derive(Debug, PartialEq, Eq)]
pub enum HttpBody {
    /// It has ended.
    Complete {
        /// The whole of it.
        body: Vec<u8>,
        /// What was sent after it.
        rest: Vec<u8>,
    },
    /// More is to come.
    Incomplete {
        /// What there is.
        body: Vec<u8>,
    },
    /// It cannot be read.
    Malformed,
}

/// The response that these bytes are; `None` where its head is incomplete.
pub fn read_http_response(pieces: &[&[u8]]) -> Result<Option<HttpResponse>, String> {
    let mut read = BytesMut::new();
    let mut pieces = pieces.iter();
    let mut head = loop {
        let Some(piece) = pieces.next() else {
            return Ok(None);
        };
        read.extend_from_slice(piece);
        if let Some(head) = Head::take(&mut read)? {
            break head;
        }
    };
    let after_head = read.len() + pieces.clone().map(|piece| piece.len()).sum::<usize>();
    let has_plain_body = !matches!(head.framing, Framing::Chunks(_));
    let mut body = Vec::new();
    let body = loop {
        match head.framing.take(&mut read) {
            Err(_) => break HttpBody::Malformed,
            Ok(Piece::Bytes(bytes)) => body.extend_from_slice(&bytes),
            Ok(Piece::End) => {
                let rest = [&read[..], &pieces.copied().collect::<Vec<_>>().concat()].concat();
                break HttpBody::Complete { body, rest };
            }
            Ok(Piece::Waits) => match pieces.next() {
                Some(piece) => read.extend_from_slice(piece),
                None => break HttpBody::Incomplete { body },
            },
        }
    };
    Ok(Some(HttpResponse {
        status: head.status.as_u16(),
        after_head,
        has_plain_body,
        body,
    }))
}
