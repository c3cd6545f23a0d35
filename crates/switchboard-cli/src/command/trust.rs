//! `trust`: shows everything that a project's file would start, and records the acceptance of each
//! server.

use clap::Args;
use switchboard::config::{ProjectPermissions, Scope, ServerConfig};
use switchboard::trust::{self, Disclosure, TrustState};

use crate::arguments::{Options, server_names};
use crate::failure::{Code, Failure};
use crate::paths::Paths;
use crate::setup::{Setup, block_on, open_lasting_store};
use crate::terminal::tty::Tty;
use crate::{hints, interrupt, output};

/// `--list`, `--revoke` and `--folder`.
mod accepted;
/// The prompt about each server.
mod ask;
/// The prompt about permissions.
mod permissions;
/// The text of an entry.
pub(crate) mod show;

/// Arguments of `trust`.
#[derive(Debug, Args)]
#[command(after_help = "\
A project's servers start only after you have reviewed exactly what they run. A change asks again.
What the file would let run without asking is a second question; if you decline it, the project can only tighten your own permissions.
A server of your own file needs trust only if a running `switchboard watch` or gateway saw it change; name it to accept it.

Revoking a file, or the last accepted server of it, revokes what it lets run without asking, too.

--folder accepts the current folder: servers of your own files without `cwd` then run in it.

Examples:
  switchboard trust                  review each server that is not trusted
  switchboard trust git --yes        accept this server as it is, without asking
  switchboard trust --folder         let your own servers run in this folder
  switchboard trust --list           list what was accepted
  switchboard trust --revoke git     revoke it: the server needs trust again")]
pub(crate) struct TrustArgs {
    /// Only these servers
    #[arg(add = server_names())]
    servers: Vec<String>,
    /// Accept the named servers as they are now, without asking
    #[arg(long, requires = "servers")]
    yes: bool,
    /// Let your own servers run in the current folder
    #[arg(long, conflicts_with_all = ["servers", "yes"])]
    folder: bool,
    /// List accepted servers, permissions and folders
    #[arg(long, conflicts_with_all = ["servers", "yes", "folder"])]
    list: bool,
    /// Revoke what was accepted: for a server, a file or a folder, or with --folder for the current
    /// folder
    #[arg(long, conflicts_with_all = ["yes", "list"])]
    revoke: bool,
    /// With --yes: also accept what the files of these servers let run without asking
    #[arg(long, requires = "yes")]
    permissions: bool,
}

pub(crate) fn run(options: &Options, args: &TrustArgs) -> Result<u8, Failure> {
    match args {
        TrustArgs { list: true, .. } => return accepted::list(options),
        TrustArgs {
            revoke: true,
            folder,
            servers,
            ..
        } => return accepted::revoke(options, servers, *folder),
        TrustArgs { folder: true, .. } => return accepted::accept_folder(options),
        _ => {}
    }
    open_lasting_store(&Paths::find()?)?;
    let setup = Setup::read(options)?;
    for name in &args.servers {
        setup.entry(name)?;
    }
    let mut waiting = trust::waiting(&setup.config, &setup.environment, &*setup.store);
    waiting.retain(|(server, _)| {
        args.servers.is_empty() || args.servers.iter().any(|name| name == server.name.as_str())
    });
    // An entry of a user's own file needs trust only in a running host that saw it change; it reads
    // the answer from the store.
    let own = args
        .servers
        .iter()
        .filter_map(|name| setup.entry(name).ok())
        .filter(|server| {
            server.source.scope != Scope::Project
                && !trust::is_accepted(server, &setup.environment, &*setup.store)
        });
    waiting.extend(own.map(|server| (&**server, TrustState::New)));
    let waiting: Vec<_> = waiting
        .into_iter()
        .map(|(server, trust_state)| {
            (
                server,
                trust_state,
                trust::disclose(server, &setup.environment),
            )
        })
        .collect();
    let project_permissions = match args.yes && !args.permissions {
        true => Vec::new(),
        false => permissions::not_accepted(&setup, &args.servers),
    };
    match (
        waiting.is_empty() && project_permissions.is_empty(),
        args.yes,
    ) {
        (true, _) => report(options, &[], "no server needs trust\n"),
        (false, true) => accept_named(options, &setup, waiting, &project_permissions),
        (false, false) => ask_each(options, &setup, &waiting, &project_permissions),
    }
}

