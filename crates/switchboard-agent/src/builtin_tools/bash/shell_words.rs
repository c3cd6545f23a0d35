//! Splits a shell script into simple commands. The parsing is approximate: it is used to find denied
//! commands, never to allow one.

use std::iter::Peekable;
use std::str::Chars;

/// Shell keywords before a command.
const KEYWORDS: [&str; 10] = [
    "if", "then", "else", "elif", "do", "while", "until", "!", "{", "coproc",
];

/// Keywords before a name and a command: `function f { … }`, `coproc NAME { … }`.
const NAMING_KEYWORDS: [&str; 2] = ["function", "coproc"];

/// Programs that run the command in their arguments, after options of their own.
const WRAPPERS: [&str; 19] = [
    "sudo", "doas", "env", "command", "builtin", "exec", "nohup", "time", "nice", "ionice",
    "setsid", "stdbuf", "timeout", "xargs", "busybox", "chroot", "unshare", "watch", "flock",
];

/// Wrappers with a path of their own before the command.
const WRAPPERS_WITH_PATH: [&str; 2] = ["chroot", "flock"];

/// How many interpretations of one command are checked.
const MAX_READINGS: usize = 64;

/// One command of a script: its words without quotes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SimpleCommand {
    pub(super) words: Vec<String>,
    /// The files that its output is redirected to.
    pub(super) written_files: Vec<String>,
}

impl SimpleCommand {
    /// The words from the program's name on, without prefixes (`sudo -u root`, `A=1`, `then`). If an
    /// option may or may not have a value, there are several interpretations.
    pub(super) fn readings(&self) -> Vec<&[String]> {
        let mut readings = Vec::new();
        let mut rest = vec![&self.words[..]];
        while let Some(words) = rest.pop() {
            let Some((word, after)) = words.split_first() else {
                continue;
            };
            let name = word.rsplit('/').next().unwrap_or(word);
            if NAMING_KEYWORDS.contains(&name) && after.get(1).is_some_and(|word| word == "{") {
                rest.push(&after[1..]);
            }
            if KEYWORDS.contains(&name) || is_assignment(word) {
                rest.push(after);
            } else if WRAPPERS.contains(&name) {
                rest.extend(wrapped(after, WRAPPERS_WITH_PATH.contains(&name)));
            }
            readings.push(words);
            if readings.len() + rest.len() > MAX_READINGS {
                break;
            }
        }
        readings
    }
}

/// Where the command of a wrapper may start: at the first word that is not an option, or after it if
/// that word may be the value of an option, the wrapper's own path, or any value in a variable.
fn wrapped(words: &[String], mut has_path: bool) -> Vec<&[String]> {
    let mut starts = Vec::new();
    let mut after_option = false;
    for (at, word) in words.iter().enumerate() {
        let is_option = word.starts_with('-');
        let is_amount = || {
            let is_part = |letter: char| letter.is_ascii_digit() || "smhd.".contains(letter);
            word.starts_with(|first: char| first.is_ascii_digit()) && word.chars().all(is_part)
        };
        if !is_option && !is_assignment(word) && !is_amount() {
            starts.push(&words[at..]);
            let may_be_value = after_option || word.starts_with('$');
            if !may_be_value && !std::mem::take(&mut has_path) {
                break;
            }
        }
        after_option = is_option;
    }
    starts
}

fn is_assignment(word: &str) -> bool {
    let is_name = |name: &str| {
        let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        !name.is_empty() && name.chars().all(is_letter)
    };
    word.split_once('=').is_some_and(|(name, _)| is_name(name))
}

/// What a script runs.
#[derive(Debug)]
pub(super) struct ShellScript {
    /// Every simple command, those in `$(…)`, backquotes and parentheses too.
    pub(super) commands: Vec<SimpleCommand>,
    /// Whether a quote may have been found where the shell sees none: here-documents are read as
    /// commands, and the shell runs no script that ends inside a quote.
    pub(super) may_be_misread: bool,
}

impl ShellScript {
    pub(super) fn parse(script: &str) -> Self {
        let mut reader = ScriptReader::new(script);
        reader.read();
        Self {
            may_be_misread: reader.is_in_quote() || script.contains("<<"),
            commands: reader.commands,
        }
    }
}

