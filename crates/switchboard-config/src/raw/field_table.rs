//! The known fields of one table, each with its value and its offset in the file.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::diagnostic::Diagnostics;
use crate::secret::Secret;

/// The fields of one table.
#[derive(Debug, Default)]
pub(crate) struct FieldTable {
    /// By native name.
    pub(crate) values: BTreeMap<&'static str, AtOffset<FieldValue>>,
    /// The file's own names of renamed fields, by native name.
    names_in_file: BTreeMap<&'static str, &'static str>,
}

impl FieldTable {
    /// The offset of a field, whatever its value.
    pub(crate) fn offset_of(&self, name: &str) -> Option<usize> {
        self.values.get(name).map(|found| found.at)
    }

    /// The name of a field in the file.
    pub(crate) fn name_in_file<'n>(&self, name: &'n str) -> &'n str {
        self.names_in_file.get(name).copied().unwrap_or(name)
    }

    /// Gives a field its native name. Messages still use the file's name.
    pub(crate) fn rename(&mut self, own: &'static str, native: &'static str) {
        if let Some(found) = self.values.remove(own) {
            self.values.insert(native, found);
            self.set_name_in_file(native, own);
        }
    }

    /// As [`rename`](Self::rename), if the file may have both: the native one counts, and the other
    /// is reported.
    pub(crate) fn rename_once(
        &mut self,
        own: &'static str,
        native: &'static str,
        path: &str,
        diagnostics: &mut Diagnostics<'_>,
    ) {
        if self.offset_of(native).is_none() {
            self.rename(own, native);
        } else if let Some(more) = self.values.remove(own) {
            let message = format!(
                "ignored: `{}` is set as well; remove one of them",
                self.name_in_file(native)
            );
            diagnostics.warn(more.at, format!("{path}.{own}"), message);
        }
    }

    /// Sets the name of a field in the file.
    pub(crate) fn set_name_in_file(&mut self, native: &'static str, own: &'static str) {
        self.names_in_file.insert(native, own);
    }

    fn value(&self, name: &str) -> Option<&FieldValue> {
        self.values.get(name).map(|found| &found.value)
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        match self.value(name)? {
            FieldValue::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn texts(&self, name: &str) -> Option<&[AtOffset<String>]> {
        match self.value(name)? {
            FieldValue::Texts(texts) => Some(texts),
            _ => None,
        }
    }

    /// The rules of a list. Files of other programs have texts only.
    pub(crate) fn rules(&self, name: &str) -> Vec<AtOffset<RawRule>> {
        if let Some(FieldValue::Rules(rules)) = self.value(name) {
            return rules.clone();
        }
        let plain = |text: &AtOffset<String>| AtOffset {
            at: text.at,
            value: RawRule {
                text: text.value.clone(),
                client: None,
            },
        };
        let texts = self.texts(name).unwrap_or_default();
        texts.iter().map(plain).collect()
    }

    pub(crate) fn secrets(&self, name: &str) -> &[AtOffset<(String, Secret)>] {
        match self.value(name) {
            Some(FieldValue::Secrets(secrets)) => secrets,
            _ => &[],
        }
    }

    pub(crate) fn secret(&self, name: &str) -> Option<&Secret> {
        match self.value(name)? {
            FieldValue::Secret(secret) => Some(secret),
            _ => None,
        }
    }

    pub(crate) fn port(&self, name: &str) -> Option<u16> {
        match self.value(name)? {
            FieldValue::Port(port) => Some(*port),
            _ => None,
        }
    }

    pub(crate) fn flag(&self, name: &str) -> Option<bool> {
        match self.value(name)? {
            FieldValue::Flag(flag) => Some(*flag),
            _ => None,
        }
    }

    pub(crate) fn duration(&self, name: &str) -> Option<Duration> {
        match self.value(name)? {
            FieldValue::Duration(duration) => Some(*duration),
            _ => None,
        }
    }

    pub(crate) fn bytes(&self, name: &str) -> Option<usize> {
        match self.value(name)? {
            FieldValue::Bytes(bytes) => Some(*bytes),
            _ => None,
        }
    }

    pub(crate) fn count(&self, name: &str) -> Option<u64> {
        match self.value(name)? {
            FieldValue::Count(count) => Some(*count),
            _ => None,
        }
    }

    pub(crate) fn amounts(&self, name: &str) -> Option<&[(&'static str, f64)]> {
        match self.value(name)? {
            FieldValue::Amounts(amounts) => Some(amounts),
            _ => None,
        }
    }

    pub(crate) fn choice(&self, name: &str) -> Option<&'static str> {
        match self.value(name)? {
            FieldValue::Choice(choice) => Some(choice),
            _ => None,
        }
    }
}

/// A value and its byte offset in the file.
#[derive(Debug, Clone)]
pub(crate) struct AtOffset<T> {
    pub(crate) at: usize,
    pub(crate) value: T,
}

/// A rule as written.
#[derive(Debug, Clone)]
pub(crate) struct RawRule {
    pub(crate) text: String,
    /// The client of the gateway that the rule is limited to.
    pub(crate) client: Option<String>,
}

/// A value of a known kind.
#[derive(Debug)]
pub(crate) enum FieldValue {
    Text(String),
    Texts(Vec<AtOffset<String>>),
    Rules(Vec<AtOffset<RawRule>>),
    Secrets(Vec<AtOffset<(String, Secret)>>),
    Secret(Secret),
    Port(u16),
    Flag(bool),
    Duration(Duration),
    Bytes(usize),
    Count(u64),
    Amounts(Vec<(&'static str, f64)>),
    Choice(&'static str),
    /// Invalid, and already reported.
    Invalid,
}
