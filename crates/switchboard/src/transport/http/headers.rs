//! The headers of a request: the configured ones, those of the protocol, and the encoding of their
//! values. Pure.

use data_encoding::BASE64;
use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName,
    HeaderValue, TRANSFER_ENCODING,
};

use crate::secret::Secret;
use crate::transport::ConnectFault;
use crate::untrusted::quoted;
use crate::wire::RequestMetadata;

pub(in crate::transport) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
pub(in crate::transport) const PROTOCOL_VERSION: &str = "mcp-protocol-version";
pub(in crate::transport) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const METHOD: &str = "mcp-method";
const NAME: &str = "mcp-name";
const PARAMETER: &str = "mcp-param-";

/// The headers of every POST to an endpoint. Configured headers override the others.
pub(in crate::transport) fn for_post(
    url: &url::Url,
    entry: &[(String, Secret)],
) -> Result<HeaderMap, ConnectFault> {
    let mut headers = HeaderMap::new();
    headers.insert(
        ACCEPT,
        HeaderValue::from_static("application/json, text/event-stream"),
    );
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(basic) = basic_auth(url) {
        headers.insert(AUTHORIZATION, basic);
    }
    let mut configured = HeaderMap::new();
    for (name, value) in entry {
        let (name, value) = configured_header(name, value)?;
        configured.append(name, value);
    }
    // `extend` replaces existing headers and keeps repeated configured ones.
    headers.extend(configured);
    Ok(headers)
}

/// The headers of a GET that opens an event stream.
pub(in crate::transport) fn for_get(post: &HeaderMap) -> HeaderMap {
    let mut headers = post.clone();
    headers.remove(CONTENT_TYPE);
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    headers
}

/// A value that is marked as sensitive, so that it is not logged.
pub(in crate::transport) fn secret_value(value: &Secret) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(value.expose()).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// The header lines of a modern message. Values that a header cannot carry are encoded; parameters
/// with an invalid name are left out.
pub(in crate::transport) fn mcp_headers(
    version: &str,
    method: Option<&str>,
    metadata: &RequestMetadata<'_>,
) -> String {
    let mut lines = String::with_capacity(160);
    write_line(&mut lines, PROTOCOL_VERSION, version);
    if let Some(method) = method {
        write_line(&mut lines, METHOD, method);
    }
    if let Some(name) = metadata.name {
        write_line(&mut lines, NAME, name);
    }
    for (name, value) in metadata.parameters {
        // Normalizes the case.
        if let Ok(name) = HeaderName::from_bytes(format!("{PARAMETER}{name}").as_bytes()) {
            write_line(&mut lines, name.as_str(), value);
        }
    }
    lines
}

/// Whether [`mcp_headers`] writes this header: a configured one with the same name is dropped.
pub(in crate::transport) fn is_mcp_header(name: &HeaderName) -> bool {
    [PROTOCOL_VERSION, METHOD, NAME].contains(&name.as_str())
        || name.as_str().starts_with(PARAMETER)
}

/// Parses lines written by [`mcp_headers`].
pub(in crate::transport) fn parse_lines(
    lines: &str,
) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
    let pair = |line: &str| {
        let (name, value) = line.split_once(": ")?;
        Some((
            HeaderName::from_bytes(name.as_bytes()).ok()?,
            HeaderValue::from_str(value).ok()?,
        ))
    };
    lines.split_terminator("\r\n").filter_map(pair)
}

/// Whether the bytes are a valid id in a header: visible ASCII.
pub(in crate::transport) fn is_visible_ascii(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(u8::is_ascii_graphic)
}

fn configured_header(
    name: &str,
    value: &Secret,
) -> Result<(HeaderName, HeaderValue), ConnectFault> {
    let refused =
        |why: &str| ConnectFault(format!("the header {} of its entry {why}", quoted(name)));
    let header =
        HeaderName::from_bytes(name.as_bytes()).map_err(|_| refused("has an invalid name"))?;
    if [CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION].contains(&header) {
        return Err(refused("is set by the connection; remove it"));
    }
    let value = secret_value(value)
        .ok_or_else(|| refused("contains a line break or another control character"))?;
    Ok((header, value))
}

