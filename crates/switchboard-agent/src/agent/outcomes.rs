//! Converts a result of the host into the result that the model reads. Long text is cut, and stored in
//! a file as a whole.

use std::path::Path;

use switchboard::call::CallError;
use switchboard::{CallResult, ModelContent, Untrusted};

use super::summary::CallDecision;
use crate::conversation::{CallOutcome, ContentPart, ImageData, MAX_RESULT_BYTES, ToolOutput};
use crate::json::JsonText;
use crate::long_text::shorten;

/// The outcome of a call of the host: whether it was allowed, and the result for the model.
pub(super) fn outcome_of(
    result: Result<CallResult, CallError>,
    results_folder: Option<&Path>,
) -> (CallDecision, CallOutcome) {
    let error = match result {
        Ok(result) => {
            let output = output_of(&result, results_folder);
            let outcome = match result.is_error() {
                true => CallOutcome::Failed(output),
                false => CallOutcome::Answered(output),
            };
            return (CallDecision::Allowed, outcome);
        }
        Err(error) => error,
    };
    let visible = |text: String| Untrusted::new(text).for_model().0.into_owned();
    match error {
        CallError::Denied { reason, .. } => {
            let reason = visible(reason.to_string());
            (CallDecision::Denied, CallOutcome::Denied { reason })
        }
        CallError::Unresolved { .. }
        | CallError::UnknownServer { .. }
        | CallError::Replaced { .. }
        | CallError::InvalidArguments { .. } => (
            CallDecision::Undecided,
            CallOutcome::failed(visible(error.to_string())),
        ),
        _ => (
            CallDecision::Allowed,
            CallOutcome::failed(visible(error.to_string())),
        ),
    }
}

fn output_of(result: &CallResult, results_folder: Option<&Path>) -> ToolOutput {
    let parts = result.for_model().into_iter().map(|content| match content {
        ModelContent::Text(text) => ContentPart::Text(text),
        ModelContent::Image { mime_type, data } => ContentPart::Image(ImageData {
            media_type: mime_type,
            base64: data,
        }),
        ModelContent::Audio { mime_type, .. } => {
            ContentPart::Text(format!("[{mime_type}, left out: sound is not passed on]"))
        }
        other => ContentPart::Text(format!("[{other:?}]")),
    });
    ToolOutput {
        parts: shortened(parts.collect(), results_folder),
        raw: JsonText::parse(result.raw.as_str()).ok(),
        loaded_tools: Vec::new(),
    }
}

/// The same parts; if their text is too long, one shortened text comes first.
fn shortened(parts: Vec<ContentPart>, results_folder: Option<&Path>) -> Vec<ContentPart> {
    let (texts, others): (Vec<_>, Vec<_>) = parts
        .iter()
        .cloned()
        .partition(|part| matches!(part, ContentPart::Text(_)));
    let texts = texts.into_iter().filter_map(|part| match part {
        ContentPart::Text(text) => Some(text),
        ContentPart::Image(_) => None,
    });
    let text = texts.collect::<Vec<_>>().join("\n");
    if text.len() <= MAX_RESULT_BYTES {
        return parts;
    }
    let text = shorten(text, MAX_RESULT_BYTES, results_folder);
    std::iter::once(ContentPart::Text(text))
        .chain(others)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_has_its_beginning_its_end_and_the_file_with_all_of_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let long = format!("first {} last", "é".repeat(MAX_RESULT_BYTES));
        let image = ContentPart::Image(ImageData {
            media_type: "image/png".to_owned(),
            base64: String::new(),
        });
        let parts = vec![ContentPart::Text(long.clone()), image.clone()];
        let found = shortened(parts.clone(), Some(folder.path()));
        let [ContentPart::Text(text), other] = &*found else {
            panic!("{found:?}");
        };
        assert_eq!(other, &image);
        assert!(text.starts_with("first ") && text.ends_with(" last"));
        assert!(text.len() < MAX_RESULT_BYTES + 500, "{}", text.len());
        let files: Vec<_> = std::fs::read_dir(folder.path())
            .expect("a folder")
            .collect();
        let file = files[0].as_ref().expect("a file").path();
        assert!(text.contains(&file.display().to_string()));
        assert_eq!(std::fs::read_to_string(file).expect("text"), long);
        let cut = shortened(parts.clone(), None);
        assert!(matches!(&cut[0], ContentPart::Text(text) if text.contains("[cut here: ")));
        let short = vec![
            ContentPart::Text("a".to_owned()),
            ContentPart::Text("b".to_owned()),
        ];
        assert_eq!(shortened(short.clone(), Some(folder.path())), short);
    }
}
