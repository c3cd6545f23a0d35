//! JSON-RPC: splits a message without parsing its payload, and builds responses.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// One message, with its parts as text.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Message<'a> {
    #[serde(borrow)]
    jsonrpc: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) id: Option<&'a RawValue>,
    /// Empty in a response.
    #[serde(borrow)]
    pub(crate) method: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) params: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) result: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) error: Option<&'a RawValue>,
}

impl<'a> Message<'a> {
    /// Splits one JSON text; the fault is answered with `id: null`.
    pub(crate) fn parse(text: &'a [u8]) -> Result<Self, Fault> {
        // UTF-8 is checked once for the whole text instead of for every string.
        let text = std::str::from_utf8(text).map_err(|error| Fault::parse(&error))?;
        let message: Self = serde_json::from_str(text).map_err(|error| {
            if error.is_data() {
                Fault::invalid_request("not a JSON-RPC message")
            } else {
                Fault::parse(&error)
            }
        })?;
        let id_is_valid = message.id.is_none_or(|id| {
            id.get()
                .starts_with(|c: char| c == '"' || c == '-' || c.is_ascii_digit())
        });
        let is_response = message.result.is_some() || message.error.is_some();
        if message.jsonrpc != "2.0" {
            return Err(Fault::invalid_request("jsonrpc must be \"2.0\""));
        }
        if !id_is_valid {
            return Err(Fault::invalid_request("id must be a string or a number"));
        }
        if message.method.is_empty() && !is_response {
            return Err(Fault::invalid_request("method is missing"));
        }
        Ok(message)
    }
}

/// The params of any request. Parts that are not needed for routing stay text.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Params<'a> {
    #[serde(borrow)]
    pub(crate) name: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) arguments: Option<&'a RawValue>,
    #[serde(borrow, rename = "_meta")]
    pub(crate) meta: crate::era::Meta<'a>,
    #[serde(borrow)]
    pub(crate) input_responses: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) request_state: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) cursor: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) uri: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) level: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) protocol_version: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) capabilities: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) client_info: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) notifications: Option<&'a RawValue>,
    #[serde(borrow, rename = "ref")]
    pub(crate) reference: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) argument: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) task: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) task_id: Cow<'a, str>,
}

impl<'a> Params<'a> {
    pub(crate) fn parse(params: Option<&'a RawValue>) -> Result<Self, Fault> {
        match params {
            None => Ok(Self::default()),
            Some(params) if params.get().starts_with('{') => serde_json::from_str(params.get())
                .map_err(|error| Fault::invalid_params(format!("params: {error}"))),
            Some(_) => Err(Fault::invalid_params("params must be an object")),
        }
    }
}

/// Parses one part of the params.
pub(crate) fn read<'a, T: Deserialize<'a>>(
    name: &str,
    part: Option<&'a RawValue>,
) -> Result<T, Fault> {
    let part = part.ok_or_else(|| Fault::invalid_params(format!("{name} is missing")))?;
    serde_json::from_str(part.get())
        .map_err(|error| Fault::invalid_params(format!("{name}: {error}")))
}

/// The text of a JSON object that is, or goes into, a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Body(Vec<u8>);

impl Body {
    /// From JSON text: an object without trailing space.
    pub(crate) fn from_text(text: Vec<u8>) -> Self {
        debug_assert!(text.first() == Some(&b'{') && text.last() == Some(&b'}'));
        Self(text)
    }

    /// A tool result of one text, given as a JSON string.
    pub(crate) fn from_json_string(text: &str) -> Self {
        const BEFORE: &str = r#"{"content":[{"type":"text","text":"#;
        const AFTER: &str = "}]}";
        let mut body = Vec::with_capacity(BEFORE.len() + text.len() + AFTER.len());
        body.extend_from_slice(BEFORE.as_bytes());
        body.extend_from_slice(text.as_bytes());
        body.extend_from_slice(AFTER.as_bytes());
        Self(body)
    }

    /// A tool result of one text.
    pub(crate) fn from_message(words: impl AsRef<str>) -> Self {
        Self::from(json!({"content": [{"type": "text", "text": words.as_ref()}]}))
    }

    /// A tool result with `isError` and its reason.
    pub(crate) fn from_failure(words: impl AsRef<str>) -> Self {
        Self::from(json!({"content": [{"type": "text", "text": words.as_ref()}], "isError": true}))
    }

    /// Appends `{…fields, extra}`: the object with `extra` (text such as `,"a":1`, or nothing) as
    /// its last fields.
    pub(crate) fn write_with(&self, out: &mut Vec<u8>, extra: &str) {
        out.extend_from_slice(&self.0[..self.0.len() - 1]);
        out.extend_from_slice(
            if self.0.len() == 2 {
                extra.strip_prefix(',').unwrap_or(extra)
            } else {
                extra
            }
            .as_bytes(),
        );
        out.push(b'}');
    }
}

