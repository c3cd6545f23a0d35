//! What is typed while the program is busy: keys for the next input, without echo, until a question
//! needs the terminal.

use std::fs::File;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use tokio::sync::mpsc;

use super::frame::Key;
use super::keys::Decoder;
use super::tty::{TtyReader, open_device};

/// Keys that wait to be handled. More are dropped: nobody types that fast.
const MAX_WAITING_KEYS: usize = 4096;

/// The terminal while keys are read from it.
struct BusyTerminal {
    device: Arc<File>,
    /// Its settings before.
    before: Termios,
    keys: mpsc::Sender<Key>,
    /// `None` while a question has the terminal.
    reader: Option<TtyReader>,
}

static BUSY: Mutex<Option<BusyTerminal>> = Mutex::new(None);

/// Keys that are typed during work. Dropping it restores the terminal.
pub(crate) struct Typing {
    keys: mpsc::Receiver<Key>,
}

impl Typing {
    /// Reads the terminal from now on; `None` if there is none.
    pub(crate) fn start() -> Option<Self> {
        let device = open_device()?;
        let before = tcgetattr(&device).ok()?;
        let (sender, keys) = mpsc::channel(MAX_WAITING_KEYS);
        let mut terminal = BusyTerminal {
            device,
            before,
            keys: sender,
            reader: None,
        };
        terminal.resume();
        *busy() = Some(terminal);
        Some(Self { keys })
    }

    /// The next key; `None` at the end of input. Cancel-safe.
    pub(crate) async fn key(&mut self) -> Option<Key> {
        self.keys.recv().await
    }

    /// Ends the reading; returns the keys that were typed and not taken.
    pub(crate) fn finish(mut self) -> Vec<Key> {
        restore();
        std::iter::from_fn(|| self.keys.try_recv().ok()).collect()
    }
}

impl Drop for Typing {
    fn drop(&mut self) {
        restore();
    }
}

/// Ends the reading and restores the terminal.
pub(super) fn restore() {
    if let Some(mut terminal) = busy().take() {
        terminal.pause();
    }
}

/// Gives the terminal to a question until the guard is dropped.
pub(super) fn pause() -> PausedTyping {
    if let Some(terminal) = busy().as_mut() {
        terminal.pause();
    }
    PausedTyping
}

/// See [`pause`].
#[derive(Debug)]
pub(super) struct PausedTyping;

impl Drop for PausedTyping {
    fn drop(&mut self) {
        if let Some(terminal) = busy().as_mut() {
            terminal.resume();
        }
    }
}

impl BusyTerminal {
    fn pause(&mut self) {
        self.reader = None;
        let _ = tcsetattr(&self.device, SetArg::TCSADRAIN, &self.before);
    }

    fn resume(&mut self) {
        let mut quiet = self.before.clone();
        // Signals and the output's line ends stay as they are.
        quiet
            .local_flags
            .remove(LocalFlags::ICANON | LocalFlags::ECHO);
        let _ = tcsetattr(&self.device, SetArg::TCSADRAIN, &quiet);
        let (keys, mut decoder) = (self.keys.clone(), Decoder::default());
        let deliver = move |chunk: &[u8]| {
            decoder.feed(chunk);
            for key in std::iter::from_fn(|| decoder.next()) {
                let _ = keys.try_send(key);
            }
            !keys.is_closed()
        };
        self.reader = TtyReader::start(self.device.clone(), deliver).ok();
    }
}

fn busy() -> MutexGuard<'static, Option<BusyTerminal>> {
    BUSY.lock().unwrap_or_else(PoisonError::into_inner)
}
