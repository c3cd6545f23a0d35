//! Finds the members of a JSON object as slices of its text, or the result of a response in the usual
//! layout, and checks that the text is valid JSON of any depth.
//!
//! Every message is scanned, so this copies nothing, allocates nothing up to depth 63, and does not
//! recurse. A property test compares it with `serde_json`.
//!
//! Instructions by callgrind, against borrowed `RawValue` members of `serde_json`: for a response of
//! 109 bytes whose result is one text 270, against 2,320.

/// Not one JSON object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ScanError;

/// Passes each member of the one object in `text` to `each`, in order: its key (between the quotes,
/// escapes not decoded) and its value.
pub(super) fn members<'a>(
    text: &'a str,
    mut each: impl FnMut(&'a str, &'a str) -> Result<(), ScanError>,
) -> Result<(), ScanError> {
    let mut read = |bytes: &'a [u8]| -> Option<()> {
        let mut at = take(bytes, 0, b'{')?;
        if next(bytes, &mut at)? == b'}' {
            return end(bytes, at + 1);
        }
        loop {
            let key_start = take(bytes, at, b'"')?;
            let key_end = string(bytes, key_start)? - 1;
            at = take(bytes, key_end + 1, b':')?;
            let first = next(bytes, &mut at)?;
            let value_start = at;
            at = match first {
                // Half of the values of a message: the version, the method, a name.
                b'"' => string(bytes, at + 1)?,
                _ => value(bytes, at)?,
            };
            each(&text[key_start..key_end], &text[value_start..at]).ok()?;
            match next(bytes, &mut at)? {
                b',' => at += 1,
                b'}' => return end(bytes, at + 1),
                _ => return None,
            }
        }
    };
    read(text.as_bytes()).ok_or(ScanError)
}

/// The id and the result of a response as most servers write it: `{"jsonrpc":"2.0","id":1,"result":…}`
/// and nothing else. `None` where the text is anything else, or no valid JSON: [`members`] tells.
pub(super) fn plain_response(text: &str) -> Option<(u64, &str)> {
    const HEAD: &[u8] = br#"{"jsonrpc":"2.0","id":"#;
    const RESULT: &[u8] = br#","result":"#;
    let bytes = text.as_bytes();
    let rest = bytes.strip_prefix(HEAD)?;
    // So many digits fit into the id. A number does not begin with zero.
    let (mut id, mut count) = (0_u64, 0);
    while let Some(digit @ b'0'..=b'9') = rest.get(count) {
        id = id.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
        count += 1;
    }
    if !(1..16).contains(&count) || rest[0] == b'0' {
        return None;
    }
    rest[count..].strip_prefix(RESULT)?;
    let mut start = HEAD.len() + count + RESULT.len();
    next(bytes, &mut start)?;
    let stop = result(bytes, start)?;
    end(bytes, take(bytes, stop, b'}')?)?;
    Some((id, &text[start..stop]))
}

/// The result of a response. Most results begin as one text, which is compared and not scanned.
fn result(bytes: &[u8], at: usize) -> Option<usize> {
    // In two parts: up to 32 bytes are compared without calling a function.
    const CONTENT: &[u8] = br#"{"content":[{"type":"text","#;
    const TEXT: &[u8] = br#""text":""#;
    const END: &[u8] = b"}]}";
    let text = (bytes[at..].strip_prefix(CONTENT)).and_then(|rest| rest.strip_prefix(TEXT));
    if text.is_none() {
        return value(bytes, at);
    }
    let mut at = string(bytes, at + CONTENT.len() + TEXT.len())?;
    if bytes[at..].starts_with(END) {
        return Some(at + END.len());
    }
    let mut open = Nesting::NEW;
    [true, false, true]
        .into_iter()
        .for_each(|is_object| open.push(is_object));
    match close(bytes, &mut at, &mut open)? {
        true => Some(at),
        false => values(bytes, at, open),
    }
}

/// The first element of an array; `None` if it is empty, or the text does not begin with an array.
pub fn first_element(array: &str) -> Option<&str> {
    let bytes = array.as_bytes();
    let mut start = take(bytes, 0, b'[')?;
    next(bytes, &mut start)?;
    let stop = value(bytes, start)?;
    Some(&array[start..stop])
}

// Each function below reads at a place in the text and returns the place after what it read, or
// `None` where that is not JSON. A place is returned and not kept in a struct, so that it stays in a
// register.

