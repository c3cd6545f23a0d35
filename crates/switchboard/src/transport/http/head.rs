//! Parses the head of an HTTP/1.1 response: status, headers, how the body ends, and whether the
//! connection can be reused. Pure.

use std::mem::MaybeUninit;
use std::ops::Range;

use bytes::{Bytes, BytesMut};
use httparse::ParserConfig;
use reqwest::StatusCode;
use reqwest::header::{
    CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, HeaderName, TRANSFER_ENCODING,
};

use super::framing::BodyFraming;

/// The limits of a head.
const MAX_HEAD_BYTES: usize = 64 * 1024;
const MAX_HEADERS: usize = 100;

/// The most interim responses (1xx) before the final one.
const MAX_INTERIM: usize = 16;

/// The head of a response.
pub(super) struct ResponseHead {
    pub(super) status: StatusCode,
    text: Bytes,
    /// The ranges of each header's name and value in `text`.
    headers: Vec<(Range<usize>, Range<usize>)>,
    /// How the body ends, and how much of it was consumed.
    pub(super) framing: BodyFraming,
    /// Whether the connection can be reused after the body.
    pub(super) keep_alive: bool,
    /// Whether the body is compressed or otherwise encoded.
    pub(super) is_encoded: bool,
}

/// What the headers say about the body and the connection.
struct FramingHeaders {
    length: Option<u64>,
    is_chunked: bool,
    keep_alive: bool,
    is_encoded: bool,
}

impl ResponseHead {
    /// Parses a complete head from the start of the bytes that were read; `None` if more is needed.
    /// Interim responses are skipped, and counted in `interim`.
    pub(super) fn take(read: &mut BytesMut, interim: &mut usize) -> Result<Option<Self>, String> {
        loop {
            match Self::parse(read)? {
                Some(head)
                    if head.status.is_informational()
                        && head.status != StatusCode::SWITCHING_PROTOCOLS =>
                {
                    *interim += 1;
                    if *interim == MAX_INTERIM {
                        return Err("too many interim responses".to_owned());
                    }
                }
                head => return Ok(head),
            }
        }
    }

    fn parse(read: &mut BytesMut) -> Result<Option<Self>, String> {
        let mut room = [const { MaybeUninit::uninit() }; MAX_HEADERS];
        let mut parsed = httparse::Response::new(&mut []);
        let length = match ParserConfig::default().parse_response_with_uninit_headers(
            &mut parsed,
            read,
            &mut room,
        ) {
            Ok(httparse::Status::Complete(length)) if length <= MAX_HEAD_BYTES => length,
            Ok(httparse::Status::Partial) if read.len() <= MAX_HEAD_BYTES => return Ok(None),
            Ok(_) => {
                return Err(format!(
                    "the response head is longer than {MAX_HEAD_BYTES} bytes"
                ));
            }
            Err(error) => return Err(error.to_string()),
        };
        let status = parsed
            .code
            .and_then(|code| StatusCode::from_u16(code).ok())
            .ok_or("invalid status code")?;
        let mut framing_headers = FramingHeaders {
            length: None,
            is_chunked: false,
            keep_alive: parsed.version == Some(1),
            is_encoded: false,
        };
        let start = read.as_ptr().addr();
        let range =
            |part: &[u8]| part.as_ptr().addr() - start..part.as_ptr().addr() - start + part.len();
        let mut headers = Vec::with_capacity(parsed.headers.len());
        for header in parsed.headers.iter() {
            framing_headers.read(header)?;
            headers.push((range(header.name.as_bytes()), range(header.value)));
        }
        let has_no_body = status.is_informational()
            || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        let framing = match framing_headers.length {
            _ if has_no_body => BodyFraming::Length(0),
            // With both lengths the body is ambiguous: chunked wins, as RFC 9112 requires, and the
            // connection is not reused.
            length if framing_headers.is_chunked => {
                framing_headers.keep_alive &= length.is_none();
                BodyFraming::chunked()
            }
            Some(length) => BodyFraming::Length(length),
            None => BodyFraming::UntilClose,
        };
        let text = read.split_to(length).freeze();
        let keep_alive = framing_headers.keep_alive
            && !matches!(framing, BodyFraming::UntilClose)
            && status != StatusCode::SWITCHING_PROTOCOLS;
        Ok(Some(Self {
            status,
            text,
            headers,
            framing,
            keep_alive,
            is_encoded: framing_headers.is_encoded,
        }))
    }

