//! The steps and assertions of each cell of the table.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Map;
use switchboard::call::Call;
use switchboard::caller::Caller;
use switchboard::event::{Event, NextEvent};
use switchboard::name::ServerName;
use switchboard::session::CompletionTarget;
use switchboard::wire::RawJson;
use switchboard_host_testkit::TestCaller;

use super::person::person;
use super::server::Reached;

/// The longest that any step may take, on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Feature {
    List,
    Call,
    Read,
    Prompt,
    Subscribe,
    Complete,
    Elicit,
    Sample,
    Progress,
    Cancel,
}

impl Feature {
    pub(crate) const ALL: [Self; 10] = [
        Self::List,
        Self::Call,
        Self::Read,
        Self::Prompt,
        Self::Subscribe,
        Self::Complete,
        Self::Elicit,
        Self::Sample,
        Self::Progress,
        Self::Cancel,
    ];
}

/// Runs the cell once; panics with its name if it fails.
pub(crate) async fn check(reached: &Reached, feature: Feature) {
    match feature {
        Feature::List => list(reached),
        Feature::Call => call(reached).await,
        Feature::Read => read(reached).await,
        Feature::Prompt => prompt(reached).await,
        Feature::Subscribe => subscribe(reached).await,
        Feature::Complete => complete(reached).await,
        Feature::Elicit => elicit(reached).await,
        Feature::Sample => sample(reached).await,
        Feature::Progress => progress(reached).await,
        Feature::Cancel => cancel(reached).await,
    }
}

/// The text of the result of this tool.
pub(crate) async fn words(
    reached: &Reached,
    tool: (&str, &str),
    person: &Arc<TestCaller>,
) -> String {
    in_time(tool.0, appears(reached, tool.0)).await;
    let call = in_time("call", reached.host.call_with(request(tool, person))).await;
    let result = call.unwrap_or_else(|error| panic!("{}: {error}", tool.0));
    result.untrusted_text().unwrap().raw().to_owned()
}

/// Some servers offer a tool only after they have seen the client's capabilities.
async fn appears(reached: &Reached, tool: &str) {
    let mut events = reached.host.events();
    while reached
        .host
        .catalog()
        .resolve(&format!("it/{tool}"))
        .is_err()
    {
        events.next().await.expect("the host goes on");
    }
}

fn request((tool, arguments): (&str, &str), person: &Arc<TestCaller>) -> Call {
    let caller: Arc<dyn Caller> = person.clone();
    let arguments = RawJson::parse(arguments.to_owned()).unwrap();
    Call::new(format!("it/{tool}"), arguments)
        .caller(caller)
        .pre_approved()
}

async fn in_time<T>(what: &str, doing: impl Future<Output = T>) -> T {
    tokio::time::timeout(TIMEOUT, doing)
        .await
        .unwrap_or_else(|_| panic!("{what}: not within {TIMEOUT:?}"))
}

fn server() -> ServerName {
    ServerName::new("it").unwrap()
}

fn list(reached: &Reached) {
    let catalog = reached.host.catalog();
    let tools: Vec<&str> = catalog
        .tools()
        .iter()
        .map(|tool| tool.id.tool.as_wire())
        .collect();
    assert!(tools.contains(&reached.traits.call.0.0), "{tools:?}");
    let [(_, offerings)] = catalog.offerings() else {
        panic!("one server offers something")
    };
    if let Some(((uri, _), (name, _, _))) = reached.traits.read.zip(reached.traits.prompt) {
        assert!(
            offerings
                .resources
                .iter()
                .any(|resource| resource.uri == uri),
            "{uri}: {:?}",
            offerings.resources
        );
        assert!(
            offerings.prompts.iter().any(|prompt| prompt.name == name),
            "{name}: {:?}",
            offerings.prompts
        );
    }
}

async fn call(reached: &Reached) {
    let (tool, expected) = reached.traits.call;
    let text = words(reached, tool, &person("caller")).await;
    assert!(text.contains(expected), "{text}");
}

