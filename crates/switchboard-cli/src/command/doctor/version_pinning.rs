//! Package runners without a pinned version: npx, uvx, docker and similar.

/// A warning with the pinned form, if a package runner is given no version.
pub(super) fn warning(command: &str, args: &[String]) -> Option<String> {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let program = command.rsplit('/').next().unwrap_or(command);
    match (program, words.as_slice()) {
        ("npx" | "bunx", rest) => node("npx", rest),
        ("npm", ["exec" | "x", rest @ ..]) => node("npm exec", rest),
        ("pnpm" | "yarn", ["dlx", rest @ ..]) => node("dlx", rest),
        ("uvx", rest) => python("uvx", rest),
        ("uv", ["tool", "run", rest @ ..]) => python("uv tool run", rest),
        ("pipx", ["run", rest @ ..]) => python("pipx run", rest),
        ("docker" | "podman", ["run", rest @ ..]) => container(rest),
        _ => None,
    }
}

fn node(launcher: &str, words: &[&str]) -> Option<String> {
    let package = package_word(
        words,
        &["-p", "--package"],
        &[
            "-c",
            "--call",
            "--registry",
            "--prefix",
            "-w",
            "--workspace",
        ],
    )?;
    if is_local(package) {
        return None;
    }
    let version = package
        .get(1..)
        .and_then(|rest| rest.rsplit_once('@'))
        .map(|(_, version)| version);
    match version {
        Some("latest" | "next") | None => {
            let name = version.map_or(package, |version| {
                package
                    .strip_suffix(version)
                    .unwrap_or(package)
                    .trim_end_matches('@')
            });
            Some(format!(
                "{launcher} is given no version of \"{name}\"; write {name}@VERSION"
            ))
        }
        Some(_) => None,
    }
}

fn python(launcher: &str, words: &[&str]) -> Option<String> {
    let package = package_word(
        words,
        &["--from", "--spec"],
        &["--with", "--python", "-p", "--index-url", "--directory"],
    )?;
    let pinned = package.contains("==")
        || package
            .rsplit_once('@')
            .is_some_and(|(_, version)| version != "latest");
    let name = package
        .split(['=', '<', '>', '@', '~'])
        .next()
        .unwrap_or(package);
    (!pinned && !is_local(package))
        .then(|| format!("{launcher} is given no version of \"{name}\"; write {name}==VERSION"))
}

fn container(words: &[&str]) -> Option<String> {
    const TAKE_A_VALUE: [&str; 24] = [
        "-e",
        "--env",
        "-v",
        "--volume",
        "-p",
        "--publish",
        "-w",
        "--workdir",
        "-u",
        "--user",
        "--name",
        "--network",
        "--net",
        "--mount",
        "--entrypoint",
        "-l",
        "--label",
        "--env-file",
        "-h",
        "--hostname",
        "--add-host",
        "-m",
        "--memory",
        "--cpus",
    ];
    let image = package_word(words, &[], &TAKE_A_VALUE)?;
    if image.contains("@sha256:") {
        return None;
    }
    let last = image.rsplit('/').next().unwrap_or(image);
    match last.split_once(':').map(|(_, tag)| tag) {
        Some("latest") | None => {
            let name = image.strip_suffix(":latest").unwrap_or(image);
            Some(format!(
                "the image \"{image}\" has no fixed version; write {name}:TAG or {name}@sha256:DIGEST"
            ))
        }
        Some(_) => None,
    }
}

/// The value of one of `package_options`, or the first word that is neither an option nor an
/// option's value.
fn package_word<'a>(
    words: &[&'a str],
    package_options: &[&str],
    value_options: &[&str],
) -> Option<&'a str> {
    let mut rest = words.iter().copied();
    while let Some(word) = rest.next() {
        if package_options.contains(&word) {
            return rest.next();
        }
        if let Some(value) = package_options
            .iter()
            .find_map(|flag| word.strip_prefix(flag)?.strip_prefix('='))
        {
            return Some(value);
        }
        if value_options.contains(&word) {
            rest.next();
        } else if !word.starts_with('-') {
            return Some(word);
        }
    }
    None
}

fn is_local(package: &str) -> bool {
    package.starts_with(['.', '/']) || package.contains("${")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t7_unpinned_launchers_are_named_and_pinned_ones_are_not() {
        let check = |line: &str, unpinned: Option<&str>| {
            let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
            let found = warning(&words[0], &words[1..]);
            match unpinned {
                Some(name) => {
                    assert!(
                        found
                            .as_deref()
                            .is_some_and(|text| text.contains(&format!("\"{name}\""))),
                        "{line}: {found:?}"
                    )
                }
                None => assert_eq!(found, None, "{line}"),
            }
        };
        check(
            "npx -y @modelcontextprotocol/server-everything",
            Some("@modelcontextprotocol/server-everything"),
        );
        check(
            "npx -y @modelcontextprotocol/server-everything@latest stdio",
            Some("@modelcontextprotocol/server-everything"),
        );
        check("npx -y @modelcontextprotocol/server-everything@1.2.3", None);
        check("npx --package=server@1.0.0 server", None);
        check("/usr/bin/npx server", Some("server"));
        check("npx ./local", None);
        check("pnpm dlx server", Some("server"));
        check("uvx mcp-server-git", Some("mcp-server-git"));
        check("uvx mcp-server-git==1.0", None);
        check("uvx mcp-server-git@1.0", None);
        check("uvx --from mcp-server-git>=1 tool", Some("mcp-server-git"));
        check("uv tool run mcp-server-git", Some("mcp-server-git"));
        check(
            "docker run -i --rm -e API_KEY my-mcp-server:latest",
            Some("my-mcp-server:latest"),
        );
        check(
            "docker run -i registry:5000/server",
            Some("registry:5000/server"),
        );
        check("docker run -i server:1.2", None);
        check("docker run server@sha256:abcd", None);
        check("docker ps", None);
        check("python -m server", None);
    }
}
