//! Tools that compute their answer from their arguments: `echo`, `add`, `big`, `whoami`, `route`,
//! `fail`, and the generated ones.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Number, Value, json};

use crate::exchange::Call;
use crate::rpc::Body;

/// The largest answer, to bound our own memory.
const BIG_LIMIT_BYTES: usize = 64 << 20;

/// Returns its argument. The text passes unchanged, escapes included: benchmarks call this one.
pub(super) fn echo(call: &Call<'_>) -> Body {
    #[derive(Deserialize)]
    struct Arguments<'a> {
        #[serde(borrow)]
        message: &'a RawValue,
    }
    match call.arguments::<Arguments<'_>>() {
        Ok(Arguments { message }) if message.get().starts_with('"') => {
            Body::from_json_string(message.get())
        }
        Ok(_) => Body::from_failure("wrong arguments for echo: message must be a string"),
        Err(failure) => failure,
    }
}

/// Adds two numbers: whole ones exactly, as long as the sum has room.
pub(super) fn add(call: &Call<'_>) -> Body {
    #[derive(Deserialize)]
    struct Arguments {
        a: Number,
        b: Number,
    }
    let Arguments { a, b } = match call.arguments() {
        Ok(arguments) => arguments,
        Err(failure) => return failure,
    };
    let exact = a
        .as_i64()
        .zip(b.as_i64())
        .and_then(|(a, b)| a.checked_add(b))
        .map(Number::from);
    let sum = exact.or_else(|| Number::from_f64(a.as_f64()? + b.as_f64()?));
    match sum {
        Some(sum) => structured(json!({"sum": sum})),
        None => Body::from_failure("the sum is not a finite number"),
    }
}

/// Answers with a text of as many bytes as asked for.
pub(super) fn big(call: &Call<'_>) -> Body {
    #[derive(Deserialize)]
    struct Arguments {
        bytes: usize,
    }
    let bytes = match call.arguments() {
        Ok(Arguments { bytes }) if bytes <= BIG_LIMIT_BYTES => bytes,
        Ok(_) => return Body::from_failure(format!("bytes must be at most {BIG_LIMIT_BYTES}")),
        Err(failure) => return failure,
    };
    const BEFORE: &[u8] = br#"{"content":[{"type":"text","text":""#;
    const AFTER: &[u8] = br#""}]}"#;
    let mut text = Vec::with_capacity(BEFORE.len() + bytes + AFTER.len());
    text.extend_from_slice(BEFORE);
    text.resize(BEFORE.len() + bytes, b'x');
    text.extend_from_slice(AFTER);
    Body::from_text(text)
}

/// Reports era, version, client and capabilities of the call.
pub(super) fn whoami(call: &Call<'_>) -> Body {
    structured(json!({
        "era": if call.terms.is_modern() { "modern" } else { "legacy" },
        "protocolVersion": call.terms.version(),
        "peer": call.terms.peer_info(),
        "capabilities": call.terms.peer_capabilities(),
        "server": call.peer.demo.options.name,
    }))
}

/// Repeats its arguments as a route.
pub(super) fn route(call: &Call<'_>) -> Body {
    #[derive(Deserialize)]
    struct Arguments {
        region: String,
        priority: Option<i64>,
        express: Option<bool>,
    }
    match call.arguments() {
        Ok(Arguments {
            region,
            priority,
            express,
        }) => {
            let express = if express == Some(true) {
                ", express"
            } else {
                ""
            };
            let priority =
                priority.map_or(String::new(), |priority| format!(", priority {priority}"));
            Body::from_message(format!("routed to {region}{priority}{express}"))
        }
        Err(failure) => failure,
    }
}

/// Fails with the given reason.
pub(super) fn fail(call: &Call<'_>) -> Body {
    #[derive(Deserialize)]
    struct Arguments {
        #[serde(default = "default_reason")]
        reason: String,
    }
    fn default_reason() -> String {
        "this tool always fails".to_owned()
    }
    match call.arguments() {
        Ok(Arguments { reason }) => Body::from_failure(reason),
        Err(failure) => failure,
    }
}

/// A generated tool returns its name and its arguments.
pub(super) fn generated(call: &Call<'_>) -> Body {
    let arguments = call.params.arguments.map_or("{}", RawValue::get);
    Body::from_message(format!("{} was called with {arguments}", call.params.name))
}

fn structured(value: Value) -> Body {
    let text = value.to_string();
    Body::from(json!({"content": [{"type": "text", "text": text}], "structuredContent": value}))
}
