//! What reading a configuration promises, from files on disk.

use std::path::Path;

use super::*;

mod bombs;
mod fingerprints;
mod launches;
mod merging;
mod texts;

/// Loads one file with this text, as `switchboard.toml`.
fn load_text(text: impl AsRef<[u8]>, scope: Scope) -> Result<Config, ConfigErrors> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("switchboard.toml");
    std::fs::write(&path, text).expect("a file in it");
    load(&[ConfigFile::new(path, scope)]).map_err(|errors| {
        let named = |finding: Diagnostic| Diagnostic { file: Arc::new("switchboard.toml".into()), ..finding };
        ConfigErrors(errors.0.into_iter().map(named).collect())
    })
}

/// What a text is told, line by line: errors, or else warnings.
fn told(text: impl AsRef<[u8]>, scope: Scope) -> String {
    match load_text(text, scope) {
        Err(errors) => errors.to_string(),
        Ok(config) => {
            let shown = config.warnings.into_iter().map(|warning| {
                let file = Arc::new(Path::new("warning: switchboard.toml").to_owned());
                Diagnostic { file, ..warning }.to_string()
            });
            shown.collect::<Vec<_>>().join("\n")
        }
    }
}
