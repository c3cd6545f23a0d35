//! What host and keeper exchange: a request to start a child, reports about it, and single bytes
//! that ask for its end.

use std::ffi::{CStr, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::{Command, Exit};

/// Host to keeper: SIGTERM to every descendant.
pub(crate) const TERMINATE: u8 = b'T';
/// Host to keeper: SIGKILL until no descendant is left.
pub(crate) const KILL: u8 = b'K';

/// Far above what the kernel accepts for arguments and environment together.
const MAX_REQUEST_BYTES: usize = 16 * 1024 * 1024;
/// Length, number of arguments, number of variables.
const HEADER_BYTES: usize = 12;

/// What a keeper is to start. It borrows from the buffer that was read: NUL-terminated strings, as
/// `execve` takes them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SpawnRequest<'a> {
    pub(crate) program: &'a CStr,
    /// Empty for the folder in which the launcher process was started.
    pub(crate) folder: &'a CStr,
    pub(crate) args: Vec<&'a CStr>,
    /// `NAME=value` each.
    pub(crate) env: Vec<&'a CStr>,
}

/// Encodes a request: its length, the number of arguments and of variables, then the strings.
pub(crate) fn encode(command: &Command) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0; HEADER_BYTES];
    put(
        &mut buffer,
        command.program.as_os_str(),
        "the program's path",
    )?;
    let folder = command
        .folder
        .as_deref()
        .map_or(OsStr::new(""), Path::as_os_str);
    put(&mut buffer, folder, "the working folder")?;
    put(&mut buffer, &command.arg0, "the command")?;
    for argument in &command.args {
        put(&mut buffer, argument, "an argument")?;
    }
    for (name, value) in &command.env {
        if name.is_empty() || name.as_bytes().iter().any(|byte| b"=\0".contains(byte)) {
            return Err(invalid(format!(
                "{name:?} is not a valid name for an environment variable"
            )));
        }
        buffer.extend_from_slice(name.as_bytes());
        buffer.push(b'=');
        put(
            &mut buffer,
            OsStr::from_bytes(&value.0),
            &format!("the value of the variable {}", name.display()),
        )?;
    }
    if buffer.len() > MAX_REQUEST_BYTES {
        return Err(invalid(format!(
            "arguments and environment are {} bytes; the system takes at most about 2 MiB",
            buffer.len()
        )));
    }
    let body = (buffer.len() - 4) as u32;
    buffer[0..4].copy_from_slice(&body.to_le_bytes());
    buffer[4..8].copy_from_slice(&(command.args.len() as u32 + 1).to_le_bytes());
    buffer[8..12].copy_from_slice(&(command.env.len() as u32).to_le_bytes());
    Ok(buffer)
}

/// Reads one request, without its length, from a blocking stream. It contains secrets: the caller
/// overwrites it after use.
pub(crate) fn read(stream: &mut impl io::Read) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if !(HEADER_BYTES - 4..=MAX_REQUEST_BYTES).contains(&length) {
        return Err(invalid("a spawn request of invalid length".to_owned()));
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok(body)
}

/// Decodes what [`read`] returned.
pub(crate) fn decode(body: &[u8]) -> Option<SpawnRequest<'_>> {
    let args_count = u32::from_le_bytes(body.get(0..4)?.try_into().ok()?) as usize;
    let env_count = u32::from_le_bytes(body.get(4..8)?.try_into().ok()?) as usize;
    let mut rest = body.get(8..)?;
    let mut next = || {
        let text = CStr::from_bytes_until_nul(rest).ok()?;
        rest = &rest[text.to_bytes_with_nul().len()..];
        Some(text)
    };
    let program = next()?;
    let folder = next()?;
    let args = (0..args_count)
        .map(|_| next())
        .collect::<Option<Vec<_>>>()?;
    let env = (0..env_count).map(|_| next()).collect::<Option<Vec<_>>>()?;
    Some(SpawnRequest {
        program,
        folder,
        args,
        env,
    })
}

/// What a keeper reports to the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeeperReport {
    /// The program runs.
    Started { pid: i32 },
    /// It could not be started.
    Failed { step: SpawnStep, errno: i32 },
    /// The child itself ended; its descendants may still run.
    Exited(Exit),
    /// No descendant is left.
    AllEnded,
}

/// The steps of starting a child, for the report of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpawnStep {
    /// The launcher process forks a keeper.
    ForkKeeper,
    /// The keeper forks the child.
    ForkChild,
    /// The child's session, descriptors and signals.
    Prepare,
    /// The child's working folder.
    ChangeFolder,
    /// The child's program.
    Exec,
}