type UntrustedServer<'a> = (&'a ServerConfig, TrustState, Disclosure);

/// Permissions of a project's file that are not accepted.
type WaitingPermissions<'a> = (&'a ProjectPermissions, TrustState);

/// Accepts all of this without a question, or nothing.
fn accept_named(
    options: &Options,
    setup: &Setup,
    mut waiting: Vec<UntrustedServer<'_>>,
    project_permissions: &[WaitingPermissions<'_>],
) -> Result<u8, Failure> {
    // A server that cannot be accepted comes first: its error ends the command before anything is
    // stored.
    waiting.sort_by_key(|(_, _, disclosure)| disclosure.refused.is_empty());
    let mut accepted = Vec::new();
    for (server, trust_state, disclosure) in &waiting {
        if !options.json {
            output::print_on_stderr(&show::entry(server, trust_state, disclosure));
        }
        trust::accept(disclosure, &*setup.store)?;
        accepted.push(disclosure.name.to_string());
    }
    for (project, trust_state) in project_permissions {
        if !options.json {
            output::print_on_stderr(&permissions::shown(project, trust_state));
        }
        trust::accept_permissions(project, &*setup.store)?;
        accepted.push(permissions::of_file(project));
    }
    report(options, &accepted, "")
}

/// Asks about each server, then about the permissions of the files whose servers are trusted.
fn ask_each(
    options: &Options,
    setup: &Setup,
    waiting: &[UntrustedServer<'_>],
    project_permissions: &[WaitingPermissions<'_>],
) -> Result<u8, Failure> {
    let Some(terminal) = Tty::open() else {
        return Err(refuse_without_terminal(
            options,
            setup,
            waiting,
            project_permissions,
        ));
    };
    let chosen = block_on(interrupt::run_until_signal(async {
        Ok(ask::each(&terminal, setup, waiting).await)
    }))?;
    let mut accepted = Vec::new();
    for index in &chosen {
        let (_, _, disclosure) = &waiting[*index];
        trust::accept(disclosure, &*setup.store)?;
        accepted.push(disclosure.name.to_string());
    }
    // Permissions of a file matter only if one of its servers is trusted.
    for file in project_permissions
        .iter()
        .filter(|(project, _)| setup.is_in_effect(project))
    {
        if block_on(interrupt::run_until_signal(permissions::ask(
            &terminal, setup, file,
        )))? {
            accepted.push(permissions::of_file(file.0));
        }
    }
    let nothing = if accepted.is_empty() {
        "nothing was trusted\n"
    } else {
        ""
    };
    report(options, &accepted, nothing)?;
    Ok(if chosen.len() < waiting.len() || accepted.is_empty() {
        Code::Denied as u8
    } else {
        0
    })
}

/// Without a terminal nothing can be accepted: shows what waits, and says how to accept it.
fn refuse_without_terminal(
    options: &Options,
    setup: &Setup,
    waiting: &[UntrustedServer<'_>],
    project_permissions: &[WaitingPermissions<'_>],
) -> Failure {
    let Some((first, ..)) = waiting.first() else {
        return permissions::refused(options, setup, project_permissions);
    };
    let mut names = Vec::new();
    for (server, trust_state, disclosure) in waiting {
        names.push(disclosure.name.as_str());
        if !options.json {
            output::print_on_stderr(&show::entry(server, trust_state, disclosure));
        }
    }
    let command = hints::command(&[&["trust"], names.as_slice()].concat());
    Failure::new(
        Code::Denied,
        format!("not trusted: {}; no terminal to ask on", names.join(", ")),
    )
    .server(&first.name)
    .hint(format!("run {command} in a terminal"))
}

/// Prints what was accepted, or `nothing`.
fn report(options: &Options, accepted: &[String], nothing: &str) -> Result<u8, Failure> {
    if options.json {
        output::print_json(&serde_json::json!({ "trusted": accepted }).to_string())?;
    } else {
        let lines: String = accepted
            .iter()
            .map(|name| format!("trusted: {name}\n"))
            .collect();
        output::print(&(lines + nothing))?;
    }
    Ok(0)
}
