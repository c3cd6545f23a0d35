//! Server-sent events with a bound: bytes in, events out; past the bound the bytes are dropped and
//! only the id of the message is looked for.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use memchr::memchr2;

use super::RequestId;
use super::line::SHARED_LINE_BYTES;
use super::oversize::OversizeScan;

#[cfg(test)]
mod tests;

/// Event ids and names longer than this are not kept: an id goes back in a header.
const MAX_FIELD_BYTES: usize = 1024;

/// No field that means anything has a longer name.
const MAX_NAME_BYTES: usize = 8;

/// The byte order mark that may open a stream.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// What the framing found.
#[derive(Debug)]
pub enum ServerEvent<'a> {
    /// An event with data.
    Event {
        /// Its name; empty where it has none, which means `message`.
        name: &'a str,
        /// Its data, lines joined by newlines.
        data: EventData<'a>,
        /// Its own id, if it has one.
        id: Option<&'a str>,
    },
    /// An event past the bound ended; the id of the message in it, where the scan found one.
    Oversized(Option<RequestId>),
}

/// The data of an event.
#[derive(Debug)]
pub enum EventData<'a> {
    /// Short: copy what you keep.
    Short(&'a [u8]),
    /// Long: sharing it costs nothing.
    Long(Bytes),
}

impl AsRef<[u8]> for EventData<'_> {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Short(bytes) => bytes,
            Self::Long(bytes) => bytes,
        }
    }
}

/// Cuts a stream of bytes into events.
#[derive(Debug)]
pub struct EventFrames {
    max_bytes: usize,
    place: Place,
    /// The last line ended with CR: a LF right after it belongs to it.
    after_return: bool,
    /// The name of the field being read.
    field: FieldName,
    name: Vec<u8>,
    /// The id of the event being read, if it has one.
    id: Option<Vec<u8>>,
    retry: Vec<u8>,
    data: BytesMut,
    /// The event being read has a data field.
    has_data: bool,
    oversize: Option<Oversize>,
    /// How much of a line was read.
    line_bytes: usize,
    /// What the stream said so far, for whoever resumes it.
    last_id: Option<String>,
    retry_after: Option<Duration>,
}

/// Where in a line the next byte stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In the byte order mark: so many of its bytes were seen.
    Mark(usize),
    /// In the name of a field; the line may end here.
    Field,
    /// Right after the colon, where one space is left out.
    Colon(Target),
    Value(Target),
}

/// What a field is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Data,
    Name,
    Id,
    Retry,
    /// A comment, or a field that nobody knows.
    Nothing,
}

#[derive(Debug, Default)]
struct Oversize {
    scan: OversizeScan,
    found: Option<RequestId>,
}

