use super::*;
use crate::conversation::{
    CallArguments, CallOutcome, Conversation, FinishReason, HistoryEntry, ModelTurn, ToolCall,
    ToolOutput, TurnPart, UserMessage,
};
use crate::json::JsonText;
use crate::settings::{ModelSettings, ModelVendor};
use crate::usage::TokenUsage;

fn turn(calls: &[&str]) -> ModelTurn {
    let item = "{\"type\": \"text\",\n \"text\":\"\\u00e9\", \"n\":1.0}";
    let calls = calls.iter().map(|name| {
        TurnPart::Call(ToolCall {
            id: format!("id_{name}"),
            name: (*name).to_owned(),
            arguments: CallArguments::read("{\"b\":1, \"a\":2}"),
        })
    });
    ModelTurn {
        origin: ModelSettings::new(ModelVendor::Anthropic, "m").origin(),
        items: vec![JsonText::parse(item).expect("JSON")],
        parts: calls.collect(),
        finish: FinishReason::Calls,
        finish_word: Some("tool_use".to_owned()),
        usage: TokenUsage::default(),
    }
}

fn answer(call: usize, text: &str) -> SessionRecord {
    let raw = "{\"content\" : [],\n\"isError\":false}";
    let raw = Some(JsonText::parse(raw).expect("JSON"));
    let output = ToolOutput {
        raw,
        ..ToolOutput::text(text)
    };
    let outcome = CallOutcome::Answered(output);
    SessionRecord::Result { call, outcome }
}

fn write(folder: &Path, records: &[SessionRecord]) -> PathBuf {
    let mut file = SessionFile::create(folder, SessionHeader::new(None)).expect("a file");
    for record in records {
        file.append(record).expect("an append");
    }
    file.path().to_owned()
}

fn user(text: &str) -> SessionRecord {
    SessionRecord::User(UserMessage::text(text))
}

#[test]
fn a_session_comes_back_byte_for_byte_and_private() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().join("sessions");
    let turn = turn(&["a", "b"]);
    let records = [
        user("hello"),
        SessionRecord::Turn(Box::new(turn.clone())),
        answer(1, "two"),
        answer(0, "one"),
        SessionRecord::ToolsLoaded {
            names: vec!["late".to_owned()],
        },
        SessionRecord::Note {
            text: "a note".to_owned(),
        },
        user("more"),
    ];
    let path = write(&folder, &records);
    let loaded = SessionFile::load(&path).expect("a session");
    assert_eq!(loaded.repairs, []);
    let entries = loaded.conversation.entries();
    assert_eq!(entries.len(), 5);
    let HistoryEntry::Model(answered) = &entries[1] else {
        panic!("{entries:?}");
    };
    assert_eq!(answered.turn(), &turn);
    assert_eq!(answered.turn().items[0].as_str(), turn.items[0].as_str());
    let outcomes: Vec<String> = answered
        .calls()
        .map(|(_, outcome)| outcome.text())
        .collect();
    assert_eq!(outcomes, ["one", "two"]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &Path| {
            let metadata = std::fs::metadata(path).expect("metadata");
            metadata.permissions().mode() & 0o777
        };
        assert_eq!((mode(&path), mode(&folder)), (0o600, 0o700));
    }
    drop(loaded);
    let store = SessionStore::new(&folder, None);
    let listed = store.list();
    assert_eq!(listed.len(), 1);
    assert_eq!((&listed[0].path, &*listed[0].title), (&path, "hello"));
    let id = listed[0].id.clone();
    for id in [&*id, &id[..id.len() - 1]] {
        assert_eq!(store.find(id).ok().as_ref(), Some(&path), "{id}");
    }
    for id in ["", "../x", "none"] {
        let found = store.find(id);
        assert!(matches!(found, Err(SessionError::UnknownId(_))), "{id}");
    }
    let elsewhere = SessionStore::new(&folder, Some("/elsewhere".into()));
    assert_eq!(elsewhere.list(), []);
    assert!(matches!(elsewhere.latest(), Err(SessionError::NoSession)));
}

