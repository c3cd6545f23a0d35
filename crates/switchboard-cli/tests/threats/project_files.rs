//! One project file of each kind, written from one entry.

use std::path::Path;

use serde_json::{Map, Value, json};

/// A kind of project file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProjectFile {
    /// Where it stands in the project.
    pub(crate) path: &'static str,
    /// What its servers stand under; `None` is TOML, with `[servers.NAME]`.
    servers: Option<&'static str>,
    /// Whether it requires a field for the transport.
    says_transport: bool,
    /// How it refers to the variable `NAME`.
    reference: &'static str,
    /// Whether it expands references in a URL.
    pub(crate) expands_urls: bool,
    /// The field of a server's URL, if that is not `url`.
    url: &'static str,
}

pub(crate) const NATIVE: ProjectFile = ProjectFile {
    path: "switchboard.toml",
    servers: None,
    says_transport: false,
    reference: "${NAME}",
    expands_urls: true,
    url: "url",
};
pub(crate) const CORE_AGENT: ProjectFile = ProjectFile {
    path: ".agents/mcp.json",
    servers: Some("servers"),
    says_transport: true,
    reference: "${env:NAME}",
    expands_urls: false,
    url: "url",
};
pub(crate) const GEMINI: ProjectFile = ProjectFile {
    path: ".gemini/settings.json",
    servers: Some("mcpServers"),
    says_transport: false,
    reference: "$NAME",
    expands_urls: true,
    url: "httpUrl",
};
pub(crate) const MCP_JSON: ProjectFile = ProjectFile {
    path: ".mcp.json",
    servers: Some("mcpServers"),
    says_transport: false,
    reference: "${NAME}",
    expands_urls: true,
    url: "url",
};

impl ProjectFile {
    /// The text of a file with these servers, each an object of fields as most files spell them.
    pub(crate) fn text(&self, servers: &[(&str, Value)]) -> String {
        let entries: Vec<(&str, Map<String, Value>)> = servers
            .iter()
            .map(|(name, entry)| (*name, self.entry(entry)))
            .collect();
        match self.servers {
            Some(section) => {
                let entries: Map<String, Value> = entries
                    .into_iter()
                    .map(|(name, entry)| (name.to_owned(), Value::Object(entry)))
                    .collect();
                serde_json::to_string_pretty(&json!({ section: entries })).unwrap()
            }
            None => entries
                .into_iter()
                .map(|(name, entry)| table(name, &entry))
                .collect(),
        }
    }

    fn entry(&self, entry: &Value) -> Map<String, Value> {
        let mut entry = entry.as_object().unwrap().clone();
        if self.says_transport {
            let transport = if entry.contains_key("command") {
                "stdio"
            } else {
                "http"
            };
            entry.insert("transport".to_owned(), transport.into());
        }
        if let Some(url) = entry.remove("url") {
            entry.insert(self.url.to_owned(), url);
        }
        entry
    }

    /// Writes it into a project.
    pub(crate) fn write(&self, project: &Path, servers: &[(&str, Value)]) {
        self.write_text(project, &self.text(servers));
    }

    pub(crate) fn write_text(&self, project: &Path, text: &str) {
        let path = project.join(self.path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// How it refers to a variable.
    pub(crate) fn reference(&self, name: &str) -> String {
        self.reference.replace("NAME", name)
    }
}

fn table(name: &str, entry: &Map<String, Value>) -> String {
    let lines: String = entry
        .iter()
        .map(|(field, value)| format!("{field} = {}\n", toml(value)))
        .collect();
    format!("[servers.{}]\n{lines}", toml(&name.into()))
}

/// A value in TOML. Its texts are JSON's, save for one character.
fn toml(value: &Value) -> String {
    match value {
        Value::Array(items) => format!(
            "[{}]",
            items.iter().map(toml).collect::<Vec<_>>().join(", ")
        ),
        Value::Object(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .map(|(name, value)| format!("{} = {}", toml(&name.as_str().into()), toml(value)))
                .collect();
            format!("{{ {} }}", fields.join(", "))
        }
        other => other.to_string().replace('\u{7f}', "\\u007f"),
    }
}
