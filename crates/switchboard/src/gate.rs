//! Decides on each call: allow, ask or deny, from rules, grants and pins. Pure: no async, no I/O.
//! And `Permit`, which every call needs.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use crate::caller::{Approval, ApprovalRequest, Caller, CallerId, DecisionKind};
use crate::catalog::{MatchedRules, Tool};
use crate::config::{Diagnostic, Mode, ProjectPermissions, RuleText};
use crate::name::ServerName;
use crate::wire::RawJson;

pub use grants::{Grant, Grants};
use rules::Rule;

mod compile;
mod grants;
mod rules;
mod spelling;

/// Compiled rules and mode.
pub struct Gate {
    mode: Mode,
    /// The servers with `trust = true` in a person's own file, or in a project's file whose
    /// permissions were accepted.
    trusted: HashSet<ServerName>,
    /// The servers whose tools are allowed because no file has permissions and the dialect of the
    /// server's file makes the gate optional. For a project's file this too must have been accepted.
    ungated: HashSet<ServerName>,
    /// Whether allow rules and trust apply only to the pinned definition.
    locked: bool,
    allow: Vec<Rule>,
    ask: Vec<Rule>,
    deny: Vec<Rule>,
    /// Whether any rule names a client.
    names_clients: bool,
    /// The permissions of project files that a person has accepted.
    accepted: Vec<ProjectPermissions>,
    warnings: Vec<Diagnostic>,
    /// Identifies this gate in the tools' caches of matched rules.
    number: u64,
}

/// The gate's decision on one call.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// The call may run.
    Allow {
        /// The rule, mode or grant.
        because: Arc<str>,
    },
    /// The caller must be asked.
    Ask {
        /// The rule, or that none applies.
        because: String,
        /// Whether an explicit `ask` rule applies: then only `Once` and `No` are valid answers.
        once_only: bool,
        /// The diff, if a grant exists but is bound to another definition or launch.
        changed: Option<Vec<String>>,
    },
    /// The call is denied.
    Deny {
        /// The rule or mode.
        rule: String,
    },
}

impl Decision {
    /// The decision without its reason.
    pub fn kind(&self) -> DecisionKind {
        match self {
            Self::Allow { .. } => DecisionKind::Allow,
            Self::Ask { .. } => DecisionKind::Ask,
            Self::Deny { .. } => DecisionKind::Deny,
        }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Allow { because } => write!(f, "allowed: {because}"),
            Self::Ask { because, .. } => write!(f, "the caller is asked: {because}"),
            Self::Deny { rule } => write!(f, "denied: {rule}"),
        }
    }
}

/// The call to decide on.
#[derive(Debug, Clone, Copy)]
pub struct DecisionRequest<'a> {
    /// The tool, with its launch and definition.
    pub tool: &'a Tool,
    /// The caller.
    pub caller: &'a CallerId,
    /// Whether a person has approved the call beforehand.
    pub pre_approved: bool,
}

impl Gate {
    /// Warnings about rules that match no configured server: probably typing mistakes.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }

    /// Decides on one call, in the order that ARCHITECTURE.md states.
    pub fn decide(&self, question: DecisionRequest<'_>, grants: &Grants) -> Decision {
        let tool = question.tool;
        let matched = self.matched_for(tool, question.caller);
        if let Some(rule) = matched.deny {
            return Decision::Deny {
                rule: self.deny[rule].shown.to_string(),
            };
        }
        match self.mode {
            Mode::Deny => {
                return Decision::Deny {
                    rule: "mode deny".to_owned(),
                };
            }
            Mode::Yolo => {
                return Decision::Allow {
                    because: "mode yolo".into(),
                };
            }
            Mode::Ask => {}
        }
        if question.pre_approved {
            return Decision::Allow {
                because: "approved with the call".into(),
            };
        }
        if let Some(rule) = matched.ask {
            let changed = grants.change_of(tool);
            return Decision::Ask {
                because: self.ask[rule].shown.to_string(),
                once_only: true,
                changed,
            };
        }
        // If locked, rules and trust cover the definition that was first seen, as a grant covers
        // the one it was given for.
        if !self.locked || !grants.differs_from_pin(tool) {
            if let Some(rule) = matched.allow {
                return Decision::Allow {
                    because: self.allow[rule].shown.clone(),
                };
            }
            if matched.is_trusted {
                return Decision::Allow {
                    because: format!("`trust` is set for server \"{}\"", tool.id.server).into(),
                };
            }
            if matched.is_ungated {
                return Decision::Allow {
                    because: "no permissions are configured".into(),
                };
            }
        }
        if grants.covers(tool) {
            return Decision::Allow {
                because: "remembered approval".into(),
            };
        }
        let changed = grants.change_of(tool);
        let because = if changed.is_some() {
            "it changed since it was approved"
        } else {
            "no rule applies"
        };
        Decision::Ask {
            because: because.to_owned(),
            once_only: false,
            changed,
        }
    }

