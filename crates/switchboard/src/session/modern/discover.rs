//! `server/discover`: which revisions and capabilities a modern server has.

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::secret::Redactor;
use crate::session::handshake::{as_error, supported_revisions};
use crate::session::peer::{Peer, PendingResponse};
use crate::session::result_kind::check_complete;
use crate::session::{Era, Hello, RequestFault, Revision};
use crate::untrusted::Untrusted;
use crate::wire::RawJson;

/// Sends the request in this revision.
pub(in crate::session) fn start_discover(
    peer: &Peer,
    revision: Revision,
) -> Result<PendingResponse<'_>, RequestFault> {
    peer.start(super::request(revision, "server/discover", &[]))
}

/// Sends the request in the newest revision, and once more if the refusal names one that we
/// support.
pub(in crate::session) async fn discover(peer: &Peer) -> Result<Hello, RequestFault> {
    match discover_once(peer, Revision::newest(Era::Modern)).await {
        Err(fault) => match supported_revisions(&fault, Era::Modern).max() {
            Some(revision) => discover_once(peer, revision).await,
            None => Err(fault),
        },
        outcome => outcome,
    }
}

/// Sends the request in this revision.
pub(in crate::session) async fn discover_once(
    peer: &Peer,
    revision: Revision,
) -> Result<Hello, RequestFault> {
    let result = start_discover(peer, revision)?
        .await
        .map_err(|fault| as_error(*fault))?;
    read_discovery(&result, &peer.receiver.options.redactor)
}

/// Parses the result and chooses the newest revision that both sides support.
pub(in crate::session) fn read_discovery(
    result: &RawJson,
    redactor: &Redactor,
) -> Result<Hello, RequestFault> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct DiscoverResult<'a> {
        supported_versions: Vec<String>,
        #[serde(borrow, default)]
        capabilities: Option<&'a RawValue>,
        #[serde(borrow, default, rename = "_meta")]
        meta: Option<DiscoverMeta<'a>>,
        #[serde(default)]
        instructions: Option<String>,
    }
    #[derive(Deserialize)]
    struct DiscoverMeta<'a> {
        #[serde(borrow, default, rename = "io.modelcontextprotocol/serverInfo")]
        server_info: Option<&'a RawValue>,
    }
    check_complete(result)?;
    let read: DiscoverResult<'_> = result
        .decode()
        .map_err(|fault| RequestFault::Invalid(fault.to_string()))?;
    let versions = read.supported_versions.iter();
    let common = versions.filter_map(|version| Revision::parse_in(Era::Modern, version));
    let Some(revision) = common.max() else {
        let message = format!(
            "it supports {}; this host supports {}",
            read.supported_versions.join(", "),
            Revision::MODERN.map(Revision::as_str).join(", ")
        );
        return Err(RequestFault::Invalid(
            Untrusted::new(message).for_terminal_line().to_string(),
        ));
    };
    Ok(Hello {
        revision,
        server_info: read
            .meta
            .and_then(|meta| meta.server_info)
            .map(|info| result.part(info)),
        capabilities: read
            .capabilities
            .map_or_else(|| RawJson::from_value(&json!({})), |raw| result.part(raw)),
        instructions: read.instructions.map(|words| redactor.words(&words)),
    })
}
