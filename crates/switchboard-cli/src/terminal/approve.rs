//! The approval prompt: server, tool, reason, all arguments; the answers are once, always and no.

use switchboard::caller::{Approval, ApprovalLifetime, ApprovalRequest};
use switchboard::config::ApprovalChoices;
use switchboard::result::readable_json;

use super::frame::{
    self, CHOSEN, Dialog, FAINT, FAULT, KEYS, Key, PLAIN, Page, ScreenLine, Size, TITLE, WARNING,
    own_line, own_lines, quoted_lines, safe,
};
use super::json;

/// Strings longer than this are cut in the middle until `a` is pressed.
const MAX_STRING_BYTES: usize = 300;
/// The longest summary of a call.
const DETAIL_CHARACTERS: usize = 200;
/// The head is always on the screen and must leave room for the keys, so its facts are limited.
const FACT_CHARACTERS: usize = 240;
/// The column where the value of a fact begins.
const FACT_INDENT: usize = 11;

/// A longer reason is cut: a model reads it.
const MAX_REASON_BYTES: usize = 1000;

/// What each answer does.
const ONCE: &str = "[o] once: this call only";
const ONCE_EACH_TIME: &str = "[o] once: this call only (a rule asks each time)";
const NO: &str = "[n] no: the call is not made";
const WHY: &str = "[w] no, and tell the model why";
/// The choices as Gemini's document words them; there an answer applies to this run only.
const PROCEED: &str = "[o] Proceed once: this call only";
const CANCEL: &str = "[n] Cancel: the call is not made";

/// The approval prompt as a dialog.
pub(super) struct ApprovalDialog<'a> {
    request: &'a ApprovalRequest,
    stage: Stage,
    offset: usize,
    /// Whether long values are shown in full.
    whole: bool,
    /// Whether a no may have a reason, which a model reads.
    asks_for_reason: bool,
    /// The reason so far.
    reason: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Choose,
    /// *Always* was chosen; asks how long to remember it.
    Keep(Always),
    /// *No* was chosen; asks why.
    Reason,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Always {
    Tool,
    Server,
}

impl<'a> ApprovalDialog<'a> {
    pub(super) fn new(request: &'a ApprovalRequest, asks_for_reason: bool) -> Self {
        Self {
            request,
            stage: Stage::Choose,
            offset: 0,
            whole: false,
            asks_for_reason,
            reason: String::new(),
        }
    }

    fn choose(&mut self, key: Key, size: Size) -> Option<Approval> {
        let always = !self.request.once_only;
        match key {
            Key::Char('o' | 'y') => return Some(Approval::Once),
            // Remembered in memory only: there is no second question.
            Key::Char('t') if always && self.is_in_memory() => {
                return Some(Approval::AlwaysTool(ApprovalLifetime::Run));
            }
            Key::Char('s') if always && self.is_in_memory() && self.has_server_tools() => {
                return Some(Approval::AlwaysServer(ApprovalLifetime::Run));
            }
            Key::Char('t') if always => self.stage = Stage::Keep(Always::Tool),
            Key::Char('s') if always && self.has_server_tools() => {
                self.stage = Stage::Keep(Always::Server)
            }
            Key::Char('w') if self.asks_for_reason => self.stage = Stage::Reason,
            Key::Char('n' | 'q') | Key::Enter | Key::Esc | Key::Ctrl('d') => {
                return Some(Approval::No { reason: None });
            }
            Key::Char('a') => {
                self.whole = !self.whole;
                self.offset = 0;
            }
            key => self.scroll(key, size),
        }
        None
    }

    fn keep(&mut self, always: Always, key: Key) -> Option<Approval> {
        let keep = match key {
            Key::Char('r') | Key::Enter => ApprovalLifetime::Run,
            Key::Char('g') => ApprovalLifetime::Permanent,
            Key::Char('n') => return Some(Approval::No { reason: None }),
            Key::Esc | Key::Backspace => {
                self.stage = Stage::Choose;
                return None;
            }
            _ => return None,
        };
        Some(match always {
            Always::Tool => Approval::AlwaysTool(keep),
            Always::Server => Approval::AlwaysServer(keep),
        })
    }

    fn write_reason(&mut self, key: Key) -> Option<Approval> {
        match key {
            Key::Enter if self.reason.trim().is_empty() => {
                return Some(Approval::No { reason: None });
            }
            Key::Enter => return Some(Approval::no(self.reason.trim())),
            Key::Esc => self.stage = Stage::Choose,
            Key::Backspace => drop(self.reason.pop()),
            Key::Char(character) if self.reason.len() < MAX_REASON_BYTES => {
                self.reason.push(character);
            }
            _ => {}
        }
        None
    }

