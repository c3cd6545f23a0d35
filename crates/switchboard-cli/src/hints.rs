//! Hints as text: commands to copy, with the `-c` files of this run, and fields as their file
//! spells them.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use switchboard::config::{Config, Dialect};
use switchboard::hint::{Hint, TimeField};
use switchboard::name::ServerName;
use switchboard::shell;

use crate::arguments::{Command, Options};
use crate::paths::Paths;
use crate::view::server::escaped;

/// How this run was started.
#[derive(Debug, Default)]
struct Run {
    /// `-c FILE` and `--dialect`, quoted for a shell.
    files: Vec<String>,
    /// Whether the command has `--timeout`.
    has_timeout: bool,
    /// Whether it is `login --no-browser`.
    is_login_without_browser: bool,
}

static RUN: OnceLock<Run> = OnceLock::new();
/// The file that a permission rule can be added to, and its dialect.
static RULES_FILE: OnceLock<Option<(PathBuf, Dialect)>> = OnceLock::new();

/// Whether a conversation is running.
static IN_CHAT: AtomicBool = AtomicBool::new(false);

/// The only server of this run, if it was given with `--server`: no file has it.
static AD_HOC_SERVER: OnceLock<String> = OnceLock::new();

/// The commands that take a server with `--server`.
const AD_HOC_COMMANDS: [&str; 3] = ["call", "status", "tools"];

/// Commands of the program and their slash commands in a conversation.
const CHAT_COMMANDS: [(&str, &str); 7] = [
    ("login", "/mcp auth"),
    ("logs", "/mcp logs"),
    ("permissions", "/permissions"),
    ("reload", "/reload"),
    ("resources", "/resources"),
    ("status", "/mcp"),
    ("tools", "/tools"),
];

/// From now on hints name slash commands where there are some.
pub(crate) fn enter_chat() {
    IN_CHAT.store(true, Ordering::Relaxed);
}

/// From now on hints name commands that know this server, which is in no file. `words` is the
/// command line or URL, or its placeholder if it has secrets.
pub(crate) fn set_ad_hoc(words: &str) {
    let _ = AD_HOC_SERVER.set(words.to_owned());
}

/// Whether a conversation is running.
pub(crate) fn is_in_chat() -> bool {
    IN_CHAT.load(Ordering::Relaxed)
}

/// Stores how this run was started. Later calls have no effect.
pub(crate) fn start(options: &Options, command: &Command) {
    let mut files: Vec<_> = options
        .config
        .iter()
        .flat_map(|file| ["-c".to_owned(), quoted(&file.display().to_string())])
        .collect();
    files.extend(dialect_option(options.dialect));
    let _ = RUN.set(Run {
        files,
        has_timeout: matches!(command, Command::Call(_)),
        is_login_without_browser: matches!(command, Command::Login(args) if args.no_browser),
    });
}

/// Determines the file for permission rules: the user's own, or the first given file whose dialect
/// has rules.
pub(crate) fn set_rules_file(options: &Options, paths: &Paths, config: &Config) {
    let file = if options.config.is_empty() {
        Some((
            paths.config.join("switchboard/switchboard.toml"),
            Dialect::Native,
        ))
    } else {
        let kind = |file: &PathBuf| {
            let located = file.canonicalize().ok()?;
            let holds =
                |source: &PathBuf| source.canonicalize().is_ok_and(|source| source == located);
            let server = config
                .servers
                .values()
                .find(|server| holds(&server.source.file));
            server.map(|server| (file.clone(), server.dialect))
        };
        options
            .config
            .iter()
            .filter_map(kind)
            .find(|(_, dialect)| dialect.how_to_allow("s", "t").is_some())
    };
    let _ = RULES_FILE.set(file);
}

