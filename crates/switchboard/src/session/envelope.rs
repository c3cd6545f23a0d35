//! Requests and notifications as bytes, in either era.

use std::borrow::Cow;
use std::sync::OnceLock;

use serde_json::{Map, Value, json};

use super::{Era, Revision, tasks};
use crate::caller::Offers;
use crate::event::LogLevel;

/// One member of `params`: its key, its value as JSON text.
pub(super) type Field<'a> = (&'a str, &'a [u8]);

/// Who we say we are.
pub(super) fn our_info() -> Value {
    json!({"name": "switchboard", "title": "Switchboard", "version": env!("CARGO_PKG_VERSION")})
}

/// What we declare that a server may ask.
pub(super) fn capabilities(era: Era, offers: Offers, roots: bool) -> Value {
    let mut declared = Map::new();
    if offers.elicit_form || offers.elicit_url {
        let mut modes = Map::new();
        if offers.elicit_form {
            modes.insert("form".into(), json!({}));
        }
        if offers.elicit_url {
            modes.insert("url".into(), json!({}));
        }
        declared.insert("elicitation".into(), modes.into());
    }
    if offers.sampling {
        declared.insert(
            "sampling".into(),
            if offers.sampling_tools {
                json!({"tools": {}})
            } else {
                json!({})
            },
        );
    }
    if roots {
        declared.insert(
            "roots".into(),
            if era == Era::Legacy {
                json!({"listChanged": true})
            } else {
                json!({})
            },
        );
    }
    declared.into()
}

/// A request. `progress` asks for progress under the request's own id; `offers` is what a modern
/// request declares.
pub(super) fn request(
    era: Era,
    id: u64,
    method: &str,
    fields: &[Field<'_>],
    progress: bool,
    declared: &str,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(
        160 + fields
            .iter()
            .map(|(key, value)| key.len() + value.len() + 4)
            .sum::<usize>(),
    );
    let mut number = itoa::Buffer::new();
    let id = number.format(id).as_bytes();
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    out.extend_from_slice(id);
    out.extend_from_slice(br#","method":""#);
    out.extend_from_slice(method.as_bytes());
    out.extend_from_slice(br#"","params":{"#);
    let mut first = true;
    if era == Era::Modern || progress {
        out.extend_from_slice(br#""_meta":{"#);
        if era == Era::Modern {
            out.extend_from_slice(declared.as_bytes());
        }
        if progress {
            if era == Era::Modern {
                out.push(b',');
            }
            out.extend_from_slice(br#""progressToken":"#);
            out.extend_from_slice(id);
        }
        out.push(b'}');
        first = false;
    }
    for (key, value) in fields {
        if !std::mem::take(&mut first) {
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

/// The members of a modern request's `_meta`: version, who we are, what this caller offers. Each of
/// the few there are is written once.
pub(super) fn modern_meta(offers: Offers, roots: bool) -> &'static str {
    static WRITTEN: [OnceLock<String>; 32] = [const { OnceLock::new() }; 32];
    let Offers {
        elicit_form,
        elicit_url,
        sampling,
        sampling_tools,
    } = offers;
    let said = [elicit_form, elicit_url, sampling, sampling_tools, roots];
    let number = said
        .into_iter()
        .fold(0, |number, is_said| number * 2 + usize::from(is_said));
    WRITTEN[number].get_or_init(|| write_meta(offers, roots))
}

fn write_meta(offers: Offers, roots: bool) -> String {
    let mut capabilities = capabilities(Era::Modern, offers, roots);
    capabilities["extensions"] = json!({tasks::EXTENSION: {}});
    let members = json!({
        "io.modelcontextprotocol/protocolVersion": Revision::newest(Era::Modern).as_str(),
        "io.modelcontextprotocol/clientInfo": our_info(),
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    });
    let text = members.to_string();
    text[1..text.len() - 1].to_owned()
}

/// The same, with the level from which on the server may log during the request.
pub(super) fn with_log_level(declared: &str, level: Option<LogLevel>) -> Cow<'_, str> {
    match level {
        Some(level) => format!(
            r#"{declared},"io.modelcontextprotocol/logLevel":"{}""#,
            level.as_str()
        )
        .into(),
        None => declared.into(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_offer_has_words_of_its_own() {
        for number in 0..32 {
            let is_said = |bit: u32| number >> bit & 1 == 1;
            let offers = Offers {
                elicit_form: is_said(0),
                elicit_url: is_said(1),
                sampling: is_said(2),
                sampling_tools: is_said(3),
            };
            assert_eq!(
                modern_meta(offers, is_said(4)),
                write_meta(offers, is_said(4))
            );
        }
    }

    #[track_caller]
    fn check(era: Era, fields: &[Field<'_>], progress: bool, expected: &str) {
        let message = request(era, 7, "tools/call", fields, progress, r#""v":1"#);
        assert_eq!(String::from_utf8(message), Ok(expected.to_owned()));
    }

    /// S4-23: `tools/call` carries name and arguments, the arguments byte for byte.
    #[test]
    fn s4_23_requests_of_both_eras_are_spelled_as_the_specification_says() {
        let fields: &[Field<'_>] = &[("name", b"\"a\""), ("arguments", br#"{"b": 1.0 }"#)];
        check(
            Era::Legacy,
            &[],
            false,
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{}}"#,
        );
        check(
            Era::Legacy,
            fields,
            true,
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"_meta":{"progressToken":7},"name":"a","arguments":{"b": 1.0 }}}"#,
        );
        check(
            Era::Modern,
            fields,
            true,
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"_meta":{"v":1,"progressToken":7},"name":"a","arguments":{"b": 1.0 }}}"#,
        );
        check(
            Era::Modern,
            &[],
            false,
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"_meta":{"v":1}}}"#,
        );
    }
}
