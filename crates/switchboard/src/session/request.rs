//! Requests and notifications as bytes.

use serde_json::{Map, Value, json};

use crate::caller::Offers;
use crate::revision::Revision;

/// One member of `params`: its key, and its value as JSON text.
pub(super) type ParamField<'a> = (&'a str, &'a [u8]);

/// A request to the server. [`legacy::request`](super::legacy::request) and
/// [`modern::request`](super::modern::request) make one.
#[derive(Clone, Copy)]
pub(super) struct OutboundRequest<'a> {
    pub(super) method: &'a str,
    pub(super) fields: &'a [ParamField<'a>],
    /// Members of `_meta` as JSON text, or empty. Every modern request has some.
    pub(super) meta: &'a str,
    /// The revision that a modern request names in a header.
    pub(super) revision: Option<Revision>,
    /// The header `Mcp-Name`.
    pub(super) name: Option<&'a str>,
    /// The headers `Mcp-Param-*`.
    pub(super) parameters: &'a [(String, String)],
    /// Whether it does no harm to send it twice.
    pub(super) is_idempotent: bool,
}

impl OutboundRequest<'_> {
    /// The message. `reports_progress` asks for progress under the request's own id.
    pub(super) fn encode(&self, id: u64, reports_progress: bool) -> Vec<u8> {
        let fields = self.fields.iter();
        let fields_len: usize = fields.map(|(key, value)| key.len() + value.len() + 4).sum();
        let mut out = Vec::with_capacity(160 + fields_len);
        let mut number = itoa::Buffer::new();
        let id = number.format(id).as_bytes();
        out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
        out.extend_from_slice(id);
        out.extend_from_slice(br#","method":""#);
        out.extend_from_slice(self.method.as_bytes());
        out.extend_from_slice(br#"","params":{"#);
        let mut is_first = true;
        if !self.meta.is_empty() || reports_progress {
            out.extend_from_slice(br#""_meta":{"#);
            out.extend_from_slice(self.meta.as_bytes());
            if reports_progress {
                if !self.meta.is_empty() {
                    out.push(b',');
                }
                out.extend_from_slice(br#""progressToken":"#);
                out.extend_from_slice(id);
            }
            out.push(b'}');
            is_first = false;
        }
        for (key, value) in self.fields {
            if !std::mem::take(&mut is_first) {
                out.push(b',');
            }
            out.push(b'"');
            out.extend_from_slice(key.as_bytes());
            out.extend_from_slice(br#"":"#);
            out.extend_from_slice(value);
        }
        out.extend_from_slice(b"}}");
        out
    }
}

/// A notification.
pub(super) fn notification(method: &str, params: &Value) -> Vec<u8> {
    let mut message = Map::new();
    message.insert("jsonrpc".into(), "2.0".into());
    message.insert("method".into(), method.into());
    if !params.is_null() {
        message.insert("params".into(), params.clone());
    }
    Value::from(message).to_string().into_bytes()
}

/// A JSON string.
pub(super) fn string(text: &str) -> Vec<u8> {
    serde_json::to_vec(text).expect("text serialises")
}

/// `clientInfo`, in either era.
pub(super) fn client_info() -> Value {
    json!({"name": "switchboard", "title": "Switchboard", "version": env!("CARGO_PKG_VERSION")})
}

/// The client capabilities, in either era. `roots` is what that capability holds, where roots are
/// offered.
pub(super) fn client_capabilities(offers: Offers, roots: Option<Value>) -> Value {
    let mut capabilities = Map::new();
    if offers.elicit_form || offers.elicit_url {
        let mut modes = Map::new();
        if offers.elicit_form {
            modes.insert("form".into(), json!({}));
        }
        if offers.elicit_url {
            modes.insert("url".into(), json!({}));
        }
        capabilities.insert("elicitation".into(), modes.into());
    }
    if offers.sampling {
        let tools = offers.sampling_tools;
        let sampling = if tools {
            json!({"tools": {}})
        } else {
            json!({})
        };
        capabilities.insert("sampling".into(), sampling);
    }
    if let Some(roots) = roots {
        capabilities.insert("roots".into(), roots);
    }
    capabilities.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(meta: &str, fields: &[ParamField<'_>], reports_progress: bool, expected: &str) {
        let request = OutboundRequest {
            meta,
            ..super::super::legacy::request("tools/call", fields)
        };
        let message = request.encode(7, reports_progress);
        assert_eq!(String::from_utf8(message), Ok(expected.to_owned()));
    }

    /// S4-23: `tools/call` carries name and arguments, the arguments byte for byte.
    #[test]
    fn s4_23_requests_of_both_eras_are_spelled_as_the_specification_says() {
        let fields: &[ParamField<'_>] = &[("name", b"\"a\""), ("arguments", br#"{"b": 1.0 }"#)];
        let modern = r#""v":1"#;
        check(
            "",
            &[],
            false,
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{}}"#,
        );
        check(
            "",
            fields,
            true,
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"_meta":{"progressToken":7},"name":"a","arguments":{"b": 1.0 }}}"#,
        );
        check(
            modern,
            fields,
            true,
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"_meta":{"v":1,"progressToken":7},"name":"a","arguments":{"b": 1.0 }}}"#,
        );
        check(
            modern,
            &[],
            false,
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"_meta":{"v":1}}}"#,
        );
    }
}
