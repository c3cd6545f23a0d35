//! One line of the audit log, written out.
//!
//! By hand: each call writes one, and a serializer took a fifth of the gateway's part of a call.

use std::fmt::Write as _;
use std::net::SocketAddr;

use switchboard::RawJson;

/// One line. Fields that say nothing are left out.
#[derive(Debug, Clone, Default)]
pub struct AuditLine<'a> {
    /// `request`, `approval`, `refused`, or what an operator did.
    pub event: &'a str,
    /// The number of the request since the gateway started.
    pub request: Option<u64>,
    /// The authenticated client.
    pub client: &'a str,
    /// What the client says of itself (`clientInfo`).
    pub client_info: Option<&'a RawJson>,
    /// The method of the request.
    pub method: &'a str,
    /// The server.
    pub server: &'a str,
    /// The tool, the prompt or the resource; in a refusal the path.
    pub name: &'a str,
    /// `allow`, `ask` or `deny`.
    pub decision: &'a str,
    /// The rule, mode or grant behind the decision; in a refusal the reason.
    pub rule: &'a str,
    /// The answer of whoever was asked.
    pub approval: &'a str,
    /// How it ended.
    pub outcome: &'a str,
    /// Why it did not complete.
    pub error: &'a str,
    /// The arguments as JSON, by shape or in full.
    pub arguments: Option<String>,
    /// How long it took.
    pub duration_ms: Option<f64>,
    /// How much of it the server took.
    pub server_ms: Option<f64>,
    /// How much of it whoever was asked for approval took.
    pub approval_ms: Option<f64>,
    /// Where a refused request came from.
    pub peer: Option<SocketAddr>,
}

impl AuditLine<'_> {
    /// All members, without the braces.
    pub(super) fn members(&self) -> String {
        let mut out = String::with_capacity(512);
        out.push_str("\"event\":");
        push_string(&mut out, self.event);
        // Writing to a string does not fail.
        if let Some(request) = self.request {
            let _ = write!(out, ",\"request\":{request}");
        }
        push_member(&mut out, ",\"client\":", self.client);
        push_json(
            &mut out,
            ",\"client_info\":",
            self.client_info.map(RawJson::as_str),
        );
        for (key, value) in [
            (",\"method\":", self.method),
            (",\"server\":", self.server),
            (",\"name\":", self.name),
            (",\"decision\":", self.decision),
            (",\"rule\":", self.rule),
            (",\"approval\":", self.approval),
            (",\"outcome\":", self.outcome),
            (",\"error\":", self.error),
        ] {
            push_member(&mut out, key, value);
        }
        push_json(&mut out, ",\"arguments\":", self.arguments.as_deref());
        for (key, milliseconds) in [
            ("duration_ms", self.duration_ms),
            ("server_ms", self.server_ms),
            ("approval_ms", self.approval_ms),
        ] {
            if let Some(milliseconds) = milliseconds {
                let _ = write!(out, ",\"{key}\":{milliseconds}");
            }
        }
        if let Some(peer) = self.peer {
            let _ = write!(out, ",\"peer\":\"{peer}\"");
        }
        out
    }
}

fn push_member(out: &mut String, key: &str, value: &str) {
    if !value.is_empty() {
        out.push_str(key);
        push_string(out, value);
    }
}

/// A client's JSON may have line breaks between its tokens: they would end the line of the log, and
/// what follows would pass for a line of its own.
fn push_json(out: &mut String, key: &str, json: Option<&str>) {
    let Some(json) = json else { return };
    out.push_str(key);
    match json.contains(['\n', '\r']) {
        false => out.push_str(json),
        true => out.extend(json.chars().map(|char| match char {
            '\n' | '\r' => ' ',
            char => char,
        })),
    }
}

/// A string of JSON, in quotes.
pub(super) fn push_string(out: &mut String, text: &str) {
    let is_plain = |byte: u8| byte >= 0x20 && byte != b'"' && byte != b'\\';
    match text.bytes().all(is_plain) {
        true => {
            out.push('"');
            out.push_str(text);
            out.push('"');
        }
        false => out.push_str(&serde_json::Value::from(text).to_string()),
    }
}