    /// Whether a tool is pinned when it is first seen ([`Grants::pin`]). A later change is then
    /// asked about if the gate is locked, and shown if the server is trusted.
    pub(crate) fn wants_pin(&self, tool: &Tool) -> bool {
        self.locked || self.trusted.contains(&tool.id.server)
    }

    /// Whether a changed definition is only shown, not asked about.
    pub(crate) fn only_shows_changes(&self, tool: &Tool) -> bool {
        !self.locked && !self.trusted.is_empty() && self.matched(tool).is_trusted
    }

    /// The rules that can apply to tools of a server, each with the name of its list.
    pub fn rules_for<'g>(
        &'g self,
        server: &'g ServerName,
    ) -> impl Iterator<Item = (&'static str, &'g RuleText)> {
        let lists = [
            ("allow", &self.allow),
            ("ask", &self.ask),
            ("deny", &self.deny),
        ];
        let all = lists
            .into_iter()
            .flat_map(|(list, rules)| rules.iter().map(move |rule| (list, rule)));
        all.filter(|(_, rule)| rule.may_apply_to(server))
            .map(|(list, rule)| (list, &rule.text))
    }

    /// Whether `yolo` of the rule's own file skips it for servers' tools.
    pub fn skips(&self, rule: &RuleText) -> bool {
        self.deny
            .iter()
            .any(|deny| deny.skipped && deny.text == *rule)
    }

    /// The accepted permissions of project files.
    pub(crate) fn accepted(&self) -> &[ProjectPermissions] {
        &self.accepted
    }

    /// The rules that apply to this caller's call of a tool.
    fn matched_for(&self, tool: &Tool, caller: &CallerId) -> MatchedRules {
        let matched = self.matched(tool);
        if !self.names_clients {
            return matched;
        }
        let for_client = self.first_rules(tool, Some(caller.client()));
        MatchedRules {
            allow: matched.allow.or(for_client.allow),
            ask: matched.ask.or(for_client.ask),
            deny: matched.deny.or(for_client.deny),
            ..matched
        }
    }

    /// The first rule of each list for this client, or for every caller.
    fn first_rules(&self, tool: &Tool, client: Option<&str>) -> MatchedRules {
        let first = |rules: &[Rule]| {
            rules
                .iter()
                .position(|rule| rule.text.client.as_deref() == client && rule.matches(tool))
        };
        MatchedRules {
            allow: first(&self.allow),
            ask: first(&self.ask),
            deny: first(&self.deny),
            // Asked of this gate's configuration: the tool may have been listed before a reload.
            is_trusted: self.trusted.contains(&tool.id.server),
            is_ungated: self.ungated.contains(&tool.id.server),
        }
    }

    fn matched(&self, tool: &Tool) -> MatchedRules {
        tool.rule_matches
            .get_or_find(self.number, || self.first_rules(tool, None))
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate")
            .field("mode", &self.mode)
            .field("trusted", &self.trusted)
            .field("ungated", &self.ungated)
            .field("locked", &self.locked)
            .field("allow", &self.allow)
            .field("ask", &self.ask)
            .field("deny", &self.deny)
            .finish_non_exhaustive()
    }
}

