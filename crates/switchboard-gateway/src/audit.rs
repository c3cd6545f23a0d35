//! The audit log: one JSON line for each request, approval and refusal, in a bounded set of files.
//!
//! Writing a line never waits: it is put into a bounded buffer, which a task writes to the file.
//! Lines that cannot be written are retried. Lines that do not fit into the buffer are
//! dropped and counted; the next line that is written says how many.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use switchboard::RawJson;
use switchboard::config::AuditArguments;
use switchboard::secret::Redactor;
use switchboard::store::timestamp;
use switchboard::sync::lock;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use file::AuditFile;
pub use line::AuditLine;
use line::{push_arguments, push_three_digits};

mod file;
mod line;
mod shape;

/// The most bytes that wait to be written.
const MAX_PENDING_BYTES: usize = 1 << 20;

/// Once this many bytes are pending, they are written without waiting for the rest of [`COLLECT`]: at
/// 70,000 calls a second, 1 MiB would be full before that time is over.
const WRITE_BYTES: usize = 128 << 10;

/// How many lines are stored for the status page.
const RECENT_LINES: usize = 500;

/// How many bytes these lines have together at most.
const MAX_RECENT_BYTES: usize = 2 << 20;

/// The buffer of a longer line is not reused.
const MAX_REUSED_BYTES: usize = 4 << 10;

/// Lines are collected this long, so that a busy gateway writes many at once.
const COLLECT: Duration = Duration::from_millis(50);

/// How long after a failure the file is tried again.
const RETRY: Duration = Duration::from_secs(2);

/// How long the last lines may take when the gateway stops.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// The audit log. Clones share it.
#[derive(Debug, Clone)]
pub struct AuditLog(Arc<AuditState>);

#[derive(Debug)]
struct AuditState {
    buffer: Mutex<AuditBuffer>,
    /// Wakes the writer when the buffer gets its first line.
    is_pending: Notify,
    /// Wakes the writer when enough lines wait.
    is_filled: Notify,
    /// Changes with each line, while a status page is open.
    lines: watch::Sender<u64>,
    dropped: AtomicU64,
    /// Why the last lines could not be written.
    fault: watch::Sender<Option<String>>,
    path: Option<PathBuf>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct AuditBuffer {
    pending: String,
    /// Dropped since the last line that was buffered.
    dropped: u64,
    recent: VecDeque<String>,
    /// The sum of their lengths.
    recent_bytes: usize,
    is_closed: bool,
    clock: AuditClock,
    redactor: Redactor,
    arguments: AuditArguments,
}

/// The time as text; only the milliseconds are formatted for each line.
#[derive(Debug, Default)]
struct AuditClock {
    second: u64,
    /// The text before the milliseconds.
    text: String,
}

impl AuditClock {
    fn write(&mut self, out: &mut String) {
        let now = SystemTime::now();
        let since = now.duration_since(SystemTime::UNIX_EPOCH);
        let since = since.unwrap_or_default();
        if since.as_secs() != self.second || self.text.is_empty() {
            self.second = since.as_secs();
            self.text = timestamp(now);
            self.text.truncate(self.text.len() - "000Z".len());
        }
        out.push_str(&self.text);
        push_three_digits(out, since.subsec_millis() as u16);
        out.push('Z');
    }
}

impl AuditLog {
    /// Writes to `FOLDER/audit/audit.jsonl`. Must be called on a runtime, which the writer runs on.
    pub fn open(folder: &Path, arguments: AuditArguments, redactor: Redactor) -> Self {
        let file = AuditFile::new(folder);
        let log = Self::new(Some(file.path().to_owned()), arguments, redactor);
        let task = tokio::spawn(write(log.0.clone(), file));
        *lock(&log.0.writer) = Some(task);
        log
    }

    /// Keeps the last lines in memory only.
    pub fn in_memory() -> Self {
        Self::new(None, AuditArguments::Shape, Redactor::default())
    }

    fn new(path: Option<PathBuf>, arguments: AuditArguments, redactor: Redactor) -> Self {
        Self(Arc::new(AuditState {
            buffer: Mutex::new(AuditBuffer {
                redactor,
                arguments,
                ..AuditBuffer::default()
            }),
            is_pending: Notify::new(),
            is_filled: Notify::new(),
            lines: watch::channel(0).0,
            dropped: AtomicU64::new(0),
            fault: watch::channel(None).0,
            path,
            writer: Mutex::default(),
        }))
    }

    /// Adds a line. Never waits.
    pub fn add(&self, line: &AuditLine<'_>) {
        let mut locked = lock(&self.0.buffer);
        let buffer = &mut *locked;
        let mut text = buffer.reused();
        text.push_str("{\"time\":\"");
        buffer.clock.write(&mut text);
        text.push_str("\",");
        let start = text.len();
        line.write(&mut text, buffer.arguments, &buffer.redactor);
        if let Cow::Owned(redacted) = buffer.redactor.redact(&text[start..]) {
            text.truncate(start);
            text.push_str(&redacted);
        }
        text.push('}');
        let before = buffer.pending.len();
        let has_room = buffer.pending.len() + text.len() < MAX_PENDING_BYTES;
        if self.0.path.is_some() && !has_room {
            buffer.dropped += 1;
            self.0.dropped.fetch_add(1, Ordering::Relaxed);
        } else if self.0.path.is_some() {
            if buffer.dropped > 0 {
                let dropped = std::mem::take(&mut buffer.dropped);
                buffer.pending.push_str("{\"time\":\"");
                buffer.clock.write(&mut buffer.pending);
                let rest = format!("\",\"event\":\"dropped\",\"lines\":{dropped}}}\n");
                buffer.pending.push_str(&rest);
            }
            buffer.pending.push_str(&text);
            buffer.pending.push('\n');
        }
        buffer.keep(text);
        let after = buffer.pending.len();
        drop(locked);
        if before == 0 {
            self.0.is_pending.notify_one();
        }
        if before < WRITE_BYTES && after >= WRITE_BYTES {
            self.0.is_filled.notify_one();
        }
        // Notifying costs time even without a receiver.
        if self.0.lines.receiver_count() > 0 {
            self.0.lines.send_modify(|count| *count += 1);
        }
    }

