//! `@server:uri` and `@file` in a message: the resource or file is added to it.

use std::path::Path;

use serde_json::Value;
use switchboard::caller::Caller;
use switchboard::name::ServerName;
use switchboard::wire::RawJson;
use switchboard_agent::conversation::ImageData;
use switchboard_agent::{ContentPart, UserMessage};

use super::{Chat, screen};
use crate::failure::{Code, Failure};
use crate::progress;
use crate::view::server::escaped;
use crate::view::table;

/// A larger file is not inserted: the model can read a part of it with a tool.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// What a message mentions.
#[derive(Debug, PartialEq, Eq)]
enum Mention {
    Resource { server: ServerName, uri: String },
    File(String),
}

impl Chat<'_> {
    /// The message with the resources and files that it mentions; `None` after Ctrl-C.
    pub(super) async fn with_mentions(
        &mut self,
        text: &str,
    ) -> Result<Option<UserMessage>, Failure> {
        let mut message = UserMessage::text(text);
        for mention in self.mentions_in(text) {
            let parts = match &mention {
                Mention::File(path) => file_parts(&self.paths.current.join(path), path)?,
                Mention::Resource { server, uri } => {
                    progress::show(format!("reading from {server} · Ctrl-C stops"));
                    let caller: std::sync::Arc<dyn Caller> = self.caller.clone();
                    let read = self.host.read(server, uri, &caller);
                    let outcome = self.input.during(read).await;
                    progress::clear();
                    let Some(result) = outcome else {
                        return Ok(None);
                    };
                    resource_parts(server.as_str(), uri, &result?)
                }
            };
            // The first part is our own heading.
            let size: usize = parts.iter().skip(1).map(part_bytes).sum();
            let name = match &mention {
                Mention::File(path) => escaped(path),
                Mention::Resource { server, uri } => format!("{server}:{}", escaped(uri)),
            };
            screen::note(&format!(
                "  {name}: inserted, {}",
                table::bytes(size as u64)
            ));
            message.parts.extend(parts);
        }
        Ok(Some(message))
    }

    /// Words that begin with `@` and name a resource of a server or a file. Others are text.
    fn mentions_in(&self, text: &str) -> Vec<Mention> {
        let words = text
            .split_whitespace()
            .filter_map(|word| word.strip_prefix('@'));
        let found = words.filter_map(|word| {
            // Punctuation after a mention is not part of it, unless that is the whole name.
            let trimmed = word.trim_end_matches(['.', ',', ';', ':', '!', '?', ')']);
            let whole = self.mention(word).filter(|mention| self.is_listed(mention));
            whole.or_else(|| self.mention(trimmed))
        });
        found.collect()
    }

    /// Whether there is exactly this: a resource that its server lists, or a file.
    fn is_listed(&self, mention: &Mention) -> bool {
        let Mention::Resource { server, uri } = mention else {
            return true;
        };
        let catalog = self.host.catalog();
        catalog.offerings().iter().any(|(name, offered)| {
            *name == *server && offered.resources.iter().any(|found| found.uri == *uri)
        })
    }

    fn mention(&self, word: &str) -> Option<Mention> {
        if let Some((server, uri)) = word.split_once(':')
            && let Some(handle) = self.host.server(server)
            && !uri.is_empty()
        {
            return Some(Mention::Resource {
                server: handle.config.name.clone(),
                uri: uri.to_owned(),
            });
        }
        let is_file = !word.is_empty() && self.paths.current.join(word).is_file();
        is_file.then(|| Mention::File(word.to_owned()))
    }
}

/// The contents of a resource.
fn resource_parts(server: &str, uri: &str, result: &RawJson) -> Vec<ContentPart> {
    let value = result.to_value().unwrap_or_default();
    let contents = value.get("contents").and_then(Value::as_array);
    let mut parts = vec![ContentPart::Text(format!("Resource {server}:{uri}:"))];
    for part in contents.into_iter().flatten() {
        let field = |name: &str| part.get(name).and_then(Value::as_str);
        let kind = field("mimeType").unwrap_or("binary");
        parts.push(match (field("text"), field("blob")) {
            (Some(text), _) => ContentPart::Text(for_model(text)),
            (None, Some(blob)) if kind.starts_with("image/") => image_part(kind, blob),
            _ => ContentPart::Text(format!("[{kind}, left out]")),
        });
    }
    parts
}

/// An image of a server, or the text that replaces it if no vendor accepts it.
pub(super) fn image_part(kind: &str, base64: &str) -> ContentPart {
    let image = ImageData {
        media_type: for_model(kind),
        base64: base64.to_owned(),
    };
    match image.checked() {
        Ok(image) => ContentPart::Image(image),
        Err(replacement) => ContentPart::Text(replacement),
    }
}

/// The text of a file, or an image.
fn file_parts(path: &Path, shown: &str) -> Result<Vec<ContentPart>, Failure> {
    let failed = |fault: String| {
        Failure::new(Code::Usage, format!("@{}: {fault}", escaped(shown)))
            .hint("leave it out to send the message without it")
    };
    let size = std::fs::metadata(path).map_err(|error| failed(error.to_string()))?;
    if size.len() > MAX_FILE_BYTES {
        let most = table::bytes(MAX_FILE_BYTES);
        return Err(failed(format!("the file is larger than {most}")));
    }
    let bytes = std::fs::read(path).map_err(|error| failed(error.to_string()))?;
    let heading = ContentPart::Text(format!("File {shown}:"));
    let part = match ImageData::from_bytes(&bytes) {
        Some(image) => ContentPart::Image(image),
        None => ContentPart::Text(for_model(
            &String::from_utf8(bytes).map_err(|_| failed("the file is not text".to_owned()))?,
        )),
    };
    Ok(vec![heading, part])
}

/// Removes characters that a person would not see.
fn for_model(text: &str) -> String {
    let text = switchboard::untrusted::Untrusted::new(text);
    text.for_model().0.into_owned()
}

fn part_bytes(part: &ContentPart) -> usize {
    match part {
        ContentPart::Text(text) => text.len(),
        ContentPart::Image(image) => image.byte_len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_file_is_an_image_by_its_bytes_and_not_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let check = |name: &str, bytes: &[u8], expected: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            let found = match file_parts(&path, name) {
                Ok(parts) => match &parts[1] {
                    ContentPart::Image(image) => image.media_type.clone(),
                    _ => "text".to_owned(),
                },
                Err(_) => "failure".to_owned(),
            };
            assert_eq!(found, expected, "{name}");
        };
        check("a.png", b"\xff\xd8\xff\xe0", "image/jpeg");
        check("picture", b"GIF89a", "image/gif");
        check("b.png", b"not an image", "text");
        check("c.jpg", b"\xff\xd8", "failure");
    }
}
