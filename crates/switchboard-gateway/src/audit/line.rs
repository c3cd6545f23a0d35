//! One line of the audit log as JSON. Its length is bounded, whatever a client sent.
//!
//! Written without a serializer, which took a fifth of the gateway's time for each call.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use serde::Deserialize;
use switchboard::RawJson;
use switchboard::config::AuditArguments;
use switchboard::secret::Redactor;
use switchboard::wire::push_escaped;

use super::shape::push_shape;

/// Longer texts are cut, and of a longer `clientInfo` name and version are written.
const MAX_TEXT_BYTES: usize = 1 << 10;

/// Larger values are only counted.
pub(super) const MAX_JSON_BYTES: usize = 64 << 10;

/// One line. Empty fields are left out.
#[derive(Debug, Clone, Default)]
pub struct AuditLine<'a> {
    /// `request`, `approval`, `sampling`, `refused`, or what an operator did.
    pub event: &'static str,
    /// The number of the request since the gateway started.
    pub request: Option<u64>,
    /// The number of an approval, as operators see it.
    pub approval_id: Option<u64>,
    /// How an operator did it.
    pub by: &'static str,
    /// The authenticated client.
    pub client: &'a str,
    /// The client's `clientInfo`.
    pub client_info: Option<&'a RawJson>,
    /// The method of the request.
    pub method: &'a str,
    /// The server.
    pub server: &'a str,
    /// The tool, the prompt or the resource; in a refusal the path.
    pub name: &'a str,
    /// `allow`, `ask` or `deny`.
    pub decision: &'static str,
    /// The rule, mode or grant behind the decision; in a refusal the reason.
    pub rule: &'a str,
    /// The answer to the approval question.
    pub approval: &'a str,
    /// How it ended.
    pub outcome: &'static str,
    /// Why it did not complete.
    pub error: &'a str,
    /// The arguments; [`AuditArguments`] decides how they are written.
    pub arguments: Option<&'a RawJson>,
    /// How long it took.
    pub duration: Option<Duration>,
    /// The server's share of the time.
    pub server_duration: Option<Duration>,
    /// The approval's share of the time.
    pub approval_duration: Option<Duration>,
    /// The share of waiting for the server to connect, or for calls of other clients to end.
    pub waiting_duration: Option<Duration>,
    /// The share of waiting for the client's answers to questions of the server.
    pub questions_duration: Option<Duration>,
    /// Where a refused request came from.
    pub peer: Option<SocketAddr>,
}

impl AuditLine<'_> {
    /// Writes all members, without the braces. `redactor` is for what is cut: a part of a secret would
    /// not be recognised later.
    pub(super) fn write(&self, out: &mut String, arguments: AuditArguments, redactor: &Redactor) {
        push_word(out, "\"event\":\"", self.event);
        if let Some(request) = self.request {
            out.push_str(",\"request\":");
            push_number(out, request);
        }
        if let Some(approval) = self.approval_id {
            out.push_str(",\"approval_id\":");
            push_number(out, approval);
        }
        push_word(out, ",\"by\":\"", self.by);
        push_member(out, ",\"client\":", self.client, redactor);
        if let Some(client_info) = self.client_info {
            out.push_str(",\"client_info\":");
            push_client_info(out, client_info, redactor);
        }
        push_member(out, ",\"method\":", self.method, redactor);
        push_member(out, ",\"server\":", self.server, redactor);
        push_member(out, ",\"name\":", self.name, redactor);
        push_word(out, ",\"decision\":\"", self.decision);
        push_member(out, ",\"rule\":", self.rule, redactor);
        push_member(out, ",\"approval\":", self.approval, redactor);
        push_word(out, ",\"outcome\":\"", self.outcome);
        push_member(out, ",\"error\":", self.error, redactor);
        match (self.arguments, arguments) {
            (None, _) | (_, AuditArguments::None) => {}
            (Some(json), how) => {
                out.push_str(",\"arguments\":");
                push_arguments(out, json, how);
            }
        }
        for (key, duration) in [
            (",\"duration_ms\":", self.duration),
            (",\"server_ms\":", self.server_duration),
            (",\"approval_ms\":", self.approval_duration),
            (",\"waiting_ms\":", self.waiting_duration),
            (",\"questions_ms\":", self.questions_duration),
        ] {
            if let Some(duration) = duration {
                out.push_str(key);
                push_milliseconds(out, duration);
            }
        }
        if let Some(peer) = self.peer {
            // Writing to a string does not fail.
            let _ = write!(out, ",\"peer\":\"{peer}\"");
        }
    }
}

