//! Runs the script of one request, step by step.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde::Deserialize;
use serde_json::value::RawValue;
use switchboard_testkit::script::{Huge, IdForm, IdPlace, InputRequired, Script, Step, Steps};

use crate::peer::{Peer, member};
use crate::{answer, family};

/// The message that a behaviour is run for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Request {
    /// The id as written; `None` for a notification.
    pub(crate) id: Option<String>,
    pub(crate) method: String,
    /// The params as written; an empty object if absent.
    pub(crate) params: String,
    pub(crate) tool: Option<String>,
    /// How many messages of the same tool or method came before it.
    pub(crate) turn: usize,
}

impl Request {
    pub(crate) fn new(id: Option<String>, method: String, params: String) -> Self {
        #[derive(Deserialize)]
        struct Named {
            name: String,
        }
        let tool = (method == "tools/call")
            .then(|| {
                serde_json::from_str::<Named>(&params)
                    .ok()
                    .map(|named| named.name)
            })
            .flatten();
        Self {
            id,
            method,
            params,
            tool,
            turn: 0,
        }
    }

    /// For steps without a message.
    pub(crate) fn none() -> Self {
        Self {
            params: "{}".to_owned(),
            ..Self::default()
        }
    }

    /// The key that turns are counted by.
    pub(crate) fn key(&self) -> &str {
        self.tool.as_deref().unwrap_or(&self.method)
    }

    /// One member of the parameters, as written.
    pub(crate) fn param(&self, name: &str) -> Option<String> {
        let params: std::collections::HashMap<String, &RawValue> =
            serde_json::from_str(&self.params).ok()?;
        params.get(name).map(|value| value.get().to_owned())
    }
}

/// The script's steps for this message; `None` means the default response.
pub(crate) fn steps_for(script: &Script, request: &Request) -> Option<Steps> {
    let of_tool = request
        .tool
        .as_ref()
        .and_then(|tool| script.tools.get(tool));
    script.on.get(&request.method).or(of_tool).cloned()
}

/// Whether the steps may wait or fill the pipe, so that reading must continue concurrently.
pub(crate) fn takes_time(steps: &Steps) -> bool {
    steps.0.iter().any(|step| match step {
        Step::Sleep(_) | Step::WaitFile(_) | Step::AwaitCancel | Step::AwaitMethod(_) => true,
        Step::Request(_) | Step::Ask(_) | Step::Ping => true,
        Step::Huge(_)
        | Step::Deep(_)
        | Step::Junk(_)
        | Step::FloodStderr(_)
        | Step::FloodNotifications(_)
        | Step::FloodPings(_)
        | Step::ListChanged(_) => true,
        Step::Turns(turns) => turns.iter().any(takes_time),
        Step::Once(once) => takes_time(&once.steps),
        _ => false,
    })
}

/// Runs the steps; a request that they neither answered nor dropped gets the default response at
/// the end.
pub(crate) fn run(peer: &Peer, request: &Request, steps: &Steps) {
    let mut run = Run {
        peer,
        request,
        answered: request.id.is_none(),
        reply: "null".to_owned(),
    };
    match resume_at(request, steps) {
        Ok(first) => run.steps(&steps.0[first..]),
        Err(message) => run.error(-32602, &message, None),
    }
    if !run.answered {
        answer::give(peer, request);
    }
}

/// A retry continues after the step that required its input: the one whose state it returns.
fn resume_at(request: &Request, steps: &Steps) -> Result<usize, String> {
    let state = request.param("requestState");
    if state.is_none() && request.param("inputResponses").is_none() {
        return Ok(0);
    }
    let given = |required: &InputRequired| {
        required
            .request_state
            .as_ref()
            .map(|state| answer::quote(state))
    };
    let asked =
        |step: &Step| matches!(step, Step::InputRequired(required) if given(required) == state);
    let position = steps.0.iter().position(asked).map(|position| position + 1);
    position.ok_or_else(|| {
        format!(
            "requestState {} was never given",
            state.as_deref().unwrap_or("(none)")
        )
    })
}

struct Run<'a> {
    peer: &'a Peer,
    request: &'a Request,
    /// Whether the request needs no further response.
    answered: bool,
    /// The host's last response to our request.
    reply: String,
}

