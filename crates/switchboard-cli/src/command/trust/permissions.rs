//! The second prompt of `trust`: what a project's file would let run without asking. The default is
//! no.

use switchboard::config::{ProjectPermissions, Scope, ServerConfig};
use switchboard::trust::{self, TrustState};
use switchboard::untrusted::Untrusted;

use crate::arguments::Options;
use crate::command::trust::WaitingPermissions;
use crate::failure::{Code, Failure};
use crate::setup::Setup;
use crate::terminal::tty::Tty;
use crate::view::server::escaped;
use crate::{hints, output};

/// Files whose current permissions are not accepted: all, or those of the named servers.
pub(super) fn not_accepted<'a>(
    setup: &'a Setup,
    servers: &[String],
) -> Vec<WaitingPermissions<'a>> {
    let is_meant = |project: &ProjectPermissions| {
        let of_file = |name: &String| {
            setup
                .entry(name)
                .is_ok_and(|server| server.source.file == project.file)
        };
        servers.is_empty() || servers.iter().any(of_file)
    };
    let all = setup
        .config
        .project_permissions
        .iter()
        .filter(|project| is_meant(project));
    let with_standing = all.map(|project| {
        (
            project,
            trust::permissions_trust_state(project, &*setup.store),
        )
    });
    with_standing
        .filter(|(_, trust_state)| *trust_state != TrustState::Trusted)
        .collect()
}

/// Asks about one file, and records a yes. Returns whether the answer was yes.
pub(super) async fn ask(
    terminal: &Tty,
    setup: &Setup,
    (project, trust_state): &WaitingPermissions<'_>,
) -> Result<bool, Failure> {
    terminal.write_lines(&format!(
        "{}If you decline, calls of its servers' tools are asked about as usual. Deny rules of your own files apply either way.\n",
        shown(project, trust_state)
    ));
    let question = "Let all of this run without asking?";
    let is_yes = terminal.confirm(question).await == Some(true);
    if is_yes {
        trust::accept_permissions(project, &*setup.store)?;
    }
    Ok(is_yes)
}

/// All permissions of the file, escaped and behind a bar.
pub(super) fn shown(project: &ProjectPermissions, trust_state: &TrustState) -> String {
    let line = |text: &str| Untrusted::new(text).for_terminal_line().to_string();
    let mut text = format!(
        "\n{} would let run without asking:\n",
        line(&project.file.display().to_string())
    );
    project
        .lines()
        .iter()
        .for_each(|words| text.push_str(&format!("  │ {}\n", line(words))));
    if let TrustState::Changed { diff } = trust_state {
        text.push_str("It changed since you accepted it (- before, + now):\n");
        diff.iter()
            .for_each(|words| text.push_str(&format!("  │ {}\n", line(words))));
    }
    text
}

/// The name of a file's permissions in the list of what was accepted.
pub(super) fn of_file(project: &ProjectPermissions) -> String {
    format!(
        "permissions of {}",
        escaped(&project.file.display().to_string())
    )
}

/// Shows permissions that nobody can be asked about, and says how to accept them.
pub(super) fn refused(
    options: &Options,
    setup: &Setup,
    waiting: &[WaitingPermissions<'_>],
) -> Failure {
    let mut files = Vec::new();
    for (project, trust_state) in waiting {
        files.push(of_file(project));
        if !options.json {
            output::print_on_stderr(&shown(project, trust_state));
        }
    }
    let is_of_file = |server: &ServerConfig| {
        let mut files = waiting.iter().map(|(project, _)| &project.file);
        server.source.scope == Scope::Project && files.any(|file| *file == server.source.file)
    };
    let servers = setup.config.servers.values();
    let names: Vec<_> = servers
        .filter(|server| is_of_file(server))
        .map(|server| server.name.as_str())
        .collect();
    let in_a_terminal = format!("run {} in a terminal", hints::command(&["trust"]));
    Failure::new(
        Code::Denied,
        format!("not accepted: {}; no terminal to ask on", files.join(", ")),
    )
    .hint(match names.is_empty() {
        // They apply to servers of other files, which cannot name them.
        true => in_a_terminal,
        false => format!(
            "{in_a_terminal}, or accept them with {}",
            hints::command_with(&["trust", "--yes", "--permissions"], &names)
        ),
    })
}
