//! Decodes the bytes of a raw terminal into keys, across reads.

use super::frame::Key;

/// Turns bytes into keys, and keeps incomplete ones until the rest arrives.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    bytes: Vec<u8>,
    /// Between the two sequences that a terminal sends around a pasted text.
    is_in_paste: bool,
}

impl Decoder {
    pub(super) fn feed(&mut self, chunk: &[u8]) {
        self.bytes.extend_from_slice(chunk);
    }

    /// The next complete key. Unknown sequences are skipped. In a pasted text, the end of a line is a
    /// character and not Enter.
    pub(super) fn next(&mut self) -> Option<Key> {
        loop {
            let (length, key) = parse(&self.bytes)?;
            match &self.bytes[..length] {
                b"\x1b[200~" => self.is_in_paste = true,
                b"\x1b[201~" => self.is_in_paste = false,
                _ => {}
            }
            self.bytes.drain(..length);
            let key = match key {
                Some(Key::Enter) if self.is_in_paste => Some(Key::Char('\n')),
                Some(Key::Tab) if self.is_in_paste => Some(Key::Char('\t')),
                Some(Key::Char(_)) => key,
                _ if self.is_in_paste => None,
                key => key,
            };
            if key.is_some() {
                return key;
            }
        }
    }
}

/// (bytes used, key); `None` while the bytes are incomplete.
fn parse(bytes: &[u8]) -> Option<(usize, Option<Key>)> {
    let key = match *bytes.first()? {
        b'\r' | b'\n' => Key::Enter,
        b'\t' => Key::Tab,
        0x7f | 0x08 => Key::Backspace,
        0x1b => return escape(bytes),
        byte @ 1..=26 => Key::Ctrl(char::from(byte - 1 + b'a')),
        byte if byte < 0x20 => return Some((1, None)),
        byte => return character(bytes, byte),
    };
    Some((1, Some(key)))
}

/// A lone ESC is the Escape key: terminals send sequences in one piece.
fn escape(bytes: &[u8]) -> Option<(usize, Option<Key>)> {
    match bytes.get(1) {
        None | Some(0x1b) => Some((1, Some(Key::Esc))),
        Some(b'[' | b'O') => {
            let end = 2 + bytes
                .get(2..)?
                .iter()
                .position(|byte| (0x40..=0x7e).contains(byte))?;
            Some((end + 1, sequence(&bytes[2..=end])))
        }
        // Alt with a key is ignored.
        Some(_) => Some((2, None)),
    }
}

fn sequence(body: &[u8]) -> Option<Key> {
    Some(match body {
        [.., b'A'] => Key::Up,
        [.., b'B'] => Key::Down,
        [.., b'C'] => Key::Right,
        [.., b'D'] => Key::Left,
        [b'H'] | b"1~" | b"7~" => Key::Home,
        [b'F'] | b"4~" | b"8~" => Key::End,
        [b'Z'] => Key::BackTab,
        b"3~" => Key::Delete,
        b"5~" => Key::PageUp,
        b"6~" => Key::PageDown,
        _ => return None,
    })
}

fn character(bytes: &[u8], first: u8) -> Option<(usize, Option<Key>)> {
    let length = match first {
        0..0x80 => 1,
        0xc0..0xe0 => 2,
        0xe0..0xf0 => 3,
        0xf0..0xf8 => 4,
        _ => return Some((1, None)),
    };
    let piece = bytes.get(..length)?;
    let read = std::str::from_utf8(piece)
        .ok()
        .and_then(|text| text.chars().next());
    Some((if read.is_some() { length } else { 1 }, read.map(Key::Char)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_keys_whole_or_in_pieces() {
        let check = |chunks: &[&[u8]], expected: &[Key]| {
            let mut decoder = Decoder::default();
            let mut keys = Vec::new();
            for chunk in chunks {
                decoder.feed(chunk);
                keys.extend(std::iter::from_fn(|| decoder.next()));
            }
            assert_eq!(keys, expected, "{chunks:?}");
        };
        check(
            &[b"oN\r\t\x7f"],
            &[
                Key::Char('o'),
                Key::Char('N'),
                Key::Enter,
                Key::Tab,
                Key::Backspace,
            ],
        );
        check(
            &[b"\x1b[A\x1b[6~\x1bOB\x1b[Z"],
            &[Key::Up, Key::PageDown, Key::Down, Key::BackTab],
        );
        check(&[b"\x1b"], &[Key::Esc]);
        check(&[b"\x1b[", b"5~"], &[Key::PageUp]);
        check(
            &["é".as_bytes(), &"日".as_bytes()[..1], &"日".as_bytes()[1..]],
            &[Key::Char('é'), Key::Char('日')],
        );
        check(
            &[b"\x03\x04\x15"],
            &[Key::Ctrl('c'), Key::Ctrl('d'), Key::Ctrl('u')],
        );
        check(&[b"\xff\x1b[99~x"], &[Key::Char('x')]);
        check(
            &[b"\x1b[200~a\r\t\x1b[A\x1b[20", b"1~\r"],
            &[Key::Char('a'), Key::Char('\n'), Key::Char('\t'), Key::Enter],
        );
    }
}
