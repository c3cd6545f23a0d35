//! A model's Markdown, shown block by block while it arrives: a block is printed when the next one
//! begins, lines of code as they come.

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag};

use render::{code_line, options};

pub(super) use render::render;

/// Complete Markdown as lines.
mod render;

/// Markdown that arrives in pieces.
#[derive(Debug)]
pub(super) struct MarkdownStream {
    columns: usize,
    /// Text that is not shown yet: less than two blocks.
    pending: String,
    /// Inside a block of code, its closing fence.
    fence: Option<String>,
    /// A block was shown, so that an empty line comes before the next.
    has_shown: bool,
}

impl MarkdownStream {
    pub(super) fn new(columns: usize) -> Self {
        Self {
            columns: columns.max(20),
            pending: String::new(),
            fence: None,
            has_shown: false,
        }
    }

    /// Adds a piece; returns the lines that can be shown now.
    pub(super) fn push(&mut self, piece: &str) -> String {
        self.pending.push_str(piece);
        let mut shown = String::new();
        if !piece.contains('\n') {
            return shown;
        }
        loop {
            let before = self.pending.len();
            match self.fence.clone() {
                Some(fence) => self.show_code(&fence, &mut shown),
                None => self.show_blocks(&mut shown),
            }
            if self.pending.len() == before {
                return shown;
            }
        }
    }

    /// Returns the lines that are not shown yet.
    pub(super) fn finish(&mut self) -> String {
        let mut shown = String::new();
        if let Some(fence) = self.fence.take() {
            self.pending.push('\n');
            self.show_code(&fence, &mut shown);
            self.fence = None;
        }
        let rest = std::mem::take(&mut self.pending);
        self.show(&rest, &mut shown);
        self.has_shown = false;
        shown
    }

    /// Lines of code, until the closing fence.
    fn show_code(&mut self, fence: &str, shown: &mut String) {
        while let Some(end) = self.pending.find('\n') {
            let line: String = self.pending.drain(..=end).collect();
            if closes(&line, fence) {
                self.fence = None;
                return;
            }
            shown.push_str(&code_line(line.trim_end_matches(['\n', '\r'])));
        }
    }

    /// All blocks but the last one, which may grow. A fence at the end begins to show its code.
    fn show_blocks(&mut self, shown: &mut String) {
        // An incomplete line can look like another kind of block than the complete one.
        let complete = self.pending.rfind('\n').map_or(0, |end| end + 1);
        let blocks = top_level_blocks(&self.pending[..complete]);
        let Some(&(last, is_code)) = blocks.last() else {
            return;
        };
        let whole: String = self.pending.drain(..last).collect();
        self.show(&whole, shown);
        if is_code && let Some(fence) = fence_of(&self.pending) {
            self.begin_block(shown);
            if let Some(end) = self.pending.find('\n') {
                self.pending.drain(..=end);
            }
            self.fence = Some(fence);
            self.has_shown = true;
        }
    }

    fn show(&mut self, markdown: &str, shown: &mut String) {
        let text = render(markdown, self.columns);
        if !text.is_empty() {
            self.begin_block(shown);
            shown.push_str(&text);
            self.has_shown = true;
        }
    }

    fn begin_block(&self, shown: &mut String) {
        if self.has_shown {
            shown.push('\n');
        }
    }
}

/// Where each block at the top begins, and whether it is fenced code.
fn top_level_blocks(markdown: &str) -> Vec<(usize, bool)> {
    let mut blocks = Vec::new();
    let mut depth = 0;
    for (event, range) in Parser::new_ext(markdown, options()).into_offset_iter() {
        let is_block = depth == 0;
        match &event {
            Event::Start(tag) => {
                if is_block {
                    let is_code = matches!(tag, Tag::CodeBlock(CodeBlockKind::Fenced(_)));
                    blocks.push((range.start, is_code));
                }
                depth += 1;
            }
            Event::End(_) => depth -= 1,
            Event::Rule | Event::Html(_) if is_block => blocks.push((range.start, false)),
            _ => {}
        }
    }
    blocks
}

