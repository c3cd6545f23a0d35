//! A small client of the D-Bus: calls methods and waits for signals, one at a time, blocking.
//!
//! `message` writes and reads the bytes of a message. Only what the Secret Service needs is here:
//! no file descriptors, no objects of our own.

use std::io::{self, BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

pub(super) use message::{BodyReader, MessageBody};
use message::{DbusMessageKind, Message};

mod message;

/// The path of an object on the bus.
pub(super) type ObjectPath = String;

/// How long a message may take: longer than anyone waits for the keyring, so that the thread of
/// a call that was given up ends too.
const MESSAGE_WAIT: Duration = Duration::from_secs(60);

/// The longest message that is read.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// Why a call failed.
#[derive(Debug)]
pub(super) enum BusFault {
    /// There is no bus to connect to.
    Unavailable,
    /// The other side answered with an error.
    Refused {
        name: String,
        message: String,
    },
    Io(io::Error),
    Malformed,
    /// One line, safe to show.
    Other(&'static str),
}

impl From<io::Error> for BusFault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The sockets at which the session bus may be.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BusAddress(Vec<Socket>);

#[derive(Debug, PartialEq, Eq)]
enum Socket {
    Path(PathBuf),
    /// A name without a file (Linux).
    Abstract(Vec<u8>),
}

impl BusAddress {
    /// The bus of this process's session, as each program finds it.
    pub(super) fn of_session() -> Result<Self, BusFault> {
        if let Some(address) = std::env::var_os("DBUS_SESSION_BUS_ADDRESS") {
            return Ok(Self::parse(&address.to_string_lossy()));
        }
        let folder = std::env::var_os("XDG_RUNTIME_DIR").ok_or(BusFault::Unavailable)?;
        Ok(Self(vec![Socket::Path(PathBuf::from(folder).join("bus"))]))
    }

    /// `unix:path=…;unix:abstract=…`: the other kinds of addresses are not used for sessions.
    fn parse(text: &str) -> Self {
        let sockets = text.split(';').filter_map(|address| {
            let mut fields = address.strip_prefix("unix:")?.split(',');
            fields.find_map(|field| match field.split_once('=')? {
                ("path", path) => {
                    let path = unescaped(path)?;
                    Some(Socket::Path(std::ffi::OsStr::from_bytes(&path).into()))
                }
                ("abstract", name) => Some(Socket::Abstract(unescaped(name)?)),
                _ => None,
            })
        });
        Self(sockets.collect())
    }
}

/// The value of an address's field: `%20` is a byte.
fn unescaped(value: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte == b'%' {
            let digits = rest.split_off(..2)?;
            bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    Some(bytes)
}

/// A connection to a bus.
pub(super) struct BusConnection {
    stream: BufReader<UnixStream>,
    last_serial: u32,
    /// Signals that came while a response was awaited.
    signals: Vec<Message>,
}

impl BusConnection {
    pub(super) fn connect(address: &BusAddress) -> Result<Self, BusFault> {
        let stream = address.0.iter().find_map(|socket| connect(socket).ok());
        Self::open(stream.ok_or(BusFault::Unavailable)?)
    }

    /// Authenticates as this process's user, and says hello.
    pub(super) fn open(stream: UnixStream) -> Result<Self, BusFault> {
        stream.set_read_timeout(Some(MESSAGE_WAIT))?;
        stream.set_write_timeout(Some(MESSAGE_WAIT))?;
        let mut connection = Self {
            stream: BufReader::new(stream),
            last_serial: 0,
            signals: Vec::new(),
        };
        let user = nix::unistd::Uid::effective().to_string();
        let user = data_encoding::HEXLOWER.encode(user.as_bytes());
        connection.write(format!("\0AUTH EXTERNAL {user}\r\n").as_bytes())?;
        if !connection.read_line()?.starts_with("OK ") {
            return Err(BusFault::Other("the D-Bus does not admit this user"));
        }
        connection.write(b"BEGIN\r\n")?;
        connection.bus_call("Hello", &MessageBody::new(""), "s")?;
        Ok(connection)
    }

    /// Calls a method; the body of its response must have the signature `returns`.
    pub(super) fn call(
        &mut self,
        destination: &str,
        path: &str,
        interface: &str,
        member: &str,
        body: &MessageBody,
        returns: &'static str,
    ) -> Result<BodyReader, BusFault> {
        self.last_serial += 1;
        let serial = self.last_serial;
        let message = message::method_call(serial, destination, path, interface, member, body);
        self.write(&message)?;
        loop {
            let message = self.read_message()?;
            match message.kind {
                DbusMessageKind::Return if message.reply_serial == Some(serial) => {
                    return message.body(returns);
                }
                DbusMessageKind::Error if message.reply_serial == Some(serial) => {
                    return Err(message.into_refusal());
                }
                DbusMessageKind::Signal => self.signals.push(message),
                _ => {}
            }
        }
    }

    /// From now on signals of this kind are received.
    pub(super) fn subscribe(&mut self, interface: &str, member: &str) -> Result<(), BusFault> {
        let mut body = MessageBody::new("s");
        body.string(&format!(
            "type='signal',interface='{interface}',member='{member}'"
        ));
        self.bus_call("AddMatch", &body, "").map(drop)
    }

    /// Waits for a signal of an object with a boolean and a variant; earlier ones are dropped.
    pub(super) fn wait_for_signal(
        &mut self,
        path: &str,
        interface: &str,
        member: &str,
    ) -> Result<BodyReader, BusFault> {
        loop {
            let mut received = std::mem::take(&mut self.signals).into_iter();
            if let Some(signal) = received.find(|signal| signal.is_signal(path, interface, member))
            {
                return signal.body("bv");
            }
            let message = self.read_message()?;
            if message.kind == DbusMessageKind::Signal {
                self.signals.push(message);
            }
        }
    }

    fn bus_call(
        &mut self,
        member: &str,
        body: &MessageBody,
        returns: &'static str,
    ) -> Result<BodyReader, BusFault> {
        const BUS: &str = "org.freedesktop.DBus";
        self.call(BUS, "/org/freedesktop/DBus", BUS, member, body, returns)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), BusFault> {
        Ok(self.stream.get_mut().write_all(bytes)?)
    }

    /// A line of the authentication.
    fn read_line(&mut self) -> Result<String, BusFault> {
        const MAX_LINE_BYTES: usize = 1024;
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let mut byte = [0];
            self.stream.read_exact(&mut byte)?;
            line.push(byte[0]);
            if line.len() > MAX_LINE_BYTES {
                return Err(BusFault::Malformed);
            }
        }
        String::from_utf8(line).map_err(|_| BusFault::Malformed)
    }

    fn read_message(&mut self) -> Result<Message, BusFault> {
        read_message(&mut self.stream)
    }
}

fn read_message(stream: &mut impl Read) -> Result<Message, BusFault> {
    let mut head = [0; message::FIXED_BYTES];
    stream.read_exact(&mut head)?;
    let rest = message::bytes_after(&head).filter(|&rest| rest <= MAX_BYTES);
    let mut bytes = head.to_vec();
    bytes.resize(head.len() + rest.ok_or(BusFault::Malformed)?, 0);
    stream.read_exact(&mut bytes[head.len()..])?;
    Message::parse(bytes)
}

fn connect(socket: &Socket) -> io::Result<UnixStream> {
    match socket {
        Socket::Path(path) => UnixStream::connect(path),
        #[cfg(target_os = "linux")]
        Socket::Abstract(name) => {
            use std::os::linux::net::SocketAddrExt;
            let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
            UnixStream::connect_addr(&address)
        }
        #[cfg(not(target_os = "linux"))]
        Socket::Abstract(_) => Err(io::ErrorKind::Unsupported.into()),
    }
}

#[cfg(test)]
pub(super) mod fake_bus;
#[cfg(test)]
mod tests;
