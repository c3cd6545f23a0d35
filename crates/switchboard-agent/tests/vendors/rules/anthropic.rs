//! What the Messages API refuses.

use std::collections::HashSet;

use serde_json::Value;

use super::{Refused, check_names, list, require, text};

pub(super) fn check(body: &Value) -> Result<(), Refused> {
    require(
        body["max_tokens"].as_u64() > Some(0),
        "max_tokens: Field required",
    )?;
    let tools = list(&body["tools"]);
    let names: Vec<&str> = tools.iter().map(|tool| text(&tool["name"])).collect();
    check_names(&names, usize::MAX)?;
    for (index, tool) in tools.iter().enumerate() {
        let is_object = tool["input_schema"]["type"] == "object";
        require(
            is_object,
            format!("tools.{index}.custom.input_schema.type: Field required"),
        )?;
        let is_deferred = tool["defer_loading"] == true;
        require(
            !(is_deferred && tool.get("cache_control").is_some()),
            "Tools with defer_loading cannot use prompt caching",
        )?;
    }
    let all_deferred = tools.iter().all(|tool| tool["defer_loading"] == true);
    require(
        tools.is_empty() || !all_deferred,
        "At least one tool must have defer_loading=false.",
    )?;
    let breakpoints = body.to_string().matches("\"cache_control\"").count();
    require(
        breakpoints <= 4,
        "A maximum of 4 blocks with cache_control may be provided.",
    )?;
    let messages = list(&body["messages"]);
    require(
        messages
            .first()
            .is_some_and(|first| first["role"] == "user"),
        "messages: first message must use the \"user\" role",
    )?;
    let mut open: Vec<String> = Vec::new();
    let mut seen = HashSet::new();
    for (index, message) in messages.iter().enumerate() {
        let blocks = match &message["content"] {
            Value::String(_) => Vec::new(),
            content => list(content),
        };
        let is_text = message["content"].is_string();
        require(
            is_text || !blocks.is_empty(),
            format!("messages.{index}: content must be non-empty"),
        )?;
        let results = blocks
            .iter()
            .take_while(|block| block["type"] == "tool_result");
        let results: Vec<String> = results
            .map(|block| text(&block["tool_use_id"]).to_owned())
            .collect();
        if results != open {
            return Err(format!(
                "messages.{}: `tool_use` ids were found without `tool_result` blocks immediately \
                 after: {open:?}, found {results:?}",
                index.saturating_sub(1)
            ));
        }
        open.clear();
        let mut has_call = false;
        for block in blocks.iter().skip(results.len()) {
            require(
                block["type"] != "tool_result",
                "unexpected `tool_use_id` found in `tool_result` blocks",
            )?;
            let is_call = block["type"] == "tool_use";
            require(
                !has_call || is_call,
                "`tool_use` ids were found without `tool_result` blocks immediately after",
            )?;
            has_call |= is_call;
            if is_call {
                require(
                    message["role"] == "assistant",
                    "`tool_use` blocks can only be in `assistant` messages",
                )?;
                require(
                    block["input"].is_object(),
                    "tool_use.input: Input should be a valid dictionary",
                )?;
                require(
                    seen.insert(block["id"].clone()),
                    "`tool_use` ids must be unique",
                )?;
                open.push(text(&block["id"]).to_owned());
                require(
                    !tools.is_empty(),
                    "Requests which include `tool_use` blocks must define tools",
                )?;
            }
        }
        let last = blocks.last().map_or("", |block| text(&block["type"]));
        require(
            !last.ends_with("thinking"),
            "The final block in an assistant message cannot be `thinking`.",
        )?;
        for block in &blocks {
            check_anthropic_block(block, &names)?;
        }
    }
    require(
        open.is_empty(),
        "`tool_use` ids were found without `tool_result` blocks",
    )
}

fn check_anthropic_block(block: &Value, tools: &[&str]) -> Result<(), Refused> {
    match text(&block["type"]) {
        "text" => require(
            !text(&block["text"]).trim().is_empty(),
            "messages: text content blocks must be non-empty",
        ),
        "thinking" => require(
            !text(&block["signature"]).is_empty(),
            "thinking.signature: Field required",
        ),
        "tool_result" => {
            let content = list(&block["content"]);
            let is_text = block["content"].is_string();
            require(
                is_text || !content.is_empty(),
                "tool_result.content must be non-empty",
            )?;
            for part in &content {
                if part["type"] == "tool_reference" {
                    let name = text(&part["tool_name"]);
                    require(
                        tools.contains(&name),
                        format!("Tool reference '{name}' not found in available tools"),
                    )?;
                }
                check_anthropic_block(part, tools)?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}
