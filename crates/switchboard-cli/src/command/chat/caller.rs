//! The caller of a conversation: the mode approves first, then the person; the model answers
//! sampling.

use std::sync::{Arc, Mutex};

use switchboard::caller::{
    Approval, ApprovalLifetime, ApprovalRequest, BoxFuture, Caller, CallerCapabilities, CallerId,
    ElicitAnswer, Elicitation, Progress, SampleAnswer, Sampling,
};
use switchboard::catalog::Tool;
use switchboard::sync::lock;
use switchboard_agent::{Model, TokenUsage};

use super::mode::SharedMode;
use super::screen;
use crate::view::server::escaped;
use crate::{progress, terminal};

/// Tokens and cost of one answer to sampling.
type SampledTurn = (TokenUsage, Option<f64>);

/// The person and the model of one conversation. Clones share both.
#[derive(Clone)]
pub(super) struct ChatCaller {
    mode: SharedMode,
    /// Asks at the terminal.
    terminal: Arc<dyn Caller>,
    /// Answers sampling.
    model: Arc<Mutex<Option<Arc<dyn Model>>>>,
    /// Answers to sampling that are not counted yet.
    sampled: Arc<Mutex<Vec<SampledTurn>>>,
    /// Held while a question is on the screen.
    asking: Arc<tokio::sync::Mutex<()>>,
}

impl ChatCaller {
    pub(super) fn new(mode: SharedMode) -> Arc<Self> {
        Arc::new(Self {
            mode,
            terminal: terminal::conversation_caller(),
            model: Arc::default(),
            sampled: Arc::default(),
            asking: Arc::default(),
        })
    }

    /// For a call of the person: no model reads why it was not approved.
    pub(super) fn of_person(&self) -> Arc<Self> {
        Arc::new(Self {
            terminal: terminal::caller(),
            ..self.clone()
        })
    }

    pub(super) fn set_model(&self, model: Arc<dyn Model>) {
        *lock(&self.model) = Some(model);
    }

    /// The answers to sampling since the last time.
    pub(super) fn take_sampled(&self) -> Vec<SampledTurn> {
        std::mem::take(&mut lock(&self.sampled))
    }

    /// Describes the model for a person.
    pub(super) fn model_description(&self) -> Option<String> {
        let model = lock(&self.model);
        model.as_ref().map(|model| model.description())
    }

    /// Waits until no question is on the screen: a cancelled one still has to restore the terminal.
    pub(super) async fn finish_questions(&self) {
        drop(self.asking.lock().await);
    }
}

impl Caller for ChatCaller {
    fn id(&self) -> &CallerId {
        static ID: CallerId = CallerId::from_static("chat");
        &ID
    }

    fn capabilities(&self) -> CallerCapabilities {
        let model = lock(&self.model);
        CallerCapabilities {
            sampling: model.is_some(),
            ..self.terminal.capabilities()
        }
    }

    fn refuses(&self, tool: &Tool) -> Option<String> {
        self.mode.get().refusal(tool)
    }

    fn approve<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, Approval> {
        Box::pin(async move {
            let (server, tool) = (&request.id.server, request.id.tool.as_wire());
            let name = match server.is_host() {
                true => escaped(tool),
                false => format!("{server}/{}", escaped(tool)),
            };
            let mode = self.mode.get();
            if mode.approves(request.effect, request.once_only) {
                screen::note(&format!("  {name}: allowed by mode {}", mode.name()));
                return Approval::Once;
            }
            let _asking = self.asking.lock().await;
            let answer = self.terminal.approve(request).await;
            let duration = |keep: &ApprovalLifetime| match keep {
                ApprovalLifetime::Run => "for this run",
                ApprovalLifetime::Permanent => "for good",
            };
            let line = match &answer {
                Approval::Once => format!("{name}: allowed once"),
                Approval::AlwaysTool(keep) => format!("{name}: always allowed, {}", duration(keep)),
                Approval::AlwaysServer(keep) => {
                    format!("all tools of {server}: always allowed, {}", duration(keep))
                }
                // The person and the model read it.
                Approval::No { reason: None } => return Approval::no("the person declined"),
                Approval::No { reason: Some(why) } => {
                    return Approval::no(format!("the person declined: {why}"));
                }
                _ => return answer,
            };
            screen::note(&format!("  {line}"));
            answer
        })
    }

    fn elicit<'a>(&'a self, question: &'a Elicitation) -> BoxFuture<'a, ElicitAnswer> {
        Box::pin(async move {
            let _asking = self.asking.lock().await;
            let answer = self.terminal.elicit(question).await;
            let word = match &answer {
                answer if answer.is_accepted() => "answered",
                ElicitAnswer::Decline => "declined",
                _ => "cancelled",
            };
            screen::note(&format!("  question of {}: {word}", question.server));
            answer
        })
    }

    fn sample<'a>(&'a self, request: &'a Sampling) -> BoxFuture<'a, SampleAnswer> {
        let model = lock(&self.model);
        let model = model.clone();
        Box::pin(async move {
            let Some(model) = model else {
                return SampleAnswer::Refuse("this conversation has no model".to_owned());
            };
            screen::note(&format!("  {} asks the model", request.server));
            let (answer, used) = super::model::sample(&*model, request).await;
            lock(&self.sampled).extend(used);
            answer
        })
    }

    fn progress(&self, report: &Progress) {
        progress::show(progress::describe(report));
    }

    fn notice(&self, line: &str) {
        self.terminal.notice(line);
    }
}
