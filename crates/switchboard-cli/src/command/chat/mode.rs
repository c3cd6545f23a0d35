//! Approval modes of a conversation: what runs without asking, in addition to rules and grants.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use clap::ValueEnum;
use switchboard::ToolEffect;
use switchboard::catalog::Tool;

/// What runs without asking.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
#[repr(u8)]
pub(super) enum ApprovalMode {
    /// What rules, trust and remembered answers allow
    #[default]
    Ask,
    /// Reading and editing files of the workspace as well
    AcceptEdits,
    /// Only tools that read; all others are denied
    Plan,
    /// Everything that no rule denies
    Yolo,
}

/// In the order in which Shift-Tab switches.
const ORDER: [ApprovalMode; 4] = [
    ApprovalMode::Ask,
    ApprovalMode::AcceptEdits,
    ApprovalMode::Plan,
    ApprovalMode::Yolo,
];

/// Built-in tools that read resources of servers.
const RESOURCE_TOOLS: [&str; 2] = ["ListMcpResources", "ReadMcpResource"];

impl ApprovalMode {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::AcceptEdits => "accept-edits",
            Self::Plan => "plan",
            Self::Yolo => "yolo",
        }
    }

    /// Whether a question about a tool with this effect is answered with yes. `once_only`: an `ask`
    /// rule requires an answer of the person each time.
    pub(super) fn approves(self, effect: Option<ToolEffect>, once_only: bool) -> bool {
        match self {
            Self::Yolo => true,
            Self::AcceptEdits => {
                !once_only && matches!(effect, Some(ToolEffect::Read | ToolEffect::Edit))
            }
            Self::Ask | Self::Plan => false,
        }
    }

    /// Why this mode refuses a tool, whatever the gate decides.
    pub(super) fn refusal(self, tool: &Tool) -> Option<String> {
        if self != Self::Plan {
            return None;
        }
        let is_own = |name: &&str| tool.id.server.is_host() && tool.id.tool.as_wire() == *name;
        let reads = tool.definition.annotations.read_only == Some(true)
            || RESOURCE_TOOLS.iter().any(is_own);
        (!reads).then(|| {
            "plan mode: only tools that declare that they only read may run; describe what you \
             would do instead"
                .to_owned()
        })
    }
}

/// The mode of a conversation, shared with its caller.
#[derive(Debug, Clone)]
pub(super) struct SharedMode(Arc<AtomicU8>);

impl SharedMode {
    pub(super) fn new(mode: ApprovalMode) -> Self {
        Self(Arc::new(AtomicU8::new(mode as u8)))
    }

    pub(super) fn get(&self) -> ApprovalMode {
        let number = self.0.load(Ordering::Relaxed);
        let mode = ORDER.into_iter().find(|mode| *mode as u8 == number);
        mode.unwrap_or_default()
    }

    pub(super) fn set(&self, mode: ApprovalMode) {
        self.0.store(mode as u8, Ordering::Relaxed);
    }

    /// Switches to the next mode.
    pub(super) fn switch(&self) {
        let at = ORDER.iter().position(|mode| *mode == self.get());
        self.set(ORDER[(at.unwrap_or(0) + 1) % ORDER.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shift_tab_cycles_the_modes_and_each_approves_its_effects() {
        let mode = SharedMode::new(ApprovalMode::Ask);
        let mut seen = Vec::new();
        for _ in 0..4 {
            mode.switch();
            seen.push(mode.get().name());
        }
        assert_eq!(seen, ["accept-edits", "plan", "yolo", "ask"]);
        let check = |mode: ApprovalMode, expected: [bool; 3]| {
            let effects = [Some(ToolEffect::Edit), Some(ToolEffect::Execute), None];
            assert_eq!(effects.map(|effect| mode.approves(effect, false)), expected);
            // Only yolo stands above an `ask` rule.
            let is_yolo = mode == ApprovalMode::Yolo;
            assert_eq!(
                effects.map(|effect| mode.approves(effect, true)),
                [is_yolo; 3]
            );
        };
        check(ApprovalMode::Ask, [false, false, false]);
        check(ApprovalMode::Plan, [false, false, false]);
        check(ApprovalMode::AcceptEdits, [true, false, false]);
        check(ApprovalMode::Yolo, [true, true, true]);
    }
}
