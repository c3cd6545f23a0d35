//! JSON formatted for a person who decides on a call: escapes are shown as characters, long strings
//! are cut. Key order, numbers and repeated keys stay, because nothing is parsed.

use std::borrow::Cow;

use switchboard::result::{indent_json, readable_json};

/// Deeper nesting is not indented further: it would push the text off the screen.
const MAX_INDENT: usize = 20;

/// One line for each member or element. Strings longer than `max_bytes` are cut in the middle, with
/// the length of the omitted part.
pub(crate) fn pretty_json(text: &str, max_bytes: Option<usize>) -> String {
    indent_json(text, MAX_INDENT, |token| {
        Cow::Owned(shortened(&readable_json(token), max_bytes))
    })
}

fn shortened(token: &str, max_bytes: Option<usize>) -> String {
    let Some(max_bytes) = max_bytes.filter(|max_bytes| token.len() > *max_bytes) else {
        return token.to_owned();
    };
    let head = token.floor_char_boundary(max_bytes * 2 / 3);
    let tail = token.ceil_char_boundary(token.len() - max_bytes / 3);
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
    fn t13_unicode_escapes_are_shown_as_their_characters() {
        let check =
            |text: &str, expected: &str| assert_eq!(readable_json(text), expected, "{text}");
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
        let pretty = pretty_json(&format!(r#"{{"k":"{value}"}}"#), Some(60));
        assert_eq!(
            pretty,
            format!(
                "{{\n  \"k\": \"{} … [1942 bytes not shown, press a] … {}\"\n}}",
                "a".repeat(39),
                "z".repeat(19)
            )
        );
        assert!(pretty_json(&format!(r#"{{"k":"{value}"}}"#), None).contains(&value));
    }

    #[test]
    fn f5_deep_nesting_does_not_overflow_the_stack() {
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        assert!(pretty_json(&deep, None).len() > 200_000);
    }
}
