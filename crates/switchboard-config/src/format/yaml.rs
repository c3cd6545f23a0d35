//! Parses YAML: one document, the core types, unique keys. Tags and complex keys are refused.
//!
//! `\$` is kept in every kind of scalar, although YAML has no such escape in double quotes: the
//! agent-apps dialect needs it. Aliases are copied, with a bound on the total size of copies.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use granit_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Tag};

use crate::diagnostic::Diagnostics;
use crate::tree::{Node, TableEntry, Tree};

/// The deepest nesting: parsing and dropping a tree uses the stack.
const MAX_DEPTH: usize = 64;

const TOO_DEEP: &str = "nested too deeply";

/// How much all aliases of a file may copy, in bytes of text plus values.
const MAX_COPIED: usize = 256 * 1024;

const TAGGED: &str = "a value with a tag; only plain values are read";

pub(super) fn parse(text: &str, diagnostics: &mut Diagnostics<'_>) -> Node {
    parse_at(text, 0, diagnostics)
}

/// Parses the front matter of a Markdown file: between its first line, `---`, and the next such
/// line.
pub(super) fn parse_front_matter(text: &str, diagnostics: &mut Diagnostics<'_>) -> Node {
    match front_matter(text) {
        Ok((start, head)) => parse_at(head, start, diagnostics),
        Err(message) => {
            diagnostics.syntax_error(Some(0), message);
            Node {
                at: 0,
                value: Tree::Table(Vec::new()),
            }
        }
    }
}

fn front_matter(text: &str) -> Result<(usize, &str), &'static str> {
    let is_fence = |line: &str| line.trim_end() == "---";
    let mut at = text.len() - text.trim_start_matches('\u{feff}').len();
    let mut start = None;
    for line in text[at..].split_inclusive('\n') {
        let next = at + line.len();
        match start {
            None if is_fence(line) => start = Some(next),
            None => {
                return Err(
                    "no front matter; expected the line `---` first, then YAML, then `---` again",
                );
            }
            Some(start) if is_fence(line) => return Ok((start, &text[start..at])),
            Some(_) => {}
        }
        at = next;
    }
    match start {
        Some(_) => Err("the front matter is not closed; expected a second line `---` after it"),
        None => Err("no front matter; expected the line `---` first, then YAML, then `---` again"),
    }
}

/// Parses a text that begins at the offset `start` of its file.
fn parse_at(text: &str, start: usize, diagnostics: &mut Diagnostics<'_>) -> Node {
    let escaped = EscapedDollars::new(text);
    let options = granit_parser::options! {
        emit_comments: false,
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
    };
    let mut builder = TreeBuilder {
        start,
        escaped: &escaped,
        open: Vec::new(),
        root: None,
        anchors: HashMap::new(),
        copied: 0,
    };
    let mut documents = 0;
    for event in Parser::new_from_str_with_options(&escaped.text, options) {
        let outcome = match event {
            Ok((event, span)) => {
                let at = offset(&span.start);
                documents += usize::from(matches!(event, Event::DocumentStart(..)));
                let outcome = match documents {
                    0 | 1 => builder.add(event, at),
                    _ => Err("a second document begins here; expected one"),
                };
                outcome.map_err(|message| (at, message.to_owned()))
            }
            Err(fault) => Err((offset(fault.marker()), syntax_message(&fault, &escaped))),
        };
        if let Err((at, message)) = outcome {
            diagnostics.syntax_error(Some(start + at), message);
            break;
        }
    }
    // An empty document is an empty table, as in every other format.
    match builder.root {
        Some(Node {
            value: Tree::Null, ..
        })
        | None => Node {
            at: start,
            value: Tree::Table(Vec::new()),
        },
        Some(root) => root,
    }
}

fn offset(marker: &Marker) -> usize {
    marker.byte_offset().unwrap_or_default()
}

/// The message about invalid YAML: only the kind of error, since the parser's full message may quote
/// the text, which may hold a secret.
fn syntax_message(fault: &ScanError, escaped: &EscapedDollars<'_>) -> String {
    let kind = fault.info();
    if kind.contains("recursion limit") {
        TOO_DEEP.to_owned()
    } else {
        format!("not valid YAML: {}", escaped.restore(&kind))
    }
}

