//! Finds the members of a JSON object as slices of its text, and checks that the text is valid JSON
//! of any depth.
//!
//! Every message is scanned, so this copies nothing, allocates nothing up to depth 64, and does not
//! recurse. A property test compares it with `serde_json`.

use std::ops::Range;

/// Not one JSON object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ScanError;

/// Passes each member of the one object in `text` to `each`, in order: its key (between the quotes,
/// escapes not decoded) and its value.
pub(super) fn members<'a>(
    text: &'a str,
    mut each: impl FnMut(&'a str, &'a str) -> Result<(), ScanError>,
) -> Result<(), ScanError> {
    let mut scanner = Scanner::new(text);
    scanner.take(b'{')?;
    if scanner.next()? == b'}' {
        scanner.at += 1;
        return scanner.end();
    }
    loop {
        let key = scanner.key()?;
        scanner.space();
        let from = scanner.at;
        scanner.value()?;
        each(&text[key], &text[from..scanner.at])?;
        match scanner.next()? {
            b',' => scanner.at += 1,
            b'}' => {
                scanner.at += 1;
                return scanner.end();
            }
            _ => return Err(ScanError),
        }
    }
}

struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The arrays and objects that are open inside the value being read.
    open: Nesting,
}

/// A stack of bits, one for each level: set for an object. The first 64 levels need no allocation.
#[derive(Default)]
struct Nesting {
    depth: usize,
    top: u64,
    below: Vec<u64>,
}

impl Nesting {
    fn push(&mut self, is_object: bool) {
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.below.push(self.top);
        }
        self.depth += 1;
        self.top = self.top << 1 | u64::from(is_object);
    }

    /// Whether the innermost level is an object.
    fn innermost(&self) -> Option<bool> {
        (self.depth > 0).then_some(self.top & 1 == 1)
    }

    fn pop(&mut self) {
        self.depth -= 1;
        self.top >>= 1;
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.top = self.below.pop().unwrap_or_default();
        }
    }
}

