//! One line from the terminal that is not shown while it is typed.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::sync::Arc;

use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};

use super::tty::open_device;

/// Asks for the line. `None` without a terminal, or at the end of input.
pub(crate) async fn ask(question: &str) -> Option<String> {
    let device = open_device()?;
    let hidden = HiddenInput::start(device.clone())?;
    (&*device).write_all(question.as_bytes()).ok()?;
    let read = tokio::task::spawn_blocking(move || {
        let mut line = String::new();
        let count = BufReader::new(&*device).read_line(&mut line).ok()?;
        (count > 0).then_some(line)
    });
    let line = read.await.ok().flatten();
    drop(hidden);
    line
}

/// The terminal without echo. Dropping it, also when a signal ends the question, restores it.
struct HiddenInput {
    device: Arc<File>,
    before: Termios,
}

impl HiddenInput {
    fn start(device: Arc<File>) -> Option<Self> {
        let before = tcgetattr(&device).ok()?;
        let mut hidden = before.clone();
        hidden.local_flags.remove(LocalFlags::ECHO);
        hidden.local_flags.insert(LocalFlags::ECHONL);
        tcsetattr(&device, SetArg::TCSAFLUSH, &hidden).ok()?;
        Some(Self { device, before })
    }
}

impl Drop for HiddenInput {
    fn drop(&mut self) {
        let _ = tcsetattr(&self.device, SetArg::TCSAFLUSH, &self.before);
    }
}
