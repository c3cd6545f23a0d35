//! The tool Grep: lines of files that match a regular expression.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use globset::GlobMatcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use nix::fcntl::OFlag;
use serde::Deserialize;
use serde_json::json;
use switchboard::untrusted::{escaped_line, quoted};
use switchboard::{
    CallResult, Caller, HostTool, HostToolDefinition, HostToolFuture, RawJson, ToolEffect,
};

use super::blocking::{StopSignal, run_blocking};
use super::glob::path_pattern;
use super::parse_args;
use super::text_file::open_regular;
use super::walk::{shown_path, visit_files};
use super::workspace::{FollowLinks, Workspace, WorkspacePath};
use search::FileSearch;

mod search;

const TIME_LIMIT: Duration = Duration::from_secs(30);
/// How large a compiled expression may become.
const MAX_REGEX_BYTES: usize = 10 << 20;

#[derive(Debug)]
pub(super) struct GrepTool {
    workspace: Arc<Workspace>,
}

#[derive(Deserialize)]
struct GrepArgs {
    pattern: String,
    path: Option<String>,
    glob: Option<String>,
    #[serde(default)]
    output: GrepOutput,
    #[serde(default)]
    ignore_case: bool,
    #[serde(default)]
    context: usize,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum GrepOutput {
    #[default]
    Lines,
    Files,
    Count,
}

impl GrepTool {
    pub(super) fn new(workspace: Arc<Workspace>) -> Self {
        Self { workspace }
    }
}

impl HostTool for GrepTool {
    fn definition(&self) -> HostToolDefinition {
        let schema = json!({
            "type": "object",
            "properties": {
                "pattern": {"type": "string", "description": "A regular expression in the syntax of Rust"},
                "path": {"type": "string", "description": "The file or folder to search; the workspace by default"},
                "glob": {"type": "string", "description": "Only files whose name or path matches, such as *.rs or src/**/*.rs"},
                "output": {"enum": ["lines", "files", "count"], "description": "Matching lines (the default), the files that have one, or their count for each file"},
                "ignore_case": {"type": "boolean"},
                "context": {"type": "integer", "minimum": 0, "maximum": 20, "description": "How many lines around each match"},
            },
            "required": ["pattern"],
            "additionalProperties": false,
        });
        HostToolDefinition::new(
            "Grep",
            "Finds lines in files of the workspace, without binary files and those that .gitignore names.",
            schema,
        )
        .effect(ToolEffect::Read)
    }

    fn call<'a>(&'a self, arguments: &'a RawJson, _: &'a Arc<dyn Caller>) -> HostToolFuture<'a> {
        Box::pin(async move {
            let args: GrepArgs = parse_args(arguments)?;
            let workspace = self.workspace.clone();
            let found = run_blocking(TIME_LIMIT, move |stop| search_all(&workspace, &args, stop));
            Ok(CallResult::success(found.await?))
        })
    }
}

fn expression(args: &GrepArgs) -> Result<RegexMatcher, String> {
    let matcher = RegexMatcherBuilder::new()
        .case_insensitive(args.ignore_case)
        .line_terminator(Some(b'\n'))
        .size_limit(MAX_REGEX_BYTES)
        .dfa_size_limit(MAX_REGEX_BYTES)
        .build(&args.pattern);
    matcher.map_err(|error| {
        // The lines before it repeat the pattern.
        let text = error.to_string();
        let fact = text.rsplit("error: ").next().unwrap_or(&text);
        format!("pattern {}: {}", quoted(&args.pattern), escaped_line(fact))
    })
}

/// A pattern without a folder matches the names of files in every folder, as with other searching
/// tools.
fn file_pattern(pattern: &str, base: &Path) -> Result<GlobMatcher, String> {
    match pattern.contains('/') {
        true => path_pattern(pattern, base),
        false => path_pattern(&format!("**/{pattern}"), base),
    }
}

fn search_all(workspace: &Workspace, args: &GrepArgs, stop: &StopSignal) -> Result<String, String> {
    let base = workspace.locate(args.path.as_deref())?;
    let glob = args.glob.as_deref();
    let glob = glob.map(|glob| file_pattern(glob, &base.path()));
    let glob = glob.transpose()?;
    let mut search = FileSearch::new(expression(args)?, args.output, args.context, stop.clone());
    let mut one = |place: &WorkspacePath<'_>| {
        let opened = open_regular(place);
        if let Ok((file, _)) = opened {
            search.file(file, &shown_path(place, workspace.first()));
        }
        search.wants_more()
    };
    let is_folder = base
        .open(OFlag::O_RDONLY | OFlag::O_DIRECTORY, FollowLinks::Inside)
        .is_ok();
    match is_folder {
        false => {
            open_regular(&base)?;
            one(&base);
        }
        true => visit_files(&base, stop, |relative| {
            let is_wanted = glob.as_ref().is_none_or(|glob| glob.is_match(relative));
            !is_wanted || one(&base.below(relative))
        })?,
    }
    Ok(search.finish(TIME_LIMIT))
}
