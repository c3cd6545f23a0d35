//! What a call returned: the server's bytes, its parts by kind, and what a model and a person are
//! given of them.

use std::borrow::Cow;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::untrusted::Untrusted;
use crate::wire::{NotJson, RawJson};

pub use content::{Content, EmbeddedResource, Media, ModelContent, ResourceContents, ResourceLink};

mod content;
mod layout;

/// The final result of a `tools/call`, byte for byte. A tool that answers `isError` has answered.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CallResult {
    /// The result object, as it came.
    pub raw: RawJson,
    /// Why its structured content is not what the tool's output schema promises: one line, safe to
    /// show. The caller has been told.
    pub misfit: Option<String>,
}

/// One projection, cut at a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Projection {
    /// The text, as far as the limit allows.
    pub text: Untrusted,
    /// Where the full text is, if it did not fit.
    pub spilled: Option<PathBuf>,
}

/// The fields that are projected; everything else stays in the raw object.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResultFields<'a> {
    #[serde(borrow)]
    content: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    structured_content: Option<&'a RawValue>,
}

impl CallResult {
    /// What a tool of this program says.
    pub fn success(text: impl AsRef<str>) -> Self {
        let raw = RawJson::from_value(
            &serde_json::json!({"content": [{"type": "text", "text": text.as_ref()}]}),
        );
        Self { raw, misfit: None }
    }

    /// That a tool failed, and why: for the model, which may try again.
    pub fn failure(text: impl AsRef<str>) -> Self {
        let content = serde_json::json!([{"type": "text", "text": text.as_ref()}]);
        Self {
            raw: RawJson::from_value(&serde_json::json!({"content": content, "isError": true})),
            misfit: None,
        }
    }

    /// Whether the tool says that it failed.
    pub fn is_error(&self) -> bool {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Flag<'a> {
            #[serde(borrow)]
            is_error: Option<&'a RawValue>,
        }
        // Raw, so that a result of any depth or with a flag of another type is still read.
        self.raw
            .decode::<Flag<'_>>()
            .is_ok_and(|flag| flag.is_error.is_some_and(|value| value.get() == "true"))
    }

    /// The result as one text that may be given to a model or printed: text as text, structured
    /// content as JSON, other kinds named by type and size. Characters that a person would not see
    /// are dropped.
    pub fn text(&self) -> String {
        match self.untrusted_text() {
            Ok(text) => text.for_model().0.into_owned(),
            Err(fault) => format!("[a result that cannot be shown: {fault}]"),
        }
    }

    /// The result as one text, as the server wrote it: text as text, structured content as JSON, other kinds named by type and
    /// size.
    pub fn untrusted_text(&self) -> Result<Untrusted, NotJson> {
        self.project(false)
    }

    /// Text for a person: text as text, JSON pretty-printed in a block, other kinds by type and
    /// size.
    pub fn for_person(&self) -> Result<Untrusted, NotJson> {
        self.project(true)
    }

    /// The parts of the content, by kind.
    pub fn content(&self) -> Vec<Content> {
        self.parts().map(|(content, _)| content).unwrap_or_default()
    }

    /// The structured content, as it came.
    pub fn structured_content(&self) -> Option<RawJson> {
        self.parts().ok()?.1
    }

    /// What a model is given: images and sound as themselves, all else as text, without characters
    /// that a person would not see.
    pub fn for_model(&self) -> Vec<ModelContent> {
        let Ok((content, structured)) = self.parts() else {
            return vec![ModelContent::Text(self.text())];
        };
        let has_text = has_text(&content);
        let mut parts: Vec<_> = content.into_iter().map(model_content).collect();
        if let Some(structured) = structured.filter(|_| !has_text) {
            parts.push(ModelContent::Text(model_text(json(
                structured.as_str(),
                false,
            ))));
        }
        parts
    }

    fn parts(&self) -> Result<(Vec<Content>, Option<RawJson>), NotJson> {
        let fields: ResultFields<'_> = self.raw.decode()?;
        let content = fields.content.unwrap_or_default().into_iter();
        let content = content.map(|raw| Content::read(self.raw.part(raw)));
        let structured = fields.structured_content.map(|raw| self.raw.part(raw));
        Ok((content.collect(), structured))
    }

    fn project(&self, for_person: bool) -> Result<Untrusted, NotJson> {
        let (content, structured) = self.parts()?;
        let mut texts = Vec::with_capacity(content.len());
        for part in &content {
            texts.push(show(part, for_person)?);
        }
        // A server that sends both sends the same thing twice; the text is made for reading.
        if let Some(structured) = structured.filter(|_| !has_text(&content)) {
            texts.push(json(structured.as_str(), for_person)?);
        }
        Ok(Untrusted::new(texts.join("\n")))
    }
}

