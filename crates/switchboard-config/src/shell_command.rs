//! A launch as a shell command that a person can copy.

use std::path::Path;

use super::StdioEndpoint;
use super::program::absolute;
use super::reference::{ReferenceSyntax, Segment, TextRole, is_name};
use crate::secret::Secret;
use crate::shell;

/// The shell command that starts this program in the same way. References become the shell's, all
/// other text is quoted, and secret values are masked except for their references. `folder` is the
/// base of relative paths.
pub fn shell_command(endpoint: &StdioEndpoint, folder: &Path) -> String {
    let syntax = endpoint.syntax;
    let mut line = String::new();
    if let Some(cwd) = &endpoint.cwd {
        line.push_str(&format!("cd {} && ", path(syntax, folder, cwd)));
    }
    // A shell can assign only to valid names; `env` takes any.
    if !endpoint.env.keys().all(|name| is_name(name)) {
        line.push_str("env ");
    }
    for (name, value) in &endpoint.env {
        line.push_str(&format!("{}={} ", quoted(name), masked(syntax, value)));
    }
    line.push_str(&match endpoint.command.contains('/') {
        true => path(syntax, folder, &endpoint.command),
        false => word(syntax, &endpoint.command),
    });
    endpoint
        .args
        .iter()
        .for_each(|argument| line.push_str(&format!(" {}", word(syntax, argument))));
    line
}

/// A path that begins with a reference is assumed to be absolute.
fn path(syntax: ReferenceSyntax, folder: &Path, text: &str) -> String {
    match syntax.segments(TextRole::Launch, text).as_deref() {
        Ok([Segment::Literal(only)]) => quoted(&absolute(folder, only).display().to_string()),
        Ok([Segment::Literal(first), ..]) if !first.starts_with('/') => {
            format!(
                "{}/{}",
                quoted(&folder.display().to_string()),
                word(syntax, text)
            )
        }
        _ => word(syntax, text),
    }
}

fn word(syntax: ReferenceSyntax, text: &str) -> String {
    let Ok(segments) = syntax.segments(TextRole::Launch, text) else {
        return quoted(text);
    };
    joined(&segments, quoted)
}

fn masked(syntax: ReferenceSyntax, value: &Secret) -> String {
    const MASK: &str = "'***'";
    let Ok(segments) = syntax.segments(TextRole::Value, value.expose()) else {
        return MASK.to_owned();
    };
    let segments: Vec<_> = segments
        .into_iter()
        .map(|segment| match segment {
            Segment::Variable { name, default } => Segment::Variable {
                name,
                default: default.map(|_| "***"),
            },
            literal => literal,
        })
        .collect();
    joined(&segments, |_| MASK.to_owned())
}

/// Adjacent quoted texts are one word in a shell.
fn joined(segments: &[Segment<'_>], show: impl Fn(&str) -> String) -> String {
    let mut line = String::new();
    let mut literal = String::new();
    for segment in segments {
        match segment {
            Segment::Literal(text) => literal.push_str(text),
            Segment::Variable { name, default } => {
                if !literal.is_empty() {
                    line.push_str(&show(&std::mem::take(&mut literal)));
                }
                let default = default
                    .map(|text| format!(":-{}", escaped(text)))
                    .unwrap_or_default();
                line.push_str(&format!("\"${{{name}{default}}}\""));
            }
        }
    }
    if !literal.is_empty() {
        line.push_str(&show(&literal));
    }
    if line.is_empty() {
        "''".to_owned()
    } else {
        line
    }
}

fn quoted(text: &str) -> String {
    shell::word(text).into_owned()
}

/// Escapes a text for double quotes.
fn escaped(text: &str) -> String {
    text.chars()
        .flat_map(|next| {
            "\\\"$`"
                .contains(next)
                .then_some('\\')
                .into_iter()
                .chain([next])
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s2_65_the_command_to_copy_is_quoted_for_a_shell() {
        let check = |syntax: ReferenceSyntax, text: &str, expected: &str| {
            assert_eq!(word(syntax, text), expected, "{syntax:?} {text}")
        };
        check(ReferenceSyntax::Native, "--port=80", "--port=80");
        check(ReferenceSyntax::Native, "", "''");
        check(ReferenceSyntax::Native, "a b", "'a b'");
        check(ReferenceSyntax::Native, "it's", r"'it'\''s'");
        check(ReferenceSyntax::Native, "${HOME}/x y", r#""${HOME}"'/x y'"#);
        check(
            ReferenceSyntax::Native,
            "${HOME}$(rm)!",
            r#""${HOME}"'$(rm)!'"#,
        );
        check(ReferenceSyntax::Native, "kill $$$$", "'kill $$'");
        check(
            ReferenceSyntax::Native,
            "${env:HOME}/$$x",
            r#""${HOME}"'/$x'"#,
        );
        check(ReferenceSyntax::Native, "$${HOME}", "'${HOME}'");
        check(
            ReferenceSyntax::Native,
            r#"${A:-"$(rm)`}"#,
            r#""${A:-\"\$(rm)\`}""#,
        );
        check(
            ReferenceSyntax::Shell,
            "$PWD:/workspace",
            r#""${PWD}":/workspace"#,
        );
        check(ReferenceSyntax::Shell, "$$", "'$$'");
        check(ReferenceSyntax::Shell, "${a-b}", "'${a-b}'");
        check(ReferenceSyntax::Placeholder, "${env:A}", "'${env:A}'");
        check(ReferenceSyntax::Literal, "$A", "'$A'");
    }

    /// S2-65: with its folder and its variables, so that it fails by hand for the same reason.
    #[test]
    fn s2_65_the_command_to_copy_starts_in_the_same_folder_with_the_same_variables() {
        let check = |syntax: ReferenceSyntax,
                     command: &str,
                     cwd: Option<&str>,
                     env: &[(&str, &str)],
                     expected: &str| {
            let env = env
                .iter()
                .map(|(name, value)| ((*name).to_owned(), Secret::new(*value)))
                .collect();
            let endpoint = StdioEndpoint {
                env,
                cwd: cwd.map(str::to_owned),
                syntax,
                ..StdioEndpoint::new(command, ["-v"])
            };
            assert_eq!(shell_command(&endpoint, Path::new("/my project")), expected);
        };
        check(
            ReferenceSyntax::Shell,
            "python",
            Some("./servers/python"),
            &[],
            "cd '/my project/servers/python' && python -v",
        );
        check(
            ReferenceSyntax::Shell,
            "python",
            Some("$HOME/x"),
            &[],
            r#"cd "${HOME}"/x && python -v"#,
        );
        check(
            ReferenceSyntax::Shell,
            "python",
            Some("x/$A"),
            &[],
            r#"cd '/my project'/x/"${A}" && python -v"#,
        );
        check(
            ReferenceSyntax::Shell,
            "./run",
            None,
            &[],
            "'/my project/run' -v",
        );
        check(
            ReferenceSyntax::Shell,
            "/bin/run",
            Some("/tmp"),
            &[],
            "cd /tmp && /bin/run -v",
        );
        check(
            ReferenceSyntax::Shell,
            "run",
            None,
            &[
                ("URL", "$DATABASE"),
                ("KEY", "canary"),
                ("BOTH", "canary-${A}-canary"),
                ("NONE", ""),
            ],
            r#"URL="${DATABASE}" KEY='***' BOTH='***'"${A}"'***' NONE='' run -v"#,
        );
        check(
            ReferenceSyntax::Native,
            "run",
            None,
            &[("a.b", "${A:-canary}")],
            r#"env a.b="${A:-***}" run -v"#,
        );
    }
}
