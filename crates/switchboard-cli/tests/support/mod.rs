//! Shared by the tests of the whole program: a home folder of its own, and a pseudo-terminal.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use switchboard_testkit::{KilledOnDrop, program};
use tempfile::TempDir;

/// The program under test: the one built beside the test, or another that was named when the test
/// was built.
pub const PROGRAM: &str = match option_env!("SWITCHBOARD_PROGRAM") {
    Some(other) => other,
    None => env!("CARGO_BIN_EXE_switchboard"),
};
/// Long enough for a busy machine; a test that passes never waits for it.
const SCREEN_TIMEOUT: Duration = Duration::from_secs(30);

/// The demo server on HTTP; ends with the test.
pub struct DemoServer {
    child: KilledOnDrop,
    /// `http://127.0.0.1:PORT`.
    pub address: String,
}

impl DemoServer {
    pub fn start() -> Self {
        let mut command = Command::new(program("switchboard-demo"));
        command
            .args(["--http", "127.0.0.1:0"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = KilledOnDrop(command.spawn().unwrap());
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert!(!line.is_empty(), "the demo server prints its address");
        let address = format!("http://{}", line.trim_end());
        Self { child, address }
    }
}

/// A person's folders, empty but for what a test writes.
pub struct Home {
    pub folder: TempDir,
}

impl Home {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["project", "config/switchboard", "state"] {
            std::fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        let home = Self { folder };
        home.accept_folder("project");
        home
    }

    /// As `switchboard trust --folder` leaves it, in place of other folders: the person's own
    /// servers run in this one.
    pub fn accept_folder(&self, name: &str) {
        let state = self.path("state/switchboard");
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&state)
            .unwrap();
        let accepted = serde_json::json!({ self.path(name).canonicalize().unwrap().to_str().unwrap(): "accepted" });
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(state.join("folders.json"))
            .unwrap();
        file.write_all(accepted.to_string().as_bytes()).unwrap();
    }

    /// With the demo server as `demo` in the user's own file, and more TOML after it.
    pub fn with_demo(more: &str) -> Self {
        let home = Self::new();
        home.user_file(&format!(
            "[servers.demo]\ncommand = {PROGRAM:?}\nargs = [\"__demo-server\"]\n{more}"
        ));
        home
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn user_file(&self, text: &str) {
        std::fs::write(self.path("config/switchboard/switchboard.toml"), text).unwrap();
    }

    pub fn project_file(&self, text: &str) {
        std::fs::write(self.path("project/switchboard.toml"), text).unwrap();
    }

    fn variables(&self) -> Vec<(String, String)> {
        let path = |name: &str| self.path(name).display().to_string();
        vec![
            ("HOME".into(), path("")),
            ("XDG_CONFIG_HOME".into(), path("config")),
            ("XDG_STATE_HOME".into(), path("state")),
            ("PATH".into(), std::env::var("PATH").unwrap_or_default()),
            ("TERM".into(), "xterm".into()),
            // Never the keyring of whoever runs the tests.
            ("SWITCHBOARD_VAULT".into(), "file".into()),
        ]
    }

    /// A browser that records its arguments: the variable to set, and the file that appears when it
    /// is started, with the number of arguments and then each on a line.
    pub fn recording_browser(&self) -> (String, PathBuf) {
        let (seen, recorder) = (self.path("seen"), self.path("recorder"));
        let script = format!(
            "#!/bin/sh\n{{ echo $#; for word in \"$@\"; do echo \"$word\"; done; }} > {0}.new\nmv {0}.new {0}\n",
            seen.display()
        );
        std::fs::write(&recorder, script).unwrap();
        std::fs::set_permissions(&recorder, Permissions::from_mode(0o755)).unwrap();
        (format!("BROWSER={} %s", recorder.display()), seen)
    }

    /// The program, not yet started, in the project's folder and a session without a terminal.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command
            .args(words)
            .env_clear()
            .envs(self.variables())
            .current_dir(self.path("project"));
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs to the end, without a terminal.
    pub fn run(&self, words: &[&str]) -> ProgramOutput {
        ProgramOutput::of(&self.command(words).output().unwrap())
    }

    /// Starts a command in a terminal of 80 columns and 24 rows.
    pub fn spawn_in_terminal(&self, words: &[&str]) -> Terminal {
        let mut command = CommandBuilder::new(words[0]);
        command.args(&words[1..]);
        command.env_clear();
        self.variables()
            .iter()
            .for_each(|(name, value)| command.env(name, value));
        command.cwd(self.path("project"));
        Terminal::start(command)
    }

    /// Starts the program in a terminal.
    pub fn run_in_terminal(&self, words: &[&str]) -> Terminal {
        let all: Vec<_> = [PROGRAM].iter().chain(words).copied().collect();
        self.spawn_in_terminal(&all)
    }
}

/// The outcome of a run without a terminal.
#[derive(Debug, PartialEq, Eq)]
pub struct ProgramOutput {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl ProgramOutput {
    pub fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Self {
            code: output.status.code(),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        }
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The one JSON line of a failure, with stdout empty.
    pub fn error(&self) -> serde_json::Value {
        assert_eq!(
            (self.stdout.as_str(), self.stderr.lines().count()),
            ("", 1),
            "{self:?}"
        );
        serde_json::from_str::<serde_json::Value>(&self.stderr).unwrap()["error"].clone()
    }
}

/// A terminal with the program in it.
pub struct Terminal {
    output: Arc<(Mutex<ScreenOutput>, Condvar)>,
    master: Box<dyn MasterPty + Send>,
    keyboard: Arc<Mutex<Box<dyn Write + Send>>>,
    child: Box<dyn Child + Send + Sync>,
}

struct ScreenOutput {
    screen: vt100::Parser,
    bytes: Vec<u8>,
    ended: bool,
}

impl Terminal {
    fn start(command: CommandBuilder) -> Self {
        let pair = native_pty_system()
            .openpty(PtySize {
                rows: 24,
                cols: 80,
                pixel_width: 0,
                pixel_height: 0,
            })
            .unwrap();
        let child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let output = ScreenOutput {
            screen: vt100::Parser::new(24.try_into().unwrap(), 80.try_into().unwrap(), 1000),
            bytes: Vec::new(),
            ended: false,
        };
        let output = Arc::new((Mutex::new(output), Condvar::new()));
        let mut reader = pair.master.try_clone_reader().unwrap();
        let keyboard = Arc::new(Mutex::new(pair.master.take_writer().unwrap()));
        let (shared, answers) = (output.clone(), keyboard.clone());
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            loop {
                let length = reader.read(&mut buffer).unwrap_or(0);
                let mut now = shared.0.lock().unwrap();
                process(&mut now, &buffer[..length], &answers);
                now.ended = length == 0;
                shared.1.notify_all();
                if length == 0 {
                    return;
                }
            }
        });
        Self {
            output,
            keyboard,
            master: pair.master,
            child,
        }
    }

    /// Waits until the screen shows this text, and returns the screen.
    pub fn wait_for(&self, text: &str) -> String {
        self.wait(text, |screen| screen.contains(text))
    }

    /// Presses Enter at each page until the last line of the screen is this question.
    pub fn page_through(&mut self, question: &str) -> String {
        let mut turned = String::new();
        loop {
            let last = |screen: &str| {
                screen
                    .trim_end()
                    .lines()
                    .last()
                    .unwrap_or_default()
                    .to_owned()
            };
            let is_page = |line: &str| line.ends_with("e skips to the end)") && line != turned;
            let screen = self.wait(question, |screen| {
                last(screen).contains(question) || is_page(&last(screen))
            });
            if !is_page(&last(&screen)) {
                return screen;
            }
            turned = last(&screen);
            self.send("\r");
        }
    }

    /// Waits until the screen satisfies `done`. `what` names that for the failure message.
    pub fn wait(&self, what: &str, done: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + SCREEN_TIMEOUT;
        let mut output = self.output.0.lock().unwrap();
        loop {
            let screen = output.screen.screen().contents();
            if done(&screen) {
                return screen;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(
                !output.ended && !left.is_zero(),
                "waited for {what:?}, found:\n{screen}"
            );
            output = self.output.1.wait_timeout(output, left).unwrap().0;
        }
    }

    /// Everything that was written to the terminal so far.
    pub fn bytes(&self) -> Vec<u8> {
        self.output.0.lock().unwrap().bytes.clone()
    }

    /// Types these keys.
    pub fn send(&mut self, keys: &str) {
        let mut keyboard = self.keyboard.lock().unwrap();
        keyboard.write_all(keys.as_bytes()).unwrap();
        keyboard.flush().unwrap();
    }

    pub fn resize(&self, rows: u16, cols: u16) {
        self.output
            .0
            .lock()
            .unwrap()
            .screen
            .screen_mut()
            .set_size(rows.try_into().unwrap(), cols.try_into().unwrap());
        self.master
            .resize(PtySize {
                rows,
                cols,
                pixel_width: 0,
                pixel_height: 0,
            })
            .unwrap();
    }

    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.process_id().unwrap()).unwrap()
    }

