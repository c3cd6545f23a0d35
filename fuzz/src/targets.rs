//! The fuzz targets: each has seeds, words of its format, and a check that panics if a promise is
//! broken.

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

/// One thing that reads what a stranger wrote.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    /// Small inputs that reach deep.
    pub(crate) seeds: &'static [&'static str],
    /// Pieces that a mutation inserts.
    pub(crate) words: &'static [&'static str],
    /// Panics where a promise is broken.
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

/// Where to cut an input: its own bytes say it, so that a cut is part of the input.
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
