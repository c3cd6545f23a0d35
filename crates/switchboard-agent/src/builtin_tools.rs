//! The agent's own tools: Read, Write, Edit, Glob, Grep, Bash and WebFetch.
//!
//! They are `HostTool`s, so each call passes the host's gate like a call of a server's tool:
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use switchboard::Host;
//! use switchboard_agent::builtin_tools::{BuiltinTools, Workspace};
//!
//! let workspace = Workspace::open(["."])?;
//! let host = Host::builder()
//!     .tools(BuiltinTools::new(workspace).build())
//!     .allow("Read")
//!     .start()
//!     .await?;
//! # Ok(())
//! # }
//! ```
//!
//! The modules: `workspace` resolves a path and opens it without leaving the folders; `text_file` reads
//! a file, `image_file` an image, `file_change` writes a file; `read_record` remembers which
//! files a conversation has read. `read`, `write` (also Edit), `glob`, `grep`, `bash` and `web_fetch`
//! are the tools. `blocking` runs work on a thread that ends with the call, and `long_output` stores
//! output that is too long for a model.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use switchboard::auth::GuardedHttp;
use switchboard::config::Environment;
use switchboard::launch::Launcher;
use switchboard::{HostTool, RawJson};
use url::Url;

use bash::BashTool;
use glob::GlobTool;
use grep::GrepTool;
use long_output::LongOutput;
use read::ReadTool;
use read_record::ReadRecord;
use web_fetch::WebFetchTool;
use write::{ChangeTool, FileWriter};

pub use bash::Denylist;
pub use long_output::{forget_old_results, results_of_project};
pub use workspace::Workspace;

mod bash;
mod blocking;
mod file_change;
mod glob;
mod grep;
mod image_file;
mod long_output;
mod read;
mod read_record;
mod text_file;
mod walk;
mod web_fetch;
mod workspace;
mod write;

/// The tools of a workspace, to be given to [`HostBuilder::tools`](switchboard::HostBuilder::tools).
#[derive(Debug)]
pub struct BuiltinTools {
    workspace: Workspace,
    results: Option<PathBuf>,
    launcher: Launcher,
    environment: Environment,
    denylist: Denylist,
    /// The addresses that may be fetched: this one, and the public web.
    web_base: &'static str,
}

/// How long one request of WebFetch may take.
const WEB_REQUEST_TIME: Duration = Duration::from_secs(30);

impl BuiltinTools {
    /// The tools of this workspace.
    pub fn new(workspace: Workspace) -> Self {
        Self {
            workspace,
            results: None,
            launcher: Launcher::process_groups(),
            environment: Environment::default(),
            denylist: Denylist::default(),
            web_base: "https://public.invalid",
        }
    }

    /// With this launcher for commands; process groups by default.
    pub fn launcher(mut self, launcher: Launcher) -> Self {
        self.launcher = launcher;
        self
    }

    /// With these variables for commands, and the proxies among them for WebFetch. None by default.
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = environment;
        self
    }

    /// With more commands that never run.
    pub fn denylist(mut self, denylist: Denylist) -> Self {
        self.denylist = denylist;
        self
    }

    /// Lets WebFetch reach this machine as well as the public web.
    pub fn local_web_pages(mut self) -> Self {
        self.web_base = "http://localhost";
        self
    }

    /// With a folder for results that are too long for a model; Read can read what is in it.
    /// Without it they are cut.
    pub fn results_folder(mut self, folder: impl Into<PathBuf>) -> io::Result<Self> {
        let folder = folder.into();
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)?;
        // The model reads results back by the path that it was given, which must be that of the
        // workspace: without symbolic links.
        let folder = folder.canonicalize()?;
        self.workspace.add_read_only(&folder)?;
        self.results = Some(folder);
        Ok(self)
    }

    /// All of them, in the order in which they are listed.
    pub fn build(self) -> Vec<Arc<dyn HostTool>> {
        let workspace = Arc::new(self.workspace);
        let record = Arc::new(ReadRecord::default());
        let writer = FileWriter::new(workspace.clone(), record.clone());
        let long_output = LongOutput {
            folder: self.results,
        };
        let base = Url::parse(self.web_base).map_err(|_| "invalid address of the web");
        let http = base.and_then(|base| {
            GuardedHttp::for_environment(&base, WEB_REQUEST_TIME, &self.environment)
        });
        let home = self
            .environment
            .get("HOME")
            .map(|home| home.expose().to_owned());
        vec![
            Arc::new(ReadTool::new(workspace.clone(), record)),
            Arc::new(ChangeTool::write(writer.clone())),
            Arc::new(ChangeTool::edit(writer)),
            Arc::new(GlobTool::new(workspace.clone())),
            Arc::new(GrepTool::new(workspace.clone())),
            Arc::new(BashTool {
                workspace,
                launcher: self.launcher,
                denylist: self.denylist.home(home),
                environment: self.environment,
                long_output: long_output.clone(),
            }),
            Arc::new(WebFetchTool { http, long_output }),
        ]
    }
}

/// The arguments of a tool. The host has checked them against the schema.
fn parse_args<T: DeserializeOwned>(arguments: &RawJson) -> Result<T, String> {
    let parsed = arguments.decode();
    parsed.map_err(|error| format!("the arguments cannot be read: {error}"))
}
