//! The terminal device: `/dev/tty`, also if stdin is a pipe. A thread reads it, so that a question
//! can be dropped at any time.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::termios::{FlushArg, SetArg, Termios, cfmakeraw, tcflush, tcgetattr, tcsetattr};
use tokio::sync::mpsc;

use super::frame::{Key, ScreenLine, Size, fold_to_width};
use super::keys::Decoder;
use super::typing::{self, EarlierTyping, PausedTyping};
use crate::failure::Failure;
use crate::interrupt;
use crate::output::isolate_right_to_left;
use crate::setup::block_on;

/// The terminal and its settings before a dialog changed them.
static SAVED_TERMINAL: Mutex<Option<(Arc<File>, Termios)>> = Mutex::new(None);

const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// Restores the terminal, if a dialog or a line editor changed it.
pub(crate) fn restore() {
    super::typing::restore();
    let _ = crossterm::terminal::disable_raw_mode();
    restore_after_dialog();
}

fn restore_after_dialog() {
    let before = SAVED_TERMINAL
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    if let Some((device, termios)) = before {
        if moves_the_cursor() {
            let _ = (&*device).write_all(LEAVE.as_bytes());
        }
        let _ = tcsetattr(&device, SetArg::TCSAFLUSH, &termios);
    }
}

/// The terminal of this process, if it has one.
pub(super) fn open_device() -> Option<Arc<File>> {
    let mut options = File::options();
    let device = options.read(true).write(true).open("/dev/tty").ok()?;
    device.is_terminal().then(|| Arc::new(device))
}

/// Whether the terminal can move its cursor and erase text: `TERM=dumb` says that it cannot.
pub(crate) fn moves_the_cursor() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// A terminal with a person at it.
#[derive(Debug)]
pub(crate) struct Tty {
    device: Arc<File>,
    /// While this exists, keys answer the question instead of the line that is typed ahead.
    typing: PausedTyping,
}

impl Tty {
    /// Opens it; `None` if there is none, or if stderr is not a terminal.
    pub(crate) fn open() -> Option<Self> {
        if !io::stderr().is_terminal() {
            return None;
        }
        Some(Self {
            device: open_device()?,
            typing: typing::pause(),
        })
    }

    /// Writes escaped text.
    pub(crate) fn write(&self, text: &str) {
        // Failures are ignored: the terminal was closed.
        let _ = (&*self.device).write_all(isolate_right_to_left(text).as_bytes());
    }

    /// Writes escaped lines, wrapped at the width of the screen.
    pub(crate) fn write_lines(&self, text: &str) {
        self.write(&fold_to_width(text, Screen::size().columns));
    }

    /// Writes escaped lines, one screen at a time.
    pub(crate) async fn pages(&self, text: &str) {
        let size = Screen::size();
        let text = fold_to_width(text, size.columns);
        let lines: Vec<&str> = text.lines().collect();
        // Leaves room for the question.
        let page = size.rows - 2;
        let mut shown = 0;
        while shown < lines.len() {
            let until = (shown + page).min(lines.len());
            self.write(
                &lines[shown..until]
                    .iter()
                    .flat_map(|line| [*line, "\n"])
                    .collect::<String>(),
            );
            shown = until;
            if shown == lines.len() {
                return;
            }
            let question = format!(
                "({shown} of {} lines; Enter shows more, e skips to the end) ",
                lines.len()
            );
            match self.line(&question).await {
                None => return,
                Some(answer)
                    if answer.trim().eq_ignore_ascii_case("e") && lines.len() - shown > page =>
                {
                    self.write(&format!(
                        "({} lines were not shown)\n",
                        lines.len() - page + 1 - shown
                    ));
                    shown = lines.len() - page + 1;
                }
                Some(_) => {}
            }
        }
    }

    /// Asks a question with `[y/N]`: Enter is no. `None` at the end of input.
    pub(crate) async fn confirm(&self, question: &str) -> Option<bool> {
        let line = self.line(&format!("{question} [y/N] ")).await?;
        Some(matches!(line.trim().to_lowercase().as_str(), "y" | "yes"))
    }

    /// The same for a command that has no runtime yet; a signal is an error.
    pub(crate) fn confirm_blocking(&self, question: &str) -> Result<Option<bool>, Failure> {
        block_on(interrupt::run_until_signal(async {
            Ok(self.confirm(question).await)
        }))
    }

    /// Asks for one line. `None` at the end of input.
    pub(crate) async fn line(&self, question: &str) -> Option<String> {
        // Discards what was typed before the question.
        let _ = tcflush(&self.device, FlushArg::TCIFLUSH);
        self.write(fold_to_width(question, Screen::size().columns).trim_end_matches('\n'));
        let mut input = Input::start(self.device.clone()).ok()?;
        let mut line = Vec::new();
        while !line.ends_with(b"\n") {
            line.extend(
                input
                    .chunks
                    .recv()
                    .await
                    .filter(|chunk| !chunk.is_empty())?,
            );
        }
        String::from_utf8(line).ok()
    }
}

