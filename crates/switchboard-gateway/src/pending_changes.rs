//! Configuration changes that wait for a person, for the page, for `switchboard approvals`, and for
//! clients.

use serde_json::{Value, json};
use switchboard::Host;
use switchboard::config::Disclosure;
use switchboard::reload::PendingChange;

use crate::digest::digest_of;
use crate::settings::{GatewaySettings, ServerSelection};

/// A change that waits.
#[derive(Debug, Clone)]
pub struct ShownChange {
    /// Identifies the change and its exact text: another text has another id.
    pub id: String,
    /// What waits, and why.
    pub change: PendingChange,
    /// What the server would run, where it can be accepted by itself. Rules that apply to all
    /// servers wait for a reload by a person.
    pub disclosure: Option<Disclosure>,
}

impl ShownChange {
    /// The prefix of ids of changes, which distinguishes them from numbers of calls.
    pub const ID_PREFIX: &str = "change-";

    /// 128 bits: whoever can write the file must not find two texts with the same id.
    const ID_DIGITS: usize = 32;

    /// The lines that an operator decides on, without secrets.
    pub fn lines(&self) -> &[String] {
        let disclosure = self.disclosure.as_ref();
        disclosure.map_or(&[], |disclosure| disclosure.stored_lines.as_slice())
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "id": self.id,
            "server": self.change.server.as_ref().map(|server| server.as_str()),
            "reason": self.change.reason,
            "lines": self.lines(),
            "can_accept": self.disclosure.is_some(),
        })
    }
}

/// All changes that wait.
pub(crate) fn pending_changes(host: &Host) -> Vec<ShownChange> {
    let shown = |change: PendingChange| {
        let disclosure = change
            .server
            .as_ref()
            .and_then(|server| host.disclose(server));
        let server = change.server.as_ref().map_or("", |server| server.as_str());
        let lines = disclosure.iter().flat_map(|shown| &shown.stored_lines);
        let parts = [server, &change.reason].into_iter();
        let parts = parts.chain(lines.map(String::as_str)).map(str::as_bytes);
        let digest = digest_of(parts).to_hex();
        ShownChange {
            id: format!(
                "{}{}",
                ShownChange::ID_PREFIX,
                &digest[..ShownChange::ID_DIGITS]
            ),
            change,
            disclosure,
        }
    };
    host.pending_changes().into_iter().map(shown).collect()
}

/// A change that waits, in one line for clients: their user may see nothing else of the gateway.
pub(crate) fn describe(change: &PendingChange, settings: &GatewaySettings) -> String {
    let subject = match &change.server {
        Some(server) => format!("server \"{server}\""),
        None => "a change of the configuration".to_owned(),
    };
    let review = settings.review_words.and_then(|words| words(change));
    let review = review.map_or_else(String::new, |review| format!("; {review}"));
    let reason = &change.reason;
    format!("{subject} waits for a person's approval: {reason}{review}")
}

/// Whether clients of this selection are notified of the change.
pub(crate) fn concerns(change: &PendingChange, selection: &ServerSelection) -> bool {
    match (selection, &change.server) {
        (ServerSelection::All, _) => true,
        (ServerSelection::One(one), server) => server.as_ref() == Some(one),
    }
}