impl From<Value> for Body {
    fn from(value: Value) -> Self {
        debug_assert!(value.is_object());
        Self(value.to_string().into_bytes())
    }
}

/// Appends a reply with a result. `id` is the request's own text.
pub(crate) fn write_result(out: &mut Vec<u8>, id: &str, body: &Body, extra: &str) {
    out.reserve(body.0.len() + id.len() + extra.len() + 48);
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    out.extend_from_slice(id.as_bytes());
    out.extend_from_slice(br#","result":"#);
    body.write_with(out, extra);
    out.push(b'}');
}

/// Appends a notification.
pub(crate) fn write_notification(out: &mut Vec<u8>, method: &str, params: &Value) {
    write_value(
        out,
        &json!({"jsonrpc": "2.0", "method": method, "params": params}),
    );
}

/// Appends any JSON value.
pub(crate) fn write_value(out: &mut Vec<u8>, value: &Value) {
    serde_json::to_writer(out, value)
        .expect("a JSON value always has a text, and a Vec always has room");
}

/// What a fault is about; HTTP has a status for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Concern {
    /// The message or its `_meta`: it was not handled further.
    Message,
    /// The method: it is unknown.
    Method,
    /// The request itself.
    Request,
}

/// Why a request has no result.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fault {
    pub(crate) concern: Concern,
    code: i32,
    message: String,
    data: Option<Value>,
}

impl Fault {
    pub(crate) fn parse(error: &dyn std::error::Error) -> Self {
        Self {
            concern: Concern::Message,
            code: -32700,
            message: format!("not JSON: {error}"),
            data: None,
        }
    }

    pub(crate) fn invalid_request(message: impl Into<String>) -> Self {
        Self {
            concern: Concern::Message,
            code: -32600,
            message: message.into(),
            data: None,
        }
    }

    pub(crate) fn unknown_method(method: &str) -> Self {
        Self {
            concern: Concern::Method,
            code: -32601,
            message: format!("unknown method {method:?}"),
            data: None,
        }
    }

    pub(crate) fn invalid_params(message: impl Into<String>) -> Self {
        Self {
            concern: Concern::Request,
            code: -32602,
            message: message.into(),
            data: None,
        }
    }

    /// The code differs: 2026-07-28 retired the legacy one.
    pub(crate) fn no_resource(uri: &str, is_modern: bool) -> Self {
        let code = if is_modern { -32602 } else { -32002 };
        Self {
            concern: Concern::Request,
            code,
            message: format!("no resource {uri:?}"),
            data: Some(json!({"uri": uri})),
        }
    }

    pub(crate) fn missing_capability(required: Value) -> Self {
        let message = "the request needs a capability that it did not declare".to_owned();
        let data = Some(json!({"requiredCapabilities": required}));
        Self {
            concern: Concern::Message,
            code: -32021,
            message,
            data,
        }
    }

    pub(crate) fn unsupported_version(requested: &str) -> Self {
        let data = json!({"supported": [crate::era::MODERN_VERSION], "requested": requested});
        let message = format!("unsupported protocol version {requested:?}");
        Self {
            concern: Concern::Message,
            code: -32022,
            message,
            data: Some(data),
        }
    }

    /// A modern request without its required `_meta`.
    pub(crate) fn invalid_meta(message: impl Into<String>) -> Self {
        Self {
            concern: Concern::Message,
            ..Self::invalid_params(message)
        }
    }

    /// A header that differs from the body.
    pub(crate) fn header_mismatch(message: impl Into<String>) -> Self {
        Self {
            concern: Concern::Message,
            code: -32020,
            message: message.into(),
            data: None,
        }
    }

    /// A refusal by the transport, with a code outside the protocol.
    pub(crate) fn edge(code: i32, message: impl Into<String>) -> Self {
        Self {
            concern: Concern::Message,
            code,
            message: message.into(),
            data: None,
        }
    }

    pub(crate) fn internal(message: &str) -> Self {
        Self {
            concern: Concern::Request,
            code: -32603,
            message: message.to_owned(),
            data: None,
        }
    }

    /// The error object.
    pub(crate) fn as_value(&self) -> Value {
        let mut error = json!({"code": self.code, "message": self.message});
        if let Some(data) = &self.data {
            error["data"] = data.clone();
        }
        error
    }

    /// Appends the error response.
    pub(crate) fn write(&self, out: &mut Vec<u8>, id: &str) {
        let error = self.as_value();
        out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
        out.extend_from_slice(id.as_bytes());
        out.extend_from_slice(br#","error":"#);
        write_value(out, &error);
        out.push(b'}');
    }
}
