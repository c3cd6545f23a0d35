//! `AGENTS.md`: instructions of the person and the project for every agent, for the system prompt.
//!
//! The user's own file comes first, then those from the root of the project down to the current
//! folder, so that the nearest one has the last word. A file that is a symbolic link is not read:
//! a project could point it at a secret.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use switchboard::Untrusted;

/// The name of the files.
pub const AGENTS_FILE: &str = "AGENTS.md";

/// The longest part of one file for the model.
const MAX_BYTES: u64 = 32 << 10;

/// One file that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentsFile {
    /// Its path.
    pub path: PathBuf,
    /// Its text, without characters that a person would not see.
    pub text: String,
    /// Whether it is longer than what was read.
    pub is_cut: bool,
}

/// Reads the files: that of the user's folder, and those from `project` down to `current`.
pub fn read_agents_files(user: &Path, project: &Path, current: &Path) -> Vec<AgentsFile> {
    let mut folders = vec![user];
    let mut down: Vec<&Path> = match current.starts_with(project) {
        true => current
            .ancestors()
            .take_while(|folder| folder.starts_with(project))
            .collect(),
        false => vec![current],
    };
    down.reverse();
    folders.extend(down);
    folders.into_iter().filter_map(read_one).collect()
}

/// The files as a section of the system prompt. Empty where there are none.
pub fn agents_prompt(files: &[AgentsFile]) -> String {
    let sections = files.iter().map(|file| {
        let end = if file.is_cut { "\n[cut here]" } else { "" };
        format!(
            "Instructions from {}:\n\n{}{end}",
            file.path.display(),
            file.text.trim()
        )
    });
    sections.collect::<Vec<_>>().join("\n\n")
}

fn read_one(folder: &Path) -> Option<AgentsFile> {
    let path = folder.join(AGENTS_FILE);
    // Not followed, and not opened where it could block.
    std::fs::symlink_metadata(&path)
        .ok()
        .filter(std::fs::Metadata::is_file)?;
    let mut bytes = Vec::new();
    let file = File::open(&path).ok()?;
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).ok()?;
    let is_cut = bytes.len() as u64 > MAX_BYTES;
    bytes.truncate(MAX_BYTES as usize);
    let text = Untrusted::new(String::from_utf8_lossy(&bytes));
    let text = text.for_model().0.into_owned();
    let file = AgentsFile { path, text, is_cut };
    (!file.text.trim().is_empty()).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_file_comes_first_and_the_nearest_last_and_links_are_not_read() {
        let scratch = tempfile::tempdir().expect("a folder");
        let at = |name: &str| scratch.path().join(name);
        for folder in ["user", "project/a/b", "outside"] {
            std::fs::create_dir_all(at(folder)).expect("a folder");
        }
        for (folder, text) in [
            ("user", "mine"),
            ("project", "root\u{200b}"),
            ("project/a/b", &*"x".repeat(40_000)),
            (".", "above the project"),
        ] {
            std::fs::write(at(folder).join(AGENTS_FILE), text).expect("a file");
        }
        std::fs::write(at("outside/secret"), "secret").expect("a file");
        #[cfg(unix)]
        std::os::unix::fs::symlink(at("outside/secret"), at("project/a").join(AGENTS_FILE))
            .expect("a link");
        let files = read_agents_files(&at("user"), &at("project"), &at("project/a/b"));
        let texts: Vec<&str> = files.iter().map(|file| &*file.text).collect();
        assert_eq!((texts.len(), texts[0], texts[1]), (3, "mine", "root"));
        assert!(files[2].is_cut && texts[2].len() == 32 << 10);
        let prompt = agents_prompt(&files[..2]);
        assert!(prompt.starts_with("Instructions from ") && prompt.ends_with("\n\nroot"));
        assert_eq!(agents_prompt(&[]), "");
    }
}
