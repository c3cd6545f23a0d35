//! One field: its value, the keys that change it, and its constraints.

use serde_json::{Number, Value};

use super::as_text;
use super::check::{self, Format};
use super::input::Input;
use crate::terminal::frame::Key;

/// A field of a form.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Field {
    /// The key in the answer.
    pub(super) name: String,
    pub(super) title: Option<String>,
    pub(super) description: Option<String>,
    pub(super) required: bool,
    pub(super) kind: Kind,
    /// Why its value is invalid, after it was checked.
    pub(super) fault: Option<String>,
}

/// The type of a field with its value and constraints. Lengths are in characters, bounds inclusive.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    Text {
        input: Input,
        format: Option<Format>,
        shortest: Option<u64>,
        longest: Option<u64>,
    },
    Number {
        input: Input,
        integer: bool,
        minimum: Option<f64>,
        maximum: Option<f64>,
    },
    Boolean {
        value: Option<bool>,
    },
    /// (value, title).
    Choice {
        options: Vec<(Value, String)>,
        chosen: Option<usize>,
    },
    Many {
        options: Vec<(Value, String)>,
        ticked: Vec<bool>,
        cursor: usize,
        fewest: Option<u64>,
        most: Option<u64>,
    },
}

impl Field {
    /// Checks the value: `Some(None)` leaves it out of the answer; `None` is an error, kept in
    /// `fault`.
    pub(super) fn check(&mut self) -> Option<Option<Value>> {
        match self.value() {
            Ok(value) => {
                self.fault = None;
                Some(value)
            }
            Err(fault) => {
                self.fault = Some(fault);
                None
            }
        }
    }

    /// Whether the field seems to ask for a secret, which a form must not.
    pub(super) fn looks_secret(&self) -> bool {
        if !matches!(self.kind, Kind::Text { .. }) {
            return false;
        }
        let words = [
            Some(&self.name),
            self.title.as_ref(),
            self.description.as_ref(),
        ];
        let text = words
            .into_iter()
            .flatten()
            .map(|text| text.to_lowercase())
            .collect::<Vec<_>>()
            .join(" ");
        let plain: String = text
            .chars()
            .filter(|character| character.is_alphanumeric() || *character == ' ')
            .collect();
        let telling = [
            "password",
            "passwd",
            "passphrase",
            "passcode",
            "secret",
            "token",
            "apikey",
            "api key",
            "private key",
            "credential",
            "credit card",
            "cvv",
            "social security",
            "ssn",
            "pin code",
            "otp",
            "recovery code",
            "seed phrase",
        ];
        let short = ["pin", "pwd", "ssn", "otp", "cvc"];
        telling.iter().any(|word| plain.contains(word))
            || text
                .split(|character: char| !character.is_alphanumeric())
                .any(|word| short.contains(&word))
    }

    pub(super) fn press(&mut self, key: Key) {
        self.fault = None;
        match &mut self.kind {
            Kind::Text { input, .. } | Kind::Number { input, .. } => input.press(key),
            Kind::Boolean { value } => match key {
                Key::Char('y' | 'Y') | Key::Left => *value = Some(true),
                Key::Char('n' | 'N') | Key::Right => *value = Some(false),
                Key::Char(' ') => *value = Some(!value.unwrap_or(false)),
                Key::Backspace | Key::Delete if !self.required => *value = None,
                _ => {}
            },
            Kind::Choice { options, chosen } => match key {
                Key::Right | Key::Char(' ') => {
                    *chosen = Some(chosen.map_or(0, |index| (index + 1) % options.len()))
                }
                Key::Left => {
                    *chosen = Some(chosen.map_or(options.len() - 1, |index| {
                        (index + options.len() - 1) % options.len()
                    }))
                }
                Key::Backspace | Key::Delete if !self.required => *chosen = None,
                Key::Char(letter) => {
                    let starts = |title: &str| {
                        title
                            .to_lowercase()
                            .starts_with(&letter.to_lowercase().to_string())
                    };
                    *chosen = options
                        .iter()
                        .position(|(_, title)| starts(title))
                        .or(*chosen);
                }
                _ => {}
            },
            Kind::Many { ticked, cursor, .. } => match key {
                Key::Right => *cursor = (*cursor + 1) % ticked.len(),
                Key::Left => *cursor = (*cursor + ticked.len() - 1) % ticked.len(),
                Key::Char(' ' | 'x') => ticked[*cursor] = !ticked[*cursor],
                _ => {}
            },
        }
    }

