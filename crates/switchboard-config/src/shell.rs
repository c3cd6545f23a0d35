//! Quotes untrusted text for shell commands that a person copies.

use std::borrow::Cow;

/// The text as one word of a command line, literal in bash, zsh and fish.
pub fn word(text: &str) -> Cow<'_, str> {
    let is_plain =
        |character: char| character.is_ascii_alphanumeric() || "_-./=:@,+%".contains(character);
    // zsh expands `=name` to the path of a program.
    if !text.is_empty() && !text.starts_with('=') && text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    // fish interprets a backslash between single quotes, other shells do not. So it is written
    // outside of them, as is a single quote.
    let quoted: String = text
        .chars()
        .map(|character| match character {
            '\'' => r"'\''".to_owned(),
            '\\' => r"'\\'".to_owned(),
            other => other.to_string(),
        })
        .collect();
    Cow::Owned(format!("'{quoted}'"))
}

/// The text as the last argument of a command, after `--` if it begins with `-`.
pub fn argument(text: &str) -> Cow<'_, str> {
    if text.starts_with('-') {
        Cow::Owned(format!("-- {}", word(text)))
    } else {
        word(text)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::process::Command;

    use super::*;

    #[test]
    fn t6_a_shell_reads_the_text_back_and_runs_nothing() {
        for text in [
            "plain",
            "",
            "a b",
            "it's",
            r"back\slash",
            r"\'",
            r"'\\'",
            "$(touch x)`y`;&|<>*?[]{}!~#\"",
            "é漢",
            "-cevil.toml",
            "=ls",
        ] {
            let shown = Command::new("sh")
                .args(["-c", &format!("printf %s {}", word(text))])
                .output()
                .unwrap();
            let shown = String::from_utf8(shown.stdout).unwrap();
            assert_eq!(shown, text, "{}", word(text));
        }
    }

    #[test]
    fn t6_a_name_that_looks_like_an_option_is_an_argument() {
        assert_eq!(argument("-cevil.toml"), "-- -cevil.toml");
        assert_eq!(argument("-x y"), "-- '-x y'");
        assert_eq!(argument("git"), "git");
    }
}
