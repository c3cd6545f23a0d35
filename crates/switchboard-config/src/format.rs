//! The file formats: each parses a text into a [`Node`](super::tree::Node) and reports syntax
//! errors.

use std::path::Path;

use super::diagnostic::Diagnostics;
use super::tree::Node;

#[cfg(feature = "hcl")]
pub(crate) mod hcl;
mod json;
mod toml;
#[cfg(feature = "yaml")]
mod yaml;

/// A file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Toml,
    /// With comments and trailing commas, as editors allow them.
    Json,
    Yaml,
    /// A Markdown file with YAML front matter between two lines of `---`.
    FrontMatter,
    Hcl,
}

impl Format {
    /// The format by the file's extension.
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

    /// The format by the start of the text.
    pub(super) fn guess(text: &str) -> Self {
        let begins = text.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']);
        if begins.starts_with(['{', '/']) {
            Self::Json
        } else {
            Self::Toml
        }
    }

    /// Parses a text. Reports all syntax errors, and returns what could be parsed.
    pub(super) fn parse(self, text: &str, diagnostics: &mut Diagnostics<'_>) -> Node {
        diagnostics.json = self == Self::Json;
        match self {
            Self::Toml => toml::parse(text, diagnostics),
            Self::Json => json::parse(text, diagnostics),
            #[cfg(feature = "yaml")]
            Self::Yaml => yaml::parse(text, diagnostics),
            #[cfg(feature = "yaml")]
            Self::FrontMatter => yaml::parse_front_matter(text, diagnostics),
            #[cfg(not(feature = "yaml"))]
            Self::Yaml | Self::FrontMatter => not_in_this_build(NO_YAML, diagnostics),
            #[cfg(feature = "hcl")]
            Self::Hcl => hcl::parse(text, diagnostics),
            #[cfg(not(feature = "hcl"))]
            Self::Hcl => not_in_this_build(NO_HCL, diagnostics),
        }
    }
}

#[cfg(not(feature = "hcl"))]
pub(super) const NO_HCL: &str = "this build does not read HCL files; enable the feature `hcl`";

#[cfg(not(feature = "yaml"))]
pub(super) const NO_YAML: &str = "this build does not read YAML files; enable the feature `yaml`";

/// Reported as a syntax error, so that fields of the unread text are not reported as missing.
#[cfg(not(all(feature = "hcl", feature = "yaml")))]
fn not_in_this_build(message: &str, diagnostics: &mut Diagnostics<'_>) -> Node {
    diagnostics.syntax_error(None, message);
    Node {
        at: 0,
        value: super::tree::Tree::Table(Vec::new()),
    }
}

#[cfg(all(test, not(feature = "hcl"), not(feature = "yaml")))]
mod tests {
    use super::*;

    #[test]
    fn an_unsupported_format_is_reported_with_its_feature() {
        let check = |format: Format, expected: &str| {
            let text = "servers {";
            let mut diagnostics = Diagnostics::new(Default::default(), text);
            format.parse(text, &mut diagnostics);
            let (errors, _) = diagnostics.finish();
            let messages: Vec<&str> = errors.iter().map(|error| &*error.message).collect();
            assert_eq!(messages, [expected]);
        };
        check(Format::Hcl, NO_HCL);
        check(Format::Yaml, NO_YAML);
        check(Format::FrontMatter, NO_YAML);
    }
}
