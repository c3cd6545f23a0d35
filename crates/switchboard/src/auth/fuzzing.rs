//! Reads what strangers send during a login, for the fuzz targets.

use url::Url;

use super::issuer::Challenge;
use super::{callback, older};

/// The addresses in a server's own metadata, if it is believed.
pub fn believed_metadata(server: &Url, document: &[u8]) -> Option<Vec<String>> {
    let metadata = older::believed(server, document)?;
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

/// The code that a request to the callback address brings.
pub fn read_callback(head: &str, redirect: &str, state: &str) -> Option<String> {
    callback::asked(head, redirect, state).ok()?.outcome.ok()
}
