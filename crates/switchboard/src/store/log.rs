//! A server's log file: its stderr, its log messages and the host's notes, limited in size.
//!
//! `logs/SERVER.log`, 0600, rotated at 1 MiB to `SERVER.log.1`. Secrets are redacted and control
//! characters escaped before writing, so the file is safe to show. Writing never fails and never
//! waits: lines beyond the rate limit or that the disk refuses are counted and dropped.

use std::fmt::Write as _;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Instant, SystemTime};

use nix::libc;

use crate::name::ServerName;
use crate::secret::Redactor;
use crate::sync::lock;
use crate::untrusted::Untrusted;

pub(crate) use lines::LineWriter;

mod lines;

/// The size at which a log is rotated.
const ROTATE_BYTES: u64 = 1024 * 1024;
/// The burst of the rate limit.
const BURST_BYTES: f64 = 1024.0 * 1024.0;
/// The part of the burst that log messages may use. The rest is left to stderr, so that messages
/// without pause do not replace it, and cost little.
const MESSAGE_BURST_BYTES: f64 = 64.0 * 1024.0;
/// The sustained rate.
const RATE_BYTES_PER_SECOND: f64 = 128.0 * 1024.0;

/// The source of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogStream {
    /// The server's stderr.
    Stderr,
    /// The server's log notifications.
    Message,
    /// The host: started, exited, gave up.
    Note,
}

impl LogStream {
    fn label(self) -> &'static str {
        match self {
            Self::Stderr => "stderr",
            Self::Message => "message",
            Self::Note => "note",
        }
    }
}

/// The log of one server, open for writing. Clones share it.
#[derive(Debug, Clone)]
pub struct LogFile(Arc<Mutex<LogState>>);

#[derive(Debug)]
struct LogState {
    path: PathBuf,
    /// `None` after a failed rotation; opened again with the next write.
    file: Option<File>,
    redactor: Redactor,
    /// Bytes that may be written now, as of `counted_at`.
    allowance: f64,
    counted_at: Instant,
    /// Lines that were dropped since the last write.
    dropped_lines: u64,
}