    fn scroll(&mut self, key: Key, size: Size) {
        let page = self.page(size.columns);
        let rows = frame::body_rows(&page, size);
        let last = frame::last_offset(&page, size);
        self.offset = match key {
            Key::Up | Key::Char('k') => self.offset.saturating_sub(1),
            Key::Down | Key::Char('j') => self.offset + 1,
            Key::PageUp | Key::Char('b') => self.offset.saturating_sub(rows),
            Key::PageDown | Key::Char(' ') => self.offset + rows,
            Key::Home => 0,
            Key::End => last,
            _ => self.offset,
        }
        .min(last);
    }

    /// Whether the server's dialect keeps answers in memory only.
    fn is_in_memory(&self) -> bool {
        self.request.dialect.profile().approval_choices == ApprovalChoices::InMemory
    }

    /// The gate treats sampling as a tool of this name, which no server can offer.
    fn is_sampling(&self) -> bool {
        self.request.id.tool.as_wire() == "@sampling"
    }

    /// Whether one answer can cover the other tools of the server: sampling is not one of them, and
    /// built-in tools have no server.
    fn has_server_tools(&self) -> bool {
        !self.is_sampling() && !self.request.id.server.is_host()
    }

    fn head(&self, columns: usize) -> Vec<ScreenLine> {
        let request = self.request;
        let fact = |label: &str, value: &str| {
            // Wrapped lines are indented: no part of a value can look like a fact of its own.
            let lines = frame::wrap(&shortened(value), columns.saturating_sub(FACT_INDENT))
                .into_iter()
                .enumerate();
            let indented = lines.map(|(number, line)| {
                let label = if number == 0 { label } else { "" };
                own_line(format!("  {label:<8} {line}"), PLAIN)
            });
            indented.collect::<Vec<_>>()
        };
        let title = match self.is_sampling() {
            true => format!(
                "May server {:?} send a prompt to your model?",
                request.id.server
            ),
            false if request.id.server.is_host() => "May a built-in tool run?".to_owned(),
            false => format!("May a tool of server {:?} run?", request.id.server),
        };
        let mut head = own_lines(&title, columns, TITLE);
        let (exposed, name) = (request.exposed.as_str(), safe(request.id.tool.as_wire()));
        // The server's own name of the tool, unless the exposed name ends in it.
        if !self.is_sampling() && !exposed.ends_with(&name) {
            head.extend(fact("tool", &name));
        }
        // If the arguments are shown below, they are left out here.
        let is_below = self.whole || self.is_sampling();
        let call = if is_below {
            exposed.to_owned()
        } else {
            detail(exposed, request.arguments.as_str())
        };
        head.extend(fact("call", &call));
        head.extend(fact("because", &safe(&request.because)));
        head
    }

    /// Sections with an empty line between them.
    fn body(&self, columns: usize) -> Vec<ScreenLine> {
        let request = self.request;
        let mut sections = Vec::new();
        if let Some(lines) = &request.changed {
            let title = "It changed since you approved it (- before, + now):";
            sections.push(diff_section(own_line(title, WARNING), lines, columns));
        }
        if !request.preview.is_empty() {
            let title = "What it would change (- before, + after):";
            sections.push(diff_section(
                own_line(title, FAINT),
                &request.preview,
                columns,
            ));
        }
        sections.extend(self.description(columns));
        let name = safe(request.id.tool.as_wire());
        if shortened(&name) != name {
            sections.push(quoted_section("Its full name:", &name, columns));
        }
        sections.extend(self.arguments(columns));
        sections.join(&own_line(String::new(), PLAIN))
    }

    fn description(&self, columns: usize) -> Option<Vec<ScreenLine>> {
        let request = self.request;
        let text = request.definition.description.as_ref()?.raw();
        if text.is_empty() {
            return None;
        }
        // This description is the host's own text.
        if self.is_sampling() || request.id.server.is_host() {
            return Some(own_lines(&safe(text), columns, PLAIN));
        }
        let title = "What the server says it does:";
        Some(quoted_section(title, text, columns))
    }

    /// The arguments; `None` if the summary in the head has all of them.
    fn arguments(&self, columns: usize) -> Option<Vec<ScreenLine>> {
        let raw = self.request.arguments.as_str();
        let is_cut = || detail(self.request.exposed.as_str(), raw).ends_with('…');
        if !self.whole && !self.is_sampling() && !is_cut() {
            return None;
        }
        let title = if self.is_sampling() {
            "What it would ask your model"
        } else {
            "Its arguments"
        };
        let title = format!("{title} ({} bytes):", raw.len());
        let text = json::pretty_json(raw, (!self.whole).then_some(MAX_STRING_BYTES));
        Some(quoted_section(&title, &text, columns))
    }

