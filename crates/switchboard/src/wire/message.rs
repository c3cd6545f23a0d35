//! One JSON-RPC message: the members needed for routing are parsed, the rest stays bytes.
//!
//! Instructions of [`parse`] by callgrind, before strings were scanned 16 bytes at a time, against an
//! envelope of borrowed `RawValue` members of `serde_json`: for a response of 102 bytes 900 in the
//! usual layout and 1,570 in another, against 2,670; for a notification of 145 bytes 2,250 against
//! 3,100; for 1 MiB of text 3.4 million against 4.5 million, for 1 MiB of small values 11.5 million
//! against 22.9 million.

use std::borrow::Cow;

use super::bounded::BoundedList;
use super::scan::{self, ScanError, plain_end};
use super::{NotJson, RawJson, string_text};

/// The most messages in a batch.
const MAX_BATCH: usize = 100;

/// The id of a request. Ours are integers; a server's may be any JSON value, and is returned
/// byte for byte.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RequestId {
    /// An integer, as in our own requests.
    Number(u64),
    /// Anything else, as JSON text.
    Other(RawJson),
}

impl RequestId {
    /// Reads an id from its JSON text. `1.0`, `"1"` and `01` are not the number 1.
    pub(crate) fn read(text: &str) -> Self {
        // The scanner accepts JSON alone, so there is no plus sign and no leading zero.
        text.parse()
            .map_or_else(|_| Self::Other(RawJson::keep(text)), Self::Number)
    }

    /// Writes it exactly as it was received.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Number(number) => {
                out.extend_from_slice(itoa::Buffer::new().format(*number).as_bytes())
            }
            Self::Other(raw) => out.extend_from_slice(raw.as_bytes()),
        }
    }
}

/// One received message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Incoming {
    /// A request of the server.
    Request {
        /// The id, which the response repeats exactly.
        id: RequestId,
        /// The method.
        method: Cow<'static, str>,
        /// The params, unparsed.
        params: Option<RawJson>,
    },
    /// A notification of the server.
    Notification {
        /// The method.
        method: Cow<'static, str>,
        /// The params, unparsed.
        params: Option<RawJson>,
    },
    /// A response with a result.
    Result {
        /// The id of the request.
        id: RequestId,
        /// The result, unparsed.
        result: RawJson,
    },
    /// A response with an error.
    Error {
        /// The id of the request; `None` for `null`.
        id: Option<RequestId>,
        /// The error object, unparsed.
        error: RawJson,
    },
}

/// One message to send: the bytes, and the metadata that HTTP repeats in headers.
#[derive(Debug, Clone, Copy)]
pub struct Outgoing<'a> {
    /// The id, if this is a request.
    pub id: Option<u64>,
    /// The method, if this is a request or a notification.
    pub method: Option<&'a str>,
    /// The whole message, one line of JSON without its newline.
    pub body: &'a [u8],
    /// Sent as headers over HTTP; other transports ignore it.
    pub metadata: RequestMetadata<'a>,
}

/// What HTTP repeats in the headers of a modern message, so that intermediaries can route it without
/// parsing the body.
#[derive(Debug, Clone, Copy, Default)]
pub struct RequestMetadata<'a> {
    /// The protocol version of a modern message. A legacy message uses its session's version.
    pub version: Option<&'a str>,
    /// `params.name` or `params.uri`.
    pub name: Option<&'a str>,
    /// Arguments that the tool's schema mirrors in headers (`x-mcp-header`): the part of the header
    /// name after `Mcp-Param-`, and the value as text.
    pub parameters: &'a [(String, String)],
}

/// Parses one message, or a batch of at most 100 (2025-03-26), and passes each to `each`. `keep` copies or
/// shares the values.
pub fn parse(
    text: &str,
    keep: &dyn Fn(&str) -> RawJson,
    each: &mut dyn FnMut(Incoming),
) -> Result<(), NotJson> {
    parse_with(text, keep, each, InvalidMember::RefusesBatch)
}

/// The same for a server's messages, compiled into its caller, which passes it for every response. The
/// valid messages of a batch are passed to `each` also if others are not valid.
#[inline]
pub(crate) fn parse_inline(
    text: &str,
    keep: impl Fn(&str) -> RawJson,
    each: impl FnMut(Incoming),
) -> Result<(), NotJson> {
    parse_with(text, keep, each, InvalidMember::IsSkipped)
}

/// What an invalid member of a batch does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum InvalidMember {
    RefusesBatch,
    IsSkipped,
}

#[inline]
fn parse_with(
    text: &str,
    keep: impl Fn(&str) -> RawJson,
    mut each: impl FnMut(Incoming),
    invalid_member: InvalidMember,
) -> Result<(), NotJson> {
    let Some((id, result)) = scan::plain_response(text) else {
        return parse_any(text, &keep, &mut each, invalid_member);
    };
    each(Incoming::Result {
        id: RequestId::Number(id),
        result: keep(result),
    });
    Ok(())
}

