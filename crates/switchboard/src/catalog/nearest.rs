//! Finds the names nearest to one that does not exist.

use std::sync::Arc;

use super::Tool;

/// How many names are given.
const GIVEN: usize = 3;
/// How alike two names must be, from 0 to 1.
const ALIKE: f64 = 0.6;

/// At most three exposed names, the most alike first. A bare tool name is near the tool that has
/// it.
pub(super) fn nearest(name: &str, tools: &[Arc<Tool>]) -> Vec<String> {
    // What a person meant is short; comparing a long text with every name would only burn time.
    let wanted: String = name.chars().take(128).collect();
    let wanted_tool = wanted.split_once('/').map_or(&*wanted, |(_, tool)| tool);
    let mut found: Vec<(f64, &str)> = Vec::new();
    for tool in tools {
        let alike = likeness(&wanted, tool.exposed.as_str())
            .max(likeness(wanted_tool, tool.id.tool.as_wire()));
        if alike >= ALIKE {
            found.push((alike, tool.exposed.as_str()));
        }
    }
    // Equal ones in catalog order: the sort is stable.
    found.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    found
        .into_iter()
        .take(GIVEN)
        .map(|(_, name)| name.to_owned())
        .collect()
}

fn likeness(one: &str, other: &str) -> f64 {
    // Lengths that differ too much cannot be alike; most names end here.
    let (short, long) = (one.len().min(other.len()), one.len().max(other.len()));
    if (short as f64) < ALIKE * long as f64 {
        0.0
    } else {
        strsim::normalized_levenshtein(one, other)
    }
}
