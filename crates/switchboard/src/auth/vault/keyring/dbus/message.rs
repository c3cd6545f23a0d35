//! The bytes of a D-Bus message: a header with fields, then the body that its signature describes.
//! Each value is aligned to its own size, counted from the beginning of the message.

use super::{BusFault, ObjectPath};

/// The bytes of a header that always have the same place.
pub(super) const FIXED_BYTES: usize = 16;

/// The fields of a header.
pub(super) const PATH: u8 = 1;
pub(super) const INTERFACE: u8 = 2;
pub(super) const MEMBER: u8 = 3;
pub(super) const ERROR_NAME: u8 = 4;
const REPLY_SERIAL: u8 = 5;
const DESTINATION: u8 = 6;
const SIGNATURE: u8 = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DbusMessageKind {
    Call = 1,
    Return = 2,
    Error = 3,
    Signal = 4,
}

/// The body of a message that we send, little-endian.
#[derive(Debug)]
pub(in super::super) struct MessageBody {
    signature: &'static str,
    bytes: Vec<u8>,
}

impl MessageBody {
    pub(in super::super) fn new(signature: &'static str) -> Self {
        Self {
            signature,
            bytes: Vec::new(),
        }
    }

    /// Structures and entries of dictionaries begin at a multiple of eight.
    pub(in super::super) fn align(&mut self, size: usize) {
        self.bytes
            .resize(self.bytes.len().next_multiple_of(size), 0);
    }

    /// A text or an object path.
    pub(in super::super) fn string(&mut self, text: &str) {
        self.number(text.len() as u32);
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.push(0);
    }

    pub(in super::super) fn signature(&mut self, signature: &str) {
        self.bytes.push(signature.len() as u8);
        self.bytes.extend_from_slice(signature.as_bytes());
        self.bytes.push(0);
    }

    pub(in super::super) fn string_variant(&mut self, text: &str) {
        self.signature("s");
        self.string(text);
    }

    pub(in super::super) fn boolean(&mut self, value: bool) {
        self.number(value.into());
    }

    pub(in super::super) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u32);
        self.bytes.extend_from_slice(bytes);
    }

    /// An array whose elements have this alignment; its length counts no padding before the first.
    pub(in super::super) fn array(&mut self, alignment: usize, elements: impl FnOnce(&mut Self)) {
        self.number(0);
        let length_at = self.bytes.len() - 4;
        self.align(alignment);
        let start = self.bytes.len();
        elements(self);
        let length = (self.bytes.len() - start) as u32;
        self.bytes[length_at..length_at + 4].copy_from_slice(&length.to_le_bytes());
    }

    fn number(&mut self, number: u32) {
        self.align(4);
        self.bytes.extend_from_slice(&number.to_le_bytes());
    }
}

/// A method call, ready to be sent.
pub(super) fn method_call(
    serial: u32,
    destination: &str,
    path: &str,
    interface: &str,
    member: &str,
    body: &MessageBody,
) -> Vec<u8> {
    let fields = [
        (PATH, "o", path),
        (INTERFACE, "s", interface),
        (MEMBER, "s", member),
        (DESTINATION, "s", destination),
    ];
    write(DbusMessageKind::Call, serial, None, &fields, body)
}

/// A message with these fields, and those of its body and its reply serial.
pub(super) fn write(
    kind: DbusMessageKind,
    serial: u32,
    reply_serial: Option<u32>,
    fields: &[(u8, &'static str, &str)],
    body: &MessageBody,
) -> Vec<u8> {
    const PROTOCOL_VERSION: u8 = 1;
    let mut message = MessageBody::new("");
    message.bytes = vec![b'l', kind as u8, 0, PROTOCOL_VERSION];
    message.number(body.bytes.len() as u32);
    message.number(serial);
    message.array(8, |header| {
        for &(field, signature, value) in fields {
            header.align(8);
            header.bytes.push(field);
            header.signature(signature);
            header.string(value);
        }
        if let Some(serial) = reply_serial {
            header.align(8);
            header.bytes.push(REPLY_SERIAL);
            header.signature("u");
            header.number(serial);
        }
        if !body.signature.is_empty() {
            header.align(8);
            header.bytes.push(SIGNATURE);
            header.signature("g");
            header.signature(body.signature);
        }
    });
    message.align(8);
    message.bytes.extend_from_slice(&body.bytes);
    message.bytes
}

/// How many bytes of a message follow the fixed ones.
pub(super) fn bytes_after(head: &[u8; FIXED_BYTES]) -> Option<usize> {
    let mut reader = BodyReader::new(head.to_vec(), 4, head[0]);
    let body = reader.number().ok()? as usize;
    reader.number().ok()?;
    let fields = reader.number().ok()? as usize;
    fields.checked_next_multiple_of(8)?.checked_add(body)
}

/// A message that arrived.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) kind: DbusMessageKind,
    pub(super) reply_serial: Option<u32>,
    #[cfg_attr(
        not(test),
        allow(
            dead_code,
            reason = "we answer no calls, only the fake bus of the tests does"
        )
    )]
    pub(super) serial: u32,
    pub(super) path: String,
    interface: String,
    pub(super) member: String,
    error_name: String,
    signature: String,
    body: BodyReader,
}

