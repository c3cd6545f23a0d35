//! What the Gemini API refuses.

use serde_json::Value;

use super::{Refused, check_names, list, require, text};

pub(super) fn check(model: &str, body: &Value) -> Result<(), Refused> {
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
