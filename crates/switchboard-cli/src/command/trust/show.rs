//! The text of an entry before it is accepted: complete and escaped, with the file's text behind a
//! bar.

use switchboard::config::{self, Endpoint, Scope, ServerConfig};
use switchboard::trust::{Disclosure, TrustState};

use crate::setup::Setup;
use crate::view::mask;
use crate::view::server::escaped;

/// With more arguments than this, their number and the command are repeated at the end.
const FEW_ARGUMENTS: usize = 12;

/// The whole entry.
pub(crate) fn entry(
    server: &ServerConfig,
    trust_state: &TrustState,
    disclosure: &Disclosure,
) -> String {
    let would = match &server.endpoint {
        Endpoint::Stdio(_) => "would start",
        Endpoint::Http(_) => "would be reached with",
        Endpoint::Invalid(_) => "cannot be read",
    };
    // Quoted, because a name from another program's file may contain quotes.
    let mut text = format!(
        "\nServer {:?} in {} {would}:\n",
        disclosure.name,
        escaped(&disclosure.file.display().to_string())
    );
    let mut bar = |words: &str| text.push_str(&format!("  │ {}\n", escaped(words)));
    disclosure.lines.iter().for_each(|words| bar(words));
    if let Some(shadowed) = &server.source.shadows {
        let whose = match shadowed.scope {
            Scope::Project => "the project's",
            Scope::User | Scope::Given => "your own",
        };
        let file = escaped(&shadowed.file.display().to_string());
        text.push_str(&format!("It replaces {whose} entry in {file}.\n"));
    }
    if let TrustState::Changed { diff } = trust_state {
        text.push_str("It changed since you trusted it (- before, + now):\n");
        diff.iter()
            .for_each(|words| text.push_str(&format!("  │ {}\n", escaped(words))));
    }
    for why in &disclosure.refused {
        text.push_str(&format!(
            "It cannot be trusted as it is: {}\n",
            escaped(why)
        ));
    }
    if let Some(arguments) = many_arguments(server) {
        let is_said_again =
            |line: &&String| line.starts_with("command: ") || line.starts_with("working folder: ");
        text.push_str(&format!(
            "This is one command with {arguments} arguments:\n"
        ));
        let again = disclosure.lines.iter().filter(is_said_again);
        again.for_each(|words| text.push_str(&format!("  │ {}\n", escaped(words))));
    }
    text
}

fn many_arguments(server: &ServerConfig) -> Option<usize> {
    let Endpoint::Stdio(stdio) = &server.endpoint else {
        return None;
    };
    (stdio.args.len() > FEW_ARGUMENTS).then_some(stdio.args.len())
}

/// Further details: the position of the entry, the program that it resolves to, and the command to
/// start it by hand.
pub(super) fn details(setup: &Setup, server: &ServerConfig) -> String {
    let source = &server.source;
    let mut lines = vec![format!(
        "defined in {}:{} ({} file)",
        source.file.display(),
        source.line,
        server.dialect.profile().name
    )];
    if let Endpoint::Stdio(stdio) = &server.endpoint {
        lines.push(
            match config::resolve_launch(stdio, &source.folder, &setup.environment) {
                Ok(launch) => format!("the program is {}", launch.program.display()),
                Err(fault) => fault.to_string(),
            },
        );
        let cwd = stdio
            .cwd
            .clone()
            .or_else(|| Some(source.folder.display().to_string()));
        let shown = config::StdioEndpoint {
            args: mask::arguments(&stdio.args),
            cwd,
            ..stdio.clone()
        };
        lines.push(format!(
            "to start it yourself: {}",
            config::shell_command(&shown, &source.folder)
        ));
    }
    lines
        .iter()
        .map(|line| format!("  │ {}\n", escaped(line)))
        .collect()
}
