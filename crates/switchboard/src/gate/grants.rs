//! Grants: remembered approvals, each bound to the approved launch and definition.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};

use crate::catalog::SAMPLING;
use crate::catalog::{DefinitionHash, Tool};
use crate::config::Fingerprint;
use crate::line_diff::changed_lines;
use crate::name::{ServerName, ToolId, ToolName};

/// A remembered approval of one tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The server and the tool.
    pub id: ToolId,
    /// The file of the server: a server of the same name in another file is another server.
    pub file: Arc<PathBuf>,
    /// The launch that was approved.
    pub launch: Fingerprint,
    /// The definition that was approved.
    pub definition: DefinitionHash,
    /// The text of that definition, for the diff when it changes.
    pub pinned: String,
    /// When it was given, in seconds since 1970.
    pub since: Option<u64>,
}

/// A grant as it is stored.
#[derive(Serialize, Deserialize)]
struct Stored {
    server: String,
    tool: String,
    file: PathBuf,
    launch: String,
    definition: String,
    pinned: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    since: Option<u64>,
}

impl Grant {
    /// A grant for a tool as it is now.
    fn of(tool: &Tool) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            id: tool.id.clone(),
            file: tool.server.source.file.clone(),
            launch: tool.launch,
            definition: tool.definition.hash,
            pinned: tool.definition.text(),
            since: Some(now.map_or(0, |now| now.as_secs())),
        }
    }

    /// The key in the store, unique for each file, server and tool.
    pub fn key(&self) -> String {
        format!(
            "{}/{} in {}",
            self.id.server,
            self.id.tool.as_wire(),
            self.file.to_string_lossy()
        )
    }

    /// The value in the store.
    pub fn to_json(&self) -> String {
        let stored = Stored {
            server: self.id.server.as_str().to_owned(),
            tool: self.id.tool.as_wire().to_owned(),
            file: PathBuf::from(self.file.to_string_lossy().into_owned()),
            launch: HEXLOWER.encode(&self.launch.0),
            definition: HEXLOWER.encode(&self.definition.0),
            pinned: self.pinned.clone(),
            since: self.since,
        };
        serde_json::to_string(&stored).expect("texts serialise")
    }

    /// Parses a value of the store; `None` if it is not one of ours.
    pub fn from_json(json: &str) -> Option<Self> {
        let stored: Stored = serde_json::from_str(json).ok()?;
        let server = |name: &str| {
            let host = Some(ServerName::host()).filter(|host| host.as_str() == name);
            host.or_else(|| ServerName::lenient(name).ok())
        };
        let hash = |text: &str| <[u8; 32]>::try_from(HEXLOWER.decode(text.as_bytes()).ok()?).ok();
        Some(Self {
            id: ToolId {
                server: server(&stored.server)?,
                tool: ToolName::new(&stored.tool),
            },
            file: Arc::new(stored.file),
            launch: Fingerprint(hash(&stored.launch)?),
            definition: DefinitionHash(hash(&stored.definition)?),
            pinned: stored.pinned,
            since: stored.since,
        })
    }

    fn is_of(&self, tool: &Tool) -> bool {
        self.launch == tool.launch && self.definition == tool.definition.hash
    }

    /// The diff between the granted definition and the tool, line by line.
    fn difference(&self, tool: &Tool) -> Vec<String> {
        let mut lines = Vec::new();
        if self.launch != tool.launch {
            lines.push(format!("- launch {}", self.launch.to_hex()));
            lines.push(format!("+ launch {}", tool.launch.to_hex()));
        }
        lines.extend(changed_lines(&self.pinned, &tool.definition.text()));
        lines
    }
}

/// Grants by tool, at most one for each file. Nearly always a pair is in one file only.
#[derive(Debug, Default)]
struct ByTool(HashMap<ToolId, Vec<Grant>>);

impl ByTool {
    fn get(&self, tool: &Tool) -> Option<&Grant> {
        self.0
            .get(&tool.id)?
            .iter()
            .find(|grant| grant.file == tool.server.source.file)
    }

    fn insert(&mut self, grant: Grant) {
        let of_tool = self.0.entry(grant.id.clone()).or_default();
        of_tool.retain(|other| other.file != grant.file);
        of_tool.push(grant);
    }

    /// Adds keys and values of a table. Returns the invalid keys.
    fn fill(&mut self, items: impl IntoIterator<Item = (String, String)>) -> Vec<String> {
        let mut unusable = Vec::new();
        for (key, value) in items {
            match Grant::from_json(&value).filter(|grant| grant.key() == key) {
                Some(grant) => self.insert(grant),
                None => unusable.push(key),
            }
        }
        unusable
    }
}

/// All approvals and pins of this run. Those in the store are loaded at start.
#[derive(Debug, Default)]
pub struct Grants {
    granted: ByTool,
    /// Keys of the grants that were loaded from the store or written to it.
    stored: HashSet<String>,
    /// Definitions as first seen, whether or not a person was asked. Used with `[security] locked`
    /// and `trust`.
    pinned: ByTool,
    /// Servers whose tools are all allowed in this run, each with the launch that was approved.
    servers: HashMap<ServerName, Fingerprint>,
}

impl Grants {
    /// Adds the grants of the store, given as keys and values. Returns the keys that cannot be used.
    pub fn load(&mut self, items: impl IntoIterator<Item = (String, String)>) -> Vec<String> {
        let items: Vec<_> = items.into_iter().collect();
        self.mark_stored(items.iter().map(|(key, _)| key.clone()));
        self.granted.fill(items)
    }

