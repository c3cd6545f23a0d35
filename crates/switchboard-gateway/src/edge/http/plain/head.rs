//! The head of a plain request, compared with that of the last request of its connection.

use std::ops::Range;

use httparse::Status;
use hyper::HeaderMap;
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HeaderName, HeaderValue, TRAILER, TRANSFER_ENCODING,
    UPGRADE,
};

use crate::edge::http::connection::HeadNumber;

/// More headers, or a longer head, are not plain.
const MAX_HEADERS: usize = 64;
const MAX_HEAD_BYTES: usize = 8 << 10;

/// A length with more digits is not plain.
const MAX_LENGTH_DIGITS: usize = 9;

/// A head. The next one mostly repeats all of it but the length of the body: then nothing is parsed.
#[derive(Default)]
pub(super) struct PlainHead {
    /// Another one for each head that is parsed.
    pub(super) number: HeadNumber,
    /// As it came, from the empty lines that may stand before it to the one at its end.
    text: Vec<u8>,
    /// Where the digits of `Content-Length` are.
    digits: Range<usize>,
    pub(super) body_length: usize,
    pub(super) path: String,
    /// All headers but `Content-Length`.
    pub(super) headers: HeaderMap,
}

/// What a buffer begins with.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NextHead {
    /// The head of a plain request, which was read.
    Plain,
    /// The head that was read last, but for the length of the body.
    Repeated,
    /// Another request.
    Other,
    /// A part of a head.
    Incomplete,
}

impl PlainHead {
    /// Reads the head that a buffer begins with, if all of it is there.
    pub(super) fn read_next(&mut self, buffer: &[u8]) -> NextHead {
        if let Some(digits) = self.digits_of_repeated(buffer) {
            return self.set_digits(digits);
        }
        let text = &buffer[..buffer.len().min(MAX_HEAD_BYTES)];
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        // Hyper parses the same bytes with the same parser, so both find the same end of the head.
        let mut request = httparse::Request::new(&mut headers);
        let length = match request.parse(text) {
            Ok(Status::Complete(length)) => length,
            Ok(Status::Partial) if text.len() < MAX_HEAD_BYTES => return NextHead::Incomplete,
            _ => return NextHead::Other,
        };
        match Self::of_request(&request, &text[..length]) {
            Some(head) => {
                let number = self.number.next();
                *self = Self { number, ..head };
                NextHead::Plain
            }
            None => NextHead::Other,
        }
    }

    /// How many bytes it has.
    pub(super) fn length(&self) -> usize {
        self.text.len()
    }

    /// How many headers it has.
    pub(super) fn header_count(&self) -> usize {
        self.headers.len() + 1
    }

    /// The digits of the length, if a buffer begins with this head but for them.
    fn digits_of_repeated<'b>(&self, buffer: &'b [u8]) -> Option<&'b [u8]> {
        // Before the first request.
        if self.text.is_empty() {
            return None;
        }
        let rest = buffer.strip_prefix(&self.text[..self.digits.start])?;
        let end = rest.iter().position(|byte| !byte.is_ascii_digit())?;
        let (digits, rest) = rest.split_at(end);
        rest.starts_with(&self.text[self.digits.end..])
            .then_some(digits)
    }

    fn set_digits(&mut self, digits: &[u8]) -> NextHead {
        let Some(length) = parse_length(digits) else {
            return NextHead::Other;
        };
        if digits.len() == self.digits.len() {
            self.text[self.digits.clone()].copy_from_slice(digits);
        } else {
            self.text
                .splice(self.digits.clone(), digits.iter().copied());
            self.digits.end = self.digits.start + digits.len();
        }
        self.body_length = length;
        NextHead::Repeated
    }

    /// The head of a request with this text; `None` if the request is not plain.
    fn of_request(request: &httparse::Request<'_, '_>, text: &[u8]) -> Option<Self> {
        let path = request.path?;
        let is_plain_path = path.starts_with('/') && !path.contains(['?', '#']);
        if request.method != Some("POST") || request.version != Some(1) || !is_plain_path {
            return None;
        }
        let mut headers = HeaderMap::with_capacity(request.headers.len());
        let mut length = None;
        for header in request.headers.iter() {
            let name = HeaderName::from_bytes(header.name.as_bytes()).ok()?;
            match name {
                CONTENT_LENGTH if length.is_some() => return None,
                CONTENT_LENGTH => length = Some(header.value),
                EXPECT | TRAILER | TRANSFER_ENCODING | UPGRADE => return None,
                CONNECTION if !header.value.eq_ignore_ascii_case(b"keep-alive") => return None,
                _ => {
                    headers.append(name, HeaderValue::from_bytes(header.value).ok()?);
                }
            }
        }
        let digits = length?;
        let start = digits.as_ptr() as usize - text.as_ptr() as usize;
        Some(Self {
            number: HeadNumber::default(),
            digits: start..start + digits.len(),
            body_length: parse_length(digits)?,
            path: path.to_owned(),
            text: text.to_owned(),
            headers,
        })
    }
}