fn has_text(content: &[Content]) -> bool {
    content.iter().any(|part| matches!(part, Content::Text(_)))
}

fn model_content(content: Content) -> ModelContent {
    let is = |mime_type: &Option<Untrusted>, kind: &str| {
        mime_type
            .as_ref()
            .is_some_and(|mime_type| mime_type.raw().starts_with(kind))
    };
    let clean = |text: Option<Untrusted>| text.unwrap_or_default().for_model().0.into_owned();
    match content {
        Content::Image(media) if is(&media.mime_type, "image/") => ModelContent::Image {
            mime_type: clean(media.mime_type),
            data: media.data,
        },
        Content::Audio(media) if is(&media.mime_type, "audio/") => ModelContent::Audio {
            mime_type: clean(media.mime_type),
            data: media.data,
        },
        Content::Resource(EmbeddedResource {
            mime_type,
            contents: ResourceContents::Blob(data),
            ..
        }) if is(&mime_type, "image/") => ModelContent::Image {
            mime_type: clean(mime_type),
            data,
        },
        other => ModelContent::Text(model_text(show(&other, false))),
    }
}

/// Text without hidden characters, or a line that says why there is none.
fn model_text(text: Result<String, NotJson>) -> String {
    match text {
        Ok(text) => Untrusted::new(text).for_model().0.into_owned(),
        Err(fault) => format!("[a part that cannot be shown: {fault}]"),
    }
}

/// One part as text; one of a kind that is not known is shown as its JSON.
fn show(content: &Content, for_person: bool) -> Result<String, NotJson> {
    let raw = |mime_type: &Option<Untrusted>| mime_type.as_ref().map(|text| text.raw().to_owned());
    Ok(match content {
        Content::Text(text) => readable(text.raw(), for_person),
        Content::Image(media) => by_size("image", raw(&media.mime_type).as_deref(), &media.data),
        Content::Audio(media) => by_size("audio", raw(&media.mime_type).as_deref(), &media.data),
        Content::ResourceLink(ResourceLink { uri, name, .. }) => match name {
            Some(name) if name != uri => format!("[resource {} ({})]", uri.raw(), name.raw()),
            _ => format!("[resource {}]", uri.raw()),
        },
        Content::Resource(resource) => {
            let uri = resource.uri.raw();
            match &resource.contents {
                ResourceContents::Text(text) => {
                    format!("[resource {uri}]\n{}", readable(text.raw(), for_person))
                }
                ResourceContents::Blob(data) => by_size(
                    &format!("resource {uri}"),
                    raw(&resource.mime_type).as_deref(),
                    data,
                ),
            }
        }
        Content::Unknown(raw) => json(raw.as_str(), for_person)?,
    })
}

/// Text is text; for a person, text that is a JSON object or list is laid out.
fn readable(text: &str, for_person: bool) -> String {
    let inner = text.trim();
    let is_json =
        || inner.starts_with(['{', '[']) && serde_json::from_str::<&RawValue>(inner).is_ok();
    let laid = if for_person && is_json() {
        json(inner, true).ok()
    } else {
        None
    };
    laid.unwrap_or_else(|| text.to_owned())
}

