//! One line of text being edited, with a cursor.

use unicode_width::UnicodeWidthChar;

use crate::terminal::frame::{Key, safe};

/// A text and the position of the cursor, in characters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Input {
    characters: Vec<char>,
    cursor: usize,
}

impl Input {
    pub(super) fn new(text: &str) -> Self {
        let characters: Vec<_> = text.chars().collect();
        Self {
            cursor: characters.len(),
            characters,
        }
    }

    pub(super) fn text(&self) -> String {
        self.characters.iter().collect()
    }

    pub(super) fn press(&mut self, key: Key) {
        match key {
            Key::Char(character) => {
                self.characters.insert(self.cursor, character);
                self.cursor += 1;
            }
            Key::Backspace if self.cursor > 0 => {
                self.cursor -= 1;
                self.characters.remove(self.cursor);
            }
            Key::Delete if self.cursor < self.characters.len() => {
                _ = self.characters.remove(self.cursor)
            }
            Key::Left => self.cursor = self.cursor.saturating_sub(1),
            Key::Right => self.cursor = (self.cursor + 1).min(self.characters.len()),
            Key::Home | Key::Ctrl('a') => self.cursor = 0,
            Key::End | Key::Ctrl('e') => self.cursor = self.characters.len(),
            Key::Ctrl('u') => *self = Self::default(),
            _ => {}
        }
    }

    /// The part that fits, around the cursor. Escaped, because a default is server text.
    pub(super) fn shown(&self, with_cursor: bool, room: usize) -> String {
        let before: String = self.characters[..self.cursor].iter().collect();
        let after: String = self.characters[self.cursor..].iter().collect();
        let mark = if with_cursor { "▏" } else { "" };
        let whole = format!("{}{mark}{}", safe(&before), safe(&after));
        let width = |text: &str| {
            text.chars()
                .map(|character| character.width().unwrap_or(0))
                .sum::<usize>()
        };
        let mut skip = 0;
        let upto = width(&safe(&before)) + 1;
        if upto > room {
            skip = upto - room;
        }
        let mut used = 0;
        whole
            .chars()
            .skip_while(|character| {
                let skipping = used < skip;
                used += if skipping {
                    character.width().unwrap_or(0)
                } else {
                    0
                };
                skipping
            })
            .collect()
    }
}