impl<'a> Scanner<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            bytes: text.as_bytes(),
            at: 0,
            open: Nesting::default(),
        }
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.bytes.get(self.at) {
            self.at += 1;
        }
    }

    /// The next byte that is not white space; it is not consumed.
    #[inline]
    fn next(&mut self) -> Result<u8, ScanError> {
        // Between tokens there is rarely any.
        match self.bytes.get(self.at) {
            Some(&byte) if byte > b' ' => Ok(byte),
            _ => {
                self.space();
                self.bytes.get(self.at).copied().ok_or(ScanError)
            }
        }
    }

    fn take(&mut self, byte: u8) -> Result<(), ScanError> {
        if self.next()? != byte {
            return Err(ScanError);
        }
        self.at += 1;
        Ok(())
    }

    fn end(&mut self) -> Result<(), ScanError> {
        self.space();
        if self.at == self.bytes.len() {
            Ok(())
        } else {
            Err(ScanError)
        }
    }

    /// A key and its colon; where the key is.
    #[inline]
    fn key(&mut self) -> Result<Range<usize>, ScanError> {
        self.take(b'"')?;
        let from = self.at;
        self.string()?;
        let key = from..self.at - 1;
        self.take(b':')?;
        Ok(key)
    }

    /// One value of any kind.
    fn value(&mut self) -> Result<(), ScanError> {
        loop {
            let first = self.next()?;
            self.at += 1;
            match first {
                b'"' => self.string()?,
                b'{' => {
                    if self.next()? != b'}' {
                        self.open.push(true);
                        self.key()?;
                        continue;
                    }
                    self.at += 1;
                }
                b'[' => {
                    if self.next()? != b']' {
                        self.open.push(false);
                        continue;
                    }
                    self.at += 1;
                }
                b'-' | b'0'..=b'9' => self.number(first)?,
                b't' => self.word(b"rue")?,
                b'f' => self.word(b"alse")?,
                b'n' => self.word(b"ull")?,
                _ => return Err(ScanError),
            }
            if self.close()? {
                return Ok(());
            }
        }
    }

    /// After a value: closes the arrays and objects that end here. True once none is open; false if
    /// another value follows.
    fn close(&mut self) -> Result<bool, ScanError> {
        while let Some(is_object) = self.open.innermost() {
            let byte = self.next()?;
            self.at += 1;
            match (byte, is_object) {
                (b',', true) => {
                    self.key()?;
                    return Ok(false);
                }
                (b',', false) => return Ok(false),
                (b'}', true) | (b']', false) => self.open.pop(),
                _ => return Err(ScanError),
            }
        }
        Ok(true)
    }

    fn word(&mut self, rest: &[u8]) -> Result<(), ScanError> {
        if !self.bytes[self.at..].starts_with(rest) {
            return Err(ScanError);
        }
        self.at += rest.len();
        Ok(())
    }

    /// The rest of a number whose first byte was consumed.
    fn number(&mut self, first: u8) -> Result<(), ScanError> {
        let lead = if first == b'-' {
            let lead = self.bytes.get(self.at).copied().ok_or(ScanError)?;
            self.at += 1;
            lead
        } else {
            first
        };
        match lead {
            b'0' => {}
            b'1'..=b'9' => drop(self.digits()),
            _ => return Err(ScanError),
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits().ok_or(ScanError)?;
        }
        if let Some(b'e' | b'E') = self.bytes.get(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = self.bytes.get(self.at) {
                self.at += 1;
            }
            self.digits().ok_or(ScanError)?;
        }
        Ok(())
    }

    /// At least one digit.
    fn digits(&mut self) -> Option<()> {
        let from = self.at;
        while let Some(b'0'..=b'9') = self.bytes.get(self.at) {
            self.at += 1;
        }
        (self.at > from).then_some(())
    }

    /// The rest of a string whose opening quote was consumed, and its closing quote.
    fn string(&mut self) -> Result<(), ScanError> {
        loop {
            self.at = plain_end(self.bytes, self.at);
            let byte = self.bytes.get(self.at).copied().ok_or(ScanError)?;
            self.at += 1;
            match byte {
                b'"' => return Ok(()),
                b'\\' => self.escape()?,
                // A control character must be escaped.
                _ => return Err(ScanError),
            }
        }
    }

    fn escape(&mut self) -> Result<(), ScanError> {
        let byte = self.bytes.get(self.at).copied().ok_or(ScanError)?;
        self.at += 1;
        match byte {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Ok(()),
            b'u' => {
                let digits = self.bytes.get(self.at..self.at + 4).ok_or(ScanError)?;
                self.at += 4;
                if digits.iter().all(u8::is_ascii_hexdigit) {
                    Ok(())
                } else {
                    Err(ScanError)
                }
            }
            _ => Err(ScanError),
        }
    }
}

/// Where the plain characters of a string end: at a quote, a backslash, a control character, or the
/// end of the text. Checks eight bytes at a time.
#[inline]
pub fn plain_end(bytes: &[u8], mut at: usize) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = ONES << 7;
    let zero_bytes = |word: u64| word.wrapping_sub(ONES) & !word & HIGH;
    while let Some(chunk) = bytes.get(at..).and_then(<[u8]>::first_chunk) {
        let word = u64::from_le_bytes(*chunk);
        let control = word.wrapping_sub(ONES * 0x20) & !word & HIGH;
        let special = control
            | zero_bytes(word ^ (ONES * u64::from(b'"')))
            | zero_bytes(word ^ (ONES * u64::from(b'\\')));
        if special != 0 {
            // Higher bits may be false positives; the lowest set bit is exact.
            return at + special.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while bytes
        .get(at)
        .is_some_and(|&byte| byte >= 0x20 && byte != b'"' && byte != b'\\')
    {
        at += 1;
    }
    at
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

    #[test]
    fn levels_are_told_apart_at_any_depth() {
        for depth in [1, 63, 64, 65, 127, 128, 129, 1000] {
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
        }

        #[test]
        fn it_refuses_what_serde_json_refuses(value in json(), at: prop::sample::Index, with in "[\\[\\]{}\",:0-9eE.+ tfn\\\\-]?") {
            let text = serde_json::json!({"k": value, "l": [1]}).to_string();
            let places: Vec<usize> = text.char_indices().map(|(place, _)| place).collect();
            let place = places[at.index(places.len())];
            let after = text[place..].chars().next().map_or(0, char::len_utf8);
            let broken = format!("{}{with}{}", &text[..place], &text[place + after..]);
            prop_assert_eq!(got(&broken), expected(&broken));
        }
    }
}