async fn read(reached: &Reached) {
    let (uri, expected) = reached.traits.read.unwrap();
    let caller: Arc<dyn Caller> = person("reader");
    let result = in_time("read", reached.host.read(&server(), uri, &caller))
        .await
        .unwrap();
    assert!(result.as_str().contains(expected), "{result:?}");
}

async fn prompt(reached: &Reached) {
    let (name, arguments, expected) = reached.traits.prompt.unwrap();
    let caller: Arc<dyn Caller> = person("reader");
    let arguments = RawJson::parse(arguments.to_owned()).unwrap();
    let result = in_time(
        "prompt",
        reached.host.prompt(&server(), name, &arguments, &caller),
    )
    .await
    .unwrap();
    assert!(result.as_str().contains(expected), "{result:?}");
}

async fn subscribe(reached: &Reached) {
    let (uri, change) = reached.traits.subscribe.unwrap();
    let mut events = reached.host.events();
    in_time("subscribe", reached.host.subscribe(&server(), uri))
        .await
        .unwrap();
    words(reached, change, &person("changer")).await;
    in_time("the update", async {
        loop {
            match events.next().await {
                Some(NextEvent::Event(Event::ResourceUpdated { uri: message, .. }))
                    if message.raw() == uri =>
                {
                    return;
                }
                Some(_) => {}
                None => panic!("the host has stopped"),
            }
        }
    })
    .await;
    in_time("unsubscribe", reached.host.unsubscribe(&server(), uri))
        .await
        .unwrap();
}

async fn complete(reached: &Reached) {
    let (prompt, argument, value, expected) = reached.traits.complete.unwrap();
    let of = CompletionTarget::Prompt(prompt.to_owned());
    let result = in_time(
        "complete",
        reached
            .host
            .complete(&server(), &of, argument, value, &Map::new()),
    )
    .await
    .unwrap();
    assert!(result.as_str().contains(expected), "{result:?}");
}

async fn elicit(reached: &Reached) {
    let (tool, question, expected) = reached.traits.elicit.unwrap();
    let person = person("asked");
    let text = words(reached, tool, &person).await;
    assert!(text.contains(expected), "{text}");
    let questions = person.seen().questions;
    assert!(
        questions.len() == 1 && questions[0].contains(question),
        "{questions:?}"
    );
}

async fn sample(reached: &Reached) {
    let (tool, prompt, expected) = reached.traits.sample.unwrap();
    let person = person("modelled");
    let text = words(reached, tool, &person).await;
    assert!(text.contains(expected), "{text}");
    let samplings = person.seen().samplings;
    assert!(
        samplings.len() == 1 && samplings[0].contains(prompt),
        "{samplings:?}"
    );
}

async fn progress(reached: &Reached) {
    let person = person("watcher");
    words(reached, reached.traits.progress.unwrap(), &person).await;
    let steps = person.seen().progress;
    assert!(!steps.is_empty() && steps.is_sorted(), "{steps:?}");
}

/// The call is dropped while it runs, and the server stops it.
async fn cancel(reached: &Reached) {
    let (slow, stopped) = reached.traits.cancel.unwrap();
    let hurried = person("hurried");
    let host = reached.host.clone();
    let call = request(slow, &hurried);
    let calling = tokio::spawn(async move { host.call_with(call).await });
    in_time(
        "the first progress",
        hurried.until(|seen| !seen.progress.is_empty()),
    )
    .await;
    calling.abort();
    assert!(
        in_time("the end of the call", calling)
            .await
            .unwrap_err()
            .is_cancelled()
    );
    let Some((tool, expected)) = stopped else {
        // The server does not report it; it must at least continue to work.
        return call_again(reached).await;
    };
    let began = Instant::now();
    while words(reached, (tool, "{}"), &person("checker")).await != expected {
        assert!(
            began.elapsed() < TIMEOUT,
            "the server never stopped the call"
        );
    }
}

async fn call_again(reached: &Reached) {
    call(reached).await;
}
