//! Views: plain data turned into text, without printing.

/// Masks secrets in arguments and addresses.
pub(crate) mod mask;
/// One server, for `status` and `status --json`.
pub(crate) mod server;
/// A tool's arguments and how to call it.
pub(crate) mod signature;
/// The text of `status`.
pub(crate) mod status;
/// Tables that fit the screen.
pub(crate) mod table;

/// A count with its noun: `1 tool`, `2 tools`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    #[test]
    fn one_has_no_plural_s() {
        assert_eq!(
            [0, 1, 2].map(|count| super::counted(count, "template")),
            ["0 templates", "1 template", "2 templates"]
        );
    }
}
