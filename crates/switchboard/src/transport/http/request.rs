//! One HTTP request, written as HTTP/1.1 bytes or converted for the shared stack.

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::{CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use url::{Position, Url};

use super::headers;
use super::stack::OUR_USER_AGENT;

/// A request. It borrows everything: shared headers are built once.
#[derive(Clone, Copy)]
pub(in crate::transport) struct HttpRequest<'a> {
    pub(in crate::transport) method: &'a Method,
    pub(in crate::transport) url: &'a Url,
    /// The headers of all requests of this kind.
    pub(in crate::transport) headers: &'a HeaderMap,
    /// Headers of this request, which override the others.
    pub(in crate::transport) extra_headers: Option<&'a HeaderMap>,
    /// Header lines of this request, written by [`headers::mcp_headers`].
    mcp_headers: &'a str,
    pub(in crate::transport) body: Option<&'a Bytes>,
}

impl<'a> HttpRequest<'a> {
    pub(in crate::transport) fn post(
        url: &'a Url,
        headers: &'a HeaderMap,
        body: &'a Bytes,
    ) -> Self {
        Self {
            body: Some(body),
            ..Self::new(&Method::POST, url, headers)
        }
    }

    pub(in crate::transport) fn get(url: &'a Url, headers: &'a HeaderMap) -> Self {
        Self::new(&Method::GET, url, headers)
    }

    pub(in crate::transport) fn delete(url: &'a Url, headers: &'a HeaderMap) -> Self {
        Self::new(&Method::DELETE, url, headers)
    }

    fn new(method: &'a Method, url: &'a Url, headers: &'a HeaderMap) -> Self {
        Self {
            method,
            url,
            headers,
            extra_headers: None,
            mcp_headers: "",
            body: None,
        }
    }

    /// Sets the headers of this request.
    pub(in crate::transport) fn with_extra_headers(self, extra: Option<&'a HeaderMap>) -> Self {
        Self {
            extra_headers: extra,
            ..self
        }
    }

    /// The same request to another URL.
    pub(super) fn with_url<'b>(&'b self, url: &'b Url) -> HttpRequest<'b> {
        HttpRequest { url, ..*self }
    }

    /// Sets the header lines of a modern message.
    pub(super) fn with_mcp_headers(self, mcp_headers: Option<&'a str>) -> Self {
        Self {
            mcp_headers: mcp_headers.unwrap_or_default(),
            ..self
        }
    }

    /// Writes everything before the body. `authority` is the default for `Host`.
    pub(super) fn write_head(&self, authority: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(self.method.as_str().as_bytes());
        out.push(b' ');
        // A URL contains visible ASCII only.
        out.extend_from_slice(self.url[Position::BeforePath..Position::AfterQuery].as_bytes());
        out.extend_from_slice(b" HTTP/1.1\r\n");
        for (name, value) in [(HOST, authority), (USER_AGENT, OUR_USER_AGENT)] {
            if !self.has_header(&name) {
                write_header(out, &name, value.as_bytes());
            }
        }
        self.merged_headers()
            .for_each(|(name, value)| write_header(out, name, value.as_bytes()));
        out.extend_from_slice(self.mcp_headers.as_bytes());
        if let Some(body) = self.body {
            write_header(
                out,
                &CONTENT_LENGTH,
                itoa::Buffer::new().format(body.len()).as_bytes(),
            );
        }
        out.extend_from_slice(b"\r\n");
    }

    /// Converts the request for the shared stack.
    pub(super) fn to_reqwest(self) -> reqwest::Request {
        let mut request = reqwest::Request::new(self.method.clone(), self.url.clone());
        self.merged_headers().for_each(|(name, value)| {
            request.headers_mut().append(name, value.clone());
        });
        request
            .headers_mut()
            .extend(headers::parse_lines(self.mcp_headers));
        *request.body_mut() = self.body.map(|body| body.clone().into());
        request
    }

    /// The headers without the header lines; overridden ones are left out.
    fn merged_headers(&self) -> impl Iterator<Item = (&'a HeaderName, &'a HeaderValue)> {
        let Self {
            extra_headers: extra,
            mcp_headers,
            ..
        } = *self;
        let counts = move |name: &HeaderName| {
            extra.is_none_or(|extra| !extra.contains_key(name))
                && (mcp_headers.is_empty() || !headers::is_mcp_header(name))
        };
        self.headers
            .iter()
            .filter(move |(name, _)| counts(name))
            .chain(extra.into_iter().flatten())
    }

    fn has_header(&self, name: &HeaderName) -> bool {
        self.headers.contains_key(name)
            || self
                .extra_headers
                .is_some_and(|extra| extra.contains_key(name))
    }
}

fn write_header(out: &mut Vec<u8>, name: &HeaderName, value: &[u8]) {
    out.extend_from_slice(name.as_str().as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use reqwest::header::{ACCEPT, CONTENT_TYPE};

    use super::*;

    fn headers(pairs: &[(HeaderName, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name.clone(), HeaderValue::from_static(value));
        }
        headers
    }

    #[track_caller]
    fn check(request: HttpRequest<'_>, expected: &[&str]) {
        let mut out = Vec::new();
        request.write_head("here:1", &mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            format!("{}\r\n\r\n", expected.join("\r\n"))
        );
        let headers = |line: &&&str| {
            !["host: here:1"].contains(*line)
                && !line.starts_with("content-length")
                && !line.contains(OUR_USER_AGENT)
        };
        let expected: Vec<_> = expected[1..]
            .iter()
            .filter(headers)
            .map(|line| (*line).to_owned())
            .collect();
        let request = request.to_reqwest();
        let said: Vec<_> = request
            .headers()
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        assert_eq!(said, expected);
    }

    #[test]
    fn headers_of_one_request_override_the_shared_ones() {
        let url = Url::parse("http://here:1/a%20b/mcp?key=%22#end").unwrap();
        let common = headers(&[(ACCEPT, "one"), (CONTENT_TYPE, "a"), (ACCEPT, "two")]);
        let body = Bytes::from_static(b"{}");
        let us = format!("user-agent: {OUR_USER_AGENT}");
        check(
            HttpRequest::post(&url, &common, &body),
            &[
                "POST /a%20b/mcp?key=%22 HTTP/1.1",
                "host: here:1",
                &us,
                "accept: one",
                "accept: two",
                "content-type: a",
                "content-length: 2",
            ],
        );
        let extra = headers(&[(ACCEPT, "three"), (USER_AGENT, "we"), (HOST, "there")]);
        check(
            HttpRequest::get(&url, &common).with_extra_headers(Some(&extra)),
            &[
                "GET /a%20b/mcp?key=%22 HTTP/1.1",
                "content-type: a",
                "accept: three",
                "user-agent: we",
                "host: there",
            ],
        );
        let common = headers(&[
            (HeaderName::from_static("mcp-name"), "of the entry"),
            (HeaderName::from_static("mcp-param-a"), "of the entry"),
            (HeaderName::from_static("mcp-tenant"), "of the entry"),
        ]);
        let mcp_headers = "mcp-method: x\r\nmcp-name: y\r\n";
        check(
            HttpRequest::get(&url, &common).with_mcp_headers(Some(mcp_headers)),
            &[
                "GET /a%20b/mcp?key=%22 HTTP/1.1",
                "host: here:1",
                &us,
                "mcp-tenant: of the entry",
                "mcp-method: x",
                "mcp-name: y",
            ],
        );
    }
}