    /// The first value of a header.
    pub(super) fn header(&self, name: &HeaderName) -> Option<&[u8]> {
        self.headers(name).next()
    }

    /// All values of a header, in order.
    pub(super) fn headers<'a>(&'a self, name: &HeaderName) -> impl Iterator<Item = &'a [u8]> {
        let is_named = move |range: &Range<usize>| {
            self.text[range.clone()].eq_ignore_ascii_case(name.as_str().as_bytes())
        };
        self.headers
            .iter()
            .filter(move |(range, _)| is_named(range))
            .map(|(_, range)| &self.text[range.clone()])
    }
}

impl FramingHeaders {
    fn read(&mut self, header: &httparse::Header<'_>) -> Result<(), String> {
        let is = |name: HeaderName| header.name.eq_ignore_ascii_case(name.as_str());
        if is(CONTENT_LENGTH) {
            let length = number(header.value).ok_or("invalid Content-Length")?;
            if self
                .length
                .replace(length)
                .is_some_and(|before| before != length)
            {
                return Err("conflicting Content-Length headers".to_owned());
            }
        } else if is(TRANSFER_ENCODING) {
            for coding in parts(header.value) {
                // `chunked` must be the last coding, and no other coding was requested.
                self.is_encoded |= self.is_chunked || !coding.eq_ignore_ascii_case(b"chunked");
                self.is_chunked = true;
            }
        } else if is(CONTENT_ENCODING) {
            self.is_encoded |=
                parts(header.value).any(|coding| !coding.eq_ignore_ascii_case(b"identity"));
        } else if is(CONNECTION) {
            for word in parts(header.value) {
                if word.eq_ignore_ascii_case(b"close") {
                    self.keep_alive = false;
                }
            }
        }
        Ok(())
    }
}

fn number(text: &[u8]) -> Option<u64> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text)
        .ok()
        .filter(|_| is_number)?
        .parse()
        .ok()
}

