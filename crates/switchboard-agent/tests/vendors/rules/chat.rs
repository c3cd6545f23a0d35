//! What the Chat Completions API refuses.

use serde_json::Value;

use super::{Refused, check_names, list, require, text};

pub(super) fn check(body: &Value) -> Result<(), Refused> {
    let tools = list(&body["tools"]);
    let names: Vec<&str> = tools
        .iter()
        .map(|tool| text(&tool["function"]["name"]))
        .collect();
    check_names(&names, 128)?;
    require(
        body.get("tools").is_none() || !tools.is_empty(),
        "[] is too short - 'tools'",
    )?;
    for tool in &tools {
        require(
            tool["type"] == "function",
            "Missing required parameter: 'tools[0].type'.",
        )?;
        require(
            tool["function"]["parameters"]["type"] == "object",
            format!(
                "Invalid schema for function '{}'",
                text(&tool["function"]["name"])
            ),
        )?;
    }
    let messages = list(&body["messages"]);
    let mut open: Vec<&str> = Vec::new();
    let mut before = "";
    for (index, message) in messages.iter().enumerate() {
        let role = text(&message["role"]);
        if role == "tool" {
            let id = text(&message["tool_call_id"]);
            let at = open.iter().position(|known| *known == id);
            let at = at.ok_or("messages with role 'tool' must be a response to a preceding message with 'tool_calls'.")?;
            open.remove(at);
            require(
                !text(&message["content"]).is_empty(),
                "tool content must be a text",
            )?;
            before = role;
            continue;
        }
        require(
            open.is_empty(),
            format!(
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following did not have response messages: {open:?}"
            ),
        )?;
        require(
            role != "system" || index == 0,
            "System message must be at the beginning.",
        )?;
        require(
            role != "user" || before != "user",
            "Conversation roles must alternate user/assistant",
        )?;
        let has_content = !text(&message["content"]).is_empty()
            || !list(&message["content"]).is_empty()
            || !text(&message["refusal"]).is_empty();
        let calls = list(&message["tool_calls"]);
        require(
            has_content || !calls.is_empty(),
            "content or tool_calls must be set",
        )?;
        for call in messages[index]["tool_calls"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let arguments = text(&call["function"]["arguments"]);
            let value: Value = serde_json::from_str(arguments).unwrap_or_default();
            require(value.is_object(), "arguments must be a JSON object")?;
            let id = text(&call["id"]);
            require(
                !id.is_empty() && !open.contains(&id),
                "Duplicate or empty tool call id",
            )?;
            open.push(id);
        }
        before = role;
    }
    require(
        !messages.is_empty() && open.is_empty(),
        "An assistant message with 'tool_calls' must be followed by tool messages",
    )
}
