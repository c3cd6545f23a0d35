//! The environment variables given to a host, and which of them every child process gets.

use std::collections::BTreeMap;

use crate::secret::Secret;

/// The environment variables given to a host. The library never reads the process's own.
#[derive(Debug, Clone, Default)]
pub struct Environment(BTreeMap<String, Secret>);

impl Environment {
    /// From pairs. Those of a process are best taken from `std::env::vars_os()`, since
    /// `std::env::vars()` panics if one is not Unicode. A variable whose name no child process could
    /// get is left out.
    pub fn new(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(
            variables
                .into_iter()
                .filter(|(name, _)| is_valid_name(name))
                .map(|(name, value)| (name, Secret::new(value)))
                .collect(),
        )
    }

    /// The variable of this name.
    pub fn get(&self, name: &str) -> Option<&Secret> {
        self.0.get(name)
    }

    /// All variables, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Secret)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }
}

/// Whether a child process can get a variable of this name. The environment of a process may have
/// others, such as `=x`.
pub fn is_valid_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}

/// Whether the value of a variable is no secret: folders and languages, but no proxy URL, which may
/// contain a password.
pub(super) fn is_public(name: &str) -> bool {
    name == "PWD" || (is_passed_on(name) && !is_proxy(name))
}

/// Whether every child process gets this variable of the host's environment.
pub(super) fn is_passed_on(name: &str) -> bool {
    matches!(
        name,
        "HOME" | "PATH" | "LANG" | "TERM" | "TMPDIR" | "TZ" | "USER" | "SHELL" | "LOGNAME"
    ) || name.starts_with("LC_")
        || is_proxy(name)
}

fn is_proxy(name: &str) -> bool {
    matches!(
        name,
        "http_proxy"
            | "https_proxy"
            | "no_proxy"
            | "all_proxy"
            | "HTTP_PROXY"
            | "HTTPS_PROXY"
            | "NO_PROXY"
            | "ALL_PROXY"
    )
}