    /// Waits for the end: exit code, the last screen, and whether the terminal was restored.
    pub fn end(mut self) -> TerminalOutput {
        let code = self.child.wait().unwrap().exit_code();
        let deadline = Instant::now() + Duration::from_secs(5);
        let mut output = self.output.0.lock().unwrap();
        while !output.ended && Instant::now() < deadline {
            output = self
                .output
                .1
                .wait_timeout(output, Duration::from_millis(100))
                .unwrap()
                .0;
        }
        let screen = output.screen.screen();
        TerminalOutput {
            code,
            screen: screen.contents(),
            restored: !screen.alternate_screen() && !screen.hide_cursor(),
            bytes: output.bytes.clone(),
        }
    }
}

/// Interprets the bytes, and reports the cursor position when the program queries it, as a terminal
/// does.
fn process(output: &mut ScreenOutput, bytes: &[u8], answers: &Mutex<Box<dyn Write + Send>>) {
    const CURSOR_QUERY: &[u8] = b"\x1b[6n";
    for byte in bytes {
        output.screen.process(&[*byte]);
        output.bytes.push(*byte);
        if output.bytes.ends_with(CURSOR_QUERY) {
            let (row, column) = output.screen.screen().cursor_position();
            let answer = format!("\x1b[{};{}R", row + 1, column + 1);
            answers
                .lock()
                .unwrap()
                .write_all(answer.as_bytes())
                .unwrap();
        }
    }
}

/// The outcome of a run in a terminal.
#[derive(Debug)]
pub struct TerminalOutput {
    pub code: u32,
    pub screen: String,
    pub restored: bool,
    pub bytes: Vec<u8>,
}

/// The text without the escape sequences that the program itself sends: colours, the alternate
/// screen, the cursor, erasing.
pub fn without_our_sequences(text: &str) -> String {
    let mut rest = text;
    let mut kept = String::new();
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        kept.push_str(before);
        let end = after
            .find(|character: char| character.is_ascii_alphabetic())
            .unwrap();
        let ours = matches!(
            &after[..=end],
            "?1049h"
                | "?1049l"
                | "?25h"
                | "?25l"
                | "H"
                | "K"
                | "J"
                | "2K"
                | "1G"
                | "1A"
                | "1B"
                | "0J"
        ) || after[..=end].ends_with('m');
        if !ours {
            kept.push_str("\u{1b}[");
            kept.push_str(&after[..=end]);
        }
        rest = &after[end + 1..];
    }
    kept + rest
}