/// The right to make exactly one call: of one tool, as defined now, with these arguments, by this
/// caller.
///
/// It carries what it is for, so there is nothing beside it that could differ. Only the gate makes
/// one: from its own `Allow`, or from a caller's yes. It cannot be built:
///
/// ```compile_fail,E0451
/// # use std::sync::Arc;
/// # fn forge(tool: Arc<switchboard::catalog::Tool>, arguments: switchboard::wire::RawJson, caller: Arc<dyn switchboard::caller::Caller>) {
/// let permit = switchboard::gate::Permit { tool, arguments, caller };
/// # }
/// ```
///
/// It cannot be used twice:
///
/// ```compile_fail,E0599
/// fn twice(permit: switchboard::gate::Permit) -> (switchboard::gate::Permit, switchboard::gate::Permit) {
///     (permit.clone(), permit)
/// }
/// ```
///
/// And no library user can ask for one:
///
/// ```compile_fail,E0624
/// # use std::sync::Arc;
/// # fn ask(decision: switchboard::gate::Decision, tool: &Arc<switchboard::catalog::Tool>, arguments: &switchboard::wire::RawJson,
/// #     caller: &Arc<dyn switchboard::caller::Caller>) {
/// let permit = decision.permit(tool, arguments, caller);
/// # }
/// ```
///
/// Nor send a call. Inside the library, what `Session::call` takes is made of a permit alone:
///
/// ```compile_fail,E0624
/// # async fn call(session: &switchboard::session::Session) {
/// session.call(todo!()).await;
/// # }
/// ```
#[must_use = "a permit is for one call"]
pub struct Permit {
    tool: Arc<Tool>,
    arguments: RawJson,
    caller: Arc<dyn Caller>,
}

impl Permit {
    /// The tool, as it was defined at the time of the decision.
    pub fn tool(&self) -> &Arc<Tool> {
        &self.tool
    }

    /// The arguments.
    pub fn arguments(&self) -> &RawJson {
        &self.arguments
    }

    /// The caller.
    pub fn caller(&self) -> &Arc<dyn Caller> {
        &self.caller
    }

    /// The permit from a caller's approval of exactly what was asked.
    pub(crate) fn approved(
        request: &ApprovalRequest,
        answer: &Approval,
        tool: &Arc<Tool>,
        caller: &Arc<dyn Caller>,
    ) -> Option<Self> {
        let asked_for_it = request.id == tool.id && request.definition.hash == tool.definition.hash;
        match answer {
            Approval::Once | Approval::AlwaysTool(_) | Approval::AlwaysServer(_)
                if asked_for_it =>
            {
                Some(Self {
                    tool: tool.clone(),
                    arguments: request.arguments.clone(),
                    caller: caller.clone(),
                })
            }
            _ => None,
        }
    }
}

/// A decision other than `Allow`.
#[derive(Debug)]
pub(crate) enum NotAllowed {
    /// See [`Decision::Ask`].
    Ask {
        because: String,
        once_only: bool,
        changed: Option<Vec<String>>,
    },
    /// See [`Decision::Deny`].
    Deny { rule: String },
}

impl Decision {
    /// The permit of an `Allow`; otherwise what is left to do.
    pub(crate) fn permit(
        self,
        tool: &Arc<Tool>,
        arguments: &RawJson,
        caller: &Arc<dyn Caller>,
    ) -> Result<Permit, NotAllowed> {
        match self {
            Self::Allow { .. } => Ok(Permit {
                tool: tool.clone(),
                arguments: arguments.clone(),
                caller: caller.clone(),
            }),
            Self::Ask {
                because,
                once_only,
                changed,
            } => Err(NotAllowed::Ask {
                because,
                once_only,
                changed,
            }),
            Self::Deny { rule } => Err(NotAllowed::Deny { rule }),
        }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("id", &self.tool.id)
            .field("caller", &self.caller.id())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
