//! The change of one client's file by `install` or `uninstall`: planned, shown, applied.

use std::path::PathBuf;

use serde_json::{Value, json};
use switchboard_gateway::tokens::ClientTokens;

use crate::clients::file::{ClientFile, FileChange, Plan, Written, back_up, read_text};
use crate::clients::{Client, claude, entry, preview, program};
use crate::command::token;
use crate::failure::Failure;
use crate::output;
use crate::view::server::escaped;

/// The planned change of one client's file.
pub(super) struct PlannedChange {
    pub(super) file: ClientFile,
    change: FileChange,
    plan: Plan,
    /// Creates the token of an entry that has a placeholder so far: nobody has answered yet whether
    /// the file may be written.
    creates_token: Option<ClientTokens>,
    /// Notices to print after the change.
    advice: Vec<String>,
}

impl PlannedChange {
    pub(super) fn new(
        file: ClientFile,
        change: FileChange,
        creates_token: Option<ClientTokens>,
        advice: Vec<String>,
    ) -> Result<Self, Failure> {
        let plan = file.plan(&change)?;
        Ok(Self {
            file,
            change,
            plan,
            creates_token,
            advice,
        })
    }

    /// The lines that would change; none if nothing would.
    pub(super) fn preview(&self) -> Vec<String> {
        let after = match &self.plan {
            Plan::Unchanged | Plan::NotInstalled | Plan::Left(_) => return Vec::new(),
            Plan::Write(text) | Plan::Restore(_, text) => text,
            Plan::Delete => "",
        };
        let before = self.file.text.as_deref().unwrap_or_default();
        let ours = match &self.change {
            FileChange::Install { fields, .. } => entry::as_json(fields),
            // Other values of the entry may be secrets of whoever wrote it.
            FileChange::Uninstall { .. } => {
                let found = self.file.entry().ok().flatten();
                let written =
                    found.and_then(|entry| entry::written_fields(self.file.client, &entry));
                written.map_or(Value::Null, |fields| entry::as_json(&fields))
            }
        };
        let ours = entry::without_token(self.file.client, ours);
        preview::changes(before, after, &ours)
    }

    pub(super) fn apply(mut self) -> Result<AppliedChange, Failure> {
        let client = self.file.client;
        let path = self.file.path.clone();
        if let (Some(tokens), FileChange::Install { fields, .. }) =
            (&self.creates_token, &mut self.change)
        {
            let token = tokens.for_headers(client.name);
            entry::set_token(fields, &token.map_err(token::headers_failure)?);
        }
        let (plan, written) = match self.through_claude() {
            Some(done) => done?,
            None => self.file.apply(&self.change)?,
        };
        Ok(AppliedChange {
            client,
            path,
            plan,
            backup: written.backup,
            is_install: matches!(self.change, FileChange::Install { .. }),
            advice: self.advice,
        })
    }

    /// Lets Claude Code change its own file; `None` if its program is missing or fails.
    fn through_claude(&self) -> Option<Result<(Plan, Written), Failure>> {
        let (Some("claude"), Plan::Write(_)) = (self.file.client.program, &self.plan) else {
            return None;
        };
        let program = program::find("claude")?;
        let backup = match back_up(&self.file.path, self.file.text.as_deref()) {
            Ok(backup) => backup,
            Err(_) => return None,
        };
        let done = match &self.change {
            FileChange::Install { fields, .. } => {
                let entry = entry::as_json(fields).to_string();
                let has_entry = self.file.entry().is_ok_and(|entry| entry.is_some());
                claude::add(&program, &entry, has_entry)
            }
            FileChange::Uninstall { .. } => claude::remove(&program),
        };
        let after = ClientFile {
            text: read_text(&self.file.path).ok()?,
            ..self.file.clone()
        };
        let is_done = matches!(
            after.plan(&self.change),
            Ok(Plan::Unchanged | Plan::NotInstalled)
        );
        if done.is_ok() && is_done {
            return Some(Ok((self.plan.clone(), Written { backup })));
        }
        let why = done
            .err()
            .unwrap_or_else(|| "`claude mcp` did not change its file".to_owned());
        output::notice(&format!("{why}; the file is edited directly"));
        if let Some(backup) = backup {
            let _ = std::fs::remove_file(backup);
        }
        None
    }
}

/// The change that was made for one client.
pub(super) struct AppliedChange {
    client: &'static Client,
    path: PathBuf,
    plan: Plan,
    backup: Option<PathBuf>,
    is_install: bool,
    pub(super) advice: Vec<String>,
}

impl AppliedChange {
    /// The outcome in a word.
    fn word(&self) -> &'static str {
        match &self.plan {
            Plan::Unchanged => "already installed",
            Plan::NotInstalled => "not installed",
            Plan::Left(_) => "left as it is",
            _ if self.is_install => "installed",
            _ => "uninstalled",
        }
    }

    pub(super) fn as_line(&self) -> String {
        let path = escaped(&self.path.display().to_string());
        let backup = self.backup.as_ref().map(|backup| {
            let name = backup.file_name().unwrap_or_default().to_string_lossy();
            format!("; backup beside it: {}", escaped(&name))
        });
        let reason = match &self.plan {
            Plan::Left(reason) => format!(": {reason}"),
            _ => String::new(),
        };
        format!(
            "{}: {}{reason} ({path}{})\n",
            self.client.name,
            self.word(),
            backup.unwrap_or_default()
        )
    }

    pub(super) fn as_json(&self) -> Value {
        let reason = match &self.plan {
            Plan::Left(reason) => Some(reason),
            _ => None,
        };
        json!({
            "client": self.client.name, "done": self.word(), "file": self.path.display().to_string(),
            "backup": self.backup.as_ref().map(|backup| backup.display().to_string()), "reason": reason
        })
    }
}
