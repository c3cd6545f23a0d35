//! When a server's lists are requested again, and whether they changed.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::catalog::Offerings;
use crate::future::BoxFuture;
use crate::session::RequestFault;
use crate::wire::RawJson;

/// Delay from the first change to the request, so that changes in quick succession cause one
/// request.
const DEBOUNCE: Duration = Duration::from_millis(200);

/// At most one request at a time; changes that arrive during it cause one more.
#[derive(Default)]
pub(super) struct ListRefresh {
    due: Option<Instant>,
    running: Option<BoxFuture<'static, Result<Offerings, RequestFault>>>,
}

impl ListRefresh {
    /// Notes a change. Later changes do not move the deadline, so a flood of changes cannot
    /// postpone the request forever.
    pub(super) fn changed(&mut self) {
        self.due.get_or_insert_with(|| Instant::now() + DEBOUNCE);
    }

    /// The result of a running request, or `None` when it is time to start one.
    pub(super) async fn next(&mut self) -> Option<Result<Offerings, RequestFault>> {
        match (&mut self.running, self.due) {
            (Some(running), _) => {
                let listed = running.await;
                self.running = None;
                Some(listed)
            }
            (None, Some(due)) => {
                sleep_until(due).await;
                None
            }
            (None, None) => std::future::pending().await,
        }
    }

    pub(super) fn run(
        &mut self,
        listing: impl Future<Output = Result<Offerings, RequestFault>> + Send + 'static,
    ) {
        self.due = None;
        self.running = Some(Box::pin(listing));
    }
}

/// What follows from a new listing.
#[derive(Debug, Default)]
pub(super) struct ListUpdate {
    /// The new offerings. `None` if nothing changed, so that the catalog is not rebuilt.
    pub(super) changed: Option<Offerings>,
    /// The lists that failed, each with its error; the previous ones stay.
    pub(super) failure: Option<String>,
}

/// Compares a new listing with the previous one. A list that had already failed is not reported
/// again.
pub(super) fn compare(before: &Offerings, listed: Result<Offerings, RequestFault>) -> ListUpdate {
    let mut now = match listed {
        Ok(now) => now,
        Err(fault) => {
            return ListUpdate {
                changed: None,
                failure: Some(fault.to_string()),
            };
        }
    };
    let faults = std::mem::take(&mut now.faults).into_iter();
    let failed_before = |method: &str| before.faults.iter().any(|(known, _)| *known == method);
    let (known, new): (Vec<_>, Vec<_>) = faults.partition(|(method, _)| failed_before(method));
    now.faults = known;
    for (method, _) in &new {
        keep_list(&mut now, before, method);
    }
    let failures: Vec<_> = (new.iter())
        .map(|(method, fault)| format!("{method}: {fault}"))
        .collect();
    ListUpdate {
        changed: (!is_same(before, &now)).then_some(now),
        failure: (!failures.is_empty()).then(|| failures.join("; ")),
    }
}

/// Replaces a list that failed by the previous one.
fn keep_list(now: &mut Offerings, before: &Offerings, method: &str) {
    match method {
        "tools/list" => {
            now.tools.clone_from(&before.tools);
            now.withheld.clone_from(&before.withheld);
        }
        "prompts/list" => now.prompts.clone_from(&before.prompts),
        "resources/list" => now.resources.clone_from(&before.resources),
        _ => now.templates.clone_from(&before.templates),
    }
}

fn is_same(before: &Offerings, now: &Offerings) -> bool {
    fn raw<T>(items: &[Arc<T>], raw: fn(&T) -> &RawJson) -> Vec<&RawJson> {
        items.iter().map(|item| raw(item)).collect()
    }
    raw(&before.tools, |tool| &tool.raw) == raw(&now.tools, |tool| &tool.raw)
        && before.withheld == now.withheld
        && raw(&before.prompts, |prompt| &prompt.raw) == raw(&now.prompts, |prompt| &prompt.raw)
        && raw(&before.resources, |resource| &resource.raw)
            == raw(&now.resources, |resource| &resource.raw)
        && raw(&before.templates, |template| &template.raw)
            == raw(&now.templates, |template| &template.raw)
        && before.faults == now.faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::ToolName;

    fn offerings(tool: &str, faults: &[(&'static str, &str)]) -> Offerings {
        Offerings {
            withheld: vec![(ToolName::new(tool), "for the test".to_owned())],
            faults: faults
                .iter()
                .map(|(method, fault)| (*method, (*fault).to_owned()))
                .collect(),
            ..Offerings::default()
        }
    }

    fn check(before: &Offerings, now: Offerings, expected: &str) {
        let ListUpdate { changed, failure } = compare(before, Ok(now));
        let changed = changed.map(|now| now.withheld[0].0.as_wire().to_owned());
        let failure = failure.map(|fault| format!("fault {fault}"));
        let update: Vec<_> = changed.into_iter().chain(failure).collect();
        assert_eq!(update.join(", "), expected);
    }

    #[test]
    fn f14_only_lists_that_succeeded_and_differ_are_replaced() {
        let whole = offerings("one", &[]);
        let without_prompts = offerings("one", &[("prompts/list", "boom")]);
        check(&whole, offerings("one", &[]), "");
        check(&whole, offerings("two", &[]), "two");
        check(
            &whole,
            offerings("two", &[("tools/list", "boom")]),
            "fault tools/list: boom",
        );
        check(
            &whole,
            offerings("two", &[("prompts/list", "boom")]),
            "two, fault prompts/list: boom",
        );
        check(
            &without_prompts,
            offerings("two", &[("prompts/list", "boom")]),
            "two",
        );
        check(
            &without_prompts,
            offerings("one", &[("prompts/list", "boom")]),
            "",
        );
        check(&without_prompts, offerings("one", &[]), "one");
    }
}
