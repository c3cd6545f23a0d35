//! What a person sees of an entry before accepting it: all of it, untruncated and escaped, so that
//! the file's words cannot leave their bar.

use switchboard::config::{self, Endpoint, ServerConfig};
use switchboard::trust::{Disclosure, TrustState};

use crate::setup::Setup;
use crate::view::mask;
use crate::view::server::escaped;

/// With more arguments than these, their number is told, and the command again behind them.
const FEW_ARGUMENTS: usize = 12;

/// An entry, whole.
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
    // A name of another program's file may have quotes in it, and must not get out of its own.
    let mut text = format!(
        "\nServer {:?} in {} {would}:\n",
        disclosure.name,
        escaped(&disclosure.file.display().to_string())
    );
    let mut bar = |words: &str| text.push_str(&format!("  │ {}\n", escaped(words)));
    disclosure.lines.iter().for_each(|words| bar(words));
    if let Some(shadowed) = &server.source.shadows {
        text.push_str(&format!(
            "It replaces your own entry in {}.\n",
            escaped(&shadowed.display().to_string())
        ));
    }
    if let TrustState::Changed { diff } = trust_state {
        text.push_str("You trusted it in another form. What changed (- then, + now):\n");
        diff.iter()
            .for_each(|words| text.push_str(&format!("  │ {}\n", escaped(words))));
    }
    for why in &disclosure.refused {
        text.push_str(&format!(
            "It cannot be trusted as it stands: {}\n",
            escaped(why)
        ));
    }
    if let Some(arguments) = many_arguments(server) {
        let is_said_again =
            |line: &&String| line.starts_with("command: ") || line.starts_with("working folder: ");
        text.push_str(&format!(
            "All of that is one command with {arguments} arguments:\n"
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

/// What else there is to know: where the entry stands, which program it means here, and what to
/// type to start it by hand.
pub(super) fn details(setup: &Setup, server: &ServerConfig) -> String {
    let source = &server.source;
    let mut lines = vec![format!(
        "it stands in {}:{}, a file of the kind {}",
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
            "by hand: {}",
            config::shell_command(&shown, &source.folder)
        ));
    }
    lines
        .iter()
        .map(|line| format!("  │ {}\n", escaped(line)))
        .collect()
}
