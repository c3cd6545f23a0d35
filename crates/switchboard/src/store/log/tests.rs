#![allow(clippy::unwrap_used)]
use std::os::unix::fs::symlink;
use std::time::Duration;

use super::*;
use crate::secret::Secret;

fn name() -> ServerName {
    ServerName::new("files").unwrap()
}

/// The last lines, without their timestamps.
fn tail(folder: &Path, count: usize) -> Vec<String> {
    let lines = LogFile::read_tail(folder, &name(), count).unwrap();
    lines
        .iter()
        .map(|line| line.raw().split_once(' ').unwrap().1.to_owned())
        .collect()
}

#[test]
fn timestamps_are_utc_dates() {
    let check = |seconds: u64, expected: &str| {
        assert_eq!(
            timestamp(
                SystemTime::UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_millis(7)
            ),
            expected
        );
    };
    check(0, "1970-01-01T00:00:00.007Z");
    check(951_782_399, "2000-02-28T23:59:59.007Z");
    check(951_782_400, "2000-02-29T00:00:00.007Z");
    check(1_794_735_000, "2026-11-15T09:30:00.007Z");
    check(4_107_542_400, "2100-03-01T00:00:00.007Z");
}

#[test]
fn written_lines_are_read_back() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(tail(folder.path(), 9), Vec::<String>::new());
    let log = LogFile::open(folder.path(), &name()).unwrap();
    let mut writer = log.writer(LogStream::Stderr);
    writer.push(b"one\r\ntw");
    log.write(LogStream::Note, "exited with status 1");
    writer.push(b"o\n\x1b[2Jthree");
    drop(writer);
    let all = [
        "stderr one",
        "note exited with status 1",
        "stderr two",
        "stderr \\u{1b}[2Jthree",
    ];
    assert_eq!(tail(folder.path(), 9), all);
    assert_eq!(tail(folder.path(), 2), all[2..]);
}

#[test]
fn t25_secrets_never_reach_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let log = LogFile::open(folder.path(), &name()).unwrap();
    log.redact_with(Redactor::new([Secret::new("hunter22")]));
    let mut writer = log.writer(LogStream::Stderr);
    writer.push(b"token hunt");
    writer.push(b"er22\n");
    // A long line, cut in the middle of a secret.
    writer.push(format!("{}hunter22{}\n", "x".repeat(8 * 1024 - 4), "y".repeat(100)).as_bytes());
    drop(writer);
    let written = fs::read_to_string(path(folder.path(), &name())).unwrap();
    assert!(written.contains("stderr token [secret]\n"), "{written}");
    assert!(!written.contains("hunt"), "{written}");
}

/// F11: a flood uses at most two files of 1 MiB, and the dropped lines are counted.
#[test]
fn f11_a_flood_is_limited_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let log = LogFile::open(folder.path(), &name()).unwrap();
    // Freezes the clock of the rate limit: what it would allow over time on a slow machine would be
    // rotated away, and could not be counted here.
    log.state().counted_at += Duration::from_secs(3600);
    let mut writer = log.writer(LogStream::Stderr);
    let chunk = "0123456789abcde\n".repeat(4096);
    for _ in 0..400 {
        writer.push(chunk.as_bytes());
    }
    drop(writer);
    let path = path(folder.path(), &name());
    let sizes = (
        fs::metadata(&path).unwrap().len(),
        fs::metadata(rotated(&path)).unwrap().len(),
    );
    assert!(
        sizes.0 <= ROTATE_BYTES && sizes.1 <= ROTATE_BYTES,
        "{sizes:?}"
    );
    let (mut written, mut left_out) = (0, 0);
    for line in tail(folder.path(), usize::MAX) {
        match line.strip_prefix("note … ") {
            Some(count) => {
                left_out += count
                    .strip_suffix(" lines left out")
                    .unwrap()
                    .parse::<usize>()
                    .unwrap()
            }
            None => written += 1,
        }
    }
    assert_eq!(written + left_out, 400 * 4096);
}

/// T35: whatever the umask, and whatever file was planted.
#[test]
fn t35_the_log_is_private_and_follows_no_link() {
    let folder = tempfile::tempdir().unwrap();
    drop(LogFile::open(folder.path(), &name()).unwrap());
    let path = path(folder.path(), &name());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(
        (mode(&folder.path().join("logs")), mode(&path)),
        (0o700, 0o600)
    );

    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    drop(LogFile::open(folder.path(), &name()).unwrap());
    assert_eq!(mode(&path), 0o600);

    let target = folder.path().join("target");
    fs::write(&target, "precious").unwrap();
    fs::remove_file(&path).unwrap();
    symlink(&target, &path).unwrap();
    let error = LogFile::open(folder.path(), &name()).unwrap_err();
    assert_eq!(
        error.to_string(),
        with_path(&path, &io::Error::from_raw_os_error(libc::ELOOP)).to_string()
    );
    assert!(LogFile::read_tail(folder.path(), &name(), 1).is_err());
    assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
}

#[test]
fn a_log_resumes_once_it_can_be_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let log = LogFile::open(folder.path(), &name()).unwrap();
    // As after a rotation that failed half-way, with another file in its place.
    log.state().file = None;
    let path = path(folder.path(), &name());
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    log.write(LogStream::Stderr, "lost\nlost too\n");
    fs::remove_dir(&path).unwrap();
    log.write(LogStream::Stderr, "found\n");
    assert_eq!(
        tail(folder.path(), 9),
        ["note … 2 lines left out", "stderr found"]
    );
}

/// F11: log messages without pause use a part of the burst; the rest is left to stderr.
#[test]
fn f11_log_messages_do_not_replace_stderr() {
    let folder = tempfile::tempdir().unwrap();
    let log = LogFile::open(folder.path(), &name()).unwrap();
    log.state().counted_at += Duration::from_secs(3600);
    let text = "0123456789abcdef".repeat(8);
    let messages = (0..10_000).filter(|_| log.has_room_for_message());
    let written = messages
        .map(|_| log.write(LogStream::Message, &text))
        .count();
    let bytes = fs::metadata(path(folder.path(), &name())).unwrap().len();
    assert!(bytes < 66 * 1024, "{bytes}");
    log.writer(LogStream::Stderr).push(b"the reason\n");
    assert_eq!(
        tail(folder.path(), 2),
        [
            format!("note … {} lines left out", 10_000 - written),
            "stderr the reason".to_owned()
        ]
    );
}
