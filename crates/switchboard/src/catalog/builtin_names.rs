//! The names that servers may not use for their tools: those of common agents' own tools, and ours.

/// The host tool that lists the resources of all servers.
pub(crate) const LIST_RESOURCES: &str = "ListMcpResources";

/// The host tool that reads a resource.
pub(crate) const READ_RESOURCE: &str = "ReadMcpResource";

/// The tool that represents sampling in rules and grants. No server can offer a tool of this name.
pub(crate) const SAMPLING: &str = "@sampling";

/// Names of common agents' own tools. A server's tool with such a name could be mistaken for one of
/// them.
pub const BUILTIN_NAMES: [&str; 16] = [
    "Bash",
    "Read",
    "Write",
    "Edit",
    "MultiEdit",
    "NotebookEdit",
    "Glob",
    "Grep",
    "LS",
    "Task",
    "TodoWrite",
    "WebFetch",
    "WebSearch",
    LIST_RESOURCES,
    READ_RESOURCE,
    SAMPLING,
];

/// Whether a name is one of [`BUILTIN_NAMES`] or of `own`, ignoring case.
pub(crate) fn is_builtin<'a>(name: &str, own: impl IntoIterator<Item = &'a str>) -> bool {
    BUILTIN_NAMES
        .into_iter()
        .chain(own)
        .any(|known| known.eq_ignore_ascii_case(name))
}
