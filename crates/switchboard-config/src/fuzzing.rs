//! Reads and edits texts as the content of configuration files, for the fuzz targets.

use std::sync::Arc;

use super::diagnostic::Diagnostics;
use super::edit::{self, Change, NewServer, ServerTarget};
use super::format::Format;
use super::{Config, ConfigErrors, ConfigFile, Dialect, load};

/// A text after an edit.
pub struct EditedText {
    /// The whole text.
    pub text: String,
    /// The dialect.
    pub dialect: Dialect,
}

/// Loads a text as the content of a file, which is not read.
pub fn load_text(file: &ConfigFile, text: &str) -> Result<Config, ConfigErrors> {
    load::load_text(file, text)
}

/// Adds a server to a text, if the dialect can express it and the result passes the checks before
/// writing.
pub fn add_server(file: &ConfigFile, text: &str, name: &str) -> Option<EditedText> {
    let target = ServerTarget::Command("x".to_owned(), vec!["-y".to_owned()]);
    let (env, headers) = (Vec::new(), Vec::new());
    let change = Change::Add(NewServer {
        name: name.to_owned(),
        target,
        transport: None,
        env,
        headers,
        cwd: None,
    });
    let (text, dialect) = edit::edited_text(file, text, &change)?;
    Some(EditedText { text, dialect })
}

/// Whether a text is valid JSON.
pub fn is_json_text(text: &str) -> bool {
    let mut diagnostics = Diagnostics::new(Arc::default(), text);
    Format::Json.parse(text, &mut diagnostics);
    diagnostics.finish().0.is_empty()
}
