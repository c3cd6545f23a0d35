//! JSON formatted for reading without parsing it: every token stays unchanged, in its order,
//! duplicates included.

/// One line for each member or element. Strings longer than `longest` are cut in the middle, with
/// the length of the omitted part.
pub(crate) fn pretty_json(text: &str, longest: Option<usize>) -> String {
    let mut laid = String::with_capacity(text.len() * 2);
    let mut depth = 0_usize;
    let mut rest = text.trim();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => string_length(rest),
            '{' | '[' | '}' | ']' | ',' | ':' => 1,
            _ => rest
                .find(['{', '[', '}', ']', ',', ':', '"', ' ', '\n', '\t', '\r'])
                .unwrap_or(rest.len())
                .max(1),
        };
        let (token, after) = rest.split_at(length);
        let after = after.trim_start();
        match first {
            '{' | '[' if after.starts_with(['}', ']']) => {
                laid.push_str(token);
                laid.push_str(&after[..1]);
                rest = after[1..].trim_start();
                continue;
            }
            '{' | '[' => {
                depth += 1;
                laid.push_str(token);
                new_line(&mut laid, depth);
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut laid, depth);
                laid.push_str(token);
            }
            ',' => {
                laid.push_str(token);
                new_line(&mut laid, depth);
            }
            ':' => laid.push_str(": "),
            '"' => laid.push_str(&shortened(&readable(token), longest)),
            _ => laid.push_str(&shortened(token, longest)),
        }
        rest = after;
    }
    laid
}

fn new_line(laid: &mut String, depth: usize) {
    laid.push('\n');
    // Indentation is limited: deep nesting would push the text off the screen.
    laid.push_str(&"  ".repeat(depth.min(20)));
}

fn string_length(text: &str) -> usize {
    let mut escaped = false;
    for (index, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return index + 1,
            _ => {}
        }
    }
    text.len()
}

/// The same JSON with visible characters instead of `\uXXXX`, so that no word is hidden from the
/// person who decides. Quotes, backslashes and control characters stay escapes.
pub(crate) fn readable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        shown.push_str(&rest[..at]);
        rest = &rest[at..];
        let (character, length) = match spelt(rest) {
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
fn spelt(text: &str) -> Option<(char, usize)> {
    let unit = |text: &str| u16::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok();
    let first = unit(text)?;
    if let Some(character) = char::from_u32(u32::from(first)) {
        return Some((character, 6));
    }
    let second = unit(text.get(6..)?)?;
    Some((char::decode_utf16([first, second]).next()?.ok()?, 12))
}

fn shortened(token: &str, longest: Option<usize>) -> String {
    let Some(longest) = longest.filter(|longest| token.len() > *longest) else {
        return token.to_owned();
    };
    let head = token.floor_char_boundary(longest * 2 / 3);
    let tail = token.ceil_char_boundary(token.len() - longest / 3);
    format!(
        "{} … [{} bytes not shown, press a] … {}",
        &token[..head],
        tail - head,
        &token[tail..]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t13_tokens_stay_as_they_came_in_their_order() {
        let text = r#"{"z":1.00,"a":{"b":[1,{},[]]},"a":"x{,}\"\n","é":null}"#;
        let expected = r#"{
  "z": 1.00,
  "a": {
    "b": [
      1,
      {},
      []
    ]
  },
  "a": "x{,}\"\n",
  "é": null
}"#;
        assert_eq!(pretty_json(text, None), expected);
    }

    #[test]
    fn t13_a_word_spelt_in_numbers_is_shown_as_what_it_says() {
        let check = |text: &str, expected: &str| assert_eq!(readable(text), expected, "{text}");
        check(r#""\u0072\u006d -rf""#, r#""rm -rf""#);
        check(r#""\u65e5本\ud83d\ude00""#, r#""日本😀""#);
        check(r#""a\nb\\u0072 \"""#, r#""a\nb\\u0072 \"""#);
        check(
            r#""\u0022\u005c\u001b\u0085""#,
            r#""\u0022\u005c\u001b\u0085""#,
        );
        check(r#""\ud83d \u12""#, r#""\ud83d \u12""#);
        assert_eq!(
            pretty_json(r#"{"\u0061":"\u0062"}"#, None),
            "{\n  \"a\": \"b\"\n}"
        );
    }

    #[test]
    fn t13_a_long_value_says_how_much_of_it_is_not_shown() {
        let value = format!("{}{}", "a".repeat(1000), "z".repeat(1000));
        let laid = pretty_json(&format!(r#"{{"k":"{value}"}}"#), Some(60));
        assert_eq!(
            laid,
            format!(
                "{{\n  \"k\": \"{} … [1942 bytes not shown, press a] … {}\"\n}}",
                "a".repeat(39),
                "z".repeat(19)
            )
        );
        assert!(pretty_json(&format!(r#"{{"k":"{value}"}}"#), None).contains(&value));
    }

    #[test]
    fn f5_depth_is_no_danger() {
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        assert!(pretty_json(&deep, None).len() > 200_000);
    }
}
