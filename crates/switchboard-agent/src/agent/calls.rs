//! The calls of one turn: made through the host, each with exactly one result. Calls that change
//! files or run programs run alone, in the order of the model; others run in parallel.

use std::collections::VecDeque;

use tokio::task::JoinSet;

use super::offered::HostCall;
use super::outcomes::outcome_of;
use super::summary::{CallDecision, CallRecord, RunSummary, StopReason};
use super::{Agent, AgentEvent, EventSink};
use crate::conversation::{CallOutcome, ToolCall};
use crate::json::JsonText;
use crate::session::SessionRecord;

/// The most calls of a turn in flight at once; the others wait.
const MAX_PARALLEL_CALLS: usize = 16;

/// The calls of one turn with their records.
struct TurnCalls<'a> {
    records: Vec<CallRecord>,
    sink: EventSink<'a>,
}

impl Agent {
    /// Makes the calls of the turn that awaits results.
    pub(super) async fn make_calls(&mut self, summary: &mut RunSummary, sink: EventSink<'_>) {
        let mut turn = self.turn_calls(sink);
        let mut waiting = VecDeque::new();
        for (index, call) in self.open_calls() {
            match self.tools.prepare(&call) {
                Ok(prepared) => {
                    turn.records[index].server = prepared.server.clone();
                    turn.records[index].tool = prepared.tool.clone();
                    waiting.push_back((index, prepared, call));
                }
                Err(outcome) => {
                    self.end_call(index, CallDecision::Undecided, outcome, &mut turn);
                }
            }
        }
        let mut running = JoinSet::new();
        let mut runs_alone = false;
        loop {
            while let Some((index, prepared, call)) =
                waiting.pop_front_if(|(_, next, _)| may_start(next, running.len(), runs_alone))
            {
                runs_alone = prepared.runs_alone;
                self.started_calls.insert(index);
                turn.started(index, &prepared, &call);
                let host = self.host.clone();
                let call = prepared.call.caller(self.caller.clone());
                running.spawn(async move { (index, host.call_with(call).await) });
            }
            match running.join_next().await {
                None => break,
                Some(Ok((index, result))) => {
                    let (decision, outcome) = outcome_of(result, self.results_folder.as_deref());
                    self.end_call(index, decision, outcome, &mut turn);
                }
                // A tool of the program panicked. Its call is answered below.
                Some(Err(_)) => {}
            }
        }
        for (index, _) in self.open_calls() {
            let outcome = CallOutcome::failed("the call ended without a result");
            self.end_call(index, CallDecision::Allowed, outcome, &mut turn);
        }
        summary.calls.append(&mut turn.records);
    }

    /// Answers the calls of the last turn without making them.
    pub(super) fn deny_calls(
        &mut self,
        stop: StopReason,
        summary: &mut RunSummary,
        sink: EventSink<'_>,
    ) {
        let mut turn = self.turn_calls(sink);
        for (index, _) in self.open_calls() {
            let reason = stop.reason().to_owned();
            let outcome = CallOutcome::Denied { reason };
            self.end_call(index, CallDecision::Denied, outcome, &mut turn);
        }
        summary.calls.append(&mut turn.records);
    }

    /// A record for each call of the turn. Those with invalid arguments have their result already.
    fn turn_calls<'a>(&self, sink: EventSink<'a>) -> TurnCalls<'a> {
        let outcomes = self.awaiting.iter().flat_map(|turn| turn.outcomes());
        let record = |call: &ToolCall| CallRecord {
            server: String::new(),
            tool: call.name.clone(),
            decision: CallDecision::Undecided,
            is_error: true,
        };
        let mut records = Vec::new();
        for (index, (call, outcome)) in outcomes.enumerate() {
            records.push(record(call));
            if let Some(outcome) = outcome {
                let (record, outcome) = (record(call), outcome.clone());
                sink(AgentEvent::CallEnded {
                    index,
                    record,
                    outcome,
                });
            }
        }
        TurnCalls { records, sink }
    }

    fn open_calls(&self) -> Vec<(usize, ToolCall)> {
        let turn = self.awaiting.iter();
        let open = turn.flat_map(|turn| turn.open_calls());
        open.map(|(index, call)| (index, call.clone())).collect()
    }

    /// Sets the result of a call.
    fn end_call(
        &mut self,
        index: usize,
        decision: CallDecision,
        outcome: CallOutcome,
        turn: &mut TurnCalls<'_>,
    ) {
        let record = &mut turn.records[index];
        record.decision = decision;
        record.is_error = outcome.is_error();
        let record = record.clone();
        (turn.sink)(AgentEvent::CallEnded {
            index,
            record,
            outcome: outcome.clone(),
        });
        if let Some(awaiting) = &mut self.awaiting {
            let record = SessionRecord::Result {
                call: index,
                outcome: outcome.clone(),
            };
            self.recorder.record(&record);
            // Only open calls come here, each once.
            let answered = awaiting.answer(index, outcome);
            debug_assert!(answered.is_ok(), "{answered:?}");
        }
    }
}

/// Whether the next call may start while `running` calls are in flight. A call that runs alone
/// waits for all calls before it, and all calls after it wait for it.
fn may_start(next: &HostCall, running: usize, runs_alone: bool) -> bool {
    let may_overlap = !runs_alone && !next.runs_alone;
    running == 0 || (may_overlap && running < MAX_PARALLEL_CALLS)
}

impl TurnCalls<'_> {
    fn started(&mut self, index: usize, prepared: &HostCall, call: &ToolCall) {
        let arguments = call.arguments.object().map(JsonText::as_str);
        (self.sink)(AgentEvent::CallStarted {
            index,
            server: prepared.server.clone(),
            tool: prepared.tool.clone(),
            arguments: arguments.unwrap_or("{}").to_owned(),
        });
    }
}