    /// Replaces the redactor: the configuration has changed.
    pub fn set_redactor(&self, redactor: Redactor) {
        lock(&self.0.buffer).redactor = redactor;
    }

    /// Sets what is recorded of arguments from now on.
    pub fn set_arguments(&self, arguments: AuditArguments) {
        lock(&self.0.buffer).arguments = arguments;
    }

    /// The recorded form of a call's arguments.
    pub fn arguments(&self, arguments: &RawJson) -> Option<String> {
        let mut text = String::new();
        let how = lock(&self.0.buffer).arguments;
        match how {
            AuditArguments::None => return None,
            how => push_arguments(&mut text, arguments, how),
        }
        Some(text)
    }

    /// The last lines as JSON, the newest first.
    pub fn recent(&self, count: usize) -> Vec<String> {
        let buffer = lock(&self.0.buffer);
        buffer.recent.iter().rev().take(count).cloned().collect()
    }

    /// How many lines could not be written.
    pub fn dropped(&self) -> u64 {
        self.0.dropped.load(Ordering::Relaxed)
    }

    /// Why lines cannot be written now; `None` if they can. Calls continue, and their lines wait.
    pub fn fault(&self) -> watch::Receiver<Option<String>> {
        self.0.fault.subscribe()
    }

    /// Changes with each line from now on.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.lines.subscribe()
    }

    /// The file.
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// Writes the buffered lines, and ends the writer.
    pub async fn close(&self) {
        lock(&self.0.buffer).is_closed = true;
        self.0.is_pending.notify_one();
        let writer = lock(&self.0.writer).take();
        if let Some(mut writer) = writer
            && tokio::time::timeout(CLOSE_TIMEOUT, &mut writer)
                .await
                .is_err()
        {
            writer.abort();
        }
    }
}

/// Writes buffered lines to the file until the log is closed.
async fn write(state: Arc<AuditState>, file: AuditFile) {
    let file = Arc::new(Mutex::new(file));
    loop {
        state.is_pending.notified().await;
        if !lock(&state.buffer).is_closed {
            let _ = tokio::time::timeout(COLLECT, state.is_filled.notified()).await;
        }
        let (text, is_closed) = {
            let mut buffer = lock(&state.buffer);
            // As large as the last one: growing the buffer took a tenth of the time of each line.
            let reserved = String::with_capacity(buffer.pending.len().min(2 * WRITE_BYTES));
            (
                std::mem::replace(&mut buffer.pending, reserved),
                buffer.is_closed,
            )
        };
        if !text.is_empty() {
            let file = file.clone();
            let writing = tokio::task::spawn_blocking(move || {
                let written = lock(&file).append(text.as_bytes());
                (text, written.err())
            });
            if let Ok((text, fault)) = writing.await {
                let fault = fault.map(|fault| fault.to_string());
                let has_failed = fault.is_some();
                state.fault.send_if_modified(|known| {
                    let is_new = *known != fault;
                    *known = fault;
                    is_new
                });
                if has_failed {
                    state.put_back(text);
                    if !is_closed {
                        let _ = tokio::time::timeout(RETRY, state.is_pending.notified()).await;
                        state.is_pending.notify_one();
                    }
                }
            }
        }
        if is_closed {
            return;
        }
    }
}

impl AuditBuffer {
    /// An empty text. The buffer of the oldest recent line is reused.
    fn reused(&mut self) -> String {
        let is_full = self.recent.len() >= RECENT_LINES;
        let oldest = is_full.then(|| self.recent.pop_front()).flatten();
        let mut text = oldest.unwrap_or_default();
        self.recent_bytes -= text.len();
        if text.capacity() > MAX_REUSED_BYTES {
            return String::new();
        }
        text.clear();
        text
    }

    /// Stores a line for the status page, instead of the oldest ones.
    fn keep(&mut self, mut text: String) {
        if text.len() > MAX_REUSED_BYTES {
            text.shrink_to_fit();
        }
        self.recent_bytes += text.len();
        self.recent.push_back(text);
        while self.recent_bytes > MAX_RECENT_BYTES
            && let Some(oldest) = self.recent.pop_front()
        {
            self.recent_bytes -= oldest.len();
        }
    }
}

impl AuditState {
    /// Puts lines that could not be written before those that came since.
    fn put_back(&self, text: String) {
        let mut buffer = lock(&self.buffer);
        if buffer.is_closed || text.len() + buffer.pending.len() > MAX_PENDING_BYTES {
            let lines = text.lines().count() as u64;
            buffer.dropped += lines;
            self.dropped.fetch_add(lines, Ordering::Relaxed);
        } else {
            buffer.pending.insert_str(0, &text);
        }
    }
}

#[cfg(test)]
mod tests;