impl SpawnStep {
    const ALL: [Self; 5] = [
        Self::ForkKeeper,
        Self::ForkChild,
        Self::Prepare,
        Self::ChangeFolder,
        Self::Exec,
    ];

    fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte)).copied()
    }
}

/// The length of every encoded report.
pub(crate) const REPORT_BYTES: usize = 9;

impl KeeperReport {
    pub(crate) fn encode(self) -> [u8; REPORT_BYTES] {
        let (tag, first, second) = match self {
            Self::Started { pid } => (b'S', pid, 0),
            Self::Failed { step, errno } => (b'F', step as i32, errno),
            Self::Exited(Exit::Status(status)) => (b'X', status, 0),
            Self::Exited(Exit::Signal(signal)) => (b'G', signal, 0),
            Self::Exited(Exit::Unknown) => (b'U', 0, 0),
            Self::AllEnded => (b'0', 0, 0),
        };
        let mut bytes = [tag; REPORT_BYTES];
        bytes[1..5].copy_from_slice(&first.to_le_bytes());
        bytes[5..9].copy_from_slice(&second.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: [u8; REPORT_BYTES]) -> Option<Self> {
        let [tag, a, b, c, d, e, f, g, h] = bytes;
        let (first, second) = (
            i32::from_le_bytes([a, b, c, d]),
            i32::from_le_bytes([e, f, g, h]),
        );
        Some(match tag {
            b'S' => Self::Started { pid: first },
            b'F' => Self::Failed {
                step: SpawnStep::from_byte(u8::try_from(first).ok()?)?,
                errno: second,
            },
            b'X' => Self::Exited(Exit::Status(first)),
            b'G' => Self::Exited(Exit::Signal(first)),
            b'U' => Self::Exited(Exit::Unknown),
            b'0' => Self::AllEnded,
            _ => return None,
        })
    }
}

/// Appends a string and its NUL.
fn put(buffer: &mut Vec<u8>, text: &OsStr, what: &str) -> io::Result<()> {
    if text.as_bytes().contains(&0) {
        return Err(invalid(format!(
            "{what} contains a NUL character, which the system does not allow"
        )));
    }
    buffer.extend_from_slice(text.as_bytes());
    buffer.push(0);
    Ok(())
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn command() -> Command {
        Command::new("/bin/echo")
            .arg0("echo")
            .args(["", "; $( ) && \n"])
            .envs([("A", "=1="), ("B", "")])
            .current_dir("/tmp")
    }

    #[test]
    fn a_request_is_decoded_as_it_was_encoded() {
        let text = encode(&command()).unwrap();
        let body = read(&mut text.as_slice()).unwrap();
        let expected = SpawnRequest {
            program: c"/bin/echo",
            folder: c"/tmp",
            args: vec![c"echo", c"", c"; $( ) && \n"],
            env: vec![c"A==1=", c"B="],
        };
        assert_eq!(decode(&body), Some(expected));
    }

    #[test]
    fn an_invalid_argument_or_variable_is_refused_by_name() {
        let check = |change: fn(Command) -> Command, expected: &str| {
            assert_eq!(
                encode(&change(command())).unwrap_err().to_string(),
                expected
            );
        };
        check(
            |command| command.arg("a\0b"),
            "an argument contains a NUL character, which the system does not allow",
        );
        check(
            |command| command.env("A=B", "x"),
            "\"A=B\" is not a valid name for an environment variable",
        );
        check(
            |command| command.env("A", "\0"),
            "the value of the variable A contains a NUL character, which the system does not allow",
        );
    }

    #[test]
    fn a_report_is_decoded_as_it_was_encoded() {
        let mut reports = vec![
            KeeperReport::Started { pid: 70_000 },
            KeeperReport::Exited(Exit::Status(255)),
            KeeperReport::Exited(Exit::Signal(9)),
            KeeperReport::Exited(Exit::Unknown),
            KeeperReport::AllEnded,
        ];
        reports.extend(SpawnStep::ALL.map(|step| KeeperReport::Failed { step, errno: 2 }));
        for report in reports {
            assert_eq!(KeeperReport::decode(report.encode()), Some(report));
        }
    }

    #[test]
    fn a_truncated_request_is_refused() {
        let body = encode(&command()).unwrap().split_off(4);
        for cut in 0..body.len() {
            assert_eq!(decode(&body[..cut]), None, "cut at {cut}");
        }
    }
}
