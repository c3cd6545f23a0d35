//! Inputs of a conversation: from the line editor on a terminal, from stdin elsewhere, and typed
//! ahead while a turn runs.

use std::collections::VecDeque;
use std::io::{BufRead, IsTerminal};

use switchboard::Host;
use tokio::sync::mpsc;

use super::editor::{Editor, InputEvent};
use super::mode::SharedMode;
use super::screen;
use crate::interrupt::Interrupts;
use crate::paths::Paths;
use crate::progress;
use crate::terminal::{Key, Typing};
use crate::view::server::escaped;

/// Inputs that may be typed ahead.
const MAX_QUEUED: usize = 16;
/// Lines of stdin that are read ahead.
const MAX_WAITING_LINES: usize = 4;

/// The inputs of a conversation.
pub(super) struct Input {
    source: InputSource,
    mode: SharedMode,
    interrupts: Interrupts,
    /// Typed ahead and entered.
    queued: VecDeque<String>,
    /// Typed ahead and not entered.
    draft: String,
    /// Why nothing more can be read, where a question met it: the next input says so.
    unreadable: Option<String>,
}

enum InputSource {
    Editor(Editor),
    Lines(mpsc::Receiver<Result<String, String>>),
}

impl Input {
    pub(super) fn start(
        host: &Host,
        paths: &Paths,
        mode: &SharedMode,
        interrupts: Interrupts,
    ) -> Self {
        let is_interactive = std::io::stdin().is_terminal()
            && std::io::stdout().is_terminal()
            && std::io::stderr().is_terminal();
        let source = match is_interactive {
            true => InputSource::Editor(Editor::start(host.clone(), paths)),
            false => InputSource::Lines(read_lines()),
        };
        Self {
            source,
            mode: mode.clone(),
            interrupts,
            queued: VecDeque::new(),
            draft: String::new(),
            unreadable: None,
        }
    }

    /// Whether the input is a terminal.
    pub(super) fn is_interactive(&self) -> bool {
        matches!(self.source, InputSource::Editor(_))
    }

    /// The next input. Keys of the editor that are no input are handled here.
    pub(super) async fn next(&mut self) -> InputEvent {
        loop {
            match self.next_event().await {
                InputEvent::SwitchMode => self.mode.switch(),
                InputEvent::EditorFailed(reason) => super::notice(&format!(
                    "the editor failed: {}; Ctrl-O starts the one in $VISUAL or $EDITOR",
                    escaped(&reason)
                )),
                event => return event,
            }
        }
    }

    async fn next_event(&mut self) -> InputEvent {
        if let Some(line) = self.queued.pop_front() {
            screen::print(&format!("> {}\n", on_one_line(&line)));
            return InputEvent::Line(line);
        }
        if let Some(reason) = self.unreadable.take() {
            return InputEvent::Unreadable(reason);
        }
        match &mut self.source {
            InputSource::Lines(lines) => tokio::select! {
                line = lines.recv() => match line {
                    Some(Ok(line)) => InputEvent::Line(line),
                    Some(Err(reason)) => InputEvent::Unreadable(reason),
                    None => InputEvent::End,
                },
                () = self.interrupts.next() => InputEvent::Interrupted,
            },
            InputSource::Editor(editor) => {
                let draft = std::mem::take(&mut self.draft);
                editor.read(self.mode.get(), draft).await
            }
        }
    }

    /// Asks for one line of text; `None` if it is not answered.
    pub(super) async fn ask(&mut self, question: &str) -> Option<String> {
        screen::print(&format!("{question}\n"));
        match self.next().await {
            InputEvent::Line(line) => Some(line.trim().to_owned()),
            InputEvent::Unreadable(reason) => {
                self.unreadable = Some(reason);
                None
            }
            _ => None,
        }
    }

    /// Runs work until it ends; Ctrl-C drops it and returns `None`. Keys that are typed meanwhile
    /// become the next input.
    pub(super) async fn during<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let mut typing = match self.is_interactive() {
            true => Typing::start(),
            false => None,
        };
        tokio::pin!(work);
        let outcome = loop {
            tokio::select! {
                biased;
                done = &mut work => break Some(done),
                () = self.interrupts.next() => break None,
                Some(key) = next_key(&mut typing) => self.press(key),
            }
        };
        for key in typing.map(Typing::finish).unwrap_or_default() {
            self.press(key);
        }
        progress::show_typed("");
        outcome
    }

    /// Makes what was typed ahead a draft again, so that the person decides on it. Returns whether
    /// there is any.
    pub(super) fn withdraw_queued(&mut self) -> bool {
        let draft = std::mem::take(&mut self.draft);
        let draft = Some(draft).filter(|draft| !draft.is_empty());
        let texts: Vec<String> = self.queued.drain(..).chain(draft).collect();
        self.draft = texts.join("\n");
        !texts.is_empty()
    }

    /// Handles a key that was typed during a turn.
    fn press(&mut self, key: Key) {
        match key {
            Key::Enter => self.queue(),
            Key::BackTab => {
                self.mode.switch();
                screen::note(&format!("mode {}", self.mode.get().name()));
            }
            Key::Backspace => drop(self.draft.pop()),
            Key::Ctrl('u') => self.draft.clear(),
            Key::Char(character) => self.draft.push(character),
            _ => {}
        }
        progress::show_typed(&on_one_line(&self.draft));
    }

    fn queue(&mut self) {
        let line = std::mem::take(&mut self.draft);
        if line.trim().is_empty() {
            return;
        }
        if self.queued.len() == MAX_QUEUED {
            screen::note("too many inputs are queued; wait for the answer");
            self.draft = line;
            return;
        }
        screen::note(&format!("queued: {}", on_one_line(&line)));
        self.queued.push_back(line);
    }
}

/// A text on one line: one that was pasted has several.
fn on_one_line(text: &str) -> String {
    escaped(&text.replace('\n', "⏎").replace('\t', " "))
}

/// The next key; pending for ever if no keys are read.
async fn next_key(typing: &mut Option<Typing>) -> Option<Key> {
    match typing {
        Some(typing) => typing.key().await,
        None => std::future::pending().await,
    }
}

/// Lines of stdin, read by a thread that ends with stdin, with a line that is not text, or with the
/// first line that nobody receives.
fn read_lines() -> mpsc::Receiver<Result<String, String>> {
    let (sender, lines) = mpsc::channel(MAX_WAITING_LINES);
    let read = move || {
        for (index, line) in std::io::stdin().lock().lines().enumerate() {
            let line = line.map_err(|error| format!("stdin, line {}: {error}", index + 1));
            let is_last = line.is_err();
            if sender.blocking_send(line).is_err() || is_last {
                return;
            }
        }
    };
    // If no thread can be started, the channel closes, which ends the conversation.
    let _ = std::thread::Builder::new().name("stdin".into()).spawn(read);
    lines
}