    /// The grants of these keys are now in the store.
    pub(crate) fn mark_stored(&mut self, keys: impl IntoIterator<Item = String>) {
        self.stored.extend(keys);
    }

    /// Drops the grants that were in the store and are no longer: another program has revoked them.
    /// Returns whether there was one.
    pub(crate) fn drop_revoked(&mut self, in_store: &HashSet<String>) -> bool {
        let is_revoked = |key: &String| !in_store.contains(key);
        let revoked: HashSet<String> = self.stored.extract_if(is_revoked).collect();
        let mut has_dropped = false;
        self.granted.0.retain(|_, of_tool| {
            let dropped = of_tool.extract_if(.., |grant| revoked.contains(&grant.key()));
            has_dropped |= dropped.count() > 0;
            !of_tool.is_empty()
        });
        has_dropped
    }

    /// Adds the pins of the store, in the same way.
    pub(crate) fn load_pins(
        &mut self,
        items: impl IntoIterator<Item = (String, String)>,
    ) -> Vec<String> {
        self.pinned.fill(items)
    }

    /// Adds a grant for a tool as it is now.
    pub fn add(&mut self, tool: &Tool) -> Grant {
        let grant = Grant::of(tool);
        self.granted.insert(grant.clone());
        self.pinned.insert(grant.clone());
        grant
    }

    /// Adds a grant for every tool that a server offers now, and allows all tools of the server
    /// until this run ends, also those that it offers later. A tool that was seen before and has
    /// changed since is asked about again.
    pub(crate) fn add_whole_server<'a>(
        &mut self,
        tool: &Tool,
        offered: impl IntoIterator<Item = &'a Tool>,
    ) {
        let server = &tool.id.server;
        let of_server = offered.into_iter().filter(|tool| tool.id.server == *server);
        of_server.for_each(|tool| drop(self.add(tool)));
        self.servers.insert(tool.id.server.clone(), tool.launch);
    }

    /// The tools with a grant, sorted, with the date of the last one.
    pub(crate) fn granted(&self) -> Vec<(ToolId, Option<u64>)> {
        let granted = self.granted.0.iter().map(|(id, grants)| {
            let since = grants.iter().filter_map(|grant| grant.since).max();
            (id.clone(), since)
        });
        let mut granted: Vec<_> = granted.collect();
        granted.sort_by_key(|(id, _)| (id.server.to_string(), id.tool.as_wire().to_owned()));
        granted
    }

    /// Revokes the grants of these tools: how many had one, and the keys in the store. A grant for
    /// a whole server ends with the first of its tools.
    pub(crate) fn revoke(&mut self, tools: &[ToolId]) -> (usize, Vec<String>) {
        let mut count = 0;
        let mut keys = Vec::new();
        for id in tools {
            let of_tool = self.granted.0.remove(id).unwrap_or_default();
            let of_server = self.servers.contains_key(&id.server);
            count += usize::from(of_server || !of_tool.is_empty());
            keys.extend(of_tool.iter().map(Grant::key));
        }
        for key in &keys {
            self.stored.remove(key);
        }
        for id in tools {
            self.servers.remove(&id.server);
        }
        (count, keys)
    }

    /// Whether this very grant applies: it was neither revoked nor replaced.
    pub(crate) fn has(&self, grant: &Grant) -> bool {
        let of_tool = self.granted.0.get(&grant.id);
        of_tool.is_some_and(|of_tool| of_tool.contains(grant))
    }

    /// When the grant that covers a tool was given.
    pub(crate) fn since(&self, tool: &Tool) -> Option<u64> {
        self.granted
            .get(tool)
            .filter(|grant| grant.is_of(tool))?
            .since
    }

    /// Pins a tool that is seen for the first time; `None` if it is pinned already.
    pub fn pin(&mut self, tool: &Tool) -> Option<Grant> {
        if self.pinned.get(tool).is_some() {
            return None;
        }
        let pin = Grant::of(tool);
        self.pinned.insert(pin.clone());
        Some(pin)
    }

    /// Pins a changed tool again. Returns the change, as [`change_of`](Self::change_of) does.
    pub(crate) fn replace_pin(&mut self, tool: &Tool) -> Option<(Vec<String>, Grant)> {
        let lines = self
            .pinned
            .get(tool)
            .filter(|pin| !pin.is_of(tool))?
            .difference(tool);
        let pin = Grant::of(tool);
        self.pinned.insert(pin.clone());
        Some((lines, pin))
    }

    /// Whether the tool as it is now was granted.
    pub(super) fn covers(&self, tool: &Tool) -> bool {
        match self.granted.get(tool) {
            Some(grant) => grant.is_of(tool),
            // Sampling is not one of the server's tools.
            None => {
                tool.id.tool.as_wire() != SAMPLING
                    && self.servers.get(&tool.id.server) == Some(&tool.launch)
            }
        }
    }

    /// Whether the tool differs from its pin.
    pub(crate) fn differs_from_pin(&self, tool: &Tool) -> bool {
        self.pinned.get(tool).is_some_and(|pin| !pin.is_of(tool))
    }

    /// The diff between the granted or pinned definition and the tool as it is, line by line, safe
    /// to show; `None` if there is none.
    pub(crate) fn change_of(&self, tool: &Tool) -> Option<Vec<String>> {
        let before = self
            .granted
            .get(tool)
            .or_else(|| self.pinned.get(tool))
            .filter(|grant| !grant.is_of(tool))?;
        Some(before.difference(tool))
    }
}
