//! The configuration files of MCP hosts: read, checked, merged, edited and fingerprinted.
//!
//! [`load`] turns files into one [`Config`]. A file passes through three steps: a format parses its
//! text into a tree with positions (`format`), a dialect reads the tree into known fields
//! (`dialects`, `raw`), and the fields of each entry become a [`ServerConfig`] (`server_entry`).
//! Values stay as written until a server starts: [`resolve_launch`] and [`resolve_url`] expand them.
//!
//! This crate stores nothing, starts nothing and decides nothing about calls.
//!
//! # Features
//!
//! - `hcl`, `yaml`: files in these formats, beside TOML and JSON. Without them, such a file fails to
//!   load and the error names the feature.

/// Names: the pair (server, tool) is the identity of a tool; exposed names are derived from it.
pub mod name;

/// Secrets, which are never printed.
pub mod secret;

/// Untrusted text, which is escaped before it is printed.
pub mod untrusted;

/// Text quoted for a shell.
pub mod shell;

// The configuration.
mod config;
mod endpoint;
mod environment;
mod model_entry;
mod permissions;
mod project;
mod server_config;
mod server_settings;
mod source;

// From files to a configuration.
mod diagnostic;
mod dialects;
mod fields;
mod format;
mod load;
mod policy;
mod quantity;
mod raw;
mod reference;
mod schema;
mod search;
mod server_entry;
mod tree;

// From a configuration to a launch.
mod expand;
mod launch_fault;
mod package_runner;
mod program;
mod resolve_launch;
mod resolve_url;
mod sensitive;

// What people see and accept.
mod disclosure;
mod entry_values;
mod fingerprint;
mod loader_variables;
mod shell_command;

// Changes to files.
mod edit;
mod import;

/// Private parsers, for the fuzz targets.
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;

#[cfg(test)]
mod tests;

pub use config::Config;
pub use diagnostic::{ConfigErrors, Diagnostic, visible_path};
pub use dialects::{ApprovalChoices, Dialect, DialectProfile, RuleSyntax, StateNames, StopMethod};
pub use disclosure::{Disclosure, disclose};
pub use edit::{
    Change, EditFault, EditOutcome, EntryAddress, EntryField, NewServer, ServerTarget, edit,
    replace_file, sample,
};
pub use endpoint::{
    Endpoint, HttpAuth, HttpEndpoint, HttpTransportKind, OAuthGrant, StdioEndpoint,
};
pub use entry_values::{DisplayValue, EntryValue, VariableState, VariableUse, variable_uses};
pub use environment::{Environment, is_valid_name};
pub use fingerprint::Fingerprint;
pub use import::{ImportedFile, ImportedSecrets, ImportedServer, check_text, import_servers};
pub use launch_fault::LaunchFault;
pub use load::{ConfigFile, load};
pub use model_entry::{ModelEntry, ModelEntryFault, TokenPrice};
pub use permissions::{AuditArguments, GatewayConfig, Mode, Permissions, RuleText, Security};
pub use project::ProjectPermissions;
pub use quantity::MAX_TIMEOUT;
pub use reference::ReferenceSyntax;
pub use resolve_launch::{ResolvedLaunch, resolve_launch};
pub use resolve_url::{ResolvedUrl, UrlFault, resolve_url};
pub use schema::schema;
pub use search::{
    LinkedFile, foreign_project_files, linked_project_files, project_folder, search, search_order,
};
pub use sensitive::{names_a_secret, secret_value};
pub use server_config::ServerConfig;
pub use server_settings::{Asks, MAX_MESSAGE_BYTES, Protocol, Sharing, Start, TimeField, Timeouts};
pub use shell_command::shell_command;
pub use source::{Location, Scope, ShadowedEntry, Source};