fn parse_any(
    text: &str,
    keep: &dyn Fn(&str) -> RawJson,
    each: &mut dyn FnMut(Incoming),
    invalid_member: InvalidMember,
) -> Result<(), NotJson> {
    if !text.trim_ascii_start().starts_with('[') {
        each(open(text, keep)?);
        return Ok(());
    }
    let batch: BoundedList<'_, MAX_BATCH> = serde_json::from_str(text)?;
    let members = batch
        .elements()
        .map_err(|_| NotJson(format!("a batch of more than {MAX_BATCH} messages")))?;
    let read = members.into_iter().map(|member| open(member.get(), keep));
    let (messages, faults): (Vec<_>, Vec<_>) = read.partition(Result::is_ok);
    let fault = faults.into_iter().find_map(Result::err);
    if fault.is_none() || invalid_member == InvalidMember::IsSkipped {
        messages.into_iter().flatten().for_each(each);
    }
    fault.map_or(Ok(()), Err)
}

/// The members needed for routing, as JSON text.
#[derive(Default)]
struct Envelope<'a> {
    id: Option<&'a str>,
    method: Option<&'a str>,
    params: Option<&'a str>,
    result: Option<&'a str>,
    error: Option<&'a str>,
}

impl<'a> Envelope<'a> {
    fn place(&mut self, key: &str) -> Option<&mut Option<&'a str>> {
        match key {
            "id" => Some(&mut self.id),
            "method" => Some(&mut self.method),
            "params" => Some(&mut self.params),
            "result" => Some(&mut self.result),
            "error" => Some(&mut self.error),
            _ => None,
        }
    }
}

fn open(text: &str, keep: &dyn Fn(&str) -> RawJson) -> Result<Incoming, NotJson> {
    let mut envelope = Envelope::default();
    scan::members(text, |key, value| {
        let place = match envelope.place(key) {
            None if key.contains('\\') => envelope.place(&unescaped(key)?),
            place => place,
        };
        // A repeated member is ambiguous.
        match place {
            Some(place) => place.replace(value).map_or(Ok(()), |_| Err(ScanError)),
            None => Ok(()),
        }
    })
    .map_err(|ScanError| NotJson("not a JSON object".into()))?;
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
        // Some servers write both members, one of them null.
        (None, Some(id), Some(result), None | Some("null")) => Ok(Incoming::Result {
            id,
            result: keep(result),
        }),
        (None, id, None | Some("null"), Some(error)) => Ok(Incoming::Error {
            id,
            error: keep(error),
        }),
        _ => Err(NotJson("neither a request nor a response".into())),
    }
}

/// The text of a key. It may contain escapes, though in practice none does.
pub(super) fn unescaped(key: &str) -> Result<Cow<'_, str>, ScanError> {
    match plain_end(key.as_bytes(), 0) == key.len() {
        true => Ok(Cow::Borrowed(key)),
        false => serde_json::from_str(&format!("\"{key}\"")).map_err(|_| ScanError),
    }
}

fn method(json: &str) -> Result<Cow<'static, str>, NotJson> {
    let text = string_text(json).ok_or_else(|| NotJson("`method` is not a string".into()))?;
    Ok(match frequent_name(&text) {
        Some(name) => Cow::Borrowed(name),
        None => text.into_owned().into(),
    })
}

/// The method that can only be sent with a [`Permit`](crate::gate::Permit).
pub(crate) const TOOLS_CALL: &str = "tools/call";

/// The methods and members of most messages, which need no allocation.
pub(super) fn frequent_name(text: &str) -> Option<&'static str> {
    const NAMES: [&str; 6] = [
        "name",
        "arguments",
        "_meta",
        TOOLS_CALL,
        "notifications/message",
        "notifications/progress",
    ];
    NAMES.into_iter().find(|name| *name == text)
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
        // Some servers write both members of a response.
        let answered = |id: u64, result: &str| Incoming::Result {
            id: RequestId::Number(id),
            result: raw(result),
        };
        check(
            r#"{"id":1,"result":{},"error":null}"#,
            Ok(vec![answered(1, "{}")]),
        );
        check(
            r#"{"error":null,"id":1,"result":null}"#,
            Ok(vec![answered(1, "null")]),
        );
        check(
            r#"{"id":1,"result":null,"error":{"code":1,"message":"m"}}"#,
            Ok(vec![Incoming::Error {
                id: Some(RequestId::Number(1)),
                error: raw(r#"{"code":1,"message":"m"}"#),
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

    #[test]
    fn p3_a_batch_of_too_many_messages_is_refused() {
        let batch = |members: usize| format!("[{}]", vec![r#"{"method":"n"}"#; members].join(","));
        let one = Incoming::Notification {
            method: "n".into(),
            params: None,
        };
        check(&batch(100), Ok(vec![one; 100]));
        check(&batch(101), Err(()));
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
