//! The head of a response to a plain request, and the lines before the chunks of its body.

use std::io::Write as _;
use std::time::SystemTime;

use hyper::http::response::Parts;

/// Writes the heads of a connection's responses.
#[derive(Default)]
pub(super) struct ResponseHeads {
    /// The second that `date` shows.
    second: u64,
    date: String,
}

impl ResponseHeads {
    /// Writes a head for a body of this type and length; one without a length comes in chunks. The last
    /// response of a connection says so.
    pub(super) fn write(
        &mut self,
        out: &mut Vec<u8>,
        parts: &Parts,
        (content_type, length): (Option<&str>, Option<u64>),
        is_last: bool,
    ) {
        out.extend_from_slice(b"HTTP/1.1 ");
        out.extend_from_slice(parts.status.as_str().as_bytes());
        out.push(b' ');
        let reason = parts.status.canonical_reason().unwrap_or_default();
        out.extend_from_slice(reason.as_bytes());
        if let Some(content_type) = content_type {
            push_header(out, "content-type", content_type.as_bytes());
        }
        for (name, value) in &parts.headers {
            push_header(out, name.as_str(), value.as_bytes());
        }
        match length {
            Some(length) => {
                let mut digits = itoa::Buffer::new();
                push_header(out, "content-length", digits.format(length).as_bytes());
            }
            None => push_header(out, "transfer-encoding", b"chunked"),
        }
        if is_last {
            push_header(out, "connection", b"close");
        }
        push_header(out, "date", self.date().as_bytes());
        out.extend_from_slice(b"\r\n\r\n");
    }

    /// The time, which is formatted once in a second.
    fn date(&mut self) -> &str {
        let now = SystemTime::now();
        let since = now.duration_since(SystemTime::UNIX_EPOCH);
        let second = since.unwrap_or_default().as_secs();
        if self.second != second {
            self.second = second;
            self.date = httpdate::fmt_http_date(now);
        }
        &self.date
    }
}

fn push_header(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
}

/// The line before a chunk of this size.
pub(super) fn push_chunk_size(out: &mut Vec<u8>, size: usize) {
    // Writing to a vector does not fail.
    let _ = write!(out, "{size:x}\r\n");
}
