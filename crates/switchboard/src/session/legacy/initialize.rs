//! The legacy handshake: `initialize`, then `notifications/initialized`.

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::secret::Redactor;
use crate::session::capabilities::{client_capabilities, client_info};
use crate::session::peer::Peer;
use crate::session::{Era, Hello, RequestFault, Revision};
use crate::untrusted::Untrusted;
use crate::wire::RawJson;

/// Sends `initialize` with the newest legacy revision, then `notifications/initialized`.
pub(in crate::session) async fn initialize(peer: &Peer) -> Result<Hello, RequestFault> {
    let options = &peer.receiver.options;
    let version = RawJson::from_value(Revision::newest(Era::Legacy).as_str());
    let roots = options
        .roots
        .offered()
        .then(|| json!({"listChanged": true}));
    let capabilities = RawJson::from_value(&client_capabilities(options.offers, roots));
    let info = RawJson::from_value(&client_info());
    let fields: [(&str, &[u8]); 3] = [
        ("protocolVersion", version.as_bytes()),
        ("capabilities", capabilities.as_bytes()),
        ("clientInfo", info.as_bytes()),
    ];
    let result = peer.start(super::request("initialize", &fields))?.await?;
    let hello = read_result(&result, &options.redactor)?;
    peer.notify("notifications/initialized", &serde_json::Value::Null);
    Ok(hello)
}

fn read_result(result: &RawJson, redactor: &Redactor) -> Result<Hello, RequestFault> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct InitializeResult<'a> {
        protocol_version: String,
        #[serde(borrow, default)]
        capabilities: Option<&'a RawValue>,
        #[serde(borrow, default)]
        server_info: Option<&'a RawValue>,
        #[serde(default)]
        instructions: Option<String>,
    }
    let read: InitializeResult<'_> = result
        .decode()
        .map_err(|fault| RequestFault::Invalid(fault.to_string()))?;
    let Some(revision) = Revision::parse_in(Era::Legacy, &read.protocol_version) else {
        let message = format!(
            "it requires protocol version {:?}; supported are {}",
            read.protocol_version,
            Revision::LEGACY.map(Revision::as_str).join(", ")
        );
        return Err(RequestFault::Invalid(
            Untrusted::new(message).for_terminal_line().to_string(),
        ));
    };
    Ok(Hello {
        revision,
        server_info: read.server_info.map(|info| result.part(info)),
        capabilities: read
            .capabilities
            .map_or_else(|| RawJson::from_value(&json!({})), |raw| result.part(raw)),
        instructions: read.instructions.map(|words| redactor.words(&words)),
    })
}
