//! Commands that are never run, in any mode: those that cannot be undone, and those that the person's
//! own rules name.
//!
//! This guards against accidents. It is not a sandbox: a program can do the same under another name.

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
            return Some("it starts itself without end".to_owned());
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
        let fact = self.find_rule(&words.join(" "));
        let fact = fact.or_else(|| self.find_destructive(program, arguments));
        if fact.is_some() || depth >= MAX_DEPTH || !SHELLS.contains(&program) {
            return fact;
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

    /// Why a program with these arguments is never run.
    fn find_destructive(&self, program: &str, arguments: &[String]) -> Option<String> {
        let has_flag = |letters: &[char], long: &str| {
            arguments
                .iter()
                .any(|word| word == long || is_short_option(word) && word.contains(letters))
        };
        let vital = || arguments.iter().find(|word| self.is_vital(word));
        let shown = |word: &str| escaped_line(word).to_string();
        let is_device = |word: &str| word.starts_with("/dev/") && !is_harmless_device(word);
        match program {
            "rm" if has_flag(&['r', 'R'], "--recursive") => {
                let folder = vital()?;
                Some(format!(
                    "it removes {} with all that is in it",
                    shown(folder)
                ))
            }
            "rm" if arguments.iter().any(|word| word == "--no-preserve-root") => {
                Some("it removes the root folder".to_owned())
            }
            "find" if arguments.iter().any(|word| word == "-delete") => {
                let folder = vital()?;
                Some(format!(
                    "it removes {} with all that is in it",
                    shown(folder)
                ))
            }
            "chmod" | "chown" | "chgrp" if has_flag(&['R'], "--recursive") => {
                let folder = vital()?;
                Some(format!("it changes the access to all of {}", shown(folder)))
            }
            "dd" => {
                let target = arguments.iter().find_map(|word| word.strip_prefix("of="))?;
                is_device(target).then(|| format!("it overwrites the device {}", shown(target)))
            }
            "shred" => {
                let target = arguments.iter().find(|word| is_device(word))?;
                Some(format!("it overwrites the device {}", shown(target)))
            }
            "wipefs" | "blkdiscard" | "sfdisk" | "sgdisk" | "fdisk" | "parted" => {
                Some(format!("{program} changes whole disks"))
            }
            _ if program == "mkfs" || program.starts_with("mkfs.") => {
                Some("it formats a disk".to_owned())
            }
            "shutdown" | "reboot" | "halt" | "poweroff" => {
                Some("it turns the machine off".to_owned())
            }
            "init" | "telinit" if arguments.iter().any(|word| word == "0" || word == "6") => {
                Some("it turns the machine off".to_owned())
            }
            "systemctl" => {
                let off = ["poweroff", "reboot", "halt", "kexec", "emergency", "rescue"];
                let is_off = arguments.iter().any(|word| off.contains(&&**word));
                is_off.then(|| "it turns the machine off".to_owned())
            }
            "kill" if arguments.last().is_some_and(|word| word == "-1") && arguments.len() > 1 => {
                Some("it ends every process of this user".to_owned())
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
    Some(format!("it overwrites the device {}", escaped_line(disk)))
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