impl LogFile {
    /// Opens `FOLDER/logs/SERVER.log`, or creates it (0600, in a 0700 folder).
    pub fn open(folder: &Path, server: &ServerName) -> io::Result<Self> {
        let path = path(folder, server);
        let logs = folder.join("logs");
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&logs)
            .map_err(|error| with_path(&logs, &error))?;
        let file = open(&path).map_err(|error| with_path(&path, &error))?;
        Ok(Self(Arc::new(Mutex::new(LogState {
            path,
            file: Some(file),
            redactor: Redactor::default(),
            allowance: BURST_BYTES,
            counted_at: Instant::now(),
            dropped_lines: 0,
        }))))
    }

    /// Sets the secrets that are redacted from now on.
    pub(crate) fn redact_with(&self, redactor: Redactor) {
        self.state().redactor = redactor;
    }

    /// Writes a text, line by line.
    pub(crate) fn write(&self, stream: LogStream, text: &str) {
        let mut writer = self.writer(stream);
        writer.push(text.as_bytes());
        writer.finish();
    }

    /// A writer for output that arrives in chunks.
    pub(crate) fn writer(&self, stream: LogStream) -> LineWriter {
        LineWriter::new(self.clone(), stream)
    }

    /// The last `count` lines of a server's log, oldest first; empty if there is no log.
    pub fn read_tail(
        folder: &Path,
        server: &ServerName,
        count: usize,
    ) -> io::Result<Vec<Untrusted>> {
        let path = path(folder, server);
        let newer = read(&path)?;
        let older = if newer.lines().count() < count {
            read(&rotated(&path))?
        } else {
            String::new()
        };
        let mut lines: Vec<Untrusted> = newer
            .lines()
            .rev()
            .chain(older.lines().rev())
            .take(count)
            .map(Untrusted::new)
            .collect();
        lines.reverse();
        Ok(lines)
    }

    /// Whether the rate limit allows a line now.
    fn allows(&self) -> bool {
        self.allowance() > 0.0
    }

    /// Bytes that may be written now.
    fn allowance(&self) -> f64 {
        let mut state = self.state();
        let now = Instant::now();
        let gained = now.duration_since(state.counted_at).as_secs_f64() * RATE_BYTES_PER_SECOND;
        state.allowance = (state.allowance + gained).min(BURST_BYTES);
        state.counted_at = now.max(state.counted_at);
        state.allowance
    }

    /// Whether a log message may be written now; counts it as one line left out, if not.
    pub(crate) fn has_room_for_message(&self) -> bool {
        let has_room = self.allowance() > BURST_BYTES - MESSAGE_BURST_BYTES;
        if !has_room {
            self.count_dropped(1);
        }
        has_room
    }

    fn count_dropped(&self, lines: u64) {
        self.state().dropped_lines += lines;
    }

    /// Writes whole lines, redacted, with one system call. The allowance may go below zero by one
    /// chunk, which delays the next.
    fn append(&self, stream: LogStream, lines: &[Untrusted]) {
        let mut state = self.state();
        if lines.is_empty() && state.dropped_lines == 0 {
            return;
        }
        let moment = timestamp(SystemTime::now());
        let mut text = String::new();
        if state.dropped_lines > 0 {
            let _ = writeln!(
                text,
                "{moment} note … {} lines left out",
                state.dropped_lines
            );
        }
        for line in lines {
            let _ = writeln!(text, "{moment} {} {}", stream.label(), line.for_terminal());
        }
        state.allowance -= text.len() as f64;
        match state.write(text.as_bytes()) {
            Ok(()) => state.dropped_lines = 0,
            Err(_) => state.dropped_lines += lines.len() as u64,
        }
    }

    fn state(&self) -> MutexGuard<'_, LogState> {
        lock(&self.0)
    }
}

impl LogState {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut file = match self.file.take() {
            Some(file) => file,
            None => open(&self.path)?,
        };
        let now = file.metadata()?;
        if now.len() + bytes.len() as u64 > ROTATE_BYTES && now.len() > 0 {
            // Another process that logs for the same server may have rotated the file already.
            if fs::symlink_metadata(&self.path)
                .is_ok_and(|named| (named.dev(), named.ino()) == (now.dev(), now.ino()))
            {
                fs::rename(&self.path, rotated(&self.path))?;
            }
            file = open(&self.path)?;
        }
        let written = file.write_all(bytes);
        self.file = Some(file);
        written
    }
}

/// Follows no symbolic link, does not block on a pipe, and allows no other user to read.
fn open(path: &Path) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(flags)
        .open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("is not a regular file"));
    }
    if found.permissions().mode() & 0o777 != 0o600 {
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

fn read(path: &Path) -> io::Result<String> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path);
    let mut bytes = Vec::new();
    match file {
        Ok(file) => file
            .take(4 * ROTATE_BYTES)
            .read_to_end(&mut bytes)
            .map_err(|error| with_path(path, &error))?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
        Err(error) => return Err(with_path(path, &error)),
    };
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn path(folder: &Path, server: &ServerName) -> PathBuf {
    folder.join("logs").join(format!("{server}.log"))
}

fn rotated(path: &Path) -> PathBuf {
    path.with_added_extension("1")
}

fn with_path(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// A moment in UTC: `2026-11-15T09:30:00.125Z`.
pub fn timestamp(moment: SystemTime) -> String {
    let since = moment
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let seconds = since.as_secs();
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!(
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z",
        since.subsec_millis()
    )
}

/// The Gregorian date of a day counted from 1970-01-01. Years are counted from March, so that the
/// leap day is the last day.
fn date(days: u64) -> (u64, u64, u64) {
    const DAYS_PER_ERA: u64 = 146_097;
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / DAYS_PER_ERA, shifted % DAYS_PER_ERA);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests;
