//! Complete Markdown as styled lines that fit the screen.

use anstyle::{AnsiColor, Style};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use unicode_width::UnicodeWidthStr;

use crate::view::server::escaped;
use crate::view::table;

const CODE: Style = AnsiColor::Cyan.on_default();
const HEADING: Style = Style::new().bold();
const PLAIN: Style = Style::new();

pub(super) fn options() -> Options {
    Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS
}

/// Tabs as spaces; they would be escaped otherwise.
fn expand_tabs(text: &str) -> String {
    text.replace('\t', "    ")
}

pub(super) fn code_line(line: &str) -> String {
    format!("    {CODE}{}{CODE:#}\n", escaped(&expand_tabs(line)))
}

/// Complete Markdown as lines.
pub(in super::super) fn render(markdown: &str, columns: usize) -> String {
    let mut renderer = Renderer {
        columns,
        ..Renderer::default()
    };
    Parser::new_ext(markdown, options()).for_each(|event| renderer.event(event));
    renderer.flush();
    renderer.text
}

/// Renders blocks with their nesting.
#[derive(Default)]
struct Renderer {
    columns: usize,
    text: String,
    /// The text of the current paragraph, with its styles.
    pieces: Vec<(Style, String)>,
    styles: Vec<Style>,
    /// The prefix of lines in nested blocks.
    prefix: Vec<String>,
    /// The mark of a list item, until its first line.
    mark: Option<String>,
    /// The number of the next item, for each list.
    lists: Vec<Option<u64>>,
    in_code: bool,
    link: Option<String>,
    rows: Vec<Vec<String>>,
}

impl Renderer {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) if self.in_code => {
                for line in text.lines() {
                    let prefix = self.prefix.concat();
                    self.text.push_str(&format!("{prefix}{}", code_line(line)));
                }
            }
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => {
                self.push(self.style(), &text);
            }
            Event::Code(text) => self.push(CODE, &text),
            Event::SoftBreak => self.push(PLAIN, " "),
            Event::HardBreak => self.flush(),
            Event::Rule => self.text.push_str(&format!("{}\n", "─".repeat(20))),
            Event::TaskListMarker(done) => self.push(PLAIN, if done { "[x] " } else { "[ ] " }),
            _ => {}
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph | Tag::Heading { .. } | Tag::CodeBlock(_) | Tag::HtmlBlock => {
                self.flush();
                self.separate();
                if matches!(tag, Tag::Heading { .. }) {
                    self.styles.push(HEADING);
                }
                self.in_code = matches!(tag, Tag::CodeBlock(_));
            }
            Tag::BlockQuote(_) => {
                self.flush();
                self.separate();
                self.prefix.push("> ".to_owned());
            }
            Tag::List(first) => {
                self.flush();
                if self.lists.is_empty() {
                    self.separate();
                }
                self.lists.push(first);
            }
            Tag::Item => {
                self.flush();
                let mark = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        *number += 1;
                        format!("{}. ", *number - 1)
                    }
                    _ => "• ".to_owned(),
                };
                self.prefix.push(" ".repeat(mark.width()));
                self.mark = Some(mark);
            }
            Tag::Emphasis => self.styles.push(self.style().italic()),
            Tag::Strong => self.styles.push(self.style().bold()),
            Tag::Strikethrough => self.styles.push(self.style().strikethrough()),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.link = Some(dest_url.to_string());
            }
            Tag::Table(_) => {
                self.separate();
                self.rows.clear();
            }
            Tag::TableHead | Tag::TableRow => self.rows.push(Vec::new()),
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.flush(),
            TagEnd::Heading(_) => {
                self.flush();
                self.styles.pop();
            }
            TagEnd::CodeBlock => self.in_code = false,
            TagEnd::BlockQuote(_) => {
                self.flush();
                self.prefix.pop();
            }
            TagEnd::List(_) => drop(self.lists.pop()),
            TagEnd::Item => {
                self.flush();
                self.mark = None;
                self.prefix.pop();
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => drop(self.styles.pop()),
            TagEnd::Link | TagEnd::Image => {
                let text: String = self.pieces.iter().map(|(_, text)| &**text).collect();
                if let Some(link) = self.link.take().filter(|link| !text.ends_with(&**link)) {
                    self.push(PLAIN, &format!(" ({link})"));
                }
            }
            TagEnd::TableCell => {
                let pieces = std::mem::take(&mut self.pieces);
                let cell: String = pieces.into_iter().map(|(_, text)| text).collect();
                if let Some(row) = self.rows.last_mut() {
                    row.push(cell);
                }
            }
            TagEnd::Table => {
                let rows = std::mem::take(&mut self.rows);
                let text = table::aligned(&rows, Some(self.columns));
                for (number, line) in text.lines().enumerate() {
                    let style = if number == 0 { HEADING } else { PLAIN };
                    let prefix = self.prefix.concat();
                    self.text
                        .push_str(&format!("{prefix}{style}{line}{style:#}\n"));
                }
            }
            _ => {}
        }
    }

    fn style(&self) -> Style {
        self.styles.last().copied().unwrap_or_default()
    }

    fn push(&mut self, style: Style, text: &str) {
        self.pieces.push((style, escaped(&expand_tabs(text))));
    }

    /// An empty line between blocks, except at the beginning and inside a list.
    fn separate(&mut self) {
        if !self.text.is_empty() && self.lists.is_empty() {
            let prefix = self.prefix.concat();
            self.text.push_str(prefix.trim_end());
            self.text.push('\n');
        }
    }

    /// Ends the paragraph: wraps its words into lines.
    fn flush(&mut self) {
        let pieces = std::mem::take(&mut self.pieces);
        let words = words_of(&pieces);
        if words.is_empty() {
            return;
        }
        let mut line = self.line_start();
        let (mut used, mut is_first) = (line.width(), true);
        for word in words {
            let width: usize = word.iter().map(|(_, text)| text.width()).sum();
            if !is_first && used + 1 + width > self.columns {
                self.text.push_str(line.trim_end());
                self.text.push('\n');
                line = self.line_start();
                (used, is_first) = (line.width(), true);
            }
            if !is_first {
                line.push(' ');
                used += 1;
            }
            for (style, text) in word {
                match style == PLAIN {
                    true => line.push_str(&text),
                    false => line.push_str(&format!("{style}{text}{style:#}")),
                }
            }
            (used, is_first) = (used + width, false);
        }
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    /// The prefix of the next line: the mark of a list item replaces its indentation.
    fn line_start(&mut self) -> String {
        match (self.mark.take(), self.prefix.split_last()) {
            (Some(mark), Some((_, outer))) => outer.concat() + &mark,
            _ => self.prefix.concat(),
        }
    }
}

