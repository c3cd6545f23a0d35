//! Tracing output on stderr: quiet by default, with every known secret replaced.

use std::io::{self, Write};
use std::sync::OnceLock;

use switchboard::secret::{Redactor, Secret};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// Known once the configuration is read.
static SECRETS: OnceLock<Redactor> = OnceLock::new();

/// Starts logging at a level: 0 warnings, 1 info, 2 debug, 3 trace. Where notices are held
/// back, warnings that nobody asked for by `-v` are notices: a failure is one line on stderr.
pub(crate) fn start(verbosity: u8, holds_notices: bool) {
    // Other crates log at a lower level: some log whole results.
    let filter = match verbosity {
        0 => "error,switchboard=warn",
        1 => "warn,switchboard=info",
        2 => "info,switchboard=debug",
        _ => "info,switchboard=trace",
    };
    let logs = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(filter))
        .with_writer(RedactingWriter {
            as_notices: holds_notices && verbosity == 0,
        })
        .with_ansi(false);
    // A second start in one process (tests) keeps the first.
    let _ = logs.try_init();
}

/// Replaces these values in all further output.
pub(crate) fn redact(secrets: impl IntoIterator<Item = Secret>) {
    let _ = SECRETS.set(Redactor::new(secrets));
}

struct RedactingWriter {
    as_notices: bool,
}

impl<'a> MakeWriter<'a> for RedactingWriter {
    type Writer = EventBuffer;

    fn make_writer(&'a self) -> Self::Writer {
        EventBuffer {
            bytes: Vec::new(),
            as_notice: self.as_notices,
        }
    }
}

/// One event, written when it is complete.
struct EventBuffer {
    bytes: Vec<u8>,
    as_notice: bool,
}

impl Write for EventBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for EventBuffer {
    fn drop(&mut self) {
        let text = String::from_utf8_lossy(&self.bytes);
        let text = match SECRETS.get() {
            Some(redactor) => redactor.redact(&text),
            None => text,
        };
        if self.as_notice {
            return crate::output::log(text.trim_end().to_owned());
        }
        crate::progress::with_spinner_hidden(|| {
            let _ = io::stderr().lock().write_all(text.as_bytes());
        });
    }
}
