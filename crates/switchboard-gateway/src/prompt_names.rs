//! The names of prompts in one list of all servers: in the style of tools, and `server__prompt` where
//! another server has the name already.

use std::collections::HashMap;

use switchboard::catalog::Catalog;
use switchboard::name::ToolId;
use switchboard::untrusted::Untrusted;
use switchboard::{Host, ServerName, ToolName};

/// A prompt whose name another server's prompt has, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptClash {
    /// The server.
    pub server: ServerName,
    /// The name that both prompts would have.
    pub name: Untrusted,
    /// The server whose prompt has it: the first in config order.
    pub first: ServerName,
    /// The name that this one has instead; `None` if that is taken as well, and the prompt is not
    /// listed.
    pub listed_as: Option<Untrusted>,
}

/// Every clash, in config order.
pub fn prompt_clashes(host: &Host, catalog: &Catalog) -> Vec<PromptClash> {
    let mut names = PromptNames::new(host);
    let offerings = catalog.offerings().iter();
    let prompts = offerings.flat_map(|(server, offered)| {
        let prompts = offered.prompts.iter();
        prompts.map(move |prompt| (server, prompt))
    });
    prompts
        .filter_map(|(server, prompt)| names.assign(server, &prompt.name).clash)
        .collect()
}

/// Assigns names in config order.
pub(crate) struct PromptNames<'a> {
    host: &'a Host,
    /// The server of each name.
    taken: HashMap<String, ServerName>,
}

/// The name of one prompt.
pub(crate) struct AssignedName {
    /// `None` if the prompt cannot be requested.
    pub(crate) name: Option<String>,
    clash: Option<PromptClash>,
}

impl<'a> PromptNames<'a> {
    pub(crate) fn new(host: &'a Host) -> Self {
        Self {
            host,
            taken: HashMap::new(),
        }
    }

    pub(crate) fn assign(&mut self, server: &ServerName, prompt: &str) -> AssignedName {
        let wanted = self.in_style(server, prompt);
        let first = wanted.as_ref().and_then(|name| self.taken.get(name));
        let (name, clash) = match (wanted, first.cloned()) {
            (Some(wanted), Some(first)) if first != *server => {
                let longer = Some(format!("{server}__{prompt}"));
                let longer = longer.filter(|name| !self.taken.contains_key(name));
                let clash = PromptClash {
                    server: server.clone(),
                    name: Untrusted::new(wanted),
                    first,
                    listed_as: longer.clone().map(Untrusted::new),
                };
                (longer, Some(clash))
            }
            // A server may list a prompt twice.
            (_, Some(_)) => (None, None),
            (wanted, None) => (wanted, None),
        };
        if let Some(name) = &name {
            self.taken.insert(name.clone(), server.clone());
        }
        AssignedName { name, clash }
    }

    /// The name in the style of tools.
    fn in_style(&self, server: &ServerName, prompt: &str) -> Option<String> {
        let config = self.host.server(server.as_str())?.config;
        let style = config.dialect.profile().naming;
        let id = ToolId {
            server: server.clone(),
            tool: ToolName::new(prompt),
        };
        style.unwrap_or(self.host.naming()).plain(&id).ok()
    }
}
