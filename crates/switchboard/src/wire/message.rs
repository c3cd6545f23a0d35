//! One JSON-RPC message: what is routed on is taken out, the rest stays the bytes that came.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::scan::{self, Syntax};
use super::{NotJson, RawJson};

/// The id of a request: ours are integers; a server's may be either, and goes back exactly as it
/// came.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RequestId {
    /// An integer, such as those we give.
    Number(u64),
    /// Anything else, as JSON text.
    Other(RawJson),
}

impl RequestId {
    /// Reads an id from its JSON text. `1.0`, `"1"` and `01` are not the number 1.
    fn read(text: &str) -> Self {
        // What the scan let through is JSON: no sign, no leading zero.
        text.parse()
            .map_or_else(|_| Self::Other(RawJson::keep(text)), Self::Number)
    }

    /// Writes it exactly as it came.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Number(number) => {
                out.extend_from_slice(itoa::Buffer::new().format(*number).as_bytes())
            }
            Self::Other(raw) => out.extend_from_slice(raw.as_bytes()),
        }
    }
}

/// One message that arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Incoming {
    /// The server asks.
    Request {
        /// To be given back exactly.
        id: RequestId,
        /// What it wants.
        method: String,
        /// As they came.
        params: Option<RawJson>,
    },
    /// The server tells.
    Notification {
        /// What.
        method: String,
        /// As they came.
        params: Option<RawJson>,
    },
    /// The server answers with a result.
    Result {
        /// Of which request.
        id: RequestId,
        /// As it came.
        result: RawJson,
    },
    /// The server answers with an error.
    Error {
        /// Of which request; `None` for `null`.
        id: Option<RequestId>,
        /// As it came.
        error: RawJson,
    },
}

/// One message on its way out: the bytes, and what a wire may want to say about them beside.
#[derive(Debug, Clone, Copy)]
pub struct Outgoing<'a> {
    /// The id, of a request.
    pub id: Option<u64>,
    /// The method, of a request or notification.
    pub method: Option<&'a str>,
    /// The whole message, one line of JSON without its newline.
    pub body: &'a [u8],
    /// What HTTP says in headers; other wires leave it out.
    pub beside: Beside<'a>,
}

/// What HTTP says in headers beside a modern message, so that whatever stands between can route it
/// without reading it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Beside<'a> {
    /// The revision that a modern message speaks. A legacy one speaks what its session agreed on.
    pub version: Option<&'a str>,
    /// `params.name` or `params.uri`.
    pub name: Option<&'a str>,
    /// Arguments that the tool's schema wants mirrored (`x-mcp-header`): the part of the name
    /// after `Mcp-Param-`, and the value as text.
    pub parameters: &'a [(String, String)],
}

/// Reads one message, or a batch of them (2025-03-26), and gives each to `each`. `keep` decides
/// whether values are copied or shared.
pub fn parse(
    text: &str,
    keep: &dyn Fn(&str) -> RawJson,
    each: &mut dyn FnMut(Incoming),
) -> Result<(), NotJson> {
    if text.trim_ascii_start().starts_with('[') {
        let batch: Vec<&RawValue> =
            serde_json::from_str(text).map_err(|error| NotJson(error.to_string()))?;
        let messages = batch
            .into_iter()
            .map(|member| open(member.get(), keep))
            .collect::<Result<Vec<_>, _>>()?;
        messages.into_iter().for_each(each);
        return Ok(());
    }
    each(open(text, keep)?);
    Ok(())
}

/// The members that are routed on, as they stand.
#[derive(Default)]
struct Envelope<'a> {
    id: Option<&'a str>,
    method: Option<&'a str>,
    params: Option<&'a str>,
    result: Option<&'a str>,
    error: Option<&'a str>,
}

fn open(text: &str, keep: &dyn Fn(&str) -> RawJson) -> Result<Incoming, NotJson> {
    let mut envelope = Envelope::default();
    scan::members(text, |key, value| {
        let place = match &*unescaped(key)? {
            "id" => &mut envelope.id,
            "method" => &mut envelope.method,
            "params" => &mut envelope.params,
            "result" => &mut envelope.result,
            "error" => &mut envelope.error,
            _ => return Ok(()),
        };
        // Two of one name: nobody could say which is meant.
        place.replace(value).map_or(Ok(()), |_| Err(Syntax))
    })
    .map_err(|Syntax| NotJson("not a JSON object".into()))?;
    let id = envelope.id.filter(|id| *id != "null").map(RequestId::read);
    match (
        envelope.method.map(method).transpose()?,
        id,
        envelope.result,
        envelope.error,
    ) {
        (Some(method), Some(id), _, _) => Ok(Incoming::Request {
            id,
            method,
            params: envelope.params.map(keep),
        }),
        (Some(method), None, _, _) => Ok(Incoming::Notification {
            method,
            params: envelope.params.map(keep),
        }),
        (None, Some(id), Some(result), None) => Ok(Incoming::Result {
            id,
            result: keep(result),
        }),
        (None, id, None, Some(error)) => Ok(Incoming::Error {
            id,
            error: keep(error),
        }),
        _ => Err(NotJson("neither a request nor an answer".into())),
    }
}