/// A command in backticks: of the conversation, or of this program with the `-c` files of this run.
pub(crate) fn command(words: &[&str]) -> String {
    let (verb, names) = words.split_at(words.len().min(1));
    match CHAT_COMMANDS.iter().find(|(own, _)| *verb == [*own]) {
        Some((_, typed)) if is_in_chat() => chat_command(typed, names),
        _ => command_with(verb, names),
    }
}

/// A command of the conversation in backticks. Its words are read as a shell reads them.
fn chat_command(typed: &str, names: &[&str]) -> String {
    let names = names.iter().map(|name| quoted(name));
    let words: Vec<_> = std::iter::once(typed.to_owned()).chain(names).collect();
    format!("`{}`", escaped(&words.join(" ")))
}

/// The same without backticks, for a line to copy.
pub(crate) fn unquoted_command(verb: &str) -> String {
    command(&[verb]).trim_matches('`').to_owned()
}

/// The same with options before the names.
pub(crate) fn command_with(verb: &[&str], names: &[&str]) -> String {
    let files = RUN
        .get()
        .map(|run| run.files.as_slice())
        .unwrap_or_default();
    let takes_ad_hoc = verb.iter().any(|verb| AD_HOC_COMMANDS.contains(verb));
    let ad_hoc = AD_HOC_SERVER.get().filter(|_| takes_ad_hoc);
    let words = files
        .iter()
        .cloned()
        .chain(verb.iter().map(|word| quoted(word)))
        .chain(ad_hoc.map(|server| format!("--server {}", quoted(server))));
    command_line(words.collect(), names)
}

/// The same for this file and dialect, in place of the files of this run.
pub(crate) fn with_file(
    file: &Path,
    dialect: Option<Dialect>,
    verb: &[&str],
    names: &[&str],
) -> String {
    let file = ["-c".to_owned(), quoted(&file.display().to_string())];
    let words = file.into_iter().chain(dialect_option(dialect));
    let words = words.chain(verb.iter().map(|word| quoted(word)));
    command_line(words.collect(), names)
}

fn dialect_option(dialect: Option<Dialect>) -> impl Iterator<Item = String> {
    let words = |dialect: Dialect| ["--dialect".to_owned(), dialect.profile().name.to_owned()];
    dialect.into_iter().flat_map(words)
}

/// A command of this program in backticks: words that are quoted already, and names.
fn command_line(mut words: Vec<String>, names: &[&str]) -> String {
    // `--` keeps a name that begins with `-` from being read as an option.
    if names.iter().any(|name| name.starts_with('-')) {
        words.push("--".to_owned());
    }
    words.extend(names.iter().map(|name| quoted(name)));
    format!("`{}`", escaped(&format!("switchboard {}", words.join(" "))))
}

/// The command that stores the key of a model's vendor.
pub(crate) fn store_model_key(vendor: &str) -> String {
    command_with(&["login", "--model", vendor], &[])
}

/// The command that examines a server.
pub(crate) fn doctor(server: &ServerName) -> String {
    format!("try {}", command(&["doctor", server.as_str()]))
}

/// The command that logs in again as this run tried to.
pub(crate) fn login_again(server: &ServerName) -> String {
    match RUN.get().is_some_and(|run| run.is_login_without_browser) {
        true => login_without_browser(server),
        false => command(&["login", server.as_str()]),
    }
}

/// The command that logs in with a browser on another machine.
pub(crate) fn login_without_browser(server: &ServerName) -> String {
    command_with(&["login", "--no-browser"], &[server.as_str()])
}