impl EventFrames {
    /// Frames with a bound on the data of one event.
    pub fn new(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            place: Place::Mark(0),
            after_return: false,
            field: FieldName::default(),
            name: Vec::new(),
            id: None,
            retry: Vec::new(),
            data: BytesMut::new(),
            has_data: false,
            oversize: None,
            line_bytes: 0,
            last_id: None,
            retry_after: None,
        }
    }

    /// The id of the last event that ended, or of an earlier one if that had none: where a stream
    /// can be resumed.
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// How long the server wants us to wait before we connect again, as it said it.
    pub fn retry(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Whether what is being read is past the bound already: whoever will not wait for the rest can
    /// stop here.
    pub fn is_oversized(&self) -> bool {
        self.oversize.is_some() || self.line_bytes > self.max_bytes.saturating_add(MAX_FIELD_BYTES)
    }

    /// The stream ended and another continues it: what was incomplete is dropped, the last id and
    /// the pause stay.
    pub fn restart(&mut self) {
        let (last_id, retry_after) = (self.last_id.take(), self.retry_after);
        *self = Self {
            last_id,
            retry_after,
            ..Self::new(self.max_bytes)
        };
    }

    /// How many bytes of an incomplete event are kept.
    pub fn buffered(&self) -> usize {
        self.data.len()
    }

    /// Takes the next bytes and hands out every event that they complete; answers how many lines
    /// ended. What is incomplete at the end of a stream is no event.
    pub fn push(&mut self, bytes: &[u8], each: &mut dyn FnMut(ServerEvent<'_>)) -> usize {
        let (mut rest, mut lines) = (bytes, 0);
        while let Place::Mark(seen) = self.place {
            let Some(&byte) = rest.first() else {
                return lines;
            };
            if byte == MARK[seen] {
                rest = &rest[1..];
                self.place = if seen + 1 == MARK.len() {
                    Place::Field
                } else {
                    Place::Mark(seen + 1)
                };
            } else {
                self.place = Place::Field;
                self.take(&MARK[..seen]);
            }
        }
        while let Some(&byte) = rest.first() {
            if std::mem::take(&mut self.after_return) && byte == b'\n' {
                rest = &rest[1..];
                continue;
            }
            let Some(end) = memchr2(b'\r', b'\n', rest) else {
                self.take(rest);
                break;
            };
            self.take(&rest[..end]);
            self.after_return = rest[end] == b'\r';
            self.end_line(each);
            lines += 1;
            rest = &rest[end + 1..];
        }
        lines
    }

    /// Takes bytes of a line.
    fn take(&mut self, mut bytes: &[u8]) {
        self.line_bytes = self.line_bytes.saturating_add(bytes.len());
        if self.place == Place::Field {
            let colon = bytes.iter().position(|byte| *byte == b':');
            let name = &bytes[..colon.unwrap_or(bytes.len())];
            self.field.extend(name);
            let Some(colon) = colon else { return };
            bytes = &bytes[colon + 1..];
            self.place = Place::Colon(self.begin_value());
        }
        if let Place::Colon(target) = self.place {
            let Some(&first) = bytes.first() else { return };
            if first == b' ' {
                bytes = &bytes[1..];
            }
            self.place = Place::Value(target);
        }
        let Place::Value(target) = self.place else {
            return;
        };
        match target {
            Target::Data => self.take_data(bytes),
            Target::Name => keep(&mut self.name, bytes),
            Target::Id => keep(self.id.get_or_insert_default(), bytes),
            Target::Retry => keep(&mut self.retry, bytes),
            Target::Nothing => {}
        }
    }

    /// The name of a field is complete: what its value is for.
    fn begin_value(&mut self) -> Target {
        let target = match self.field.bytes() {
            b"data" => Target::Data,
            b"event" => Target::Name,
            b"id" => Target::Id,
            b"retry" => Target::Retry,
            _ => Target::Nothing,
        };
        match target {
            Target::Data if self.has_data => self.take_data(b"\n"),
            Target::Data => self.has_data = true,
            Target::Name => self.name.clear(),
            Target::Id => self.id = Some(Vec::new()),
            Target::Retry => self.retry.clear(),
            Target::Nothing => {}
        }
        target
    }

    fn take_data(&mut self, bytes: &[u8]) {
        if self.oversize.is_none() {
            if self.data.len() + bytes.len() <= self.max_bytes {
                self.data.extend_from_slice(bytes);
                return;
            }
            let mut oversize = Oversize::default();
            // The bound may have grown the buffer to its size: give that back.
            oversize.feed(&std::mem::take(&mut self.data));
            self.oversize = Some(oversize);
        }
        if let Some(oversize) = &mut self.oversize {
            oversize.feed(bytes);
        }
    }

    fn end_line(&mut self, each: &mut dyn FnMut(ServerEvent<'_>)) {
        self.line_bytes = 0;
        let place = std::mem::replace(&mut self.place, Place::Field);
        if place == Place::Field {
            if self.field.bytes().is_empty() {
                return self.end_event(each);
            }
            // A line without a colon is a field without a value.
            self.begin_value();
        }
        self.field = FieldName::default();
        let retry = std::str::from_utf8(&self.retry)
            .ok()
            .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        if let Some(milliseconds) = retry.and_then(|text| text.parse().ok()) {
            self.retry_after = Some(Duration::from_millis(milliseconds));
        }
        self.retry.clear();
    }

    fn end_event(&mut self, each: &mut dyn FnMut(ServerEvent<'_>)) {
        // Longer than the bound, or with a control character in it, it could not be given back in a
        // header.
        let id = self
            .id
            .take()
            .filter(|id| id.len() <= MAX_FIELD_BYTES && !id.iter().any(u8::is_ascii_control));
        let id = id.and_then(|id| String::from_utf8(id).ok());
        let has_id = id.is_some();
        if let Some(id) = id {
            self.last_id = Some(id).filter(|id| !id.is_empty());
        }
        let id = self.last_id.as_deref().filter(|_| has_id);
        let has_data = std::mem::take(&mut self.has_data);
        if let Some(oversize) = self.oversize.take() {
            each(ServerEvent::Oversized(oversize.found));
        } else if has_data {
            let name = std::str::from_utf8(&self.name).unwrap_or("?");
            if self.data.len() < SHARED_LINE_BYTES {
                each(ServerEvent::Event {
                    name,
                    data: EventData::Short(&self.data),
                    id,
                });
                self.data.clear();
            } else {
                let data = std::mem::take(&mut self.data).freeze();
                each(ServerEvent::Event {
                    name,
                    data: EventData::Long(data),
                    id,
                });
            }
        }
        self.name.clear();
    }
}

/// The start of a field's name: one byte more than any that means anything has, so that a longer
/// one is not taken for a shorter one.
#[derive(Debug, Default)]
struct FieldName {
    kept: [u8; MAX_NAME_BYTES + 1],
    length: usize,
}

impl FieldName {
    fn extend(&mut self, bytes: &[u8]) {
        let room = &mut self.kept[self.length..];
        let count = bytes.len().min(room.len());
        room[..count].copy_from_slice(&bytes[..count]);
        self.length += count;
    }

    fn bytes(&self) -> &[u8] {
        &self.kept[..self.length]
    }
}

impl Oversize {
    fn feed(&mut self, bytes: &[u8]) {
        // Between lines of data there is only white space, which the scan need not see.
        let found = if bytes == b"\n" {
            None
        } else {
            self.scan.feed(bytes)
        };
        if found.is_some() {
            self.found = found;
        }
    }
}

/// Keeps one byte more than allowed, so that whoever looks can tell.
fn keep(into: &mut Vec<u8>, bytes: &[u8]) {
    let room = (MAX_FIELD_BYTES + 1).saturating_sub(into.len());
    into.extend_from_slice(&bytes[..bytes.len().min(room)]);
}