/// A text in which every `\$` is replaced by an unused character of two bytes, so that offsets stay
/// the same.
struct EscapedDollars<'t> {
    text: Cow<'t, str>,
    stand_in: Option<char>,
}

impl<'t> EscapedDollars<'t> {
    fn new(text: &'t str) -> Self {
        if !text.contains("\\$") {
            return Self {
                text: Cow::Borrowed(text),
                stand_in: None,
            };
        }
        let used: HashSet<char> = text.chars().collect();
        // A range of letters of two bytes; no real text uses all of them.
        let Some(stand_in) = ('\u{400}'..='\u{52f}').find(|letter| !used.contains(letter)) else {
            return Self {
                text: Cow::Borrowed(text),
                stand_in: None,
            };
        };
        let mut escaped = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find("\\$") {
            let before = &rest[..at];
            // After an odd number of backslashes this one belongs to the escape `\\`.
            let backslashes = before.len() - before.trim_end_matches('\\').len();
            escaped.push_str(before);
            if backslashes % 2 == 1 {
                escaped.push_str("\\$");
            } else {
                escaped.push(stand_in);
            }
            rest = &rest[at + 2..];
        }
        escaped.push_str(rest);
        Self {
            text: Cow::Owned(escaped),
            stand_in: Some(stand_in),
        }
    }

    fn restore(&self, text: &str) -> String {
        match self.stand_in {
            Some(stand_in) => text.replace(stand_in, "\\$"),
            None => text.to_owned(),
        }
    }
}

/// Builds the tree from the parser's events.
struct TreeBuilder<'k> {
    start: usize,
    escaped: &'k EscapedDollars<'k>,
    /// Collections that are not closed yet, outermost first.
    open: Vec<OpenCollection>,
    root: Option<Node>,
    /// By the parser's number, once complete: an alias inside its own anchor is refused.
    anchors: HashMap<usize, AnchoredNode>,
    copied: usize,
}

struct OpenCollection {
    at: usize,
    anchor: usize,
    tagged: bool,
    kind: CollectionKind,
}

enum CollectionKind {
    List(Vec<Node>),
    /// The entries, their keys, and the key that waits for its value.
    Table(Vec<TableEntry>, HashSet<String>, Option<(String, usize)>),
}

struct AnchoredNode {
    node: Node,
    size: usize,
    depth: usize,
}

impl TreeBuilder<'_> {
    fn add(&mut self, event: Event<'_>, at: usize) -> Result<(), &'static str> {
        let at = self.start + at;
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let text = self.escaped.restore(&text);
                let value = match tag {
                    Some(tag) if is_text(&tag) => Tree::Text(text),
                    Some(_) => Tree::Other(TAGGED),
                    None if style == ScalarStyle::Plain && !self.expects_key() => plain(text),
                    None => Tree::Text(text),
                };
                self.place(Node { at, value }, anchor)
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.enter(at, anchor, tag.is_some(), CollectionKind::List(Vec::new()))
            }
            Event::MappingStart(_, anchor, tag) => self.enter(
                at,
                anchor,
                tag.is_some(),
                CollectionKind::Table(Vec::new(), HashSet::new(), None),
            ),
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(OpenCollection {
                    at,
                    anchor,
                    tagged,
                    kind,
                }) => {
                    let value = match kind {
                        _ if tagged => Tree::Other(TAGGED),
                        CollectionKind::List(items) => Tree::List(items),
                        CollectionKind::Table(entries, ..) => Tree::Table(entries),
                    };
                    self.place(Node { at, value }, anchor)
                }
                None => Ok(()),
            },
            Event::Alias(anchor) => self.copy(anchor),
            _ => Ok(()),
        }
    }

    fn expects_key(&self) -> bool {
        matches!(
            self.open.last(),
            Some(OpenCollection {
                kind: CollectionKind::Table(_, _, None),
                ..
            })
        )
    }

    fn enter(
        &mut self,
        at: usize,
        anchor: usize,
        tagged: bool,
        kind: CollectionKind,
    ) -> Result<(), &'static str> {
        if self.expects_key() {
            return Err("a key must be a plain string, not a list or a table");
        }
        if self.open.len() >= MAX_DEPTH {
            return Err(TOO_DEEP);
        }
        self.open.push(OpenCollection {
            at,
            anchor,
            tagged,
            kind,
        });
        Ok(())
    }

    /// Inserts a copy of what an alias refers to.
    fn copy(&mut self, anchor: usize) -> Result<(), &'static str> {
        let Some(AnchoredNode { node, size, depth }) = self.anchors.get(&anchor) else {
            return Err("this alias is inside its own anchor");
        };
        self.copied = self.copied.saturating_add(*size);
        if self.copied > MAX_COPIED {
            return Err("aliases expand to more than 256 KiB; write the values out");
        }
        if self.open.len() + depth > MAX_DEPTH {
            return Err(TOO_DEEP);
        }
        let node = node.clone();
        self.place(node, 0)
    }

    fn place(&mut self, node: Node, anchor: usize) -> Result<(), &'static str> {
        if anchor != 0 {
            let (size, depth) = measure(&node);
            self.anchors.insert(
                anchor,
                AnchoredNode {
                    node: node.clone(),
                    size,
                    depth,
                },
            );
        }
        match self.open.last_mut().map(|open| &mut open.kind) {
            None => self.root = Some(node),
            Some(CollectionKind::List(items)) => items.push(node),
            Some(CollectionKind::Table(entries, seen, waiting)) => match waiting.take() {
                Some((key, at)) => entries.push(TableEntry {
                    key,
                    at,
                    value: node,
                }),
                None => {
                    let Tree::Text(key) = node.value else {
                        return Err(
                            "a key must be a plain string, not a list, a table or a tagged value",
                        );
                    };
                    if !seen.insert(key.clone()) {
                        return Err("this name is already set above; each may occur once");
                    }
                    *waiting = Some((key, node.at));
                }
            },
        }
        Ok(())
    }
}

