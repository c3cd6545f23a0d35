//! One turn: sends a message to the model, and shows its answer as it streams, its calls and its
//! usage.

use std::time::Instant;

use switchboard_agent::agent::Compaction;
use switchboard_agent::{
    AgentEvent, ModelFault, RunSummary, StopReason, TurnDelta, TurnEvent, UserMessage,
};

use super::markdown::MarkdownStream;
use super::slash::Next;
use super::{Chat, calls, no_model, screen};
use crate::command::run::{describe_early_end, describe_treatment};
use crate::failure::Failure;
use crate::progress;
use crate::view::server::escaped;
use crate::{output, view};

impl Chat<'_> {
    /// Sends a text to the model, with the resources and files that it mentions.
    pub(super) async fn send_text(&mut self, text: &str) -> Result<Next, Failure> {
        if self.agent.is_none() {
            return Err(no_model());
        }
        match self.with_mentions(text).await? {
            None => Ok(self.cancel_turn().await),
            Some(message) => self.send(message).await,
        }
    }

    /// Sends a message to the model and shows what happens until its answer is complete.
    pub(super) async fn send(&mut self, message: UserMessage) -> Result<Next, Failure> {
        if self.agent.is_none() {
            return Err(no_model());
        }
        // The first request lists the tools of all servers that are connected by then.
        if !self.wait_for_servers().await || !self.start_lazy_servers().await {
            return Ok(self.cancel_turn().await);
        }
        let Some(agent) = &mut self.agent else {
            return Err(no_model());
        };
        let mut view = TurnView::new(self.input.is_interactive());
        view.show_waiting();
        let mut sink = |event| view.handle_event(event);
        let outcome = self.input.during(agent.run(message, &mut sink)).await;
        view.finish();
        progress::clear();
        match outcome {
            None => Ok(self.cancel_turn().await),
            Some(outcome) => {
                self.finish_turn(outcome, &view)?;
                Ok(Next::Continue)
            }
        }
    }

    /// After Ctrl-C: cancels the calls, and sends nothing that was typed ahead; the servers keep
    /// running.
    pub(super) async fn cancel_turn(&mut self) -> Next {
        progress::clear();
        self.caller.finish_questions().await;
        if let Some(agent) = &mut self.agent {
            agent.close_dropped_run();
        }
        screen::note(match self.input.withdraw_queued() {
            true => "stopped; what was typed ahead is at the prompt and was not sent",
            false => "stopped; press Ctrl-C again to exit",
        });
        Next::Interrupted
    }

    fn finish_turn(
        &mut self,
        outcome: Result<RunSummary, ModelFault>,
        view: &TurnView,
    ) -> Result<(), Failure> {
        let summary = outcome?;
        match summary.stop {
            StopReason::Done => {}
            StopReason::MaxTurns => {
                screen::note("the limit on turns is reached; write \"continue\" to go on");
            }
            _ => screen::note("the turn ended early"),
        }
        if let Some(line) = describe_early_end(&summary) {
            super::notice(line);
        }
        if self.input.is_interactive() {
            screen::note(&view.usage_line(&summary));
        }
        Ok(())
    }
}

/// The size of a conversation before and after a summary.
pub(super) fn describe_compaction(compaction: &Compaction) -> String {
    format!(
        "the conversation was summarised: about {} tokens before, {} now",
        compaction.tokens_before, compaction.tokens_after
    )
}

/// Shows the events of one turn.
struct TurnView {
    /// `None` in a pipe, where the text is printed as it comes.
    markdown: Option<MarkdownStream>,
    started: Instant,
    /// How many calls are in flight.
    running: usize,
    /// The call whose line was printed last: its outcome needs no name.
    last_started: Option<usize>,
    /// Whether the last printed line has no newline yet.
    is_in_line: bool,
}

impl TurnView {
    fn new(is_interactive: bool) -> Self {
        let columns = screen::columns().filter(|_| is_interactive);
        Self {
            markdown: columns.map(MarkdownStream::new),
            started: Instant::now(),
            running: 0,
            last_started: None,
            is_in_line: false,
        }
    }

    fn show_waiting(&self) {
        progress::show("waiting for the model · Ctrl-C stops".to_owned());
    }

