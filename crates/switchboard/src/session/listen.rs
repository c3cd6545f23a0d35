//! A modern server tells of changed lists only while a `subscriptions/listen` request stands; this keeps one standing.

use std::time::Duration;

use serde_json::{Map, Value};
use tokio::task::AbortHandle;

use super::link::{Link, Request};
use super::{Era, Hello};
use crate::wire::RawJson;

/// A server that ends the subscription is asked again after this long.
const PAUSE: Duration = Duration::from_secs(1);

/// The task that keeps the request standing. Dropping it ends the subscription.
#[derive(Debug)]
pub(super) struct Listening(AbortHandle);

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Starts listening, if the server is modern and declared that its lists change.
pub(super) fn start(link: &Link, hello: &Hello) -> Option<Listening> {
    let filter = filter(hello)?;
    let link = link.clone();
    let task = tokio::spawn(async move {
        loop {
            let fields: [(&str, &[u8]); 1] = [("notifications", filter.as_bytes())];
            let Ok(mut waiting) = link.post(Request::new(Era::Modern, "subscriptions/listen", &fields), None) else { return };
            // An error means that it will not; a result, that it ended this one.
            if waiting.answer().await.is_err() {
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
    });
    Some(Listening(task.abort_handle()))
}

/// The lists that may change, as the server declared them.
fn filter(hello: &Hello) -> Option<RawJson> {
    if hello.era != Era::Modern {
        return None;
    }
    let declared: Value = hello.capabilities.to_value().ok()?;
    let mut wanted = Map::new();
    for (capability, name) in
        [("tools", "toolsListChanged"), ("prompts", "promptsListChanged"), ("resources", "resourcesListChanged")]
    {
        if declared[capability]["listChanged"] == Value::Bool(true) {
            wanted.insert(name.to_owned(), Value::Bool(true));
        }
    }
    (!wanted.is_empty()).then(|| RawJson::from_value(&wanted))
}
