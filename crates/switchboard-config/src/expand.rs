//! Expands the references in values, in one pass: the value of a variable is not expanded again.

use super::LaunchFault;
use super::environment::{Environment, is_public};
use super::reference::{ReferenceSyntax, Segment, TextRole};
use crate::secret::Secret;

/// Expands values, and collects the unset variables and the secrets that were used.
pub(crate) struct Expansion<'a> {
    environment: &'a Environment,
    syntax: ReferenceSyntax,
    /// References to unset variables: (variable, field).
    pub(super) unset: Vec<(String, String)>,
    /// The values that references expanded to.
    pub(super) secrets: Vec<Secret>,
}

impl<'a> Expansion<'a> {
    pub(crate) fn new(environment: &'a Environment, syntax: ReferenceSyntax) -> Self {
        Self {
            environment,
            syntax,
            unset: Vec::new(),
            secrets: Vec::new(),
        }
    }

    /// The value with its references replaced. An unset variable counts as empty.
    pub(crate) fn expand(
        &mut self,
        role: TextRole,
        field: &str,
        value: &str,
    ) -> Result<String, &'static str> {
        let mut expanded = String::with_capacity(value.len());
        for segment in self.syntax.segments(role, value)? {
            match segment {
                Segment::Literal(text) => expanded.push_str(text),
                // As in a shell, a ":-" default also replaces an empty variable.
                Segment::Variable { name, default } => {
                    match (self.environment.get(name), default) {
                        (Some(value), None) => self.push(name, value, &mut expanded),
                        (Some(value), Some(_)) if !value.expose().is_empty() => {
                            self.push(name, value, &mut expanded)
                        }
                        (_, Some(default)) => expanded.push_str(default),
                        (None, None) => self.unset.push((name.to_owned(), field.to_owned())),
                    }
                }
            }
        }
        Ok(expanded)
    }

    pub(super) fn expand_for_launch(
        &mut self,
        role: TextRole,
        field: &str,
        value: &str,
    ) -> Result<String, LaunchFault> {
        let bad = |fact| LaunchFault::BadText {
            field: field.to_owned(),
            fact,
        };
        let expanded = self.expand(role, field, value).map_err(bad)?;
        if expanded.contains('\0') {
            Err(bad("it contains a zero byte"))
        } else {
            Ok(expanded)
        }
    }

    fn push(&mut self, name: &str, value: &Secret, expanded: &mut String) {
        expanded.push_str(value.expose());
        if !is_public(name) {
            self.secrets.push(value.clone());
        }
    }
}
