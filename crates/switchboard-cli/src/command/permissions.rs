//! `permissions`: lists and revokes remembered approvals.

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use switchboard::gate::Grant;
use switchboard::store::{Store, StoreTable};
use switchboard::trust::{self, AcceptedPermissions};

use crate::arguments::Options;
use crate::failure::{Code, Failure};
use crate::output;
use crate::paths::Paths;
use crate::setup::{OutputScope, open_lasting_store, open_store};
use crate::view::server::escaped;

/// Arguments of `permissions`.
#[derive(Debug, Args)]
#[command(after_help = "\
Answers \"always, for good\" to questions about calls, and project files whose own permissions were accepted by `switchboard trust`.

Examples:
  switchboard permissions
  switchboard permissions revoke git/git_commit      one tool, whichever file its server stands in
  switchboard permissions revoke git                 every tool of this server
  switchboard permissions revoke ./.agents/mcp.json  what this file lets run without asking,
                                                     and its servers' tools
  switchboard permissions revoke --all")]
pub(crate) struct PermissionsArgs {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List remembered approvals (the default)
    List,
    /// Revoke approvals: the next call asks again
    Revoke(RevokeArgs),
}

/// Arguments of `permissions revoke`.
#[derive(Debug, Args)]
struct RevokeArgs {
    /// SERVER/TOOL, SERVER, or the path of a file
    #[arg(
        value_name = "WHAT",
        required_unless_present = "all",
        conflicts_with = "all"
    )]
    approvals: Vec<String>,
    /// All of them
    #[arg(long)]
    all: bool,
}

/// All remembered approvals.
struct Answers {
    /// Grants with their keys in the store.
    tools: Vec<(String, Grant)>,
    files: Vec<AcceptedPermissions>,
}

impl Answers {
    fn read(store: &dyn Store) -> Result<Self, Failure> {
        let mut tools: Vec<_> = store
            .all(StoreTable::Grants)?
            .into_iter()
            .filter_map(|(key, text)| Some((key, Grant::from_json(&text)?)))
            .collect();
        tools.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(Self {
            tools,
            files: trust::accepted_permissions(store)?,
        })
    }

    /// The approvals that these words select.
    fn select(self, words: &[String]) -> Result<Self, Failure> {
        let mut found = Self {
            tools: Vec::new(),
            files: Vec::new(),
        };
        let Self {
            mut tools,
            mut files,
        } = self;
        for word in words {
            let path = std::path::absolute(word)
                .ok()
                .and_then(|path| Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?)));
            let is_file = |file: &str| {
                file == word
                    || path
                        .as_ref()
                        .is_some_and(|path| path.to_string_lossy() == file)
            };
            let is_selected = |grant: &Grant| {
                let pair = format!("{}/{}", grant.id.server, grant.id.tool.as_wire());
                pair == *word
                    || grant.id.server.as_str() == word
                    || is_file(&grant.file.to_string_lossy())
            };
            let before = found.tools.len() + found.files.len();
            found
                .tools
                .extend(tools.extract_if(.., |(_, grant)| is_selected(grant)));
            found
                .files
                .extend(files.extract_if(.., |accepted| is_file(&accepted.file)));
            if before == found.tools.len() + found.files.len() {
                return Err(Failure::new(
                    Code::Usage,
                    format!("no approval is remembered for {:?}", escaped(word)),
                )
                .hint("`switchboard permissions` lists them"));
            }
        }
        Ok(found)
    }

    fn remove(&self, store: &dyn Store) -> Result<(), Failure> {
        for (key, _) in &self.tools {
            store.remove(StoreTable::Grants, key)?;
        }
        for accepted in &self.files {
            trust::revoke_permissions(&accepted.file, store)?;
        }
        Ok(())
    }

    fn as_json(&self) -> Value {
        let tools: Vec<_> = self
            .tools
            .iter()
            .map(|(_, grant)| grant_json(grant))
            .collect();
        let files: Vec<_> = self
            .files
            .iter()
            .map(|accepted| json!({ "file": accepted.file, "allows": accepted.lines }))
            .collect();
        json!({ "tools": tools, "files": files })
    }

    fn as_text(&self) -> String {
        let mut text = String::new();
        if !self.tools.is_empty() {
            text.push_str("Tools that run without asking while their definition stays the same:\n");
            self.tools
                .iter()
                .for_each(|(_, grant)| text.push_str(&format!("  {}\n", grant_line(grant))));
        }
        for accepted in &self.files {
            text.push_str(&format!(
                "{} may let run without asking:\n",
                escaped(&accepted.file)
            ));
            accepted
                .lines
                .iter()
                .for_each(|line| text.push_str(&format!("  {}\n", escaped(line))));
        }
        text
    }
}

/// One grant, escaped.
pub(super) fn grant_line(grant: &Grant) -> String {
    let tool = grant.id.tool.untrusted();
    format!(
        "{}/{}    {}",
        grant.id.server,
        tool.for_terminal_line(),
        escaped(&grant.file.display().to_string())
    )
}

pub(super) fn grant_json(grant: &Grant) -> Value {
    json!({ "server": grant.id.server.as_str(), "tool": grant.id.tool.as_wire(), "file": grant.file.display().to_string() })
}

pub(crate) fn run(options: &Options, args: &PermissionsArgs) -> Result<u8, Failure> {
    let paths = Paths::find()?;
    let store = match args.action {
        Some(Action::Revoke(_)) => open_lasting_store(&paths)?,
        _ => open_store(&paths, OutputScope::Result),
    };
    let answers = Answers::read(&*store)?;
    let (answers, done, nothing) = match &args.action {
        None | Some(Action::List) => (answers, "", "no approval is remembered\n"),
        Some(Action::Revoke(revoke)) => {
            let answers = if revoke.all {
                answers
            } else {
                answers.select(&revoke.approvals)?
            };
            answers.remove(&*store)?;
            (answers, "revoked:\n", "no approval was remembered\n")
        }
    };
    if options.json {
        output::print_json(&answers.as_json().to_string())?;
    } else {
        let text = answers.as_text();
        output::print(&if text.is_empty() {
            nothing.to_owned()
        } else {
            format!("{done}{text}")
        })?;
    }
    Ok(0)
}
