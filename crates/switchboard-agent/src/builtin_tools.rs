//! The agent's own tools: Read, Write, Edit, Glob, Grep, Bash and WebFetch.
//!
//! They are [`HostTool`]s, so each call passes the host's gate like a call of a server's tool:
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
//! The map: `workspace` finds a path and opens it without leaving the folders; `text_file` reads a
//! file, `file_change` writes one; `read_record` remembers what a conversation has read. `read`,
//! `write` (also Edit), `glob`, `grep` are the tools, and `blocking` runs their work on a thread that
//! ends with the call.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use switchboard::{HostTool, RawJson};

use glob::GlobTool;
use grep::GrepTool;
use read::ReadTool;
use read_record::ReadRecord;
use write::{EditTool, FileWriter, WriteTool};

pub use workspace::Workspace;

mod blocking;
mod file_change;
mod glob;
mod grep;
mod read;
mod read_record;
mod text_file;
mod walk;
mod workspace;
mod write;

/// The tools of a workspace, to be given to [`HostBuilder::tools`](switchboard::HostBuilder::tools).
#[derive(Debug)]
pub struct BuiltinTools {
    workspace: Workspace,
    results: Option<PathBuf>,
}

impl BuiltinTools {
    /// The tools of this workspace.
    pub fn new(workspace: Workspace) -> Self {
        Self {
            workspace,
            results: None,
        }
    }

    /// With a folder for results that are too long for a model; Read can read what is in it.
    /// Without it they are cut.
    pub fn results_folder(mut self, folder: impl Into<PathBuf>) -> io::Result<Self> {
        let folder = folder.into();
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)?;
        self.workspace.add_read_only(&folder)?;
        self.results = Some(folder);
        Ok(self)
    }

    /// All of them, in the order in which they are listed.
    pub fn build(self) -> Vec<Arc<dyn HostTool>> {
        let workspace = Arc::new(self.workspace);
        let record = Arc::new(ReadRecord::default());
        let writer = FileWriter {
            workspace: workspace.clone(),
            record: record.clone(),
        };
        vec![
            Arc::new(ReadTool::new(workspace.clone(), record)),
            Arc::new(WriteTool(writer.clone())),
            Arc::new(EditTool(writer)),
            Arc::new(GlobTool::new(workspace.clone())),
            Arc::new(GrepTool::new(workspace)),
        ]
    }
}

/// The arguments of a tool. The host has checked them against the schema.
fn parse_args<T: DeserializeOwned>(arguments: &RawJson) -> Result<T, String> {
    let parsed = arguments.decode();
    parsed.map_err(|error| format!("the arguments cannot be read: {error}"))
}
