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
    let mut parser = Parser::new_ext(markdown, options());
    parser.by_ref().for_each(|event| renderer.event(event));
    renderer.flush();
    renderer.link_definitions(&parser);
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
                    let start = self.line_start();
                    self.text.push_str(&format!("{start}{}", code_line(line)));
                }
            }
            Event::Html(text) => {
                for line in text.lines() {
                    self.push(PLAIN, line);
                    self.flush();
                }
            }
            Event::Text(text) => self.push(self.style(), &text),
            Event::InlineHtml(text) => self.push(self.style(), &text.replace('\n', " ")),
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
                if self.mark.is_some() {
                    let line = self.line_start();
                    self.text.push_str(&format!("{}\n", line.trim_end()));
                }
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
                let text = table::aligned_whole(&rows, self.columns);
                for (number, line) in text.lines().enumerate() {
                    let style = if number == 0 { HEADING } else { PLAIN };
                    let start = self.line_start();
                    self.text
                        .push_str(&format!("{start}{style}{line}{style:#}\n"));
                }
            }
            _ => {}
        }
    }

    /// The addresses that `[text][label]` stands for. The text may be in a block that was shown before.
    fn link_definitions(&mut self, parser: &Parser<'_>) {
        let mut links: Vec<_> = parser.reference_definitions().iter().collect();
        links.sort_by_key(|(_, link)| link.span.start);
        if !links.is_empty() {
            self.separate();
        }
        for (label, link) in links {
            let line = format!("[{}]: {}\n", escaped(label), escaped(&link.dest));
            self.text.push_str(&line);
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
            let width: usize = word.pieces.iter().map(|(_, text)| text.width()).sum();
            let space = usize::from(word.follows_space);
            if !is_first && used + space + width > self.columns {
                self.text.push_str(line.trim_end());
                self.text.push('\n');
                line = self.line_start();
                (used, is_first) = (line.width(), true);
            }
            if !is_first {
                line.push_str(&" "[..space]);
                used += space;
            }
            for (style, text) in word.pieces {
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

/// A part of a line that is not split: `**a**b` is one.
struct Word {
    pieces: Vec<(Style, String)>,
    follows_space: bool,
}

/// Chinese, Japanese and Korean are written without spaces: a line may end after each character.
fn words_of(pieces: &[(Style, String)]) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    let (mut follows_space, mut is_open) = (true, false);
    for (style, text) in pieces {
        for part in text.split_inclusive(|character| character == ' ' || is_cjk(character)) {
            let word = part.trim_end_matches(' ');
            if !word.is_empty() {
                let piece = (*style, word.to_owned());
                match words.last_mut().filter(|_| is_open) {
                    Some(word) => word.pieces.push(piece),
                    None => words.push(Word {
                        pieces: vec![piece],
                        follows_space,
                    }),
                }
            }
            follows_space = part.ends_with(' ');
            is_open = !part.ends_with(|character| character == ' ' || is_cjk(character));
        }
    }
    words
}

fn is_cjk(character: char) -> bool {
    matches!(
        character,
        '\u{2e80}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}'
            | '\u{ff00}'..='\u{ff60}' | '\u{20000}'..='\u{3fffd}'
    )
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
            "| a | b |\n|--|--|\n| c | one two three four END |",
            "a  b\nc\n    one two three\n    four END\n",
        );
        check(
            "日本語の文は空白なしで書く",
            "日本語の文は空白なし\nで書く\n",
        );
        check("a 日本 **b**c", "a 日本 bc\n");
        check(
            "<details>\n<summary>More</summary>\n",
            "<details>\n<summary>More</summary>\n",
        );
        check("- ```\n  x\n  ```\n-\n- y", "•     x\n•\n• y\n");
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
