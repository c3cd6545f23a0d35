//! The limits of a run, and its summary.

use serde::Serialize;

use crate::conversation::{FinishReason, ModelTurn};
use crate::price::CostSum;
use crate::usage::TokenUsage;

/// Limits of one run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AgentLimits {
    /// The most turns of the model.
    pub max_turns: u32,
    /// The most that it may cost, in US dollars. A turn of unknown cost ends the run.
    pub max_cost_usd: Option<f64>,
}

impl Default for AgentLimits {
    fn default() -> Self {
        Self {
            max_turns: 100,
            max_cost_usd: None,
        }
    }
}

impl AgentLimits {
    /// Which limit ends the run before the model's calls are made.
    pub(super) fn reached(&self, summary: &RunSummary) -> Option<StopReason> {
        match self.max_cost_usd {
            Some(_) if summary.cost.unknown_turns > 0 => return Some(StopReason::UnknownCost),
            Some(limit) if summary.cost.known_usd >= limit => return Some(StopReason::MaxCost),
            _ => {}
        }
        (summary.turns >= self.max_turns).then_some(StopReason::MaxTurns)
    }
}

/// Why a run ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StopReason {
    /// The model called no more tools.
    #[default]
    Done,
    /// The limit on turns is reached.
    MaxTurns,
    /// The limit on cost is reached.
    MaxCost,
    /// There is a limit on cost, and the cost of a turn is unknown.
    UnknownCost,
}

impl StopReason {
    /// Why calls of the last turn were not made.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Done => "the run is over",
            Self::MaxTurns => "the limit on turns of this run is reached",
            Self::MaxCost => "the limit on cost of this run is reached",
            Self::UnknownCost => {
                "this run has a limit on cost and the cost of the model is unknown"
            }
        }
    }
}

/// The summary of a run.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct RunSummary {
    /// The text of the last turn.
    pub text: String,
    /// How many turns the model had.
    pub turns: u32,
    /// Every call, in the order of their turns and of the calls in a turn.
    pub calls: Vec<CallRecord>,
    /// The tokens of all turns.
    pub usage: TokenUsage,
    /// The cost of all turns.
    pub cost: CostSum,
    /// Why the run ended.
    pub stop: StopReason,
    /// Why the model stopped in the last turn.
    pub finish: Option<FinishReason>,
}

impl RunSummary {
    pub(super) fn add_turn(&mut self, turn: &ModelTurn, cost: Option<f64>) {
        self.text = turn.text();
        self.turns += 1;
        self.finish = Some(turn.finish.clone());
        self.add_cost(turn.usage, cost);
    }

    pub(super) fn add_cost(&mut self, usage: TokenUsage, cost: Option<f64>) {
        self.usage += usage;
        self.cost.add(cost);
    }
}

/// One call of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CallRecord {
    /// The server; empty for a tool of the program or an unknown tool.
    pub server: String,
    /// The server's name of the tool, or the name that the model wrote if there is no such tool.
    pub tool: String,
    /// Whether it was allowed.
    pub decision: CallDecision,
    /// Whether the result for the model is an error.
    pub is_error: bool,
}

/// Whether a call was allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CallDecision {
    /// By a rule or by the caller.
    Allowed,
    /// By a rule, by the caller, or because a limit of the run was reached.
    Denied,
    /// Nothing was decided: there is no such tool, or its arguments do not fit.
    Undecided,
}
