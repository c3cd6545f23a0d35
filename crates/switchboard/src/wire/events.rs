//! Parses server-sent events with a size limit. Of an event over the limit only the id of its
//! message is read; the rest is dropped.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use memchr::memchr2;

use super::lines::SHARED_LINE_BYTES;
use super::oversize::{OversizedMessage, OversizedScanner};

#[cfg(test)]
mod tests;

/// Event ids and names longer than this are ignored: an id is sent back in a header.
const MAX_FIELD_BYTES: usize = 1024;

/// No known field has a longer name.
const MAX_NAME_BYTES: usize = 8;

/// The byte order mark that may open a stream.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// What the parser found.
#[derive(Debug)]
pub enum ServerEvent<'a> {
    /// An event with data.
    Event {
        /// Its name; empty where it has none, which means `message`.
        name: &'a str,
        /// Its data, lines joined by newlines.
        data: EventData<'a>,
        /// The id of the event, if it has one.
        id: Option<&'a str>,
    },
    /// An event over the size limit ended; the id of the message in it, if one was found.
    Oversized(Option<OversizedMessage>),
}

/// The data of an event.
#[derive(Debug)]
pub enum EventData<'a> {
    /// Short: borrowed from the buffer, to be copied.
    Short(&'a [u8]),
    /// Long: can be shared without a copy.
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
    state: LineState,
    /// The last line ended with CR: a LF right after it is part of the line end.
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
    oversize: Option<OversizedEvent>,
    /// How many bytes of the current line were read.
    line_bytes: usize,
    /// For resuming the stream: the last event id and the reconnection time.
    last_id: Option<String>,
    retry_after: Option<Duration>,
}

/// What the next byte of a line belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineState {
    /// The byte order mark: this many of its bytes were seen.
    Mark(usize),
    /// The name of a field; the line may end here.
    Field,
    /// Right after the colon, where one space is skipped.
    Colon(EventField),
    Value(EventField),
}

/// The fields of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EventField {
    Data,
    Name,
    Id,
    Retry,
    /// A comment, or an unknown field.
    Nothing,
}

#[derive(Debug, Default)]
struct OversizedEvent {
    scan: OversizedScanner,
    found: Option<OversizedMessage>,
}

