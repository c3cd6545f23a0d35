//! What a person sees, made from plain data by functions that print nothing.

/// Arguments and addresses without what looks secret.
pub(crate) mod mask;
/// What one server looks like in the `/mcp` view and in `status --json`.
pub(crate) mod server;
/// What a tool takes and how it is called.
pub(crate) mod signature;
/// The `/mcp` view.
pub(crate) mod status;
/// Columns that fit the screen.
pub(crate) mod table;

/// So many of something: `1 tool`, `2 tools`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    #[test]
    fn one_is_not_many() {
        assert_eq!(
            [0, 1, 2].map(|count| super::counted(count, "template")),
            ["0 templates", "1 template", "2 templates"]
        );
    }
}