/// What to do about a failure of a server; `tool` is the one that was called.
pub(crate) fn describe(hint: Hint, server: &ServerName, tool: Option<&str>) -> Option<String> {
    let name = server.as_str();
    let ad_hoc = AD_HOC_SERVER.get();
    if let (Hint::LogIn, Some(url)) = (hint, ad_hoc) {
        return Some(format!(
            "to log in, add it to your own file first: `switchboard add {name} {}`",
            escaped(&quoted(url))
        ));
    }
    Some(match hint {
        Hint::Examine | Hint::ReplaceClient | Hint::Accept if ad_hoc.is_some() => return None,
        Hint::Examine => doctor(server),
        Hint::LogIn => format!("run {}", login_again(server)),
        Hint::CheckToken => "check `bearer_token` of its entry".to_owned(),
        Hint::CheckHeaders => "check the headers of its entry".to_owned(),
        Hint::CheckClient => {
            "check `oauth_client_id` of its entry, and the secret or key that goes with it"
                .to_owned()
        }
        Hint::SetClient => {
            "register Switchboard there and set `oauth_client_id` in its entry, or set \
             `bearer_token`"
                .to_owned()
        }
        Hint::SetIssuer => {
            "if the new authorization server is the right one, set `oauth_issuer` to its URL, and \
             `oauth_client_id` and the secret to those it issued"
                .to_owned()
        }
        Hint::ReplaceClient => format!(
            "if the new authorization server is the right one, run {}, then set `oauth_client_id` and \
             the secret to those it issued",
            command(&["logout", name])
        ),
        Hint::Accept => format!("review it with {}", command(&["trust", name])),
        Hint::Enable(dialect) => format!("{} there to use it", dialect.profile().how_to_enable()),
        Hint::ChangeServerList => "change that list to use it".to_owned(),
        Hint::StartAgain => "restart the server to use it".to_owned(),
        Hint::CallLater => "call again when another call has ended".to_owned(),
        Hint::SeparateCallers => {
            "call again later, or give each client a process of its own with `session = \"per-caller\"` in its entry".to_owned()
        }
        Hint::AllowTime(field @ TimeField::CallTimeout) => {
            format!(
                "raise the limit with `{}` in its entry: the longest time without progress",
                field.name()
            )
        }
        Hint::AllowTime(field) if RUN.get().is_some_and(|run| run.has_timeout) => {
            format!(
                "raise the limit with --timeout SECS, or with `{}` in its entry",
                field.name()
            )
        }
        Hint::AllowTime(field) => format!("raise the limit with `{}` in its entry", field.name()),
        Hint::AllowTool { beforehand } => {
            let rule = tool
                .filter(|_| !server.is_host())
                .and_then(|tool| rule(name, tool));
            match (beforehand, rule) {
                (true, Some(rule)) if is_in_chat() => {
                    format!("allow it with `/mode yolo`, or with {rule}")
                }
                (true, None) if is_in_chat() => "allow it with `/mode yolo`".to_owned(),
                (true, Some(rule)) => format!("allow it with `--yes`, or with {rule}"),
                (true, None) => "allow it with `--yes`".to_owned(),
                (false, Some(rule)) => format!("allow it with {rule}"),
                (false, None) => return None,
            }
        }
        _ => return None,
    })
}

/// The rule that allows a tool, and the file to add it to.
fn rule(server: &str, tool: &str) -> Option<String> {
    let (file, dialect) = RULES_FILE.get()?.as_ref()?;
    let rule = dialect.how_to_allow(server, tool)?;
    Some(format!(
        "{rule} in {}",
        escaped(&file.display().to_string())
    ))
}

/// A word quoted for a shell.
pub(crate) fn quoted(word: &str) -> String {
    shell::word(word).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t6_what_a_hint_names_is_one_word_of_a_shell() {
        let check = |word: &str, expected: &str| assert_eq!(quoted(word), expected);
        check("git", "git");
        check("my file.json", "'my file.json'");
        check("x$(touch PWNED)", "'x$(touch PWNED)'");
        check("it's", r"'it'\''s'");
        check("", "''");
        assert_eq!(
            command(&["doctor", "-cevil.toml"]),
            "`switchboard doctor -- -cevil.toml`"
        );
        assert_eq!(
            chat_command("/mcp auth", &["my server"]),
            "`/mcp auth 'my server'`"
        );
    }
}