/// A key may be spelled with escapes, though nobody does.
fn unescaped(key: &str) -> Result<Cow<'_, str>, Syntax> {
    if !key.contains('\\') {
        return Ok(Cow::Borrowed(key));
    }
    serde_json::from_str(&format!("\"{key}\""))
        .map(Cow::Owned)
        .map_err(|_| Syntax)
}

fn method(text: &str) -> Result<String, NotJson> {
    serde_json::from_str(text).map_err(|_| NotJson("method is no string".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> RawJson {
        RawJson::parse(text.to_owned()).expect("a test writes JSON")
    }

    #[track_caller]
    fn check(text: &str, expected: Result<Vec<Incoming>, ()>) {
        let mut got = Vec::new();
        let outcome = parse(text, &RawJson::keep, &mut |message| got.push(message));
        assert_eq!(outcome.map(|()| got).map_err(drop), expected, "{text}");
    }

    /// Decision 1: bytes of params and results are untouched, whatever stands in them.
    #[test]
    fn values_are_kept_byte_for_byte() {
        let odd = r#"{"z":1e400, "a":12345678901234567890123,"z":0.70,"\u0041":[ ]}"#;
        check(
            &format!(r#" {{"x":9,"result":{odd},"jsonrpc":"2.0","id":7}}"#),
            Ok(vec![Incoming::Result {
                id: RequestId::Number(7),
                result: raw(odd),
            }]),
        );
    }

    #[test]
    fn f6_ids_are_compared_exactly() {
        for (text, id) in [
            ("1", RequestId::Number(1)),
            ("18446744073709551615", RequestId::Number(u64::MAX)),
            (
                "18446744073709551616",
                RequestId::Other(raw("18446744073709551616")),
            ),
            ("\"1\"", RequestId::Other(raw("\"1\""))),
            ("1.0", RequestId::Other(raw("1.0"))),
            ("-1", RequestId::Other(raw("-1"))),
        ] {
            check(
                &format!(r#"{{"id":{text},"result":null}}"#),
                Ok(vec![Incoming::Result {
                    id: id.clone(),
                    result: raw("null"),
                }]),
            );
            let mut written = Vec::new();
            id.write(&mut written);
            assert_eq!(written, text.as_bytes());
        }
    }

    #[test]
    fn kinds_are_told_apart() {
        check(
            r#"{"jsonrpc":"2.0","id":"q","method":"ping"}"#,
            Ok(vec![Incoming::Request {
                id: RequestId::Other(raw("\"q\"")),
                method: "ping".into(),
                params: None,
            }]),
        );
        check(
            r#"{"method":"notifications/x","params":{"a":1}}"#,
            Ok(vec![Incoming::Notification {
                method: "notifications/x".into(),
                params: Some(raw(r#"{"a":1}"#)),
            }]),
        );
        check(
            r#"{"id":null,"error":{"code":-32700,"message":"m"}}"#,
            Ok(vec![Incoming::Error {
                id: None,
                error: raw(r#"{"code":-32700,"message":"m"}"#),
            }]),
        );
        for junk in [
            "",
            "npm warn",
            "1",
            "{}",
            r#"{"id":1}"#,
            r#"{"result":1}"#,
            r#"{"id":1,"result":1,"error":2}"#,
            "\u{1b}[2J{}",
        ] {
            check(junk, Err(()));
        }
    }

    #[test]
    fn a_batch_is_received_in_order() {
        check(
            r#" [{"id":1,"result":1},{"method":"n"}]"#,
            Ok(vec![
                Incoming::Result {
                    id: RequestId::Number(1),
                    result: raw("1"),
                },
                Incoming::Notification {
                    method: "n".into(),
                    params: None,
                },
            ]),
        );
    }

    /// F5: the raw path carries any depth without a stack to overflow.
    #[test]
    fn f5_a_hundred_thousand_levels_pass_untouched() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        check(
            &format!(r#"{{"id":1,"result":{deep}}}"#),
            Ok(vec![Incoming::Result {
                id: RequestId::Number(1),
                result: RawJson::parse(deep.clone()).expect("deep JSON is JSON"),
            }]),
        );
        assert_eq!(
            RawJson::parse(deep).map(|raw| raw.to_value()),
            Ok(Err(NotJson("nested deeper than 128".into())))
        );
    }
}
