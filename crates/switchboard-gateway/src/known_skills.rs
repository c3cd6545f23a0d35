//! Which server has which skill, so that a request for a skill's file finds its server.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;

use switchboard::ServerName;
use switchboard::sync::lock;

/// How many skills of one server are remembered.
const MAX_SKILLS: usize = 10_000;

/// A skill in a folder below so many others has no other files.
const MAX_DEPTH: usize = 64;

/// The file that a skill's address names; its other files are in the same folder.
const SKILL_FILE: &str = "/SKILL.md";

/// The addresses of each server's skills, as it last listed them.
#[derive(Debug, Default)]
pub(crate) struct KnownSkills(Mutex<HashMap<ServerName, HashSet<String>>>);

impl KnownSkills {
    /// Whether a server was asked for its skills.
    pub(crate) fn are_known(&self, server: &ServerName) -> bool {
        lock(&self.0).contains_key(server)
    }

    /// Whether this is a skill of the server, one of its files, or its folder.
    pub(crate) fn has(&self, server: &ServerName, uri: &str) -> bool {
        let known = lock(&self.0);
        known
            .get(server)
            .is_some_and(|skills| skills.contains(uri) || is_inside(skills, uri))
    }

    /// Replaces the addresses of one server.
    pub(crate) fn set(&self, server: &ServerName, addresses: impl Iterator<Item = String>) {
        let addresses = addresses.take(MAX_SKILLS).collect();
        lock(&self.0).insert(server.clone(), addresses);
    }

    /// The server was asked and has not answered: what it listed before counts.
    pub(crate) fn set_failed(&self, server: &ServerName) {
        lock(&self.0).entry(server.clone()).or_default();
    }
}

/// Whether a URI is the folder of a skill, or below it.
fn is_inside(skills: &HashSet<String>, uri: &str) -> bool {
    // A folder has a name: a skill at the root of a scheme or of a host does not own all of it.
    let root = uri.find("://").map_or(0, |place| place + "://".len());
    let root = root + uri[root..].bytes().take_while(|byte| *byte == b'/').count();
    let ends = uri[root..]
        .match_indices('/')
        .map(|(place, _)| root + place);
    let folders = ends.chain([uri.len()]).filter(|end| *end > root);
    folders
        .take(MAX_DEPTH)
        .any(|end| skills.contains(&format!("{}{SKILL_FILE}", &uri[..end])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skill_owns_the_files_of_its_folder_and_nothing_else() {
        let known = KnownSkills::default();
        let server = ServerName::new("s").expect("a name");
        let skills = [
            "skill://pdf/SKILL.md",
            "skill://notes.md",
            "skill://SKILL.md",
            "file:///SKILL.md",
            "r",
            "SKILL.md",
        ];
        assert!(!known.are_known(&server));
        known.set(&server, skills.map(str::to_owned).into_iter());
        assert!(known.are_known(&server));
        for (uri, expected) in [
            ("skill://pdf/SKILL.md", true),
            ("skill://pdf/scripts/run.py", true),
            ("skill://pdf/", true),
            ("skill://pdf", true),
            ("skill://pdf2/notes.md", false),
            ("skill://notes.md", true),
            ("skill://notes.md/a", false),
            ("skill://other", false),
            ("file:///SKILL.md", true),
            ("file:///home/report.txt", false),
            ("file://home/report.txt", false),
            ("rstp://x", false),
            ("", false),
        ] {
            assert_eq!(known.has(&server, uri), expected, "{uri}");
        }
        let other = ServerName::new("other").expect("a name");
        assert!(!known.has(&other, "skill://pdf/SKILL.md"));
    }
}