/// Words, each made of pieces with a style: `**a**b` is one word.
fn words_of(pieces: &[(Style, String)]) -> Vec<Vec<(Style, String)>> {
    let mut words: Vec<Vec<(Style, String)>> = Vec::new();
    let mut is_open = false;
    for (style, text) in pieces {
        for (number, part) in text.split(' ').enumerate() {
            is_open &= number == 0;
            if part.is_empty() {
                continue;
            }
            match words.last_mut().filter(|_| is_open) {
                Some(word) => word.push((*style, part.to_owned())),
                None => words.push(vec![(*style, part.to_owned())]),
            }
            is_open = true;
        }
        is_open &= !text.ends_with(' ');
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn blocks_become_lines_that_fit() {
        let check = |markdown: &str, expected: &str| {
            assert_eq!(plain(&render(markdown, 20)), expected, "{markdown}");
        };
        check("# A **b**", "A b\n");
        check("a\tb", "a b\n");
        check("```\n\tx\n```", "        x\n");
        check("one two three four five", "one two three four\nfive\n");
        check("a **b**c `d e` f", "a bc d e f\n");
        check("- one\n- two\n  - three\n", "• one\n• two\n  • three\n");
        check("3. a\n4. b", "3. a\n4. b\n");
        check(
            "- one two three four five",
            "• one two three four\n  five\n",
        );
        check("> q\n\nafter", "> q\n\nafter\n");
        check("[text](http://x)", "text (http://x)\n");
        check("<http://x>", "http://x\n");
        check("| a | bb |\n|--|--|\n| ccc | d |", "a    bb\nccc  d\n");
        check(
            "```rust\nfn x() {\n    y\n}\n```",
            "    fn x() {\n        y\n    }\n",
        );
        check("a\n\n---\n\nb", "a\n────────────────────\n\nb\n");
    }

    #[test]
    fn t8_no_sequence_of_a_model_reaches_the_terminal() {
        for markdown in [
            "\u{1b}[2J",
            "&#27;[2J",
            "`\u{1b}]0;x\u{7}`",
            "```\n\u{9b}2J\n```",
        ] {
            let text = plain(&render(markdown, 80));
            let odd = |character: char| character.is_control() && character != '\n';
            assert!(!text.contains(odd), "{text:?}");
        }
    }
}