impl EventFrames {
    /// A parser with a limit on the data of one event.
    pub fn new(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            state: LineState::Mark(0),
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

    /// The id of the last complete event that had one: where a stream can be resumed.
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// The reconnection time that the server sent (`retry`).
    pub fn retry(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Whether the event being read is over the limit already, so that a reader can stop here.
    pub fn is_oversized(&self) -> bool {
        self.oversize.is_some() || self.line_bytes > self.max_bytes.saturating_add(MAX_FIELD_BYTES)
    }

    /// Whether the event over the limit is known to be a response.
    pub fn is_oversized_response(&self) -> bool {
        let oversize = self.oversize.as_ref();
        oversize.is_some_and(|oversize| oversize.scan.is_response())
    }

    /// Prepares for a stream that resumes this one: the incomplete event is dropped, the last id and
    /// the reconnection time stay.
    pub fn restart(&mut self) {
        let (last_id, retry_after) = (self.last_id.take(), self.retry_after);
        *self = Self {
            last_id,
            retry_after,
            ..Self::new(self.max_bytes)
        };
    }

    /// How many bytes of an incomplete event are buffered.
    pub fn buffered(&self) -> usize {
        self.data.len()
    }

    /// Parses the next bytes, passes every completed event to `each`, and returns how many lines
    /// ended. An event that is incomplete at the end of the stream is dropped.
    pub fn push(&mut self, bytes: &[u8], each: &mut dyn FnMut(ServerEvent<'_>)) -> usize {
        let (mut rest, mut lines) = (bytes, 0);
        while let LineState::Mark(seen) = self.state {
            let Some(&byte) = rest.first() else {
                return lines;
            };
            if byte == MARK[seen] {
                rest = &rest[1..];
                self.state = if seen + 1 == MARK.len() {
                    LineState::Field
                } else {
                    LineState::Mark(seen + 1)
                };
            } else {
                self.state = LineState::Field;
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
            let line = &rest[..end];
            self.after_return = rest[end] == b'\r';
            if !self.take_whole_line(line) {
                self.take(line);
                self.end_line(each);
            }
            lines += 1;
            rest = &rest[end + 1..];
        }
        lines
    }

    /// Parses a line that is whole and has data or a name, as most lines do: without the states of
    /// a line that comes in pieces. `false` for another line.
    fn take_whole_line(&mut self, line: &[u8]) -> bool {
        if self.state != LineState::Field || !self.field.bytes().is_empty() {
            return false;
        }
        let (field, value) = if let Some(value) = line.strip_prefix(b"data:") {
            (EventField::Data, value)
        } else if let Some(value) = line.strip_prefix(b"event:") {
            (EventField::Name, value)
        } else {
            return false;
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match self.begin_value(field) {
            EventField::Data => self.take_data(value),
            _ => keep(&mut self.name, value),
        }
        true
    }

    /// Parses bytes within a line.
    fn take(&mut self, mut bytes: &[u8]) {
        self.line_bytes = self.line_bytes.saturating_add(bytes.len());
        if self.state == LineState::Field {
            let colon = bytes.iter().position(|byte| *byte == b':');
            let name = &bytes[..colon.unwrap_or(bytes.len())];
            self.field.extend(name);
            let Some(colon) = colon else { return };
            bytes = &bytes[colon + 1..];
            self.state = LineState::Colon(self.begin_value(self.field.field()));
        }
        if let LineState::Colon(field) = self.state {
            let Some(&first) = bytes.first() else { return };
            if first == b' ' {
                bytes = &bytes[1..];
            }
            self.state = LineState::Value(field);
        }
        let LineState::Value(field) = self.state else {
            return;
        };
        match field {
            EventField::Data => self.take_data(bytes),
            EventField::Name => keep(&mut self.name, bytes),
            EventField::Id => keep(self.id.get_or_insert_default(), bytes),
            EventField::Retry => keep(&mut self.retry, bytes),
            EventField::Nothing => {}
        }
    }

    /// The name of a field is complete: clears its old value.
    fn begin_value(&mut self, field: EventField) -> EventField {
        match field {
            EventField::Data if self.has_data => self.take_data(b"\n"),
            EventField::Data => self.has_data = true,
            EventField::Name => self.name.clear(),
            EventField::Id => self.id = Some(Vec::new()),
            EventField::Retry => self.retry.clear(),
            EventField::Nothing => {}
        }
        field
    }

    fn take_data(&mut self, bytes: &[u8]) {
        if self.oversize.is_none() {
            if self.data.len() + bytes.len() <= self.max_bytes {
                self.data.extend_from_slice(bytes);
                return;
            }
            let mut oversize = OversizedEvent::default();
            // Frees the buffer, which may have grown up to the limit.
            oversize.feed(&std::mem::take(&mut self.data));
            self.oversize = Some(oversize);
        }
        if let Some(oversize) = &mut self.oversize {
            oversize.feed(bytes);
        }
    }

    fn end_line(&mut self, each: &mut dyn FnMut(ServerEvent<'_>)) {
        self.line_bytes = 0;
        let state = std::mem::replace(&mut self.state, LineState::Field);
        if state == LineState::Field {
            if self.field.bytes().is_empty() {
                return self.end_event(each);
            }
            // A line without a colon is a field without a value.
            self.begin_value(self.field.field());
        }
        self.field.length = 0;
        if self.retry.is_empty() {
            return;
        }
        let retry = std::str::from_utf8(&self.retry)
            .ok()
            .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        if let Some(milliseconds) = retry.and_then(|text| text.parse().ok()) {
            self.retry_after = Some(Duration::from_millis(milliseconds));
        }
        self.retry.clear();
    }

    fn end_event(&mut self, each: &mut dyn FnMut(ServerEvent<'_>)) {
        // An id that is too long or has control characters could not be sent back in a header.
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

/// The start of a field's name: one byte more than the longest known name, so that a longer name is
/// not mistaken for a known one.
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

    /// The field of this name.
    fn field(&self) -> EventField {
        match self.bytes() {
            b"data" => EventField::Data,
            b"event" => EventField::Name,
            b"id" => EventField::Id,
            b"retry" => EventField::Retry,
            _ => EventField::Nothing,
        }
    }
}

impl OversizedEvent {
    fn feed(&mut self, bytes: &[u8]) {
        if let Some(found) = self.scan.feed(bytes) {
            self.found = Some(found);
        }
    }
}

/// Keeps one byte more than allowed, so that an overlong value can be recognised.
fn keep(into: &mut Vec<u8>, bytes: &[u8]) {
    let room = (MAX_FIELD_BYTES + 1).saturating_sub(into.len());
    into.extend_from_slice(&bytes[..bytes.len().min(room)]);
}
