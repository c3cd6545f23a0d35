//! A parsed request of a client: its era, and the capabilities of the client.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use serde_json::json;
use switchboard::RawJson;
use switchboard::revision::{Era, Revision};

use crate::client::{ClientKind, ClientState};
use crate::params::{ClientCapabilities, RequestParams};
use crate::reply::{self, ErrorReply};

/// A request of a client.
#[derive(Debug)]
pub(crate) struct ClientRequest {
    pub(crate) client: Arc<ClientState>,
    pub(crate) arrived: Instant,
    pub(crate) method: Cow<'static, str>,
    pub(crate) params: RequestParams,
    pub(crate) era: Era,
    pub(crate) capabilities: ClientCapabilities,
    pub(crate) client_info: Option<RawJson>,
}

impl ClientRequest {
    /// Finds the era, and the capabilities that the client declared.
    pub(crate) fn read(
        client: &Arc<ClientState>,
        arrived: Instant,
        method: Cow<'static, str>,
        params: RequestParams,
    ) -> Result<Self, ErrorReply> {
        let era = params.meta().era();
        let (capabilities, client_info) = match era {
            Era::Modern => {
                check_modern(client, &params)?;
                let meta = params.meta();
                let capabilities = ClientCapabilities::read(meta.capabilities.as_ref());
                (capabilities, meta.client_info.clone())
            }
            Era::Legacy => match client.handshake() {
                Some(handshake) => (handshake.capabilities, handshake.client_info.clone()),
                None if method == "ping" => Default::default(),
                None if method == "server/discover" => {
                    let message = "_meta[\"io.modelcontextprotocol/protocolVersion\"] is missing";
                    return Err(ErrorReply::invalid_params(message));
                }
                None => {
                    let message = format!(
                        "{method:.100} was sent before initialize and without a protocol version; send initialize first, or set it in _meta"
                    );
                    return Err(ErrorReply::invalid_params(message));
                }
            },
        };
        Ok(Self {
            client: client.clone(),
            arrived,
            method,
            params,
            era,
            capabilities,
            client_info,
        })
    }
}

/// Checks the `_meta` that every modern request must have, and that its headers were checked.
fn check_modern(client: &ClientState, params: &RequestParams) -> Result<(), ErrorReply> {
    if client.kind == ClientKind::LegacySession {
        let message = "a legacy session does not carry requests of this revision; send the request to /mcp without a session";
        return Err(ErrorReply::new(reply::INVALID_REQUEST, message));
    }
    if params.meta().revision().is_none() {
        let requested = params.meta().version.as_deref().unwrap_or_default();
        let message = format!("unsupported protocol version {requested:.40?}");
        let supported = Revision::MODERN.map(Revision::as_str);
        return Err(ErrorReply::new(reply::UNSUPPORTED_VERSION, message)
            .with_data(&json!({"supported": supported, "requested": requested})));
    }
    let declared = params.meta().capabilities.as_ref();
    if !declared.is_some_and(|declared| declared.as_str().starts_with('{')) {
        let message = "_meta[\"io.modelcontextprotocol/clientCapabilities\"] must be an object";
        return Err(ErrorReply::invalid_params(message));
    }
    Ok(())
}