#[derive(Debug)]
struct ScriptReader<'a> {
    letters: Peekable<Chars<'a>>,
    /// Whether double quotes are open; one more entry for each open `$(`.
    quoted: Vec<bool>,
    in_backquotes: bool,
    /// Whether a single quote has no end.
    has_open_quote: bool,
    commands: Vec<SimpleCommand>,
    command: SimpleCommand,
    word: Option<String>,
    /// Whether a part of the word is quoted or escaped.
    has_quoted_part: bool,
    /// The next word is the file of a redirection; whether that is written.
    redirection: Option<bool>,
}

impl<'a> ScriptReader<'a> {
    fn new(script: &'a str) -> Self {
        Self {
            letters: script.chars().peekable(),
            quoted: vec![false],
            in_backquotes: false,
            has_open_quote: false,
            commands: Vec::new(),
            command: SimpleCommand::default(),
            word: None,
            has_quoted_part: false,
            redirection: None,
        }
    }

    fn read(&mut self) {
        while let Some(letter) = self.letters.next() {
            let in_quotes = self.quoted.last() == Some(&true);
            match letter {
                '\\' => self.read_escaped(),
                '\'' if !in_quotes => self.read_single_quotes(false),
                '"' => {
                    self.begin_quoted_part();
                    if let Some(state) = self.quoted.last_mut() {
                        *state = !*state;
                    }
                }
                '$' if !in_quotes && self.letters.next_if_eq(&'\'').is_some() => {
                    self.read_single_quotes(true);
                }
                '$' if self.letters.next_if_eq(&'(').is_some() => {
                    self.end_command();
                    self.quoted.push(false);
                }
                ')' if !in_quotes => {
                    self.end_command();
                    if self.quoted.len() > 1 {
                        self.quoted.pop();
                    }
                }
                '`' => {
                    self.end_command();
                    self.in_backquotes = !self.in_backquotes;
                }
                '#' if !in_quotes && self.word.is_none() => self.skip_comment(),
                ';' | '&' | '|' | '\n' | '(' if !in_quotes => self.end_command(),
                '>' | '<' if !in_quotes => {
                    // `>&`, `<&` and `>|` are one operator each.
                    let is_part = |next: &char| *next == '&' || (letter, *next) == ('>', '|');
                    self.letters.next_if(is_part);
                    self.redirect(letter == '>');
                }
                _ if letter.is_whitespace() && !in_quotes => self.end_word(),
                _ => self.push(letter),
            }
        }
        self.end_command();
    }

    /// The rest of `'…'`, or of `$'…'`, which has escapes.
    fn read_single_quotes(&mut self, has_escapes: bool) {
        self.begin_quoted_part();
        while let Some(inner) = self.letters.next_if(|letter| *letter != '\'') {
            match inner {
                '\\' if has_escapes => self.read_escaped(),
                inner => self.push(inner),
            }
        }
        self.has_open_quote |= self.letters.next().is_none();
    }

    fn read_escaped(&mut self) {
        match self.letters.next() {
            Some('\n') | None => {}
            Some(escaped) => {
                self.begin_quoted_part();
                self.push(escaped);
            }
        }
    }

    /// A comment ends with its line, or with the backquotes that it is in.
    fn skip_comment(&mut self) {
        let in_backquotes = self.in_backquotes;
        let is_comment = |letter: &char| *letter != '\n' && !(in_backquotes && *letter == '`');
        while self.letters.next_if(is_comment).is_some() {}
    }

    fn is_in_quote(&self) -> bool {
        self.has_open_quote || self.quoted.contains(&true)
    }

    fn begin_quoted_part(&mut self) {
        self.word.get_or_insert_default();
        self.has_quoted_part = true;
    }

    fn push(&mut self, letter: char) {
        self.word.get_or_insert_default().push(letter);
    }

    fn end_word(&mut self) {
        self.has_quoted_part = false;
        let Some(word) = self.word.take() else { return };
        match self.redirection.take() {
            None => self.command.words.push(word),
            Some(true) => self.command.written_files.push(word),
            Some(false) => {}
        }
    }

    fn redirect(&mut self, is_written: bool) {
        // The number of a descriptor directly before the operator is no argument; a quoted one is.
        let is_number = |word: &String| word.bytes().all(|letter| letter.is_ascii_digit());
        let is_descriptor = !self.has_quoted_part && self.word.as_ref().is_some_and(is_number);
        if self.redirection.is_none() && is_descriptor {
            self.word = None;
        }
        self.end_word();
        self.redirection = Some(is_written);
    }

    fn end_command(&mut self) {
        self.end_word();
        self.redirection = None;
        let command = std::mem::take(&mut self.command);
        if command != SimpleCommand::default() {
            self.commands.push(command);
        }
    }
}
