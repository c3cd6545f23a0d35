//! What Tab completes: commands and their arguments, servers, tools, prompts, resources and files.
//! Only what is known already: no server is started or queried.

use std::path::{Path, PathBuf};

use reedline::{Completer, CompletionResult, Span, Suggestion};
use switchboard::Host;
use switchboard::config::StateNames;

use super::slash::COMMANDS;
use crate::view::server::escaped;

/// The most suggestions at once.
const MAX_SUGGESTIONS: usize = 50;
/// The longest description beside a suggestion.
const MAX_DESCRIPTION_CHARACTERS: usize = 60;

/// Completes inputs of a conversation.
pub(super) struct ChatCompleter {
    host: Host,
    /// The folder that files are looked up in.
    folder: PathBuf,
}

/// A word and its description.
type Candidate = (String, String);

impl ChatCompleter {
    pub(super) fn new(host: Host, folder: PathBuf) -> Self {
        Self { host, folder }
    }

    /// The candidates for the last word of `line`.
    fn candidates(&self, line: &str) -> Vec<Candidate> {
        let start = last_word_start(line);
        let word = &line[start..];
        if let Some(mention) = word.strip_prefix('@') {
            return self.mentions(mention);
        }
        if start == 0 && word.starts_with('/') {
            return self.commands();
        }
        let mut words = line[..start].split_whitespace();
        let Some(command) = words.next().and_then(|word| word.strip_prefix('/')) else {
            return Vec::new();
        };
        let arguments: Vec<&str> = words.collect();
        match (command, &*arguments) {
            ("mcp", []) => super::slash::MCP_WORDS
                .iter()
                .map(|(word, about)| ((*word).to_owned(), (*about).to_owned()))
                .collect(),
            ("mcp", [_]) => self.servers(),
            ("tools", []) => [self.servers(), self.tools()].concat(),
            ("resources", []) => self.servers(),
            ("call" | "permissions", []) | ("permissions", ["revoke"]) => self.tools(),
            ("call", [tool, ..]) => self.arguments(tool),
            ("mode", []) => ["ask", "accept-edits", "plan", "yolo"]
                .map(|mode| (mode.to_owned(), String::new()))
                .to_vec(),
            (prompt, _) => self.prompt_arguments(prompt),
        }
    }

    fn commands(&self) -> Vec<Candidate> {
        let own = COMMANDS
            .iter()
            .map(|command| (format!("/{}", command.name), command.about.to_owned()));
        own.chain(self.prompts()).collect()
    }

    fn prompts(&self) -> Vec<Candidate> {
        let catalog = self.host.catalog();
        let named = catalog.offerings().iter().flat_map(|(server, offered)| {
            offered.prompts.iter().map(move |prompt| {
                let about = prompt.description.as_ref().or(prompt.title.as_ref());
                let about = about.map(|text| first_line(text.raw())).unwrap_or_default();
                (format!("/{}", prompt.name), format!("{server}: {about}"))
            })
        });
        named.collect()
    }

    fn prompt_arguments(&self, name: &str) -> Vec<Candidate> {
        let catalog = self.host.catalog();
        let mut prompts = catalog
            .offerings()
            .iter()
            .flat_map(|(_, offered)| offered.prompts.iter());
        let Some(prompt) = prompts.find(|prompt| prompt.name == name) else {
            return Vec::new();
        };
        let arguments = prompt.arguments.iter().map(|(argument, about, _)| {
            let about = about.as_ref().map(|text| first_line(text.raw()));
            (format!("--{argument}="), about.unwrap_or_default())
        });
        arguments.collect()
    }

    fn servers(&self) -> Vec<Candidate> {
        let servers = self.host.servers();
        let named = servers.iter().map(|server| {
            let state = server.snapshot().shown_state().word(StateNames::All);
            (server.config.name.to_string(), state.to_owned())
        });
        named.collect()
    }