/// The elements of a comma-separated list.
fn parts(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value
        .split(|&byte| byte == b',')
        .map(<[u8]>::trim_ascii)
        .filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use reqwest::header::{CONTENT_TYPE, WWW_AUTHENTICATE};

    use super::*;

    /// Checks a head that arrives byte by byte: status, framing, and whether the connection can be
    /// reused; or its error.
    #[track_caller]
    fn check(text: &str, expected: Result<(u16, BodyFraming, bool), &str>) {
        let text = format!("{}\r\n\r\n", text.replace('\n', "\r\n"));
        let mut read = BytesMut::new();
        for (at, byte) in text.bytes().enumerate() {
            read.extend_from_slice(&[byte]);
            match ResponseHead::take(&mut read, &mut 0) {
                Ok(None) => assert!(at + 1 < text.len(), "it has not ended: {text:?}"),
                Ok(Some(head)) => {
                    assert_eq!(at + 1, text.len(), "it ended too soon: {text:?}");
                    assert_eq!(
                        Ok((head.status.as_u16(), head.framing, head.keep_alive)),
                        expected,
                        "{text:?}"
                    );
                }
                Err(fact) => return assert_eq!(Err(fact.as_str()), expected, "{text:?}"),
            }
        }
    }

    #[test]
    fn a_head_determines_framing_and_connection_reuse() {
        check(
            "HTTP/1.1 200 OK\nContent-Length: 7",
            Ok((200, BodyFraming::Length(7), true)),
        );
        check(
            "HTTP/1.1 200 OK\ncontent-length: 7\nCONTENT-LENGTH: 7",
            Ok((200, BodyFraming::Length(7), true)),
        );
        check(
            "HTTP/1.1 200 OK\nTransfer-Encoding: Chunked",
            Ok((200, BodyFraming::chunked(), true)),
        );
        check("HTTP/1.1 200 OK", Ok((200, BodyFraming::UntilClose, false)));
        check(
            "HTTP/1.0 200 OK\nContent-Length: 7",
            Ok((200, BodyFraming::Length(7), false)),
        );
        check(
            "HTTP/1.1 500\nConnection: x, Close\nContent-Length: 7",
            Ok((500, BodyFraming::Length(7), false)),
        );
        check(
            "HTTP/1.1 204 No Content",
            Ok((204, BodyFraming::Length(0), true)),
        );
        check(
            "HTTP/1.1 304 Not Modified\nContent-Length: 7",
            Ok((304, BodyFraming::Length(0), true)),
        );
    }

    /// A response with two possible ends of its body could smuggle another response.
    #[test]
    fn an_ambiguous_head_is_refused_or_ends_the_connection() {
        let both = "HTTP/1.1 200 OK\nContent-Length: 7\nTransfer-Encoding: chunked";
        check(both, Ok((200, BodyFraming::chunked(), false)));
        check(
            "HTTP/1.1 200 OK\nContent-Length: 7\nContent-Length: 8",
            Err("conflicting Content-Length headers"),
        );
        for length in ["-7", "+7", "7, 7", "0x7", "", "99999999999999999999"] {
            check(
                &format!("HTTP/1.1 200 OK\nContent-Length: {length}"),
                Err("invalid Content-Length"),
            );
        }
        check(
            "HTTP/1.1 200 OK\nA: 1\n folded: 2",
            Err("invalid header name"),
        );
        check("HTTP/1.1 200 OK\nA : 1", Err("invalid header name"));
        check("ICY 200 OK", Err("invalid HTTP version"));
        check("HTTP/1.1 099 Odd", Err("invalid status code"));
    }

    #[test]
    fn interim_responses_are_skipped_within_a_limit() {
        let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
        let mut read = BytesMut::from(
            format!("{interim}HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").as_bytes(),
        );
        assert_eq!(
            ResponseHead::take(&mut read, &mut 0)
                .unwrap()
                .unwrap()
                .status,
            StatusCode::OK
        );
        // Also if each arrives on its own.
        for responses_per_read in [1, MAX_INTERIM] {
            let text = "HTTP/1.1 100 Continue\r\n\r\n".repeat(responses_per_read);
            let (mut read, mut count) = (BytesMut::new(), 0);
            let mut take = || {
                read.extend_from_slice(text.as_bytes());
                ResponseHead::take(&mut read, &mut count).err()
            };
            let faults: Vec<_> = (0..MAX_INTERIM / responses_per_read)
                .map(|_| take())
                .collect();
            let (last, before) = faults.split_last().unwrap();
            assert_eq!(last.as_deref(), Some("too many interim responses"));
            assert!(before.iter().all(Option::is_none));
        }
    }

    #[test]
    fn a_head_is_bounded() {
        let mut long = BytesMut::from(
            format!("HTTP/1.1 200 OK\r\nA: {}", "x".repeat(MAX_HEAD_BYTES)).as_bytes(),
        );
        assert_eq!(
            ResponseHead::take(&mut long, &mut 0).err().unwrap(),
            "the response head is longer than 65536 bytes"
        );
        let mut many = BytesMut::from(
            format!(
                "HTTP/1.1 200 OK\r\n{}\r\n",
                "A: 1\r\n".repeat(MAX_HEADERS + 1)
            )
            .as_bytes(),
        );
        assert_eq!(
            ResponseHead::take(&mut many, &mut 0).err().unwrap(),
            "too many headers"
        );
    }

    #[test]
    fn header_names_are_case_insensitive() {
        let text = "HTTP/1.1 401 No\r\ncontent-TYPE:  text/plain \r\nwww-authenticate: a\r\nWWW-Authenticate: b\r\n\r\n";
        let head = ResponseHead::take(&mut BytesMut::from(text), &mut 0)
            .unwrap()
            .unwrap();
        assert_eq!(head.header(&CONTENT_TYPE), Some(&b"text/plain"[..]));
        assert_eq!(
            head.headers(&WWW_AUTHENTICATE).collect::<Vec<_>>(),
            [b"a", b"b"]
        );
        assert_eq!(head.header(&CONNECTION), None);
    }

    #[test]
    fn an_encoded_body_is_detected() {
        for (header, expected) in [
            ("Content-Encoding: gzip", true),
            ("Content-Encoding: identity, br", true),
            ("Content-Encoding: identity", false),
            ("Transfer-Encoding: gzip, chunked", true),
            ("Transfer-Encoding: chunked, gzip", true),
            ("Transfer-Encoding: chunked", false),
        ] {
            let mut read =
                BytesMut::from(format!("HTTP/1.1 200 OK\r\n{header}\r\n\r\n").as_bytes());
            assert_eq!(
                ResponseHead::take(&mut read, &mut 0)
                    .unwrap()
                    .unwrap()
                    .is_encoded,
                expected,
                "{header}"
            );
        }
    }
}