#[test]
fn a_session_file_cut_at_any_byte_is_repaired() {
    let folder = tempfile::tempdir().expect("a folder");
    let turn = SessionRecord::Turn(Box::new(turn(&["a", "b"])));
    let path = write(
        folder.path(),
        &[user("hello"), turn, answer(0, "one"), answer(1, "two")],
    );
    let whole = std::fs::read(&path).expect("bytes");
    let header = whole
        .iter()
        .position(|&byte| byte == b'\n')
        .expect("a line")
        + 1;
    for cut in header..=whole.len() {
        std::fs::write(&path, &whole[..cut]).expect("a write");
        let loaded = SessionFile::load(&path).expect("a session");
        let is_cut = whole[cut - 1] != b'\n';
        let removed = matches!(
            loaded.repairs.first(),
            Some(SessionRepair::RemovedCutLine { .. })
        );
        assert_eq!(removed, is_cut, "cut at {cut}");
        let conversation = loaded.conversation;
        drop(loaded.file);
        // The repair is in the file: a second load has nothing to repair.
        let again = SessionFile::load(&path).expect("a session");
        assert_eq!(
            (again.repairs, again.conversation),
            (Vec::new(), conversation)
        );
    }
}

#[test]
fn lost_calls_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let turn = SessionRecord::Turn(Box::new(turn(&["a", "b"])));
    let path = write(
        folder.path(),
        &[user("x"), turn, answer(0, "one"), user("y")],
    );
    let loaded = SessionFile::load(&path).expect("a session");
    let lost = SessionRepair::LostCall {
        tool: "b".to_owned(),
    };
    assert_eq!(loaded.repairs, [lost]);
    let HistoryEntry::Model(answered) = &loaded.conversation.entries()[1] else {
        panic!("a turn");
    };
    let last = answered.calls().last().map(|(_, outcome)| outcome.clone());
    assert_eq!(last, Some(CallOutcome::Lost));
}

#[test]
fn a_fork_continues_on_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = write(folder.path(), &[user("a")]);
    let mut loaded = SessionFile::load(&path).expect("a session");
    let mut fork = loaded.file.fork(folder.path()).expect("a fork");
    assert_eq!(
        fork.header().parent.as_ref(),
        Some(&loaded.file.header().id)
    );
    fork.append(&user("b")).expect("an append");
    loaded.file.append(&user("c")).expect("an append");
    let (first, second) = (loaded.file.path().to_owned(), fork.path().to_owned());
    drop((loaded, fork));
    let texts = |path: &Path| {
        let loaded = SessionFile::load(path).expect("a session");
        loaded.conversation.entries().to_vec()
    };
    let entry = |text: &str| HistoryEntry::User(UserMessage::text(text));
    assert_eq!(texts(&first), [entry("a"), entry("c")]);
    assert_eq!(texts(&second), [entry("a"), entry("b")]);
}

#[test]
fn files_that_are_no_sessions_are_refused_with_their_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = write(folder.path(), &[user("a")]);
    let open = SessionFile::load(&path).expect("a session");
    assert!(matches!(
        SessionFile::load(&path),
        Err(SessionError::InUse(_))
    ));
    let store = SessionStore::new(folder.path(), None);
    let copy = store.fork(&path).expect("a copy of a session in use");
    assert_eq!(copy.conversation, open.conversation);
    assert_eq!(
        copy.file.header().parent.as_ref(),
        Some(&open.file.header().id)
    );
    drop(copy);
    drop(open);
    let whole = std::fs::read_to_string(&path).expect("text");
    let line_of = |text: &str| {
        std::fs::write(&path, text).expect("a write");
        match SessionFile::load(&path) {
            Err(SessionError::Unreadable { line, .. }) => line,
            other => panic!("{text}: {other:?}"),
        }
    };
    assert_eq!(line_of(""), 1);
    assert_eq!(line_of("{\"type\":\"user\",\"parts\":[]}\n"), 1);
    assert_eq!(line_of(&format!("{whole}nonsense\n")), 3);
    assert_eq!(line_of(&format!("{whole}{whole}")), 3);
    let result = "{\"type\":\"result\",\"call\":0,\"outcome\":\"lost\"}\n";
    assert_eq!(line_of(&format!("{whole}{result}")), 3);
    assert_eq!(line_of(&whole.replace("\"version\":1", "\"version\":2")), 1);
    let missing = SessionFile::load(&folder.path().join("none"));
    assert!(matches!(missing, Err(SessionError::File { .. })));
}

#[test]
fn a_summary_is_replayed_at_its_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let summary = SessionRecord::Summary {
        replaced: 2,
        text: "a and b".to_owned(),
        usage: TokenUsage::default(),
    };
    let path = write(
        folder.path(),
        &[user("a"), user("b"), user("c"), summary, user("d")],
    );
    let loaded = SessionFile::load(&path).expect("a session");
    let mut expected = Conversation::new();
    for text in ["a", "b", "c"] {
        expected.add_user_message(UserMessage::text(text));
    }
    expected.replace_by_summary(2, "a and b".to_owned());
    expected.add_user_message(UserMessage::text("d"));
    assert_eq!(loaded.conversation, expected);
}