    fn tools(&self) -> Vec<Candidate> {
        let catalog = self.host.catalog();
        let named = catalog.tools().iter().map(|tool| {
            let about = tool.definition.description.as_ref();
            let about = about.map(|text| first_line(text.raw())).unwrap_or_default();
            let name = match tool.id.server.is_host() {
                true => tool.exposed.to_string(),
                false => format!("{}/{}", tool.id.server, tool.id.tool.as_wire()),
            };
            (name, about)
        });
        named.collect()
    }

    fn arguments(&self, tool: &str) -> Vec<Candidate> {
        let catalog = self.host.catalog();
        let Ok(tool) = catalog.resolve(tool) else {
            return Vec::new();
        };
        let schema = tool.definition.input_schema.to_value().unwrap_or_default();
        let names = crate::view::signature::names(&schema);
        let named = names.iter().map(|name| (format!("{name}="), String::new()));
        named.collect()
    }

    /// Resources as `@server:uri`, then files.
    fn mentions(&self, typed: &str) -> Vec<Candidate> {
        let catalog = self.host.catalog();
        let resources = catalog.offerings().iter().flat_map(|(server, offered)| {
            offered.resources.iter().map(move |resource| {
                let title = resource.title.as_ref().unwrap_or(&resource.name);
                (
                    format!("@{server}:{}", resource.uri),
                    first_line(title.raw()),
                )
            })
        });
        let mut found: Vec<Candidate> = resources.collect();
        found.extend(files(&self.folder, typed));
        found
    }
}

/// Files whose path begins with what was typed.
fn files(folder: &Path, typed: &str) -> Vec<Candidate> {
    let (parent, start) = typed.rsplit_once('/').unwrap_or(("", typed));
    let prefix = match parent.is_empty() && !typed.starts_with('/') {
        true => String::new(),
        false => format!("{parent}/"),
    };
    let entries = std::fs::read_dir(folder.join(&prefix))
        .into_iter()
        .flatten();
    let named = entries
        .flatten()
        .take(10 * MAX_SUGGESTIONS)
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let is_plain = !name.contains(char::is_whitespace) && escaped(&name) == name;
            let is_hidden = name.starts_with('.') && !start.starts_with('.');
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let end = if is_folder { "/" } else { "" };
            (is_plain && !is_hidden).then(|| (format!("@{prefix}{name}{end}"), String::new()))
        });
    let mut named: Vec<Candidate> = named.collect();
    named.sort();
    named
}

/// Where the last word begins. It may be empty.
fn last_word_start(line: &str) -> usize {
    line.trim_end_matches(|letter: char| !letter.is_whitespace())
        .len()
}

fn first_line(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    line.chars().take(MAX_DESCRIPTION_CHARACTERS).collect()
}

impl Completer for ChatCompleter {
    fn complete(&mut self, line: &str, position: usize) -> CompletionResult {
        let line = &line[..line.floor_char_boundary(position)];
        let start = last_word_start(line);
        let word = &line[start..];
        let fitting = self.candidates(line).into_iter().filter(|(value, _)| {
            // A server's name with other characters cannot be typed safely.
            value.starts_with(word) && escaped(value) == *value
        });
        let suggestions = fitting
            .take(MAX_SUGGESTIONS)
            .map(|(value, about)| Suggestion {
                append_whitespace: !value.ends_with(['=', '/', ':']),
                description: Some(escaped(&about)).filter(|about| !about.is_empty()),
                value,
                span: Span::new(start, line.len()),
                ..Suggestion::default()
            });
        CompletionResult::fresh(suggestions.collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_begins_after_any_kind_of_space() {
        for (line, expected) in [
            ("", ""),
            ("/mcp", "/mcp"),
            ("a b", "b"),
            ("a ", ""),
            ("a\u{a0}b", "b"),
            ("a\u{3000}", ""),
            ("\u{3000}@é", "@é"),
        ] {
            assert_eq!(&line[last_word_start(line)..], expected, "{line:?}");
        }
    }
}
