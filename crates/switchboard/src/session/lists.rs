//! Requests lists page by page, with limits: a list that does not end, repeats a cursor or is
//! invalid is a fault of that list alone.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout_at};

use super::peer::{ParamField, json_string};
use super::{Era, RequestFault, Session};
use crate::catalog::{
    Offerings, PromptDefinition, ResourceDefinition, TemplateDefinition, ToolDefinition,
};
use crate::transport::TransportFault;
use crate::wire::bounded::BoundedList;
use crate::wire::{NotJson, RawJson};

const MAX_PAGES: usize = 1_000;
const MAX_ITEMS: usize = 20_000;
const MAX_CURSOR_BYTES: usize = 64 * 1024;

/// How long all pages of a list may take, unless connecting may take longer.
const MAX_TIME: Duration = Duration::from_secs(30);

/// Requests all lists that the server declared, concurrently. Only a lost connection or a missing
/// login is an error.
pub(super) async fn offerings(session: &Session) -> Result<Offerings, RequestFault> {
    #[derive(Deserialize, Default)]
    struct Declared<'a> {
        #[serde(borrow)]
        tools: Option<&'a RawValue>,
        #[serde(borrow)]
        prompts: Option<&'a RawValue>,
        #[serde(borrow)]
        resources: Option<&'a RawValue>,
    }
    let declared: Declared<'_> = session.hello.capabilities.decode().unwrap_or_default();
    let lister = Lister(session);
    let (tools, prompts, resources, templates) = tokio::join!(
        lister.list_if(declared.tools.is_some(), "tools", "tools/list", "tools"),
        lister.list_if(
            declared.prompts.is_some(),
            "prompts",
            "prompts/list",
            "prompts"
        ),
        lister.list_if(
            declared.resources.is_some(),
            "resources",
            "resources/list",
            "resources"
        ),
        lister.list_if(
            declared.resources.is_some(),
            "resources",
            "resources/templates/list",
            "resourceTemplates"
        ),
    );
    let sends_headers = session.era.sends_headers(&session.peer);
    let mut offerings = Offerings::default();
    for raw in offerings.take("tools/list", tools)? {
        match ToolDefinition::parse(&raw) {
            // A tool whose headers cannot be encoded is withheld: the server would refuse each
            // call.
            Ok(ToolDefinition {
                name,
                mirrored: Err(reason),
                ..
            }) if sends_headers => offerings.withheld.push((name, reason)),
            Ok(definition) => offerings.tools.push(Arc::new(definition)),
            Err(withheld) => offerings.withheld.push(withheld),
        }
    }
    for raw in offerings.take("prompts/list", prompts)? {
        match PromptDefinition::parse(&raw) {
            Ok(definition) => offerings.prompts.push(Arc::new(definition)),
            Err(fault) => offerings.faults.push(("prompts/list", fault)),
        }
    }
    for raw in offerings.take("resources/list", resources)? {
        match ResourceDefinition::parse(&raw) {
            Ok(definition) => offerings.resources.push(Arc::new(definition)),
            Err(fault) => offerings.faults.push(("resources/list", fault)),
        }
    }
    for raw in offerings.take("resources/templates/list", templates)? {
        match TemplateDefinition::parse(&raw) {
            Ok(definition) => offerings.templates.push(Arc::new(definition)),
            Err(fault) => offerings.faults.push(("resources/templates/list", fault)),
        }
    }
    Ok(offerings)
}

impl Offerings {
    /// Extracts the items of one list. The list's own fault is recorded; a fault of the connection
    /// is returned.
    fn take(
        &mut self,
        method: &'static str,
        listed: Result<Vec<RawJson>, RequestFault>,
    ) -> Result<Vec<RawJson>, RequestFault> {
        match listed {
            Ok(items) => Ok(items),
            Err(
                fault @ (RequestFault::Closed(_)
                | RequestFault::Transport(TransportFault::NeedsLogin(_))),
            ) => Err(fault),
            // Servers that declare resources often have no templates and respond with this error.
            Err(RequestFault::ErrorResponse { code: -32601, .. })
                if method == "resources/templates/list" =>
            {
                Ok(Vec::new())
            }
            Err(fault) => {
                self.faults.push((method, fault.to_string()));
                Ok(Vec::new())
            }
        }
    }
}

struct Lister<'a>(&'a Session);