/// The next byte that is not white space; it is not consumed.
#[inline(always)]
pub(crate) fn next(bytes: &[u8], at: &mut usize) -> Option<u8> {
    // Between tokens there is rarely any white space.
    match bytes.get(*at) {
        Some(&byte) if byte > b' ' => Some(byte),
        _ => after_space(bytes, at),
    }
}

#[cold]
fn after_space(bytes: &[u8], at: &mut usize) -> Option<u8> {
    while let Some(b' ' | b'\t' | b'\n' | b'\r') = bytes.get(*at) {
        *at += 1;
    }
    bytes.get(*at).copied()
}

/// The place after this byte, if it comes next.
#[inline(always)]
pub(crate) fn take(bytes: &[u8], mut at: usize, byte: u8) -> Option<usize> {
    (next(bytes, &mut at)? == byte).then_some(at + 1)
}

/// Nothing but white space follows.
fn end(bytes: &[u8], mut at: usize) -> Option<()> {
    next(bytes, &mut at).is_none().then_some(())
}

/// A key and its colon.
#[inline(always)]
fn key(bytes: &[u8], at: usize) -> Option<usize> {
    let at = take(bytes, at, b'"')?;
    take(bytes, string(bytes, at)?, b':')
}

/// The arrays and objects that are open: a stack of bits, set for an object. The first 63 levels
/// need no allocation.
struct Nesting {
    /// The innermost level is the lowest bit. The highest set bit is no level, it marks the end.
    levels: u64,
    /// Full words of outer levels.
    outer: Vec<u64>,
}

impl Nesting {
    const NO_LEVELS: u64 = 1;
    const NEW: Self = Self {
        levels: Self::NO_LEVELS,
        outer: Vec::new(),
    };

    #[inline]
    fn push(&mut self, is_object: bool) {
        if self.levels >> 63 == 1 {
            self.outer
                .push(std::mem::replace(&mut self.levels, Self::NO_LEVELS));
        }
        self.levels = self.levels << 1 | u64::from(is_object);
    }

    #[inline]
    fn pop(&mut self) {
        self.levels >>= 1;
        if self.levels == Self::NO_LEVELS {
            self.levels = self.outer.pop().unwrap_or(Self::NO_LEVELS);
        }
    }

    fn is_empty(&self) -> bool {
        self.levels == Self::NO_LEVELS
    }

    /// Whether the innermost level is an object.
    fn is_in_object(&self) -> bool {
        self.levels & 1 == 1
    }
}

/// One value of any kind.
fn value(bytes: &[u8], at: usize) -> Option<usize> {
    values(bytes, at, Nesting::NEW)
}

/// One value, and those that follow it until all open arrays and objects have ended.
fn values(bytes: &[u8], mut at: usize, mut open: Nesting) -> Option<usize> {
    loop {
        let first = next(bytes, &mut at)?;
        at += 1;
        match first {
            b'"' => at = string(bytes, at)?,
            b'{' => {
                if next(bytes, &mut at)? != b'}' {
                    open.push(true);
                    at = key(bytes, at)?;
                    continue;
                }
                at += 1;
            }
            b'[' => {
                if next(bytes, &mut at)? != b']' {
                    open.push(false);
                    continue;
                }
                at += 1;
            }
            b'-' | b'0'..=b'9' => at = number(bytes, at, first)?,
            b't' => at = word(bytes, at, b"rue")?,
            b'f' => at = word(bytes, at, b"alse")?,
            b'n' => at = word(bytes, at, b"ull")?,
            _ => return None,
        }
        if close(bytes, &mut at, &mut open)? {
            return Some(at);
        }
    }
}

/// After a value: closes the arrays and objects that end here. False if another value follows.
#[inline(always)]
fn close(bytes: &[u8], at: &mut usize, open: &mut Nesting) -> Option<bool> {
    loop {
        if open.is_empty() {
            return Some(true);
        }
        let byte = next(bytes, at)?;
        *at += 1;
        match (byte, open.is_in_object()) {
            (b',', true) => {
                *at = key(bytes, *at)?;
                return Some(false);
            }
            (b',', false) => return Some(false),
            (b'}', true) | (b']', false) => open.pop(),
            _ => return None,
        }
    }
}

fn word(bytes: &[u8], at: usize, rest: &[u8]) -> Option<usize> {
    bytes[at..].starts_with(rest).then_some(at + rest.len())
}

