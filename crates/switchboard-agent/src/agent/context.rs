//! What fills the context of the model, by server.

use super::{Agent, instructions};
use crate::compact::{entry_bytes, parts_bytes};
use crate::conversation::HistoryEntry;
use crate::tools::budget::definition_bytes;
use crate::tools::{ToolList, ToolState};

/// What fills the context. All counts are estimates in tokens, corrected by what the vendor
/// reported.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContextBreakdown {
    /// How many tokens the model can read, where that is known.
    pub limit: Option<u64>,
    /// The system prompt, without the servers' instructions.
    pub system: u64,
    /// Messages of the person, notes of the program and summaries.
    pub messages: u64,
    /// Answers of the model.
    pub answers: u64,
    /// The share of each server. The first one, with an empty name, is the program itself.
    pub servers: Vec<ServerContext>,
}

/// The share of one server in the context.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerContext {
    /// Its name; empty for tools of the program.
    pub server: String,
    /// How many of its tools the model sees.
    pub loaded_tools: usize,
    /// How many are listed by name only.
    pub deferred_tools: usize,
    /// The definitions of its tools.
    pub definitions: u64,
    /// Its instructions.
    pub instructions: u64,
    /// Results of its calls.
    pub results: u64,
}

impl ServerContext {
    /// All of it.
    pub fn total(&self) -> u64 {
        self.definitions + self.instructions + self.results
    }
}

impl ContextBreakdown {
    /// All of it.
    pub fn total(&self) -> u64 {
        let servers = self.servers.iter().map(ServerContext::total);
        self.system + self.messages + self.answers + servers.sum::<u64>()
    }

    fn server(&mut self, name: &str) -> &mut ServerContext {
        let known = self.servers.iter().position(|known| known.server == name);
        let index = known.unwrap_or_else(|| {
            self.servers.push(ServerContext {
                server: name.to_owned(),
                ..ServerContext::default()
            });
            self.servers.len() - 1
        });
        &mut self.servers[index]
    }
}

impl Agent {
    /// What fills the context of the model now.
    pub fn context(&mut self) -> ContextBreakdown {
        self.close_turn();
        let tokens = |bytes| self.estimate.tokens(bytes);
        let mut found = ContextBreakdown {
            limit: self.context_tokens(),
            ..ContextBreakdown::default()
        };
        found.server("");
        let list = self.tools.list();
        for tool in list.all() {
            let server = found.server(&tool.spec.server);
            match tool.state {
                ToolState::Deferred => server.deferred_tools += 1,
                ToolState::Loaded | ToolState::Gone => server.loaded_tools += 1,
            }
        }
        for spec in list.loaded() {
            found.server(&spec.server).definitions += tokens(definition_bytes(spec));
        }
        let system = self.turn_context(&self.conversation).system;
        let mut system_bytes = system.len();
        for (server, words) in instructions::by_server(&self.host) {
            // A continued session has the instructions from its beginning.
            if system.contains(&words) {
                system_bytes -= words.len();
                found.server(&server).instructions = tokens(words.len());
            }
        }
        found.system = tokens(system_bytes);
        for entry in self.conversation.entries() {
            let HistoryEntry::Model(answered) = entry else {
                found.messages += tokens(entry_bytes(entry));
                continue;
            };
            let mut answer = entry_bytes(entry);
            for (call, outcome) in answered.calls() {
                let bytes = parts_bytes(&outcome.parts());
                answer = answer.saturating_sub(bytes);
                found.server(server_of(list, &call.name)).results += tokens(bytes);
            }
            found.answers += tokens(answer);
        }
        found
    }

    /// About how many tokens the next request has.
    pub fn used_tokens(&self) -> u64 {
        self.estimate.tokens(self.context_bytes())
    }

    /// About how many bytes the next request has.
    pub(super) fn context_bytes(&self) -> usize {
        let tools: usize = self.tools.list().loaded().map(definition_bytes).sum();
        let entries: usize = self.conversation.entries().iter().map(entry_bytes).sum();
        self.turn_context(&self.conversation).system.len() + tools + entries
    }
}

fn server_of<'a>(list: &'a ToolList, tool: &str) -> &'a str {
    list.get(tool).map_or("", |tool| &tool.spec.server)
}
