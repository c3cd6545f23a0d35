//! Skills of the servers (SEP-2640): one list of all skills, and the server of a skill's files.
//!
//! Entries, files and digests pass unchanged. Of several servers with the same address, as a skill,
//! as a file of one or as a resource, the first in config order answers, and only its skill is
//! offered; the skill of another one is found under `/mcp/NAME`. Only servers that are connected and
//! declare the extension are asked, and none for longer than [`LIST_TIMEOUT`].

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use switchboard::call::CallError;
use switchboard::caller::{ApprovalRequest, ForwardedParams};
use switchboard::revision::Era;
use switchboard::server::ServerHandle;
use switchboard::{Approval, BoxFuture, Caller, CallerId, Host, RawJson, ServerName};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::client::Responder;
use crate::client_request::ClientRequest;
use crate::gateway_state::GatewayState;
use crate::reply::ErrorReply;
use crate::sent_request::SentRequest;
use crate::settings::ServerSelection;

/// The extension, in both eras.
pub(crate) const SKILLS: &str = "io.modelcontextprotocol/skills";

/// How long a server may take to list its skills.
const LIST_TIMEOUT: Duration = Duration::from_secs(5);

/// How many pages a server's list may have.
const MAX_PAGES: usize = 64;

/// A skill in a server's list.
struct SkillEntry {
    uri: String,
    raw: RawJson,
}

/// `skills/list`: the skills of all servers that are offered to this client, on one page.
pub(crate) async fn list(gateway: &GatewayState, request: &ClientRequest, responder: Responder) {
    if request.params.get("cursor").is_some() {
        let error = ErrorReply::invalid_params("unknown cursor");
        return responder.error(&error).await;
    }
    match collect(gateway, request).await {
        Ok(entries) => {
            let result = write(&entries, request.era);
            responder.result(&result).await;
        }
        Err(error) => responder.error(&ErrorReply::of_call(&error)).await,
    }
}

/// Asks for the lists, because a request names a skill that is not known.
pub(crate) async fn look_for(gateway: &GatewayState, request: &ClientRequest) {
    // A server that fails to list them is skipped.
    let _ = collect(gateway, request).await;
}

/// The skills of the servers in config order. An error only if the client is offered one server.
async fn collect(
    gateway: &GatewayState,
    request: &ClientRequest,
) -> Result<Vec<(ServerName, SkillEntry)>, CallError> {
    let host = &gateway.host;
    let mut requests = JoinSet::new();
    let mut sent = Vec::new();
    for (place, server) in servers(host, &request.client.selection)
        .into_iter()
        .enumerate()
    {
        sent.push(Some(SentRequest {
            gateway,
            request,
            method: "skills/list",
            server: server.clone(),
            name: String::new(),
            is_recorded: false,
        }));
        let pages = pages(host, request, server.clone());
        requests.spawn(async move { (place, server, timeout(LIST_TIMEOUT, pages).await) });
    }
    let is_for_all = request.client.selection == ServerSelection::All;
    let mut lists = Vec::new();
    while let Some(outcome) = requests.join_next().await {
        let Ok((place, server, outcome)) = outcome else {
            continue;
        };
        let answer = match &outcome {
            Ok(list) => list.as_ref().map(drop).map_err(CallError::to_string),
            Err(_) => Err(format!("no list within {LIST_TIMEOUT:?}")),
        };
        if let Some(record) = sent[place].take() {
            record.ended(answer);
        }
        let list = match outcome {
            Ok(Ok(list)) => list,
            Ok(Err(error)) if !is_for_all => return Err(error),
            failed => {
                if let Ok(Err(error)) = failed {
                    tracing::warn!("server \"{server}\" cannot list its skills: {error}");
                }
                gateway.skills.set_failed(&server);
                continue;
            }
        };
        if is_for_all {
            let addresses = list.iter().map(|entry| entry.uri.clone());
            gateway.skills.set(&server, addresses);
        }
        lists.push((place, server, list));
    }
    lists.sort_by_key(|(place, ..)| *place);
    let mut entries = Vec::new();
    for (_, server, list) in lists {
        entries.extend(list.into_iter().map(|entry| (server.clone(), entry)));
    }
    // Only what a client gets under this address is offered.
    let mut uris = HashSet::new();
    entries.retain(|(server, entry)| {
        let owner = gateway.server_of_resource(&request.client.selection, &entry.uri);
        owner.as_ref() == Some(server) && uris.insert(entry.uri.clone())
    });
    Ok(entries)
}

