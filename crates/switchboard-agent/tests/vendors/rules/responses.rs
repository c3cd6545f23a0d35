//! What the Responses API without state refuses.

use std::collections::HashSet;

use serde_json::Value;

use super::{Refused, check_names, list, require, text};

pub(super) fn check(body: &Value) -> Result<(), Refused> {
    require(body["store"] == false, "store must be false here")?;
    let input = list(&body["input"]);
    let mut tools = list(&body["tools"]);
    for item in &input {
        tools.extend(list(&item["tools"]));
    }
    let names: Vec<&str> = tools.iter().map(|tool| text(&tool["name"])).collect();
    check_names(&names, 128)?;
    for (index, tool) in tools.iter().enumerate() {
        require(
            tool["type"] == "function",
            format!("Missing required parameter: 'tools[{index}].type'."),
        )?;
        require(
            tool["parameters"]["type"] == "object",
            format!("Invalid schema for function '{}'", text(&tool["name"])),
        )?;
    }
    require(!input.is_empty(), "Missing required parameter: 'input'.")?;
    let mut open: Vec<&str> = Vec::new();
    let mut seen = HashSet::new();
    for (index, item) in input.iter().enumerate() {
        match text(&item["type"]) {
            "function_call" => {
                let id = text(&item["call_id"]);
                require(seen.insert(id), format!("Duplicate call_id {id}"))?;
                let arguments = item["arguments"].as_str().unwrap_or_default();
                let value: Value = serde_json::from_str(arguments).unwrap_or_default();
                // The vendor itself sends an empty text for a tool without parameters.
                let is_valid = arguments.is_empty() || value.is_object();
                require(is_valid, "arguments must be a JSON object")?;
                open.push(id);
            }
            "function_call_output" => {
                let id = text(&item["call_id"]);
                let at = open.iter().position(|known| *known == id);
                let at = at.ok_or_else(|| {
                    format!("No tool call found for function call output with call_id {id}.")
                })?;
                open.remove(at);
                let output = &item["output"];
                let is_output = !text(output).is_empty() || !list(output).is_empty();
                require(is_output, "output must not be empty")?;
            }
            "reasoning" => {
                require(
                    !text(&item["encrypted_content"]).is_empty(),
                    "Item with id 'rs_' not found. Items are not persisted when `store` is set to false.",
                )?;
                require(
                    item["summary"].is_array(),
                    "Missing required parameter: 'summary'.",
                )?;
                let next = input.get(index + 1).unwrap_or(&Value::Null);
                let is_followed = matches!(text(&next["type"]), "reasoning" | "function_call")
                    || next["role"] == "assistant";
                require(
                    is_followed,
                    "Item of type 'reasoning' was provided without its required following item.",
                )?;
            }
            "message" | "" => {
                require(
                    open.is_empty(),
                    format!("No tool output found for function call {open:?}."),
                )?;
                require(
                    matches!(
                        text(&item["role"]),
                        "user" | "assistant" | "developer" | "system"
                    ),
                    "Invalid value: role",
                )?;
                let content = &item["content"];
                require(
                    !text(content).is_empty() || !list(content).is_empty(),
                    "content must not be empty",
                )?;
            }
            "additional_tools" => require(item["role"] == "developer", "Invalid value: role")?,
            other => return Err(format!("Invalid value: '{other}'.")),
        }
    }
    require(
        open.is_empty(),
        format!("No tool output found for function call {open:?}."),
    )
}
