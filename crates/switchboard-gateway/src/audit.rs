//! The audit log: one JSON line for each request, approval and refusal, in a bounded set of files.
//!
//! Writing a line never waits: it is put into a bounded buffer, which a task writes to the file.
//! Lines that the disk does not take are tried again. Lines that do not fit into the buffer are
//! dropped and counted; the next line that is written says how many.

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
use shape::shape;

mod file;
mod line;
mod shape;

/// The most bytes that wait to be written.
const MAX_PENDING_BYTES: usize = 1 << 20;

/// The lines that are kept for the status page.
const RECENT_LINES: usize = 500;

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
    /// Wakes the writer when the buffer is no longer empty.
    is_pending: Notify,
    /// Counts lines, for whoever shows them.
    lines: watch::Sender<u64>,
    dropped: AtomicU64,
    /// Why the last lines could not be written.
    fault: watch::Sender<Option<String>>,
    arguments: AuditArguments,
    redactor: Redactor,
    path: Option<PathBuf>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct AuditBuffer {
    pending: String,
    /// Dropped since the last line that was buffered.
    dropped: u64,
    recent: VecDeque<Arc<str>>,
    is_closed: bool,
    clock: AuditClock,
}

/// The time as text, written anew once in a millisecond.
#[derive(Debug, Default)]
struct AuditClock {
    millis: u128,
    text: String,
}

impl AuditClock {
    fn now(&mut self) -> &str {
        let now = SystemTime::now();
        let since = now.duration_since(SystemTime::UNIX_EPOCH);
        let millis = since.unwrap_or_default().as_millis();
        if millis != self.millis || self.text.is_empty() {
            (self.millis, self.text) = (millis, timestamp(now));
        }
        &self.text
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
            buffer: Mutex::default(),
            is_pending: Notify::new(),
            lines: watch::channel(0).0,
            dropped: AtomicU64::new(0),
            fault: watch::channel(None).0,
            arguments,
            redactor,
            path,
            writer: Mutex::default(),
        }))
    }

    /// Adds a line. Never waits.
    pub fn add(&self, line: &AuditLine<'_>) {
        let members = line.members();
        let members = self.0.redactor.redact(&members);
        let mut buffer = lock(&self.0.buffer);
        let now = buffer.clock.now();
        let text: Arc<str> = ["{\"time\":\"", now, "\",", &members, "}"].concat().into();
        let is_first = buffer.pending.is_empty();
        if buffer.recent.len() >= RECENT_LINES {
            buffer.recent.pop_front();
        }
        buffer.recent.push_back(text.clone());
        let has_room = buffer.pending.len() + text.len() < MAX_PENDING_BYTES;
        if self.0.path.is_some() && !has_room {
            buffer.dropped += 1;
            self.0.dropped.fetch_add(1, Ordering::Relaxed);
        } else if self.0.path.is_some() {
            if buffer.dropped > 0 {
                let dropped = std::mem::take(&mut buffer.dropped);
                let now = buffer.clock.now();
                let line =
                    format!("{{\"time\":\"{now}\",\"event\":\"dropped\",\"lines\":{dropped}}}\n");
                buffer.pending.push_str(&line);
            }
            buffer.pending.push_str(&text);
            buffer.pending.push('\n');
        }
        drop(buffer);
        if is_first {
            self.0.is_pending.notify_one();
        }
        self.0.lines.send_modify(|count| *count += 1);
    }

    /// What is recorded of a call's arguments.
    pub fn arguments(&self, arguments: &RawJson) -> Option<String> {
        match self.0.arguments {
            AuditArguments::None => None,
            AuditArguments::Full => Some(arguments.as_str().to_owned()),
            AuditArguments::Shape => Some(shape(arguments)),
        }
    }

    /// The last lines as JSON, the newest first.
    pub fn recent(&self, count: usize) -> Vec<Arc<str>> {
        let buffer = lock(&self.0.buffer);
        buffer.recent.iter().rev().take(count).cloned().collect()
    }

    /// How many lines could not be written.
    pub fn dropped(&self) -> u64 {
        self.0.dropped.load(Ordering::Relaxed)
    }

    /// Why lines cannot be written now; `None` if they can. They wait, and calls go on.
    pub fn fault(&self) -> watch::Receiver<Option<String>> {
        self.0.fault.subscribe()
    }

    /// Counts lines.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.lines.subscribe()
    }

    /// The file.
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// Writes what is left, and ends the writer.
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

/// Writes what is buffered until the log is closed.
async fn write(state: Arc<AuditState>, file: AuditFile) {
    let file = Arc::new(Mutex::new(file));
    loop {
        state.is_pending.notified().await;
        if !lock(&state.buffer).is_closed {
            tokio::time::sleep(COLLECT).await;
        }
        let (text, is_closed) = {
            let mut buffer = lock(&state.buffer);
            (std::mem::take(&mut buffer.pending), buffer.is_closed)
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

impl AuditState {
    /// Lines that could not be written wait before those that came since.
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
