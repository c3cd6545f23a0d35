//! The line editor, on a thread of its own: several lines, history, completion, `$EDITOR`.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc as blocking;
use std::time::Duration;

use reedline::{
    Color, ColumnarMenu, EditCommand, Emacs, ExternalPrinter, FileBackedHistory, Highlighter,
    KeyCode, KeyModifiers, MenuBuilder, Prompt, PromptEditMode, PromptHistorySearch,
    PromptHistorySearchStatus, Reedline, ReedlineEvent, ReedlineMenu, Signal,
    SimpleMatchHighlighter, StyledText, default_emacs_keybindings,
};
use switchboard::Host;
use tokio::sync::mpsc;

use super::completion::ChatCompleter;
use super::mode::ApprovalMode;
use crate::paths::Paths;
use crate::progress;
use crate::shell_words::split_words;

/// How many inputs the history keeps.
const HISTORY_ENTRIES: usize = 1000;
/// Lines that wait to be printed above the prompt.
const MAX_WAITING_LINES: usize = 256;
/// The host command of the key that switches the mode.
const SWITCH_MODE: &str = "mode";
const MENU: &str = "completion";
/// How long the editor may take to restore the terminal.
const STOP_TIMEOUT: Duration = Duration::from_millis(500);

/// The outcome of one prompt.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum InputEvent {
    Line(String),
    /// Shift-Tab.
    SwitchMode,
    /// Ctrl-C at an empty line.
    Interrupted,
    /// Ctrl-C at a line with text, which is discarded.
    Cleared,
    /// `$EDITOR` failed, with the reason. The line stays.
    EditorFailed(String),
    /// A line of a pipe cannot be read, with the reason.
    Unreadable(String),
    /// Ctrl-D, or the end of a pipe.
    End,
}

/// One prompt to read a line at.
struct PromptRequest {
    mode: ApprovalMode,
    /// Text that the line begins with.
    draft: String,
}

/// The line editor. Dropping it restores the terminal.
pub(super) struct Editor {
    requests: blocking::Sender<PromptRequest>,
    outcomes: mpsc::Receiver<InputEvent>,
    /// Set to end the prompt that is on the screen.
    stop: Arc<AtomicBool>,
    is_reading: bool,
    /// Lines for the editor to print.
    lines: blocking::SyncSender<String>,
}

impl Editor {
    pub(super) fn start(host: Host, paths: &Paths) -> Self {
        let (requests, waiting) = blocking::channel();
        let (sender, outcomes) = mpsc::channel(1);
        let stop = Arc::new(AtomicBool::new(false));
        let printer = ExternalPrinter::new(MAX_WAITING_LINES);
        let lines = printer.sender();
        let files = EditorFiles {
            history: private_file(&paths.state.join("chat_history")),
            draft: private_file(&paths.state.join("chat_draft.md")),
        };
        let (project, stop_editor) = (paths.current.clone(), stop.clone());
        let run = move || {
            let line = PlainLine::default();
            let has_text = line.has_text.clone();
            let mut editor =
                build(host, project, files, printer, stop_editor).with_highlighter(Box::new(line));
            while let Ok(request) = waiting.recv() {
                let event = match read(&mut editor, request) {
                    InputEvent::Interrupted if has_text.load(Ordering::Relaxed) => {
                        InputEvent::Cleared
                    }
                    event => event,
                };
                if sender.blocking_send(event).is_err() {
                    return;
                }
            }
        };
        // If no thread can be started, the first prompt reports the end of input.
        let _ = std::thread::Builder::new().name("editor".into()).spawn(run);
        Self {
            requests,
            outcomes,
            stop,
            is_reading: false,
            lines,
        }
    }

    /// Reads one input.
    pub(super) async fn read(&mut self, mode: ApprovalMode, draft: String) -> InputEvent {
        progress::set_line_editor(Some(self.lines.clone()));
        self.is_reading = true;
        let event = match self.requests.send(PromptRequest { mode, draft }) {
            Ok(()) => self.outcomes.recv().await.unwrap_or(InputEvent::End),
            Err(_) => InputEvent::End,
        };
        self.is_reading = false;
        progress::set_line_editor(None);
        event
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        progress::set_line_editor(None);
        if !self.is_reading {
            return;
        }
        self.stop.store(true, Ordering::Relaxed);
        let deadline = std::time::Instant::now() + STOP_TIMEOUT;
        while self.outcomes.try_recv().is_err() && std::time::Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = crossterm::terminal::disable_raw_mode();
        println!();
    }
}

