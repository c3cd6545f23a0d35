//! Server-sent events with a bound: bytes in, events out.

/// Cuts a stream of bytes into events.
#[derive(Debug)]
pub struct SseFrames {
    /// The bytes of the line that has not ended yet.
    line: Vec<u8>,
    /// The last byte ended a line with CR: a LF right after it belongs to that end.
    after_return: bool,
    name: String,
    data: String,
    has_data: bool,
    is_first_line: bool,
    max_bytes: usize,
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SseEvent {
    /// Its name; empty where it has none.
    pub name: String,
    /// Its data, lines joined by line breaks.
    pub data: String,
}

/// An event is larger than the bound, or is not text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SseError {
    /// Too large.
    #[error("one event of the answer is larger than {0} bytes")]
    TooLarge(usize),
    /// Not UTF-8.
    #[error("the answer is not valid UTF-8")]
    NotText,
}

impl SseFrames {
    /// Frames with a bound on one event.
    pub fn new(max_bytes: usize) -> Self {
        Self {
            line: Vec::new(),
            after_return: false,
            name: String::new(),
            data: String::new(),
            has_data: false,
            is_first_line: true,
            max_bytes,
        }
    }

    /// Reads bytes and appends the events that they complete.
    pub fn read(&mut self, bytes: &[u8], events: &mut Vec<SseEvent>) -> Result<(), SseError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            if std::mem::take(&mut self.after_return) && rest[0] == b'\n' {
                rest = &rest[1..];
                continue;
            }
            let end = rest.iter().position(|&byte| matches!(byte, b'\n' | b'\r'));
            let piece = &rest[..end.unwrap_or(rest.len())];
            if self.line.len() + self.data.len() + piece.len() > self.max_bytes {
                return Err(SseError::TooLarge(self.max_bytes));
            }
            self.line.extend_from_slice(piece);
            let Some(end) = end else { break };
            self.after_return = rest[end] == b'\r';
            rest = &rest[end + 1..];
            self.end_line(events)?;
        }
        Ok(())
    }

    /// Whether the bytes so far end inside an event.
    pub fn is_inside_event(&self) -> bool {
        self.has_data || !self.line.is_empty()
    }

    fn end_line(&mut self, events: &mut Vec<SseEvent>) -> Result<(), SseError> {
        let line = std::mem::take(&mut self.line);
        let mut line = std::str::from_utf8(&line).map_err(|_| SseError::NotText)?;
        if std::mem::take(&mut self.is_first_line) {
            line = line.strip_prefix('\u{feff}').unwrap_or(line);
        }
        if line.is_empty() {
            let event = SseEvent {
                name: std::mem::take(&mut self.name),
                data: std::mem::take(&mut self.data),
            };
            if std::mem::take(&mut self.has_data) {
                events.push(event);
            }
            return Ok(());
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.data.push('\n');
                }
                self.data.push_str(value);
            }
            "event" => value.clone_into(&mut self.name),
            // Comments, ids and pauses are of no use here: a broken answer is asked for anew.
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(chunks: &[&[u8]]) -> Vec<(String, String)> {
        let mut frames = SseFrames::new(1000);
        let mut events = Vec::new();
        for chunk in chunks {
            frames.read(chunk, &mut events).expect("events");
        }
        let pairs = events.into_iter().map(|event| (event.name, event.data));
        pairs.collect()
    }

    #[test]
    fn events_are_the_same_however_the_bytes_are_cut() {
        let text = "\u{feff}: note\r\nevent: a\r\ndata: 1\r\ndata:  2\r\n\r\ndata:é\n\n\rdata\r\r"
            .as_bytes();
        let expected = [("a", "1\n 2"), ("", "é"), ("", "")];
        let expected: Vec<_> = expected
            .map(|(name, data)| (name.to_owned(), data.to_owned()))
            .into();
        assert_eq!(events(&[text]), expected);
        for cut in 0..=text.len() {
            let (head, tail) = text.split_at(cut);
            assert_eq!(events(&[head, tail]), expected, "cut at {cut}");
        }
    }

    #[test]
    fn an_event_without_its_end_is_no_event_and_one_past_the_bound_is_an_error() {
        let mut frames = SseFrames::new(16);
        let mut events = Vec::new();
        frames.read(b"data: 12", &mut events).expect("short");
        assert!(events.is_empty() && frames.is_inside_event());
        let long = frames.read(b"345678901234567890", &mut events);
        assert_eq!(long, Err(SseError::TooLarge(16)));
        let binary = SseFrames::new(16).read(b"data: \xff\n", &mut events);
        assert_eq!(binary, Err(SseError::NotText));
    }
}
