//! Commands that are never run, in any mode: those that cannot be undone, and those that the person's
//! own rules name.
//!
//! This guards against accidents. It is not a sandbox: a program can do the same under another name.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use switchboard::name::Glob;
use switchboard::untrusted::{escaped_line, quoted};

use super::shell_words::{ShellScript, SimpleCommand};

/// How deep commands in arguments (`sh -c`, `eval`) are checked.
const MAX_DEPTH: usize = 4;

/// Folders whose recursive removal or change ruins a machine or a home.
const VITAL_FOLDERS: [&str; 24] = [
    "/",
    "~",
    "$HOME",
    "${HOME}",
    "/home",
    "/root",
    "/etc",
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib64",
    "/boot",
    "/var",
    "/opt",
    "/dev",
    "/sys",
    "/proc",
    "/run",
    "/srv",
    "/System",
    "/Users",
    "/Library",
    "/Applications",
];

/// Names of disks below `/dev`.
const DISKS: [&str; 8] = ["sd", "hd", "vd", "xvd", "nvme", "mmcblk", "disk", "rdisk"];

/// Programs that run the command in their arguments.
const SHELLS: [&str; 8] = ["sh", "bash", "dash", "zsh", "ksh", "eval", "su", "script"];

/// Units of `systemctl` that turn the machine off, or nearly so.
const OFF_UNITS: [&str; 6] = ["poweroff", "reboot", "halt", "kexec", "emergency", "rescue"];

/// What a command does that cannot be undone.
enum Harm<'a> {
    RemovesAll(&'a str),
    RemovesRoot,
    ChangesAccess(&'a str),
    Overwrites(&'a str),
    ChangesDisks(&'a str),
    FormatsDisk,
    TurnsOff,
    EndsProcesses,
    StartsItself,
}

impl fmt::Display for Harm<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RemovesAll(folder) => {
                write!(
                    f,
                    "it removes {} with all that is in it",
                    escaped_line(folder)
                )
            }
            Self::RemovesRoot => f.write_str("it removes the root folder"),
            Self::ChangesAccess(folder) => {
                write!(
                    f,
                    "it changes the access to all of {}",
                    escaped_line(folder)
                )
            }
            Self::Overwrites(device) => {
                write!(f, "it overwrites the device {}", escaped_line(device))
            }
            Self::ChangesDisks(program) => write!(f, "{program} changes whole disks"),
            Self::FormatsDisk => f.write_str("it formats a disk"),
            Self::TurnsOff => f.write_str("it turns the machine off"),
            Self::EndsProcesses => f.write_str("it ends every process of this user"),
            Self::StartsItself => f.write_str("it starts itself without end"),
        }
    }
}

/// The commands that Bash never runs. Clones share the rules.
#[derive(Debug, Clone, Default)]
pub struct Denylist {
    rules: Arc<RwLock<Vec<Glob>>>,
    /// The home folder, as vital as `~`.
    home: Option<String>,
}

