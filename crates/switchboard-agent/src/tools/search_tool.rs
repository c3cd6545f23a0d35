//! The tool `search_tools`: how a model finds and loads deferred tools.

use serde::Deserialize;

use super::search::{MAX_FOUND, search};
use super::{LoadError, ToolList, ToolSpec};
use crate::conversation::{CallOutcome, ToolOutput};
use crate::json::JsonText;

/// Its name.
pub const SEARCH_TOOL: &str = "search_tools";

const SCHEMA: &str = r#"{"type":"object","properties":{"names":{"type":"array","items":{"type":"string"},"description":"Exact names of tools to load"},"query":{"type":"string","description":"A part of a name, or words that describe the tool"}}}"#;

/// Its definition. To be offered from the beginning wherever tools are deferred.
pub fn spec() -> ToolSpec {
    ToolSpec {
        name: SEARCH_TOOL.to_owned(),
        server: String::new(),
        tool: String::new(),
        description: "Finds and loads tools that are listed by name only. Loaded tools can be \
                      called like any other. Give exact names where you know them."
            .to_owned(),
        schema: JsonText::from_written(SCHEMA.to_owned()),
    }
}

/// Runs a call of it: loads the tools that it finds and describes them.
///
/// The caller adds the loaded names to the conversation
/// ([`Conversation::add_loaded_tools`](crate::Conversation::add_loaded_tools)).
pub fn run(list: &mut ToolList, arguments: &JsonText) -> CallOutcome {
    #[derive(Deserialize)]
    struct SearchArguments {
        #[serde(default)]
        names: Vec<String>,
        #[serde(default)]
        query: String,
    }
    let arguments: SearchArguments = match serde_json::from_str(arguments.as_str()) {
        Ok(arguments) => arguments,
        Err(error) => return CallOutcome::failed(format!("wrong arguments: {error}")),
    };
    if arguments.names.is_empty() && arguments.query.trim().is_empty() {
        return CallOutcome::failed("give `names` or a `query`");
    }
    let found: Vec<String> = search(list, &arguments.names, &arguments.query)
        .into_iter()
        .map(|spec| spec.name.clone())
        .collect();
    let mut lines = Vec::new();
    let mut loaded_tools = Vec::new();
    for name in &found {
        match list.load(name) {
            Ok(is_new) => {
                // A late tool that was loaded by a call has no reference yet.
                if is_new || list.is_late(name) {
                    loaded_tools.push(name.clone());
                }
                lines.push(describe(list, name));
            }
            Err(error) => lines.push(error.to_string()),
        }
    }
    for name in arguments.names.iter().filter(|name| !found.contains(name)) {
        let error = match list.get(name) {
            Some(_) => LoadError::Gone(name.clone()),
            None => LoadError::Unknown(name.clone()),
        };
        lines.push(error.to_string());
    }
    if found.is_empty() {
        lines.push("No tool was found. Try other words, or an exact name.".to_owned());
    } else if found.len() >= MAX_FOUND {
        lines.push(format!("Only the best {MAX_FOUND} are loaded."));
    }
    CallOutcome::Answered(ToolOutput {
        loaded_tools,
        ..ToolOutput::text(lines.join("\n"))
    })
}

/// A name and the first line of its description.
fn describe(list: &ToolList, name: &str) -> String {
    let description = list.get(name).map(|tool| tool.spec.description.as_str());
    let line = description.unwrap_or_default().lines().next();
    format!("{name}: {}", line.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_with(list: &mut ToolList, arguments: &str) -> (Vec<String>, String) {
        let outcome = run(list, &JsonText::parse(arguments).expect("JSON"));
        (outcome.loaded_tools().to_vec(), outcome.text())
    }

    #[test]
    fn found_tools_are_loaded_once_and_stay_loaded() {
        let mut list = ToolList::new(None);
        let mut tool = spec();
        tool.name = "read_file".to_owned();
        tool.description = "Reads a file.\nSlowly.".to_owned();
        list.update(vec![spec(), tool], |spec| spec.name != SEARCH_TOOL);
        list.start();
        let (loaded, text) = run_with(&mut list, r#"{"names":["read_file","none"]}"#);
        assert_eq!(loaded, ["read_file"]);
        let expected = "read_file: Reads a file.\nthere is no tool named \"none\"";
        assert_eq!(text, expected);
        assert!(list.is_late("read_file"));
        let (loaded, text) = run_with(&mut list, r#"{"query":"reading files"}"#);
        assert_eq!((loaded.len(), text.contains("read_file")), (1, true));
        for arguments in ["{}", r#"{"query":"zebra"}"#, r#"{"names":3}"#] {
            let (loaded, text) = run_with(&mut list, arguments);
            assert!(loaded.is_empty() && !text.is_empty(), "{arguments}");
        }
    }
}
