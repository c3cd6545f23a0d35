//! JSON as a person reads it who decides on a call.

/// The same JSON with visible characters instead of `\uXXXX`, so that no word is hidden from the
/// person who decides. Quotes, backslashes and control characters stay escapes.
pub fn readable_json(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        shown.push_str(&rest[..at]);
        rest = &rest[at..];
        let (character, length) = match decode_escape(rest) {
            Some((character, length))
                if !character.is_control() && !matches!(character, '"' | '\\') =>
            {
                (Some(character), length)
            }
            // An escape has at least two characters, the second of which may be a backslash.
            _ => (None, 1 + rest[1..].chars().next().map_or(0, char::len_utf8)),
        };
        match character {
            Some(character) => shown.push(character),
            None => shown.push_str(&rest[..length]),
        }
        rest = &rest[length..];
    }
    shown + rest
}

/// The character of `\uXXXX`, or of a surrogate pair, and its length.
fn decode_escape(text: &str) -> Option<(char, usize)> {
    let unit = |text: &str| u16::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok();
    let first = unit(text)?;
    if let Some(character) = char::from_u32(u32::from(first)) {
        return Some((character, 6));
    }
    let second = unit(text.get(6..)?)?;
    Some((char::decode_utf16([first, second]).next()?.ok()?, 12))
}