/// The size and the depth of a node.
fn measure(node: &Node) -> (usize, usize) {
    let inside = |nodes: &mut dyn Iterator<Item = (usize, &Node)>| {
        nodes.fold((1, 1), |(size, depth), (own, node)| {
            let (more, deeper) = measure(node);
            (size + own + more, depth.max(deeper + 1))
        })
    };
    match &node.value {
        Tree::List(items) => inside(&mut items.iter().map(|item| (0, item))),
        Tree::Table(entries) => {
            inside(&mut entries.iter().map(|entry| (entry.key.len(), &entry.value)))
        }
        Tree::Text(text) | Tree::Number(text) => (1 + text.len(), 0),
        Tree::Flag(_) | Tree::Null | Tree::Other(_) => (1, 0),
    }
}

fn is_text(tag: &Tag) -> bool {
    tag.is_yaml_core_schema_tag("str")
}

/// An unquoted scalar, by YAML's core schema.
fn plain(text: String) -> Tree {
    match text.as_str() {
        "" | "~" | "null" | "Null" | "NULL" => return Tree::Null,
        "true" | "True" | "TRUE" => return Tree::Flag(true),
        "false" | "False" | "FALSE" => return Tree::Flag(false),
        _ => {}
    }
    if let Some(digits) = integer(&text) {
        return Tree::Number(digits);
    }
    if is_decimal(&text) {
        Tree::Number(text)
    } else {
        Tree::Text(text)
    }
}

/// The decimal digits of a whole number.
fn integer(text: &str) -> Option<String> {
    let based = [("0x", 16), ("0o", 8)]
        .into_iter()
        .find_map(|(prefix, radix)| Some((text.strip_prefix(prefix)?, radix)));
    if let Some((digits, radix)) = based {
        // YAML allows no sign after the prefix.
        return digits
            .starts_with(|first: char| first.is_digit(radix))
            .then(|| i128::from_str_radix(digits, radix).ok())?
            .map(|number| number.to_string());
    }
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    whole.then(|| {
        text.parse::<i128>()
            .map_or_else(|_| text.to_owned(), |number| number.to_string())
    })
}

/// `[-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?`, and the numbers that are
/// none.
fn is_decimal(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return true;
    }
    let all_digits =
        |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (
            mantissa,
            Some(exponent.strip_prefix(['+', '-']).unwrap_or(exponent)),
        ),
        None => (unsigned, None),
    };
    let mantissa = match mantissa.split_once('.') {
        Some((whole, fraction)) => {
            (whole.is_empty() && all_digits(fraction))
                || (all_digits(whole) && (fraction.is_empty() || all_digits(fraction)))
        }
        None => all_digits(mantissa),
    };
    mantissa && exponent.is_none_or(all_digits)
}
