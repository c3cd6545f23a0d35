//! JSON text laid out for reading without being parsed: every token stays as it came, in its order, duplicates included.

/// One line for each member or element. Strings longer than `longest` are cut in the middle, saying how much is left out.
pub(super) fn laid_out(text: &str, longest: Option<usize>) -> String {
    let mut laid = String::with_capacity(text.len() * 2);
    let mut depth = 0_usize;
    let mut rest = text.trim();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => string_length(rest),
            '{' | '[' | '}' | ']' | ',' | ':' => 1,
            _ => rest.find(['{', '[', '}', ']', ',', ':', '"', ' ', '\n', '\t', '\r']).unwrap_or(rest.len()).max(1),
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
            _ => laid.push_str(&shortened(token, longest)),
        }
        rest = after;
    }
    laid
}

fn new_line(laid: &mut String, depth: usize) {
    laid.push('\n');
    // Indentation shows structure; past some depth it would only hide it.
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

fn shortened(token: &str, longest: Option<usize>) -> String {
    let Some(longest) = longest.filter(|longest| token.len() > *longest) else { return token.to_owned() };
    let head = token.floor_char_boundary(longest * 2 / 3);
    let tail = token.ceil_char_boundary(token.len() - longest / 3);
    format!("{} … [{} bytes not shown, press a] … {}", &token[..head], tail - head, &token[tail..])
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
        assert_eq!(laid_out(text, None), expected);
    }

    #[test]
    fn t13_a_long_value_says_how_much_of_it_is_not_shown() {
        let value = format!("{}{}", "a".repeat(1000), "z".repeat(1000));
        let laid = laid_out(&format!(r#"{{"k":"{value}"}}"#), Some(60));
        assert_eq!(
            laid,
            format!("{{\n  \"k\": \"{} … [1942 bytes not shown, press a] … {}\"\n}}", "a".repeat(39), "z".repeat(19))
        );
        assert!(laid_out(&format!(r#"{{"k":"{value}"}}"#), None).contains(&value));
    }

    #[test]
    fn f5_depth_is_no_danger() {
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        assert!(laid_out(&deep, None).len() > 200_000);
    }
}
