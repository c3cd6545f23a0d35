//! Splits a shell script into simple commands. The parsing is approximate: it is used to find denied
//! commands, never to allow one.

/// Shell keywords before a command.
const KEYWORDS: [&str; 9] = [
    "if", "then", "else", "elif", "do", "while", "until", "!", "{",
];

/// Programs that run the command in their arguments, after options of their own.
const WRAPPERS: [&str; 19] = [
    "sudo", "doas", "env", "command", "builtin", "exec", "nohup", "time", "nice", "ionice",
    "setsid", "stdbuf", "timeout", "xargs", "busybox", "chroot", "unshare", "watch", "flock",
];

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
            if KEYWORDS.contains(&name) || is_assignment(word) {
                rest.push(after);
            } else if WRAPPERS.contains(&name) {
                rest.extend(wrapped(after));
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
/// that word may be the value of an option.
fn wrapped(words: &[String]) -> Vec<&[String]> {
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
            if !after_option {
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

/// Every simple command of a script, those in `$(…)`, backquotes and parentheses too.
pub(super) fn simple_commands(script: &str) -> Vec<SimpleCommand> {
    let mut reader = ScriptReader::default();
    let mut letters = script.chars().peekable();
    // Inside double quotes, and outside again in a `$(` of them.
    let mut quoted: Vec<bool> = vec![false];
    while let Some(letter) = letters.next() {
        let in_quotes = quoted.last() == Some(&true);
        match letter {
            '\\' => match letters.next() {
                Some('\n') | None => {}
                Some(escaped) => reader.push(escaped),
            },
            '\'' if !in_quotes => {
                reader.begin_word();
                while let Some(inner) = letters.next_if(|letter| *letter != '\'') {
                    reader.push(inner);
                }
                letters.next();
            }
            '"' => {
                reader.begin_word();
                if let Some(state) = quoted.last_mut() {
                    *state = !*state;
                }
            }
            '$' if letters.next_if_eq(&'(').is_some() => {
                reader.end_command();
                quoted.push(false);
            }
            ')' if !in_quotes => {
                reader.end_command();
                if quoted.len() > 1 {
                    quoted.pop();
                }
            }
            '`' => reader.end_command(),
            ';' | '&' | '|' | '\n' | '(' if !in_quotes => reader.end_command(),
            '>' | '<' if !in_quotes => reader.redirect(letter == '>'),
            _ if letter.is_whitespace() && !in_quotes => reader.end_word(),
            _ => reader.push(letter),
        }
    }
    reader.end_command();
    reader.commands
}

#[derive(Debug, Default)]
struct ScriptReader {
    commands: Vec<SimpleCommand>,
    command: SimpleCommand,
    word: Option<String>,
    /// The next word is the file of a redirection; whether that is written.
    redirection: Option<bool>,
}

impl ScriptReader {
    fn begin_word(&mut self) {
        self.word.get_or_insert_default();
    }

    fn push(&mut self, letter: char) {
        self.word.get_or_insert_default().push(letter);
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        match self.redirection.take() {
            None => self.command.words.push(word),
            Some(true) => self.command.written_files.push(word),
            Some(false) => {}
        }
    }

    fn redirect(&mut self, is_written: bool) {
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
