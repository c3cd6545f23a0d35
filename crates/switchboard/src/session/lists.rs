//! Lists with pages and caps: a list that does not end, repeats itself or answers nonsense is a
//! fault of that list alone.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout_at};

use super::cache::Hint;
use super::link::{Link, Request};
use super::{Era, Hello, RequestFault, envelope};
use crate::catalog::{
    Offerings, PromptDefinition, ResourceDefinition, TemplateDefinition, ToolDefinition,
};
use crate::transport::WireFault;
use crate::wire::RawJson;

const MAX_PAGES: usize = 1_000;
const MAX_ITEMS: usize = 20_000;
const MAX_CURSOR_BYTES: usize = 64 * 1024;
const MAX_TIME: Duration = Duration::from_secs(30);

/// Lists everything that the server declared, all lists at once. Only a lost connection or a
/// missing login is an error.
pub(super) async fn offerings(link: &Link, hello: &Hello) -> Result<Offerings, RequestFault> {
    #[derive(Deserialize, Default)]
    struct Declared<'a> {
        #[serde(borrow)]
        tools: Option<&'a RawValue>,
        #[serde(borrow)]
        prompts: Option<&'a RawValue>,
        #[serde(borrow)]
        resources: Option<&'a RawValue>,
    }
    let declared: Declared<'_> = hello.capabilities.decode().unwrap_or_default();
    let lister = Lister { link, hello };
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
    let says_headers = hello.era() == Era::Modern && link.transport.properties().sends_headers;
    let mut offerings = Offerings::default();
    for raw in offerings.take("tools/list", tools)? {
        match ToolDefinition::parse(&raw) {
            // The server could not be told what it wants to see in headers, so it would refuse each
            // call (T15).
            Ok(ToolDefinition {
                name,
                mirrored: Err(reason),
                ..
            }) if says_headers => offerings.withheld.push((name, reason)),
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
    /// The items of one list; its fault is noted, what concerns them all is passed on.
    fn take(
        &mut self,
        method: &'static str,
        listed: Result<Vec<RawJson>, RequestFault>,
    ) -> Result<Vec<RawJson>, RequestFault> {
        match listed {
            Ok(items) => Ok(items),
            Err(
                fault @ (RequestFault::Closed(_) | RequestFault::Wire(WireFault::NeedsLogin(_))),
            ) => Err(fault),
            // Servers that declare resources often have no templates, and say so this way.
            Err(RequestFault::Answered { code: -32601, .. })
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

struct Lister<'a> {
    link: &'a Link,
    hello: &'a Hello,
}

impl Lister<'_> {
    /// A list that the server declared, unless it is known and has not changed.
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
        let cache = &self.link.receiver.options.cache;
        if let Some(items) = cache.list(method) {
            return Ok(items);
        }
        let asked = cache.asking();
        let (items, ttl) = self.list(method, key).await?;
        // A legacy session hears of every change for as long as it stands; a modern one listens as
        // well as its stream does.
        let is_watched =
            self.hello.era() == Era::Legacy && self.hello.declares(&[capability, "listChanged"]);
        cache.keep_list(asked, method, &items, ttl, is_watched);
        Ok(items)
    }

    /// Follows the cursors to the end. With the items comes for how long all pages are fresh.
    async fn list(
        &self,
        method: &str,
        key: &str,
    ) -> Result<(Vec<RawJson>, Duration), RequestFault> {
        let mut ttl = Duration::MAX;
        let deadline = Instant::now() + MAX_TIME;
        let max_bytes = self.link.receiver.options.max_message_bytes;
        let mut bytes = 0;
        let mut items = Vec::new();
        let mut cursor: Option<String> = None;
        let mut seen = HashSet::new();
        for _ in 0..MAX_PAGES {
            let text = cursor.as_deref().map(envelope::string);
            let fields: &[envelope::Field<'_>] = match &text {
                Some(text) => &[("cursor", text)],
                None => &[],
            };
            let page = timeout_at(
                deadline,
                self.link
                    .request(Request::new(self.hello.era(), method, fields), MAX_TIME),
            )
            .await;
            let page = page.unwrap_or(Err(RequestFault::Timeout {
                after: MAX_TIME,
                total: true,
            }))?;
            // The pages are kept, so together they may be no larger than one message may be.
            bytes += page.as_bytes().len();
            if bytes > max_bytes {
                return Err(RequestFault::Invalid(format!(
                    "a list of more than {max_bytes} bytes"
                )));
            }
            let next = read_page(&page, key, &mut items)?;
            ttl = match self.hello.era() {
                Era::Modern => ttl.min(Hint::of(&page).ttl),
                Era::Legacy => Duration::ZERO,
            };
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

/// Adds the items of one page; answers the next cursor.
fn read_page(
    page: &RawJson,
    key: &str,
    items: &mut Vec<RawJson>,
) -> Result<Option<String>, RequestFault> {
    let members: indexmap::IndexMap<String, &RawValue> = page
        .decode()
        .map_err(|fault| RequestFault::Invalid(format!("a list that is no object: {fault}")))?;
    let listed = members
        .get(key)
        .ok_or_else(|| RequestFault::Invalid(format!("a list without {key:?}")))?;
    let elements: Vec<&RawValue> = serde_json::from_str(listed.get())
        .map_err(|_| RequestFault::Invalid(format!("{key:?} is no array")))?;
    items.extend(elements.into_iter().map(|element| page.part(element)));
    match members.get("nextCursor") {
        None => Ok(None),
        Some(raw) => serde_json::from_str(raw.get())
            .map_err(|_| RequestFault::Invalid("nextCursor is no string".into())),
    }
}