impl Message {
    pub(super) fn parse(bytes: Vec<u8>) -> Result<Self, BusFault> {
        let order = *bytes.first().ok_or(BusFault::Malformed)?;
        let kind = match bytes.get(1) {
            Some(1) => DbusMessageKind::Call,
            Some(2) => DbusMessageKind::Return,
            Some(3) => DbusMessageKind::Error,
            Some(4) => DbusMessageKind::Signal,
            _ => return Err(BusFault::Malformed),
        };
        let mut reader = BodyReader::new(bytes, 8, order);
        let serial = reader.number()?;
        let end = FIXED_BYTES + reader.number()? as usize;
        let mut message = Self {
            kind,
            reply_serial: None,
            serial,
            path: String::new(),
            interface: String::new(),
            member: String::new(),
            error_name: String::new(),
            signature: String::new(),
            body: BodyReader::new(Vec::new(), 0, order),
        };
        while reader.at < end {
            reader.align(8)?;
            let field = reader.byte()?;
            let text = match &*reader.signature()? {
                "s" | "o" => reader.text()?,
                "g" => reader.signature()?,
                "u" => {
                    let number = reader.number()?;
                    if field == REPLY_SERIAL {
                        message.reply_serial = Some(number);
                    }
                    continue;
                }
                _ => return Err(BusFault::Malformed),
            };
            match field {
                PATH => message.path = text,
                INTERFACE => message.interface = text,
                MEMBER => message.member = text,
                ERROR_NAME => message.error_name = text,
                SIGNATURE => message.signature = text,
                _ => {}
            }
        }
        reader.align(8)?;
        message.body = reader;
        Ok(message)
    }

    pub(super) fn is_signal(&self, path: &str, interface: &str, member: &str) -> bool {
        self.kind == DbusMessageKind::Signal
            && (&*self.path, &*self.interface, &*self.member) == (path, interface, member)
    }

    /// The body, if it has this signature.
    pub(super) fn body(self, signature: &str) -> Result<BodyReader, BusFault> {
        if self.signature == signature {
            Ok(self.body)
        } else {
            Err(BusFault::Malformed)
        }
    }

    #[cfg(test)]
    pub(super) fn into_body(self) -> BodyReader {
        self.body
    }

    /// The error that it carries.
    pub(super) fn into_refusal(mut self) -> BusFault {
        let has_text = self.signature.starts_with('s');
        let text = has_text.then(|| self.body.text().ok()).flatten();
        BusFault::Refused {
            message: text.unwrap_or_else(|| self.error_name.clone()),
            name: self.error_name,
        }
    }
}

/// Reads the values of a message in their order.
#[derive(Debug)]
pub(in super::super) struct BodyReader {
    bytes: Vec<u8>,
    at: usize,
    is_big_endian: bool,
}

impl BodyReader {
    fn new(bytes: Vec<u8>, at: usize, order: u8) -> Self {
        Self {
            bytes,
            at,
            is_big_endian: order == b'B',
        }
    }

    pub(in super::super) fn align(&mut self, size: usize) -> Result<(), BusFault> {
        let at = self.at.next_multiple_of(size);
        self.take(at - self.at).map(drop)
    }

    pub(in super::super) fn object_path(&mut self) -> Result<ObjectPath, BusFault> {
        self.text()
    }

    pub(in super::super) fn object_paths(&mut self) -> Result<Vec<ObjectPath>, BusFault> {
        let length = self.number()? as usize;
        let end = self.at.checked_add(length).ok_or(BusFault::Malformed)?;
        let mut paths = Vec::new();
        while self.at < end {
            paths.push(self.object_path()?);
        }
        Ok(paths)
    }

    pub(in super::super) fn bytes(&mut self) -> Result<&[u8], BusFault> {
        let length = self.number()? as usize;
        self.take(length)
    }

    pub(in super::super) fn boolean(&mut self) -> Result<bool, BusFault> {
        Ok(self.number()? != 0)
    }

    pub(in super::super) fn skip_string_variant(&mut self) -> Result<(), BusFault> {
        match &*self.signature()? {
            "s" => self.text().map(drop),
            _ => Err(BusFault::Malformed),
        }
    }

    pub(in super::super) fn text(&mut self) -> Result<String, BusFault> {
        let length = self.number()? as usize;
        self.terminated(length)
    }

    pub(in super::super) fn signature(&mut self) -> Result<String, BusFault> {
        let length = self.byte()?;
        self.terminated(length.into())
    }

    fn terminated(&mut self, length: usize) -> Result<String, BusFault> {
        let text = self.take(length)?.to_vec();
        self.take(1)?;
        String::from_utf8(text).map_err(|_| BusFault::Malformed)
    }

    fn byte(&mut self) -> Result<u8, BusFault> {
        Ok(self.take(1)?[0])
    }

    pub(in super::super) fn number(&mut self) -> Result<u32, BusFault> {
        self.align(4)?;
        let is_big_endian = self.is_big_endian;
        let bytes = self.take(4)?.try_into().map_err(|_| BusFault::Malformed)?;
        Ok(if is_big_endian {
            u32::from_be_bytes(bytes)
        } else {
            u32::from_le_bytes(bytes)
        })
    }

    fn take(&mut self, count: usize) -> Result<&[u8], BusFault> {
        let end = self.at.checked_add(count).ok_or(BusFault::Malformed)?;
        let taken = self.bytes.get(self.at..end).ok_or(BusFault::Malformed)?;
        self.at = end;
        Ok(taken)
    }
}