    fn foot(&self, columns: usize) -> Vec<ScreenLine> {
        let question = match self.stage {
            Stage::Choose => {
                let whole = if self.whole {
                    "a shortens long values"
                } else {
                    "a shows full values"
                };
                let no = if self.is_in_memory() && !self.is_sampling() {
                    "Cancel"
                } else {
                    "no"
                };
                own_lines(
                    &format!("↑ ↓ space scroll · {whole} · Enter is {no}"),
                    columns,
                    FAINT,
                )
            }
            Stage::Reason => own_lines(
                &format!("Why not? The model reads it: {}▏", safe(&self.reason)),
                columns,
                CHOSEN,
            ),
            Stage::Keep(_) if self.is_sampling() => own_lines(
                "Remember yes for every prompt of this server to your model:",
                columns,
                CHOSEN,
            ),
            Stage::Keep(Always::Tool) => own_lines(
                "Remember yes for this tool, with its current definition:",
                columns,
                CHOSEN,
            ),
            Stage::Keep(Always::Server) => own_lines(
                "Remember yes for every tool this server offers now:",
                columns,
                CHOSEN,
            ),
        };
        let reason = (self.stage == Stage::Choose && self.asks_for_reason).then_some(&WHY);
        let choices = self
            .choices()
            .iter()
            .chain(reason)
            .flat_map(|choice| own_lines(choice, columns, KEYS));
        question.into_iter().chain(choices).collect()
    }

    /// The answers and what each does.
    fn choices(&self) -> &'static [&'static str] {
        match (self.stage, self.request.once_only) {
            (Stage::Reason, _) => &["[Enter] no: the call is not made", "[Esc] back"],
            (Stage::Keep(_), _) => &[
                "[r] for this run: until this program ends",
                "[g] for good: until it changes, or `switchboard permissions revoke`",
                "[n] no: the call is not made",
                "[Esc] back",
            ],
            (Stage::Choose, false) if self.is_sampling() => &[
                ONCE,
                "[t] always for this server: every prompt to your model",
                NO,
            ],
            (Stage::Choose, false) if self.request.id.server.is_host() => &[
                ONCE,
                "[t] always this tool: while its definition stays the same",
                NO,
            ],
            (Stage::Choose, false) if self.is_in_memory() => &[
                PROCEED,
                "[t] Always allow this tool: for this run, while its definition stays the same",
                "[s] Always allow this server: for this run, all its tools",
                CANCEL,
            ],
            (Stage::Choose, false) => &[
                ONCE,
                "[t] always this tool: while its definition stays the same",
                "[s] always this server: every tool that it offers now",
                NO,
            ],
            (Stage::Choose, true) if self.is_in_memory() => &[
                "[o] Proceed once: this call only (a rule asks each time)",
                CANCEL,
            ],
            (Stage::Choose, true) => &[ONCE_EACH_TIME, NO],
        }
    }
}

/// A title, and text that is not ours.
fn quoted_section(title: &str, text: &str, columns: usize) -> Vec<ScreenLine> {
    let mut lines = vec![own_line(title, FAINT)];
    lines.extend(quoted_lines(text, columns, PLAIN));
    lines
}

/// A title, and the lines of a diff.
fn diff_section(title: ScreenLine, diff: &[String], columns: usize) -> Vec<ScreenLine> {
    let mut lines = vec![title];
    for line in diff {
        let style = if line.starts_with('-') { FAULT } else { PLAIN };
        lines.extend(quoted_lines(line, columns, style));
    }
    lines
}

impl Dialog for ApprovalDialog<'_> {
    type Answer = Approval;

    fn page(&self, columns: usize) -> Page {
        Page {
            head: self.head(columns),
            body: self.body(columns),
            foot: self.foot(columns),
            focus: None,
        }
    }

    fn press(&mut self, key: Key, size: Size) -> Option<Approval> {
        match self.stage {
            Stage::Choose => self.choose(key, size),
            Stage::Keep(always) => self.keep(always, key),
            Stage::Reason => self.write_reason(key),
        }
    }

    fn offset(&self) -> usize {
        self.offset
    }
}

/// The beginning and the end of a long value, and the length of the part between.
fn shortened(value: &str) -> String {
    let count = value.chars().count();
    if count <= FACT_CHARACTERS {
        return value.to_owned();
    }
    let half = FACT_CHARACTERS / 2;
    let (start, end): (String, String) = (
        value.chars().take(half).collect(),
        value.chars().skip(count - half).collect(),
    );
    format!("{start} [… {} characters …] {end}", count - 2 * half)
}

/// `<exposed tool name> <json-args>`, at most 200 characters, with an ellipsis if it was cut.
fn detail(exposed: &str, arguments: &str) -> String {
    let whole = format!("{exposed} {}", safe(&readable_json(arguments)));
    if whole.chars().count() <= DETAIL_CHARACTERS {
        return whole;
    }
    let start: String = whole.chars().take(DETAIL_CHARACTERS - 1).collect();
    start + "…"
}

#[cfg(test)]
mod tests;
