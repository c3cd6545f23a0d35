//! How commands of the program are worded for people and models.

/// Words a command of the program, between backticks: with what else finds this gateway, such as the
/// configuration files that it was started with.
pub type CommandWords = fn(&[&str]) -> String;

/// A command without more.
pub(crate) fn plain_command(words: &[&str]) -> String {
    format!("`switchboard {}`", words.join(" "))
}