/// The rest of a number whose first byte was consumed.
fn number(bytes: &[u8], mut at: usize, first: u8) -> Option<usize> {
    let lead = if first == b'-' {
        at += 1;
        *bytes.get(at - 1)?
    } else {
        first
    };
    match lead {
        b'0' => {}
        b'1'..=b'9' => at = digits(bytes, at).unwrap_or(at),
        _ => return None,
    }
    if bytes.get(at) == Some(&b'.') {
        at = digits(bytes, at + 1)?;
    }
    if let Some(b'e' | b'E') = bytes.get(at) {
        let sign = matches!(bytes.get(at + 1), Some(b'+' | b'-'));
        at = digits(bytes, at + 1 + usize::from(sign))?;
    }
    Some(at)
}

/// At least one digit.
fn digits(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    while let Some(b'0'..=b'9') = bytes.get(at) {
        at += 1;
    }
    (at > from).then_some(at)
}

/// The rest of a string whose opening quote was consumed, and its closing quote.
#[inline(always)]
fn string(bytes: &[u8], at: usize) -> Option<usize> {
    let at = plain_end(bytes, at);
    match bytes.get(at) {
        Some(b'"') => Some(at + 1),
        _ => escapes(bytes, at),
    }
}

/// The same from a backslash on.
fn escapes(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at = match *bytes.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => escape(bytes, at + 1)?,
            // A control character must be escaped.
            _ => return None,
        };
        at = plain_end(bytes, at);
    }
}

fn escape(bytes: &[u8], at: usize) -> Option<usize> {
    match *bytes.get(at)? {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(at + 1),
        b'u' => {
            let digits = bytes.get(at + 1..at + 5)?;
            digits.iter().all(u8::is_ascii_hexdigit).then_some(at + 5)
        }
        _ => None,
    }
}

/// Where the plain characters of a string end: at a quote, a backslash, a control character, or the
/// end of the text.
#[inline]
pub(crate) fn plain_end(bytes: &[u8], at: usize) -> usize {
    // Most keys end within sixteen bytes.
    match bytes.get(at..).and_then(<[u8]>::first_chunk) {
        Some(chunk) => match special_positions(chunk) {
            0 => plain_end_of_long(bytes, at + 16),
            special => at + special.trailing_zeros() as usize,
        },
        None => plain_end_of_long(bytes, at),
    }
}

fn plain_end_of_long(bytes: &[u8], mut at: usize) -> usize {
    while let Some(chunk) = bytes.get(at..).and_then(<[u8]>::first_chunk) {
        match special_positions(chunk) {
            0 => at += chunk.len(),
            special => return at + special.trailing_zeros() as usize,
        }
    }
    let rest = bytes.len().saturating_sub(at);
    let Some(chunk) = bytes.last_chunk() else {
        // The text is shorter than a chunk.
        let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..=0x1f);
        let special = bytes[bytes.len() - rest..].iter().position(is_special);
        return at + special.unwrap_or(rest);
    };
    // Of the last bytes of the text, those that were read already are shifted out.
    let special = special_positions(chunk) >> (chunk.len() - rest);
    at + rest.min(special.trailing_zeros() as usize)
}

/// A bit for each byte that is a quote, a backslash or a control character.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn special_positions(chunk: &[u8; 16]) -> u32 {
    use std::arch::x86_64::{
        _mm_cmpeq_epi8, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128,
        _mm_set1_epi8,
    };
    // SAFETY: every x86-64 processor has these instructions, and the chunk is as long as the load.
    unsafe {
        let bytes = _mm_loadu_si128(chunk.as_ptr().cast());
        let is_quote = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'"' as i8));
        let is_backslash = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'\\' as i8));
        let is_control = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1f)), bytes);
        let is_special = _mm_or_si128(_mm_or_si128(is_quote, is_backslash), is_control);
        _mm_movemask_epi8(is_special) as u32
    }
}

#[cfg(not(target_arch = "x86_64"))]
use portable_special_positions as special_positions;

