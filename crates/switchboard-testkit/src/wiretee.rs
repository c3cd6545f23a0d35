//! `wiretee --record FILE -- COMMAND ARGUMENTS…`: runs a stdio server and records every line in
//! both directions.
//!
//! Bytes pass unchanged; stderr is the command's own; end of file, signals and exit status are
//! passed on. In FILE a line to the command starts with `> `, one from it with `< `, and a last one
//! without a newline with `>~` or `<~`. A line is recorded before it is passed on, so its receiver
//! finds it in the record.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal, kill, raise};
use nix::unistd::Pid;

/// How long stdout may stay open after the command has ended: a child of it may hold it forever.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);

fn main() {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [flag, path, dashes, program, rest @ ..] = arguments.as_slice() else {
        fail("usage: wiretee --record FILE -- COMMAND ARGUMENTS…")
    };
    if flag != "--record" || dashes != "--" {
        fail("usage: wiretee --record FILE -- COMMAND ARGUMENTS…");
    }
    let file = match OpenOptions::new().append(true).create(true).open(path) {
        Ok(file) => Arc::new(Mutex::new(file)),
        Err(error) => fail(&format!("cannot record to {}: {error}", path.display())),
    };
    // Blocked before any thread exists, so that only the thread that waits for them gets them; the
    // command starts with none blocked.
    let signals = SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP]);
    if let Err(error) = signals.thread_block() {
        fail(&format!("cannot block signals: {error}"));
    }
    match Command::new(program)
        .args(rest)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
    {
        Ok(child) => end_like(tee(child, &file, signals)),
        Err(error) => fail(&format!("cannot start {}: {error}", program.display())),
    }
}

fn fail(message: &str) -> ! {
    eprintln!("wiretee: {message}");
    std::process::exit(2);
}

fn tee(mut child: Child, file: &Arc<Mutex<File>>, signals: SigSet) -> ExitStatus {
    let to_command = child.stdin.take().expect("stdin was piped");
    let from_command = child.stdout.take().expect("stdout was piped");
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("a pid fits"));
    std::thread::spawn(move || {
        while let Ok(signal) = signals.wait() {
            // It may have ended just now.
            let _ = kill(pid, signal);
        }
    });
    let (to_record, from_record) = (Arc::clone(file), Arc::clone(file));
    std::thread::spawn(move || pump(std::io::stdin(), to_command, b'>', &to_record));
    let (drained, all_passed) = mpsc::channel();
    std::thread::spawn(move || {
        pump(from_command, Unbuffered, b'<', &from_record);
        close_stdout();
        // The other end is gone when the command ended long ago.
        let _ = drained.send(());
    });
    let status = child
        .wait()
        .unwrap_or_else(|error| fail(&format!("cannot wait for the command: {error}")));
    let _ = all_passed.recv_timeout(DRAIN_TIMEOUT);
    status
}

/// Passes bytes on until either side ends; dropping both closes them for the other side.
fn pump(mut from: impl Read, mut to: impl Write, mark: u8, file: &Mutex<File>) {
    let mut buffer = vec![0; 64 * 1024];
    let mut line = Vec::new();
    loop {
        let length = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        for part in buffer[..length].split_inclusive(|byte| *byte == b'\n') {
            line.extend_from_slice(part);
            if line.ends_with(b"\n") {
                write_down(file, [mark, b' '], &line);
                line.clear();
            }
        }
        if to
            .write_all(&buffer[..length])
            .and_then(|()| to.flush())
            .is_err()
        {
            break;
        }
    }
    if !line.is_empty() {
        line.push(b'\n');
        write_down(file, [mark, b'~'], &line);
    }
}

fn write_down(file: &Mutex<File>, mark: [u8; 2], line: &[u8]) {
    let entry = [&mark, line].concat();
    if let Err(error) = file
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .write_all(&entry)
    {
        fail(&format!("cannot record: {error}"));
    }
}

/// Stdout past Rust's line buffer: what has no newline passes at once too.
struct Unbuffered;

impl Write for Unbuffered {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        nix::unistd::write(std::io::stdout(), bytes).map_err(Into::into)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Closes stdout when the command has closed its own, even if it keeps running.
fn close_stdout() {
    if let Ok(null) = OpenOptions::new().write(true).open("/dev/null") {
        let _ = nix::unistd::dup2_stdout(null);
    }
}

/// Ends with the same status, or by the same signal.
fn end_like(status: ExitStatus) -> ! {
    if let Some(signal) = status
        .signal()
        .and_then(|number| Signal::try_from(number).ok())
    {
        let _ = SigSet::from_iter([signal]).thread_unblock();
        let _ = raise(signal);
    }
    std::process::exit(status.code().unwrap_or(1));
}
