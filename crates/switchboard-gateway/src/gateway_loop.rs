//! Detects gateways that are connected in a circle when the last connection of the circle opens, and
//! closes that connection with the reason.
//!
//! A gateway that connects to another one sends it a path that starts with its own id. Each gateway
//! appends its id and asks the gateways behind it; one that finds itself in the path has found the
//! circle. Without this, each gateway would list the other's tools again under longer names, without
//! end.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use switchboard::caller::ForwardedParams;
use switchboard::server::ServerHandle;
use switchboard::session::Session;
use switchboard::{Caller, CallerId, RawJson};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::client::Responder;
use crate::client_request::ClientRequest;
use crate::gateway_state::GatewayState;
use crate::skills::ListCaller;

/// The method of the question that one gateway sends to the next.
pub(crate) const METHOD: &str = "switchboard/leads_back";

/// How long an answer may take; no answer counts as no.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest path, which bounds the work that one question can cause.
const MAX_PATH: usize = 8;

/// Why a server is closed.
const REASON: &str = "is a gateway that connects back to this gateway: remove its entry here, or the entry of this gateway there";

/// Closes a server that leads back to this gateway.
pub(crate) async fn check(gateway: Arc<GatewayState>, server: ServerHandle) {
    let path = vec![own_id(&gateway)];
    let Some(session) = session_of_gateway(&server) else {
        return;
    };
    if leads_back(&server, &session, &path).await {
        server.close(REASON.to_owned()).await;
    }
}

/// Answers another gateway.
pub(crate) async fn answer(gateway: &GatewayState, request: &ClientRequest, responder: Responder) {
    let path = request.params.get("path");
    let path: Vec<String> = path.and_then(|path| path.decode().ok()).unwrap_or_default();
    let leads_back = path.contains(&own_id(gateway)) || any_leads_back(gateway, path).await;
    let result = json!({"resultType": "complete", "leadsBack": leads_back});
    responder.result(result.to_string().as_bytes()).await;
}

/// Whether one of this gateway's servers leads back to a gateway in the path.
async fn any_leads_back(gateway: &GatewayState, mut path: Vec<String>) -> bool {
    if path.is_empty() || path.len() >= MAX_PATH {
        return false;
    }
    path.push(own_id(gateway));
    let path = Arc::new(path);
    let mut questions = JoinSet::new();
    for server in gateway.host.servers().iter() {
        if let Some(session) = session_of_gateway(server) {
            let (server, path) = (server.clone(), path.clone());
            questions.spawn(async move { leads_back(&server, &session, &path).await });
        }
    }
    while let Some(answer) = questions.join_next().await {
        if answer.unwrap_or(false) {
            return true;
        }
    }
    false
}

async fn leads_back(server: &ServerHandle, session: &Session, path: &[String]) -> bool {
    #[derive(Deserialize)]
    struct LeadsBackResult {
        #[serde(rename = "leadsBack")]
        leads_back: bool,
    }
    let caller: Arc<dyn Caller> = Arc::new(ListCaller {
        id: CallerId::new("gateway"),
        forwarded: ForwardedParams {
            params: vec![("path".into(), RawJson::from(json!(path)))],
            meta: Vec::new(),
        },
    });
    let answer = session.forward(METHOD, None, &caller, server.config.timeouts);
    // An older gateway does not know the question.
    let Ok(Ok(answer)) = timeout(ANSWER_TIMEOUT, answer).await else {
        return false;
    };
    let read = answer.decode::<LeadsBackResult>();
    read.is_ok_and(|answer| answer.leads_back)
}

/// The session with a server that is connected and is a gateway like this one.
fn session_of_gateway(server: &ServerHandle) -> Option<Arc<Session>> {
    #[derive(Deserialize)]
    struct ServerInfo {
        name: String,
    }
    let session = server.snapshot().session.clone()?;
    let info = session.hello().server_info.as_ref()?;
    let ServerInfo { name } = info.decode().ok()?;
    (name == crate::SERVER_NAME).then_some(session)
}

/// Identifies this process; a restarted gateway has another id.
fn own_id(gateway: &GatewayState) -> String {
    format!("{:016x}", gateway.settings.cluster.replica().0)
}
