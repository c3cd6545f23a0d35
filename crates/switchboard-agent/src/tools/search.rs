//! Search in the list of tools: exact names first, then parts of names, then words.
//!
//! Words are ranked by BM25 over the name, the description and the parameters. Identifiers are
//! taken apart (`read_file`, `readFile`), plural endings are dropped. Equal ranks keep the order of
//! the list, so the same search has the same answer.

use std::collections::HashMap;

use serde_json::Value;

use super::{ListedTool, ToolList, ToolSpec, ToolState};

/// How many tools a search finds at most.
pub const MAX_FOUND: usize = 10;

/// How much more a word counts in a name than in a description; parameters count half.
const NAME_WEIGHT: f64 = 2.0;
const PARAMETER_WEIGHT: f64 = 0.5;

/// BM25's usual constants: how fast repeated words stop to count, and how much length matters.
const SATURATION: f64 = 1.2;
const LENGTH_WEIGHT: f64 = 0.75;

/// Finds tools that are offered now, best first. `names` are looked up exactly; `query` is a name,
/// a part of one, or words.
pub fn search<'a>(list: &'a ToolList, names: &[String], query: &str) -> Vec<&'a ToolSpec> {
    let tools = list.all().iter();
    let tools: Vec<&ListedTool> = tools.filter(|tool| tool.state != ToolState::Gone).collect();
    let mut found: Vec<&ToolSpec> = Vec::new();
    let mut add = |spec: &'a ToolSpec| {
        if !found.iter().any(|known| known.name == spec.name) {
            found.push(spec);
        }
    };
    for name in names {
        let exact = tools.iter().find(|tool| tool.spec.name == *name);
        exact.into_iter().for_each(|tool| add(&tool.spec));
    }
    let query = query.trim();
    if !query.is_empty() {
        let lower = query.to_lowercase();
        let matches_name = |tool: &&&ListedTool| tool.spec.name.to_lowercase() == lower;
        let contains_name = |tool: &&&ListedTool| tool.spec.name.to_lowercase().contains(&lower);
        tools
            .iter()
            .filter(matches_name)
            .for_each(|tool| add(&tool.spec));
        tools
            .iter()
            .filter(contains_name)
            .for_each(|tool| add(&tool.spec));
        for tool in rank(&tools, query) {
            add(&tool.spec);
        }
    }
    found.truncate(MAX_FOUND.max(names.len()));
    found
}

/// Tools that share a word with the query, best first.
fn rank<'a>(tools: &[&'a ListedTool], query: &str) -> Vec<&'a ListedTool> {
    let documents: Vec<HashMap<String, f64>> =
        tools.iter().map(|tool| weigh_words(&tool.spec)).collect();
    let mut wanted = words(query);
    wanted.sort();
    wanted.dedup();
    let count = documents.len() as f64;
    let length = |document: &HashMap<String, f64>| document.values().sum::<f64>();
    let average = documents.iter().map(length).sum::<f64>() / count.max(1.0);
    let rarity: Vec<f64> = wanted
        .iter()
        .map(|word| {
            let having = documents
                .iter()
                .filter(|doc| doc.contains_key(word))
                .count() as f64;
            ((count - having + 0.5) / (having + 0.5) + 1.0).ln()
        })
        .collect();
    let score = |document: &HashMap<String, f64>| -> f64 {
        let norm = 1.0 - LENGTH_WEIGHT + LENGTH_WEIGHT * length(document) / average.max(1.0);
        let parts = wanted.iter().zip(&rarity).map(|(word, rarity)| {
            let weight = document.get(word).copied().unwrap_or(0.0);
            rarity * weight * (SATURATION + 1.0) / (weight + SATURATION * norm)
        });
        parts.sum()
    };
    let mut ranked: Vec<(f64, &ListedTool)> = documents
        .iter()
        .map(score)
        .zip(tools.iter().copied())
        .collect();
    ranked.retain(|(score, _)| *score > 0.0);
    // A stable sort: equal scores keep the order of the list.
    ranked.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    ranked.into_iter().map(|(_, tool)| tool).collect()
}

fn weigh_words(spec: &ToolSpec) -> HashMap<String, f64> {
    let mut weights: HashMap<String, f64> = HashMap::new();
    let mut add = |text: &str, weight: f64| {
        for word in words(text) {
            *weights.entry(word).or_default() += weight;
        }
    };
    add(&spec.name, NAME_WEIGHT);
    add(&spec.server, 1.0);
    add(&spec.description, 1.0);
    let schema: Value = serde_json::from_str(spec.schema.as_str()).unwrap_or_default();
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        add(name, PARAMETER_WEIGHT);
        let description = property.get("description").and_then(Value::as_str);
        add(description.unwrap_or_default(), PARAMETER_WEIGHT);
    }
    weights
}

/// The words of a text in lower case, with identifiers taken apart.
fn words(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut word = String::new();
    let mut before = ' ';
    for character in text.chars() {
        let begins_word = (character.is_uppercase() && before.is_lowercase())
            || (character.is_numeric() != before.is_numeric() && before.is_alphanumeric());
        if !character.is_alphanumeric() || begins_word {
            push_word(&mut found, &mut word);
        }
        if character.is_alphanumeric() {
            word.extend(character.to_lowercase());
        }
        before = character;
    }
    push_word(&mut found, &mut word);
    found
}

/// Adds a word without the ending that plural and tense give it.
fn push_word(found: &mut Vec<String>, word: &mut String) {
    let mut word = std::mem::take(word);
    if word.is_empty() {
        return;
    }
    for (ending, replacement) in [
        ("ies", "y"),
        ("sses", "ss"),
        ("ing", ""),
        ("ed", ""),
        ("es", ""),
        ("s", ""),
    ] {
        let keeps = word.ends_with("ss") && ending == "s";
        if word.len() > ending.len() + 2 && word.ends_with(ending) && !keeps {
            word.truncate(word.len() - ending.len());
            word.push_str(replacement);
            break;
        }
    }
    // Verbs in -e lose it in their other forms ("create", "creating").
    if word.len() > 3 && word.ends_with('e') {
        word.pop();
    }
    found.push(word);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_taken_apart_and_endings_dropped() {
        for (text, expected) in [
            ("read_file", "read fil"),
            ("readFiles2", "read fil 2"),
            ("List repositories", "list repository"),
            ("creating classes", "creat class"),
            ("", ""),
        ] {
            assert_eq!(words(text).join(" "), expected, "{text}");
        }
    }
}