fn json(text: &str, for_person: bool) -> Result<String, NotJson> {
    if for_person {
        return Ok(format!("```json\n{}\n```", layout::pretty(text)?));
    }
    layout::check_depth(text)?;
    Ok(text.to_owned())
}

fn by_size(what: &str, kind: Option<&str>, base64: &str) -> String {
    let padding = base64
        .bytes()
        .rev()
        .take_while(|&byte| byte == b'=')
        .count();
    let bytes = (base64.len() - padding) * 3 / 4;
    let size = if bytes < 1024 {
        format!("{bytes} bytes")
    } else {
        format!("{:.1} KiB", bytes as f64 / 1024.0)
    };
    let kind = kind.map_or(Cow::Borrowed(""), |kind| Cow::Owned(format!(" {kind}")));
    format!("[{what}{kind}, {size}]")
}

/// How many files of long results are kept, and for how long.
const MAX_RESULTS: usize = 20;
const OLDEST_RESULT: Duration = Duration::from_secs(7 * 24 * 3600);

/// Cuts a text at `limit` bytes (at a character), writing the whole of it to a 0600 file in
/// `folder` that is named in the text. The file holds what a terminal would show, so that looking
/// at it is harmless; nothing in it is redacted.
pub fn fit(text: Untrusted, limit: usize, folder: &Path) -> io::Result<Projection> {
    let whole = text.raw();
    if whole.len() <= limit {
        return Ok(Projection {
            text,
            spilled: None,
        });
    }
    let path = spill(text.for_terminal().to_string().as_bytes(), folder)?;
    forget_old(folder);
    let cut = whole.floor_char_boundary(limit);
    let note = format!(
        "[cut here: {cut} of {} bytes; the whole is in {}]",
        whole.len(),
        path.display()
    );
    Ok(Projection {
        text: Untrusted::new(format!("{}\n{note}", &whole[..cut])),
        spilled: Some(path),
    })
}

/// As [`fit`], for output whose end matters as well: its beginning, its end, and between them how
/// much is left out and where the whole of it is.
pub fn fit_ends(text: Untrusted, limit: usize, folder: &Path) -> io::Result<Projection> {
    let whole = text.raw();
    if whole.len() <= limit {
        return fit(text, limit, folder);
    }
    let path = spill(text.for_terminal().to_string().as_bytes(), folder)?;
    forget_old(folder);
    let head = whole.floor_char_boundary(limit / 2);
    let tail = whole.ceil_char_boundary(whole.len() - limit / 2);
    let note = format!(
        "[… {} of {} bytes are left out here; the whole is in {}]",
        tail - head,
        whole.len(),
        path.display()
    );
    let text = format!("{}\n{note}\n{}", &whole[..head], &whole[tail..]);
    Ok(Projection {
        text: Untrusted::new(text),
        spilled: Some(path),
    })
}

