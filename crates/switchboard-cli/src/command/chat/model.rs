//! The model's answers to sampling requests of servers.

use serde_json::{Value, json};
use switchboard::caller::{SampleAnswer, Sampling};
use switchboard::wire::RawJson;
use switchboard_agent::conversation::{FinishReason, TurnOrigin, TurnPart};
use switchboard_agent::{
    Conversation, Model, ModelTurn, ModelVendor, TokenUsage, ToolList, TurnContext, UserMessage,
};

/// Lets the model answer a sampling request, which the gate has approved. Also returns the tokens and
/// the cost of its turn.
pub(super) async fn sample(
    model: &dyn Model,
    request: &Sampling,
) -> (SampleAnswer, Option<(TokenUsage, Option<f64>)>) {
    let refuse = |reason: &str| SampleAnswer::Refuse(reason.to_owned());
    let params = match request.params.to_value() {
        Ok(params) => params,
        Err(error) => {
            let reason = format!("the request is not valid: {error}");
            return (SampleAnswer::Refuse(reason), None);
        }
    };
    let max_tokens = params.get("maxTokens").and_then(Value::as_u64);
    let max_tokens = max_tokens.and_then(|most| u32::try_from(most).ok());
    let limited = max_tokens.filter(|most| *most > 0);
    let limited = limited.and_then(|most| model.limited(most));
    let asked = limited.as_deref().unwrap_or(model);
    let conversation = conversation_of(&params);
    let context = TurnContext {
        conversation: &conversation,
        system: params
            .get("systemPrompt")
            .and_then(Value::as_str)
            .unwrap_or_default(),
        tools: &ToolList::new(None),
        cache_key: "sampling",
    };
    let Ok(turn) = asked.turn(context, &mut |_| {}).await else {
        return (refuse("the model did not answer"), None);
    };
    let settings = model.settings();
    let answer = match turn.finish {
        FinishReason::Refused => refuse("the model or its vendor refused to answer"),
        _ if turn.text().trim().is_empty() => refuse("the model's answer is empty"),
        _ => SampleAnswer::Answer(RawJson::from_value(&answer_of(&turn, &settings.name))),
    };
    (answer, Some((turn.usage, settings.turn_cost(&turn.usage))))
}

/// The messages of a sampling request.
fn conversation_of(params: &Value) -> Conversation {
    let mut conversation = Conversation::new();
    let messages = params.get("messages").and_then(Value::as_array);
    for message in messages.into_iter().flatten() {
        let text = text_of(message.get("content").unwrap_or(&Value::Null));
        if message.get("role").and_then(Value::as_str) == Some("assistant") {
            conversation = conversation.reply(neutral_turn(text)).close();
        } else {
            conversation.add_user_message(UserMessage::text(text));
        }
    }
    conversation
}

/// The text of a content block or of several.
fn text_of(content: &Value) -> String {
    let parts = content
        .as_array()
        .map_or_else(|| std::slice::from_ref(content), Vec::as_slice);
    let texts = parts.iter().map(|part| {
        let kind = part.get("type").and_then(Value::as_str).unwrap_or("?");
        match part.get("text").and_then(Value::as_str) {
            Some(text) => text.to_owned(),
            None => format!("[{kind}, left out]"),
        }
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// A turn that no vendor produced, so it is sent in the neutral view.
fn neutral_turn(text: String) -> ModelTurn {
    ModelTurn {
        origin: TurnOrigin {
            vendor: ModelVendor::Demo,
            endpoint: "sampling".to_owned(),
            model: String::new(),
        },
        items: Vec::new(),
        parts: vec![TurnPart::Text(text)],
        finish: FinishReason::Done,
        finish_word: None,
        usage: TokenUsage::default(),
    }
}

/// The result of `sampling/createMessage`.
fn answer_of(turn: &ModelTurn, model: &str) -> Value {
    let stop = match turn.finish {
        FinishReason::Length => "maxTokens",
        _ => "endTurn",
    };
    let content = json!({"type": "text", "text": turn.text()});
    json!({"role": "assistant", "content": content, "model": model, "stopReason": stop})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_servers_messages_become_a_conversation() {
        let params = json!({"messages": [
            {"role": "user", "content": {"type": "text", "text": "2+2?"}},
            {"role": "assistant", "content": [{"type": "text", "text": "4"}]},
            {"role": "user", "content": [{"type": "text", "text": "why"}, {"type": "image"}]},
        ]});
        let conversation = conversation_of(&params);
        assert_eq!(conversation.entries().len(), 3);
        let last = format!("{:?}", conversation.entries()[2]);
        assert!(last.contains("why\\n[image, left out]"), "{last}");
    }
}
