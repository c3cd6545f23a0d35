//! The fuzz targets: each has seeds, tokens of its format, and a check that panics if a property does
//! not hold.

mod config;
mod events;
mod globs;
mod http;
mod lines;
mod messages;
mod names;
mod oauth;
mod rules;
mod schemas;

/// A parser or check of foreign input.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    /// Small valid inputs.
    pub(crate) seeds: &'static [&'static str],
    /// Pieces that a mutation inserts.
    pub(crate) words: &'static [&'static str],
    /// Panics if a property does not hold.
    pub(crate) check: fn(&[u8]),
}

/// All of them, in the order in which they run.
pub(crate) const TARGETS: &[Target] = &[
    lines::TARGET,
    messages::TARGET,
    events::TARGET,
    http::TARGET,
    config::TOML,
    config::JSON,
    config::YAML,
    config::HCL,
    globs::TARGET,
    rules::TARGET,
    oauth::TARGET,
    names::TARGET,
    schemas::TARGET,
];

/// Splits an input into chunks; its own bytes determine where, so that a failure can be repeated.
fn cuts(input: &[u8]) -> Vec<&[u8]> {
    let mut pieces = Vec::new();
    let mut rest = input;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(usize::from(rest[0] % 7 + 1).min(rest.len()));
        pieces.push(piece);
        rest = after;
    }
    pieces
}
