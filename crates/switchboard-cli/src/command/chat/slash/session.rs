//! `/context`, `/cost`, `/compact`, `/clear`, `/save`, `/resume` and `/fork`.

use std::path::Path;

use switchboard_agent::session::LoadedSession;
use switchboard_agent::{Agent, ServerContext};

use super::super::{Chat, history, no_model, screen, turn};
use super::Next;
use crate::failure::{Code, Failure};
use crate::progress;
use crate::view::server::escaped;
use crate::view::{counted, table};

/// How many conversations are listed.
const MAX_LISTED: usize = 20;

impl Chat<'_> {
    fn agent(&mut self) -> Result<&mut Agent, Failure> {
        self.agent.as_mut().ok_or_else(no_model)
    }

    pub(in super::super) fn show_context(&mut self) -> Result<(), Failure> {
        let found = self.agent()?.context();
        let row = |name: String, tokens: u64, about: String| vec![name, tokens.to_string(), about];
        let mut rows = vec![
            row("system prompt".to_owned(), found.system, String::new()),
            row("your messages".to_owned(), found.messages, String::new()),
            row("answers".to_owned(), found.answers, String::new()),
        ];
        for server in &found.servers {
            let name = match server.server.is_empty() {
                true => "built-in tools".to_owned(),
                false => format!("server {}", escaped(&server.server)),
            };
            if server.total() > 0 || !server.server.is_empty() {
                rows.push(row(name, server.total(), describe(server)));
            }
        }
        let of_limit = found.limit.map(|limit| format!(" of {limit}"));
        screen::print(&format!(
            "about {} tokens{} fill the context:\n{}",
            found.total(),
            of_limit.unwrap_or_default(),
            table::aligned(&rows, screen::columns())
        ));
        Ok(())
    }

    pub(in super::super) fn show_cost(&mut self) -> Result<(), Failure> {
        let sampled = self.caller.take_sampled();
        let agent = self.agent()?;
        sampled
            .into_iter()
            .for_each(|(usage, cost)| agent.count(usage, cost));
        let (usage, cost) = (agent.usage(), agent.cost());
        let count = |tokens: Option<u64>| tokens.map_or("unknown".to_owned(), |n| n.to_string());
        let cost = match (cost.total_usd(), cost.known_usd) {
            (Some(cost), _) => format!("${cost:.4}"),
            (None, known) => format!("at least ${known:.4}: the price of a turn is unknown"),
        };
        let rows = [
            ("input tokens", count(usage.total_input())),
            ("of these cached", count(usage.cache_read)),
            ("output tokens", count(usage.output)),
            ("cost", cost),
        ];
        let rows = rows.map(|(name, value)| vec![name.to_owned(), value]);
        screen::print(&table::aligned(&rows, None));
        Ok(())
    }

    pub(in super::super) async fn compact(&mut self) -> Result<Next, Failure> {
        let Some(agent) = &mut self.agent else {
            return Err(no_model());
        };
        progress::show("the model writes a summary · Ctrl-C stops".to_owned());
        let outcome = self.input.during(agent.compact(&mut |_| {})).await;
        progress::clear();
        match outcome {
            None => return Ok(self.cancel_turn().await),
            Some(Ok(None)) => screen::print("there is nothing to summarise\n"),
            Some(Ok(Some(done))) => {
                screen::print(&format!("{}\n", turn::describe_compaction(&done)))
            }
            Some(Err(fault)) => return Err(fault.into()),
        }
        Ok(Next::Continue)
    }

    pub(in super::super) fn clear(&mut self) -> Result<(), Failure> {
        self.agent()?.clear();
        screen::print("started a new conversation; `/resume` lists the others\n");
        Ok(())
    }

    pub(in super::super) fn save(&mut self, words: &[String]) -> Result<(), Failure> {
        let [file] = words else {
            return Err(Failure::new(Code::Usage, "no file is given").hint("write `/save FILE`"));
        };
        let shown = escaped(file);
        let is_saved = self.agent()?.save_copy(Path::new(file))?;
        screen::print(&match is_saved {
            true => format!("the session is in {shown}\n"),
            false => "there is nothing to save yet\n".to_owned(),
        });
        Ok(())
    }

    pub(in super::super) fn fork(&mut self) -> Result<(), Failure> {
        screen::print(&match self.agent()?.fork()? {
            Some(id) => format!("continuing in a copy: conversation {id}\n"),
            None => "there is nothing to copy yet\n".to_owned(),
        });
        Ok(())
    }

    pub(in super::super) fn resume(&mut self, words: &[String]) -> Result<(), Failure> {
        let store = self.paths.sessions();
        let is_copy = words.iter().any(|word| word == "--fork");
        if let Some(id) = words.iter().find(|word| *word != "--fork") {
            self.agent()?;
            let path = store.find(id)?;
            if !is_copy && self.agent()?.session_path() == Some(&*path) {
                screen::print("this is the current conversation\n");
                return Ok(());
            }
            let session = match is_copy {
                true => store.fork(&path)?,
                false => store.load(&path)?,
            };
            self.continue_session(session);
            return Ok(());
        }
        let sessions = store.list();
        let rows: Vec<_> = sessions
            .iter()
            .take(MAX_LISTED)
            .map(|session| {
                let age = session.changed.elapsed().unwrap_or_default();
                let age = format!("{} ago", table::duration(age));
                vec![session.id.clone(), age, escaped(&session.title)]
            })
            .collect();
        screen::print(&match rows.is_empty() {
            true => "no conversation of this project is stored\n".to_owned(),
            false => table::aligned(&rows, screen::columns()),
        });
        if rows.len() < sessions.len() {
            let more = counted(sessions.len() - rows.len(), "older conversation");
            screen::print(&format!("and {more}\n"));
        }
        Ok(())
    }

    /// Continues a stored session, and shows its end.
    pub(in super::super) fn continue_session(&mut self, session: LoadedSession) {
        let Some(agent) = &mut self.agent else { return };
        for repair in agent.resume(session) {
            super::super::notice(&format!("session: {}", escaped(&repair.to_string())));
        }
        let id = agent.session().map(|session| session.id.clone());
        screen::note(&format!(
            "continuing conversation {}",
            id.unwrap_or_default()
        ));
        let columns = screen::columns();
        screen::print(&history::render_end(agent.history(), columns));
    }
}

/// What a server's tools, instructions and results take of the context.
fn describe(server: &ServerContext) -> String {
    let mut parts = vec![counted(server.loaded_tools, "tool")];
    if server.deferred_tools > 0 {
        parts.push(format!("{} by name only", server.deferred_tools));
    }
    let counts = [
        ("definitions", server.definitions),
        ("instructions", server.instructions),
        ("results", server.results),
    ];
    let counts = counts.into_iter().filter(|(_, tokens)| *tokens > 0);
    parts.extend(counts.map(|(name, tokens)| format!("{name} {tokens}")));
    parts.join(", ")
}