#[test]
fn a_new_session_deletes_no_session_of_another_project_and_none_in_use() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = |project: &str| SessionStore::new(folder.path(), Some(project.into()));
    let create = |project: &str, age_seconds: u64| {
        let session = store(project).create().expect("a session");
        let changed = std::time::SystemTime::now() - Duration::from_secs(age_seconds);
        session.file.set_modified(changed).expect("a time");
        session
    };
    let open = create("/one", 9);
    let oldest = create("/one", 8).path;
    let other = create("/other", 7).path;
    let newer = create("/one", 6).path;
    let newest = create("/one", 5).path;
    store("/one").delete_oldest(2);
    assert!(open.path.exists() && other.exists() && newer.exists() && newest.exists());
    assert!(!oldest.exists());
}

#[test]
fn a_file_that_is_no_session_is_left_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("notes.jsonl");
    for text in [
        "no newline",
        "{\"type\":\"user\",\"parts\":[]}\nthe last line",
    ] {
        std::fs::write(&path, text).expect("a write");
        let loaded = SessionFile::load(&path);
        assert!(matches!(loaded, Err(SessionError::Unreadable { .. })));
        assert_eq!(std::fs::read_to_string(&path).expect("text"), text);
    }
}

#[test]
fn a_fork_has_complete_lines_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = write(folder.path(), &[user("a")]);
    let mut loaded = SessionFile::load(&path).expect("a session");
    // A full disk leaves a part of a line.
    loaded
        .file
        .file
        .write_all(b"{\"type\":\"us")
        .expect("a write");
    let fork = loaded.file.fork(folder.path()).expect("a fork");
    let path = fork.path().to_owned();
    drop(fork);
    let fork = SessionFile::load(&path).expect("a session");
    assert_eq!(fork.repairs, []);
    assert_eq!(fork.conversation, loaded.conversation);
}

#[test]
fn a_fork_after_a_failed_write_has_the_whole_conversation() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = SessionStore::new(folder.path(), None);
    let path = write(folder.path(), &[user("a")]);
    let mut recorder = recorder::SessionRecorder::new(store);
    let mut file = SessionFile::load(&path).expect("a session").file;
    file.file = File::open(&path).expect("a file that cannot be written");
    recorder.resume(file, String::new());
    recorder.record(&user("lost"));
    assert!(recorder.take_error().is_some());
    // The reason is reported once.
    recorder.record(&user("lost, too"));
    assert!(recorder.take_error().is_none());
    recorder.fork().expect("a fork").expect("a header");
    recorder.record(&user("b"));
    let fork = recorder.path().expect("a path").to_owned();
    drop(recorder);
    let loaded = SessionFile::load(&fork).expect("a session");
    let entry = |text: &str| HistoryEntry::User(UserMessage::text(text));
    let whole = ["a", "lost", "lost, too", "b"].map(entry);
    assert_eq!(loaded.conversation.entries(), whole);
}

#[test]
fn an_unknown_id_and_an_ambiguous_one_are_different_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    for id in ["12-abc", "12-abd"] {
        std::fs::write(path_of(folder.path(), id), "").expect("a write");
    }
    let store = SessionStore::new(folder.path(), None);
    let words = |id: &str| store.find(id).map_err(|error| error.to_string());
    assert_eq!(words("12-abc"), Ok(path_of(folder.path(), "12-abc")));
    assert_eq!(
        words("13"),
        Err("no conversation has the id \"13\"".to_owned())
    );
    let several = "several conversations have an id that begins with \"12\"; write more of it";
    assert_eq!(words("12"), Err(several.to_owned()));
}

/// A path that is not Unicode has no JSON text; two such folders do not share their sessions.
#[test]
fn a_session_belongs_to_a_folder_whose_path_is_not_unicode() {
    use std::os::unix::ffi::OsStrExt;
    let folder = tempfile::tempdir().expect("a folder");
    let [one, other] = [&b"caf\xe9"[..], b"caf\xe8"].map(|name| {
        let project = Path::new(std::ffi::OsStr::from_bytes(name));
        SessionStore::new(folder.path(), Some(project.to_owned()))
    });
    one.create().expect("a session");
    assert_eq!((one.list().len(), other.list().len()), (1, 0));
}