fn build(
    host: Host,
    project: PathBuf,
    files: EditorFiles,
    printer: ExternalPrinter<String>,
    stop: Arc<AtomicBool>,
) -> Reedline {
    let mut keys = default_emacs_keybindings();
    let complete = ReedlineEvent::UntilFound(vec![
        ReedlineEvent::Menu(MENU.to_owned()),
        ReedlineEvent::MenuNext,
    ]);
    keys.add_binding(KeyModifiers::NONE, KeyCode::Tab, complete);
    let switch = ReedlineEvent::ExecuteHostCommand(SWITCH_MODE.to_owned());
    keys.add_binding(KeyModifiers::SHIFT, KeyCode::BackTab, switch.clone());
    keys.add_binding(KeyModifiers::NONE, KeyCode::BackTab, switch);
    let menu = ColumnarMenu::default().with_name(MENU).with_columns(1);
    let colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let mut editor = Reedline::create()
        .with_edit_mode(Box::new(Emacs::new(keys)))
        .with_completer(Box::new(ChatCompleter::new(host, project)))
        .with_menu(ReedlineMenu::EngineCompleter(Box::new(menu)))
        .with_quick_completions(true)
        .with_partial_completions(true)
        .with_ansi_colors(colours)
        .with_external_printer(printer)
        .with_break_signal(stop)
        .use_bracketed_paste(true);
    if let Some(history) = files.history.and_then(|file| open_history(&file)) {
        editor = editor.with_history(Box::new(history));
    }
    if let Some(value) = configured_editor()
        && let Some(draft) = files.draft
    {
        editor = editor.with_buffer_editor(editor_command(&value), draft);
    }
    editor
}

/// `$VISUAL` or `$EDITOR`, the first that is not empty.
fn configured_editor() -> Option<OsString> {
    let values = ["VISUAL", "EDITOR"]
        .into_iter()
        .filter_map(std::env::var_os);
    let mut values = values.filter(|value| !value.to_string_lossy().trim().is_empty());
    values.next()
}

/// The program, with arguments where the value is not itself the path of a file.
fn editor_command(value: &OsStr) -> Command {
    let words = value.to_str().and_then(|text| split_words(text).ok());
    match words.as_deref() {
        Some([program, arguments @ ..]) if !Path::new(value).is_file() => {
            let mut command = Command::new(program);
            command.args(arguments);
            command
        }
        _ => Command::new(value),
    }
}

/// Files of the state folder; `None` for one that cannot be opened.
struct EditorFiles {
    history: Option<PathBuf>,
    /// The file that `$EDITOR` edits.
    draft: Option<PathBuf>,
}

/// Creates the file if needed, readable by its owner only.
fn private_file(file: &Path) -> Option<PathBuf> {
    let mut options = OpenOptions::new();
    options.create(true).append(true).mode(0o600);
    let opened = options.open(file).ok()?;
    let permissions = std::fs::Permissions::from_mode(0o600);
    opened.set_permissions(permissions).ok()?;
    Some(file.to_owned())
}

fn open_history(file: &Path) -> Option<FileBackedHistory> {
    FileBackedHistory::with_file(HISTORY_ENTRIES, file.to_owned()).ok()
}

fn read(editor: &mut Reedline, request: PromptRequest) -> InputEvent {
    if !request.draft.is_empty() {
        editor.run_edit_commands(&[EditCommand::InsertString(request.draft)]);
    }
    let signal = editor.read_line(&ChatPrompt(request.mode));
    let _ = editor.sync_history();
    match signal {
        Ok(Signal::Success(line)) => InputEvent::Line(line),
        Ok(Signal::HostCommand(_)) => InputEvent::SwitchMode,
        Ok(Signal::CtrlC) => InputEvent::Interrupted,
        Err(error) if is_of_editor(&error) => InputEvent::EditorFailed(error.to_string()),
        Ok(_) | Err(_) => InputEvent::End,
    }
}

/// Whether an error comes from `$EDITOR` or its file. Others mean that the terminal is gone.
fn is_of_editor(error: &std::io::Error) -> bool {
    let cannot_run = error.raw_os_error() == Some(nix::errno::Errno::ENOEXEC as i32);
    cannot_run
        || matches!(
            error.kind(),
            ErrorKind::NotFound
                | ErrorKind::PermissionDenied
                | ErrorKind::InvalidData
                | ErrorKind::IsADirectory
                | ErrorKind::NotADirectory
        )
}

/// Shows the line in the terminal's own colour, because reedline's white cannot be read on a light
/// background. Records whether the line has text, because reedline clears it before it reports a
/// Ctrl-C.
#[derive(Default)]
struct PlainLine {
    style: SimpleMatchHighlighter,
    has_text: Arc<AtomicBool>,
}

impl Highlighter for PlainLine {
    fn highlight(&self, line: &str, cursor: usize) -> StyledText {
        self.has_text.store(!line.is_empty(), Ordering::Relaxed);
        self.style.highlight(line, cursor)
    }
}

/// `> `, with the mode before it unless that is `ask`.
struct ChatPrompt(ApprovalMode);

impl Prompt for ChatPrompt {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        match self.0 {
            ApprovalMode::Ask => Cow::Borrowed(""),
            mode => Cow::Owned(format!("{} ", mode.name())),
        }
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_indicator(&self, _: PromptEditMode) -> Cow<'_, str> {
        Cow::Borrowed("> ")
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        Cow::Borrowed("  ")
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        let failing = match search.status {
            PromptHistorySearchStatus::Passing => "",
            PromptHistorySearchStatus::Failing => "nothing found for ",
        };
        Cow::Owned(format!("({failing}{}) ", search.term))
    }

    fn get_prompt_color(&self) -> Color {
        Color::Yellow
    }
}
