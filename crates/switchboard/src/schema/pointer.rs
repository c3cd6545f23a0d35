//! JSON pointers in references such as `#/$defs/NAME`.

/// The decoded steps of a JSON pointer in URI fragment encoding, without the `#`. `None` if it is
/// none.
pub(crate) fn pointer_steps(pointer: &str) -> Option<Vec<String>> {
    let mut steps = pointer.split('/');
    if !steps.next()?.is_empty() {
        return None;
    }
    steps
        .map(|step| Some(percent_decode(step)?.replace("~1", "/").replace("~0", "~")))
        .collect()
}

fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte == b'%' {
            let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &rest[2..];
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}
