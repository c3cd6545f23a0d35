//! Server-sent events of an answer: bytes in, whole events out. An event past the bound, or one that
//! is not text, is an error, since the turn cannot be read without it.

use switchboard::wire::events::{EventFrames, ServerEvent};

/// Cuts a stream of bytes into events.
#[derive(Debug)]
pub struct SseFrames {
    frames: EventFrames,
    max_bytes: usize,
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
            frames: EventFrames::new(max_bytes),
            max_bytes,
        }
    }

    /// Reads bytes and passes on each event that they complete: its name, empty where it has none,
    /// and its data, lines joined by line breaks.
    pub fn read(
        &mut self,
        bytes: &[u8],
        mut on_event: impl FnMut(&str, &str),
    ) -> Result<(), SseError> {
        let mut read = Ok(());
        let max_bytes = self.max_bytes;
        self.frames.push(bytes, &mut |found| match found {
            ServerEvent::Event { name, data, .. } => match std::str::from_utf8(data.as_ref()) {
                Ok(data) => on_event(name, data),
                Err(_) => read = Err(SseError::NotText),
            },
            ServerEvent::Oversized(_) => read = Err(SseError::TooLarge(max_bytes)),
        });
        match self.frames.is_oversized() {
            true => Err(SseError::TooLarge(max_bytes)),
            false => read,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(chunks: &[&[u8]]) -> Vec<(String, String)> {
        let mut frames = SseFrames::new(1000);
        let mut events = Vec::new();
        for chunk in chunks {
            let read = frames.read(chunk, |name, data| {
                events.push((name.to_owned(), data.to_owned()));
            });
            read.expect("events");
        }
        events
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
    fn an_incomplete_event_is_dropped_and_one_over_the_limit_is_an_error() {
        let mut frames = SseFrames::new(16);
        let mut count = 0;
        frames.read(b"data: 12", |_, _| count += 1).expect("short");
        let long = frames.read(b"345678901234567890", |_, _| count += 1);
        assert_eq!(long, Err(SseError::TooLarge(16)));
        let binary = SseFrames::new(16).read(b"data: \xff\n\n", |_, _| count += 1);
        assert_eq!(count, 0);
        assert_eq!(binary, Err(SseError::NotText));
    }
}
