//! How well `search_tools` finds the 527 tools of a public corpus of MCP servers.
//!
//! The corpus (LiveMCPBench's `tools.json`, Apache-2.0) is not part of the project. It is looked
//! for where `SWITCHBOARD_TOOL_CORPUS` points, else in `../shared/corpus` beside the workspace;
//! where it is absent, the test says on stderr that it was skipped. To repeat the figures:
//! `cargo test -p switchboard-agent --test tool_search -- --nocapture`.

use std::collections::HashSet;

use serde_json::Value;
use switchboard_agent::json::JsonText;
use switchboard_agent::tools::search::{MAX_FOUND, SearchIndex};
use switchboard_agent::{ToolList, ToolSpec};
use switchboard_testkit::outside_data;

/// Words that a query leaves out.
const STOP_WORDS: &[&str] = &[
    "a", "an", "and", "as", "at", "be", "by", "can", "for", "from", "in", "into", "is", "it",
    "its", "of", "on", "or", "that", "the", "this", "to", "tool", "use", "used", "using", "when",
    "which", "with", "you", "your",
];

fn corpus() -> Option<Vec<(String, ToolSpec)>> {
    let file = "shared/corpus/livemcpbench-tools.json";
    let text = std::fs::read_to_string(outside_data("SWITCHBOARD_TOOL_CORPUS", file)?);
    let text = text.expect("a readable file");
    let servers: Vec<Value> = serde_json::from_str(&text).expect("a list of servers");
    let mut tools = Vec::new();
    let mut seen = HashSet::new();
    let entries = servers
        .iter()
        .filter_map(|entry| entry["tools"].as_object());
    for (server, offer) in entries.flatten() {
        for tool in offer["tools"].as_array().into_iter().flatten() {
            let bare = tool["name"].as_str().expect("a name").to_owned();
            let spec = ToolSpec {
                name: format!("{server}__{bare}"),
                server: server.clone(),
                tool: String::new(),
                description: tool["description"].as_str().unwrap_or_default().to_owned(),
                schema: JsonText::from_value(&tool["inputSchema"]),
            };
            if seen.insert(spec.name.clone()) {
                tools.push((bare, spec));
            }
        }
    }
    assert!(tools.len() > 500, "{} tools", tools.len());
    Some(tools)
}

fn list(tools: &[(String, ToolSpec)]) -> ToolList {
    let mut list = ToolList::new(None);
    list.update(tools.iter().map(|tool| tool.1.clone()).collect(), |_| true);
    list
}

#[test]
fn exact_and_partial_names_are_always_found() {
    let Some(tools) = corpus() else {
        return;
    };
    let list = list(&tools);
    let index = SearchIndex::new(&list);
    for (bare, spec) in &tools {
        let by_name = index.search(std::slice::from_ref(&spec.name), "");
        assert_eq!(by_name.first().map(|found| &found.name), Some(&spec.name));
        let by_query = index.search(&[], &spec.name.to_uppercase());
        assert_eq!(by_query.first().map(|found| &found.name), Some(&spec.name));
        let found = index.search(&[], bare);
        let is_found = found.iter().any(|found| found.name == spec.name);
        let sharing = tools
            .iter()
            .filter(|other| other.0.eq_ignore_ascii_case(bare));
        assert!(
            is_found || sharing.count() > MAX_FOUND,
            "{bare} of {}",
            spec.name
        );
    }
}

/// The query for a tool: the first `count` words of its own description that are neither in its
/// name nor stop words. Descriptions in other scripts are left out.
fn keywords(spec: &ToolSpec, count: usize) -> Option<String> {
    if !spec.description.is_ascii() {
        return None;
    }
    let name = spec.name.to_lowercase();
    let words = spec
        .description
        .split(|character: char| !character.is_alphanumeric());
    let words = words.map(str::to_lowercase).filter(|word| {
        word.len() > 2 && !STOP_WORDS.contains(&word.as_str()) && !name.contains(word.as_str())
    });
    let words: Vec<String> = words.take(count).collect();
    (words.len() == count).then(|| words.join(" "))
}

#[test]
fn keywords_find_three_quarters_in_the_top_ten() {
    let Some(tools) = corpus() else {
        return;
    };
    let list = list(&tools);
    let index = SearchIndex::new(&list);
    for count in [2, 3, 5] {
        let (mut queries, mut first, mut top) = (0, 0, 0);
        for (_, spec) in &tools {
            let Some(query) = keywords(spec, count) else {
                continue;
            };
            let found = index.search(&[], &query);
            let rank = found.iter().position(|found| found.name == spec.name);
            queries += 1;
            first += usize::from(rank == Some(0));
            top += usize::from(rank.is_some());
        }
        let percent = |count: usize| 100.0 * count as f64 / queries as f64;
        let tools = tools.len();
        eprintln!(
            "{count} words, {queries} queries over {tools} tools: first {:.1} %, top ten {:.1} %",
            percent(first),
            percent(top)
        );
        assert!(percent(top) >= 75.0);
    }
}

#[test]
fn names_of_all_tools_are_short() {
    let Some(tools) = corpus() else {
        return;
    };
    let list = list(&tools);
    let names = list.deferred_names().len();
    let specs = tools.iter().map(|tool| &tool.1);
    let definitions: usize = specs
        .map(switchboard_agent::tools::budget::definition_bytes)
        .sum();
    eprintln!("names {names} bytes, definitions {definitions} bytes");
    assert!(names * 10 < definitions);
}
