//! Splits a byte stream into log lines, within the rate limit.

use super::{LogFile, LogStream};
use crate::untrusted::Untrusted;

/// The longest line; the rest is cut off.
const LINE_BYTES: usize = 8 * 1024;
/// How much of a long line is examined, so that a secret across the cut is still redacted.
const PENDING_BYTES: usize = 64 * 1024;

/// Writes chunks to a log as whole lines. A last line without a newline is written by
/// [`finish`](Self::finish), or when dropped.
#[derive(Debug)]
pub(crate) struct LineWriter {
    log: LogFile,
    stream: LogStream,
    pending: Vec<u8>,
    /// Bytes of the pending line that were cut off.
    cut_bytes: usize,
    /// Matching lines are not written, and not counted as dropped.
    excluded: Option<fn(&str) -> bool>,
}

impl LineWriter {
    pub(super) fn new(log: LogFile, stream: LogStream) -> Self {
        Self {
            log,
            stream,
            pending: Vec::new(),
            cut_bytes: 0,
            excluded: None,
        }
    }

    /// Leaves out matching lines.
    pub(crate) fn without(mut self, excluded: fn(&str) -> bool) -> Self {
        self.excluded = Some(excluded);
        self
    }

    /// Accepts a chunk, which may end within a line.
    pub(crate) fn push(&mut self, chunk: &[u8]) {
        if !self.log.allows() {
            return self.count_dropped(chunk);
        }
        let mut lines = Vec::new();
        let mut rest = chunk;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            self.keep(&rest[..end]);
            lines.extend(self.take_line());
            rest = &rest[end + 1..];
        }
        self.keep(rest);
        if !lines.is_empty() {
            self.log.append(self.stream, &lines);
        }
    }

    /// Writes the pending line, and the number of dropped ones.
    pub(crate) fn finish(&mut self) {
        let last = if self.pending.is_empty() {
            None
        } else {
            self.take_line()
        };
        self.log.append(self.stream, last.as_slice());
    }

    /// Counts lines only: a flood must cost little.
    fn count_dropped(&mut self, chunk: &[u8]) {
        let lines = memchr::memchr_iter(b'\n', chunk).count() as u64;
        match memchr::memrchr(b'\n', chunk) {
            // The last line continues in the next chunk.
            Some(end) => {
                self.log.count_dropped(lines);
                self.pending.clear();
                self.cut_bytes = 0;
                self.keep(&chunk[end + 1..]);
            }
            None => self.keep(chunk),
        }
    }

    fn keep(&mut self, part: &[u8]) {
        let room = PENDING_BYTES
            .saturating_sub(self.pending.len())
            .min(part.len());
        self.pending.extend_from_slice(&part[..room]);
        self.cut_bytes += part.len() - room;
    }

    fn take_line(&mut self) -> Option<Untrusted> {
        let line =
            String::from_utf8_lossy(self.pending.strip_suffix(b"\r").unwrap_or(&self.pending));
        let excluded = self.excluded.is_some_and(|excluded| excluded(&line));
        let line = match self.log.state().redactor.redact(&line) {
            clean if clean.len() <= LINE_BYTES => clean.into_owned(),
            clean => {
                let end = clean.floor_char_boundary(LINE_BYTES);
                format!(
                    "{} … {} bytes left out",
                    &clean[..end],
                    clean.len() - end + self.cut_bytes
                )
            }
        };
        self.pending.clear();
        self.cut_bytes = 0;
        (!excluded).then(|| Untrusted::new(line))
    }
}

impl Drop for LineWriter {
    fn drop(&mut self) {
        self.finish();
    }
}
