//! Notices before servers start: no server, untrusted servers, permissions that are not accepted.

use std::path::PathBuf;

use switchboard::config::Endpoint;
use switchboard::name::ServerName;
use switchboard::trust::{self, TrustState};
use switchboard::untrusted::Untrusted;

use super::{OutputScope, Setup, no_server_notice};
use crate::failure::Failure;
use crate::view::server::escaped;
use crate::{output, paths, working_folder};

impl Setup {
    /// Prints the notices; returns the private folder that some servers run in.
    pub(super) fn print_notices(
        &self,
        only: Option<&[ServerName]>,
    ) -> Result<Option<PathBuf>, Failure> {
        let mut unreadable = paths::unreadable_variables();
        unreadable.retain(|variable| self.has_heir(variable, only));
        if !unreadable.is_empty() {
            output::notice(&format!(
                "variables that are not Unicode or have no valid name, and are not passed to servers: {}",
                escaped(&unreadable.join(", "))
            ));
        }
        self.print_startup_notices(only);
        let private_folder = working_folder::private_folder(self, only)?;
        self.print_permission_notices();
        Ok(private_folder)
    }

    /// Whether a server that may start is a process that inherits this variable.
    fn has_heir(&self, variable: &str, only: Option<&[ServerName]>) -> bool {
        let mut servers = self.config.servers.values();
        servers.any(|server| {
            only.is_none_or(|only| only.contains(&server.name))
                && matches!(&server.endpoint, Endpoint::Stdio(stdio) if stdio.inherits(variable))
        })
    }

    /// Prints a notice if nothing is configured or a server is not trusted, unless the command's
    /// own output shows it.
    fn print_startup_notices(&self, only: Option<&[ServerName]>) {
        let covers_states = matches!(
            self.scope,
            OutputScope::ServerStates | OutputScope::AllFindings
        );
        if self.config.servers.is_empty() {
            // The built-in tools need no server.
            if !covers_states && self.workspace.is_empty() {
                output::notice(&no_server_notice());
            }
        } else if let Some(line) = self
            .untrusted_servers_notice(only)
            .filter(|_| !covers_states || output::stdout_columns().is_none())
        {
            match self.scope {
                // The report contains the notices; if it is redirected, the person still sees this
                // line.
                OutputScope::AllFindings if !self.json => output::line_on_stderr(&line),
                _ => output::notice(&line),
            }
        }
    }

    /// Prints one notice for each project file whose permissions are not accepted: once, until they
    /// change.
    fn print_permission_notices(&self) {
        // With `--json` the notice may never be seen, so it is not recorded as printed.
        for project in self
            .config
            .project_permissions
            .iter()
            .filter(|_| !self.json)
        {
            let counts =
                trust::permissions_trust_state(project, &*self.store) == TrustState::Trusted;
            if !counts
                && self.is_in_effect(project)
                && trust::is_first_mention(project, &*self.store)
            {
                let file = project.file.display().to_string();
                output::notice(&format!(
                    "{} would let tools run without asking; this has no effect until you accept it with `switchboard trust`",
                    Untrusted::new(file).for_terminal_line()
                ));
            }
        }
    }

    /// The notice about servers that are not trusted, if there are any.
    fn untrusted_servers_notice(&self, only: Option<&[ServerName]>) -> Option<String> {
        let waiting: Vec<_> = trust::waiting(&self.config, &self.environment, &*self.store)
            .into_iter()
            .filter(|(server, _)| only.is_none_or(|only| only.contains(&server.name)))
            .map(|(server, _)| format!("\"{}\"", server.name))
            .collect();
        match waiting.as_slice() {
            [] => None,
            [one] => Some(format!(
                "server {one} of this project is not trusted and was not started; review it with `switchboard trust`"
            )),
            many => Some(format!(
                "servers {} of this project are not trusted and were not started; review them with `switchboard trust`",
                many.join(", ")
            )),
        }
    }
}
