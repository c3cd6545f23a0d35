//! Prompts of servers as commands: `/NAME --key=value`, or values in the order of the arguments;
//! missing ones are asked for.

use std::sync::Arc;

use serde_json::{Map, Value};
use switchboard::Host;
use switchboard::caller::Caller;
use switchboard::catalog::PromptDefinition;
use switchboard::name::ServerName;
use switchboard::wire::RawJson;
use switchboard_agent::{ContentPart, UserMessage};

use super::mentions::image_part;
use super::slash::Next;
use super::{Chat, screen};
use crate::command::prompt::messages;
use crate::failure::{Code, Failure};
use crate::progress;
use crate::view::server::escaped;

/// How many lines of a prompt are shown.
const MAX_SHOWN_LINES: usize = 8;

/// A prompt of a server.
pub(super) struct ServerPrompt {
    server: ServerName,
    definition: Arc<PromptDefinition>,
}

/// The prompt of this name, or of `server/name`.
pub(super) fn find(host: &Host, name: &str) -> Result<Option<ServerPrompt>, Failure> {
    let mut found = all(host).into_iter().filter(|prompt| {
        let own = &prompt.definition.name;
        own == name || format!("{}/{own}", prompt.server) == name
    });
    match (found.next(), found.next()) {
        (Some(first), Some(second)) => Err(Failure::new(
            Code::Usage,
            format!(
                "servers \"{}\" and \"{}\" have a prompt \"{}\"",
                first.server,
                second.server,
                escaped(name)
            ),
        )
        .hint(format!("write `/{}/{}`", first.server, escaped(name)))),
        (found, _) => Ok(found),
    }
}

/// The names of all prompts.
pub(super) fn names(host: &Host) -> Vec<String> {
    let prompts = all(host).into_iter();
    prompts
        .map(|prompt| prompt.definition.name.clone())
        .collect()
}

fn all(host: &Host) -> Vec<ServerPrompt> {
    let catalog = host.catalog();
    let prompts = catalog.offerings().iter().flat_map(|(server, offered)| {
        offered.prompts.iter().map(|prompt| ServerPrompt {
            server: server.clone(),
            definition: prompt.clone(),
        })
    });
    prompts.collect()
}

impl Chat<'_> {
    /// Gets a prompt and sends all its messages to the model; without a model, prints it.
    pub(super) async fn use_prompt(
        &mut self,
        prompt: &ServerPrompt,
        words: &[String],
    ) -> Result<Next, Failure> {
        let mut arguments = read_arguments(&prompt.definition, words)?;
        for (name, about, is_required) in &prompt.definition.arguments {
            if !is_required || arguments.contains_key(name) {
                continue;
            }
            let about = about
                .as_ref()
                .map(|text| format!(": {}", text.for_terminal_line()));
            let question = format!("{}{}", escaped(name), about.unwrap_or_default());
            match self
                .input
                .ask(&question)
                .await
                .filter(|value| !value.is_empty())
            {
                Some(value) => drop(arguments.insert(name.clone(), Value::from(value))),
                None => {
                    let message = format!("the prompt needs \"{}\"", escaped(name));
                    return Err(Failure::new(Code::Usage, message));
                }
            }
        }
        let arguments = RawJson::from_value(&arguments);
        let caller: Arc<dyn Caller> = self.caller.clone();
        progress::show(format!(
            "getting a prompt from {} · Ctrl-C stops",
            prompt.server
        ));
        let name = &prompt.definition.name;
        let request = self.host.prompt(&prompt.server, name, &arguments, &caller);
        let outcome = self.input.during(request).await;
        progress::clear();
        let Some(result) = outcome else {
            return Ok(self.cancel_turn().await);
        };
        let result = result?;
        let text = messages(&result)?;
        if self.agent.is_none() {
            screen::print(&format!("{}\n", text.for_terminal()));
            return Ok(Next::Continue);
        }
        for line in shown_lines(text.raw()) {
            screen::note(&line);
        }
        self.send(message_of(&result)).await
    }
}

/// The first lines, behind a bar.
fn shown_lines(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let first = lines.iter().take(MAX_SHOWN_LINES);
    let mut shown: Vec<_> = first
        .map(|line| format!("{}{}", screen::BAR, escaped(line)))
        .collect();
    if lines.len() > MAX_SHOWN_LINES {
        let more = lines.len() - MAX_SHOWN_LINES;
        shown.push(format!("{}… {more} more lines", screen::BAR));
    }
    shown
}

