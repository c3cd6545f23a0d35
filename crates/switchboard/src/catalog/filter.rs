//! Which of a server's tools its entry includes: `include_tools`, `exclude_tools`,
//! `idempotent_tools`.

use crate::config::ServerConfig;
use crate::name::Glob;

/// The three lists of one entry, compiled.
pub(super) struct Filter {
    include: Option<Vec<Glob>>,
    exclude: Vec<Glob>,
    idempotent: Vec<Glob>,
    /// The first invalid pattern: then every tool is excluded, since it is not known which ones the
    /// pattern excludes.
    broken: Option<String>,
}

impl Filter {
    pub(super) fn new(config: &ServerConfig) -> Self {
        let mut broken = None;
        let mut compile = |field: &str, patterns: &[String]| -> Vec<Glob> {
            let compiled = patterns.iter().map(|pattern| {
                Glob::new(pattern).map_err(|error| {
                    broken.get_or_insert(format!(
                        "{field} of its server has a pattern that cannot be read: {error}"
                    ));
                })
            });
            compiled.filter_map(Result::ok).collect()
        };
        Self {
            include: config
                .include_tools
                .as_ref()
                .map(|patterns| compile("include_tools", patterns)),
            exclude: compile("exclude_tools", &config.exclude_tools),
            idempotent: compile("idempotent_tools", &config.idempotent_tools),
            broken,
        }
    }

    /// Why a tool is excluded.
    pub(super) fn refuses(&self, tool: &str) -> Option<String> {
        let any = |globs: &[Glob]| globs.iter().any(|glob| glob.matches(tool));
        if self.broken.is_some() {
            self.broken.clone()
        } else if any(&self.exclude) {
            Some("exclude_tools names it".to_owned())
        } else if self.include.as_ref().is_some_and(|include| !any(include)) {
            Some("include_tools does not name it".to_owned())
        } else {
            None
        }
    }

    pub(super) fn is_idempotent(&self, tool: &str) -> bool {
        self.idempotent.iter().any(|glob| glob.matches(tool))
    }
}
