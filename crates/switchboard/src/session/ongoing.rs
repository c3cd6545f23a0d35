//! One request under way on behalf of a caller, through all its rounds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::time::{Instant, timeout};

use super::clock::Clock;
use super::sampling::{self, Overseer, Refusal};
use crate::caller::{
    Caller, CallerId, ElicitAnswer, Elicitation, ElicitationKind, LogLine, Progress, SampleAnswer,
    Sampling,
};
use crate::catalog::Tool;
use crate::config::Timeouts;
use crate::event::LogLevel;
use crate::name::{ServerName, ToolId};
use crate::secret::Redacted;
use crate::wire::RawJson;

/// How long a person may take to answer a server's question; then it is cancelled.
pub(super) const ANSWER_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(300);

/// Who waits for it, for which tool, and how late it is.
pub(super) struct Ongoing {
    pub(super) server: ServerName,
    /// `None` for a resource or a prompt.
    tool: Option<Arc<Tool>>,
    pub(super) caller: Arc<dyn Caller>,
    pub(super) caller_id: CallerId,
    pub(super) clock: Clock,
    /// The server was given answers on the way to the result.
    pub(super) gave_input: AtomicBool,
    /// Answers of a model that it has wanted so far.
    samplings: AtomicUsize,
}

impl std::fmt::Debug for Ongoing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ongoing")
            .field("tool", &self.tool_id())
            .field("caller", &self.caller_id)
            .finish_non_exhaustive()
    }
}

impl Ongoing {
    /// `since` is when the whole began, where that was before now.
    pub(super) fn start(
        server: &ServerName,
        tool: Option<&Arc<Tool>>,
        caller: &Arc<dyn Caller>,
        timeouts: Timeouts,
        since: Option<Instant>,
    ) -> Arc<Self> {
        let now = Instant::now();
        Arc::new(Self {
            server: server.clone(),
            tool: tool.cloned(),
            caller: caller.clone(),
            caller_id: caller.id(),
            clock: Clock::start(timeouts, since.unwrap_or(now), now),
            gave_input: AtomicBool::new(false),
            samplings: AtomicUsize::new(0),
        })
    }

    /// Passes progress on, and counts it as a sign of life.
    pub(super) fn progress(&self, progress: f64, total: Option<f64>, message: Option<Redacted>) {
        self.clock.touch(Instant::now());
        if let Some(id) = self.tool_id() {
            self.caller.progress(&Progress {
                id,
                progress,
                total,
                message,
            });
        }
    }

    /// Passes on what the server logs. `is_certain`: it is this very request that it logs for, and
    /// not another of the same caller.
    pub(super) fn log(
        &self,
        level: Option<LogLevel>,
        logger: Option<Redacted>,
        text: Redacted,
        is_certain: bool,
    ) {
        let tool = if is_certain { self.tool_id() } else { None };
        self.caller.log(&LogLine {
            server: self.server.clone(),
            tool,
            level,
            logger,
            text,
        });
    }

    /// The tool whose call it is.
    pub(super) fn tool_id(&self) -> Option<ToolId> {
        self.tool.as_ref().map(|tool| tool.id.clone())
    }

    /// Puts a question to the caller; its time does not count against the request. Defaults fill
    /// what the answer left out.
    pub(super) async fn elicit(&self, kind: ElicitationKind, tool: Option<ToolId>) -> ElicitAnswer {
        let _asking = self.asking();
        let question = Elicitation {
            server: self.server.clone(),
            tool,
            kind,
        };
        let answer = timeout(ANSWER_TIMEOUT, self.caller.elicit(&question))
            .await
            .unwrap_or(ElicitAnswer::Cancel);
        match (answer, &question.kind) {
            (ElicitAnswer::Accept(mut fields), ElicitationKind::Form { schema, .. }) => {
                fill_defaults(schema, &mut fields);
                ElicitAnswer::Accept(fields)
            }
            (answer, _) => answer,
        }
    }

    /// Puts what the server wants of a model to whoever lets it, then to the caller; their time
    /// does not count against the request.
    pub(super) async fn sample(
        &self,
        params: RawJson,
        tool: Option<ToolId>,
        overseer: Option<&Arc<dyn Overseer>>,
    ) -> Result<RawJson, Refusal> {
        if !self.caller.offers().sampling {
            return Err(Refusal::plain("nobody here answers for a model"));
        }
        if self.samplings.fetch_add(1, Ordering::Relaxed) >= sampling::MAX_PER_CALL {
            return Err(Refusal::plain(format!(
                "one call may want {} answers of a model, no more",
                sampling::MAX_PER_CALL
            )));
        }
        let _asking = self.asking();
        let request = Sampling {
            server: self.server.clone(),
            tool,
            params,
        };
        match overseer {
            Some(overseer) => overseer
                .permit(&request, &self.caller)
                .await
                .map_err(Refusal::rejected)?,
            None => return Err(Refusal::rejected("nobody is there to let it".to_owned())),
        }
        match timeout(ANSWER_TIMEOUT, self.caller.sample(&request)).await {
            Ok(SampleAnswer::Answer(answer)) => Ok(answer),
            Ok(SampleAnswer::Refuse(line)) => Err(Refusal::plain(line)),
            Err(_) => Err(Refusal::plain(format!(
                "no answer within {} s",
                ANSWER_TIMEOUT.as_secs()
            ))),
        }
    }

    /// While this lives, time does not count against the request.
    pub(super) fn asking(&self) -> Asking<'_> {
        Asking::start(&self.clock)
    }
}

/// Keeps the clock from counting while it lives, also when the question is withdrawn.
pub(super) struct Asking<'a>(&'a Clock);

impl<'a> Asking<'a> {
    fn start(clock: &'a Clock) -> Self {
        clock.ask(Instant::now());
        Self(clock)
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.answered(Instant::now());
    }
}

/// SEP-1034: fields left out of an accepted form take the schema's defaults.
fn fill_defaults(schema: &RawJson, fields: &mut serde_json::Map<String, serde_json::Value>) {
    let Ok(schema) = schema.to_value() else {
        return;
    };
    let Some(properties) = schema
        .get("properties")
        .and_then(serde_json::Value::as_object)
    else {
        return;
    };
    for (name, property) in properties {
        if let Some(default) = property.get("default")
            && !fields.contains_key(name)
        {
            fields.insert(name.clone(), default.clone());
        }
    }
}
