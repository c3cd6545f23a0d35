//! The fields of a program to start.

use super::{BARE_REFERENCE, ServerEntry, by_name, looks_like_a_bare_reference, plain};
use crate::diagnostic::{Diagnostics, visible_key};
use crate::loader_variables;
use crate::raw::{AtOffset, UNSET};
use crate::reference::ReferenceSyntax;
use crate::secret::Secret;
use crate::{Endpoint, Scope, StdioEndpoint};

impl ServerEntry<'_> {
    pub(super) fn stdio(
        &self,
        scope: Scope,
        diagnostics: &mut Diagnostics<'_>,
    ) -> Option<Endpoint> {
        let command = self.fields.text("command");
        if command.is_some_and(|command| command.trim().is_empty()) {
            self.error(
                "command",
                "empty; expected the program to start, such as \"npx\" or \"./server\"",
                diagnostics,
            );
            return None;
        }
        let args = self.fields.texts("args").unwrap_or_default();
        let env = self.fields.secrets("env");
        let mut sound = true;
        for field in ["command", "cwd"] {
            if let (Some(text), Some(at)) = (self.fields.text(field), self.fields.offset_of(field))
            {
                sound &= self.check_text(text, at, field, diagnostics);
                if text == "~" || text.starts_with("~/") {
                    self.warn(
                        field,
                        "\"~\" is not expanded; write \"${HOME}\" for your home folder",
                        diagnostics,
                    );
                }
            }
        }
        if self.fields.text("cwd").is_some_and(str::is_empty) {
            self.error(
                "cwd",
                "empty; expected a folder, or no `cwd` at all",
                diagnostics,
            );
            sound = false;
        }
        for (index, arg) in args.iter().enumerate() {
            sound &= self.check_text(&arg.value, arg.at, &format!("args[{index}]"), diagnostics);
        }
        for AtOffset {
            at,
            value: (name, value),
        } in env
        {
            sound &= self.check_variable(name, value, *at, scope, diagnostics);
        }
        let endpoint = StdioEndpoint {
            command: command?.to_owned(),
            args: plain(args),
            env: by_name(env),
            unset: self.fields.texts(UNSET).map(plain).unwrap_or_default(),
            inherit_env: self
                .fields
                .flag("inherit_env")
                .unwrap_or(self.rules.inherits_environment),
            cwd: self.fields.text("cwd").map(str::to_owned),
            syntax: self.rules.syntax,
        };
        sound.then_some(Endpoint::Stdio(endpoint))
    }

    fn check_variable(
        &self,
        name: &str,
        value: &Secret,
        at: usize,
        scope: Scope,
        diagnostics: &mut Diagnostics<'_>,
    ) -> bool {
        let path = self.path_of(&format!("env.{}", visible_key(name)));
        if name.is_empty() || name.contains(['=', '\0']) {
            diagnostics.error(
                at,
                path,
                "not the name of a variable; expected a name without \"=\"",
            );
            return false;
        }
        if value.expose().contains('\0') {
            diagnostics.error(
                at,
                path,
                "contains a zero byte, which cannot be passed to a program",
            );
            return false;
        }
        if matches!(
            self.rules.syntax,
            ReferenceSyntax::Native | ReferenceSyntax::Braced
        ) && looks_like_a_bare_reference(value)
        {
            diagnostics.warn(at, &path, BARE_REFERENCE);
        }
        if let Some(effect) = loader_variables::effect(name) {
            let advice = match scope {
                // Not an error, which would stop the person's other servers; the entry is refused
                // when it would be accepted.
                Scope::Project => {
                    "a project's file may not set it, and this server cannot be trusted while it does"
                }
                Scope::User | Scope::Given => "keep it only if you mean it",
            };
            diagnostics.warn(at, path, format!("{effect}; {advice}"));
        }
        true
    }
}
