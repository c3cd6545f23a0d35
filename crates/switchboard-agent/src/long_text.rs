//! Shortens a text that is too long for a model.

use std::path::Path;

use switchboard::Untrusted;
use switchboard::result::fit_ends;

/// The text, or its beginning and its end with the name of a file in `folder` that has all of it. If
/// it cannot be stored, only its beginning.
pub(crate) fn shorten(text: String, max_bytes: usize, folder: Option<&Path>) -> String {
    if text.len() <= max_bytes {
        return text;
    }
    let end = text.floor_char_boundary(max_bytes);
    let cut = |note: String| format!("{}\n[cut here{note}]", &text[..end]);
    let Some(folder) = folder else {
        return cut(format!(": {end} of {} bytes", text.len()));
    };
    match fit_ends(Untrusted::new(&*text), max_bytes, folder) {
        Ok(fitted) => fitted.text.raw().to_owned(),
        Err(error) => cut(format!("; the rest cannot be stored: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_cannot_be_stored_is_cut() {
        let check = |text: &str, folder: Option<&str>, expected: &str| {
            let shortened = shorten(text.to_owned(), 4, folder.map(Path::new));
            assert!(shortened.starts_with(expected), "{shortened}");
        };
        check("four", None, "four");
        check("ééé", None, "éé\n[cut here: 4 of 6 bytes]");
        let file = Some("/dev/null/results");
        check(
            "longer",
            file,
            "long\n[cut here; the rest cannot be stored: ",
        );
    }
}
