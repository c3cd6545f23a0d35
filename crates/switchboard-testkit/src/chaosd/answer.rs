//! The default responses: handshake of either era, paged lists, a tool that returns `ok`.

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::value::RawValue;
use switchboard_testkit::script::{Cursor, Era, Flip, RawJson, Script};

use crate::behave::Request;
use crate::peer::{Peer, member};

const MODERN: &str = "2026-07-28";
const LEGACY: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// An error response: code, message, data.
type Refusal = (i64, String, Option<String>);

/// Sends the default response, if the message needs one.
pub(crate) fn give(peer: &Peer, request: &Request) {
    if request.id.is_none() {
        return;
    }
    if request.method == "subscriptions/listen" {
        return listen(peer, request);
    }
    peer.line(&usual_line(peer, request));
}

/// The default response as a line without its newline.
pub(crate) fn usual_line(peer: &Peer, request: &Request) -> String {
    let id = request.id.as_deref().unwrap_or("null");
    match usual_result(peer, request) {
        Ok(result) => result_line(id, &result),
        Err((code, message, data)) => error_line(id, code, &message, data.as_deref()),
    }
}

pub(crate) fn result_line(id: &str, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

pub(crate) fn error_line(id: &str, code: i64, message: &str, data: Option<&str>) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{}{}}}}}"#,
        quote(message),
        member("data", data)
    )
}

/// A tool result with one text, and `structuredContent` if there is any.
pub(crate) fn text_result(request: &Request, text: &str, structured: Option<&str>) -> String {
    let kind = if is_modern(request) {
        r#""resultType":"complete","#
    } else {
        ""
    };
    format!(
        r#"{{{kind}"content":[{{"type":"text","text":{}}}]{}}}"#,
        quote(text),
        member("structuredContent", structured)
    )
}

/// A text as JSON.
pub(crate) fn quote(text: &str) -> String {
    serde_json::to_string(text).expect("text is always JSON")
}

/// The revision that a modern request names.
fn modern_version(request: &Request) -> Option<String> {
    #[derive(Deserialize)]
    struct Meta {
        #[serde(rename = "io.modelcontextprotocol/protocolVersion")]
        version: String,
    }
    serde_json::from_str::<Meta>(&request.param("_meta")?)
        .ok()
        .map(|meta| meta.version)
}

fn is_modern(request: &Request) -> bool {
    modern_version(request).is_some()
}

fn usual_result(peer: &Peer, request: &Request) -> Result<String, Refusal> {
    check_era(peer, request)?;
    match request.method.as_str() {
        "initialize" => Ok(initialize_result(&peer.script, request)),
        "server/discover" => Ok(discover_result(&peer.script)),
        "tools/list" => tools_result(peer, request),
        "tools/call" => call_result(&peer.script, request),
        "prompts/list" => Ok(empty_list("prompts", request)),
        "resources/list" => Ok(empty_list("resources", request)),
        "resources/templates/list" => Ok(empty_list("resourceTemplates", request)),
        "ping" | "logging/setLevel" => Ok("{}".to_owned()),
        method => Err((-32601, format!("chaosd knows no method {method}"), None)),
    }
}