/// Removes files of long results that are more than a few, or old. What cannot be removed stays.
pub fn forget_old(folder: &Path) {
    let Ok(files) = std::fs::read_dir(folder) else {
        return;
    };
    let is_ours = |path: &Path| {
        path.file_name()
            .and_then(|name| name.to_str())
            .is_some_and(|name| name.starts_with(RESULT_NAME))
    };
    let mut known: Vec<_> = files
        .flatten()
        .filter(|file| is_ours(&file.path()))
        .filter_map(|file| Some((file.metadata().ok()?.modified().ok()?, file.path())))
        .collect();
    known.sort_by(|one, other| other.cmp(one));
    for (number, (written, path)) in known.iter().enumerate() {
        if number >= MAX_RESULTS || written.elapsed().is_ok_and(|age| age > OLDEST_RESULT) {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// How the files of long results begin.
const RESULT_NAME: &str = "result-";

/// Writes to a file that did not exist before, so that nothing planted there is followed or
/// overwritten.
fn spill(bytes: &[u8], folder: &Path) -> io::Result<PathBuf> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    loop {
        let path = folder.join(format!("{RESULT_NAME}{:016x}.txt", fastrand::u64(..)));
        match OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
        {
            Ok(mut file) => {
                if let Err(error) = file.write_all(bytes) {
                    // Half a result must not pass for a whole one; the first error is the one to
                    // tell.
                    let _ = std::fs::remove_file(&path);
                    return Err(error);
                }
                return Ok(path);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn result(json: &str) -> CallResult {
        CallResult {
            raw: RawJson::parse(json.to_owned()).unwrap(),
            misfit: None,
        }
    }

    fn check(json: &str, model: &str, person: &str) {
        let result = result(json);
        assert_eq!(result.untrusted_text().unwrap().raw(), model);
        assert_eq!(result.for_person().unwrap().raw(), person);
    }

    #[test]
    fn s2_44_s2_67_every_kind_has_a_text_for_the_model_and_one_for_a_person() {
        check(
            r#"{"content":[{"type":"text","text":"a"},{"type":"text","text":"b\nc"}]}"#,
            "a\nb\nc",
            "a\nb\nc",
        );
        check(
            r#"{"content":[{"type":"text","text":"{\"b\":1,\"a\":[]}"}]}"#,
            r#"{"b":1,"a":[]}"#,
            "```json\n{\n  \"b\": 1,\n  \"a\": []\n}\n```",
        );
        check(
            r#"{"content":[{"type":"text","text":"[not json"}]}"#,
            "[not json",
            "[not json",
        );
        let image = "[image image/png, 3 bytes]";
        check(
            r#"{"content":[{"type":"image","mimeType":"image/png","data":"AAAA"}]}"#,
            image,
            image,
        );
        let audio = "[audio audio/wav, 12.3 KiB]";
        let data = "A".repeat(16_796);
        check(
            &format!(
                r#"{{"content":[{{"type":"audio","mimeType":"audio/wav","data":"{data}"}}]}}"#
            ),
            audio,
            audio,
        );
        let link = "[resource file:///a (A)]";
        check(
            r#"{"content":[{"type":"resource_link","uri":"file:///a","name":"A"}]}"#,
            link,
            link,
        );
        check(
            r#"{"content":[{"type":"resource","resource":{"uri":"file:///a","text":"hello"}}]}"#,
            "[resource file:///a]\nhello",
            "[resource file:///a]\nhello",
        );
        let blob = "[resource file:///a image/png, 2 bytes]";
        check(
            r#"{"content":[{"type":"resource","resource":{"uri":"file:///a","mimeType":"image/png","blob":"AAA="}}]}"#,
            blob,
            blob,
        );
        check(
            r#"{"content":[{"type":"hologram","x":1}]}"#,
            r#"{"type":"hologram","x":1}"#,
            "```json\n{\n  \"type\": \"hologram\",\n  \"x\": 1\n}\n```",
        );
        check(
            r#"{"content":[{"type":"text","text":7}]}"#,
            r#"{"type":"text","text":7}"#,
            "```json\n{\n  \"type\": \"text\",\n  \"text\": 7\n}\n```",
        );
        check(r#"{"content":[]}"#, "", "");
        check("{}", "", "");
    }

    #[test]
    fn s2_44_structured_content_speaks_where_there_is_no_text() {
        check(
            r#"{"content":[],"structuredContent":{"b": 1.0, "a":2}}"#,
            r#"{"b": 1.0, "a":2}"#,
            "```json\n{\n  \"b\": 1.0,\n  \"a\": 2\n}\n```",
        );
        check(
            r#"{"content":[{"type":"text","text":"t"}],"structuredContent":{"a":1}}"#,
            "t",
            "t",
        );
    }

    #[test]
    fn t11_a_model_gets_images_as_images_and_no_hidden_characters() {
        let result = result(
            r#"{"content":[{"type":"text","text":"a\u200bb"},{"type":"image","mimeType":"image/png","data":"AAAA"},
                {"type":"audio","mimeType":"audio/wav","data":"BBBB"},{"type":"image","data":"CCCC"},
                {"type":"resource","resource":{"uri":"file:///a","mimeType":"image/png","blob":"DDDD"}},
                {"type":"hologram","x":"\u202e"}]}"#,
        );
        let text = |text: &str| ModelContent::Text(text.to_owned());
        let image = |data: &str| ModelContent::Image {
            mime_type: "image/png".to_owned(),
            data: data.to_owned(),
        };
        assert_eq!(
            result.for_model(),
            [
                text("ab"),
                image("AAAA"),
                ModelContent::Audio {
                    mime_type: "audio/wav".to_owned(),
                    data: "BBBB".to_owned()
                },
                text("[image, 3 bytes]"),
                image("DDDD"),
                text(r#"{"type":"hologram","x":"\u202e"}"#),
            ]
        );
        assert!(
            result
                .text()
                .starts_with("ab\n[image image/png, 3 bytes]\n")
        );
        assert!(matches!(
            result.content().as_slice(),
            [
                Content::Text(_),
                Content::Image(_),
                Content::Audio(_),
                Content::Image(_),
                Content::Resource(_),
                Content::Unknown(_)
            ]
        ));
    }

    #[test]
    fn is_error_is_an_answer_and_only_true_means_it() {
        let check =
            |json: &str, expected: bool| assert_eq!(result(json).is_error(), expected, "{json}");
        check(r#"{"isError":true,"content":[]}"#, true);
        check(r#"{"isError":false}"#, false);
        check(r#"{"isError":"true"}"#, false);
        check("{}", false);
        check(
            &format!(
                r#"{{"x":{}{},"isError":true}}"#,
                "[".repeat(1_000),
                "]".repeat(1_000)
            ),
            true,
        );
    }

    #[test]
    fn f5_a_result_nested_too_deep_is_an_error_of_its_projection() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        for json in [
            format!(r#"{{"content":[{{"type":"x","y":{deep}}}]}}"#),
            format!(r#"{{"structuredContent":{deep}}}"#),
        ] {
            assert_eq!(
                result(&json).for_person().unwrap_err().to_string(),
                "nested deeper than 128"
            );
            assert_eq!(
                result(&json).untrusted_text().unwrap_err().to_string(),
                "nested deeper than 128"
            );
        }
    }

    #[test]
    fn t26_a_text_beyond_the_limit_goes_to_a_private_file_that_is_named() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("results/of today");
        let text = "héllo".repeat(10);
        let fitted = fit(Untrusted::new(text.clone()), 8, &folder).unwrap();
        let path = fitted.spilled.unwrap();
        assert_eq!(
            fitted.text.raw(),
            format!(
                "hélloh\n[cut here: 7 of 60 bytes; the whole is in {}]",
                path.display()
            )
        );
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&folder)), (0o600, 0o700));
    }

    #[test]
    fn t26_both_ends_of_a_long_text_are_kept() {
        let scratch = tempfile::tempdir().unwrap();
        let text = format!("{}é{}", "a".repeat(99), "z".repeat(99));
        let fitted = fit_ends(Untrusted::new(&*text), 199, scratch.path()).unwrap();
        let path = fitted.spilled.unwrap();
        let (head, tail) = ("a".repeat(99), "z".repeat(99));
        let file = path.display();
        assert_eq!(
            fitted.text.raw(),
            format!("{head}\n[… 2 of 200 bytes are left out here; the whole is in {file}]\n{tail}")
        );
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        let short = fit_ends(Untrusted::new("short"), 5, scratch.path()).unwrap();
        assert_eq!((short.text.raw(), short.spilled), ("short", None));
    }

    #[test]
    fn a_cut_never_splits_a_character() {
        let scratch = tempfile::tempdir().unwrap();
        let fitted = fit(Untrusted::new("aé漢"), 2, scratch.path()).unwrap();
        assert!(
            fitted.text.raw().starts_with("a\n[cut here: 1 of 6 bytes;"),
            "{:?}",
            fitted.text
        );
        let whole = fit(Untrusted::new("aé漢"), 6, scratch.path()).unwrap();
        assert_eq!(
            whole,
            Projection {
                text: Untrusted::new("aé漢"),
                spilled: None
            }
        );
    }
}