fn parse_length(digits: &[u8]) -> Option<usize> {
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    if !is_number || digits.len() > MAX_LENGTH_DIGITS {
        return None;
    }
    let number = |sum: usize, digit: &u8| sum * 10 + usize::from(digit - b'0');
    Some(digits.iter().fold(0, number))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn head(lines: &str) -> String {
        format!("POST /mcp HTTP/1.1\r\nHost: a\r\n{lines}\r\n\r\n")
    }

    fn read(text: &str) -> NextHead {
        PlainHead::default().read_next(text.as_bytes())
    }

    #[test]
    fn a_head_is_read_once_all_of_it_is_there_and_the_body_is_left() {
        let text = head("Content-Length: 12\r\nX: y") + "the body";
        let mut read = PlainHead::default();
        let length = text.len() - "the body".len();
        for end in 0..length {
            let part = &text.as_bytes()[..end];
            assert_eq!(read.read_next(part), NextHead::Incomplete, "{end}");
        }
        assert_eq!(read.read_next(text.as_bytes()), NextHead::Plain);
        assert_eq!((read.length(), read.body_length), (length, 12));
        assert_eq!(read.path, "/mcp");
        assert_eq!(read.headers["x"], "y");
        assert!(!read.headers.contains_key(CONTENT_LENGTH));
    }

    /// Whatever a connection sent before, a head means the same as on a new connection.
    #[test]
    fn a_head_that_repeats_the_last_one_is_read_as_if_it_were_the_first() {
        let mut read = PlainHead::default();
        let length = |number: &str| head(&format!("Content-Length: {number}\r\nX: y"));
        for (text, expected) in [
            (length("12"), Some(12)),
            (length("7"), Some(7)),
            (length("1234"), Some(1234)),
            (length("007"), Some(7)),
            (length("12"), Some(12)),
            (length("12 "), Some(12)),
            (length("12"), Some(12)),
            (length("12\r\nContent-Length: 12"), None),
            (length("12\r\nTransfer-Encoding: chunked"), None),
            (length("1234567890"), None),
            (length(""), None),
            (length("+1"), None),
            (length("-1"), None),
            (length("1,1"), None),
            (length("12").replace("X: y", "X: z"), Some(12)),
            (length("13").replace("X: y", "X: z"), Some(13)),
        ] {
            let mut first = PlainHead::default();
            for head in [&mut first, &mut read] {
                let next = head.read_next(text.as_bytes());
                let is_plain = matches!(next, NextHead::Plain | NextHead::Repeated);
                let found = is_plain.then_some((head.length(), head.body_length));
                assert_eq!(found, expected.map(|body| (text.len(), body)), "{text:?}");
            }
            if expected.is_some() {
                assert_eq!((&first.path, &first.headers), (&read.path, &read.headers));
            }
        }
    }

    /// A change of a head: at this place, this many bytes are replaced by these.
    type Change = (prop::sample::Index, usize, &'static str);

    fn changed(text: &str, changes: &[Change]) -> Vec<u8> {
        let mut bytes = text.as_bytes().to_vec();
        for (place, count, new) in changes {
            let start = place.index(bytes.len() + 1);
            let end = (start + count).min(bytes.len());
            bytes.splice(start..end, new.bytes());
        }
        bytes
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// T20: the same for heads with any few bytes changed, and for whatever follows them.
        #[test]
        fn t20_a_changed_head_is_read_as_if_it_were_the_first(
            changes in prop::collection::vec(
                (any::<prop::sample::Index>(), 0..4_usize, prop::sample::select(vec![
                    "", "\r", "\n", "\r\n", "\r\n\r\n", "\n\n", ":", " ", "0", "7", "12", "\0", "é",
                    "Content-Length: 3\r\n", "Transfer-Encoding: chunked\r\n", "Connection: close\r\n",
                ])),
                1..4,
            ),
        ) {
            let plain = head("Content-Length: 12\r\nX: y") + "the body";
            let text = changed(&plain, &changes);
            let mut read = PlainHead::default();
            prop_assert_eq!(read.read_next(plain.as_bytes()), NextHead::Plain);
            let mut first = PlainHead::default();
            let expected = first.read_next(&text);
            let is_plain = expected == NextHead::Plain;
            let found = read.read_next(&text);
            prop_assert_eq!(is_plain, matches!(found, NextHead::Plain | NextHead::Repeated));
            if is_plain {
                prop_assert_eq!(first.length(), read.length());
                prop_assert_eq!(first.body_length, read.body_length);
                prop_assert_eq!((first.path, first.headers), (read.path, read.headers));
            } else {
                prop_assert_eq!(expected, found);
            }
        }
    }

    #[test]
    fn what_is_unusual_is_not_plain() {
        for lines in [
            "X: y",
            "Content-Length: 1\r\nContent-Length: 1",
            "Content-Length: 1\r\nTransfer-Encoding: chunked",
            "Content-Length: 1\r\nExpect: 100-continue",
            "Content-Length: 1\r\nConnection: close",
            "Content-Length: 1\r\nConnection: upgrade\r\nUpgrade: x",
            "Content-Length : 1",
            "Content-Length: 1\r\n folded: y",
            "Content-Length: 1\r\nX\0: y",
        ] {
            assert_eq!(read(&head(lines)), NextHead::Other, "{lines:?}");
        }
        let plain = head("Content-Length: 1\r\nConnection: Keep-Alive");
        assert_eq!(read(&plain), NextHead::Plain);
        for (from, to) in [
            ("POST", "GET"),
            ("1.1", "1.0"),
            ("/mcp", "/mcp?x"),
            ("/mcp", "http://a/mcp"),
            ("/mcp", "*"),
        ] {
            let text = plain.replacen(from, to, 1);
            assert_eq!(read(&text), NextHead::Other, "{text:?}");
        }
        let long = format!("POST /{}", "a".repeat(MAX_HEAD_BYTES));
        assert_eq!(read(&long[..MAX_HEAD_BYTES - 1]), NextHead::Incomplete);
        assert_eq!(read(&long), NextHead::Other);
        // What cannot become a request is not waited for.
        for beginning in [
            "\x16\x03\x01",
            "POST /mcp HTTP/9",
            "POST /mcp HTTP/1.1\r\n X",
        ] {
            assert_eq!(read(beginning), NextHead::Other, "{beginning:?}");
        }
    }

    /// Lines may end without a carriage return, also the empty one at the end of the head.
    #[test]
    fn a_head_ends_where_its_first_empty_line_does() {
        let plain = head("Content-Length: 1\r\nX: y");
        for text in [
            plain.replacen("\r\nHost", "\nHost", 1),
            plain.replace("\r\n", "\n"),
            plain.replace("\r\n\r\n", "\n\r\n"),
            plain.replace("\r\n\r\n", "\r\n\n"),
            format!("\r\n\n{plain}"),
        ] {
            let mut head = PlainHead::default();
            for expected in [NextHead::Plain, NextHead::Repeated] {
                let next = head.read_next(format!("{text}Z: z\r\n\r\n").as_bytes());
                let found = (next, head.length(), head.body_length);
                assert_eq!(found, (expected, text.len(), 1), "{text:?}");
            }
        }
    }
}