/// The `Authorization` header of `user:password@` in a URL.
fn basic_auth(url: &url::Url) -> Option<HeaderValue> {
    if url.username().is_empty() && url.password().is_none() {
        return None;
    }
    let plain = |text: &str| percent_decoded(text);
    let pair = [
        plain(url.username()),
        b":".to_vec(),
        plain(url.password().unwrap_or_default()),
    ]
    .concat();
    secret_value(&Secret::new(format!("Basic {}", BASE64.encode(&pair))))
}

fn percent_decoded(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = bytes
            .get(at + 1..at + 3)
            .and_then(|hex| std::str::from_utf8(hex).ok());
        match (
            bytes[at],
            hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()),
        ) {
            (b'%', Some(byte)) => {
                out.push(byte);
                at += 3;
            }
            (byte, _) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    out
}

fn write_line(lines: &mut String, name: &str, value: &str) {
    lines.extend([name, ": "]);
    match is_plain(value) {
        true => lines.push_str(value),
        false => lines.extend(["=?base64?", &BASE64.encode(value.as_bytes()), "?="]),
    }
    lines.push_str("\r\n");
}

/// Whether a value can be sent unencoded and cannot be mistaken for an encoded one.
fn is_plain(value: &str) -> bool {
    let visible = value
        .bytes()
        .all(|byte| matches!(byte, b' '..=b'~' | b'\t'));
    let padded = value.starts_with([' ', '\t']) || value.ends_with([' ', '\t']);
    visible && !padded && !(value.starts_with("=?base64?") && value.ends_with("?="))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// T15: the examples of the specification, and attempts at header injection.
    #[test]
    fn t15_values_that_a_header_cannot_carry_are_encoded() {
        for (value, expected) in [
            ("us-west1", "us-west1"),
            ("", ""),
            ("a b\tc", "a b\tc"),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
            ("a\r\nX-Evil: 1", "=?base64?YQ0KWC1FdmlsOiAx?="),
            ("\t", "=?base64?CQ==?="),
            ("\u{7f}", "=?base64?fw==?="),
        ] {
            let mut lines = String::new();
            write_line(&mut lines, NAME, value);
            assert_eq!(lines, format!("mcp-name: {expected}\r\n"), "{value:?}");
            let [(name, value)] = &parse_lines(&lines).collect::<Vec<_>>()[..] else {
                panic!("{lines:?}")
            };
            assert_eq!((name.as_str(), value.to_str().unwrap()), (NAME, expected));
        }
    }

    #[test]
    fn t15_a_parameter_with_an_invalid_header_name_is_left_out() {
        let parameters = [
            ("Region".to_owned(), "west".to_owned()),
            ("X\r\nEvil".to_owned(), "1".to_owned()),
        ];
        let metadata = RequestMetadata {
            version: None,
            name: Some("t"),
            parameters: &parameters,
        };
        assert_eq!(
            mcp_headers("2026-07-28", Some("tools/call"), &metadata),
            "mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: t\r\nmcp-param-region: west\r\n"
        );
    }

    #[test]
    fn configured_headers_override_others_and_invalid_ones_are_refused_without_their_value() {
        let url = "http://us%40r:p@localhost/mcp".parse().unwrap();
        let entry = |name: &str, value: &str| vec![(name.to_owned(), Secret::new(value))];
        let headers = for_post(
            &url,
            &entry("content-type", "application/json; charset=utf-8"),
        )
        .unwrap();
        assert_eq!(headers[CONTENT_TYPE], "application/json; charset=utf-8");
        assert_eq!(headers[AUTHORIZATION], "Basic dXNAcjpw");
        for (name, value, expected) in [
            (
                "X-A",
                "hidden\r\nX-Evil: 1",
                "the header \"X-A\" of its entry contains a line break or another control character",
            ),
            (
                "X A",
                "hidden",
                "the header \"X A\" of its entry has an invalid name",
            ),
            (
                "Content-Length",
                "3",
                "the header \"Content-Length\" of its entry is set by the connection; remove it",
            ),
        ] {
            assert_eq!(
                for_post(&url, &entry(name, value)),
                Err(ConnectFault(expected.to_owned()))
            );
        }
    }
}
