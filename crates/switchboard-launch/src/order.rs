//! The words between the host and the keeper of one server: what to start, what became of it, how
//! to end it.

use std::ffi::{CStr, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::Command;
use super::Exit;

/// Host to keeper: SIGTERM to every descendant.
pub(crate) const TERM: u8 = b'T';
/// Host to keeper: SIGKILL until no descendant is left.
pub(crate) const KILL: u8 = b'K';

/// The kernel takes less than this for arguments and environment together, so more is a mistake.
const LIMIT_BYTES: usize = 16 * 1024 * 1024;
/// Length, number of arguments, number of variables.
const HEAD_BYTES: usize = 12;

/// What a keeper starts: NUL-terminated strings in one buffer, so that it is read once and taken
/// apart without copies.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Order<'a> {
    pub(crate) program: &'a CStr,
    /// Empty: the folder of the launcher, which is the host's at its start.
    pub(crate) cwd: &'a CStr,
    pub(crate) args: Vec<&'a CStr>,
    /// `NAME=value` each.
    pub(crate) env: Vec<&'a CStr>,
}

/// Writes the order down, its length first.
pub(crate) fn encode(command: &Command) -> io::Result<Vec<u8>> {
    let mut text = vec![0; HEAD_BYTES];
    put(&mut text, command.program.as_os_str(), "the program's path")?;
    let folder = command
        .folder
        .as_deref()
        .map_or(OsStr::new(""), Path::as_os_str);
    put(&mut text, folder, "the working folder")?;
    put(&mut text, &command.arg0, "the command")?;
    for argument in &command.args {
        put(&mut text, argument, "an argument")?;
    }
    for (name, value) in &command.env {
        if name.is_empty() || name.as_bytes().iter().any(|byte| b"=\0".contains(byte)) {
            return Err(invalid(format!(
                "{name:?} cannot name an environment variable"
            )));
        }
        text.extend_from_slice(name.as_bytes());
        text.push(b'=');
        put(
            &mut text,
            OsStr::from_bytes(&value.0),
            &format!("the value of the variable {}", name.display()),
        )?;
    }
    if text.len() > LIMIT_BYTES {
        return Err(invalid(format!(
            "arguments and environment are {} bytes; the system takes at most about 2 MiB",
            text.len()
        )));
    }
    let body = (text.len() - 4) as u32;
    text[0..4].copy_from_slice(&body.to_le_bytes());
    text[4..8].copy_from_slice(&(command.args.len() as u32 + 1).to_le_bytes());
    text[8..12].copy_from_slice(&(command.env.len() as u32).to_le_bytes());
    Ok(text)
}

/// Reads one order off a blocking stream. It holds secrets: whoever took it apart wipes it.
pub(crate) fn read(from: &mut impl io::Read) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if !(HEAD_BYTES - 4..=LIMIT_BYTES).contains(&length) {
        return Err(invalid("an order of impossible length".to_owned()));
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body)?;
    Ok(body)
}

/// Takes an order apart that [`read`] returned.
pub(crate) fn decode(body: &[u8]) -> Option<Order<'_>> {
    let args_count = u32::from_le_bytes(body.get(0..4)?.try_into().ok()?) as usize;
    let env_count = u32::from_le_bytes(body.get(4..8)?.try_into().ok()?) as usize;
    let mut rest = body.get(8..)?;
    let mut next = || {
        let text = CStr::from_bytes_until_nul(rest).ok()?;
        rest = &rest[text.to_bytes_with_nul().len()..];
        Some(text)
    };
    let program = next()?;
    let cwd = next()?;
    let args = (0..args_count)
        .map(|_| next())
        .collect::<Option<Vec<_>>>()?;
    let env = (0..env_count).map(|_| next()).collect::<Option<Vec<_>>>()?;
    Some(Order {
        program,
        cwd,
        args,
        env,
    })
}

/// What a keeper tells the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Report {
    /// The program runs.
    Started { pid: i32 },
    /// It does not.
    Failed { step: Step, errno: i32 },
    /// The server itself ended; its descendants may still run.
    Exited(Exit),
    /// No descendant is left.
    Gone,
}

/// What was being done when a start failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The launcher forks a keeper.
    Keeper,
    /// The keeper forks the server.
    Fork,
    /// A session of its own, its descriptors, its signals.
    Prepare,
    /// Its working folder.
    Folder,
    /// Its program.
    Program,
}

impl Step {
    const ALL: [Self; 5] = [
        Self::Keeper,
        Self::Fork,
        Self::Prepare,
        Self::Folder,
        Self::Program,
    ];

    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte)).copied()
    }
}

/// The length of every report.
pub(crate) const REPORT_BYTES: usize = 9;

impl Report {
    pub(crate) fn encode(self) -> [u8; REPORT_BYTES] {
        let (tag, first, second) = match self {
            Self::Started { pid } => (b'S', pid, 0),
            Self::Failed { step, errno } => (b'F', step as i32, errno),
            Self::Exited(Exit::Status(status)) => (b'X', status, 0),
            Self::Exited(Exit::Signal(signal)) => (b'G', signal, 0),
            Self::Exited(Exit::Unknown) => (b'U', 0, 0),
            Self::Gone => (b'0', 0, 0),
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
                step: Step::from_byte(u8::try_from(first).ok()?)?,
                errno: second,
            },
            b'X' => Self::Exited(Exit::Status(first)),
            b'G' => Self::Exited(Exit::Signal(first)),
            b'U' => Self::Exited(Exit::Unknown),
            b'0' => Self::Gone,
            _ => return None,
        })
    }
}

fn put(text: &mut Vec<u8>, part: &OsStr, what: &str) -> io::Result<()> {
    if part.as_bytes().contains(&0) {
        return Err(invalid(format!(
            "{what} holds a NUL character, which no program can be given"
        )));
    }
    text.extend_from_slice(part.as_bytes());
    text.push(0);
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
    fn an_order_arrives_as_it_was_given() {
        let text = encode(&command()).unwrap();
        let body = read(&mut text.as_slice()).unwrap();
        let expected = Order {
            program: c"/bin/echo",
            cwd: c"/tmp",
            args: vec![c"echo", c"", c"; $( ) && \n"],
            env: vec![c"A==1=", c"B="],
        };
        assert_eq!(decode(&body), Some(expected));
    }

    #[test]
    fn what_no_program_can_be_given_is_refused_by_name() {
        let check = |change: fn(Command) -> Command, expected: &str| {
            assert_eq!(
                encode(&change(command())).unwrap_err().to_string(),
                expected
            );
        };
        check(
            |command| command.arg("a\0b"),
            "an argument holds a NUL character, which no program can be given",
        );
        check(
            |command| command.env("A=B", "x"),
            "\"A=B\" cannot name an environment variable",
        );
        check(
            |command| command.env("A", "\0"),
            "the value of the variable A holds a NUL character, which no program can be given",
        );
    }

    #[test]
    fn a_report_arrives_as_it_was_given() {
        let mut reports = vec![
            Report::Started { pid: 70_000 },
            Report::Exited(Exit::Status(255)),
            Report::Exited(Exit::Signal(9)),
            Report::Exited(Exit::Unknown),
            Report::Gone,
        ];
        reports.extend(Step::ALL.map(|step| Report::Failed { step, errno: 2 }));
        for report in reports {
            assert_eq!(Report::decode(report.encode()), Some(report));
        }
    }

    #[test]
    fn a_damaged_order_is_no_order() {
        let body = encode(&command()).unwrap().split_off(4);
        for cut in 0..body.len() {
            assert_eq!(decode(&body[..cut]), None, "cut at {cut}");
        }
    }
}
