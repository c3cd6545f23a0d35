//! The `_meta` of modern requests: the revision, the client info and the caller's capabilities.

use std::borrow::Cow;
use std::sync::OnceLock;

use serde_json::json;

use super::tasks;
use crate::caller::CallerCapabilities;
use crate::event::LogLevel;
use crate::revision::Revision;
use crate::session::capabilities::{client_capabilities, client_info};

/// The number of combinations of offers.
const OFFERS: usize = 32;

/// The members as JSON text. Each combination is encoded once.
pub(super) fn meta(
    revision: Revision,
    offers: CallerCapabilities,
    has_roots: bool,
) -> &'static str {
    static WRITTEN: [[OnceLock<String>; OFFERS]; Revision::MODERN.len()] =
        [const { [const { OnceLock::new() }; OFFERS] }; Revision::MODERN.len()];
    let CallerCapabilities {
        elicit_form,
        elicit_url,
        sampling,
        sampling_tools,
    } = offers;
    let flags = [elicit_form, elicit_url, sampling, sampling_tools, has_roots];
    let index = flags
        .into_iter()
        .fold(0, |index, is_set| index * 2 + usize::from(is_set));
    let known = Revision::MODERN.iter().position(|known| *known == revision);
    WRITTEN[known.unwrap_or_default()][index].get_or_init(|| write(revision, offers, has_roots))
}

fn write(revision: Revision, offers: CallerCapabilities, has_roots: bool) -> String {
    let mut capabilities = client_capabilities(offers, has_roots.then(|| json!({})));
    capabilities["extensions"] = json!({tasks::EXTENSION: {}});
    let members = json!({
        "io.modelcontextprotocol/protocolVersion": revision.as_str(),
        "io.modelcontextprotocol/clientInfo": client_info(),
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    });
    let text = members.to_string();
    text[1..text.len() - 1].to_owned()
}

/// Adds the level from which on the server may log during the request.
pub(super) fn with_log_level(meta: &str, level: Option<LogLevel>) -> Cow<'_, str> {
    match level {
        Some(level) => format!(
            r#"{meta},"io.modelcontextprotocol/logLevel":"{}""#,
            level.as_str()
        )
        .into(),
        None => meta.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_combination_of_revision_and_offers_has_its_own_meta() {
        for revision in Revision::MODERN {
            for number in 0..OFFERS {
                let is_set = |bit: u32| number >> bit & 1 == 1;
                let offers = CallerCapabilities {
                    elicit_form: is_set(0),
                    elicit_url: is_set(1),
                    sampling: is_set(2),
                    sampling_tools: is_set(3),
                };
                let text = meta(revision, offers, is_set(4));
                assert_eq!(text, write(revision, offers, is_set(4)));
                assert!(text.contains(revision.as_str()));
            }
        }
    }
}
