//! Programs that install what they run: their first start takes as long as an installation.

use std::time::Duration;

/// How long a first start may take, where the entry sets no `connect_timeout`.
pub(super) const FIRST_START: Duration = Duration::from_secs(300);

/// The program that may have to install the server first, if this command is one.
pub(super) fn package_runner(command: &str, args: &[String]) -> Option<&'static str> {
    let program = command.rsplit('/').next().unwrap_or(command);
    let words: Vec<&str> = args.iter().map(String::as_str).take(2).collect();
    match (program, words.as_slice()) {
        ("npx", _) => Some("npx"),
        ("bunx", _) => Some("bunx"),
        ("pnpx", _) => Some("pnpx"),
        ("uvx", _) => Some("uvx"),
        ("npm", ["exec" | "x", ..]) => Some("npm"),
        ("pnpm", ["dlx", ..]) => Some("pnpm"),
        ("yarn", ["dlx", ..]) => Some("yarn"),
        ("bun", ["x", ..]) => Some("bun"),
        ("uv", ["run", ..] | ["tool", "run"]) => Some("uv"),
        ("pipx", ["run", ..]) => Some("pipx"),
        ("docker", ["run", ..]) => Some("docker"),
        ("podman", ["run", ..]) => Some("podman"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_install_what_they_run_are_known() {
        let check = |line: &str, expected: Option<&str>| {
            let mut words = line.split_whitespace().map(str::to_owned);
            let command = words.next().unwrap_or_default();
            assert_eq!(
                package_runner(&command, &words.collect::<Vec<_>>()),
                expected,
                "{line}"
            );
        };
        check("npx -y server-x", Some("npx"));
        check("/usr/bin/npx server-x", Some("npx"));
        check("uvx mcp-server-time", Some("uvx"));
        check("uv tool run mcp-server-time", Some("uv"));
        check("npm exec server-x", Some("npm"));
        check("npm start", None);
        check("docker run -i image", Some("docker"));
        check("docker exec x", None);
        check("node server.js", None);
    }
}
