//! What each vendor refuses, as checks of a request's body. The texts are the vendors' own where
//! they are known.

use std::collections::HashSet;

use serde_json::Value;
use switchboard_agent::ModelVendor;

/// Why a vendor refuses a request.
pub(crate) type Refused = String;

pub(crate) fn check(vendor: ModelVendor, model: &str, body: &Value) -> Result<(), Refused> {
    match vendor {
        ModelVendor::Anthropic => anthropic(body),
        ModelVendor::OpenAi => responses(body),
        ModelVendor::OpenAiChat => chat(body),
        ModelVendor::Gemini => gemini(model, body),
        other => Err(format!("{other:?} has no wire")),
    }
}

fn require(holds: bool, words: impl Into<String>) -> Result<(), Refused> {
    if holds { Ok(()) } else { Err(words.into()) }
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn check_names(names: &[&str], limit: usize) -> Result<(), Refused> {
    let is_taken = |name: &str| {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        (1..=64).contains(&name.len()) && name.bytes().all(fits)
    };
    let unique: HashSet<&&str> = names.iter().collect();
    require(
        unique.len() == names.len(),
        "tools: Tool names must be unique.",
    )?;
    require(
        names.len() <= limit,
        format!("Invalid 'tools': array too long. Expected an array with maximum length {limit}"),
    )?;
    match names.iter().position(|name| !is_taken(name)) {
        Some(index) => Err(format!(
            "tools.{index}.custom.name: String should match pattern"
        )),
        None => Ok(()),
    }
}

fn anthropic(body: &Value) -> Result<(), Refused> {
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

fn responses(body: &Value) -> Result<(), Refused> {
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
                require(item["arguments"].is_string(), "arguments must be a string")?;
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
                require(
                    index + 1 < input.len(),
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

fn chat(body: &Value) -> Result<(), Refused> {
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

fn gemini(model: &str, body: &Value) -> Result<(), Refused> {
    for tool in list(&body["tools"]) {
        let declarations = list(&tool["functionDeclarations"]);
        require(
            !declarations.is_empty(),
            "tools[0].function_declarations: should not be empty",
        )?;
        let names: Vec<&str> = declarations.iter().map(|one| text(&one["name"])).collect();
        check_names(&names, 512)?;
    }
    let contents = list(&body["contents"]);
    require(
        contents
            .first()
            .is_some_and(|first| first["role"] == "user"),
        "Please ensure that multiturn requests start with a user turn",
    )?;
    let checks_signatures = !model.starts_with("gemini-1") && !model.starts_with("gemini-2");
    let mut open: Vec<Value> = Vec::new();
    for content in &contents {
        let parts = list(&content["parts"]);
        require(!parts.is_empty(), "contents.parts must not be empty")?;
        require(
            matches!(text(&content["role"]), "user" | "model"),
            "Please use a valid role: user, model.",
        )?;
        let of = |key: &str| -> Vec<Value> {
            let parts = parts.iter().filter(|part| part.get(key).is_some());
            parts.map(|part| part[key].clone()).collect()
        };
        let responses = of("functionResponse");
        let pairs = open.iter().zip(&responses);
        let is_paired = |(call, response): (&Value, &Value)| {
            call["name"] == response["name"]
                && call["id"] == response["id"]
                && response["response"].is_object()
        };
        require(
            responses.len() == open.len() && pairs.into_iter().all(is_paired),
            "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.",
        )?;
        open = of("functionCall");
        let first = parts.iter().find(|part| part.get("functionCall").is_some());
        if let (Some(first), true) = (first, checks_signatures) {
            require(
                !text(&first["thoughtSignature"]).is_empty(),
                "Function call is missing a thought_signature in functionCall parts.",
            )?;
        }
    }
    require(
        open.is_empty(),
        "Please ensure that function call turn is followed by a function response turn",
    )
}
