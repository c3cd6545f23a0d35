//! `/permissions`: what decides on each tool, and revoking grants.

use switchboard::caller::Caller;
use switchboard::catalog::Tool;
use switchboard::gate::Decision;

use super::super::{Chat, calls, screen};
use crate::failure::{Code, Failure};
use crate::view::server::escaped;
use crate::view::table;

impl Chat<'_> {
    pub(in super::super) async fn permissions(&mut self, words: &[String]) -> Result<(), Failure> {
        match words {
            [verb, name] if verb == "revoke" => self.revoke(name).await,
            [] => {
                self.show_permissions(|_| true);
                Ok(())
            }
            [name] => {
                self.known(name)?;
                self.show_permissions(|tool| is_named(tool, name));
                Ok(())
            }
            _ => Err(Failure::new(Code::Usage, "too many words")
                .hint("write `/permissions SERVER|TOOL` or `/permissions revoke SERVER|TOOL`")),
        }
    }

    fn show_permissions(&self, is_shown: impl Fn(&Tool) -> bool) {
        let mode = self.mode.get();
        screen::print(&format!("mode {}\n", mode.name()));
        let catalog = self.host.catalog();
        let tools = catalog.tools().iter().filter(|tool| is_shown(tool));
        let rows: Vec<_> = tools
            .map(|tool| {
                let (word, because) = match self.host.decision(tool, self.caller.id()) {
                    _ if mode.refusal(tool).is_some() => ("denied", "mode plan".to_owned()),
                    Decision::Allow { because } => ("allowed", self.reason(tool, &because)),
                    Decision::Ask { because, .. } => ("asked", because),
                    Decision::Deny { rule } => ("denied", rule),
                    other => ("?", other.to_string()),
                };
                let server = &tool.id.server;
                let server = if server.is_host() {
                    ""
                } else {
                    server.as_str()
                };
                let name = calls::tool_name(server, tool.id.tool.as_wire());
                vec![name, word.to_owned(), escaped(&because)]
            })
            .collect();
        match rows.is_empty() {
            true => screen::print("no tools now; `/mcp` shows the servers\n"),
            // A reason ends with the file and the line of its rule: it is not cut.
            false => screen::print(&table::aligned(&rows, None)),
        }
    }

    /// Why a tool is allowed; a remembered answer with its date.
    fn reason(&self, tool: &Tool, because: &str) -> String {
        match self.host.granted_at(tool) {
            Some(at) if because == "remembered approval" => {
                let age = at.elapsed().unwrap_or_default();
                format!("your approval of {} ago", table::duration(age))
            }
            _ => because.to_owned(),
        }
    }

    async fn revoke(&mut self, name: &str) -> Result<(), Failure> {
        self.known(name)?;
        let catalog = self.host.catalog();
        let tools = catalog.tools().iter().filter(|tool| is_named(tool, name));
        let ids: Vec<_> = tools.map(|tool| tool.id.clone()).collect();
        let count = self.host.revoke(&ids).await?;
        screen::print(&match count {
            0 => format!("no approval is remembered for {}\n", escaped(name)),
            _ => format!(
                "{}: approval revoked; the next call asks again\n",
                escaped(name)
            ),
        });
        Ok(())
    }

    /// An error unless a server or tool has this name.
    fn known(&self, name: &str) -> Result<(), Failure> {
        let catalog = self.host.catalog();
        match catalog.tools().iter().any(|tool| is_named(tool, name)) {
            true => Ok(()),
            false => Err(Failure::new(
                Code::Usage,
                format!("no server or tool {:?}", escaped(name)),
            )
            .hint("`/permissions` lists them")),
        }
    }
}

/// Whether a tool, or its server, has this name.
fn is_named(tool: &Tool, name: &str) -> bool {
    let server = tool.id.server.as_str();
    tool.exposed.as_str() == name
        || server == name
        || name
            .strip_prefix(server)
            .and_then(|rest| rest.strip_prefix('/'))
            == Some(tool.id.tool.as_wire())
}
