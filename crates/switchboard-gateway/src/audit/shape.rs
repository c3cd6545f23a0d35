//! The shape of a call's arguments: their names, and the types of their values.
//!
//! Read without a serializer, which took twice the instructions.

use std::borrow::Cow;

use switchboard::RawJson;
use switchboard::wire::{first_element, for_each_member};

use super::line::{push_size, push_string};

/// Deeper values are shown by their type alone.
const MAX_DEPTH: usize = 3;

/// More members are counted.
const MAX_MEMBERS: usize = 24;

/// Larger arguments are not parsed.
const MAX_BYTES: usize = 64 << 10;

/// Writes it as JSON: `{"path":"string","lines":["number"]}`.
pub(super) fn push_shape(out: &mut String, arguments: &RawJson) {
    let text = arguments.as_str();
    match text.len() > MAX_BYTES {
        true => push_size(out, arguments),
        false => push_value(out, text, 0),
    }
}

/// Writes the shape of a value, which is valid JSON.
fn push_value(out: &mut String, json: &str, depth: usize) {
    let is_shown = depth < MAX_DEPTH;
    match json.as_bytes().first() {
        Some(b'{') if is_shown => push_object(out, json, depth),
        Some(b'[') if is_shown => {
            out.push('[');
            // The first element represents all.
            if let Some(element) = first_element(json) {
                push_value(out, element, depth + 1);
            }
            out.push(']');
        }
        first => out.push_str(match first {
            Some(b'{') => "\"object\"",
            Some(b'[') => "\"array\"",
            Some(b'"') => "\"string\"",
            Some(b't' | b'f') => "\"boolean\"",
            Some(b'n') => "\"null\"",
            _ => "\"number\"",
        }),
    }
}

fn push_object(out: &mut String, json: &str, depth: usize) {
    let mut count = 0;
    out.push('{');
    for_each_member(json, |name, value| {
        count += 1;
        if count > MAX_MEMBERS {
            return;
        }
        if count > 1 {
            out.push(',');
        }
        push_string(out, &shortened(name));
        out.push(':');
        push_value(out, value, depth + 1);
    });
    if let Some(more @ 1..) = count.checked_sub(MAX_MEMBERS) {
        out.push_str(&format!(",\"…\":\"{more} more\""));
    }
    out.push('}');
}

fn shortened(name: &str) -> Cow<'_, str> {
    // No character is longer than four bytes, and few names have so many.
    if name.len() <= 64 {
        return name.into();
    }
    match name.char_indices().nth(64) {
        Some((end, _)) => format!("{}…", &name[..end]).into(),
        None => name.into(),
    }
}