#[cfg(any(test, not(target_arch = "x86_64")))]
fn portable_special_positions(chunk: &[u8; 16]) -> u32 {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const LOW_BITS: u64 = ONES * 0x7f;
    let positions = |word: u64| {
        // The high bit of each byte is clear if the byte is zero, or below 0x20.
        let nonzero = |word: u64| (word & LOW_BITS).wrapping_add(LOW_BITS) | word;
        let not_control = (word & LOW_BITS).wrapping_add(ONES * 0x60) | word;
        let not_quote = nonzero(word ^ (ONES * b'"' as u64));
        let not_backslash = nonzero(word ^ (ONES * b'\\' as u64));
        let special = !(not_control & not_quote & not_backslash) & !LOW_BITS;
        // Collects the high bits in the highest byte.
        ((special >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32
    };
    let word = u128::from_le_bytes(*chunk);
    positions(word as u64) | positions((word >> 64) as u64) << 8
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::value::RawValue;

    use super::*;

    /// What `serde_json` says of the same text: keys and values as they stand.
    fn expected(text: &str) -> Option<Vec<(String, String)>> {
        struct Pairs(Vec<(String, String)>);
        impl<'de> serde::Deserialize<'de> for Pairs {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Visitor;
                impl<'de> serde::de::Visitor<'de> for Visitor {
                    type Value = Pairs;
                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str("an object")
                    }
                    fn visit_map<A: serde::de::MapAccess<'de>>(
                        self,
                        mut map: A,
                    ) -> Result<Pairs, A::Error> {
                        let mut pairs = Vec::new();
                        while let Some((key, value)) = map.next_entry::<String, &RawValue>()? {
                            pairs.push((key, value.get().to_owned()));
                        }
                        Ok(Pairs(pairs))
                    }
                }
                deserializer.deserialize_map(Visitor)
            }
        }
        serde_json::from_str::<Pairs>(text)
            .ok()
            .map(|pairs| pairs.0)
    }

    fn got(text: &str) -> Option<Vec<(String, String)>> {
        let mut pairs = Vec::new();
        let scanned = members(text, |key, value| {
            let key: String = serde_json::from_str(&format!("\"{key}\"")).map_err(|_| ScanError)?;
            pairs.push((key, value.to_owned()));
            Ok(())
        });
        scanned.ok().map(|()| pairs)
    }

    /// A response in the usual layout is read as `members` reads it, or left to that.
    fn check_plain_response(text: &str) {
        let mut members_of = (None, None, 0);
        let scanned = members(text, |key, value| {
            members_of.2 += 1;
            match key {
                "id" => members_of.0 = value.parse::<u64>().ok(),
                "result" => members_of.1 = Some(value),
                _ => {}
            }
            Ok(())
        });
        if let Some((id, result)) = plain_response(text) {
            assert_eq!(scanned, Ok(()), "{text}");
            assert_eq!(members_of, (Some(id), Some(result), 3), "{text}");
        }
    }

    #[test]
    fn a_plain_response_is_a_response_and_nothing_else() {
        let response =
            |id: &str, rest: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{rest}"#);
        for (id, rest, expected) in [
            ("7", "{}}", Some((7, "{}"))),
            ("70", " [1, 2] } \r", Some((70, "[1, 2]"))),
            (
                "123456789012345",
                "\"a\\n\"}",
                Some((123_456_789_012_345, "\"a\\n\"")),
            ),
            ("0", "{}}", None),
            ("1234567890123456", "{}}", None),
            ("", "{}}", None),
            ("7.0", "{}}", None),
            ("7", "{}", None),
            ("7", "{}}x", None),
            ("7", "}", None),
            ("7", "{},\"result\":1}", None),
            ("7", "{},\"method\":\"m\"}", None),
            (
                "7",
                r#"{"content":[{"type":"text","text":"a\tb"}]}}"#,
                Some((7, r#"{"content":[{"type":"text","text":"a\tb"}]}"#)),
            ),
            (
                "7",
                r#"{"content":[{"type":"text","text":"a"}, {}] ,"isError":false} }"#,
                Some((
                    7,
                    r#"{"content":[{"type":"text","text":"a"}, {}] ,"isError":false}"#,
                )),
            ),
            ("7", r#"{"content":[{"type":"text","text":"a"}]]}"#, None),
            ("7", r#"{"content":[{"type":"text","text":"a"]}]}"#, None),
            ("7", r#"{"content":[{"type":"text","text":"a"}"#, None),
            ("7", r#"{"content":[{"type":"text","text":"a"#, None),
        ] {
            let text = response(id, rest);
            assert_eq!(plain_response(&text), expected, "{text}");
            check_plain_response(&text);
        }
    }

    #[test]
    fn plain_text_of_any_length_ends_at_the_first_special_byte() {
        for length in 0..80 {
            let plain = "a".repeat(length);
            assert_eq!(plain_end(plain.as_bytes(), 0), length);
            assert_eq!(plain_end(plain.as_bytes(), length / 2), length);
            for special in ["\"", "\\", "\u{1f}", "\0"] {
                for rest in [
                    "",
                    "}]}",
                    "\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"",
                    "é\u{7f} and more than sixteen bytes",
                ] {
                    let text = format!("{plain}{special}{rest}");
                    assert_eq!(plain_end(text.as_bytes(), 0), length, "{text:?}");
                }
            }
        }
    }

    #[test]
    fn special_bytes_are_found_the_same_way_on_every_processor() {
        for byte in 0..=255_u8 {
            for place in 0..16 {
                let mut chunk = *b"0123456789abcdef";
                chunk[place] = byte;
                chunk[15 - place / 2] ^= 0x80;
                let is_special = |byte: &u8| *byte == b'"' || *byte == b'\\' || *byte < 0x20;
                let special = (0..16).filter(|place| is_special(&chunk[*place]));
                let expected = special.fold(0, |bits, place| bits | 1 << place);
                assert_eq!(special_positions(&chunk), expected, "{chunk:?}");
                assert_eq!(portable_special_positions(&chunk), expected, "{chunk:?}");
            }
        }
    }

    #[test]
    fn levels_are_told_apart_at_any_depth() {
        for depth in [1, 62, 63, 64, 65, 126, 127, 128, 129, 1000] {
            let kinds: Vec<bool> = (0..depth)
                .map(|level| level % 3 == 0 || level % 7 == 2)
                .collect();
            let open: String = kinds
                .iter()
                .map(|is_object| if *is_object { "{\"a\":" } else { "[" })
                .collect();
            let close: String = kinds
                .iter()
                .rev()
                .map(|is_object| if *is_object { '}' } else { ']' })
                .collect();
            let text = format!("{{\"k\":{open}0{close}}}");
            assert!(got(&text).is_some(), "{depth}");
            let wrong = if close.starts_with('}') { ']' } else { '}' };
            assert_eq!(
                got(&format!("{{\"k\":{open}0{wrong}{}}}", &close[1..])),
                None,
                "{depth}"
            );
        }
    }

    #[test]
    fn hard_cases_are_judged_as_serde_json_does() {
        for value in [
            "0",
            "-0",
            "01",
            "-",
            "1.",
            "1.5",
            ".5",
            "1e",
            "1e+",
            "1E-7",
            "1e400",
            "0x1",
            "+1",
            "tru",
            "true",
            "nul",
            "null",
            "falsey",
            "\"\"",
            "\"a",
            "\"\\u00e9\"",
            "\"\\u00e\"",
            "\"\\x\"",
            "\"\u{1}\"",
            "\"\u{7f}é😀\"",
            "\"12345678\\\"\"",
            "[]",
            "[1,]",
            "[,1]",
            "[1 2]",
            "{}",
            "{\"a\":1,}",
            "{\"a\" 1}",
            "{a:1}",
            "[[[[]]]]",
            "[{\"a\":[{}]},[]]",
            "]",
            "",
            " ",
            "[}",
            "{]",
            "\"\\ud800\"",
        ] {
            for text in [
                format!("{{\"k\":{value}}}"),
                format!(" {{ \"k\" : {value} , \"l\":1 }} "),
                value.to_owned(),
                format!("{{\"k\":{value}}}x"),
            ] {
                assert_eq!(got(&text), expected(&text), "{text}");
            }
        }
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<f64>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<String>().prop_map(Into::into),
        ];
        leaf.prop_recursive(4, 24, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
                prop::collection::btree_map(any::<String>(), inner, 0..5)
                    .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn it_cuts_where_serde_json_cuts(value in prop::collection::btree_map(any::<String>(), json(), 0..5), pretty: bool) {
            let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.expect("it serialises");
            prop_assert_eq!(got(&text), expected(&text));
            check_plain_response(&format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{text}}}"));
        }

        #[test]
        fn it_refuses_what_serde_json_refuses(value in json(), at: prop::sample::Index, with in "[\\[\\]{}\",:0-9eE.+ tfn\\\\-]?") {
            let text = serde_json::json!({"k": value, "l": [1]}).to_string();
            let places: Vec<usize> = text.char_indices().map(|(place, _)| place).collect();
            let place = places[at.index(places.len())];
            let after = text[place..].chars().next().map_or(0, char::len_utf8);
            let broken = format!("{}{with}{}", &text[..place], &text[place + after..]);
            prop_assert_eq!(got(&broken), expected(&broken));
            check_plain_response(&format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{broken}}}"));
            let text = r#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"#;
            check_plain_response(&format!("{text}{broken}}}]}}}}"));
            check_plain_response(&format!("{text}\"\"}}],\"more\":{broken}}}}}"));
        }
    }
}
