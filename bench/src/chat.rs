//! `bench chat`: the time from the start of `switchboard chat` to its prompt, with ten lazy servers,
//! and its memory while it is idle. The program runs in a pty.
//!
//! The program is `SWITCHBOARD_PROGRAM`, or `switchboard` in the folder of this program.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{Winsize, openpty};

use crate::measure::Fault;
use crate::options::Options;
use crate::report::{Row, Unit};

const SERVERS: usize = 10;

/// How long the prompt may take.
const PROMPT_TIMEOUT: Duration = Duration::from_secs(30);

/// Without output for this long, the conversation is idle.
const IDLE: Duration = Duration::from_millis(500);

/// All rows of the table.
pub(crate) fn run(options: &Options) -> Result<Vec<Row>, Fault> {
    let program = match std::env::var_os("SWITCHBOARD_PROGRAM") {
        Some(program) => PathBuf::from(program),
        None => std::env::current_exe()?.with_file_name("switchboard"),
    };
    let home = std::env::temp_dir().join(format!("bench-chat-{}", std::process::id()));
    std::fs::create_dir_all(&home)?;
    let measured = measure(options, &program, &home);
    std::fs::remove_dir_all(&home)?;
    let (times, memory) = measured?;
    Ok(vec![
        Row::new("chat: start to prompt, ten lazy servers", Unit::Seconds)
            .cell("us", times)
            .below("us", 0.1),
        Row::new("chat: resident memory while idle", Unit::Bytes)
            .cell("us", memory)
            .below("us", 25.0 * 1024.0 * 1024.0),
    ])
}

fn measure(options: &Options, program: &Path, home: &Path) -> Result<(Vec<f64>, Vec<f64>), Fault> {
    let config = home.join("switchboard.toml");
    std::fs::write(&config, servers()?)?;
    let (mut times, mut memory) = (Vec::new(), Vec::new());
    for round in 0..=options.rounds {
        let mut chat = Chat::start(program, &config, home)?;
        let seconds = chat.wait_for_prompt()?;
        chat.read_until_idle()?;
        let bytes = resident_bytes(chat.child.id())?;
        chat.end()?;
        times.extend((round > 0).then_some(seconds));
        memory.extend((round > 0).then_some(bytes));
    }
    Ok((times, memory))
}

/// Ten servers of this program that are started on first use.
fn servers() -> Result<String, Fault> {
    let program = std::env::current_exe()?;
    let mut text = String::new();
    for number in 0..SERVERS {
        writeln!(text, "[servers.s{number}]\ncommand = {program:?}")?;
        writeln!(
            text,
            "args = [{:?}]\nstart = \"lazy\"",
            crate::server::MARKER
        )?;
    }
    Ok(text)
}

/// A conversation in a pty.
struct Chat {
    child: Child,
    terminal: File,
    started: Instant,
    /// The output so far, without escape sequences.
    screen: Screen,
}

impl Chat {
    fn start(program: &Path, config: &Path, home: &Path) -> Result<Self, Fault> {
        let size = Winsize {
            ws_row: 40,
            ws_col: 100,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let pty = openpty(&size, None)?;
        let end = || pty.slave.try_clone().map(Stdio::from);
        // `setsid` makes the pty the terminal that the program asks on.
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(program).arg("-c").arg(config);
        command.arg("chat").current_dir(home);
        command.env_clear().env("HOME", home).env("TERM", "xterm");
        command.stdin(end()?).stdout(end()?).stderr(end()?);
        let started = Instant::now();
        let child = command
            .spawn()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        Ok(Self {
            child,
            terminal: File::from(pty.master),
            started,
            screen: Screen::default(),
        })
    }

    /// The seconds from the start to the prompt.
    fn wait_for_prompt(&mut self) -> Result<f64, Fault> {
        while !self.screen.has_prompt() {
            if !self.read(PROMPT_TIMEOUT)? {
                return Err(
                    format!("no prompt within {PROMPT_TIMEOUT:?}: {}", self.screen.text).into(),
                );
            }
        }
        Ok(self.started.elapsed().as_secs_f64())
    }

    fn read_until_idle(&mut self) -> Result<(), Fault> {
        while self.read(IDLE)? {}
        Ok(())
    }

    /// Reads the program's output; `false` if there is none within the limit.
    fn read(&mut self, limit: Duration) -> Result<bool, Fault> {
        let mut ready = [PollFd::new(self.terminal.as_fd(), PollFlags::POLLIN)];
        if poll(&mut ready, PollTimeout::try_from(limit)?)? == 0 {
            return Ok(false);
        }
        let mut bytes = [0; 4096];
        let count = self.terminal.read(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes[..count]);
        // The line editor queries the cursor position, and waits for the answer.
        if text.contains("\x1b[6n") {
            self.terminal.write_all(b"\x1b[5;1R")?;
        }
        self.screen.add(&text);
        Ok(true)
    }

    /// Ends it with Ctrl-D.
    fn end(mut self) -> Result<(), Fault> {
        self.terminal.write_all(b"\x04")?;
        let asked = Instant::now();
        while self.child.try_wait()?.is_none() {
            if asked.elapsed() > PROMPT_TIMEOUT {
                self.child.kill()?;
                self.child.wait()?;
                return Err("the conversation did not end".into());
            }
            // The rest of the output must not fill the pty. A read fails once the program has ended.
            let _ = self.read(Duration::from_millis(10));
        }
        Ok(())
    }
}

#[derive(Default)]
struct Screen {
    text: String,
    /// An escape sequence that is not complete yet.
    is_in_sequence: bool,
}

impl Screen {
    fn add(&mut self, text: &str) {
        for character in text.chars() {
            match (self.is_in_sequence, character) {
                (false, '\x1b') => self.is_in_sequence = true,
                // A sequence ends with a letter, after numbers and signs.
                (true, last) => {
                    self.is_in_sequence = !(last.is_ascii_alphabetic() || last == '\x07')
                }
                (false, other) => self.text.push(other),
            }
        }
    }

    fn has_prompt(&self) -> bool {
        self.text.contains("switchboard chat:") && self.text.trim_end().ends_with('>')
    }
}

/// The resident memory of a process.
fn resident_bytes(process: u32) -> Result<f64, Fault> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = line.and_then(|rest| rest.split_whitespace().next());
    let kibibytes: f64 = kibibytes.ok_or("no VmRSS")?.parse()?;
    Ok(kibibytes * 1024.0)
}