impl Run<'_> {
    fn steps(&mut self, steps: &[Step]) {
        for step in steps {
            self.step(step);
            // The remaining steps are for the retry, which is a request of its own.
            if matches!(step, Step::InputRequired(_)) {
                return;
            }
        }
    }

    fn step(&mut self, step: &Step) {
        let peer = self.peer;
        match step {
            Step::Answer => self.usual(),
            Step::Text(text) => self.result(&answer::text_result(self.request, text, None)),
            Step::Result(result) => self.result(result.get()),
            Step::Error(failure) => self.error(
                failure.code,
                &failure.message,
                failure.data.as_deref().map(RawValue::get),
            ),
            Step::Echo => self.show(
                &self
                    .request
                    .param("arguments")
                    .unwrap_or_else(|| "{}".to_owned()),
            ),
            Step::Inspect => self.show(&family::describe(&peer.inherited_descriptors)),
            Step::AnswerRaw(text) => self.whole_line(&self.with_id(text)),
            Step::AnswerAs(form) => self.usual_as(*form),
            Step::HalfAnswer => self.half_answer(),
            Step::Huge(huge) => self.huge(*huge),
            Step::Deep(depth) => self.deep(*depth),
            Step::Drop => self.answered = true,
            Step::InputRequired(required) => self.input_required(required),
            Step::AnswerInput => self.answer_input(),

            Step::Request(request) => {
                self.reply = peer.request(
                    &request.method,
                    request.params.as_deref().map(RawValue::get),
                )
            }
            Step::Ask(params) => {
                self.reply = peer.request("elicitation/create", Some(params.get()))
            }
            Step::Ping => self.reply = peer.request("ping", None),
            Step::AnswerReply => self.show(&self.reply.clone()),
            Step::Notify(request) => peer.notify(
                &request.method,
                request.params.as_deref().map(RawValue::get),
            ),
            Step::Progress(progress) => self.progress(*progress),
            Step::ListChanged(count) => self.list_changed(*count),
            Step::FloodNotifications(count) => self.flood_notifications(*count),
            Step::FloodPings(count) => self.flood_pings(*count),

            Step::Say(text) => peer.line(&self.with_id(text)),
            Step::Part(text) => peer.bytes(text.as_bytes()),
            Step::Junk(count) => (0..*count)
                .for_each(|number| peer.line(&format!("npm warn line {number} is no message"))),
            Step::Stderr(text) => stderr(text.as_bytes()),
            Step::FloodStderr(bytes) => flood_stderr(*bytes),

            Step::Sleep(milliseconds) => std::thread::sleep(Duration::from_millis(*milliseconds)),
            Step::WaitFile(path) => wait_for_file(path),
            Step::AwaitCancel => {
                peer.wait_for_cancel(self.request.id.as_deref().unwrap_or_default())
            }
            Step::AwaitMethod(method) => peer.wait_for_method(method),
            Step::Touch(path) => touch(path),
            // The test sees what is missing.
            Step::Write(written) => drop(std::fs::write(&written.path, &written.text)),

            Step::Exit(status) => std::process::exit(*status),
            Step::Signal(name) => match Signal::from_str(name) {
                Ok(signal) => crate::die_of(signal),
                Err(_) => crate::fail(&format!("there is no signal {name}")),
            },
            Step::CloseStdout => close(nix::unistd::dup2_stdout),
            Step::CloseStderr => close(nix::unistd::dup2_stderr),
            Step::StopReading => peer.stop_reading(),
            Step::Fork => family::start_grandchild(),
            Step::ForkHoldingStdout => family::start_grandchild_holding_stdout(),
            Step::Daemon => family::start_daemon(),

            Step::Turns(turns) => {
                if let Some(steps) = turns.get(self.request.turn).or(turns.last()) {
                    self.steps(&steps.0);
                }
            }
            Step::Once(once) => {
                if OpenOptions::new()
                    .write(true)
                    .create_new(true)
                    .open(&once.marker)
                    .is_ok()
                {
                    self.steps(&once.steps.0);
                }
            }
        }
    }

    fn usual(&mut self) {
        answer::give(self.peer, self.request);
        self.answered = true;
    }

    fn whole_line(&mut self, line: &str) {
        self.peer.line(line);
        self.answered = true;
    }

    fn result(&mut self, result: &str) {
        self.whole_line(&answer::result_line(&self.id(), result));
    }

    fn error(&mut self, code: i64, message: &str, data: Option<&str>) {
        self.whole_line(&answer::error_line(&self.id(), code, message, data));
    }

    /// A tool result with this JSON, for people and for programs.
    fn show(&mut self, json: &str) {
        self.result(&answer::text_result(self.request, json, Some(json)));
    }

    fn usual_as(&mut self, form: IdForm) {
        let id = self.id();
        let mut other = self.request.clone();
        other.id = match form {
            IdForm::Wrong => Some("987654321".to_owned()),
            IdForm::Float => Some(format!("{id}.0")),
            IdForm::String => Some(answer::quote(&id)),
            IdForm::Null => Some("null".to_owned()),
            IdForm::Missing => None,
        };
        let line = answer::usual_line(self.peer, &other);
        let line = if form == IdForm::Missing {
            line.replacen(r#""id":null,"#, "", 1)
        } else {
            line
        };
        self.whole_line(&line);
    }

    fn half_answer(&mut self) {
        let line = answer::usual_line(self.peer, self.request);
        self.peer.bytes(&line.as_bytes()[..line.len() / 2]);
        self.answered = true;
    }

    /// The text contains something like an id, and so does an object inside the result: only the
    /// outermost one counts.
    fn huge(&mut self, huge: Huge) {
        let id = self.id();
        let before = if huge.id == IdPlace::First {
            format!(r#""id":{id},"#)
        } else {
            String::new()
        };
        let after = if huge.id == IdPlace::Last {
            format!(r#","id":{id}"#)
        } else {
            String::new()
        };
        let head = format!(
            r#"{{"jsonrpc":"2.0",{before}"result":{{"_meta":{{"id":424242}},"content":[{{"type":"text","text":"\"id\":424242,\\"#
        );
        let tail = format!("\"}}]}}{after}}}\n");
        let block = vec![b'x'; 64 * 1024];
        let whole = std::iter::repeat_n(
            block.as_slice(),
            usize::try_from(huge.bytes / block.len() as u64).unwrap_or(usize::MAX),
        );
        let rest =
            &block[..usize::try_from(huge.bytes % block.len() as u64).expect("less than a block")];
        self.peer.chunks(
            std::iter::once(head.as_bytes())
                .chain(whole)
                .chain([rest, tail.as_bytes()]),
        );
        self.answered = true;
    }

    fn deep(&mut self, depth: usize) {
        let nested = "[".repeat(depth) + &"]".repeat(depth);
        self.result(&answer::text_result(self.request, "deep", Some(&nested)));
    }

    fn input_required(&mut self, required: &InputRequired) {
        let requests = member(
            "inputRequests",
            required.input_requests.as_deref().map(RawValue::get),
        );
        let state = required
            .request_state
            .as_ref()
            .map(|state| answer::quote(state));
        self.result(&format!(
            r#"{{"resultType":"input_required"{requests}{}}}"#,
            member("requestState", state.as_deref())
        ));
    }

    fn answer_input(&mut self) {
        let responses = self
            .request
            .param("inputResponses")
            .unwrap_or_else(|| "null".to_owned());
        let state = member(
            "requestState",
            self.request.param("requestState").as_deref(),
        );
        self.show(&format!(r#"{{"inputResponses":{responses}{state}}}"#));
    }

    fn progress(&self, progress: f64) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Meta<'a> {
            #[serde(borrow)]
            progress_token: &'a RawValue,
        }
        let meta = self.request.param("_meta").unwrap_or_default();
        if let Ok(Meta { progress_token }) = serde_json::from_str(&meta) {
            let params = format!(r#"{{"progressToken":{progress_token},"progress":{progress}}}"#);
            self.peer.notify("notifications/progress", Some(&params));
        }
    }

    /// On a modern session the notification names its subscription.
    fn list_changed(&self, count: usize) {
        let subscription = self.peer.seen().subscription.clone();
        let params = subscription
            .map(|id| format!(r#"{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}}}"#));
        (0..count).for_each(|_| {
            self.peer
                .notify("notifications/tools/list_changed", params.as_deref())
        });
    }

    fn flood_notifications(&self, count: usize) {
        for number in 0..count {
            self.peer.notify(
                "notifications/message",
                Some(&format!(
                    r#"{{"level":"info","data":"notification {number}"}}"#
                )),
            );
        }
    }

    /// With ids that no pending request of ours has.
    fn flood_pings(&self, count: usize) {
        (0..count).for_each(|number| {
            self.peer.line(&format!(
                r#"{{"jsonrpc":"2.0","id":"flood-{number}","method":"ping"}}"#
            ))
        });
    }

    fn id(&self) -> String {
        self.request.id.clone().unwrap_or_else(|| "null".to_owned())
    }

    fn with_id(&self, text: &str) -> String {
        text.replace("@id@", &self.id())
    }
}

/// Errors are ignored: the reader may be gone.
fn stderr(bytes: &[u8]) {
    let _ = std::io::stderr().write_all(bytes);
}

fn flood_stderr(mut bytes: u64) {
    let block = "stderr is drained, or this server stands still; \n".repeat(1_000);
    while bytes > 0 {
        let part = usize::try_from(bytes)
            .unwrap_or(usize::MAX)
            .min(block.len());
        stderr(&block.as_bytes()[..part]);
        bytes -= part as u64;
    }
}

fn wait_for_file(path: &Path) {
    while !path.exists() {
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn touch(path: &Path) {
    if let Err(error) = OpenOptions::new().append(true).create(true).open(path) {
        crate::fail(&format!("cannot touch {}: {error}", path.display()));
    }
}

/// Replaces the descriptor by the null device: the pipe ends for its reader, and no later file gets
/// its number.
fn close(replace: fn(std::fs::File) -> nix::Result<()>) {
    let Ok(null) = OpenOptions::new().write(true).open("/dev/null") else {
        crate::fail("cannot open /dev/null")
    };
    if let Err(error) = replace(null) {
        crate::fail(&format!("cannot close: {error}"));
    }
}
