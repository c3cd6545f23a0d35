//! The last 64 KiB of a child's stderr. It is read to its end, so that a child never blocks on it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::watch;

/// The size of a [`StderrTail`].
pub const TAIL_BYTES: usize = 64 * 1024;

/// How much is shown of a line that fills the whole tail: not all of it, because a filter cannot
/// recognise a secret whose first half was dropped.
const SHOWN_OF_ENDLESS_LINE_BYTES: usize = 4 * 1024;
/// The capacity of a pipe.
const CHUNK_BYTES: usize = 64 * 1024;

/// The last output of a child on stderr. Clones share it; it can be used for one child after
/// another.
#[derive(Debug, Clone, Default)]
pub struct StderrTail(Arc<TailState>);

#[derive(Debug, Default)]
struct TailState {
    buffer: Mutex<TailBuffer>,
    /// The number of tasks that read a stderr into this tail.
    readers: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct TailBuffer {
    /// The bytes as the child wrote them. Split into lines only on demand: a flood must cost
    /// little.
    bytes: VecDeque<u8>,
    /// Whether older bytes were dropped, so that the first line is incomplete.
    cut: bool,
    /// Counts the children. Only the output of the latest is kept.
    run: u64,
}

impl StderrTail {
    /// Empties the tail for a new child and reads its stderr until the last process that holds it
    /// has ended. `sink` gets every chunk, even after another child has taken over the tail; it
    /// must not block.
    pub fn drain(&self, stderr: pipe::Receiver, sink: impl FnMut(&[u8]) + Send + 'static) {
        let run = {
            let mut buffer = self.buffer();
            *buffer = TailBuffer {
                run: buffer.run + 1,
                ..TailBuffer::default()
            };
            buffer.run
        };
        self.0.readers.send_modify(|count| *count += 1);
        // The task ends with the last process that holds the pipe; those are ended with the child.
        tokio::spawn(read(Reader(self.clone()), run, stderr, sink));
    }

    /// The last `count` lines of the current child, oldest first. `filter` gets each whole line:
    /// its result is shown instead, and a line for which it returns `None` is left out.
    pub fn last_lines(&self, count: usize, filter: impl Fn(&str) -> Option<String>) -> Vec<String> {
        let (bytes, cut) = {
            let buffer = self.buffer();
            (
                buffer.bytes.iter().copied().collect::<Vec<u8>>(),
                buffer.cut,
            )
        };
        let text = String::from_utf8_lossy(&bytes);
        let text = text.strip_suffix('\n').unwrap_or(&text);
        let whole = match (cut, text.split_once('\n')) {
            (false, _) => text,
            (true, Some((_, whole))) => whole,
            (true, None) => return filter(text).iter().map(|line| end_of_line(line)).collect(),
        };
        if whole.is_empty() {
            return Vec::new();
        }
        let mut lines: Vec<String> = whole
            .rsplit('\n')
            .filter_map(|line| filter(line.strip_suffix('\r').unwrap_or(line)))
            .take(count)
            .collect();
        lines.reverse();
        lines
    }

    /// Waits until everything that was written has been read. That takes until the last process
    /// that holds the pipe has ended, so use a timeout.
    pub async fn drained(&self) {
        // Cannot fail: we hold the sender.
        let _ = self
            .0
            .readers
            .subscribe()
            .wait_for(|count| *count == 0)
            .await;
    }

    fn push(&self, run: u64, chunk: &[u8]) {
        let mut buffer = self.buffer();
        if buffer.run != run {
            return;
        }
        let chunk_end = &chunk[chunk.len().saturating_sub(TAIL_BYTES)..];
        let excess = (buffer.bytes.len() + chunk_end.len()).saturating_sub(TAIL_BYTES);
        buffer.cut |= excess > 0 || chunk_end.len() < chunk.len();
        buffer.bytes.drain(..excess);
        buffer.bytes.extend(chunk_end);
    }

    fn buffer(&self) -> MutexGuard<'_, TailBuffer> {
        self.0.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn read(reader: Reader, run: u64, mut stderr: pipe::Receiver, mut sink: impl FnMut(&[u8])) {
    let mut chunk = Vec::new();
    loop {
        // Most children write little: the buffer is allocated when there is data.
        if chunk.capacity() == 0 && stderr.readable().await.is_err() {
            break;
        }
        chunk.reserve(CHUNK_BYTES);
        match stderr.read_buf(&mut chunk).await {
            Ok(0) | Err(_) => break,
            Ok(count) => {
                reader.0.push(run, &chunk);
                sink(&chunk);
                chunk.clear();
                if count < CHUNK_BYTES {
                    chunk = Vec::new();
                }
            }
        }
        // A flood is read without end, but other tasks run in between.
        tokio::task::yield_now().await;
    }
}

/// Counts one reader until it is dropped.
struct Reader(StderrTail);

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.0.readers.send_modify(|count| *count -= 1);
    }
}

fn end_of_line(line: &str) -> String {
    let start = line.ceil_char_boundary(line.len().saturating_sub(SHOWN_OF_ENDLESS_LINE_BYTES));
    format!("…{}", &line[start..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(stderr: &StderrTail, count: usize) -> Vec<String> {
        stderr.last_lines(count, |line| Some(line.to_owned()))
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

    #[test]
    fn a_filter_replaces_lines_and_leaves_lines_out() {
        let stderr = StderrTail::default();
        stderr.push(0, b"password hunt");
        stderr.push(0, b"er22 rejected\ndebug: x\nlast\n");
        let shown = stderr.last_lines(2, |line| {
            (!line.starts_with("debug")).then(|| line.replace("hunter22", "[secret]"))
        });
        assert_eq!(shown, ["password [secret] rejected", "last"]);
    }

    /// F11: at most 64 KiB.
    #[test]
    fn f11_the_tail_never_exceeds_its_size() {
        let stderr = StderrTail::default();
        for _ in 0..100 {
            stderr.push(0, &[b'x'; 3 * 1000]);
            stderr.push(0, &[b'x'; 100 * 1000]);
        }
        let buffer = stderr.buffer();
        assert_eq!(
            (buffer.bytes.len(), buffer.bytes.capacity()),
            (TAIL_BYTES, TAIL_BYTES)
        );
        drop(buffer);
        assert_eq!(
            lines(&stderr, 9),
            [format!("…{}", "x".repeat(SHOWN_OF_ENDLESS_LINE_BYTES))]
        );
    }

    /// Late output of the previous process is not shown as that of a restarted server.
    #[test]
    fn late_output_of_an_earlier_run_is_dropped() {
        let stderr = StderrTail::default();
        stderr.push(0, b"first\n");
        *stderr.buffer() = TailBuffer {
            run: 1,
            ..TailBuffer::default()
        };
        stderr.push(0, b"late\n");
        stderr.push(1, b"second\n");
        assert_eq!(lines(&stderr, 9), ["second"]);
    }
}
