//! Slash commands: their table, how their arguments are split, and which function runs each.

use switchboard::Host;

use super::{Chat, prompts, screen};
use crate::failure::{Code, Failure};
use crate::shell_words::split_words;
use crate::suggestion;
use crate::view::server::escaped;
use crate::view::table;

/// `/mcp` and what it does to servers.
mod mcp;
/// `/tools`, `/call`, `/resources`.
mod offers;
/// `/permissions`.
mod permissions;
/// `/context`, `/compact`, `/clear`, `/save`, `/resume`, `/fork`.
mod session;

pub(super) use mcp::WORDS as MCP_WORDS;

/// What the conversation does after an input.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    Continue,
    /// Ctrl-C stopped the command or turn.
    Interrupted,
    End,
}

/// A command of the console.
pub(super) struct SlashCommand {
    pub(super) name: &'static str,
    /// The arguments, as `/help` shows them.
    usage: &'static str,
    pub(super) about: &'static str,
}

const fn command(name: &'static str, usage: &'static str, about: &'static str) -> SlashCommand {
    SlashCommand { name, usage, about }
}

/// All commands, as `/help` lists them.
pub(super) const COMMANDS: [SlashCommand; 17] = [
    command("help", "", "list the commands"),
    command(
        "mcp",
        "[ACTION [SERVER]]",
        "the state of every server; `/mcp help` lists the actions",
    ),
    command(
        "tools",
        "[SERVER|TOOL] [--schema]",
        "list tools, or show one; `--retry` offers again what the vendor refused",
    ),
    command(
        "call",
        "TOOL [key=value …]",
        "call a tool yourself, after the permission check",
    ),
    command(
        "resources",
        "[SERVER]",
        "list resources; @SERVER:URI in a message inserts one",
    ),
    command(
        "permissions",
        "[SERVER|TOOL]",
        "what decides on each tool; `revoke SERVER|TOOL` revokes an approval",
    ),
    command(
        "mode",
        "[MODE]",
        "ask, accept-edits, plan or yolo; Shift-Tab switches it",
    ),
    command(
        "model",
        "[NAME]",
        "show the model, or continue with NAME, VENDOR/NAME or demo",
    ),
    command("context", "", "what fills the model's context, by server"),
    command("cost", "", "the tokens and the cost so far"),
    command("compact", "", "replace the conversation by a summary"),
    command("clear", "", "start a new conversation"),
    command("save", "FILE", "copy the session into a file"),
    command(
        "resume",
        "[ID [--fork]]",
        "list conversations, or continue one or a copy of it",
    ),
    command("fork", "", "continue in a copy of the conversation"),
    command("reload", "", "read the configuration again"),
    command("exit", "", "end the conversation"),
];

impl Chat<'_> {
    /// Runs the command that was typed after the slash.
    pub(super) async fn command(&mut self, typed: &str) -> Result<Next, Failure> {
        let (name, rest) = typed.split_once(char::is_whitespace).unwrap_or((typed, ""));
        let is_prompt = COMMANDS.iter().all(|command| command.name != name) && name != "quit";
        let words = split_words(rest).map_err(|error| Failure::new(Code::Usage, error));
        let shows_schema =
            || matches!((name, words.as_deref()), ("mcp", Ok([word])) if word == "schema");
        let needs_offers =
            is_prompt || matches!(name, "tools" | "resources" | "permissions") || shows_schema();
        if needs_offers && !self.start_lazy_servers().await {
            return Ok(self.cancel_turn().await);
        }
        if is_prompt {
            // Words that only look like a command, such as a path, may have an apostrophe in them.
            return match prompts::find(self.host, name)? {
                Some(prompt) => self.use_prompt(&prompt, &words?).await,
                None => Err(unknown_command(self.host, name)),
            };
        }
        let words = words?;
        match name {
            "help" => help(),
            "mcp" => return self.mcp(&words).await,
            "tools" => self.tools(&words)?,
            "call" => return self.call_tool(&words).await,
            "resources" => self.resources(&words)?,
            "mode" => self.choose_mode(&words)?,
            "model" => self.choose_model(rest.trim())?,
            "permissions" => self.permissions(&words).await?,
            "context" => self.show_context()?,
            "cost" => self.show_cost()?,
            "compact" => return self.compact().await,
            "clear" => self.clear()?,
            "save" => self.save(&words)?,
            "resume" => self.resume(&words)?,
            "fork" => self.fork()?,
            "reload" => return self.reload().await,
            _ => return Ok(Next::End),
        }
        Ok(Next::Continue)
    }

    fn choose_mode(&mut self, words: &[String]) -> Result<(), Failure> {
        if let Some(word) = words.first() {
            let mode = <super::ApprovalMode as clap::ValueEnum>::from_str(word, true);
            let mode = mode.map_err(|_| {
                Failure::new(Code::Usage, format!("no mode {:?}", escaped(word)))
                    .hint("the modes are ask, accept-edits, plan and yolo")
            })?;
            self.mode.set(mode);
        }
        screen::print(&format!("mode {}\n", self.mode.get().name()));
        Ok(())
    }

    /// After `[model]` changed: a conversation without a model uses it, another one goes on as it is.
    fn use_new_model_entry(&mut self) -> Result<(), Failure> {
        let name = self.models.entry.as_ref().map(|entry| entry.name.clone());
        match name {
            Some(_) if self.agent.is_none() => {
                let model = self.models.choose(None)?;
                screen::print(&format!("model {}\n", escaped(&model.description())));
                self.set_model(model);
            }
            Some(name) => screen::print(&format!(
                "[model] changed; `/model {}` continues with it\n",
                escaped(name.as_deref().unwrap_or("NAME"))
            )),
            None => screen::print("[model] is gone; the conversation goes on with its model\n"),
        }
        Ok(())
    }

    fn choose_model(&mut self, name: &str) -> Result<(), Failure> {
        if !name.is_empty() {
            let model = self.models.choose(Some(name))?;
            screen::print(&format!("model {}\n", escaped(&model.description())));
            self.set_model(model);
            return Ok(());
        }
        let description = self.caller.model_description();
        let description = description.unwrap_or_else(|| super::NO_MODEL.to_owned());
        screen::print(&format!("{}\n", escaped(&description)));
        Ok(())
    }
}

fn help() {
    let rows: Vec<_> = COMMANDS
        .iter()
        .map(|command| {
            let words = format!("/{} {}", command.name, command.usage);
            vec![words.trim_end().to_owned(), command.about.to_owned()]
        })
        .collect();
    screen::print(&table::aligned(&rows, screen::columns()));
    let keys = "Prompts of servers are commands too. !COMMAND runs a command with Bash. Tab completes. Alt-Enter starts a new line, \
        Ctrl-O opens $EDITOR. Ctrl-C stops the turn, a second one exits; Ctrl-D exits.";
    let lines = table::wrapped(keys, screen::columns().unwrap_or(usize::MAX));
    screen::print(&format!("{}\n", lines.join("\n")));
}

fn unknown_command(host: &Host, name: &str) -> Failure {
    let prompts = prompts::names(host);
    let known = COMMANDS.iter().map(|command| command.name);
    let known = known.chain(prompts.iter().map(String::as_str));
    let suggestion = suggestion::did_you_mean(name, known);
    Failure::new(Code::Usage, format!("no command \"/{}\"", escaped(name)))
        .hint(format!("{suggestion}/help lists them"))
}
