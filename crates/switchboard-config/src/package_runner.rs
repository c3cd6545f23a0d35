//! Package runners: programs that install what they run, so that their first start takes long.

use std::time::Duration;

/// The deadline of a first start, if the entry sets no `connect_timeout`.
pub(super) const FIRST_START_TIMEOUT: Duration = Duration::from_secs(300);

/// The package runner of this command, if it is one.
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
    fn package_runners_are_recognised() {
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
