//! The word that was probably meant.

/// How alike two words must be, from 0 to 1.
const ALIKE: f64 = 0.6;

/// The known word most like this one, if any is like it.
pub(crate) fn nearest<'a>(
    wanted: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    // What a person meant is short; comparing long texts would only burn time.
    let wanted: String = wanted.chars().take(128).collect();
    let alike = |word: &str| {
        strsim::normalized_levenshtein(&wanted, &word.chars().take(128).collect::<String>())
    };
    let scored = known
        .into_iter()
        .map(|word| (alike(word), word))
        .filter(|(score, _)| *score >= ALIKE);
    scored
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, word)| word)
}

/// ` did you mean X?`, or nothing.
pub(crate) fn question<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(wanted, known)
        .map(|word| format!("did you mean {}? ", crate::view::server::escaped(word)))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_pen_finds_the_word_and_another_word_does_not() {
        let check = |wanted: &str, expected: Option<&str>| {
            assert_eq!(nearest(wanted, ["seconds", "steps"]), expected, "{wanted}")
        };
        check("second", Some("seconds"));
        check("stesp", Some("steps"));
        check("timeout", None);
        check("", None);
    }
}
