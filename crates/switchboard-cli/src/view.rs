//! What a person sees, made from plain data by functions that print nothing.

/// Arguments and addresses without what looks secret.
pub(crate) mod mask;
/// What one server looks like in the `/mcp` view and in `status --json`.
pub(crate) mod server;
/// What a tool takes and how it is called.
pub(crate) mod signature;
/// The `/mcp` view.
pub(crate) mod status;
/// Columns that fit the screen.
pub(crate) mod table;
