//! The tool Glob: files of the workspace whose path matches a pattern.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use globset::{GlobBuilder, GlobMatcher};
use nix::fcntl::OFlag;
use serde::Deserialize;
use serde_json::json;
use switchboard::untrusted::{escaped_line, quoted};
use switchboard::{
    CallResult, Caller, HostTool, HostToolDefinition, HostToolFuture, RawJson, ToolEffect,
};

use super::blocking::{StopSignal, run_blocking};
use super::parse_args;
use super::walk::{shown_path, visit_files};
use super::workspace::{FollowLinks, Workspace};

const MAX_FILES: usize = 500;
const TIME_LIMIT: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub(super) struct GlobTool {
    workspace: Arc<Workspace>,
}

#[derive(Deserialize)]
struct GlobArgs {
    pattern: String,
    path: Option<String>,
}

impl GlobTool {
    pub(super) fn new(workspace: Arc<Workspace>) -> Self {
        Self { workspace }
    }
}

impl HostTool for GlobTool {
    fn definition(&self) -> HostToolDefinition {
        let schema = json!({
            "type": "object",
            "properties": {
                "pattern": {"type": "string", "description": "Such as **/*.rs; * stays within one folder"},
                "path": {"type": "string", "description": "The folder to look in; the workspace by default"},
            },
            "required": ["pattern"],
            "additionalProperties": false,
        });
        HostToolDefinition::new(
            "Glob",
            "Lists files of the workspace whose path matches a pattern, without those that .gitignore names.",
            schema,
        )
        .effect(ToolEffect::Read)
    }

    fn call<'a>(&'a self, arguments: &'a RawJson, _: &'a Arc<dyn Caller>) -> HostToolFuture<'a> {
        Box::pin(async move {
            let args: GlobArgs = parse_args(arguments)?;
            let workspace = self.workspace.clone();
            let found = run_blocking(TIME_LIMIT, move |stop| find(&workspace, &args, stop));
            Ok(CallResult::success(found.await?))
        })
    }
}

/// A pattern over paths below `base`. Models also write it with `./`, or with the path of `base`.
pub(super) fn path_pattern(pattern: &str, base: &Path) -> Result<GlobMatcher, String> {
    let wrong = |fact: &str| format!("pattern {}: {}", quoted(pattern), escaped_line(fact));
    let below = Path::new(pattern.trim_start_matches("./"));
    let below = below.strip_prefix(base).unwrap_or(below);
    if below.is_absolute() {
        return Err(wrong("it is absolute, and not below the folder of path"));
    }
    let glob = GlobBuilder::new(&below.to_string_lossy())
        .literal_separator(true)
        .build();
    let glob = glob.map_err(|error| wrong(&error.kind().to_string()))?;
    Ok(glob.compile_matcher())
}

fn find(workspace: &Workspace, args: &GlobArgs, stop: &StopSignal) -> Result<String, String> {
    let base = workspace.locate(args.path.as_deref())?;
    let pattern = path_pattern(&args.pattern, &base.path())?;
    let mut found = Vec::new();
    let mut is_cut = false;
    visit_files(&base, stop, |relative| {
        let place = base.below(relative);
        let is_inside = || {
            let opened = place.try_open(OFlag::O_RDONLY | OFlag::O_NONBLOCK, FollowLinks::Inside);
            // A file that this user may not read is still a file of the workspace.
            !matches!(opened, Err(error) if error != nix::errno::Errno::EACCES)
        };
        if pattern.is_match(relative) && is_inside() {
            is_cut = found.len() == MAX_FILES;
            if !is_cut {
                found.push(shown_path(&place, workspace.first()));
            }
        }
        !is_cut
    })?;
    if is_cut {
        found.push(format!(
            "[more than {MAX_FILES} files match; give a narrower pattern]"
        ));
    } else if stop.is_late() {
        found.push(format!(
            "[stopped after {} s; give a narrower path]",
            TIME_LIMIT.as_secs()
        ));
    }
    Ok(match found.is_empty() {
        true => "[no file matches]".to_owned(),
        false => found.join("\n"),
    })
}