/// The recorded form of a call's arguments.
pub(super) fn push_arguments(out: &mut String, arguments: &RawJson, how: AuditArguments) {
    match how {
        AuditArguments::Shape => push_shape(out, arguments),
        AuditArguments::Full if arguments.as_str().len() > MAX_JSON_BYTES => {
            push_size(out, arguments);
        }
        AuditArguments::Full => push_json(out, arguments),
        AuditArguments::None => out.push_str("null"),
    }
}

/// A word of ours, which has nothing to escape.
fn push_word(out: &mut String, key_and_quote: &str, word: &'static str) {
    if !word.is_empty() {
        out.push_str(key_and_quote);
        out.push_str(word);
        out.push('"');
    }
}

fn push_member(out: &mut String, key: &str, value: &str, redactor: &Redactor) {
    if !value.is_empty() {
        out.push_str(key);
        push_string(out, &shortened(value, redactor));
    }
}

/// A text that is not too long for a line.
fn shortened<'a>(text: &'a str, redactor: &Redactor) -> Cow<'a, str> {
    if text.len() <= MAX_TEXT_BYTES {
        return Cow::Borrowed(text);
    }
    // No secret is so long that it begins in the text that is kept and ends after this.
    let beginning = &text[..text.floor_char_boundary(MAX_JSON_BYTES)];
    let redacted = redactor.redact(beginning);
    let kept = &redacted[..redacted.floor_char_boundary(MAX_TEXT_BYTES)];
    Cow::Owned(format!("{kept}… ({} bytes)", text.len()))
}

/// What a client says of itself; of a long text name and version.
fn push_client_info(out: &mut String, client_info: &RawJson, redactor: &Redactor) {
    #[derive(Deserialize)]
    struct ClientInfo<'a> {
        #[serde(borrow)]
        name: Cow<'a, str>,
        #[serde(borrow, default)]
        version: Cow<'a, str>,
    }
    match client_info.as_str().len() {
        0..=MAX_TEXT_BYTES => return push_json(out, client_info),
        MAX_JSON_BYTES.. => return push_size(out, client_info),
        _ => {}
    }
    let Ok(ClientInfo { name, version }) = client_info.decode::<ClientInfo<'_>>() else {
        return push_size(out, client_info);
    };
    out.push_str("{\"name\":");
    push_string(out, &shortened(&name, redactor));
    out.push_str(",\"version\":");
    push_string(out, &shortened(&version, redactor));
    out.push('}');
}

/// How many bytes a value has, instead of the value.
pub(super) fn push_size(out: &mut String, json: &RawJson) {
    // Writing to a string does not fail.
    let _ = write!(out, "\"{} bytes\"", json.as_str().len());
}

/// Replaces line breaks between the tokens of a client's JSON: they would let a client forge a line of
/// the log.
fn push_json(out: &mut String, json: &RawJson) {
    let json = json.as_str();
    match memchr::memchr2(b'\n', b'\r', json.as_bytes()).is_some() {
        false => out.push_str(json),
        true => out.extend(json.chars().map(|char| match char {
            '\n' | '\r' => ' ',
            char => char,
        })),
    }
}

/// A string of JSON, in quotes.
pub(super) fn push_string(out: &mut String, text: &str) {
    out.push('"');
    push_escaped(out, text);
    out.push('"');
}

fn push_number(out: &mut String, number: u64) {
    out.push_str(itoa::Buffer::new().format(number));
}

/// Milliseconds with three digits after the point.
fn push_milliseconds(out: &mut String, duration: Duration) {
    let micros = duration.as_micros();
    push_number(out, (micros / 1000) as u64);
    out.push('.');
    push_three_digits(out, (micros % 1000) as u16);
}

/// A number below 1000.
pub(super) fn push_three_digits(out: &mut String, number: u16) {
    for digit in [number / 100, number / 10 % 10, number % 10] {
        out.push(char::from(b'0' + digit as u8));
    }
}
