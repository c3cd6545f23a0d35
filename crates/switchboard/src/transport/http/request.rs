//! One request: what is sent where; as the bytes of HTTP/1.1, or for the shared stack.

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::{CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use url::{Position, Url};

use super::headers;
use super::stack::OUR_NAME;

/// A request. It borrows everything: what all requests say is made once.
#[derive(Clone, Copy)]
pub(in crate::transport) struct Request<'a> {
    pub(in crate::transport) method: &'a Method,
    pub(in crate::transport) url: &'a Url,
    /// What all requests of its kind say.
    pub(in crate::transport) headers: &'a HeaderMap,
    /// What this one says beside, and instead where both name a header.
    pub(in crate::transport) own: Option<&'a HeaderMap>,
    /// And this, as lines of headers that [`headers::beside`] wrote.
    lines: &'a str,
    pub(in crate::transport) body: Option<&'a Bytes>,
}

impl<'a> Request<'a> {
    pub(in crate::transport) fn post(
        url: &'a Url,
        headers: &'a HeaderMap,
        body: &'a Bytes,
    ) -> Self {
        Self {
            method: &Method::POST,
            url,
            headers,
            own: None,
            lines: "",
            body: Some(body),
        }
    }

    pub(in crate::transport) fn get(url: &'a Url, headers: &'a HeaderMap) -> Self {
        Self {
            method: &Method::GET,
            url,
            headers,
            own: None,
            lines: "",
            body: None,
        }
    }

    pub(in crate::transport) fn delete(url: &'a Url, headers: &'a HeaderMap) -> Self {
        Self {
            method: &Method::DELETE,
            url,
            headers,
            own: None,
            lines: "",
            body: None,
        }
    }

    /// The same, with what this one says beside.
    pub(in crate::transport) fn beside(self, own: Option<&'a HeaderMap>) -> Self {
        Self { own, ..self }
    }

    /// The same to another place.
    pub(super) fn at<'b>(&'b self, url: &'b Url) -> Request<'b> {
        Request { url, ..*self }
    }

    /// The same, with what stands beside its message.
    pub(super) fn with_lines(self, lines: Option<&'a str>) -> Self {
        Self {
            lines: lines.unwrap_or_default(),
            ..self
        }
    }

    /// Everything before the body, as it goes over a connection. `authority` is what `Host` says
    /// unless a header does.
    pub(super) fn write_head(&self, authority: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(self.method.as_str().as_bytes());
        out.push(b' ');
        // A URL holds visible ASCII alone.
        out.extend_from_slice(self.url[Position::BeforePath..Position::AfterQuery].as_bytes());
        out.extend_from_slice(b" HTTP/1.1\r\n");
        for (name, value) in [(HOST, authority), (USER_AGENT, OUR_NAME)] {
            if !self.says(&name) {
                write_header(out, &name, value.as_bytes());
            }
        }
        self.said()
            .for_each(|(name, value)| write_header(out, name, value.as_bytes()));
        out.extend_from_slice(self.lines.as_bytes());
        if let Some(body) = self.body {
            write_header(
                out,
                &CONTENT_LENGTH,
                itoa::Buffer::new().format(body.len()).as_bytes(),
            );
        }
        out.extend_from_slice(b"\r\n");
    }

    /// The same for the shared stack.
    pub(super) fn for_stack(&self) -> reqwest::Request {
        let mut request = reqwest::Request::new(self.method.clone(), self.url.clone());
        self.said().for_each(|(name, value)| {
            request.headers_mut().append(name, value.clone());
        });
        request.headers_mut().extend(headers::pairs(self.lines));
        *request.body_mut() = self.body.map(|body| body.clone().into());
        request
    }

    /// Every header but the lines, once from where it counts.
    fn said(&self) -> impl Iterator<Item = (&'a HeaderName, &'a HeaderValue)> {
        let Self { own, lines, .. } = *self;
        let counts = move |name: &HeaderName| {
            own.is_none_or(|own| !own.contains_key(name))
                && (lines.is_empty() || !headers::is_beside(name))
        };
        self.headers
            .iter()
            .filter(move |(name, _)| counts(name))
            .chain(own.into_iter().flatten())
    }

    fn says(&self, name: &HeaderName) -> bool {
        self.headers.contains_key(name) || self.own.is_some_and(|own| own.contains_key(name))
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
    fn check(request: Request<'_>, expected: &[&str]) {
        let mut out = Vec::new();
        request.write_head("here:1", &mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            format!("{}\r\n\r\n", expected.join("\r\n"))
        );
        let headers = |line: &&&str| {
            !["host: here:1"].contains(*line)
                && !line.starts_with("content-length")
                && !line.contains(OUR_NAME)
        };
        let expected: Vec<_> = expected[1..]
            .iter()
            .filter(headers)
            .map(|line| (*line).to_owned())
            .collect();
        let request = request.for_stack();
        let said: Vec<_> = request
            .headers()
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        assert_eq!(said, expected);
    }

    #[test]
    fn what_a_request_says_of_itself_wins_over_what_all_of_them_say() {
        let url = Url::parse("http://here:1/a%20b/mcp?key=%22#end").unwrap();
        let common = headers(&[(ACCEPT, "one"), (CONTENT_TYPE, "a"), (ACCEPT, "two")]);
        let body = Bytes::from_static(b"{}");
        let us = format!("user-agent: {OUR_NAME}");
        check(
            Request::post(&url, &common, &body),
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
        let own = headers(&[(ACCEPT, "three"), (USER_AGENT, "we"), (HOST, "there")]);
        check(
            Request::get(&url, &common).beside(Some(&own)),
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
        let lines = "mcp-method: x\r\nmcp-name: y\r\n";
        check(
            Request::get(&url, &common).with_lines(Some(lines)),
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
