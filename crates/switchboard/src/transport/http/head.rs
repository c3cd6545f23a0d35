//! The head of an answer: its status and headers as they came, and what they say about the body and the connection. Pure.

use std::mem::MaybeUninit;
use std::ops::Range;

use bytes::{Bytes, BytesMut};
use httparse::ParserConfig;
use reqwest::StatusCode;
use reqwest::header::{CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, HeaderName, TRANSFER_ENCODING};

use super::framing::Framing;

/// A head is no longer than this, and has no more headers.
const MAX_HEAD_BYTES: usize = 64 * 1024;
const MAX_HEADERS: usize = 100;

/// So many heads may come before the one that answers (1xx).
const MAX_INTERIM: usize = 16;

/// The head of an answer.
pub(super) struct Head {
    pub(super) status: StatusCode,
    text: Bytes,
    /// Where in `text` each header stands: its name, its value.
    headers: Vec<(Range<usize>, Range<usize>)>,
    /// How its body ends, and how far it was taken.
    pub(super) framing: Framing,
    /// The connection can serve again after the body.
    pub(super) keeps: bool,
    /// The body is compressed, or packed in another way.
    pub(super) is_encoded: bool,
}

/// What the headers say, one after the other.
struct Said {
    length: Option<u64>,
    is_chunked: bool,
    keeps: bool,
    is_encoded: bool,
}

impl Head {
    /// Takes a whole head from the start of what was read; `None` where there is more to come. Heads that only announce another one are
    /// passed over.
    pub(super) fn take(read: &mut BytesMut) -> Result<Option<Self>, String> {
        for _ in 0..MAX_INTERIM {
            match Self::parse(read)? {
                Some(head) if head.status.is_informational() && head.status != StatusCode::SWITCHING_PROTOCOLS => {}
                head => return Ok(head),
            }
        }
        Err("it announces an answer over and over".to_owned())
    }

    fn parse(read: &mut BytesMut) -> Result<Option<Self>, String> {
        let mut room = [const { MaybeUninit::uninit() }; MAX_HEADERS];
        let mut parsed = httparse::Response::new(&mut []);
        let length = match ParserConfig::default().parse_response_with_uninit_headers(&mut parsed, read, &mut room) {
            Ok(httparse::Status::Complete(length)) if length <= MAX_HEAD_BYTES => length,
            Ok(httparse::Status::Partial) if read.len() <= MAX_HEAD_BYTES => return Ok(None),
            Ok(_) => return Err(format!("its head is longer than {MAX_HEAD_BYTES} bytes")),
            Err(error) => return Err(error.to_string()),
        };
        let status = parsed.code.and_then(|code| StatusCode::from_u16(code).ok()).ok_or("its status is none")?;
        let mut said = Said { length: None, is_chunked: false, keeps: parsed.version == Some(1), is_encoded: false };
        let start = read.as_ptr().addr();
        let place = |part: &[u8]| part.as_ptr().addr() - start..part.as_ptr().addr() - start + part.len();
        let mut headers = Vec::with_capacity(parsed.headers.len());
        for header in parsed.headers.iter() {
            said.hear(header)?;
            headers.push((place(header.name.as_bytes()), place(header.value)));
        }
        let has_no_body = status.is_informational() || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        let framing = match said.length {
            _ if has_no_body => Framing::Length(0),
            // Whoever says both may mean either; the one that can be followed is, and then the connection is not trusted further.
            length if said.is_chunked => {
                said.keeps &= length.is_none();
                Framing::chunked()
            }
            Some(length) => Framing::Length(length),
            None => Framing::UntilClose,
        };
        let text = read.split_to(length).freeze();
        let keeps = said.keeps && !matches!(framing, Framing::UntilClose) && status != StatusCode::SWITCHING_PROTOCOLS;
        Ok(Some(Self { status, text, headers, framing, keeps, is_encoded: said.is_encoded }))
    }

    /// The first value of a header.
    pub(super) fn header(&self, name: &HeaderName) -> Option<&[u8]> {
        self.headers(name).next()
    }

    /// Its values, in the order in which they came.
    pub(super) fn headers<'a>(&'a self, name: &HeaderName) -> impl Iterator<Item = &'a [u8]> {
        let is_named = move |place: &Range<usize>| self.text[place.clone()].eq_ignore_ascii_case(name.as_str().as_bytes());
        self.headers.iter().filter(move |(place, _)| is_named(place)).map(|(_, place)| &self.text[place.clone()])
    }
}

impl Said {
    fn hear(&mut self, header: &httparse::Header<'_>) -> Result<(), String> {
        let is = |name: HeaderName| header.name.eq_ignore_ascii_case(name.as_str());
        if is(CONTENT_LENGTH) {
            let length = number(header.value).ok_or("its length is no number")?;
            if self.length.replace(length).is_some_and(|before| before != length) {
                return Err("it gives two lengths".to_owned());
            }
        } else if is(TRANSFER_ENCODING) {
            for coding in parts(header.value) {
                // Nothing may come after chunks, and nothing but chunks was asked for.
                self.is_encoded |= self.is_chunked || !coding.eq_ignore_ascii_case(b"chunked");
                self.is_chunked = true;
            }
        } else if is(CONTENT_ENCODING) {
            self.is_encoded |= parts(header.value).any(|coding| !coding.eq_ignore_ascii_case(b"identity"));
        } else if is(CONNECTION) {
            for word in parts(header.value) {
                if word.eq_ignore_ascii_case(b"close") {
                    self.keeps = false;
                }
            }
        }
        Ok(())
    }
}

fn number(text: &[u8]) -> Option<u64> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| is_number)?.parse().ok()
}

/// The parts of a list.
fn parts(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).filter(|part| !part.is_empty())
}
