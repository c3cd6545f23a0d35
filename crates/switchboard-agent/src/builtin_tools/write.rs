//! The tools Write and Edit: a file's whole text, or a part of it, is replaced.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use switchboard::sync::lock;
use switchboard::{
    BoxFuture, CallResult, Caller, CallerId, HostTool, HostToolDefinition, HostToolFuture, RawJson,
    ToolEffect,
};

use super::blocking::{StopSignal, run_blocking};
use super::file_change::FileChange;
use super::parse_args;
use super::read_record::ReadRecord;
use super::workspace::Workspace;

const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Write, the whole text of a file, or Edit, one part of it.
#[derive(Debug)]
pub(super) struct ChangeTool {
    writer: FileWriter,
    definition: fn() -> HostToolDefinition,
    read_args: fn(&RawJson) -> Result<ChangeArgs, String>,
}

/// Plans and applies changes, for both tools.
#[derive(Debug, Clone)]
pub(super) struct FileWriter {
    pub(super) workspace: Arc<Workspace>,
    pub(super) record: Arc<ReadRecord>,
    /// Held from the plan of a change until it is applied and recorded: the next change of the same
    /// file starts from the new text.
    change: Arc<Mutex<()>>,
}

/// One change as the model asked for it.
pub(super) enum ChangeArgs {
    Write(WriteArgs),
    Edit(EditArgs),
}

#[derive(Deserialize)]
pub(super) struct WriteArgs {
    path: String,
    content: String,
}

#[derive(Deserialize)]
pub(super) struct EditArgs {
    path: String,
    old_text: String,
    new_text: String,
    #[serde(default)]
    replace_all: bool,
}

impl FileWriter {
    pub(super) fn new(workspace: Arc<Workspace>, record: Arc<ReadRecord>) -> Self {
        Self {
            workspace,
            record,
            change: Arc::default(),
        }
    }

    /// Plans the change for this conversation, and passes the plan to `use_plan`.
    async fn with_plan<T: Send + 'static>(
        &self,
        args: ChangeArgs,
        caller: CallerId,
        use_plan: impl FnOnce(&FileChange<'_>, &StopSignal) -> Result<T, String> + Send + 'static,
    ) -> Result<T, String> {
        let Self {
            workspace,
            record,
            change,
        } = self.clone();
        let plan_and_run = move |stop: &StopSignal| {
            let _one_change = lock(&change);
            let place = workspace.locate(Some(args.path()))?;
            let known = record.get(caller, place.path());
            use_plan(
                &FileChange::plan(place, known, |text| args.changed(text))?,
                stop,
            )
        };
        run_blocking(TIME_LIMIT, plan_and_run).await
    }

    async fn preview(&self, args: Result<ChangeArgs, String>, caller: CallerId) -> Vec<String> {
        let preview = async {
            self.with_plan(args?, caller, |plan, _| Ok(plan.preview()))
                .await
        };
        preview
            .await
            .unwrap_or_else(|reason| vec![format!("this call would fail: {reason}")])
    }

    async fn apply(&self, args: ChangeArgs, caller: CallerId) -> Result<CallResult, String> {
        let (record, path) = (self.record.clone(), args.path().to_owned());
        let place = self.workspace.locate(Some(&path))?.path();
        let known = caller.clone();
        let applied = self.with_plan(args, caller, move |plan, stop| {
            record.add(known, place, plan.apply(stop)?);
            Ok(plan.preview())
        });
        let changes = applied.await?.join("\n");
        Ok(CallResult::success(format!(
            "{path} is written:\n{changes}"
        )))
    }
}

impl ChangeArgs {
    fn path(&self) -> &str {
        match self {
            Self::Write(args) => &args.path,
            Self::Edit(args) => &args.path,
        }
    }

    /// The text of the file after the change.
    fn changed(&self, text: Option<&str>) -> Result<String, String> {
        match (self, text) {
            (Self::Write(args), _) => Ok(args.content.clone()),
            (Self::Edit(args), Some(text)) => args.changed(text),
            (Self::Edit(args), None) => {
                let path = switchboard::untrusted::quoted(&args.path);
                Err(format!(
                    "path {path}: there is no such file; Write creates one"
                ))
            }
        }
    }
}

