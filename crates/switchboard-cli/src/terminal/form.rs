//! An elicitation form: fields of every primitive type; it can be sent, declined or cancelled.

use serde_json::{Map, Value};
use switchboard::caller::ElicitAnswer;
use switchboard::name::ServerName;
use switchboard::untrusted::Untrusted;
use switchboard::wire::RawJson;

use super::frame::{
    CHOSEN, Dialog, FAINT, FAULT, Key, PLAIN, Page, ScreenLine, Size, TITLE, WARNING, choices,
    own_line, own_lines, quoted_lines, safe,
};
use field::{Field, Kind};

/// Text formats: e-mail, URI, date, time.
mod check;
/// One field: its value and constraints.
mod field;
/// One line of text being edited.
mod input;
/// From a schema to fields.
mod read;

/// The form as a dialog.
#[derive(Debug, PartialEq)]
pub(super) struct Form {
    server: String,
    message: String,
    fields: Vec<Field>,
    /// Index of the field with the cursor; one past the last is the send button.
    focus: usize,
}

impl Form {
    /// Reads the schema. The error is one escaped line.
    pub(super) fn new(
        server: &ServerName,
        message: &Untrusted,
        schema: &RawJson,
    ) -> Result<Self, String> {
        Ok(Self::of(
            server.to_string(),
            message.raw().to_owned(),
            read::fields(schema)?,
        ))
    }

    fn of(server: String, message: String, fields: Vec<Field>) -> Self {
        Self {
            server,
            message,
            fields,
            focus: 0,
        }
    }

    /// The answer if every field is valid; otherwise moves the cursor to the first invalid one.
    fn send(&mut self) -> Option<ElicitAnswer> {
        let mut answer = Map::new();
        let mut first_fault = None;
        for (index, field) in self.fields.iter_mut().enumerate() {
            match field.check() {
                Some(Some(value)) => _ = answer.insert(field.name.clone(), value),
                Some(None) => {}
                None => first_fault = first_fault.or(Some(index)),
            }
        }
        match first_fault {
            Some(index) => {
                self.focus = index;
                None
            }
            None => Some(ElicitAnswer::Accept(answer)),
        }
    }

    fn move_focus(&mut self, forward: bool) {
        let places = self.fields.len() + 1;
        let leaving = self.focus;
        self.focus = (self.focus + if forward { 1 } else { places - 1 }) % places;
        if let Some(field) = self.fields.get_mut(leaving) {
            field.check();
        }
    }
}

impl Dialog for Form {
    type Answer = ElicitAnswer;

    fn press(&mut self, key: Key, _: Size) -> Option<ElicitAnswer> {
        let at_button = self.focus == self.fields.len();
        match key {
            Key::Esc => return Some(ElicitAnswer::Cancel),
            Key::Ctrl('d') => return Some(ElicitAnswer::Decline),
            Key::Enter if at_button => return self.send(),
            Key::Enter | Key::Tab | Key::Down => self.move_focus(true),
            Key::Up | Key::BackTab => self.move_focus(false),
            key => {
                if let Some(field) = self.fields.get_mut(self.focus) {
                    field.press(key);
                }
            }
        }
        None
    }

    fn page(&self, columns: usize) -> Page {
        let mut head = vec![own_line(format!("Server \"{}\" asks", self.server), TITLE)];
        head.extend(own_lines(
            "Text behind a bar is the server's. You do not have to answer.",
            columns,
            FAINT,
        ));
        let mut body = quoted_lines(&self.message, columns, PLAIN);
        let mut focus_line = None;
        for (index, field) in self.fields.iter().enumerate() {
            body.push(own_line(String::new(), PLAIN));
            let here = index == self.focus;
            let from = body.len();
            draw_field(&mut body, field, here, (index, self.fields.len()), columns);
            if here {
                // The field's last line, so that all of it is on the screen if it fits.
                focus_line = Some(body.len().saturating_sub(1).max(from));
            }
        }
        body.push(own_line(String::new(), PLAIN));
        let at_button = self.focus == self.fields.len();
        body.push(own_line(
            "  [ Send ]",
            if at_button { CHOSEN } else { PLAIN },
        ));
        let focus = focus_line.or(Some(body.len() - 1));
        let mut foot = own_lines("Tab ↑ ↓ move · ← → choose · space ticks", columns, FAINT);
        foot.extend(choices(
            &[
                "[Enter] next, send",
                "[Ctrl-D] decline: answer no",
                "[Esc] cancel: no answer",
            ],
            columns,
        ));
        Page {
            head,
            body,
            foot,
            focus,
        }
    }
}

/// A field: its number and constraints, the server's title and description, its value and fault.
fn draw_field(
    body: &mut Vec<ScreenLine>,
    field: &Field,
    here: bool,
    (index, count): (usize, usize),
    columns: usize,
) {
    let required = if field.required {
        "required"
    } else {
        "optional"
    };
    body.extend(own_lines(
        &format!(
            "{} of {count} · {}, {required}",
            index + 1,
            field.kind.describe()
        ),
        columns,
        FAINT,
    ));
    body.extend(quoted_lines(
        field.title.as_deref().unwrap_or(&field.name),
        columns,
        TITLE,
    ));
    if let Some(description) = &field.description {
        body.extend(quoted_lines(description, columns, PLAIN));
    }
    if field.looks_secret() {
        let warning = "  This looks like a secret. A server should not ask for one here: decline if in doubt.";
        body.extend(own_lines(warning, columns, WARNING));
    }
    body.extend(value_lines(&field.kind, here, columns));
    if let Some(fault) = &field.fault {
        body.extend(own_lines(&format!("  ! {fault}"), columns, FAULT));
    }
}

/// The input line of a field, or its options with their marks.
fn value_lines(kind: &Kind, here: bool, columns: usize) -> Vec<ScreenLine> {
    let style = if here { CHOSEN } else { PLAIN };
    let radio = |is_chosen: bool| if is_chosen { "(•)" } else { "( )" };
    let option = |mark: &str, title: &str, is_current: bool| {
        let style = if is_current { style } else { PLAIN };
        own_line(format!("  {mark} │ {}", safe(title)), style)
    };
    match kind {
        Kind::Text { input, .. } | Kind::Number { input, .. } => {
            let room = columns.saturating_sub(5);
            vec![own_line(format!("  > {}", input.shown(here, room)), style)]
        }
        Kind::Boolean { value } => {
            let (yes, no) = (radio(*value == Some(true)), radio(*value == Some(false)));
            vec![own_line(format!("  {yes} yes   {no} no"), style)]
        }
        Kind::Choice { options, chosen } => {
            let options = options.iter().enumerate();
            options
                .map(|(index, (_, title))| {
                    let is_chosen = *chosen == Some(index);
                    option(radio(is_chosen), title, is_chosen)
                })
                .collect()
        }
        Kind::Many {
            options,
            ticked,
            cursor,
            ..
        } => {
            let options = options.iter().enumerate();
            options
                .map(|(index, (_, title))| {
                    let mark = if ticked[index] { "[x]" } else { "[ ]" };
                    option(mark, title, *cursor == index)
                })
                .collect()
        }
    }
}

/// A JSON value as text.
fn as_text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests;
