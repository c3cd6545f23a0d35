//! The list of tools, and the lookup of a tool by name.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::exchange::{Call, Outcome};
use crate::fixtures;
use crate::lists;
use crate::questions;
use crate::rpc::{Body, Fault};
use crate::tasks;

/// The definition of each tool.
mod definitions;

/// Tools that answer with content of every kind.
mod contents;

/// Tools with side effects.
mod effects;

/// Tools that compute their answer from their arguments.
mod plain;

/// Tools that take time.
mod slow;

/// All tools that may be listed, as text made once.
#[derive(Debug)]
pub(crate) struct Catalog {
    fixed: Vec<String>,
    surprise: String,
    /// Whether the tool `surprise` is listed.
    has_surprise: AtomicBool,
    generated: Vec<String>,
}

impl Catalog {
    pub(crate) fn new(generated: usize, has_fixtures: bool) -> Self {
        let fixtures = has_fixtures.then(fixtures::tools).into_iter().flatten();
        Self {
            fixed: (definitions::fixed().into_iter())
                .chain(fixtures)
                .map(|tool| tool.to_string())
                .collect(),
            surprise: definitions::surprise().to_string(),
            has_surprise: AtomicBool::new(false),
            generated: (1..=generated).map(definitions::generated).collect(),
        }
    }

    /// Adds or removes the tool `surprise`; true if it is listed now.
    fn toggle(&self) -> bool {
        !self.has_surprise.fetch_xor(true, Ordering::Relaxed)
    }

    fn has_surprise(&self) -> bool {
        self.has_surprise.load(Ordering::Relaxed)
    }

    fn has_generated(&self, name: &str) -> bool {
        let number = name
            .strip_prefix(definitions::GENERATED_PREFIX)
            .and_then(|digits| digits.parse::<usize>().ok());
        number.is_some_and(|number| {
            (1..=self.generated.len()).contains(&number)
                && definitions::generated_name(number) == name
        })
    }
}

/// The arguments of a tool that HTTP repeats in headers, with the suffixes of the header names.
pub(crate) fn mirrored(name: &str) -> &'static [(&'static str, &'static str)] {
    if name == "route" {
        &definitions::ROUTE_HEADERS
    } else {
        &[]
    }
}

pub(crate) use effects::toggle_tool;
pub(crate) use slow::hang_up;

/// `tools/list`.
pub(crate) fn list(call: &Call<'_>) -> Result<Body, Fault> {
    let catalog = &call.peer.demo.tools;
    let surprise = catalog.has_surprise().then_some(&catalog.surprise);
    let items: Vec<&str> = catalog
        .fixed
        .iter()
        .chain(surprise)
        .chain(&catalog.generated)
        .map(String::as_str)
        .collect();
    lists::page(call, "tools", &items)
}

/// `tools/call`.
pub(crate) fn call(call: &Call<'_>) -> Result<Outcome, Fault> {
    if call
        .params
        .arguments
        .is_some_and(|arguments| !arguments.get().starts_with('{'))
    {
        return Err(Fault::invalid_params("arguments must be an object"));
    }
    if call.peer.demo.options.has_fixtures
        && let Some(outcome) = fixtures::call(call)
    {
        return outcome;
    }
    let catalog = &call.peer.demo.tools;
    let body = match &*call.params.name {
        "echo" => plain::echo(call),
        "add" => plain::add(call),
        "big" => plain::big(call),
        "whoami" => plain::whoami(call),
        "fail" => plain::fail(call),
        "image" => contents::image(),
        "audio" => contents::audio(),
        "resource_link" => contents::resource_link(),
        "embedded_resource" => contents::embedded_resource(),
        "mixed" => contents::mixed(),
        "hologram" => contents::hologram(),
        "route" => plain::route(call),
        "slow" => return Ok(slow::slow(call)),
        "hang_up" => return Ok(slow::hang_up(call)),
        "errand" => return tasks::begin(call),
        "toggle_tool" => effects::toggle_tool(call),
        "count_up" => effects::count_up(call),
        "log" => effects::log(call),
        "stopped" => Body::from_message(format!("{} stopped", call.peer.demo.stopped_calls())),
        "surprise" if catalog.has_surprise() => Body::from_message("you found me"),
        "" => return Err(Fault::invalid_params("name is missing")),
        name => match questions::script(name) {
            Some(script) => return questions::run(call, script),
            None if catalog.has_generated(name) => plain::generated(call),
            None => return Err(Fault::invalid_params(format!("unknown tool {name:?}"))),
        },
    };
    Ok(Outcome::Done(body))
}
