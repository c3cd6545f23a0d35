//! Search in a list of tools: exact names first, then parts of names, then words.
//!
//! Words are ranked by BM25 over the name, the description and the parameters. Identifiers are
//! split (`read_file`, `readFile`), plural endings are dropped; texts without spaces between words
//! (Chinese, Japanese) are compared by pairs of characters. Equal ranks keep the order of the list,
//! so that results are stable.

use std::collections::HashMap;

use serde_json::Value;

/// The most tools that a search returns.
pub const MAX_FOUND: usize = 10;

/// The weight of a word in a name relative to the description; parameters count half.
const NAME_WEIGHT: f64 = 2.0;
const PARAMETER_WEIGHT: f64 = 0.5;

/// BM25's usual constants: saturation of repeated words, and the influence of length.
const SATURATION: f64 = 1.2;
const LENGTH_WEIGHT: f64 = 0.75;

/// The texts of a tool that a search considers.
#[derive(Debug, Clone, Copy)]
pub struct ToolText<'a> {
    /// The exposed name.
    pub name: &'a str,
    /// The tool's server.
    pub server: &'a str,
    /// The description.
    pub description: &'a str,
    /// The JSON schema of the arguments.
    pub schema: &'a str,
}

/// The tools of a list with their words.
#[derive(Debug)]
pub struct ToolSearch {
    tools: Vec<SearchableTool>,
    average_length: f64,
}

#[derive(Debug)]
struct SearchableTool {
    name: String,
    lower_name: String,
    /// Each word with its weight.
    words: HashMap<String, f64>,
    /// The sum of the weights.
    length: f64,
}

impl ToolSearch {
    /// An index of these tools.
    pub fn new<'a>(tools: impl IntoIterator<Item = ToolText<'a>>) -> Self {
        let tools: Vec<_> = tools.into_iter().map(SearchableTool::new).collect();
        let length: f64 = tools.iter().map(|tool| tool.length).sum();
        Self {
            average_length: length / (tools.len() as f64).max(1.0),
            tools,
        }
    }

    /// Finds tools, best first, as indices into the list. `names` are looked up exactly; `query` is
    /// a name, a part of one, or words.
    pub fn search(&self, names: &[String], query: &str) -> Vec<usize> {
        let mut found: Vec<usize> = Vec::new();
        let mut add = |place: usize| {
            if !found.contains(&place) {
                found.push(place);
            }
        };
        for name in names {
            let exact = self.tools.iter().position(|tool| tool.name == *name);
            exact.into_iter().for_each(&mut add);
        }
        let query = query.trim();
        if !query.is_empty() {
            let lower = query.to_lowercase();
            for wanted in [NameMatch::Whole, NameMatch::End, NameMatch::Part] {
                let tools = self.tools.iter().enumerate();
                tools
                    .filter(|(_, tool)| NameMatch::of(&tool.lower_name, &lower) == Some(wanted))
                    .for_each(|(place, _)| add(place));
            }
            self.rank(query).into_iter().for_each(add);
        }
        found.truncate(MAX_FOUND.max(names.len()));
        found
    }

    /// Tools that share a word with the query, best first.
    fn rank(&self, query: &str) -> Vec<usize> {
        let mut wanted = words(query);
        wanted.sort();
        wanted.dedup();
        let count = self.tools.len() as f64;
        let rarity = |word: &String| {
            let having = self
                .tools
                .iter()
                .filter(|tool| tool.words.contains_key(word));
            let having = having.count() as f64;
            ((count - having + 0.5) / (having + 0.5) + 1.0).ln()
        };
        let wanted: Vec<(f64, String)> = wanted
            .into_iter()
            .map(|word| (rarity(&word), word))
            .collect();
        let tools = self.tools.iter().enumerate();
        let scored = tools.map(|(place, tool)| (self.score(tool, &wanted), place));
        let mut scored: Vec<(f64, usize)> = scored.filter(|(score, _)| *score > 0.0).collect();
        // A stable sort: equal scores keep the order of the list.
        scored.sort_by(|(one, _), (other, _)| other.total_cmp(one));
        scored.into_iter().map(|(_, place)| place).collect()
    }

    fn score(&self, tool: &SearchableTool, wanted: &[(f64, String)]) -> f64 {
        let length = tool.length / self.average_length.max(1.0);
        let norm = 1.0 - LENGTH_WEIGHT + LENGTH_WEIGHT * length;
        let parts = wanted.iter().map(|(rarity, word)| {
            let weight = tool.words.get(word).copied().unwrap_or(0.0);
            rarity * weight * (SATURATION + 1.0) / (weight + SATURATION * norm)
        });
        parts.sum()
    }
}

impl SearchableTool {
    fn new(tool: ToolText<'_>) -> Self {
        let words = weigh_words(tool);
        Self {
            name: tool.name.to_owned(),
            lower_name: tool.name.to_lowercase(),
            length: words.values().sum(),
            words,
        }
    }
}

/// How a query matches a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NameMatch {
    Whole,
    /// As the last part: names often start with the server.
    End,
    Part,
}

impl NameMatch {
    fn of(name: &str, query: &str) -> Option<Self> {
        let before = name.strip_suffix(query);
        match before {
            Some("") => Some(Self::Whole),
            Some(before) if !before.ends_with(char::is_alphanumeric) => Some(Self::End),
            _ => name.contains(query).then_some(Self::Part),
        }
    }
}

fn weigh_words(tool: ToolText<'_>) -> HashMap<String, f64> {
    let mut weights: HashMap<String, f64> = HashMap::new();
    let mut add = |text: &str, weight: f64| {
        for word in words(text) {
            *weights.entry(word).or_default() += weight;
        }
    };
    add(tool.name, NAME_WEIGHT);
    add(tool.server, 1.0);
    add(tool.description, 1.0);
    let schema: Value = serde_json::from_str(tool.schema).unwrap_or_default();
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        add(name, PARAMETER_WEIGHT);
        let description = property.get("description").and_then(Value::as_str);
        add(description.unwrap_or_default(), PARAMETER_WEIGHT);
    }
    weights
}

/// The words of a text in lower case, with identifiers split.
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

/// Adds a word without its plural or tense ending.
fn push_word(found: &mut Vec<String>, word: &mut String) {
    let mut word = std::mem::take(word);
    if word.is_empty() {
        return;
    }
    if word.contains(is_ideograph) {
        let characters: Vec<char> = word.chars().collect();
        let pairs = characters.windows(characters.len().min(2));
        found.extend(pairs.map(|pair| pair.iter().collect::<String>()));
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

/// Whether a character is of a script that writes words without spaces between them.
fn is_ideograph(character: char) -> bool {
    matches!(character, '\u{2e80}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_split_and_endings_dropped() {
        for (text, expected) in [
            ("read_file", "read fil"),
            ("readFiles2", "read fil 2"),
            ("List repositories", "list repository"),
            ("creating classes", "creat class"),
            ("使用必应搜索 pages", "使用 用必 必应 应搜 搜索 pag"),
            ("词", "词"),
            ("", ""),
        ] {
            assert_eq!(words(text).join(" "), expected, "{text}");
        }
    }
}
