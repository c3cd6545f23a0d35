//! `/permissions`: what decides on each tool, and revoking grants.

use std::time::SystemTime;

use switchboard::caller::Caller;
use switchboard::catalog::Tool;
use switchboard::gate::Decision;
use switchboard::name::ToolId;

use super::super::{Chat, calls, screen};
use crate::failure::{Code, Failure};
use crate::view::server::escaped;
use crate::view::table;

impl Chat<'_> {
    pub(in super::super) async fn permissions(&mut self, words: &[String]) -> Result<(), Failure> {
        match words {
            [verb, name] if verb == "revoke" => self.revoke(name).await,
            [] => {
                self.show_permissions(None);
                Ok(())
            }
            [name] => {
                self.known(name)?;
                self.show_permissions(Some(name));
                Ok(())
            }
            _ => Err(Failure::new(Code::Usage, "too many words")
                .hint("write `/permissions SERVER|TOOL` or `/permissions revoke SERVER|TOOL`")),
        }
    }

    fn show_permissions(&self, name: Option<&str>) {
        let mode = self.mode.get();
        screen::print(&format!("mode {}\n", mode.name()));
        let catalog = self.host.catalog();
        let tools = catalog.tools().iter();
        let tools = tools.filter(|tool| name.is_none_or(|name| is_named(tool, name)));
        let mut rows: Vec<_> = tools
            .map(|tool| {
                let (word, because) = match self.host.decision(tool, self.caller.id()) {
                    _ if mode.refusal(tool).is_some() => ("denied", "mode plan".to_owned()),
                    Decision::Allow { because } => ("allowed", self.reason(tool, &because)),
                    Decision::Ask { once_only, .. } if mode.approves(tool.effect(), once_only) => {
                        ("allowed", format!("mode {}", mode.name()))
                    }
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
        let others = self.other_grants(name).into_iter();
        rows.extend(others.map(|(id, at)| {
            let name = calls::tool_name(id.server.as_str(), id.tool.as_wire());
            let because = match at {
                Some(at) => approval_of(at),
                None => "your approval".to_owned(),
            };
            vec![name, "allowed".to_owned(), because]
        }));
        match rows.is_empty() {
            true => screen::print("no tools now; `/mcp` shows the servers\n"),
            // A reason ends with the file and the line of its rule: it is not cut.
            false => screen::print(&table::aligned(&rows, None)),
        }
    }

    /// Why a tool is allowed; a remembered answer with its date.
    fn reason(&self, tool: &Tool, because: &str) -> String {
        match self.host.granted_at(tool) {
            Some(at) if because == "remembered approval" => approval_of(at),
            _ => because.to_owned(),
        }
    }

    /// Remembered approvals of what the catalog does not have now: tools of servers that are not
    /// connected, and sampling.
    fn other_grants(&self, name: Option<&str>) -> Vec<(ToolId, Option<SystemTime>)> {
        let catalog = self.host.catalog();
        let is_listed = |id: &ToolId| catalog.tools().iter().any(|tool| tool.id == *id);
        let mut granted = self.host.granted();
        granted.retain(|(id, _)| !is_listed(id) && name.is_none_or(|name| is_id_named(id, name)));
        granted
    }

    async fn revoke(&mut self, name: &str) -> Result<(), Failure> {
        self.known(name)?;
        let catalog = self.host.catalog();
        let tools = catalog.tools().iter().filter(|tool| is_named(tool, name));
        let mut ids: Vec<_> = tools.map(|tool| tool.id.clone()).collect();
        let others = self.other_grants(Some(name)).into_iter();
        ids.extend(others.map(|(id, _)| id));
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
        let is_listed = catalog.tools().iter().any(|tool| is_named(tool, name));
        match is_listed || !self.other_grants(Some(name)).is_empty() {
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
    tool.exposed.as_str() == name || is_id_named(&tool.id, name)
}

fn is_id_named(id: &ToolId, name: &str) -> bool {
    let server = id.server.as_str();
    let rest = name.strip_prefix(server);
    server == name || rest.and_then(|rest| rest.strip_prefix('/')) == Some(id.tool.as_wire())
}

/// A remembered approval, by its age.
fn approval_of(at: SystemTime) -> String {
    let age = at.elapsed().unwrap_or_default();
    format!("your approval of {} ago", table::duration(age))
}
