//! Schemas for servers that turn them into a grammar (llama.cpp, LM Studio, Ollama). One `pattern`
//! or large `maxLength` makes such a server refuse every request, without naming the tool, so only
//! keywords that all of them support are kept, and references are inlined.

use super::json::{Json, Members};
use super::{ToolDraft, walk};

/// The deepest nesting that is copied.
const MAX_DEPTH: usize = 16;

/// The most schemas of one tool after its references are inlined.
const MAX_SCHEMAS: usize = 2000;

/// Keywords that are kept unchanged.
const KEPT: &[&str] = &["type", "description", "title", "enum", "required"];

pub(super) fn adapt(draft: &mut ToolDraft) -> Result<(), String> {
    walk::flatten_root(&mut draft.schema, &mut draft.description)?;
    draft.schema = grammar_safe(&draft.schema)?;
    Ok(())
}

/// Copies a schema with keywords that can become a grammar.
pub(super) fn grammar_safe(root: &Json) -> Result<Json, String> {
    let mut copy = GrammarSafeCopy {
        root,
        left: MAX_SCHEMAS,
        within: Vec::new(),
    };
    copy.schema(root, "/inputSchema", 0)
}

struct GrammarSafeCopy<'a> {
    root: &'a Json,
    /// How many schemas may still be copied.
    left: usize,
    /// The references that led to the current schema. A recursive one becomes a schema that accepts
    /// everything.
    within: Vec<String>,
}

impl GrammarSafeCopy<'_> {
    /// A copy of the schema at this JSON pointer.
    fn schema(&mut self, schema: &Json, pointer: &str, depth: usize) -> Result<Json, String> {
        let empty = Json::Object(Members::new());
        let Some(members) = schema.members().filter(|_| depth <= MAX_DEPTH) else {
            return Ok(empty);
        };
        self.left = self.left.checked_sub(1).ok_or_else(|| {
            format!("{pointer}: more than {MAX_SCHEMAS} schemas once references are replaced")
        })?;
        if let Some(reference) = members.get("$ref").and_then(Json::as_str) {
            let is_circle = self.within.iter().any(|known| known == reference);
            let Some(target) = walk::target(self.root, reference).filter(|_| !is_circle) else {
                return Ok(empty);
            };
            self.within.push(reference.to_owned());
            let copy = self.schema(target, pointer, depth + 1);
            self.within.pop();
            return copy;
        }
        let mut copy = Members::new();
        for (keyword, value) in members {
            let at = || format!("{pointer}/{keyword}");
            let value = match (keyword.as_str(), value) {
                ("const", only) => {
                    copy.insert("enum".to_owned(), Json::List(vec![only.clone()]));
                    continue;
                }
                ("properties", Json::Object(named)) => {
                    let mut properties = Members::new();
                    for (name, schema) in named {
                        let at = format!("{}/{}", at(), name.replace('~', "~0").replace('/', "~1"));
                        properties.insert(name.clone(), self.schema(schema, &at, depth + 1)?);
                    }
                    Json::Object(properties)
                }
                ("items", Json::List(_)) => empty.clone(),
                ("items", schema) => self.schema(schema, &at(), depth + 1)?,
                ("additionalProperties", Json::Bool(flag)) => Json::Bool(*flag),
                ("additionalProperties", schema) => self.schema(schema, &at(), depth + 1)?,
                ("anyOf" | "oneOf" | "allOf", Json::List(choices)) => {
                    let mut copies = Vec::new();
                    for (index, choice) in choices.iter().enumerate() {
                        let at = format!("{}/{index}", at());
                        copies.push(self.schema(choice, &at, depth + 1)?);
                    }
                    Json::List(copies)
                }
                (kept, value) if KEPT.contains(&kept) => value.clone(),
                _ => continue,
            };
            copy.insert(keyword.clone(), value);
        }
        Ok(Json::Object(copy))
    }
}
