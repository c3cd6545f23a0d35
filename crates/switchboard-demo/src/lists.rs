//! Paged lists, in both eras.

use serde_json::Value;

use crate::exchange::Call;
use crate::rpc::{self, Body, Fault};

/// Caching fields of modern lists.
const CACHE_FIELDS: &str = r#","ttlMs":60000,"cacheScope":"public""#;

/// The prefix of a cursor, before the position of the page. Cursors are opaque to the peer.
const CURSOR_PREFIX: &str = "from-";

/// The page of `items` (each the text of an object) that the request's cursor points to.
pub(crate) fn page(call: &Call<'_>, field: &str, items: &[&str]) -> Result<Body, Fault> {
    let begin = match call.params.cursor {
        None => 0,
        Some(_) => position(&rpc::read("cursor", call.params.cursor)?, items.len())?,
    };
    let end = items.len().min(begin + call.peer.demo.options.page_size);
    let length: usize = items[begin..end].iter().map(|item| item.len() + 1).sum();
    let mut text = String::with_capacity(length + 128);
    text.push_str("{\"");
    text.push_str(field);
    text.push_str("\":[");
    for (index, item) in items[begin..end].iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        text.push_str(item);
    }
    text.push(']');
    if end < items.len() {
        text.push_str(&format!(r#","nextCursor":"{CURSOR_PREFIX}{end}""#));
    }
    text.push_str(if call.terms.is_modern() {
        CACHE_FIELDS
    } else {
        ""
    });
    text.push('}');
    Ok(Body::from_text(text.into_bytes()))
}

fn position(cursor: &Value, length: usize) -> Result<usize, Fault> {
    let digits = cursor
        .as_str()
        .and_then(|cursor| cursor.strip_prefix(CURSOR_PREFIX));
    digits
        .and_then(|digits| digits.parse().ok())
        .filter(|position| *position < length)
        .ok_or_else(|| Fault::invalid_params(format!("unknown cursor {cursor}")))
}
