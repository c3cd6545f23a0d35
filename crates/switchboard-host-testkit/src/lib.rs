//! For tests only: [`TestCaller`], a caller that answers as scripted and records its questions.
//!
//! A crate of its own, because it depends on the host, and `switchboard-testkit` must not: its
//! programs are servers and network faults, which are independent of the host.
#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Map, Value, json};
use switchboard::caller::{
    Approval, ApprovalRequest, BoxFuture, Caller, CallerCapabilities, CallerId, ElicitAnswer,
    Elicitation, ElicitationKind, Progress, Root, SampleAnswer, Sampling,
};
use switchboard::wire::RawJson;
use tokio::sync::watch;

/// The longest wait for a recorded event, on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Produces the answer to a question.
type Answer<T> = Box<dyn Fn() -> BoxFuture<'static, T> + Send + Sync>;

/// A caller that answers as scripted, and records its questions.
///
/// By default it approves each call once, fills the form fields `answer` and `name` with its own
/// name and `yes` with true, and offers no capabilities to servers.
pub struct TestCaller {
    id: CallerId,
    offers: CallerCapabilities,
    roots: Option<Vec<Root>>,
    approval: Answer<Approval>,
    form: Answer<ElicitAnswer>,
    /// The name of its model, and the text of its sampling answers.
    model: (String, String),
    seen: watch::Sender<Seen>,
    /// The exposed names of the tools that it was asked to approve.
    exposed: Mutex<Vec<String>>,
    /// Approvals, questions, samplings and notices as lines, in their order.
    lines: Mutex<Vec<String>>,
}

/// The questions and notices that a caller has received so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Seen {
    /// `server/tool`, and whether its definition was shown as changed.
    pub approvals: Vec<(String, bool)>,
    /// The messages of elicitations.
    pub questions: Vec<String>,
    /// The parameters of sampling requests.
    pub samplings: Vec<String>,
    /// The progress of its calls.
    pub progress: Vec<f64>,
    /// The messages of that progress, where there were any.
    pub progress_messages: Vec<String>,
    /// How many approvals and elicitations were dropped before they were answered.
    pub withdrawn: usize,
}

impl TestCaller {
    /// A caller of this name.
    pub fn new(name: &str) -> Self {
        let fields = json!({"answer": name, "name": name, "yes": true});
        let caller = Self {
            id: CallerId::new(name),
            offers: CallerCapabilities::default(),
            roots: None,
            approval: Box::new(|| Box::pin(async { Approval::Once })),
            form: Box::new(|| Box::pin(std::future::pending())),
            model: (name.to_owned(), "hi".to_owned()),
            seen: watch::Sender::default(),
            exposed: Mutex::default(),
            lines: Mutex::default(),
        };
        caller.fills_in(fields)
    }

    /// Sets the capabilities that servers are told.
    pub fn capabilities(mut self, offers: CallerCapabilities) -> Self {
        self.offers = offers;
        self
    }

    /// Sets the roots that servers may ask for.
    pub fn roots(mut self, roots: Vec<Root>) -> Self {
        self.roots = Some(roots);
        self
    }

    /// Answers every approval request with `answer`.
    pub fn approves(self, answer: Approval) -> Self {
        self.on_approval(move || {
            let answer = answer.clone();
            Box::pin(async { answer })
        })
    }

    /// Runs a closure before each answer to an approval request.
    pub fn on_approval(
        mut self,
        answer: impl Fn() -> BoxFuture<'static, Approval> + Send + Sync + 'static,
    ) -> Self {
        self.approval = Box::new(answer);
        self
    }

    /// Accepts every form with these fields.
    pub fn fills_in(mut self, fields: Value) -> Self {
        let fields: Map<String, Value> = fields.as_object().unwrap().clone();
        self.form = Box::new(move || {
            let fields = fields.clone();
            Box::pin(async {
                // Lets other callers run in between.
                tokio::task::yield_now().await;
                ElicitAnswer::Accept(fields)
            })
        });
        self
    }

    /// Receives every form and never answers it.
    pub fn never_fills_in(mut self) -> Self {
        self.form = Box::new(|| Box::pin(std::future::pending()));
        self
    }

    /// Receives every question and never answers it.
    pub fn never_answers(self) -> Self {
        self.on_approval(|| Box::pin(std::future::pending()))
            .never_fills_in()
    }

