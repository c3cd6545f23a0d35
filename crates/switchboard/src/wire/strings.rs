//! JSON strings: their text read and written without a serializer, which looks at each byte on its
//! own; this looks at sixteen at once.

use std::borrow::Cow;

use super::scan::plain_end;

/// The text of a JSON string, without a copy where it has no escape. `None` for any other JSON.
pub fn string_text(json: &str) -> Option<Cow<'_, str>> {
    let inner = json.strip_prefix('"')?.strip_suffix('"')?;
    match plain_end(inner.as_bytes(), 0) == inner.len() {
        true => Some(Cow::Borrowed(inner)),
        false => serde_json::from_str(json).ok().map(Cow::Owned),
    }
}

/// The parts of a text as they stand between the quotes of a JSON string, with the escapes that
/// `serde_json` writes.
pub fn escaped(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.bytes().next()?;
        let (part, length) = match plain_end(rest.as_bytes(), 0) {
            0 => (escape(first), 1),
            length => (&rest[..length], length),
        };
        rest = &rest[length..];
        Some(part)
    })
}

/// Writes a text as it stands between the quotes of a JSON string. Mostly nothing is escaped.
pub fn push_escaped(out: &mut String, text: &str) {
    let (plain, rest) = text.split_at(plain_end(text.as_bytes(), 0));
    out.push_str(plain);
    escaped(rest).for_each(|part| out.push_str(part));
}

/// The escape of a byte that must not stand in a JSON string.
fn escape(special: u8) -> &'static str {
    #[rustfmt::skip]
    const CONTROLS: [&str; 32] = [
        "\\u0000", "\\u0001", "\\u0002", "\\u0003", "\\u0004", "\\u0005", "\\u0006", "\\u0007",
        "\\b",     "\\t",     "\\n",     "\\u000b", "\\f",     "\\r",     "\\u000e", "\\u000f",
        "\\u0010", "\\u0011", "\\u0012", "\\u0013", "\\u0014", "\\u0015", "\\u0016", "\\u0017",
        "\\u0018", "\\u0019", "\\u001a", "\\u001b", "\\u001c", "\\u001d", "\\u001e", "\\u001f",
    ];
    match special {
        b'"' => "\\\"",
        b'\\' => "\\\\",
        control => CONTROLS[usize::from(control)],
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn strings_are_written_and_read_as_serde_json_does(text in "(?s)([\\x00-\\x7f]|.){0,40}") {
            let mut written = "\"".to_owned();
            push_escaped(&mut written, &text);
            written.push('"');
            prop_assert_eq!(&written[1..written.len() - 1], escaped(&text).collect::<String>());
            prop_assert_eq!(&written, &serde_json::to_string(&text).expect("text serialises"));
            let read = string_text(&written);
            prop_assert_eq!(read.as_deref(), Some(&*text));
        }
    }

    #[test]
    fn other_json_is_no_text() {
        for json in ["1", "null", "[\"a\"]", "\"", "", "\"a\" \"b\""] {
            assert_eq!(string_text(json), None, "{json}");
        }
        let escaped = r#""\u00e9""#;
        assert_eq!(string_text(escaped).as_deref(), Some("é"));
    }
}
