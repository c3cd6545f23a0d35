//! A host for one test, and the people who call through it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Map, Value, json};
use switchboard::call::{Call, CallError};
use switchboard::caller::{
    Approval, ApprovalRequest, BoxFuture, Caller, CallerId, ElicitAnswer, Elicitation,
    ElicitationKind, Offers, Progress, SampleAnswer, Sampling,
};
use switchboard::config::{self, ConfigFile, Scope};
use switchboard::launch::Launcher;
use switchboard::server::ServerHandle;
use switchboard::wire::RawJson;
use switchboard::{Host, HostBuilder};
use switchboard_testkit::Scratch;
use tokio::sync::Notify;

/// The longest that anything here may take, on a machine that is busy with other things.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Everything that a caller can answer.
pub(crate) const ALL: Offers = Offers {
    elicit_form: true,
    elicit_url: true,
    sampling: true,
    sampling_tools: true,
};

pub(crate) const YOLO: &str = "[permissions]\nmode = \"yolo\"\n";

/// Starts a host with these tables and waits until every server is settled.
pub(crate) async fn open(scratch: &Scratch, tables: &str) -> Host {
    open_file(ConfigFile::new(
        scratch.write("switchboard.toml", tables),
        Scope::Given,
    ))
    .await
}

/// The same with a file of any dialect.
pub(crate) async fn open_file(file: ConfigFile) -> Host {
    let config = config::load(&[file]).unwrap();
    let builder = HostBuilder::new(config)
        .launcher(Launcher::start(switchboard_testkit::program("switchboard-launcher")).unwrap())
        .offers(ALL);
    let host = builder.start().await.unwrap();
    assert!(host.settled(PATIENCE).await, "the servers do not settle");
    host
}

/// The one server of a host.
pub(crate) fn server(host: &Host) -> ServerHandle {
    host.servers()[0].clone()
}

/// Makes a call; the text of its result.
pub(crate) async fn call(
    host: &Host,
    tool: &str,
    arguments: &Value,
    who: &Arc<Person>,
) -> Result<String, CallError> {
    let call =
        Call::new(tool, RawJson::from_value(arguments)).caller(who.clone() as Arc<dyn Caller>);
    let result = tokio::time::timeout(PATIENCE, host.call_with(call))
        .await
        .expect("a call ends")?;
    Ok(result.untrusted_text().unwrap().raw().to_owned())
}

/// Somebody who calls through a channel of their own, and remembers what came through it.
pub(crate) struct Person {
    name: String,
    /// What they fill into every form.
    fields: Map<String, Value>,
    approval: Approval,
    came: Mutex<Vec<String>>,
    /// Rung at each progress of a call of theirs.
    progressed: Notify,
}

impl Person {
    pub(crate) fn new(name: &str) -> Self {
        let fields = json!({"answer": name, "name": name, "yes": true})
            .as_object()
            .unwrap()
            .clone();
        Self {
            name: name.to_owned(),
            fields,
            approval: Approval::Once,
            came: Mutex::default(),
            progressed: Notify::new(),
        }
    }

    pub(crate) fn approves(mut self, approval: Approval) -> Self {
        self.approval = approval;
        self
    }

    pub(crate) fn arc(self) -> Arc<Self> {
        Arc::new(self)
    }

    /// What came through their channel so far.
    pub(crate) fn came(&self) -> Vec<String> {
        self.came.lock().unwrap().clone()
    }

    /// Waits until a call of theirs says how far it is.
    pub(crate) async fn until_progress(&self) {
        self.progressed.notified().await;
    }

    fn note(&self, line: String) {
        self.came.lock().unwrap().push(line);
    }
}

impl Caller for Person {
    fn id(&self) -> CallerId {
        CallerId::new(&self.name)
    }

    fn offers(&self) -> Offers {
        ALL
    }

    fn approve<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, Approval> {
        self.note(format!(
            "approve {} {}",
            request.id.shown(),
            request.arguments.as_str()
        ));
        let answer = self.approval.clone();
        Box::pin(async move { answer })
    }

    fn elicit<'a>(&'a self, question: &'a Elicitation) -> BoxFuture<'a, ElicitAnswer> {
        let (ElicitationKind::Form { message, .. } | ElicitationKind::Url { message, .. }) =
            &question.kind;
        self.note(message.raw().to_owned());
        let fields = self.fields.clone();
        // Others get a chance to come in between.
        Box::pin(async {
            tokio::task::yield_now().await;
            ElicitAnswer::Accept(fields)
        })
    }

    fn sample<'a>(&'a self, request: &'a Sampling) -> BoxFuture<'a, SampleAnswer> {
        self.note(format!("sample {}", request.params.as_str()));
        let answer = format!(
            r#"{{"role":"assistant","model":"{}","content":{{"type":"text","text":"hi"}}}}"#,
            self.name
        );
        Box::pin(async move { SampleAnswer::Answer(RawJson::parse(answer).unwrap()) })
    }

    fn progress(&self, _: &Progress) {
        self.progressed.notify_one();
    }

    fn notice(&self, line: &str) {
        self.note(format!("notice {line}"));
    }
}