    /// Sets the name of its model and the text of its answers; by default its own name and `hi`.
    pub fn model(mut self, name: &str, text: &str) -> Self {
        self.model = (name.to_owned(), text.to_owned());
        self
    }

    /// Wraps the caller in an `Arc`, as calls need it.
    pub fn arc(self) -> Arc<Self> {
        Arc::new(self)
    }

    /// What it has received so far.
    pub fn seen(&self) -> Seen {
        self.seen.borrow().clone()
    }

    /// The exposed names of the tools that it was asked to approve, in order.
    pub fn exposed(&self) -> Vec<String> {
        self.exposed.lock().unwrap().clone()
    }

    /// Approvals, questions, samplings and notices as lines, in their order.
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    /// The notices about its calls.
    pub fn notices(&self) -> Vec<String> {
        let lines = self.lines();
        let notices = lines.iter().filter_map(|line| line.strip_prefix("notice "));
        notices.map(ToOwned::to_owned).collect()
    }

    /// Waits until the recorded events satisfy the condition.
    pub async fn until(&self, condition: impl FnMut(&Seen) -> bool) {
        let mut seen = self.seen.subscribe();
        tokio::time::timeout(TIMEOUT, seen.wait_for(condition))
            .await
            .expect("the caller does not see it in time")
            .unwrap();
    }

    fn record(&self, line: impl Into<Option<String>>, change: impl FnOnce(&mut Seen)) {
        self.lines.lock().unwrap().extend(line.into());
        self.seen.send_modify(change);
    }

    /// Waits for an answer, and counts the question as withdrawn if the wait is dropped.
    async fn answered<T>(&self, answer: BoxFuture<'static, T>) -> T {
        let mut open = OpenQuestion {
            caller: self,
            is_answered: false,
        };
        let answer = answer.await;
        open.is_answered = true;
        answer
    }
}

struct OpenQuestion<'a> {
    caller: &'a TestCaller,
    is_answered: bool,
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.caller.seen.send_modify(|seen| seen.withdrawn += 1);
        }
    }
}

impl Caller for TestCaller {
    fn id(&self) -> &CallerId {
        &self.id
    }

    fn capabilities(&self) -> CallerCapabilities {
        self.offers
    }

    fn approve<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, Approval> {
        Box::pin(async move {
            let tool = format!("{}/{}", request.id.server, request.id.tool.as_wire());
            let line = format!(
                "approve {} {}",
                request.id.shown(),
                request.arguments.as_str()
            );
            let exposed = request.exposed.to_string();
            self.exposed.lock().unwrap().push(exposed);
            self.record(line, |seen| {
                seen.approvals.push((tool, request.changed.is_some()));
            });
            self.answered((self.approval)()).await
        })
    }

    fn elicit<'a>(&'a self, question: &'a Elicitation) -> BoxFuture<'a, ElicitAnswer> {
        Box::pin(async move {
            let (ElicitationKind::Form { message, .. } | ElicitationKind::Url { message, .. }) =
                &question.kind
            else {
                unreachable!("an elicitation is a form or a URL");
            };
            let message = message.raw().to_owned();
            self.record(message.clone(), |seen| seen.questions.push(message));
            self.answered((self.form)()).await
        })
    }

    fn sample<'a>(&'a self, request: &'a Sampling) -> BoxFuture<'a, SampleAnswer> {
        let params = request.params.as_str().to_owned();
        self.record(format!("sample {params}"), |seen| {
            seen.samplings.push(params)
        });
        let answer = format!(
            r#"{{"role":"assistant","model":"{}","content":{{"type":"text","text":"{}"}}}}"#,
            self.model.0, self.model.1
        );
        Box::pin(async move { SampleAnswer::Answer(RawJson::parse(answer).unwrap()) })
    }

    fn roots(&self) -> Option<Vec<Root>> {
        self.roots.clone()
    }

    fn progress(&self, progress: &Progress) {
        let message = progress.message.as_ref().map(|text| text.raw().to_owned());
        self.record(None, |seen| {
            seen.progress.push(progress.progress);
            seen.progress_messages.extend(message);
        });
    }

    fn notice(&self, line: &str) {
        self.record(format!("notice {line}"), |_| {});
    }
}
