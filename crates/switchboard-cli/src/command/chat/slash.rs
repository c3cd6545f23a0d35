//! Slash commands: their table, their words, and which function runs each.

use switchboard::Host;

use super::{Chat, prompts, screen};
use crate::failure::{Code, Failure};
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
    /// Ctrl-C ended it.
    Interrupted,
    End,
}

/// A command of the console.
pub(super) struct SlashCommand {
    pub(super) name: &'static str,
    /// What follows the name.
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
        "[WORD [SERVER]]",
        "the state of every server; `/mcp help` lists its words",
    ),
    command(
        "tools",
        "[SERVER|TOOL] [--schema]",
        "list tools, or show one",
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
        "what decides on each tool; `revoke SERVER|TOOL` asks again",
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
    command("clear", "", "begin a new conversation"),
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
    /// Runs what was typed after the slash.
    pub(super) async fn command(&mut self, typed: &str) -> Result<Next, Failure> {
        let (name, rest) = typed.split_once(char::is_whitespace).unwrap_or((typed, ""));
        let words = split_words(rest).map_err(|error| Failure::new(Code::Usage, error))?;
        let needs_offers = matches!(name, "tools" | "resources" | "permissions")
            || matches!((name, &*words), ("mcp", [word]) if word == "schema")
            || COMMANDS.iter().all(|command| command.name != name) && name != "quit";
        if needs_offers && !self.start_lazy_servers().await {
            return Ok(self.stopped().await);
        }
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
            "exit" | "quit" => return Ok(Next::End),
            _ => match prompts::find(self.host, name)? {
                Some(prompt) => return self.use_prompt(&prompt, &words).await,
                None => return Err(unknown(self.host, name)),
            },
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

    fn choose_model(&mut self, given: &str) -> Result<(), Failure> {
        if !given.is_empty() {
            let model = self.models.choose(Some(given))?;
            screen::print(&format!("model {}\n", escaped(&model.description())));
            self.set_model(model);
            return Ok(());
        }
        let shown = self.caller.model_description();
        let shown = shown.unwrap_or_else(|| super::NO_MODEL.to_owned());
        screen::print(&format!("{}\n", escaped(&shown)));
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
    screen::print(
        "Prompts of servers are commands too. Tab completes. Alt-Enter begins a new line, Ctrl-O opens $EDITOR. Ctrl-C stops the turn, \
         a second one exits; Ctrl-D exits.\n",
    );
}

fn unknown(host: &Host, name: &str) -> Failure {
    let prompts = prompts::names(host);
    let known = COMMANDS.iter().map(|command| command.name);
    let known = known.chain(prompts.iter().map(String::as_str));
    let meant = suggestion::did_you_mean(name, known);
    Failure::new(Code::Usage, format!("no command \"/{}\"", escaped(name)))
        .hint(format!("{meant}/help lists them"))
}

/// Words separated by spaces; quotes and backslashes keep spaces, as in a shell.
pub(super) fn split_words(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(open), _) if open == character => quote = None,
            (Some('\''), _) => word.get_or_insert_default().push(character),
            (_, '\\') => {
                let next = characters.next().unwrap_or('\\');
                word.get_or_insert_default().push(next);
            }
            (Some(_), _) => word.get_or_insert_default().push(character),
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, _) if character.is_whitespace() => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    match quote {
        Some(open) => Err(format!("a {open} is not closed")),
        None => Ok(words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_a_shell_does() {
        let check = |text: &str, expected: &[&str]| {
            let words = split_words(text).unwrap_or_default();
            assert_eq!(words, expected, "{text}");
        };
        check(" a  b ", &["a", "b"]);
        check("a=\"b c\" 'd e'f", &["a=b c", "d ef"]);
        check(r#"a\ b "c\"d" '\'"#, &["a b", "c\"d", "\\"]);
        check("'' x", &["", "x"]);
        assert!(split_words("'a").is_err());
    }
}