impl Denylist {
    /// With rules of a person, as globs on a command: `git push*`. An invalid one is an error.
    pub fn new<'a>(rules: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let list = Self::default();
        list.replace_rules(rules)?;
        Ok(list)
    }

    /// Replaces the rules, also those of tools that were built with this list. If one is invalid, the
    /// rules stay as they are.
    pub fn replace_rules<'a>(
        &self,
        rules: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), String> {
        let rules = rules.into_iter().map(Glob::new).collect::<Result<_, _>>()?;
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = rules;
        Ok(())
    }

    pub(in crate::builtin_tools) fn home(mut self, home: Option<String>) -> Self {
        self.home = home.map(|home| normalised(&home));
        self
    }

    /// Why a command is never run.
    pub(super) fn reason(&self, script: &str) -> Option<String> {
        let fact = self.find(script, 0)?;
        Some(format!("Bash never runs this: {fact}"))
    }

    fn find(&self, script: &str, depth: usize) -> Option<String> {
        if is_fork_bomb(script) {
            return Some(Harm::StartsItself.to_string());
        }
        let parsed = ShellScript::parse(script);
        let fact = self.find_in_script(script, &parsed.commands, depth);
        if fact.is_some() || !parsed.may_be_misread {
            return fact;
        }
        // Alone, no line is hidden by a quote in an earlier one.
        let joined = script.replace("\\\n", "");
        joined.lines().find_map(|line| {
            let commands = ShellScript::parse(line).commands;
            self.find_in_script(line, &commands, depth)
        })
    }

    fn find_in_script(
        &self,
        script: &str,
        commands: &[SimpleCommand],
        depth: usize,
    ) -> Option<String> {
        if let Some(fact) = self.find_rule(script.trim()) {
            return Some(fact);
        }
        let readings = commands.iter().flat_map(SimpleCommand::readings);
        let mut facts = readings.filter_map(|words| self.find_in_command(words, depth));
        facts
            .next()
            .or_else(|| commands.iter().find_map(overwritten_disk))
    }

    fn find_in_command(&self, words: &[String], depth: usize) -> Option<String> {
        let (program, arguments) = words.split_first()?;
        let program = program.rsplit('/').next().unwrap_or(program);
        let by_name = || {
            let words = std::iter::once(program).chain(arguments.iter().map(String::as_str));
            self.find_rule(&words.collect::<Vec<_>>().join(" "))
        };
        let fact = self.find_rule(&words.join(" ")).or_else(by_name);
        let harm = || self.find_harm(program, arguments);
        let fact = fact.or_else(|| harm().map(|harm| harm.to_string()));
        if fact.is_some() || depth >= MAX_DEPTH {
            return fact;
        }
        if !SHELLS.contains(&program) {
            // The value of an option of a wrapper: `flock FILE -c SCRIPT`, `env -S SCRIPT`.
            let script = words[0].contains(char::is_whitespace).then(|| &words[0]);
            return script.and_then(|script| self.find(script, depth + 1));
        }
        let joined = (program == "eval").then(|| arguments.join(" "));
        let mut scripts = arguments
            .iter()
            .map(String::as_str)
            .chain(joined.as_deref());
        scripts.find_map(|script| self.find(script, depth + 1))
    }

    fn find_rule(&self, command: &str) -> Option<String> {
        let rules = self.rules.read().unwrap_or_else(PoisonError::into_inner);
        let rule = rules.iter().find(|rule| rule.matches(command))?;
        let rule = format!("bash:{}", rule.as_str());
        Some(format!("the deny rule {} matches it", quoted(&rule)))
    }

    /// The harm of a program with these arguments.
    fn find_harm<'a>(&self, program: &'a str, arguments: &'a [String]) -> Option<Harm<'a>> {
        let has_word = |words: &[&str]| arguments.iter().any(|word| words.contains(&&**word));
        let has_flag = |letters: &[char], long: &str| {
            arguments
                .iter()
                .any(|word| word == long || is_short_option(word) && word.contains(letters))
        };
        let vital = || arguments.iter().find(|word| self.is_vital(word));
        let is_device = |word: &&str| word.starts_with("/dev/") && !is_harmless_device(word);
        match program {
            "rm" if has_flag(&['r', 'R'], "--recursive") => Some(Harm::RemovesAll(vital()?)),
            "rm" if has_word(&["--no-preserve-root"]) => Some(Harm::RemovesRoot),
            "find" if has_word(&["-delete"]) => Some(Harm::RemovesAll(vital()?)),
            "chmod" | "chown" | "chgrp" if has_flag(&['R'], "--recursive") => {
                Some(Harm::ChangesAccess(vital()?))
            }
            "dd" => {
                let target = arguments.iter().find_map(|word| word.strip_prefix("of="))?;
                Some(Harm::Overwrites(target)).filter(|_| is_device(&target))
            }
            "shred" => {
                let mut targets = arguments.iter().map(String::as_str);
                targets.find(is_device).map(Harm::Overwrites)
            }
            "wipefs" | "blkdiscard" | "sfdisk" | "sgdisk" | "fdisk" | "parted" => {
                Some(Harm::ChangesDisks(program))
            }
            _ if program == "mkfs" || program.starts_with("mkfs.") => Some(Harm::FormatsDisk),
            "shutdown" | "reboot" | "halt" | "poweroff" => Some(Harm::TurnsOff),
            "init" | "telinit" if has_word(&["0", "6"]) => Some(Harm::TurnsOff),
            "systemctl" if has_word(&OFF_UNITS) => Some(Harm::TurnsOff),
            "kill" if arguments.last().is_some_and(|word| word == "-1") && arguments.len() > 1 => {
                Some(Harm::EndsProcesses)
            }
            _ => None,
        }
    }

    /// Whether a word names a vital folder, or all that is in one.
    fn is_vital(&self, word: &str) -> bool {
        let path = normalised(word);
        VITAL_FOLDERS.contains(&&*path) || self.home.as_ref() == Some(&path)
    }
}

fn is_short_option(word: &str) -> bool {
    word.starts_with('-') && !word.starts_with("--")
}

/// A path without `.`, `..`, doubled slashes, and `/*` at its end.
fn normalised(path: &str) -> String {
    let is_absolute = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if is_absolute => _ = parts.pop(),
            part => parts.push(part),
        }
    }
    while parts
        .last()
        .is_some_and(|part| matches!(*part, "*" | ".*" | "{*,.*}"))
    {
        parts.pop();
    }
    let joined = parts.join("/");
    if is_absolute {
        format!("/{joined}")
    } else {
        joined
    }
}

fn is_harmless_device(path: &str) -> bool {
    let names = ["null", "zero", "full", "stdout", "stderr", "stdin", "tty"];
    let name = path.trim_start_matches("/dev/");
    names.contains(&name) || name.starts_with("fd/") || name.starts_with("shm/")
}

/// A redirection of output to a disk.
fn overwritten_disk(command: &SimpleCommand) -> Option<String> {
    let is_disk = |word: &&String| {
        let name = word.strip_prefix("/dev/");
        name.is_some_and(|name| DISKS.iter().any(|disk| name.starts_with(disk)))
    };
    let disk = command.written_files.iter().find(is_disk)?;
    Some(Harm::Overwrites(disk).to_string())
}

/// `x(){ x|x& };x`, with any name and any spaces.
fn is_fork_bomb(script: &str) -> bool {
    let dense: String = script
        .chars()
        .filter(|character| !character.is_whitespace())
        .collect();
    dense.match_indices("(){").any(|(at, _)| {
        let name_start = dense[..at]
            .rfind([';', '&', '|', '{', '}', '(', ')'])
            .map_or(0, |at| at + 1);
        let name = &dense[name_start..at];
        let name = name.strip_prefix("function").unwrap_or(name);
        !name.is_empty() && dense[at..].contains(&format!("{name}|{name}&"))
    })
}

#[cfg(test)]
mod tests;
