//! A server's name as a segment of a URL's path: names of other dialects may have any character.

use std::borrow::Cow;

/// The segment for this name.
pub(crate) fn encode(name: &str) -> String {
    let mut segment = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                segment.push(char::from(byte));
            }
            _ => segment.push_str(&format!("%{byte:02X}")),
        }
    }
    segment
}

/// The name in a segment, decoded once. `None` if an escape is not complete, or the name is not UTF-8.
pub(crate) fn decode(segment: &str) -> Option<Cow<'_, str>> {
    if !segment.contains('%') {
        return Some(segment.into());
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let mut name = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let [byte, after @ ..] = rest {
        rest = match (byte, after) {
            (b'%', [high, low, after @ ..]) => {
                name.push(digit(*high)? << 4 | digit(*low)?);
                after
            }
            (b'%', _) => return None,
            (byte, after) => {
                name.push(*byte);
                after
            }
        };
    }
    String::from_utf8(name).ok().map(Cow::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_survives_as_a_segment() {
        let check = |name: &str, segment: &str| {
            assert_eq!(encode(name), segment);
            assert_eq!(decode(segment).as_deref(), Some(name));
        };
        check("git-2_a.b~c", "git-2_a.b~c");
        check("my files", "my%20files");
        check("é", "%C3%A9");
        check("50%20?#", "50%2520%3F%23");
    }

    #[test]
    fn an_invalid_escape_names_nothing() {
        for segment in ["%", "a%2", "%zz", "%+1", "%ff", "%C3"] {
            assert_eq!(decode(segment), None, "{segment}");
        }
        // As some clients send it.
        assert_eq!(decode("é%20b").as_deref(), Some("é b"));
    }
}
