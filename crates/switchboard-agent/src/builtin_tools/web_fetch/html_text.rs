//! HTML as text, in one pass over its tokens: no tree, no recursion, so that hostile pages cost no
//! more than others.

use std::cell::RefCell;

use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{
    BufferQueue, EndTag, StartTag, Tag, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};
use url::Url;

use crate::builtin_tools::blocking::StopSignal;

/// How much is tokenized between two checks of the signal. A tag with very many attributes takes
/// quadratic time, which the signal bounds.
const CHUNK_BYTES: usize = 4 << 10;
/// The longest address of a link.
const MAX_LINK_BYTES: usize = 500;

/// The text of a page; addresses of links are completed with `base`.
pub(super) fn to_text(html: &str, base: &Url, stop: &StopSignal) -> String {
    let sink = TextSink(RefCell::new(HtmlText {
        base: base.clone(),
        text: String::new(),
        has_space: false,
        dropped: None,
        preformatted: 0,
        link: None,
    }));
    let tokenizer = Tokenizer::new(sink, TokenizerOpts::default());
    let queue = BufferQueue::default();
    let mut rest = html;
    let mut is_stopped = false;
    while !rest.is_empty() && !is_stopped {
        let (chunk, after) = rest.split_at(rest.ceil_char_boundary(CHUNK_BYTES));
        rest = after;
        queue.push_back(StrTendril::from_slice(chunk));
        // The sink never asks to run a script; the encoding is known.
        while !queue.is_empty() {
            let _ = tokenizer.feed(&queue);
        }
        is_stopped = stop.is_set();
    }
    if !is_stopped {
        tokenizer.end();
    }
    let mut text = tokenizer.sink.0.into_inner().text;
    text.truncate(text.trim_end().len());
    if is_stopped {
        text.push_str("\n[cut: the rest of the page takes too long to read]");
    }
    text
}

struct TextSink(RefCell<HtmlText>);

struct HtmlText {
    base: Url,
    text: String,
    /// White space came after the last word.
    has_space: bool,
    /// The tag whose content is left out.
    dropped: Option<String>,
    /// How many `pre` are open.
    preformatted: usize,
    /// The address of the open link, and where its text begins.
    link: Option<(String, usize)>,
}

impl TokenSink for TextSink {
    type Handle = ();

    fn process_token(&self, token: Token, _: u64) -> TokenSinkResult<()> {
        let mut page = self.0.borrow_mut();
        match token {
            Token::CharacterTokens(text) => page.add_text(&text),
            Token::TagToken(tag) if tag.kind == StartTag => return page.open(&tag),
            Token::TagToken(tag) if tag.kind == EndTag => page.close(&tag.name),
            _ => {}
        }
        TokenSinkResult::Continue
    }
}

impl HtmlText {
    fn add_text(&mut self, text: &str) {
        if self.dropped.is_some() {
            return;
        }
        if self.preformatted > 0 {
            self.text.push_str(text);
            return;
        }
        for (number, word) in text.split(char::is_whitespace).enumerate() {
            self.has_space |= number > 0;
            if !word.is_empty() {
                self.add_space();
                self.text.push_str(word);
            }
        }
    }

    /// Writes the white space before a word, where a line goes on.
    fn add_space(&mut self) {
        let is_line_start = self.text.is_empty() || self.text.ends_with(['\n', ' ', '[']);
        if std::mem::take(&mut self.has_space) && !is_line_start {
            self.text.push(' ');
        }
    }

    /// Begins a new line; a block has an empty line before it.
    fn new_line(&mut self, is_block: bool) {
        self.has_space = false;
        // A list item or a heading that begins with a block goes on in its line.
        if self.text.ends_with("- ") || self.text.ends_with("# ") {
            return;
        }
        let trimmed = self.text.trim_end_matches(' ').len();
        self.text.truncate(trimmed);
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
        if is_block && !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }

    fn open(&mut self, tag: &Tag) -> TokenSinkResult<()> {
        let name = &*tag.name;
        if self.dropped.is_some() {
            return TokenSinkResult::Continue;
        }
        match name {
            "script" | "style" | "noscript" | "iframe" | "noembed" | "noframes" | "xmp" => {
                self.dropped = Some(name.to_owned());
                return TokenSinkResult::RawData(match name {
                    "script" => RawKind::ScriptData,
                    _ => RawKind::Rawtext,
                });
            }
            "title" | "textarea" => {
                self.new_line(true);
                return TokenSinkResult::RawData(RawKind::Rcdata);
            }
            "plaintext" => return TokenSinkResult::Plaintext,
            "br" | "tr" => self.new_line(false),
            "td" | "th" => self.has_space |= !self.text.ends_with('\n'),
            "li" => {
                self.new_line(false);
                self.text.push_str("- ");
            }
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                self.new_line(true);
                let level = usize::from(name.as_bytes()[1] - b'0');
                self.text.push_str(&"#".repeat(level));
                self.text.push(' ');
            }
            "pre" => {
                self.new_line(true);
                self.preformatted += 1;
            }
            "img" => self.add_image(tag),
            "a" => self.open_link(tag),
            _ if is_block(name) => self.new_line(true),
            _ => {}
        }
        TokenSinkResult::Continue
    }

    fn close(&mut self, name: &str) {
        if let Some(dropped) = &self.dropped {
            if dropped == name {
                self.dropped = None;
            }
            return;
        }
        match name {
            "a" => self.close_link(),
            "pre" => {
                self.preformatted = self.preformatted.saturating_sub(1);
                self.new_line(true);
            }
            "title" | "textarea" | "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => self.new_line(true),
            _ if is_block(name) => self.new_line(true),
            _ => {}
        }
    }

    fn add_image(&mut self, tag: &Tag) {
        if let Some(text) = attribute(tag, "alt").filter(|text| !text.trim().is_empty()) {
            self.add_space();
            self.text.push_str("[image: ");
            self.add_text(text.trim());
            self.text.push(']');
        }
    }

    fn open_link(&mut self, tag: &Tag) {
        self.close_link();
        let target = attribute(tag, "href").and_then(|target| self.base.join(target).ok());
        let is_page = |url: &Url| matches!(url.scheme(), "http" | "https");
        let is_short = |url: &Url| url.as_str().len() <= MAX_LINK_BYTES;
        if let Some(url) = target.filter(is_page).filter(is_short) {
            self.add_space();
            self.link = Some((url.into(), self.text.len()));
            self.text.push('[');
        }
    }

    fn close_link(&mut self) {
        let Some((address, start)) = self.link.take() else {
            return;
        };
        match self
            .text
            .get(start + 1..)
            .is_none_or(|text| text.trim().is_empty())
        {
            true => self.text.truncate(start),
            false => {
                self.text.push_str("](");
                self.text.push_str(&address);
                self.text.push(')');
            }
        }
    }
}

fn attribute<'t>(tag: &'t Tag, name: &str) -> Option<&'t str> {
    let found = tag
        .attrs
        .iter()
        .find(|attribute| &*attribute.name.local == name);
    found.map(|attribute| &*attribute.value)
}

fn is_block(name: &str) -> bool {
    matches!(
        name,
        "p" | "div"
            | "section"
            | "article"
            | "header"
            | "footer"
            | "main"
            | "nav"
            | "aside"
            | "ul"
            | "ol"
            | "dl"
            | "dt"
            | "dd"
            | "table"
            | "blockquote"
            | "figure"
            | "figcaption"
            | "form"
            | "hr"
            | "details"
            | "summary"
            | "address"
            | "body"
            | "option"
    )
}

#[cfg(test)]
mod tests;
