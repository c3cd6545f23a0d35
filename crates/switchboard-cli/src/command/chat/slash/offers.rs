//! `/tools`, `/call` and `/resources`: what servers offer, and a call by the person.

use serde_json::json;
use switchboard::call::Call;
use switchboard::catalog::Tool;
use switchboard::wire::RawJson;
use switchboard_agent::Agent;
use switchboard_agent::agent::TreatedTool;

use super::super::{Chat, calls, no_model, screen};
use super::Next;
use crate::command::run::describe_treatment;
use crate::command::{call, resources, tools};
use crate::failure::{Code, Failure};
use crate::view::server::escaped;
use crate::view::{signature, table};
use crate::{coerce, progress};

impl Chat<'_> {
    pub(in super::super) fn tools(&mut self, words: &[String]) -> Result<(), Failure> {
        if words.iter().any(|word| word == "--retry") {
            let agent = self.agent.as_mut().ok_or_else(no_model)?;
            agent.forget_refusals();
            screen::print("the next message offers the tools that the vendor refused again\n");
            return Ok(());
        }
        let has_schema = words.iter().any(|word| word == "--schema");
        let name = words.iter().find(|word| *word != "--schema");
        let catalog = self.host.catalog();
        if let Some(name) = name
            && self.host.server(name).is_none()
        {
            let tool = catalog.resolve(name).map_err(|_| {
                Failure::new(
                    Code::Usage,
                    format!("no server or tool {:?}", escaped(name)),
                )
                .hint("`/tools` lists them")
            })?;
            screen::print(&signature::page("/call", tool, screen::columns()));
            if has_schema {
                screen::print(&tools::indented_schema(&tool.shown_schema()));
            }
            let (server, tool) = (tool.id.server.as_str(), tool.id.tool.as_wire());
            screen::print(&self.treated(|row| row.tool == tool && row.server == server));
            return Ok(());
        }
        let server = name.map(String::as_str);
        let mut text = tools::text(&catalog, server, has_schema, screen::columns());
        text.push_str(&self.treated(|row| server.is_none_or(|server| server == row.server)));
        match text.is_empty() {
            true => screen::print("no tools now; `/mcp` shows the servers\n"),
            false => screen::print(&text),
        }
        Ok(())
    }

    /// The tools that the model gets with a simpler schema or not at all, with the reason.
    fn treated(&mut self, is_shown: impl Fn(&TreatedTool) -> bool) -> String {
        let mut treated = self.agent.as_mut().map(Agent::treated_tools);
        let treated = treated.get_or_insert_default();
        treated.retain(is_shown);
        if treated.is_empty() {
            return String::new();
        }
        let mut text = "\nTools that the model's vendor does not accept as they are:\n".to_owned();
        for row in treated {
            let name = calls::tool_name(&row.server, &row.tool);
            let done = escaped(&describe_treatment(&row.treatment));
            text.push_str(&format!("  {name}: {done}\n"));
        }
        text.push_str("`/tools --retry` offers again what the vendor refused\n");
        text
    }

    /// Calls a tool for the person, through the gate as any other call.
    pub(in super::super) async fn call_tool(&mut self, words: &[String]) -> Result<Next, Failure> {
        let Some((name, pairs)) = words.split_first() else {
            return Err(Failure::new(Code::Usage, "no tool is given")
                .hint("write `/call TOOL key=value`; `/tools` lists them"));
        };
        let pairs: Vec<_> = pairs
            .iter()
            .map(|pair| coerce::pair(pair))
            .collect::<Result<_, _>>()
            .map_err(|error| Failure::new(Code::Usage, escaped(&error)))?;
        self.call_by_name(name, |tool| call::build_arguments(tool, None, &pairs))
            .await
    }

    /// Calls a tool by its name, with arguments that are built once the tool is known.
    async fn call_by_name(
        &mut self,
        name: &str,
        build_arguments: impl FnOnce(&Tool) -> Result<RawJson, Failure>,
    ) -> Result<Next, Failure> {
        let work = async {
            let server = name
                .split_once('/')
                .and_then(|(name, _)| self.host.server(name));
            let server = server.as_ref().map(|server| &server.config.name);
            let tool = call::find_tool(self.host, name, server, self.options).await?;
            let arguments = build_arguments(&tool)?;
            let shown = calls::tool_name(tool.id.server.as_str(), tool.id.tool.as_wire());
            progress::show(format!("calling {shown} · Ctrl-C stops"));
            let call = Call::new(name, arguments).caller(self.caller.of_person());
            let result = self.host.call_with(call).await.map_err(Failure::of_call)?;
            progress::clear();
            call::print_outcome(&tool, &result, false, self.paths, None)
        };
        match self.input.during(work).await {
            None => Ok(self.cancel_turn().await),
            Some(outcome) => outcome.map(|_| Next::Continue),
        }
    }

    /// `!COMMAND`: runs a command of the person as the tool Bash does, with the same rules.
    pub(in super::super) async fn run_in_shell(&mut self, command: &str) -> Result<Next, Failure> {
        if command.is_empty() {
            return Err(Failure::new(Code::Usage, "no command is given").hint("write `!COMMAND`"));
        }
        // Not as `command=…`: there a value that begins with `@` names a file.
        let arguments = RawJson::from_value(&json!({ "command": command }));
        self.call_by_name("Bash", |_| Ok(arguments)).await
    }

    pub(in super::super) fn resources(&self, words: &[String]) -> Result<(), Failure> {
        let server = words.first().map(|name| self.server(name)).transpose()?;
        let server = server.as_ref().map(|server| server.config.name.as_str());
        let rows = resources::rows(self.host, server);
        match rows.is_empty() {
            true => screen::print("no resources now; `/mcp` shows the servers\n"),
            false => screen::print(&table::aligned(&rows, screen::columns())),
        }
        Ok(())
    }
}
