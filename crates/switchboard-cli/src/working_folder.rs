//! Whether the user's own servers run in the current folder: after the person has accepted it at a
//! terminal; otherwise in a private folder, with a notice.

use switchboard::config::{Endpoint, Scope, ServerConfig};
use switchboard::name::ServerName;
use switchboard::server::private_working_folder;
use switchboard::store::Store;
use switchboard::trust::{self, FolderAnswer};

use std::path::PathBuf;

use crate::failure::Failure;
use crate::output;
use crate::paths::Paths;
use crate::setup::Setup;
use crate::terminal::tty::Tty;
use crate::view::server::escaped;

/// The private folder to use instead of the current one, unless that is accepted.
pub(crate) fn private_folder(
    setup: &Setup,
    only: Option<&[ServerName]>,
) -> Result<Option<PathBuf>, Failure> {
    let current = &setup.paths.current;
    let mut answer = trust::folder_answer(current, &*setup.store);
    let names = affected_servers(setup, only);
    if answer.is_none() && !names.is_empty() {
        answer = ask(setup, &names)?;
    }
    if answer == Some(FolderAnswer::Accepted) {
        return Ok(None);
    }
    if !names.is_empty() {
        let (whose, run) = if names.len() == 1 {
            ("server", "runs")
        } else {
            ("servers", "run")
        };
        output::notice(&format!(
            "your own {whose} {} {run} in a private folder, not in {}; `switchboard trust --folder` lets your servers run here",
            names.join(", "),
            escaped(&current.display().to_string()),
        ));
    }
    Ok(Some(setup.paths.private_folder()))
}

/// The servers that would run in the current folder: those of the user's own files without `cwd`.
fn affected_servers(setup: &Setup, only: Option<&[ServerName]>) -> Vec<String> {
    let servers = setup
        .config
        .servers
        .values()
        .filter(|server| only.is_none_or(|only| only.contains(&server.name)));
    let may_start = |server: &&ServerConfig| {
        server.enabled && setup.config.security.blocks(&server.name).is_none()
    };
    let servers = servers
        .map(|server| &**server)
        .filter(may_start)
        .filter(|server| runs_in_current_folder(server));
    servers
        .map(|server| format!("\"{}\"", server.name))
        .collect()
}

/// The private folder that a server runs in, if it runs in one. Made when it is first started.
pub(crate) fn private_folder_of(
    server: &ServerConfig,
    paths: &Paths,
    store: &dyn Store,
) -> Option<PathBuf> {
    let is_private = runs_in_current_folder(server)
        && trust::folder_answer(&paths.current, store) != Some(FolderAnswer::Accepted);
    let folder = private_working_folder(&paths.private_folder(), &server.name);
    (is_private && folder.is_dir()).then_some(folder)
}

pub(crate) fn runs_in_current_folder(server: &ServerConfig) -> bool {
    let names_none = matches!(&server.endpoint, Endpoint::Stdio(stdio) if stdio.cwd.is_none());
    server.source.scope == Scope::User && names_none
}

/// Asks at the terminal and stores the answer; `None` if there is no terminal.
fn ask(setup: &Setup, names: &[String]) -> Result<Option<FolderAnswer>, Failure> {
    let Some(terminal) = Tty::open().filter(|_| !setup.json) else {
        return Ok(None);
    };
    let current = &setup.paths.current;
    let question = format!(
        "\nFiles in the folder that a server runs in can change what it does.\nLet {} run in {}?",
        names.join(", "),
        escaped(&current.display().to_string()),
    );
    // A closed terminal is no answer.
    let Some(yes) = terminal.confirm_blocking(&question)? else {
        return Ok(None);
    };
    let (answer, stored) = match yes {
        true => (
            FolderAnswer::Accepted,
            trust::accept_folder(current, &*setup.store),
        ),
        false => (
            FolderAnswer::Declined,
            trust::decline_folder(current, &*setup.store),
        ),
    };
    if let Err(error) = stored {
        output::notice(&format!("this answer applies to this run only: {error}"));
    }
    Ok(Some(answer))
}
