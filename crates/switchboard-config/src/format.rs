//! The formats that files are written in: each turns a text into a [`Node`](super::tree::Node), or
//! tells where it cannot.

use std::path::Path;

use super::Dialect;
use super::diagnostic::Findings;
use super::tree::Node;

mod hcl;
mod json;
mod toml;
mod yaml;

/// How a file is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Toml,
    /// With comments and trailing commas, as editors allow them.
    Json,
    Yaml,
    /// A Markdown file whose head, between two lines of `---`, is YAML.
    FrontMatter,
    Hcl,
}

impl Format {
    /// By the file's name.
    pub(super) fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "toml" => Some(Self::Toml),
            "json" | "jsonc" => Some(Self::Json),
            "yaml" | "yml" => Some(Self::Yaml),
            "md" | "markdown" => Some(Self::FrontMatter),
            "hcl" => Some(Self::Hcl),
            _ => None,
        }
    }

    /// For a file whose name does not tell: by its kind, where a person said it, or by how it
    /// begins.
    pub(super) fn guess(dialect: Option<Dialect>, text: &str) -> Self {
        let begins = text.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']);
        match dialect {
            Some(dialect) => dialect.rules().format,
            None if begins.starts_with(['{', '/']) => Self::Json,
            None => Self::Toml,
        }
    }

    /// Reads a text. What is no valid text of the format is told, all of it, and what can be read
    /// is returned all the same.
    pub(super) fn parse(self, text: &str, findings: &mut Findings<'_>) -> Node {
        findings.json = self == Self::Json;
        match self {
            Self::Toml => toml::parse(text, findings),
            Self::Yaml => yaml::parse(text, findings),
            Self::FrontMatter => yaml::parse_front_matter(text, findings),
            Self::Hcl => hcl::parse(text, findings),
            Self::Json => json::parse(text, findings),
        }
    }
}
