//! Checks that the headers of a modern request match its body.

use data_encoding::BASE64;
use hyper::HeaderMap;
use serde_json::{Map, Value};

use super::session::VERSION_HEADER;
use crate::rpc::{Fault, Params};
use crate::tools;

/// The text around a base64 value, for values that a header cannot carry.
const ENCODED: (&str, &str) = ("=?base64?", "?=");

/// Checks the revision, if the body names one.
pub(super) fn check_version(headers: &HeaderMap, params: &Params<'_>) -> Result<(), Fault> {
    if !params.meta.is_modern() {
        return Ok(());
    }
    expect(
        header(headers, VERSION_HEADER)?,
        VERSION_HEADER,
        &params.meta.version,
    )
}

/// Checks all other headers.
pub(super) fn check(headers: &HeaderMap, method: &str, params: &Params<'_>) -> Result<(), Fault> {
    expect(header(headers, "mcp-method")?, "mcp-method", method)?;
    let name = match method {
        "tools/call" | "prompts/get" => &params.name,
        "resources/read" => &params.uri,
        _ => return Ok(()),
    };
    expect(
        &decode("mcp-name", header(headers, "mcp-name")?)?,
        "mcp-name",
        name,
    )?;
    if method == "tools/call" {
        check_arguments(headers, params)
    } else {
        Ok(())
    }
}

/// The arguments that the tool's schema marks with `x-mcp-header`.
fn check_arguments(headers: &HeaderMap, params: &Params<'_>) -> Result<(), Fault> {
    let mirrored = tools::mirrored(&params.name);
    if mirrored.is_empty() {
        return Ok(());
    }
    let arguments: Map<String, Value> = params
        .arguments
        .and_then(|arguments| serde_json::from_str(arguments.get()).ok())
        .unwrap_or_default();
    for (argument, suffix) in mirrored {
        let name = format!("mcp-param-{}", suffix.to_ascii_lowercase());
        let value = arguments.get(*argument).filter(|value| !value.is_null());
        match (value, headers.contains_key(&name)) {
            (None, false) => {}
            (None, true) => {
                return Err(Fault::header_mismatch(format!(
                    "the header {name} is set, but the argument {argument} is missing"
                )));
            }
            (Some(value), _) => {
                let said = decode(&name, header(headers, &name)?)?;
                if !is_same(value, &said) {
                    return Err(Fault::header_mismatch(format!(
                        "the header {name} is {said:?}, but {argument} is {value}"
                    )));
                }
            }
        }
    }
    Ok(())
}

fn is_same(value: &Value, said: &str) -> bool {
    match value {
        Value::String(text) => text == said,
        // 1.0 and 1 are the same number.
        Value::Number(number) if number.is_f64() => said.parse().ok() == number.as_f64(),
        Value::Number(number) => number.to_string() == said || said.parse().ok() == number.as_f64(),
        Value::Bool(flag) => said == if *flag { "true" } else { "false" },
        _ => false,
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Result<&'a str, Fault> {
    let value = headers
        .get(name)
        .ok_or_else(|| Fault::header_mismatch(format!("the header {name} is missing")))?;
    value
        .to_str()
        .map_err(|_| Fault::header_mismatch(format!("the header {name} has invalid characters")))
}

fn expect(said: &str, name: &str, expected: &str) -> Result<(), Fault> {
    if said == expected {
        return Ok(());
    }
    Err(Fault::header_mismatch(format!(
        "the header {name} is {said:?}, but the body has {expected:?}"
    )))
}

fn decode(name: &str, value: &str) -> Result<String, Fault> {
    let Some(encoded) = value
        .strip_prefix(ENCODED.0)
        .and_then(|value| value.strip_suffix(ENCODED.1))
    else {
        return Ok(value.to_owned());
    };
    let bytes = BASE64.decode(encoded.as_bytes()).ok();
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    text.ok_or_else(|| {
        Fault::header_mismatch(format!("the header {name} is not base64 of UTF-8 text"))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn encoded_values_are_decoded_and_broken_ones_refused() {
        for (value, expected) in [
            ("us-west1", Some("us-west1")),
            ("=?base64?SGVsbG8sIOS4lueVjA==?=", Some("Hello, 世界")),
            (
                "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=",
                Some("=?base64?literal?="),
            ),
            ("=?BASE64?SGk=?=", Some("=?BASE64?SGk=?=")),
            ("=?base64?SGk?=", None),
            ("=?base64?!!!!?=", None),
            ("=?base64?/w==?=", None),
        ] {
            assert_eq!(decode("it", value).ok().as_deref(), expected, "{value}");
        }
    }

    #[test]
    fn mirrored_values_are_compared_by_type() {
        for (value, said, expected) in [
            ("\"a\"", "a", true),
            ("42", "42", true),
            ("42", "42.0", true),
            ("42", "43", false),
            ("9007199254740993", "9007199254740993", true),
            ("true", "true", true),
            ("true", "True", false),
            ("[1]", "[1]", false),
        ] {
            assert_eq!(
                is_same(&serde_json::from_str(value).unwrap(), said),
                expected,
                "{value} {said}"
            );
        }
    }
}