/// The fence that a block of code begins with, if its line is complete.
fn fence_of(markdown: &str) -> Option<String> {
    let line = markdown.split_once('\n')?.0.trim_start();
    let mark = line
        .chars()
        .next()
        .filter(|mark| matches!(mark, '`' | '~'))?;
    let length = line.chars().take_while(|other| *other == mark).count();
    Some(mark.to_string().repeat(length))
}

/// Whether a line ends the code that this fence began: indented by less than code is, and nothing but
/// the fence's character, at least as often.
fn closes(line: &str, fence: &str) -> bool {
    let line = line.trim_end();
    let mark = line.trim_start_matches(' ');
    let is_of_fence = |character: char| fence.starts_with(character);
    line.len() - mark.len() < 4 && mark.len() >= fence.len() && mark.chars().all(is_of_fence)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    /// What is shown of a text that arrives line by line.
    fn lines_of(stream: &mut MarkdownStream, markdown: &str) -> String {
        let lines = markdown.split_inclusive('\n');
        let shown: String = lines.map(|line| stream.push(line)).collect();
        plain(&(shown + &stream.finish()))
    }

    #[test]
    fn a_block_is_shown_when_the_next_begins_and_code_line_by_line() {
        let mut stream = MarkdownStream::new(80);
        let mut push = |piece: &str| plain(&stream.push(piece));
        assert_eq!(push("Hel"), "");
        assert_eq!(push("lo\n\n"), "");
        assert_eq!(push("- a\n"), "Hello\n");
        assert_eq!(push("- b\n\n```sh\n"), "\n• a\n• b\n\n");
        assert_eq!(push("ls\nca"), "    ls\n");
        assert_eq!(push("t\n```\nend"), "    cat\n");
        assert_eq!(plain(&stream.finish()), "\nend\n");
    }

    #[test]
    fn a_fence_inside_code_does_not_end_it() {
        let mut stream = MarkdownStream::new(80);
        let markdown = "````md\n```python\nprint(1)\n```\n     ````\n````\n\nend\n";
        let shown = lines_of(&mut stream, markdown);
        let code = "    ```python\n    print(1)\n    ```\n         ````\n";
        assert_eq!(shown, format!("{code}\nend\n"));
        let mut stream = MarkdownStream::new(80);
        let markdown = "```\nx\n```python\n  ```  \n**end**\n";
        let shown = lines_of(&mut stream, markdown);
        assert_eq!(shown, "    x\n    ```python\n\nend\n");
    }

    #[test]
    fn a_link_whose_address_follows_later_keeps_it() {
        let mut stream = MarkdownStream::new(80);
        let markdown = "See [the docs][1].\n\nMore.\n\n[1]: https://a.example/x\n[b]: /y\n";
        let shown = lines_of(&mut stream, markdown);
        let links = "[1]: https://a.example/x\n[b]: /y\n";
        assert_eq!(shown, format!("See [the docs][1].\n\nMore.\n\n{links}"));
    }

    #[test]
    fn pieces_of_any_size_show_the_same() {
        let markdown = "# T\n\nA *b* c\nd\n\n1. x\n\n   y\n2. z\n\n```\ncode\n\nmore\n```\n\n| a |\n|---|\n| b |\n\nend";
        let whole = {
            let mut stream = MarkdownStream::new(40);
            stream.push(markdown) + &stream.finish()
        };
        for size in 1..markdown.len() {
            let mut stream = MarkdownStream::new(40);
            let characters: Vec<char> = markdown.chars().collect();
            let mut text = String::new();
            for piece in characters.chunks(size) {
                text += &stream.push(&piece.iter().collect::<String>());
            }
            text += &stream.finish();
            assert_eq!(plain(&text), plain(&whole), "pieces of {size}");
        }
    }
}
