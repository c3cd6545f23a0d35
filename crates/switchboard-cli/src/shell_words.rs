//! Splits a line into words as a shell does. Nothing is expanded.

/// Words separated by white space; quotes and backslashes keep it inside a word.
pub(crate) fn split_words(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(open), _) if open == character => quote = None,
            (Some('"') | None, '\\') => {
                let next = characters
                    .next()
                    .ok_or("a backslash has nothing after it")?;
                word.get_or_insert_default().push(next);
            }
            (Some(_), _) => word.get_or_insert_default().push(character),
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, _) if character.is_whitespace() => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    match quote {
        Some(open) => Err(format!("a {open} is not closed")),
        None => Ok(words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_a_shell_splits_them() {
        let check = |line: &str, expected: Result<&[&str], &str>| {
            let words = split_words(line);
            let expected = expected.map(|words| words.iter().map(ToString::to_string).collect());
            assert_eq!(words, expected.map_err(str::to_owned), "{line}");
        };
        check(" npx  -y server-x ", Ok(&["npx", "-y", "server-x"]));
        check(
            r#"run 'a b' "c \"d" e\ f '' $HOME"#,
            Ok(&["run", "a b", "c \"d", "e f", "", "$HOME"]),
        );
        check("a=\"b c\" 'd e'f '\\'", Ok(&["a=b c", "d ef", "\\"]));
        check("", Ok(&[]));
        check("run 'a", Err("a ' is not closed"));
        check("a\\", Err("a backslash has nothing after it"));
    }
}
