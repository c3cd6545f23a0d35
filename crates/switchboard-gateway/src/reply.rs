//! Builds the messages of the gateway: responses, notifications and questions, with unchanged payloads.

use bytes::Bytes;
use serde_json::{Value, json};
use switchboard::RawJson;
use switchboard::call::CallError;
use switchboard::revision::Era;
use switchboard::session::RequestFault;
use switchboard::wire::RequestId;

pub(crate) const PARSE_ERROR: i64 = -32700;
pub(crate) const INVALID_REQUEST: i64 = -32600;
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
pub(crate) const INVALID_PARAMS: i64 = -32602;
pub(crate) const INTERNAL_ERROR: i64 = -32603;
pub(crate) const RESOURCE_NOT_FOUND: i64 = -32002;
pub(crate) const URL_ELICITATION_REQUIRED: i64 = -32042;
pub(crate) const UNSUPPORTED_VERSION: i64 = -32022;

/// A JSON-RPC error.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ErrorReply {
    pub(crate) code: i64,
    pub(crate) message: String,
    pub(crate) data: Option<RawJson>,
}

impl ErrorReply {
    pub(crate) fn new(code: i64, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            data: None,
        }
    }

    pub(crate) fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(INVALID_PARAMS, message)
    }

    pub(crate) fn with_data(mut self, data: &Value) -> Self {
        self.data = Some(RawJson::from_value(data));
        self
    }

    /// The error object, as JSON text.
    pub(crate) fn object(&self) -> Vec<u8> {
        let (code, message) = (self.code.to_string(), Value::from(self.message.as_str()));
        let message = message.to_string();
        let data = self
            .data
            .as_ref()
            .map(|data| ("data", &data.as_bytes()[..]));
        let members = [("code", code.as_bytes()), ("message", message.as_bytes())];
        object(members.into_iter().chain(data))
    }

    /// The error for a body that is no message.
    pub(crate) fn of_unreadable(body: &[u8]) -> Self {
        match serde_json::from_slice::<serde::de::IgnoredAny>(body) {
            Ok(_) => Self::new(INVALID_REQUEST, "not a JSON-RPC 2.0 message"),
            Err(_) => Self::new(PARSE_ERROR, "not JSON"),
        }
    }

    /// A server's own error, with its code and data; `None` for another fault.
    pub(crate) fn of_server(fault: &RequestFault) -> Option<Self> {
        match fault {
            RequestFault::ErrorResponse {
                code,
                message,
                data,
            } => Some(Self {
                code: *code,
                message: message.clone(),
                data: data.clone(),
            }),
            _ => None,
        }
    }

    /// The error of a request that is not a tool call: a server's own keeps its code.
    pub(crate) fn of_call(error: &CallError) -> Self {
        let fault = match error {
            CallError::Request { fault, .. } => Some(fault),
            _ => None,
        };
        fault.and_then(Self::of_server).unwrap_or_else(|| {
            let code = match fault {
                Some(RequestFault::NotSent(_) | RequestFault::NotSupported(_)) => METHOD_NOT_FOUND,
                _ => INTERNAL_ERROR,
            };
            Self::new(code, error.to_string())
        })
    }

    /// The error for an address that no server has.
    pub(crate) fn no_resource(uri: &str, era: Era) -> Self {
        let code = match era {
            Era::Legacy => RESOURCE_NOT_FOUND,
            Era::Modern => INVALID_PARAMS,
        };
        Self::new(code, "resource not found").with_data(&json!({"uri": uri}))
    }
}

