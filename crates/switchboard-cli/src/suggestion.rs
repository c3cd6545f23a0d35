//! "Did you mean …?": the known word closest to a mistyped one.

/// The least similarity of a suggestion, from 0 to 1.
const MIN_SIMILARITY: f64 = 0.6;

/// The known word most similar to this one, if any is similar enough.
pub(crate) fn closest<'a>(
    typed: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    // Long texts are cut: comparing them costs much time and names are short.
    let typed: String = typed.chars().take(128).collect();
    let similarity = |word: &str| {
        strsim::normalized_levenshtein(&typed, &word.chars().take(128).collect::<String>())
    };
    let scored = known
        .into_iter()
        .map(|word| (similarity(word), word))
        .filter(|(score, _)| *score >= MIN_SIMILARITY);
    scored
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, word)| word)
}

/// `did you mean X? `, or nothing.
pub(crate) fn did_you_mean<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    closest(typed, known)
        .map(|word| format!("did you mean {}? ", crate::view::server::escaped(word)))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_error_finds_the_word_and_an_unrelated_word_does_not() {
        let check = |typed: &str, expected: Option<&str>| {
            assert_eq!(closest(typed, ["seconds", "steps"]), expected, "{typed}")
        };
        check("second", Some("seconds"));
        check("stesp", Some("steps"));
        check("timeout", None);
        check("", None);
    }
}
