//! Finds the names nearest to one that does not exist.

use std::sync::Arc;

use super::Tool;

/// The most names that are returned.
const MAX_NAMES: usize = 3;
/// The minimum similarity of two names, from 0 to 1.
const MIN_SIMILARITY: f64 = 0.6;

/// At most three exposed names, most similar first. A bare tool name is near the tool that has it.
pub(super) fn nearest(name: &str, tools: &[Arc<Tool>]) -> Vec<String> {
    // A name is short; comparing a long text with every name would waste time.
    let wanted: String = name.chars().take(128).collect();
    let wanted_tool = wanted.split_once('/').map_or(&*wanted, |(_, tool)| tool);
    let mut found: Vec<(f64, &str)> = Vec::new();
    for tool in tools {
        let alike = similarity(&wanted, tool.exposed.as_str())
            .max(similarity(wanted_tool, tool.id.tool.as_wire()));
        if alike >= MIN_SIMILARITY {
            found.push((alike, tool.exposed.as_str()));
        }
    }
    // Equally similar names keep the catalog's order: the sort is stable.
    found.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    found
        .into_iter()
        .take(MAX_NAMES)
        .map(|(_, name)| name.to_owned())
        .collect()
}

fn similarity(one: &str, other: &str) -> f64 {
    // Names whose lengths differ too much cannot be similar; most comparisons end here.
    let (short, long) = (one.len().min(other.len()), one.len().max(other.len()));
    if (short as f64) < MIN_SIMILARITY * long as f64 {
        0.0
    } else {
        strsim::normalized_levenshtein(one, other)
    }
}