/// The terminal during a dialog: raw, on its alternate screen if it can move its cursor. Dropping it
/// restores the terminal.
pub(super) struct Screen {
    device: Arc<File>,
    input: Input,
    decoder: Decoder,
    typing: EarlierTyping,
    /// What was drawn last, on a terminal that cannot move its cursor.
    drawn: Vec<String>,
    /// Dropped last, after the terminal was restored.
    _paused: PausedTyping,
}

impl Screen {
    /// Switches the terminal to raw mode and the alternate screen.
    pub(super) fn enter(terminal: Tty) -> io::Result<Self> {
        let Tty { device, typing } = terminal;
        let before = tcgetattr(&device)?;
        let mut raw = before.clone();
        cfmakeraw(&mut raw);
        let input = Input::start(device.clone())?;
        *SAVED_TERMINAL
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some((device.clone(), before));
        let screen = Self {
            device,
            input,
            decoder: Decoder::default(),
            typing: EarlierTyping::new(typing.was_typing, Instant::now()),
            drawn: Vec::new(),
            _paused: typing,
        };
        // Discards what was typed before the dialog.
        tcsetattr(&screen.device, SetArg::TCSAFLUSH, &raw)?;
        if moves_the_cursor() {
            (&*screen.device).write_all(ENTER.as_bytes())?;
        }
        Ok(screen)
    }

    /// The current size.
    pub(super) fn size() -> Size {
        let (columns, rows) = crossterm::terminal::size().unwrap_or((80, 24));
        Size {
            columns: usize::from(columns).max(20),
            rows: usize::from(rows).max(6),
        }
    }

    /// Redraws the screen; on a terminal that cannot, writes the lines that are new.
    pub(super) fn draw(&mut self, lines: &[ScreenLine]) {
        if !moves_the_cursor() {
            let lines: Vec<_> = lines
                .iter()
                .map(|line| isolate_right_to_left(line.text.trim_end()).into_owned())
                .collect();
            let new = lines.iter().filter(|line| !self.drawn.contains(line));
            let text: String = new.flat_map(|line| [line, "\r\n"]).collect();
            let _ = (&*self.device).write_all(text.as_bytes());
            self.drawn = lines;
            return;
        }
        let colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let mut text = String::from("\x1b[H");
        for (index, line) in lines.iter().enumerate() {
            if index > 0 {
                text.push_str("\r\n");
            }
            // Bold and inverse are kept without colours: inverse marks the current field of a form.
            let style = if colours {
                line.style
            } else {
                line.style.fg_color(None).bg_color(None)
            };
            text.push_str(&format!(
                "{style}{}{style:#}\x1b[K",
                isolate_right_to_left(&line.text)
            ));
        }
        text.push_str("\x1b[J");
        let _ = (&*self.device).write_all(text.as_bytes());
    }

    /// The next key; `None` if the terminal was closed. Cancel-safe.
    pub(super) async fn key(&mut self) -> Option<Key> {
        loop {
            if let Some(key) = self.decoder.next() {
                return Some(key);
            }
            let chunk = self
                .input
                .chunks
                .recv()
                .await
                .filter(|chunk| !chunk.is_empty())?;
            if self.typing.is_over(&chunk, Instant::now()) {
                self.decoder.feed(&chunk);
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore_after_dialog();
    }
}

/// A thread that reads the terminal until this is dropped.
struct Input {
    /// What was typed; an empty chunk is the end of input. Dropped first, so that the thread does
    /// not wait for room in it.
    chunks: mpsc::Receiver<Vec<u8>>,
    _reader: TtyReader,
}

impl Input {
    fn start(device: Arc<File>) -> io::Result<Self> {
        let (sender, chunks) = mpsc::channel(16);
        let deliver = move |chunk: &[u8]| sender.blocking_send(chunk.to_vec()).is_ok();
        let reader = TtyReader::start(device, deliver)?;
        Ok(Self {
            chunks,
            _reader: reader,
        })
    }
}

/// The thread itself. Dropping this ends it and waits for it, so that no two read the terminal.
#[derive(Debug)]
pub(super) struct TtyReader {
    /// Closing it ends the thread.
    stop: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl TtyReader {
    /// Gives what is typed to `deliver` until that returns false or the input ends, which is an
    /// empty chunk. `deliver` must return once this is about to be dropped.
    pub(super) fn start(
        device: Arc<File>,
        deliver: impl FnMut(&[u8]) -> bool + Send + 'static,
    ) -> io::Result<Self> {
        let (stopped, stop) = nix::unistd::pipe()?;
        let thread = std::thread::Builder::new()
            .name("terminal".into())
            .spawn(move || read(&device, &stopped, deliver))?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for TtyReader {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn read(device: &File, stopped: &OwnedFd, mut deliver: impl FnMut(&[u8]) -> bool) {
    let mut buffer = [0; 1024];
    loop {
        let mut watched = [
            PollFd::new(device.as_fd(), PollFlags::POLLIN),
            PollFd::new(stopped.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut watched, PollTimeout::NONE) {
            Err(nix::errno::Errno::EINTR) => continue,
            Err(_) => return,
            Ok(_) => {}
        }
        if watched[1].any() != Some(false) {
            return;
        }
        let length = (&*device).read(&mut buffer).unwrap_or(0);
        if !deliver(&buffer[..length]) || length == 0 {
            return;
        }
    }
}