    fn handle_event(&mut self, event: AgentEvent) {
        match event {
            AgentEvent::Model(event) => self.handle_model_event(event),
            AgentEvent::CallStarted {
                index,
                server,
                tool,
                arguments,
            } => {
                self.finish();
                self.running += 1;
                self.last_started = Some(index);
                self.print_call(&calls::call_line(&server, &tool, &arguments));
                let name = calls::tool_name(&server, &tool);
                progress::show(format!("calling {name} · Ctrl-C stops"));
            }
            AgentEvent::CallEnded {
                index,
                record,
                outcome,
            } => {
                self.finish();
                let is_below_its_line = self.last_started.take() == Some(index);
                self.running = self.running.saturating_sub(1);
                self.print_call(&calls::named_outcome(&record, &outcome, !is_below_its_line));
                if self.running == 0 {
                    self.show_waiting();
                }
            }
            AgentEvent::CompactionStarted => {
                progress::show("the context is nearly full: summarising · Ctrl-C stops".to_owned());
            }
            AgentEvent::Compacted(compaction) => screen::note(&describe_compaction(&compaction)),
            AgentEvent::CompactionFailed(fault) => super::notice(&format!(
                "the conversation was not summarised: {}",
                escaped(&fault.to_string())
            )),
            AgentEvent::NotSaved { message } => {
                super::notice(&format!("the session is not saved: {}", escaped(&message)));
            }
            _ => {}
        }
    }

    fn handle_model_event(&mut self, event: TurnEvent) {
        match event {
            TurnEvent::Delta(TurnDelta::Text(text)) => {
                progress::show("the model answers · Ctrl-C stops".to_owned());
                self.text(&text);
            }
            TurnEvent::Delta(TurnDelta::Thought(_)) => {
                progress::show("the model thinks · Ctrl-C stops".to_owned());
            }
            TurnEvent::Delta(TurnDelta::CallStarted { name }) => {
                let name = escaped(&name);
                progress::show(format!("the model writes a call of {name} · Ctrl-C stops"));
            }
            TurnEvent::Retrying {
                wait,
                attempt,
                fault,
            } => {
                self.finish();
                super::notice(&format!(
                    "{}; attempt {attempt} in {:.1} s; ignore what was shown of this answer",
                    escaped(&fault.to_string()),
                    wait.as_secs_f64()
                ));
                progress::show_countdown(format!("Ctrl-C stops · attempt {attempt}"), wait);
            }
            TurnEvent::ToolRefused { name, treatment } => super::notice(&format!(
                "the vendor refused the tool {}, so {}",
                escaped(&name),
                escaped(&describe_treatment(&treatment))
            )),
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        match &mut self.markdown {
            Some(markdown) => {
                let lines = markdown.push(text);
                if !lines.is_empty() {
                    screen::print(&lines);
                }
            }
            None => {
                self.is_in_line = !text.ends_with('\n');
                progress::with_spinner_hidden(|| output::print_piece(text));
            }
        }
    }

    /// Prints the rest of the text, and ends its line.
    fn finish(&mut self) {
        if let Some(markdown) = &mut self.markdown {
            let lines = markdown.finish();
            if !lines.is_empty() {
                screen::print(&lines);
            }
        }
        if std::mem::take(&mut self.is_in_line) {
            screen::print("\n");
        }
    }

    /// At a terminal calls are part of the conversation; in a pipe they go to stderr.
    fn print_call(&self, text: &str) {
        match self.markdown.is_some() {
            true => screen::print(text),
            false => screen::note_lines(text),
        }
    }

    /// The line under an answer: time, turns, tokens and cost.
    fn usage_line(&self, summary: &RunSummary) -> String {
        let mut parts = vec![view::table::duration(self.started.elapsed())];
        if summary.turns > 1 {
            parts.push(view::counted(summary.turns as usize, "turn"));
        }
        if let (Some(input), Some(output)) = (summary.usage.total_input(), summary.usage.output) {
            parts.push(format!("{input} tokens in, {output} out"));
        }
        match summary.cost.total_usd() {
            Some(cost) if cost > 0.0 => parts.push(format!("${cost:.4}")),
            Some(_) => {}
            None => parts.push("cost unknown".to_owned()),
        }
        parts.join(" · ")
    }
}
