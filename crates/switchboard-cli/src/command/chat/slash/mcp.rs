//! `/mcp`: the current state of all servers, and actions on one of them.

use switchboard::config::{self, Change, ConfigFile};
use switchboard::server::ServerHandle;

use super::super::{Chat, screen};
use super::Next;
use crate::command::{logs, tools};
use crate::failure::{Code, Failure};
use crate::terminal::login::OpenInBrowser;
use crate::view::server::escaped;
use crate::view::status::{Detail, render};
use crate::view::table;
use crate::{agent_tools, output, suggestion, view};

/// The actions of `/mcp`.
pub(in super::super) const WORDS: [(&str, &str); 9] = [
    ("desc", "with the description of each tool"),
    ("schema", "with the schema of each tool's arguments"),
    ("auth", "log in to SERVER"),
    ("reload", "read the configuration again"),
    ("enable", "enable SERVER in its file"),
    ("disable", "disable SERVER in its file"),
    ("restart", "restart SERVER"),
    ("logs", "the end of SERVER's log, or of each"),
    ("help", "list these actions"),
];

impl Chat<'_> {
    pub(in super::super) async fn mcp(&mut self, words: &[String]) -> Result<Next, Failure> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match &*words {
            [] | ["list"] => self.show_servers(false),
            ["desc" | "descriptions"] => self.show_servers(true),
            ["schema"] => {
                let catalog = self.host.catalog();
                screen::print(&tools::text(&catalog, None, true, screen::columns()));
            }
            ["auth", name] => return self.log_in(name).await,
            ["reload"] => return self.reload().await,
            ["enable", name] => return self.enable(name, true).await,
            ["disable", name] => return self.enable(name, false).await,
            ["restart", name] => return self.restart(name).await,
            ["logs"] => drop(logs::run(self.options, &logs::LogsArgs::of(None))?),
            ["logs", name] => {
                logs::run(self.options, &logs::LogsArgs::of(Some((*name).to_owned())))?;
            }
            ["help"] => {
                let rows =
                    WORDS.map(|(word, about)| vec![format!("/mcp {word}"), about.to_owned()]);
                screen::print(&table::aligned(&rows, screen::columns()));
            }
            ["auth" | "enable" | "disable" | "restart"] => {
                return Err(Failure::new(Code::Usage, "which server?")
                    .hint(format!("write `/mcp {} SERVER`", words[0])));
            }
            [word, ..] => {
                let known = WORDS.iter().map(|(word, _)| *word);
                let suggestion = suggestion::did_you_mean(word, known);
                let message = format!("`/mcp` has no action {:?}", escaped(word));
                return Err(Failure::new(Code::Usage, message)
                    .hint(format!("{suggestion}`/mcp help` lists them")));
            }
        }
        Ok(Next::Continue)
    }

    fn show_servers(&self, descriptions: bool) {
        let detail = Detail {
            descriptions,
            verbose: self.options.verbosity() > 0,
        };
        let view = view::server::status(self.host);
        screen::print(&render(&view, detail, screen::columns()));
        for change in self.host.pending_changes() {
            let server = change.server.map(|server| format!("server \"{server}\": "));
            let (server, reason) = (server.unwrap_or_default(), escaped(&change.reason));
            output::log(format!("{server}not applied yet: {reason}"));
        }
    }

    /// A configured server of this name.
    pub(in super::super) fn server(&self, name: &str) -> Result<ServerHandle, Failure> {
        self.host.server(name).ok_or_else(|| {
            let servers = self.host.servers();
            let known = servers.iter().map(|server| server.config.name.as_str());
            let suggestion = suggestion::did_you_mean(name, known);
            Failure::new(Code::Usage, format!("no server \"{}\"", escaped(name)))
                .hint(format!("{suggestion}`/mcp` lists them"))
        })
    }

    async fn log_in(&mut self, name: &str) -> Result<Next, Failure> {
        let server = self.server(name)?;
        let login = self.host.login(&server.config.name, &OpenInBrowser);
        match self.input.during(login).await {
            None => Ok(self.cancel_turn().await),
            Some(outcome) => {
                screen::print(&crate::command::login::sentence(&outcome?));
                Ok(Next::Continue)
            }
        }
    }

    async fn restart(&mut self, name: &str) -> Result<Next, Failure> {
        let server = self.server(name)?;
        let wait = server.config.longest_connect();
        let work = async {
            server.restart().await;
            server.ready(wait).await.map(drop)
        };
        match self.input.during(work).await {
            None => Ok(self.cancel_turn().await),
            Some(outcome) => {
                outcome?;
                screen::print(&format!("server \"{name}\" was restarted\n"));
                Ok(Next::Continue)
            }
        }
    }

    /// Reads the files again and applies them.
    pub(in super::super) async fn reload(&mut self) -> Result<Next, Failure> {
        let config = config::load(&self.paths.config_files(self.options))?;
        self.has_waited = false;
        let reload = self.host.reload(config.clone());
        // The host's notices report what changed.
        match self.input.during(reload).await {
            None => Ok(self.cancel_turn().await),
            Some(outcome) => {
                let report = outcome?;
                agent_tools::apply_rules(&self.denylist, &config)?;
                let has_new_model = self.models.entry != config.model;
                self.models.entry = config.model;
                if has_new_model {
                    self.use_new_model_entry()?;
                } else if report == Default::default() {
                    screen::print("the configuration is the same\n");
                }
                Ok(Next::Continue)
            }
        }
    }

    /// Changes the entry in its file.
    async fn enable(&mut self, name: &str, is_enabled: bool) -> Result<Next, Failure> {
        let server = self.server(name)?;
        let source = &server.config.source;
        let file = ConfigFile {
            dialect: Some(server.config.dialect),
            ..ConfigFile::new(source.file.as_path(), source.scope)
        };
        let change = Change::Enable(name.to_owned(), is_enabled);
        config::edit(&file, &change)
            .map_err(|fault| Failure::new(Code::Usage, escaped(&fault.to_string())).server(name))?;
        let done = if is_enabled { "enabled" } else { "disabled" };
        let shown = escaped(&source.file.display().to_string());
        screen::print(&format!("server \"{name}\" is {done} in {shown}\n"));
        self.reload().await
    }
}
