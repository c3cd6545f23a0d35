//! Headers of a modern request that repeat parts of its body: both must agree, so that a proxy that
//! decides by the headers decides on the call that runs.

use std::borrow::Cow;
use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hyper::HeaderMap;
use hyper::header::{AsHeaderName, HeaderName};
use switchboard::revision::{Era, Revision};
use switchboard::{RawJson, ToolDefinition};

use crate::params::RequestParams;
use crate::reply::ErrorReply;

/// The header of the revision, in both eras.
pub(super) static VERSION_HEADER: HeaderName = HeaderName::from_static("mcp-protocol-version");

static METHOD_HEADER: HeaderName = HeaderName::from_static("mcp-method");
static NAME_HEADER: HeaderName = HeaderName::from_static("mcp-name");

const HEADER_MISMATCH: i64 = -32020;

/// The text around a base64 value, for values that a header cannot carry.
const ENCODED: (&str, &str) = ("=?base64?", "?=");

impl RequestParams {
    /// Compares the headers of a modern request with its body, which must have the required `_meta`.
    pub(super) fn check_headers(
        &self,
        headers: &HeaderMap,
        method: &str,
    ) -> Result<(), ErrorReply> {
        let missing = |key: &str| {
            let message = format!("_meta[\"io.modelcontextprotocol/{key}\"] is missing");
            ErrorReply::invalid_params(message)
        };
        let version = self.meta().version.as_deref();
        let version = version.ok_or_else(|| missing("protocolVersion"))?;
        let given = header(headers, &VERSION_HEADER)?;
        expect(given, VERSION_HEADER.as_str(), version)?;
        if Revision::parse_in(Era::Modern, version).is_none() {
            // The response names the supported revisions.
            return Ok(());
        }
        if self.meta().capabilities.is_none() {
            return Err(missing("clientCapabilities"));
        }
        let given = header(headers, &METHOD_HEADER)?;
        expect(given, METHOD_HEADER.as_str(), method)?;
        let name = match method {
            "tools/call" | "prompts/get" => "name",
            "resources/read" => "uri",
            "tasks/get" | "tasks/update" | "tasks/cancel" => "taskId",
            _ => return Ok(()),
        };
        let given = decode(NAME_HEADER.as_str(), header(headers, &NAME_HEADER)?)?;
        let expected = self.text(name).unwrap_or_default();
        expect(&given, NAME_HEADER.as_str(), &expected)
    }

    /// Compares the `Mcp-Param-` headers of a call with the arguments that the tool's schema marks.
    pub(super) fn check_argument_headers(
        &self,
        headers: &HeaderMap,
        tool: &ToolDefinition,
    ) -> Result<(), ErrorReply> {
        let arguments = self.get("arguments").map_or("{}", RawJson::as_str);
        for argument in tool.mirrored_arguments(arguments).map_err(mismatch)? {
            let name = format!("mcp-param-{}", argument.header.to_ascii_lowercase());
            match &argument.value {
                None if headers.contains_key(&name) => {
                    return Err(mismatch(format!(
                        "the header {name} is set, but the body has no such argument"
                    )));
                }
                None => {}
                Some(value) => {
                    let given = decode(&name, header(headers, &name)?)?;
                    if !argument.is_repeated_by(&given) {
                        expect(&given, &name, value)?;
                    }
                }
            }
        }
        Ok(())
    }
}

fn header(
    headers: &HeaderMap,
    name: impl AsHeaderName + Copy + fmt::Display,
) -> Result<&str, ErrorReply> {
    let mut values = headers.get_all(name).iter();
    let value = values
        .next()
        .ok_or_else(|| mismatch(format!("the header {name} is missing")))?;
    // A proxy may decide by another one.
    if values.next().is_some() {
        return Err(mismatch(format!("the header {name} is repeated")));
    }
    value
        .to_str()
        .map_err(|_| mismatch(format!("the header {name} is not plain ASCII text")))
}

fn expect(given: &str, name: &str, expected: &str) -> Result<(), ErrorReply> {
    if given == expected {
        return Ok(());
    }
    Err(mismatch(format!(
        "the header {name} is {given:?}, but the body has {expected:?}"
    )))
}

fn decode<'a>(name: &str, value: &'a str) -> Result<Cow<'a, str>, ErrorReply> {
    let encoded = value
        .strip_prefix(ENCODED.0)
        .and_then(|value| value.strip_suffix(ENCODED.1));
    let Some(encoded) = encoded else {
        return Ok(value.into());
    };
    let bytes = BASE64_STANDARD.decode(encoded).ok();
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    text.map(Cow::Owned)
        .ok_or_else(|| mismatch(format!("the header {name} is not base64 of UTF-8 text")))
}

fn mismatch(message: String) -> ErrorReply {
    ErrorReply::new(HEADER_MISMATCH, message)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::reply;

    fn check(pairs: &[(&'static str, &str)], method: &str, params: &str) -> Option<i64> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        let params = RequestParams::read(Some(&params.parse().unwrap())).unwrap();
        let checked = params.check_headers(&headers, method);
        checked.err().map(|fault| fault.code)
    }

    #[test]
    fn headers_and_body_of_a_modern_request_must_agree() {
        let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
        let version = (VERSION_HEADER.as_str(), "2026-07-28");
        let call = format!(r#"{{"name":"Hello, 世界",{meta}}}"#);
        let named = ("mcp-name", "=?base64?SGVsbG8sIOS4lueVjA==?=");
        let method = ("mcp-method", "tools/call");
        assert_eq!(check(&[version, method, named], "tools/call", &call), None);
        for wrong in [
            &[method, named][..],
            &[(VERSION_HEADER.as_str(), "2025-11-25"), method, named],
            &[version, named],
            &[version, ("mcp-method", "tools/list"), named],
            &[version, method],
            &[version, method, ("mcp-name", "hello")],
            &[version, method, ("mcp-name", "=?base64?SGk?=")],
            &[version, version, method, named],
            &[version, method, ("mcp-method", "tools/list"), named],
            &[version, method, named, ("mcp-name", "hello")],
        ] {
            let code = check(wrong, "tools/call", &call);
            assert_eq!(code, Some(HEADER_MISMATCH), "{wrong:?}");
        }
        for incomplete in [
            "{}",
            r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#,
        ] {
            let code = check(&[version, method, named], "tools/call", incomplete);
            assert_eq!(code, Some(reply::INVALID_PARAMS), "{incomplete}");
        }
        let list = format!("{{{meta}}}");
        let method = ("mcp-method", "tools/list");
        assert_eq!(check(&[version, method], "tools/list", &list), None);
        let read = format!(r#"{{"uri":"a://b",{meta}}}"#);
        let method = ("mcp-method", "resources/read");
        let named = ("mcp-name", "a://b");
        assert_eq!(
            check(&[version, method, named], "resources/read", &read),
            None
        );
    }
}