/// `--key=value` and `key=value` by name; other words are values, in the order of the arguments.
fn read_arguments(
    prompt: &PromptDefinition,
    words: &[String],
) -> Result<Map<String, Value>, Failure> {
    let mut arguments = Map::new();
    let mut plain = Vec::new();
    let is_known = |key: &str| prompt.arguments.iter().any(|(name, _, _)| name == key);
    for word in words {
        match (word.split_once('='), word.strip_prefix("--")) {
            (Some((key, value)), _) if is_known(key) => {
                arguments.insert(key.to_owned(), Value::from(value));
            }
            (Some(_), Some(named)) => {
                let (key, value) = named.split_once('=').unwrap_or((named, ""));
                if !is_known(key) {
                    let names = prompt.arguments.iter().map(|(name, _, _)| escaped(name));
                    let names: Vec<_> = names.collect();
                    let message = format!("the prompt has no argument \"{}\"", escaped(key));
                    return Err(Failure::new(Code::Usage, message)
                        .hint(format!("its arguments: {}", names.join(", "))));
                }
                arguments.insert(key.to_owned(), Value::from(value));
            }
            _ => plain.push(word),
        }
    }
    let mut open = prompt.arguments.iter().map(|(name, _, _)| name);
    for value in plain {
        let free = open.find(|name| !arguments.contains_key(*name));
        let Some(name) = free else {
            let message = format!("too many values: {:?}", escaped(value));
            return Err(Failure::new(Code::Usage, message)
                .hint("quote a value with spaces, or name it with --key=value"));
        };
        arguments.insert(name.clone(), Value::from(value.as_str()));
    }
    Ok(arguments)
}

/// All messages of a prompt as one user message. Messages with the role of the model are marked.
fn message_of(result: &RawJson) -> UserMessage {
    let value = result.to_value().unwrap_or_default();
    let messages = value.get("messages").and_then(Value::as_array);
    let mut parts = Vec::new();
    for message in messages.into_iter().flatten() {
        let is_model = message.get("role").and_then(Value::as_str) == Some("assistant");
        if is_model {
            parts.push(ContentPart::Text("You answered before:".to_owned()));
        }
        let content = message.get("content").unwrap_or(&Value::Null);
        let blocks = content
            .as_array()
            .map_or_else(|| std::slice::from_ref(content), Vec::as_slice);
        parts.extend(blocks.iter().map(part_of));
    }
    UserMessage { parts }
}

fn part_of(block: &Value) -> ContentPart {
    let field = |name: &str| block.get(name).and_then(Value::as_str);
    let resource = block
        .get("resource")
        .and_then(|resource| resource.get("text"));
    let text = field("text").or(resource.and_then(Value::as_str));
    let kind = field("mimeType").or(field("type")).unwrap_or("content");
    match (text, field("data")) {
        (Some(text), _) => {
            let text = switchboard::untrusted::Untrusted::new(text);
            ContentPart::Text(text.for_model().0.into_owned())
        }
        (None, Some(data)) if kind.starts_with("image/") => image_part(kind, data),
        _ => ContentPart::Text(format!("[{kind}, left out]")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn prompt() -> PromptDefinition {
        let raw = r#"{"name":"review","arguments":[{"name":"language","required":true},{"name":"style"}]}"#;
        PromptDefinition::parse(&RawJson::parse(raw.to_owned()).unwrap()).unwrap()
    }

    #[test]
    fn arguments_are_given_by_name_or_in_order() {
        let check = |words: &[&str], expected: Value| {
            let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
            let arguments = read_arguments(&prompt(), &words);
            assert_eq!(arguments.map(Value::Object).unwrap_or_default(), expected);
        };
        check(&["rust"], serde_json::json!({"language": "rust"}));
        let both = serde_json::json!({"language": "rust", "style": "a b"});
        check(&["rust", "a b"], both.clone());
        check(&["--style=a b", "rust"], both.clone());
        check(&["style=a b", "--language=rust"], both);
        check(&["x=y"], serde_json::json!({"language": "x=y"}));
        check(&["--x=y"], Value::Null);
        check(&["a", "b", "c"], Value::Null);
    }

    #[test]
    fn all_messages_of_a_prompt_are_used() {
        let raw = r#"{"messages":[{"role":"user","content":{"type":"text","text":"a"}},
            {"role":"assistant","content":[{"type":"text","text":"b"}]},
            {"role":"user","content":{"type":"image","mimeType":"image/png","data":"AAAA"}}]}"#;
        let message = message_of(&RawJson::parse(raw.to_owned()).unwrap());
        assert_eq!(message.parts.len(), 4, "{message:?}");
    }
}