impl EditArgs {
    fn changed(&self, text: &str) -> Result<String, String> {
        let wrong = |fact: &str| Err(format!("old_text: {fact}"));
        if self.old_text.is_empty() {
            return wrong("it is empty; Write replaces a whole file");
        }
        if self.old_text == self.new_text {
            return wrong("it is the same as new_text");
        }
        // Read shows each line with \n. A file with ends of both kinds is edited with the kind that
        // its lines have; the others keep theirs.
        let plain = |part: &str| part.replace("\r\n", "\n");
        let (old, new) = (plain(&self.old_text), plain(&self.new_text));
        let spellings = [
            (self.old_text.clone(), self.new_text.clone()),
            (old.clone(), new.clone()),
            (old.replace('\n', "\r\n"), new.replace('\n', "\r\n")),
        ];
        let as_written = text.contains('\r');
        let mut spellings = spellings.into_iter().skip(usize::from(!as_written));
        let (old, new) = spellings
            .find(|(old, _)| text.contains(old))
            .unwrap_or((old, new));
        // Places that overlap are two as well.
        let stands_twice = || {
            let first = text.find(&*old).unwrap_or_default();
            let mut rest = text[first..].chars();
            rest.next();
            rest.as_str().contains(&*old)
        };
        match text.matches(&*old).count() {
            0 => wrong("the file does not have it; Read shows the text as it is"),
            _ if self.replace_all => Ok(text.replace(&*old, &new)),
            1 if !stands_twice() => Ok(text.replacen(&*old, &new, 1)),
            count => wrong(&format!(
                "the file has it {} times; give more of the text around it, or replace_all",
                count.max(2)
            )),
        }
    }
}

impl ChangeTool {
    /// The tool Write.
    pub(super) fn write(writer: FileWriter) -> Self {
        Self {
            writer,
            definition: write_definition,
            read_args: |arguments| parse_args(arguments).map(ChangeArgs::Write),
        }
    }

    /// The tool Edit.
    pub(super) fn edit(writer: FileWriter) -> Self {
        Self {
            writer,
            definition: edit_definition,
            read_args: |arguments| parse_args(arguments).map(ChangeArgs::Edit),
        }
    }
}

fn write_definition() -> HostToolDefinition {
    let schema = json!({
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "The file; missing folders are created"},
            "content": {"type": "string", "description": "Its whole text"},
        },
        "required": ["path", "content"],
        "additionalProperties": false,
    });
    HostToolDefinition::new(
        "Write",
        "Writes a text file of the workspace. A file that exists must have been read before.",
        schema,
    )
    .effect(ToolEffect::Edit)
}

fn edit_definition() -> HostToolDefinition {
    let schema = json!({
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "The file"},
            "old_text": {"type": "string", "description": "The text to replace, without line numbers; it must stand in the file once"},
            "new_text": {"type": "string", "description": "What takes its place"},
            "replace_all": {"type": "boolean", "description": "Replace it wherever it stands"},
        },
        "required": ["path", "old_text", "new_text"],
        "additionalProperties": false,
    });
    HostToolDefinition::new(
        "Edit",
        "Replaces a part of a text file of the workspace. The file must have been read before.",
        schema,
    )
    .effect(ToolEffect::Edit)
}

impl HostTool for ChangeTool {
    fn definition(&self) -> HostToolDefinition {
        (self.definition)()
    }

    fn preview<'a>(
        &'a self,
        arguments: &'a RawJson,
        caller: &'a Arc<dyn Caller>,
    ) -> BoxFuture<'a, Vec<String>> {
        let args = (self.read_args)(arguments);
        Box::pin(self.writer.preview(args, caller.id().clone()))
    }

    fn call<'a>(
        &'a self,
        arguments: &'a RawJson,
        caller: &'a Arc<dyn Caller>,
    ) -> HostToolFuture<'a> {
        Box::pin(async move {
            let args = (self.read_args)(arguments)?;
            self.writer.apply(args, caller.id().clone()).await
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_replaces_exactly_one_place_unless_all_are_meant() {
        let check = |text: &str, old: &str, new: &str, replace_all: bool, expected: &str| {
            let args = EditArgs {
                path: "a".to_owned(),
                old_text: old.to_owned(),
                new_text: new.to_owned(),
                replace_all,
            };
            let changed = args.changed(text).unwrap_or_else(|error| error);
            assert_eq!(changed, expected, "{text:?} {old:?}");
        };
        check("a b c", "b", "x", false, "a x c");
        check("a b b", "b", "x", true, "a x x");
        check("a\nb\n", "a\r\nb", "x\r\ny", false, "x\ny\n");
        check("a\r\nb\n", "a\r\nb", "x", false, "x\n");
        check("a\r\nb\r\nc\n", "a\nb", "x\ny", false, "x\r\ny\r\nc\n");
        check("a\nb\nc\r\n", "a\r\nb", "x\r\ny", false, "x\ny\nc\r\n");
        let many =
            "old_text: the file has it 2 times; give more of the text around it, or replace_all";
        check("a b b", "b", "x", false, many);
        check("}\n}\n}\n", "}\n}\n", "x", false, many);
        check("é é é", "é é", "x", true, "x é");
        let none = "old_text: the file does not have it; Read shows the text as it is";
        check("a", "b", "x", true, none);
        check("a", "a", "a", false, "old_text: it is the same as new_text");
        let empty = "old_text: it is empty; Write replaces a whole file";
        check("a", "", "x", false, empty);
    }
}
