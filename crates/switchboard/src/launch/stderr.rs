//! A server's stderr: the last 64 KiB in memory, all of it to the server's log, drained for ever.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::watch;

use crate::secret::Redactor;
use crate::store::{LogFile, LogStream};
use crate::untrusted::Untrusted;

mod info;

/// How much is kept in memory for each server.
pub const TAIL_BYTES: usize = 64 * 1024;

/// Of a line that alone fills the tail, so much is shown: far enough from where it was cut that no
/// half of a secret is left unredacted.
const SHOWN_OF_ENDLESS_LINE_BYTES: usize = 4 * 1024;
/// As much as a pipe holds.
const CHUNK_BYTES: usize = 64 * 1024;

/// The last of what a server wrote to stderr. Clones share it.
#[derive(Debug, Clone)]
pub struct StderrTail(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    tail: Mutex<Tail>,
    log: Option<LogFile>,
    /// Lines marked as INFO are left out, of the log and of what is shown.
    drops_info: bool,
    /// How many tasks are reading a stderr into this.
    drains: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct Tail {
    /// As the server wrote it. Taken apart and redacted only when asked for: a flood must cost
    /// little.
    bytes: VecDeque<u8>,
    /// Something older was dropped, so the first line is not whole.
    cut: bool,
    redactor: Redactor,
    /// Which run it is of: what an earlier one still says goes to the log alone.
    run: u64,
}

impl Default for StderrTail {
    fn default() -> Self {
        Self::new(None)
    }
}

impl StderrTail {
    /// An empty tail that passes all it gets on to `log`.
    pub fn new(log: Option<LogFile>) -> Self {
        Self::of(log, false)
    }

    /// The same; with `drops_info`, without the lines that the server's logger marked as INFO
    /// (S2-51).
    pub fn of(log: Option<LogFile>, drops_info: bool) -> Self {
        Self(Arc::new(Inner {
            tail: Mutex::default(),
            log,
            drops_info,
            drains: watch::Sender::new(0),
        }))
    }

    /// The last `count` lines of the current run, oldest first, secrets redacted.
    pub fn last_lines(&self, count: usize) -> Vec<Untrusted> {
        let (bytes, cut, redactor) = {
            let tail = self.tail();
            (
                tail.bytes.iter().copied().collect::<Vec<u8>>(),
                tail.cut,
                tail.redactor.clone(),
            )
        };
        let text = String::from_utf8_lossy(&bytes);
        let text = text.strip_suffix('\n').unwrap_or(&text);
        let whole = match (cut, text.split_once('\n')) {
            (false, _) => text,
            (true, Some((_, whole))) => whole,
            (true, None) => return vec![Untrusted::new(end_of_line(&redactor.redact(text)))],
        };
        if whole.is_empty() || count == 0 {
            return Vec::new();
        }
        let mut lines: Vec<Untrusted> = whole
            .rsplit('\n')
            .filter(|line| !(self.0.drops_info && info::is_info(line)))
            .take(count)
            .map(|line| {
                Untrusted::new(
                    redactor
                        .redact(line.strip_suffix('\r').unwrap_or(line))
                        .into_owned(),
                )
            })
            .collect();
        lines.reverse();
        lines
    }

    /// A text of the same server without the secrets of its current run.
    pub fn redact(&self, text: &str) -> String {
        let redactor = self.tail().redactor.clone();
        redactor.redact(text).into_owned()
    }

    /// For a server that has no stderr of its own: what is told of it is to be free of these
    /// secrets.
    #[cfg(feature = "http")]
    pub(crate) fn redact_with(&self, redactor: Redactor) {
        if let Some(log) = &self.0.log {
            log.redact_with(redactor.clone());
        }
        self.tail().redactor = redactor;
    }

    /// Waits until everything that was written has been read, which takes until the last writer has
    /// ended; so with a deadline. For who wants the last words of a process that has just
    /// exited.
    pub async fn drained(&self) {
        // An error would mean that the sender is gone, and we hold it.
        let _ = self
            .0
            .drains
            .subscribe()
            .wait_for(|count| *count == 0)
            .await;
    }

    /// Empties the tail for a new run and drains `from` for as long as anybody holds its other end.
    pub(super) fn begin(&self, redactor: Redactor, from: pipe::Receiver) {
        if let Some(log) = &self.0.log {
            log.redact_with(redactor.clone());
        }
        let run = {
            let mut tail = self.tail();
            *tail = Tail {
                redactor,
                run: tail.run + 1,
                ..Tail::default()
            };
            tail.run
        };
        self.0.drains.send_modify(|count| *count += 1);
        // Nobody waits for this task: it ends with the last of the processes that hold the pipe,
        // and these have a keeper.
        tokio::spawn(drain(Drain(self.clone()), run, from));
    }

    fn push(&self, run: u64, chunk: &[u8]) {
        let mut tail = self.tail();
        if tail.run != run {
            return;
        }
        let chunk_kept = &chunk[chunk.len().saturating_sub(TAIL_BYTES)..];
        let excess = (tail.bytes.len() + chunk_kept.len()).saturating_sub(TAIL_BYTES);
        tail.cut |= excess > 0 || chunk_kept.len() < chunk.len();
        tail.bytes.drain(..excess);
        tail.bytes.extend(chunk_kept);
    }

    fn tail(&self) -> MutexGuard<'_, Tail> {
        self.0.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn drain(drain: Drain, run: u64, mut from: pipe::Receiver) {
    let stderr = &drain.0;
    let mut log = stderr.0.log.as_ref().map(|log| {
        let writer = log.writer(LogStream::Stderr);
        if stderr.0.drops_info {
            writer.without(info::is_info)
        } else {
            writer
        }
    });
    let mut chunk = Vec::new();
    loop {
        // Most servers say little: no 64 KiB for each while it is silent.
        if chunk.is_empty() && from.readable().await.is_err() {
            break;
        }
        chunk.resize(CHUNK_BYTES, 0);
        match from.read(&mut chunk).await {
            Ok(0) | Err(_) => break,
            Ok(count) => {
                stderr.push(run, &chunk[..count]);
                if let Some(log) = &mut log {
                    log.push(&chunk[..count]);
                }
                if count < CHUNK_BYTES {
                    chunk = Vec::new();
                }
            }
        }
        // A flood is read for ever, but never at the cost of whoever else wants to run.
        tokio::task::yield_now().await;
    }
}

/// One task's share in the count of drains, given back however the task ends.
struct Drain(StderrTail);

impl Drop for Drain {
    fn drop(&mut self) {
        self.0.0.drains.send_modify(|count| *count -= 1);
    }
}

fn end_of_line(line: &str) -> String {
    let start = line.ceil_char_boundary(line.len().saturating_sub(SHOWN_OF_ENDLESS_LINE_BYTES));
    format!("…{}", &line[start..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::Secret;

    fn lines(stderr: &StderrTail, count: usize) -> Vec<String> {
        stderr
            .last_lines(count)
            .iter()
            .map(|line| line.raw().to_owned())
            .collect()
    }

    #[test]
    fn last_lines_are_whole_and_oldest_first() {
        let check = |written: &[&str], count: usize, expected: &[&str]| {
            let stderr = StderrTail::default();
            for chunk in written {
                stderr.push(0, chunk.as_bytes());
            }
            assert_eq!(lines(&stderr, count), expected, "{written:?}");
        };
        check(&[], 3, &[]);
        check(&["one\ntw", "o\nthree"], 2, &["two", "three"]);
        check(&["one\r\ntwo\n"], 9, &["one", "two"]);
        check(&["one\n\ntwo\n"], 2, &["", "two"]);
        check(&["one\n"], 0, &[]);
        check(&[&"x".repeat(TAIL_BYTES), "\nlast\n"], 9, &["last"]);
        check(&["old\n", &"y\n".repeat(TAIL_BYTES)], 2, &["y", "y"]);
    }

    /// S2-51: neither in what an error quotes.
    #[test]
    fn s2_51_info_lines_are_left_out_where_the_dialect_says_so() {
        for (drops_info, expected) in [
            (true, &["starting", "ERROR: no"][..]),
            (false, &["starting", "INFO: up", "ERROR: no", "[info] x"]),
        ] {
            let stderr = StderrTail::of(None, drops_info);
            stderr.push(0, b"starting\nINFO: up\nERROR: no\n[info] x\n");
            assert_eq!(lines(&stderr, 9), expected);
        }
    }

    /// F11: 64 KiB, whatever comes.
    #[test]
    fn f11_the_tail_never_grows_past_its_bound() {
        let stderr = StderrTail::default();
        for _ in 0..100 {
            stderr.push(0, &[b'x'; 3 * 1000]);
            stderr.push(0, &[b'x'; 100 * 1000]);
        }
        let tail = stderr.tail();
        assert_eq!(
            (tail.bytes.len(), tail.bytes.capacity()),
            (TAIL_BYTES, TAIL_BYTES)
        );
        drop(tail);
        assert_eq!(
            lines(&stderr, 9),
            [format!("…{}", "x".repeat(SHOWN_OF_ENDLESS_LINE_BYTES))]
        );
    }

    /// A server that is started again right away: what the one before says late is not its last
    /// word.
    #[test]
    fn what_an_earlier_run_says_late_is_not_taken_for_this_one() {
        let stderr = StderrTail::default();
        stderr.push(0, b"first\n");
        *stderr.tail() = Tail {
            run: 1,
            ..Tail::default()
        };
        stderr.push(0, b"late\n");
        stderr.push(1, b"second\n");
        assert_eq!(lines(&stderr, 9), ["second"]);
    }

    /// T25.
    #[test]
    fn t25_secrets_are_redacted_even_where_chunks_cut_them() {
        let stderr = StderrTail::default();
        stderr.tail().redactor = Redactor::new([Secret::new("hunter22")]);
        stderr.push(0, b"password hunt");
        stderr.push(0, b"er22 rejected\n");
        assert_eq!(lines(&stderr, 1), ["password [secret] rejected"]);
    }
}