    fn value(&self) -> Result<Option<Value>, String> {
        let missing = |expected: &str| {
            if self.required {
                Err(expected.to_owned())
            } else {
                Ok(None)
            }
        };
        match &self.kind {
            Kind::Text {
                input,
                format,
                shortest,
                longest,
            } => {
                let text = input.text();
                if text.is_empty()
                    && !(self.required && shortest.unwrap_or(0) == 0 && format.is_none())
                {
                    return missing("expected some text");
                }
                let length = text.chars().count() as u64;
                check_count(length, *shortest, *longest, " characters")?;
                format.map_or(Ok(()), |format| check::format(format, &text))?;
                Ok(Some(text.into()))
            }
            Kind::Number {
                input,
                integer,
                minimum,
                maximum,
            } => {
                let text = input.text();
                if text.trim().is_empty() {
                    return missing("expected a number");
                }
                number(text.trim(), *integer, *minimum, *maximum)
                    .map(|number| Some(Value::Number(number)))
            }
            Kind::Boolean { value } => value.map_or_else(
                || missing("expected yes or no"),
                |value| Ok(Some(value.into())),
            ),
            Kind::Choice { options, chosen } => match chosen {
                Some(index) => Ok(Some(options[*index].0.clone())),
                None => missing("expected one of these"),
            },
            Kind::Many {
                options,
                ticked,
                fewest,
                most,
                ..
            } => {
                let ticked = options.iter().zip(ticked).filter(|(_, ticked)| **ticked);
                let values: Vec<_> = ticked.map(|((value, _), _)| value.clone()).collect();
                if values.is_empty() && !self.required {
                    return Ok(None);
                }
                check_count(values.len() as u64, *fewest, *most, "")?;
                Ok(Some(Value::Array(values)))
            }
        }
    }
}

impl Kind {
    /// The constraints, as text.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Text {
                format,
                shortest,
                longest,
                ..
            } => {
                let kind = format.map_or("text", Format::describe);
                match (shortest, longest) {
                    (Some(low), Some(high)) => format!("{kind} of {low} to {high} characters"),
                    (Some(1), None) => format!("{kind} of at least 1 character"),
                    (Some(low), None) => format!("{kind} of at least {low} characters"),
                    (None, Some(high)) => format!("{kind} of at most {high} characters"),
                    (None, None) => kind.to_owned(),
                }
            }
            Self::Number {
                integer,
                minimum,
                maximum,
                ..
            } => {
                let kind = if *integer { "whole number" } else { "number" };
                match (minimum, maximum) {
                    (Some(low), Some(high)) => format!("{kind} from {low} to {high}"),
                    (Some(low), None) => format!("{kind}, at least {low}"),
                    (None, Some(high)) => format!("{kind}, at most {high}"),
                    (None, None) => kind.to_owned(),
                }
            }
            Self::Boolean { .. } => "yes or no".to_owned(),
            Self::Choice { options, .. } => format!("one of {}", options.len()),
            Self::Many {
                options,
                fewest,
                most,
                ..
            } => match (fewest, most) {
                (Some(low), Some(high)) => format!("{low} to {high} of {}", options.len()),
                (Some(low), None) => format!("at least {low} of {}", options.len()),
                (None, Some(high)) => format!("at most {high} of {}", options.len()),
                (None, None) => format!("any of {}", options.len()),
            },
        }
    }
}

/// Checks a length or a number of options against its limits; `unit` follows the limit in the error.
fn check_count(count: u64, min: Option<u64>, max: Option<u64>, unit: &str) -> Result<(), String> {
    if let Some(min) = min.filter(|min| count < *min) {
        return Err(format!("expected at least {min}{unit}, found {count}"));
    }
    if let Some(max) = max.filter(|max| count > *max) {
        return Err(format!("expected at most {max}{unit}, found {count}"));
    }
    Ok(())
}

fn number(
    text: &str,
    integer: bool,
    minimum: Option<f64>,
    maximum: Option<f64>,
) -> Result<Number, String> {
    let expected = if integer {
        "expected a whole number"
    } else {
        "expected a number"
    };
    let number: Number =
        serde_json::from_str(text).map_err(|_| format!("{expected}, such as 42"))?;
    if integer && !number.is_i64() && !number.is_u64() {
        return Err(format!("{expected}, such as 42"));
    }
    let value = number.as_f64().unwrap_or_default();
    if let Some(low) = minimum.filter(|low| value < *low) {
        return Err(format!("expected at least {low}"));
    }
    if let Some(high) = maximum.filter(|high| value > *high) {
        return Err(format!("expected at most {high}"));
    }
    Ok(number)
}

/// Options with their titles, if the schema has them.
pub(super) fn titled(values: &[Value], titles: &[Value]) -> Vec<(Value, String)> {
    values
        .iter()
        .enumerate()
        .map(|(index, value)| {
            (
                value.clone(),
                titles.get(index).map_or_else(|| as_text(value), as_text),
            )
        })
        .collect()
}
