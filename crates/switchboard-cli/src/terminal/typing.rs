//! Keys that are typed while the program is busy: read without echo as the next input, until a
//! question needs the terminal.

use std::fs::File;
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use tokio::sync::mpsc;

use super::frame::Key;
use super::keys::Decoder;
use super::tty::{TtyReader, open_device};

/// Keys that wait to be handled: the characters of a pasted text. More are dropped.
const MAX_WAITING_KEYS: usize = 1 << 20;

/// Makes the terminal mark the beginning and the end of a pasted text.
const MARK_PASTES: &[u8] = b"\x1b[?2004h";
const DO_NOT_MARK_PASTES: &[u8] = b"\x1b[?2004l";

/// Within this time after a key, a person is still typing.
const STILL_TYPING: Duration = Duration::from_secs(1);

/// Without a key for this long, a person has stopped typing.
const TYPING_PAUSE: Duration = Duration::from_millis(600);

const CTRL_C: u8 = 3;

/// The terminal while keys are read from it.
struct BusyTerminal {
    device: Arc<File>,
    /// Its settings before.
    before: Termios,
    keys: mpsc::Sender<Key>,
    /// When the last key was pressed; set by the reader.
    last_key: Arc<Mutex<Option<Instant>>>,
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
            last_key: Arc::default(),
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
    let was_typing = busy().as_mut().is_some_and(|terminal| {
        terminal.pause();
        let last_key = *lock(&terminal.last_key);
        last_key.is_some_and(|last_key| last_key.elapsed() < STILL_TYPING)
    });
    PausedTyping { was_typing }
}

/// See [`pause`].
#[derive(Debug)]
pub(super) struct PausedTyping {
    /// A person was typing when the question came: the next keys are not meant for it.
    pub(super) was_typing: bool,
}

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
        let _ = (&*self.device).write_all(DO_NOT_MARK_PASTES);
        let _ = tcsetattr(&self.device, SetArg::TCSADRAIN, &self.before);
    }

    fn resume(&mut self) {
        let mut quiet = self.before.clone();
        // Signals and the output's line ends stay as they are.
        quiet
            .local_flags
            .remove(LocalFlags::ICANON | LocalFlags::ECHO);
        let _ = tcsetattr(&self.device, SetArg::TCSADRAIN, &quiet);
        let _ = (&*self.device).write_all(MARK_PASTES);
        let (keys, mut decoder) = (self.keys.clone(), Decoder::default());
        let last_key = self.last_key.clone();
        let deliver = move |chunk: &[u8]| {
            *lock(&last_key) = Some(Instant::now());
            decoder.feed(chunk);
            for key in std::iter::from_fn(|| decoder.next()) {
                let _ = keys.try_send(key);
            }
            !keys.is_closed()
        };
        self.reader = TtyReader::start(self.device.clone(), deliver).ok();
    }
}

/// Ignores keys of a person who was typing when a dialog appeared, until they pause: a key that was
/// not meant for the dialog could approve a call.
#[derive(Debug)]
pub(super) struct EarlierTyping {
    /// Keys before this are ignored; each of them moves it.
    until: Option<Instant>,
}

impl EarlierTyping {
    pub(super) fn new(was_typing: bool, now: Instant) -> Self {
        Self {
            until: was_typing.then(|| now + TYPING_PAUSE),
        }
    }

    /// Whether these bytes are meant for the dialog. A Ctrl-C always is.
    pub(super) fn is_over(&mut self, bytes: &[u8], now: Instant) -> bool {
        let is_typing = self.until.is_some_and(|until| now < until);
        self.until = (is_typing && !bytes.contains(&CTRL_C)).then(|| now + TYPING_PAUSE);
        self.until.is_none()
    }
}

fn busy() -> MutexGuard<'static, Option<BusyTerminal>> {
    lock(&BUSY)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_a_person_who_goes_on_typing_do_not_answer_a_dialog() {
        let start = Instant::now();
        let check = |was_typing: bool, steps: &[(u64, &[u8], bool)]| {
            let mut typing = EarlierTyping::new(was_typing, start);
            for (ms, bytes, expected) in steps {
                let now = start + Duration::from_millis(*ms);
                assert_eq!(typing.is_over(bytes, now), *expected, "{ms} ms: {steps:?}");
            }
        };
        check(false, &[(0, b"o", true), (1, b"o", true)]);
        check(
            true,
            &[(0, b"g", false), (500, b"o", false), (1000, b"o", false)],
        );
        check(
            true,
            &[(100, b"o", false), (800, b"n", true), (801, b"o", true)],
        );
        check(true, &[(700, b"o", true)]);
        check(true, &[(10, b"\x03", true), (20, b"n", true)]);
    }
}
