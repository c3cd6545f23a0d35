//! `logs`: prints the end of each server's log file, escaped.

use std::path::Path;

use clap::Args;
use switchboard::name::ServerName;
use switchboard::store::LogFile;
use switchboard::untrusted::Untrusted;

use crate::arguments::{Options, server_names};
use crate::failure::{Code, Failure};
use crate::output;
use crate::paths::Paths;

/// Arguments of `logs`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  switchboard logs git\n  switchboard logs git -n 500\n  switchboard logs --json"
)]
pub(crate) struct LogsArgs {
    /// Only this server
    #[arg(add = server_names())]
    server: Option<String>,
    /// Number of lines from the end
    #[arg(short = 'n', long = "lines", value_name = "N", default_value_t = 50)]
    lines: usize,
}

impl LogsArgs {
    /// The end of one server's log, or of each.
    pub(crate) fn of(server: Option<String>) -> Self {
        Self { server, lines: 50 }
    }
}

pub(crate) fn run(options: &Options, args: &LogsArgs) -> Result<u8, Failure> {
    let paths = Paths::find()?;
    let servers = servers_with_logs(&paths.logs(), args.server.as_deref())?;
    if servers.is_empty() {
        output::notice("no log yet: a server has one after its first start");
    }
    let mut text = String::new();
    let mut document = Vec::new();
    for server in &servers {
        let lines = LogFile::read_tail(&paths.state, server, args.lines).map_err(|error| {
            Failure::new(
                Code::Usage,
                format!("the log of server \"{server}\" cannot be read: {error}"),
            )
        })?;
        if servers.len() > 1 {
            text.push_str(&format!("==> {server} <==\n"));
        }
        lines
            .iter()
            .for_each(|line| text.push_str(&format!("{}\n", line.for_terminal_line())));
        let lines: Vec<_> = lines.iter().map(Untrusted::raw).collect();
        document.push(serde_json::json!({ "server": server.as_str(), "lines": lines }));
    }
    if options.json {
        output::print_json(&serde_json::json!({ "logs": document }).to_string())?;
    } else {
        output::print(&text)?;
    }
    Ok(0)
}

/// The servers that have a log, by name. A named server must have one.
fn servers_with_logs(folder: &Path, server: Option<&str>) -> Result<Vec<ServerName>, Failure> {
    let mut servers: Vec<_> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            ServerName::lenient(entry.file_name().to_str()?.strip_suffix(".log")?).ok()
        })
        .filter(|name| server.is_none_or(|server| server == name.as_str()))
        .collect();
    servers.sort();
    match server {
        Some(server) if servers.is_empty() => {
            let name = Untrusted::new(server);
            Err(Failure::new(
                Code::Usage,
                format!("no log of server \"{}\"", name.for_terminal_line()),
            )
            .hint("a server has one after its first start"))
        }
        _ => Ok(servers),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn servers_are_found_by_their_logs() {
        let folder = tempfile::tempdir().unwrap();
        for name in [
            "git.log.1",
            "git.log",
            "files.log",
            "of a dialect.log",
            "no\u{200b}server.log",
            "x.txt",
        ] {
            std::fs::write(folder.path().join(name), "line\n").unwrap();
        }
        let names = |server| {
            servers_with_logs(folder.path(), server)
                .map(|names| names.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert_eq!(
            names(None),
            Ok(["files", "git", "of a dialect"].map(str::to_owned).to_vec())
        );
        assert_eq!(names(Some("git")), Ok(vec!["git".to_owned()]));
        assert_eq!(
            names(Some("none")).map_err(|failure| failure.code),
            Err(Code::Usage)
        );
    }
}