/// Refuses methods that the script's era does not have; the modern eras also refuse requests
/// without a revision.
fn check_era(peer: &Peer, request: &Request) -> Result<(), Refusal> {
    let (probed, initialized) = {
        let seen = peer.seen();
        (
            seen.count("server/discover") > 0,
            seen.count("initialize") > 0,
        )
    };
    let unknown = || Err((-32601, "Method not found".to_owned(), None));
    let refused = || {
        Err((
            -32022,
            "Unsupported protocol version".to_owned(),
            Some(format!(r#"{{"supported":["{MODERN}"]}}"#)),
        ))
    };
    match (peer.script.era, request.method.as_str()) {
        (Era::Legacy | Era::RefusesAfterProbe, "server/discover") => unknown(),
        (Era::RefusesAfterProbe | Era::Dual, "initialize") if probed => refused(),
        (Era::Legacy | Era::RefusesAfterProbe, _) | (Era::Dual, "initialize") => Ok(()),
        (Era::Dual, "server/discover") if initialized => unknown(),
        (Era::Dual, _) if initialized => Ok(()),
        (Era::Modern, "initialize") => refused(),
        (Era::Modern | Era::Dual, _) => match modern_version(request) {
            Some(version) if version == MODERN => Ok(()),
            Some(_) => refused(),
            None => Err((
                -32602,
                "the request does not say its protocol version".to_owned(),
                None,
            )),
        },
    }
}

fn server_info(script: &Script) -> String {
    format!(
        r#"{{"name":{},"version":"1.0.0"}}"#,
        quote(script.name.as_deref().unwrap_or("chaosd"))
    )
}

fn capabilities(script: &Script) -> String {
    if let Some(capabilities) = &script.capabilities {
        return capabilities.get().to_owned();
    }
    let prompts = if script.on.contains_key("prompts/list") {
        r#","prompts":{"listChanged":true}"#
    } else {
        ""
    };
    let has_resources = script.on.contains_key("resources/list")
        || script.on.contains_key("resources/templates/list");
    let resources = if has_resources {
        r#","resources":{"listChanged":true}"#
    } else {
        ""
    };
    format!(r#"{{"tools":{{"listChanged":true}}{prompts}{resources}}}"#)
}

fn instructions(script: &Script) -> String {
    member(
        "instructions",
        script
            .instructions
            .as_ref()
            .map(|text| quote(text))
            .as_deref(),
    )
}

fn initialize_result(script: &Script, request: &Request) -> String {
    let asked = request
        .param("protocolVersion")
        .and_then(|version| serde_json::from_str::<String>(&version).ok());
    let known = asked.filter(|version| LEGACY.contains(&version.as_str()));
    let version = script
        .version
        .clone()
        .or(known)
        .unwrap_or_else(|| LEGACY[3].to_owned());
    let (capabilities, info, instructions) = (
        capabilities(script),
        server_info(script),
        instructions(script),
    );
    let version = quote(&version);
    format!(
        r#"{{"protocolVersion":{version},"capabilities":{capabilities},"serverInfo":{info}{instructions}}}"#
    )
}

fn discover_result(script: &Script) -> String {
    let version = quote(script.version.as_deref().unwrap_or(MODERN));
    let (capabilities, info, instructions) = (
        capabilities(script),
        server_info(script),
        instructions(script),
    );
    format!(
        r#"{{"resultType":"complete","supportedVersions":[{version}],"capabilities":{capabilities}{instructions},"ttlMs":0,"cacheScope":"private","_meta":{{"io.modelcontextprotocol/serverInfo":{info}}}}}"#
    )
}

/// Acknowledges; the request stays open until it is cancelled.
fn listen(peer: &Peer, request: &Request) {
    let Some(id) = &request.id else { return };
    peer.seen().subscription = Some(id.clone());
    let filter = request
        .param("notifications")
        .unwrap_or_else(|| "{}".to_owned());
    let params = format!(
        r#"{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}},"notifications":{filter}}}"#
    );
    peer.notify("notifications/subscriptions/acknowledged", Some(&params));
}

fn call_result(script: &Script, request: &Request) -> Result<String, Refusal> {
    let name = request.tool.as_deref().unwrap_or_default();
    let is_filler = name.strip_prefix("tool_").is_some_and(|number| {
        number
            .parse()
            .is_ok_and(|number: usize| number < script.list.fill)
    });
    if is_filler
        || name.starts_with("endless_")
        || script.tools.contains_key(name)
        || script.on.contains_key("tools/call")
    {
        return Ok(text_result(request, "ok", None));
    }
    Err((-32602, format!("Unknown tool: {name}"), None))
}

fn empty_list(of: &str, request: &Request) -> String {
    list_result(of, "", None, request)
}

fn list_result(of: &str, items: &str, next: Option<&str>, request: &Request) -> String {
    let modern = if is_modern(request) {
        r#","resultType":"complete","ttlMs":0,"cacheScope":"private""#
    } else {
        ""
    };
    let next = next.map(quote);
    format!(
        r#"{{"{of}":[{items}]{}{modern}}}"#,
        member("nextCursor", next.as_deref())
    )
}

/// One page. Cursors are the index of the first tool on the page, unless the script makes them
/// invalid.
fn tools_result(peer: &Peer, request: &Request) -> Result<String, Refusal> {
    let script = &peer.script;
    let cursor = request
        .param("cursor")
        .and_then(|cursor| serde_json::from_str::<String>(&cursor).ok());
    let size = script.list.page_size;
    let (first, items) = match script.list.cursor {
        Some(Cursor::Endless) => endless_page(cursor.as_deref(), size.unwrap_or(1)),
        Some(Cursor::Repeat | Cursor::Huge(_)) => (0, definitions(peer)),
        None => {
            let first = cursor.map_or(Some(0), |cursor| cursor.parse().ok());
            let first =
                first.ok_or_else(|| (-32602, "the cursor was never given".to_owned(), None))?;
            (first, definitions(peer))
        }
    };
    peer.seen().lists += 1;
    let last = match script.list.cursor {
        Some(Cursor::Endless) => first + items.len(),
        _ => size.map_or(items.len(), |size| {
            items.len().min(first.saturating_add(size))
        }),
    };
    let next = match script.list.cursor {
        Some(Cursor::Repeat) => Some("again".to_owned()),
        Some(Cursor::Endless) => Some(last.to_string()),
        Some(Cursor::Huge(bytes)) => Some("c".repeat(bytes)),
        None => (last < items.len()).then(|| last.to_string()),
    };
    let page = match script.list.cursor {
        Some(Cursor::Endless) => &items[..],
        _ => items.get(first..last).unwrap_or_default(),
    };
    Ok(list_result(
        "tools",
        &page.join(","),
        next.as_deref(),
        request,
    ))
}

fn endless_page(cursor: Option<&str>, size: usize) -> (usize, Vec<String>) {
    let first = cursor.and_then(|cursor| cursor.parse().ok()).unwrap_or(0);
    (
        first,
        (first..first + size)
            .map(|number| definition(&format!("endless_{number}"), &[]))
            .collect(),
    )
}

fn definitions(peer: &Peer) -> Vec<String> {
    let script = &peer.script;
    let named = script.tools.keys().map(|tool| {
        let defined = script.define.get(tool).into_iter();
        let flipped = script
            .flips
            .iter()
            .filter(|flip| flip.tool == *tool && holds(peer, flip))
            .map(|flip| &flip.define);
        definition(tool, &defined.chain(flipped).collect::<Vec<_>>())
    });
    let filled = (0..script.list.fill).map(|number| definition(&format!("tool_{number:05}"), &[]));
    let extra = script.list.extra.iter().map(|entry| entry.get().to_owned());
    named.chain(filled).chain(extra).collect()
}

fn holds(peer: &Peer, flip: &Flip) -> bool {
    let (lists, calls) = {
        let seen = peer.seen();
        (seen.lists, seen.count("tools/call"))
    };
    flip.after_lists.is_none_or(|wanted| lists >= wanted)
        && flip.after_calls.is_none_or(|wanted| calls >= wanted)
        && flip.after_file.as_ref().is_none_or(|path| path.exists())
}

/// A tool that accepts any arguments, with the script's changes.
fn definition(tool: &str, changes: &[&IndexMap<String, RawJson>]) -> String {
    let usual = [
        ("name", quote(tool)),
        ("description", quote(&format!("does {tool}"))),
        ("inputSchema", r#"{"type":"object"}"#.to_owned()),
    ];
    let mut fields: IndexMap<&str, String> = usual.into_iter().collect();
    for (name, value) in changes.iter().flat_map(|change| change.iter()) {
        fields.insert(name, RawValue::get(value).to_owned());
    }
    let members: Vec<String> = fields
        .iter()
        .map(|(name, value)| format!("{}:{value}", quote(name)))
        .collect();
    format!("{{{}}}", members.join(","))
}