/// Whether a server has skills that nobody has asked for yet.
pub(crate) fn are_unknown(gateway: &GatewayState, selection: &ServerSelection) -> bool {
    *selection == ServerSelection::All
        && servers(&gateway.host, selection)
            .iter()
            .any(|server| !gateway.skills.are_known(server))
}

/// The servers that this client is offered, are connected, and declare the extension.
fn servers(host: &Host, selection: &ServerSelection) -> Vec<ServerName> {
    let all = host.servers();
    let has_skills = |server: &&ServerHandle| {
        let session = server.snapshot().session.clone();
        selection.includes(&server.config.name)
            && session.is_some_and(|session| session.hello().declares(&["extensions", SKILLS]))
    };
    let found = all.iter().filter(has_skills);
    found.map(|server| server.config.name.clone()).collect()
}

/// Whether a server may be sent `resources/directory/read`: it declares it, or is not connected yet.
pub(crate) fn may_list_folders(host: &Host, server: &ServerName) -> bool {
    let handle = host.server(server.as_str());
    let session = handle.and_then(|handle| handle.snapshot().session.clone());
    session.is_none_or(|session| {
        let declared = ["extensions", SKILLS, "directoryRead"];
        session.hello().declares(&declared)
    })
}

/// All pages of one server's list.
fn pages(
    host: &Host,
    request: &ClientRequest,
    server: ServerName,
) -> impl Future<Output = Result<Vec<SkillEntry>, CallError>> + Send + use<> {
    #[derive(Deserialize)]
    struct SkillsResult<'a> {
        #[serde(borrow, default)]
        skills: Vec<&'a RawValue>,
        #[serde(rename = "nextCursor", default)]
        next: Option<String>,
    }
    #[derive(Deserialize)]
    struct SkillAddress {
        uri: String,
    }
    let host = host.clone();
    let id = request.client.caller_id.clone();
    let mut forwarded = request.params.forwarded(&[]);
    if request.method != "skills/list" {
        forwarded.params.clear();
    }
    async move {
        let mut entries = Vec::new();
        let mut cursor: Option<String> = None;
        for _ in 0..MAX_PAGES {
            let mut forwarded = forwarded.clone();
            let next = cursor
                .take()
                .map(|cursor| RawJson::from(Value::from(cursor)));
            forwarded
                .params
                .extend(next.map(|next| ("cursor".into(), next)));
            let id = id.clone();
            let caller: Arc<dyn Caller> = Arc::new(ListCaller { id, forwarded });
            let result = host.forward(&server, "skills/list", None, &caller).await?;
            let Ok(read) = result.decode::<SkillsResult<'_>>() else {
                break;
            };
            for skill in read.skills {
                // An entry without an address cannot be asked for.
                if let Ok(SkillAddress { uri }) = serde_json::from_str(skill.get()) {
                    let raw = RawJson::share(result.as_bytes(), skill.get());
                    entries.push(SkillEntry { uri, raw });
                }
            }
            cursor = read.next;
            if cursor.is_none() {
                break;
            }
        }
        Ok(entries)
    }
}

/// The gateway's own caller, which declines questions of servers.
pub(crate) struct ListCaller {
    pub(crate) id: CallerId,
    pub(crate) forwarded: ForwardedParams,
}

impl Caller for ListCaller {
    fn id(&self) -> &CallerId {
        &self.id
    }

    fn approve<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, Approval> {
        Box::pin(std::future::ready(Approval::Unavailable))
    }

    fn forwarded(&self) -> Option<&ForwardedParams> {
        Some(&self.forwarded)
    }
}

fn write(entries: &[(ServerName, SkillEntry)], era: Era) -> Bytes {
    let mut out = match era {
        Era::Legacy => br#"{"skills":["#.to_vec(),
        Era::Modern => {
            br#"{"resultType":"complete","ttlMs":0,"cacheScope":"private","skills":["#.to_vec()
        }
    };
    for (index, (_, entry)) in entries.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(entry.raw.as_bytes());
    }
    out.extend_from_slice(b"]}");
    out.into()
}