/// A response with a result, which is JSON text.
pub(crate) fn result(id: &RequestId, result: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(result.len() + 64);
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    id.write(&mut out);
    out.extend_from_slice(br#","result":"#);
    out.extend_from_slice(result);
    out.push(b'}');
    out.into()
}

/// A response with an error; `None` is a message whose id could not be read.
pub(crate) fn error(id: Option<&RequestId>, error: &ErrorReply) -> Bytes {
    let mut out = br#"{"jsonrpc":"2.0","id":"#.to_vec();
    match id {
        Some(id) => id.write(&mut out),
        None => out.extend_from_slice(b"null"),
    }
    out.extend_from_slice(br#","error":"#);
    out.extend_from_slice(&error.object());
    out.push(b'}');
    out.into()
}

/// Whether one of the messages that are made here is a response.
pub(crate) fn is_response(message: &[u8]) -> bool {
    let Some(rest) = message.strip_prefix(br#"{"jsonrpc":"2.0","id":"#) else {
        return false;
    };
    // A question has a string id of ours; the key after the id distinguishes it from a response.
    let is_question = rest.first() == Some(&b'"')
        && rest[1..]
            .iter()
            .position(|byte| *byte == b'"')
            .is_some_and(|end| rest[end + 2..].starts_with(br#","method":"#));
    !is_question
}

/// A notification. `params` is JSON text.
pub(crate) fn notification(method: &str, params: &[u8]) -> Bytes {
    let mut out = format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":"#).into_bytes();
    out.extend_from_slice(params);
    out.push(b'}');
    out.into()
}

/// A request to the client under an id of ours. `params` is JSON text.
pub(crate) fn request(id: &str, method: &str, params: &[u8]) -> Bytes {
    let mut out =
        format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"{method}","params":"#).into_bytes();
    out.extend_from_slice(params);
    out.push(b'}');
    out.into()
}

/// The text of an object from its members, keys in quotes.
pub(crate) fn object<'a>(members: impl Iterator<Item = (&'a str, &'a [u8])>) -> Vec<u8> {
    let mut out = vec![b'{'];
    for (key, value) in members {
        if out.len() > 1 {
            out.push(b',');
        }
        out.extend_from_slice(Value::from(key).to_string().as_bytes());
        out.push(b':');
        out.extend_from_slice(value);
    }
    out.push(b'}');
    out
}

/// A result for a modern client, with the `resultType` that legacy servers do not send.
pub(crate) fn completed(result: &RawJson, extra: &str) -> Bytes {
    let text = result.as_str();
    let Some(rest) = text.strip_prefix('{') else {
        return result.as_bytes().clone();
    };
    if result.member("resultType").is_some() {
        return result.as_bytes().clone();
    }
    let separator = if rest.trim_start().starts_with('}') {
        ""
    } else {
        ","
    };
    format!(r#"{{"resultType":"complete"{extra}{separator}{rest}"#).into()
}

/// The result of a tool call that did not complete.
pub(crate) fn failed_call(message: &str) -> RawJson {
    RawJson::from_value(&json!({"content": [{"type": "text", "text": message}], "isError": true}))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn messages_keep_ids_and_payloads_as_they_came() {
        let mut id = None;
        switchboard::wire::parse(
            r#"{"id":"a\u0062","method":"x"}"#,
            &|text| text.parse().unwrap(),
            &mut |message| {
                if let switchboard::wire::Incoming::Request { id: read, .. } = message {
                    id = Some(read);
                }
            },
        )
        .unwrap();
        let id = id.unwrap();
        assert_eq!(
            result(&id, br#"{"a": 1.00}"#),
            r#"{"jsonrpc":"2.0","id":"a\u0062","result":{"a": 1.00}}"#
        );
        let fault = ErrorReply::new(-32000, "no \"way\"").with_data(&json!({"x": 1}));
        assert_eq!(
            error(Some(&id), &fault),
            r#"{"jsonrpc":"2.0","id":"a\u0062","error":{"code":-32000,"message":"no \"way\"","data":{"x":1}}}"#
        );
    }

    #[test]
    fn responses_are_distinguished_from_notifications_and_questions() {
        for id in ["1", "\"a\"", "\"a\\\"b\"", "null", "[1,\"method\"]"] {
            let message = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"method":1}}}}"#);
            assert!(is_response(message.as_bytes()), "{message}");
        }
        assert!(!is_response(&notification("a/b", b"{}")));
        assert!(!is_response(&request("q1", "a/b", b"{}")));
    }

    #[test]
    fn a_legacy_servers_result_is_complete_for_a_modern_client() {
        let check = |result: &str, expected: &str| {
            assert_eq!(completed(&result.parse().unwrap(), ""), expected);
        };
        check(
            r#"{"content":[]}"#,
            r#"{"resultType":"complete","content":[]}"#,
        );
        check("{ }", r#"{"resultType":"complete" }"#);
        let modern = r#"{"content":[], "resultType":"complete"}"#;
        check(modern, modern);
        check(
            r#"{"structuredContent":{"resultType":1}}"#,
            r#"{"resultType":"complete","structuredContent":{"resultType":1}}"#,
        );
        check(
            r#"{"text":"\u001b[1m"}"#,
            r#"{"resultType":"complete","text":"\u001b[1m"}"#,
        );
    }

    /// The gate has decided by it, so a client must not read another.
    #[test]
    fn t32_a_result_type_with_escapes_is_the_only_one() {
        let escaped = r#"{"result\u0054ype":"input_required","inputRequests":{"a": 1.0}}"#;
        assert_eq!(completed(&escaped.parse().unwrap(), ""), escaped);
    }
}
