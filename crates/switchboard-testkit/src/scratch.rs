//! The temporary folder of a test, and the `switchboard.toml` in it.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::program::Launch;

/// A folder that is removed with the test.
#[derive(Debug)]
pub struct Scratch {
    folder: TempDir,
}

impl Scratch {
    /// Makes a new, empty folder.
    #[expect(
        clippy::new_without_default,
        reason = "it makes a folder: nothing that should happen by default"
    )]
    pub fn new() -> Self {
        Self {
            folder: tempfile::Builder::new()
                .prefix("switchboard-test-")
                .tempdir()
                .expect("the temporary folder is writable"),
        }
    }

    /// The folder itself.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file in the folder, with the folders on its way.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("a path in a folder has a parent"))
            .expect("the scratch folder is writable");
        std::fs::write(&path, text).expect("the scratch folder is writable");
        path
    }

    /// Writes `switchboard.toml` with these servers and mode `yolo`, so that calls need no
    /// approval.
    pub fn config(&self, servers: &[Entry]) -> PathBuf {
        self.config_with("[permissions]\nmode = \"yolo\"\n", servers)
    }

    /// Writes `switchboard.toml` with these servers, after other tables.
    pub fn config_with(&self, other_tables: &str, servers: &[Entry]) -> PathBuf {
        let entries: Vec<String> = servers.iter().map(Entry::render).collect();
        self.write(
            "switchboard.toml",
            &format!("{other_tables}\n{}", entries.join("\n")),
        )
    }
}

/// One `[servers.NAME]` entry.
#[derive(Debug, Clone)]
pub struct Entry {
    name: String,
    launch: Launch,
    /// Fields and their values as TOML.
    fields: Vec<(String, String)>,
}

impl Entry {
    /// An entry with this launch.
    pub fn new(name: &str, launch: &Launch) -> Self {
        Self {
            name: name.to_owned(),
            launch: launch.clone(),
            fields: Vec::new(),
        }
    }

    /// Sets a field to a text.
    pub fn set(self, field: &str, value: &str) -> Self {
        self.set_toml(field, &quote(value))
    }

    /// Sets a field to a TOML value, replacing an earlier one.
    pub fn set_toml(mut self, field: &str, value: &str) -> Self {
        self.fields.retain(|(set, _)| set != field);
        self.fields.push((field.to_owned(), value.to_owned()));
        self
    }

    /// Gives the server a variable.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.launch = self.launch.env(name, value);
        self
    }

    /// Puts `wiretee` in front; see [`Launch::teed`].
    pub fn teed(mut self, record: &Path) -> Self {
        self.launch = self.launch.teed(record);
        self
    }

    /// The entry as TOML. A `$` in the launch is doubled, since a single one may begin a reference.
    pub fn render(&self) -> String {
        let literal = |text: &str| quote(&text.replace('$', "$$"));
        let path = |path: &Path| literal(path.to_str().expect("test paths are plain text"));
        let args: Vec<String> = self
            .launch
            .args
            .iter()
            .map(|argument| literal(argument))
            .collect();
        let mut lines = vec![
            format!("[servers.{}]", quote(&self.name)),
            format!("command = {}", path(&self.launch.command)),
            format!("args = [{}]", args.join(", ")),
        ];
        lines.extend(
            self.launch
                .cwd
                .as_deref()
                .map(|folder| format!("cwd = {}", path(folder))),
        );
        lines.extend(
            self.fields
                .iter()
                .map(|(field, value)| format!("{field} = {value}")),
        );
        if !self.launch.env.is_empty() {
            let variables: Vec<String> = self
                .launch
                .env
                .iter()
                .map(|(name, value)| format!("{} = {}", quote(name), literal(value)))
                .collect();
            lines.push(format!("env = {{ {} }}", variables.join(", ")));
        }
        lines.join("\n") + "\n"
    }
}

/// A TOML string. JSON's syntax is TOML's too, except for DEL.
fn quote(text: &str) -> String {
    serde_json::to_string(text)
        .expect("text is always JSON")
        .replace('\u{7f}', "\\u007f")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_renders_every_part_of_a_launch() {
        let launch = Launch {
            cwd: Some("/w".into()),
            ..Launch::new("/bin/x")
                .arg("a \"b\"\n$HOME\u{7f}")
                .env("K", "v")
        };
        let entry = Entry::new("one", &launch)
            .set("call_timeout", "2s")
            .set_toml("trust", "true");
        let expected = concat!(
            "[servers.\"one\"]\n",
            "command = \"/bin/x\"\n",
            "args = [\"a \\\"b\\\"\\n$$HOME\\u007f\"]\n",
            "cwd = \"/w\"\n",
            "call_timeout = \"2s\"\n",
            "trust = true\n",
            "env = { \"K\" = \"v\" }\n",
        );
        assert_eq!(entry.render(), expected);
    }
}
