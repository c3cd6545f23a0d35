//! Which server has which skill, so that a request for a skill's file finds its server.

use std::collections::HashMap;
use std::sync::Mutex;

use switchboard::ServerName;
use switchboard::sync::lock;

/// How many skills are remembered.
const MAX_SKILLS: usize = 10_000;

/// The file that a skill's address names; its other files are in the same folder.
const SKILL_FILE: &str = "SKILL.md";

/// Which server has which skill, from the lists so far.
#[derive(Debug, Default)]
pub(crate) struct KnownSkills(Mutex<HashMap<String, ServerName>>);

impl KnownSkills {
    /// The server of a skill, of one of its files, or of its folder.
    pub(crate) fn server_of(&self, uri: &str) -> Option<ServerName> {
        let known = lock(&self.0);
        if let Some(server) = known.get(uri) {
            return Some(server.clone());
        }
        let is_inside = |skill: &str| {
            let folder = skill.strip_suffix(SKILL_FILE).unwrap_or(skill);
            uri.starts_with(folder) || folder.strip_suffix('/') == Some(uri)
        };
        let inside = known.iter().filter(|(skill, _)| is_inside(skill));
        // The longest match, because a skill's folder may be inside another's.
        let innermost = inside.max_by_key(|(skill, _)| skill.len());
        innermost.map(|(_, server)| server.clone())
    }

    /// Adds the addresses of one list.
    pub(crate) fn add<'a>(
        &self,
        addresses: impl ExactSizeIterator<Item = (&'a ServerName, &'a str)>,
    ) {
        let mut known = lock(&self.0);
        if known.len() + addresses.len() > MAX_SKILLS {
            known.clear();
        }
        for (server, uri) in addresses.take(MAX_SKILLS) {
            known.insert(uri.to_owned(), server.clone());
        }
    }
}
