//! A host with built-in tools over a folder of its own.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use switchboard::caller::ApprovalRequest;
use switchboard::{
    Approval, BoxFuture, Call, CallError, Caller, CallerId, Host, HostBuilder, ToolEffect,
};
use switchboard_agent::builtin_tools::{BuiltinTools, Workspace};

pub(crate) struct Fixture {
    pub(crate) host: Host,
    pub(crate) caller: Arc<Person>,
    scratch: tempfile::TempDir,
}

/// Says yes, and remembers what it was shown.
#[derive(Default)]
pub(crate) struct Person {
    /// The effect and the preview of each question.
    pub(crate) asked: Mutex<Vec<(Option<ToolEffect>, Vec<String>)>>,
    /// Says no.
    pub(crate) refuses: bool,
}

impl Caller for Person {
    fn id(&self) -> &CallerId {
        static ID: CallerId = CallerId::from_static("person");
        &ID
    }

    fn approve<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, Approval> {
        let shown = (request.effect, request.preview.clone());
        self.asked.lock().unwrap().push(shown);
        Box::pin(async move {
            match self.refuses {
                true => Approval::no("not today"),
                false => Approval::Once,
            }
        })
    }
}

impl Fixture {
    pub(crate) async fn new() -> Self {
        Self::with(|tools| tools, |builder| builder).await
    }

    pub(crate) async fn with(
        tools: impl FnOnce(BuiltinTools) -> BuiltinTools,
        host: impl FnOnce(HostBuilder) -> HostBuilder,
    ) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().join("work");
        std::fs::create_dir(&root).unwrap();
        let built = BuiltinTools::new(Workspace::open([root]).unwrap());
        let built = built
            .results_folder(scratch.path().join("results"))
            .unwrap();
        let builder = Host::builder().tools(tools(built).build());
        Self {
            host: host(builder).start().await.unwrap(),
            caller: Arc::default(),
            scratch,
        }
    }

    /// A path in the workspace.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.scratch
            .path()
            .canonicalize()
            .unwrap()
            .join("work")
            .join(name)
    }

    /// A path beside the workspace.
    pub(crate) fn outside(&self, name: &str) -> PathBuf {
        self.scratch.path().canonicalize().unwrap().join(name)
    }

    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// Calls a tool: its text, as an error where it says so.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Result<String, String> {
        let result = self.try_call(tool, arguments).await;
        let result = result.map_err(|error| error.to_string())?;
        match result.is_error() {
            true => Err(result.text()),
            false => Ok(result.text()),
        }
    }

    pub(crate) async fn try_call(
        &self,
        tool: &str,
        arguments: Value,
    ) -> Result<switchboard::CallResult, CallError> {
        let call = Call::new(tool, arguments).caller(self.caller.clone());
        self.host.call_with(call).await
    }

    /// The previews of the questions so far.
    pub(crate) fn previews(&self) -> Vec<Vec<String>> {
        let asked = self.caller.asked.lock().unwrap();
        asked.iter().map(|(_, preview)| preview.clone()).collect()
    }
}
