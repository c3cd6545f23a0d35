//! Parsers of untrusted login input, for the fuzz targets.

use url::Url;

use super::issuer::Challenge;
use super::{callback, legacy_metadata};

/// The addresses in a server's own metadata, if it is trusted.
pub fn trusted_metadata_addresses(server: &Url, document: &[u8]) -> Option<Vec<String>> {
    let metadata = legacy_metadata::trusted_metadata(server, document)?;
    let (issuer, registration) = (metadata.issuer, metadata.registration_endpoint);
    let endpoints = [metadata.authorization_endpoint, metadata.token_endpoint];
    Some(
        endpoints
            .into_iter()
            .chain(issuer)
            .chain(registration)
            .collect(),
    )
}

/// The scopes that a challenge names.
pub fn read_challenge(header: &str, server: &Url) -> Vec<String> {
    Challenge::read(Some(header), server).scopes
}

/// The code in a request to the callback address.
pub fn read_callback(head: &str, redirect: &str, state: &str) -> Option<String> {
    callback::parse_request(head, redirect, state)
        .ok()?
        .outcome
        .ok()
}
