//! Cuts a stream of bytes into the lines of a log, within what its rate allows.

use super::{LogFile, LogStream};
use crate::untrusted::Untrusted;

/// A line longer than this is cut, and its end left out.
const LINE_BYTES: usize = 8 * 1024;
/// So much of a long line is looked at, so that no half of a secret shows where it is cut.
const PENDING_BYTES: usize = 64 * 1024;

/// Writes chunks to a log as whole lines. What has no newline yet is written with
/// [`finish`](Self::finish), or when dropped.
#[derive(Debug)]
pub struct LineWriter {
    log: LogFile,
    stream: LogStream,
    pending: Vec<u8>,
    /// Bytes of the pending line that were not kept.
    cut_bytes: usize,
    /// Lines of this kind are not written, and not counted as left out.
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

    /// The same, without lines of one kind.
    pub(crate) fn without(mut self, excluded: fn(&str) -> bool) -> Self {
        self.excluded = Some(excluded);
        self
    }

    /// Takes a chunk of any size, cut anywhere.
    pub fn push(&mut self, chunk: &[u8]) {
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

    /// Writes what is pending, and how much was left out.
    pub fn finish(&mut self) {
        let last = if self.pending.is_empty() {
            None
        } else {
            self.take_line()
        };
        self.log.append(self.stream, last.as_slice());
    }

    /// Counts lines without looking at them: a flood must cost little.
    fn count_dropped(&mut self, chunk: &[u8]) {
        let lines = memchr::memchr_iter(b'\n', chunk).count() as u64;
        match memchr::memrchr(b'\n', chunk) {
            // The line that goes on from here has lost its beginning only where nothing of it came
            // before.
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
