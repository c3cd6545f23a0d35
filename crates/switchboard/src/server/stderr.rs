//! A server's stderr: the last lines in memory, all of it in the server's log, secrets redacted in
//! both.

use std::sync::{Arc, Mutex, MutexGuard};

use tokio::net::unix::pipe;

use crate::launch::StderrTail;
use crate::secret::Redactor;
use crate::store::{LogFile, LogStream};
use crate::sync::lock;
use crate::untrusted::Untrusted;

mod info;

/// A server's stderr output. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct ServerStderr(Arc<StderrState>);

#[derive(Debug, Default)]
struct StderrState {
    tail: StderrTail,
    /// The secrets of the current run. Locked while the tail is replaced or read, so that no run's
    /// output is redacted with another run's secrets.
    redactor: Mutex<Redactor>,
    log: Option<LogFile>,
    /// Whether lines marked as INFO are left out of the log and of what is shown.
    drops_info: bool,
}

impl ServerStderr {
    /// Passes all output on to `log`. With `drops_info`, lines that the server's logger marked as
    /// INFO are left out.
    pub fn new(log: Option<LogFile>, drops_info: bool) -> Self {
        Self(Arc::new(StderrState {
            log,
            drops_info,
            ..StderrState::default()
        }))
    }

    /// The last `count` lines of the current run, oldest first, secrets redacted.
    pub fn last_lines(&self, count: usize) -> Vec<Untrusted> {
        let redactor = self.redactor();
        let lines = self.0.tail.last_lines(count, |line| {
            let is_left_out = self.0.drops_info && info::is_info(line);
            (!is_left_out).then(|| redactor.redact(line).into_owned())
        });
        lines.into_iter().map(Untrusted::new).collect()
    }

    /// Redacts the secrets of the server's current run in a text.
    pub fn redact(&self, text: &str) -> String {
        let redactor = self.redactor().clone();
        redactor.redact(text).into_owned()
    }

    /// Sets the secrets to redact for a server without stderr.
    #[cfg(feature = "http")]
    pub(crate) fn redact_with(&self, redactor: Redactor) {
        if let Some(log) = &self.0.log {
            log.redact_with(redactor.clone());
        }
        *self.redactor() = redactor;
    }

    /// Waits until everything that was written has been read. That takes until the last process
    /// that holds the pipe has ended, so use a timeout.
    pub(crate) async fn drained(&self) {
        self.0.tail.drained().await;
    }

    /// Begins a new run, whose output replaces the previous tail.
    pub(super) fn drain(&self, redactor: Redactor, stderr: pipe::Receiver) {
        if let Some(log) = &self.0.log {
            log.redact_with(redactor.clone());
        }
        let mut log = self.0.log.as_ref().map(|log| {
            let writer = log.writer(LogStream::Stderr);
            if self.0.drops_info {
                writer.without(info::is_info)
            } else {
                writer
            }
        });
        let mut current = self.redactor();
        *current = redactor;
        self.0.tail.drain(stderr, move |chunk| {
            if let Some(log) = &mut log {
                log.push(chunk);
            }
        });
    }

    fn redactor(&self) -> MutexGuard<'_, Redactor> {
        lock(&self.0.redactor)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Write;
    use std::time::Duration;

    use super::*;
    use crate::name::ServerName;
    use crate::secret::Secret;

    /// Writes `text` `times` times through a pipe and waits until it has been read.
    async fn write(stderr: &ServerStderr, redactor: Redactor, text: &str, times: usize) {
        let (read_end, mut write_end) = std::io::pipe().unwrap();
        stderr.drain(
            redactor,
            pipe::Receiver::from_owned_fd(read_end.into()).unwrap(),
        );
        let text = text.to_owned();
        let writing = tokio::task::spawn_blocking(move || {
            for _ in 0..times {
                write_end.write_all(text.as_bytes()).unwrap();
            }
        });
        tokio::time::timeout(Duration::from_secs(60), stderr.drained())
            .await
            .unwrap();
        writing.await.unwrap();
    }

    fn lines(stderr: &ServerStderr, count: usize) -> Vec<String> {
        stderr
            .last_lines(count)
            .iter()
            .map(|line| line.raw().to_owned())
            .collect()
    }

    /// S2-51: INFO lines do not appear in quoted stderr either.
    #[tokio::test]
    async fn s2_51_info_lines_are_left_out_where_the_dialect_says_so() {
        for (drops_info, expected) in [
            (true, &["starting", "ERROR: no"][..]),
            (false, &["starting", "INFO: up", "ERROR: no", "[info] x"]),
        ] {
            let stderr = ServerStderr::new(None, drops_info);
            let text = "starting\nINFO: up\nERROR: no\n[info] x\n";
            write(&stderr, Redactor::default(), text, 1).await;
            assert_eq!(lines(&stderr, 9), expected);
        }
    }

    #[tokio::test]
    async fn t25_secrets_are_redacted() {
        let stderr = ServerStderr::default();
        let redactor = Redactor::new([Secret::new("hunter22")]);
        write(&stderr, redactor, "password hunter22 rejected\n", 1).await;
        assert_eq!(lines(&stderr, 1), ["password [secret] rejected"]);
        assert_eq!(stderr.redact("hunter22"), "[secret]");
    }

    /// F11: however much a server writes, its log stays small.
    #[tokio::test]
    async fn f11_a_flood_on_stderr_leaves_a_small_log() {
        let folder = tempfile::tempdir().unwrap();
        let log = LogFile::open(folder.path(), &ServerName::new("loud").unwrap()).unwrap();
        let stderr = ServerStderr::new(Some(log), false);
        let text = "a line of no interest\n".repeat(50_000);
        write(&stderr, Redactor::default(), &text, 100).await;
        assert_eq!(lines(&stderr, 1), ["a line of no interest"]);
        let written: u64 = std::fs::read_dir(folder.path().join("logs"))
            .unwrap()
            .map(|entry| entry.unwrap().metadata().unwrap().len())
            .sum();
        assert!((1..=2 * 1024 * 1024).contains(&written), "{written}");
    }
}
