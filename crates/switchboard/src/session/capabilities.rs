//! The client info and capabilities that the host declares, in either era.

use serde_json::{Map, Value, json};

use crate::caller::CallerCapabilities;

/// `clientInfo`.
pub(super) fn client_info() -> Value {
    json!({"name": "switchboard", "title": "Switchboard", "version": env!("CARGO_PKG_VERSION")})
}

/// The client capabilities. `roots` is the value of that capability, if roots are offered.
pub(super) fn client_capabilities(offers: CallerCapabilities, roots: Option<Value>) -> Value {
    let mut capabilities = Map::new();
    if offers.elicit_form || offers.elicit_url {
        let mut modes = Map::new();
        if offers.elicit_form {
            modes.insert("form".into(), json!({}));
        }
        if offers.elicit_url {
            modes.insert("url".into(), json!({}));
        }
        capabilities.insert("elicitation".into(), modes.into());
    }
    if offers.sampling {
        let tools = offers.sampling_tools;
        let sampling = if tools {
            json!({"tools": {}})
        } else {
            json!({})
        };
        capabilities.insert("sampling".into(), sampling);
    }
    if let Some(roots) = roots {
        capabilities.insert("roots".into(), roots);
    }
    capabilities.into()
}