impl Lister<'_> {
    /// A list that the server declared, from the cache if it is fresh.
    async fn list_if(
        &self,
        is_declared: bool,
        capability: &str,
        method: &'static str,
        key: &str,
    ) -> Result<Vec<RawJson>, RequestFault> {
        if !is_declared {
            return Ok(Vec::new());
        }
        let Self(session) = self;
        let cache = &session.peer.receiver.options.cache;
        if let Some(items) = cache.list(method) {
            return Ok(items);
        }
        let ticket = cache.ticket();
        let (items, ttl) = self.list(method, key).await?;
        let is_watched = session.era.reports_every_change()
            && session.hello.declares(&[capability, "listChanged"]);
        cache.store_list(ticket, method, &items, ttl, is_watched);
        Ok(items)
    }

    /// Follows the cursors to the end. Returns the items and how long all pages are fresh.
    async fn list(
        &self,
        method: &str,
        key: &str,
    ) -> Result<(Vec<RawJson>, Duration), RequestFault> {
        let mut ttl = Duration::MAX;
        let Self(session) = self;
        let options = &session.peer.receiver.options;
        let max_bytes = options.max_message_bytes;
        let max_time = options.connect_timeout.max(MAX_TIME);
        let deadline = Instant::now() + max_time;
        let mut bytes = 0;
        let mut items = Vec::new();
        let mut cursor: Option<String> = None;
        let mut seen = HashSet::new();
        for _ in 0..MAX_PAGES {
            let text = cursor.as_deref().map(json_string);
            let fields: &[ParamField<'_>] = match &text {
                Some(text) => &[("cursor", text)],
                None => &[],
            };
            let page = timeout_at(
                deadline,
                session
                    .peer
                    .request(session.era.request(method, fields), max_time),
            )
            .await;
            let page = page.unwrap_or(Err(RequestFault::Timeout {
                after: max_time,
                total: true,
            }))?;
            // All pages are in memory together, so their sum has the limit of one message.
            bytes += page.as_bytes().len();
            if bytes > max_bytes {
                return Err(RequestFault::Invalid(format!(
                    "a list of more than {max_bytes} bytes"
                )));
            }
            session.era.check_complete(&page)?;
            let listed_before = items.len();
            let next = read_page(&page, key, &mut items)?;
            ttl = ttl.min(session.era.list_lifetime(&page));
            if items.len() > MAX_ITEMS {
                return Err(RequestFault::Invalid(format!(
                    "more than {MAX_ITEMS} items"
                )));
            }
            match next {
                None => return Ok((items, ttl)),
                Some(next) if next.len() > MAX_CURSOR_BYTES => {
                    return Err(RequestFault::Invalid(format!(
                        "a cursor of {} bytes",
                        next.len()
                    )));
                }
                Some(next) => {
                    if !seen.insert(next.clone()) {
                        // Some legacy servers mean the end by an empty cursor, and sent the page
                        // again. In the modern revision an empty cursor is one like any other.
                        if next.is_empty() && session.hello.era() == Era::Legacy {
                            items.truncate(listed_before);
                            return Ok((items, ttl));
                        }
                        return Err(RequestFault::Invalid(
                            "the same cursor came twice, so the list would never end".into(),
                        ));
                    }
                    cursor = Some(next);
                }
            }
        }
        Err(RequestFault::Invalid(format!(
            "more than {MAX_PAGES} pages"
        )))
    }
}

/// Appends the items of one page and returns the next cursor.
fn read_page(
    page: &RawJson,
    key: &str,
    items: &mut Vec<RawJson>,
) -> Result<Option<String>, RequestFault> {
    let read = ListPageReader { key }
        .deserialize(&mut serde_json::Deserializer::from_str(page.as_str()))
        .map_err(|fault| {
            let fault = NotJson::from(fault);
            RequestFault::Invalid(format!("the list is not an object: {fault}"))
        })?;
    let listed = read
        .items
        .ok_or_else(|| RequestFault::Invalid(format!("a list without {key:?}")))?;
    let listed: BoundedList<'_, MAX_ITEMS> = serde_json::from_str(listed.get())
        .map_err(|_| RequestFault::Invalid(format!("{key:?} is not an array")))?;
    let elements = listed
        .elements()
        .map_err(|_| RequestFault::Invalid(format!("more than {MAX_ITEMS} items")))?;
    items.extend(elements.into_iter().map(|element| page.part(element)));
    match read.next_cursor {
        None => Ok(None),
        Some(raw) => serde_json::from_str(raw.get())
            .map_err(|_| RequestFault::Invalid("nextCursor is not a string".into())),
    }
}

/// The members of a page that are used.
struct ListPage<'a> {
    items: Option<&'a RawValue>,
    next_cursor: Option<&'a RawValue>,
}

/// Reads a [`ListPage`] whose items have this key. Other members are skipped: there may be millions.
struct ListPageReader<'k> {
    key: &'k str,
}

impl<'de> DeserializeSeed<'de> for ListPageReader<'_> {
    type Value = ListPage<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<ListPage<'de>, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ListPageReader<'_> {
    type Value = ListPage<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<ListPage<'de>, A::Error> {
        let mut page = ListPage {
            items: None,
            next_cursor: None,
        };
        while let Some(key) = members.next_key::<Cow<'de, str>>()? {
            match &*key {
                key if key == self.key => page.items = Some(members.next_value()?),
                "nextCursor" => page.next_cursor = Some(members.next_value()?),
                _ => drop(members.next_value::<IgnoredAny>()?),
            }
        }
        Ok(page)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn p3_t28_a_page_of_too_many_items_is_refused_before_they_are_kept() {
        let page = |items: usize| -> RawJson {
            let items = vec!["1"; items].join(",");
            format!(r#"{{"x":1,"tools":[{items}],"nextCursor":"c"}}"#)
                .parse()
                .unwrap()
        };
        let read = |page: &RawJson| {
            let mut items = Vec::new();
            let next = read_page(page, "tools", &mut items);
            (next, items.len())
        };
        assert_eq!(read(&page(2)), (Ok(Some("c".to_owned())), 2));
        assert_eq!(
            read(&page(MAX_ITEMS + 1)),
            (
                Err(RequestFault::Invalid(format!(
                    "more than {MAX_ITEMS} items"
                ))),
                0
            )
        );
        let wrong = |text: &str| read(&text.parse().unwrap()).0.unwrap_err();
        for (text, fault) in [
            (r#"{"tools":{}}"#, "\"tools\" is not an array"),
            (r#"{"prompts":[]}"#, "a list without \"tools\""),
            (
                r#"{"tools":[],"nextCursor":7}"#,
                "nextCursor is not a string",
            ),
        ] {
            assert_eq!(
                wrong(text),
                RequestFault::Invalid(fault.to_owned()),
                "{text}"
            );
        }
    }
}
