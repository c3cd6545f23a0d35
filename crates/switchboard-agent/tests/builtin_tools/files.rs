//! Read, Write and Edit: what they do, and what they refuse.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::time::Duration;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::json;
use switchboard::ToolEffect;

use crate::fixture::Fixture;

#[tokio::test]
async fn a_file_is_read_edited_and_written_with_its_difference_shown() {
    let fixture = Fixture::new().await;
    let path = fixture.file("src/a.rs", "fn a() {}\nfn b() {}\nfn c() {}\n");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o754)).unwrap();
    let read = fixture
        .call("Read", json!({"path": "src/a.rs", "offset": 2, "limit": 1}))
        .await;
    let expected = "2\tfn b() {}\n[lines 2 to 2 of 3; read on with offset 3]\n";
    assert_eq!(read.unwrap(), expected);

    let edit = json!({"path": "src/a.rs", "old_text": "fn b() {}", "new_text": "fn x() {\n}"});
    let edited = fixture.call("Edit", edit).await.unwrap();
    assert!(edited.starts_with("src/a.rs is written:"), "{edited}");
    assert_eq!(
        fixture.text("src/a.rs"),
        "fn a() {}\nfn x() {\n}\nfn c() {}\n"
    );
    assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o754);

    // A file that was written counts as read.
    let whole = json!({"path": path.to_str().unwrap(), "content": "fn only() {}\n"});
    fixture.call("Write", whole).await.unwrap();
    assert_eq!(fixture.text("src/a.rs"), "fn only() {}\n");
    let new = json!({"path": "new/deep/b.txt", "content": "one\ntwo\n"});
    fixture.call("Write", new).await.unwrap();
    assert_eq!(fixture.text("new/deep/b.txt"), "one\ntwo\n");

    let previews = fixture.previews();
    assert_eq!(previews[0], [""; 0]);
    assert_eq!(
        previews[1],
        [
            "  fn a() {}",
            "- fn b() {}",
            "+ fn x() {",
            "+ }",
            "  fn c() {}"
        ]
    );
    assert_eq!(previews[3], ["+ one", "+ two"]);
    let effects: Vec<_> = fixture
        .caller
        .asked
        .lock()
        .unwrap()
        .iter()
        .map(|asked| asked.0)
        .collect();
    let (read, edit) = (Some(ToolEffect::Read), Some(ToolEffect::Edit));
    assert_eq!(effects, [read, edit, edit, edit]);
    let left: Vec<_> = std::fs::read_dir(fixture.path("src")).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[tokio::test]
async fn an_image_is_read_as_an_image() {
    let fixture = Fixture::new().await;
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
    // The content decides, not the name.
    fixture.file("picture.txt", png);
    let read = fixture
        .try_call("Read", json!({"path": "picture.txt"}))
        .await;
    let parts = read.unwrap().for_model();
    let [switchboard::ModelContent::Image { mime_type, data }] = &*parts else {
        panic!("{parts:?}");
    };
    assert_eq!(
        (&**mime_type, &**data),
        ("image/png", "iVBORw0KGgoAAAANSUhEUg==")
    );
    fixture.file("huge.png", [&png[..], &vec![0; 4_000_000]].concat());
    let refused = fixture.call("Read", json!({"path": "huge.png"})).await;
    let refused = refused.unwrap_err();
    assert!(
        refused.contains("images of up to 3750000 are read"),
        "{refused}"
    );
    // An image cannot be edited as text.
    let edit = json!({"path": "picture.txt", "old_text": "PNG", "new_text": "GIF"});
    let refused = fixture.call("Edit", edit).await.unwrap_err();
    assert!(refused.contains("it is a binary file"), "{refused}");
}

#[tokio::test]
async fn a_file_that_was_not_read_or_changed_since_is_not_changed() {
    let fixture = Fixture::new().await;
    fixture.file("a.txt", "one\n");
    let edit = json!({"path": "a.txt", "old_text": "one", "new_text": "two"});
    let write = json!({"path": "a.txt", "content": "two\n"});
    for (tool, arguments) in [("Edit", &edit), ("Write", &write)] {
        let error = fixture.call(tool, arguments.clone()).await.unwrap_err();
        assert!(
            error.contains("was not read in this conversation"),
            "{tool}: {error}"
        );
    }
    fixture
        .call("Read", json!({"path": "a.txt"}))
        .await
        .unwrap();
    fixture.file("a.txt", "one, by somebody else\n");
    for (tool, arguments) in [("Edit", &edit), ("Write", &write)] {
        let error = fixture.call(tool, arguments.clone()).await.unwrap_err();
        assert!(
            error.contains("it changed since it was read; Read it again"),
            "{tool}: {error}"
        );
    }
    assert_eq!(fixture.text("a.txt"), "one, by somebody else\n");
    let asked = fixture.previews();
    let fails = |preview: &Vec<String>| preview[0].starts_with("this call would fail: ");
    assert!(
        asked
            .iter()
            .filter(|preview| !preview.is_empty())
            .all(fails),
        "{asked:?}"
    );
    fixture
        .call("Read", json!({"path": "a.txt"}))
        .await
        .unwrap();
    fixture.call("Edit", edit).await.unwrap();
    assert_eq!(fixture.text("a.txt"), "two, by somebody else\n");
}

#[tokio::test]
async fn line_endings_and_byte_order_mark_stay() {
    let fixture = Fixture::new().await;
    fixture.file("dos.txt", "\u{feff}one\r\ntwo\r\n");
    fixture
        .call("Read", json!({"path": "dos.txt"}))
        .await
        .unwrap();
    let edit = json!({"path": "dos.txt", "old_text": "one\ntwo", "new_text": "1\n2\n3"});
    fixture.call("Edit", edit).await.unwrap();
    assert_eq!(fixture.text("dos.txt"), "\u{feff}1\r\n2\r\n3\r\n");
    let write = json!({"path": "dos.txt", "content": "x\ny\n"});
    fixture.call("Write", write).await.unwrap();
    assert_eq!(fixture.text("dos.txt"), "\u{feff}x\r\ny\r\n");
}

/// What is no text file is refused at once, and says why.
#[tokio::test]
async fn devices_fifos_sockets_binary_and_huge_files_are_refused() {
    let fixture = Fixture::new().await;
    mkfifo(&fixture.path("fifo"), Mode::from_bits_truncate(0o600)).unwrap();
    let _socket = UnixListener::bind(fixture.path("socket")).unwrap();
    std::fs::create_dir(fixture.path("folder")).unwrap();
    fixture.file("nul", b"text\0more");
    fixture.file("latin", b"one\ntwo \xe9t\xe9\n");
    let huge = std::fs::File::create(fixture.path("huge")).unwrap();
    huge.set_len(16 * 1024 * 1024 + 1).unwrap();
    let cases = [
        ("fifo", "it is a FIFO, not a regular file"),
        ("socket", "it is a socket or a device, not a regular file"),
        ("folder", "it is a folder; Glob lists its files"),
        ("nul", "it is a binary file: byte 4 is NUL"),
        (
            "latin",
            "it is not UTF-8 text: byte 8, on line 2, is invalid",
        ),
        (
            "huge",
            "it has 16777217 bytes, and files of up to 16777216 are read",
        ),
    ];
    for (path, fact) in cases {
        let within = Duration::from_secs(20);
        let read = fixture.call("Read", json!({"path": path}));
        let error = tokio::time::timeout(within, read)
            .await
            .unwrap()
            .unwrap_err();
        assert!(error.contains(fact), "{path}: {error}");
        let write = fixture.call("Write", json!({"path": path, "content": "x"}));
        tokio::time::timeout(within, write)
            .await
            .unwrap()
            .unwrap_err();
    }
    let nul = fixture
        .call("Write", json!({"path": "new", "content": "a\0b"}))
        .await;
    assert!(nul.unwrap_err().contains("the text has a NUL character"));
    assert!(!fixture.path("new").exists());
}

/// A device in a folder that was given: it is not read.
#[tokio::test]
async fn a_device_is_refused() {
    use switchboard_agent::builtin_tools::{BuiltinTools, Workspace};
    let tools = BuiltinTools::new(Workspace::open(["/dev"]).unwrap()).build();
    let host = switchboard::Host::builder()
        .tools(tools)
        .allow("*")
        .start()
        .await
        .unwrap();
    let result = host.call("Read", json!({"path": "zero"})).await.unwrap();
    assert!(result.is_error());
    assert!(
        result.text().contains("it is a device, not a regular file"),
        "{}",
        result.text()
    );
}

#[tokio::test]
async fn links_dots_and_foreign_folders_are_refused_for_reading_and_writing() {
    let fixture = Fixture::new().await;
    let secret = fixture.outside("secret.txt");
    std::fs::write(&secret, "secret").unwrap();
    symlink("../secret.txt", fixture.path("out")).unwrap();
    symlink("..", fixture.path("up")).unwrap();
    fixture.file("real.txt", "real");
    symlink("real.txt", fixture.path("inside")).unwrap();
    for path in [
        "out",
        "up/secret.txt",
        "../secret.txt",
        secret.to_str().unwrap(),
        "/etc/passwd",
    ] {
        let read = fixture
            .call("Read", json!({"path": path}))
            .await
            .unwrap_err();
        assert!(!read.contains("1\tsecret"), "{path}: {read}");
        let write = fixture
            .call("Write", json!({"path": path, "content": "x"}))
            .await;
        write.unwrap_err();
    }
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "secret");
    // A link inside the workspace can be read; its target is written by its own name.
    assert_eq!(
        fixture
            .call("Read", json!({"path": "inside"}))
            .await
            .unwrap(),
        "1\treal\n"
    );
    let through = fixture
        .call("Write", json!({"path": "inside", "content": "x"}))
        .await;
    assert!(through.unwrap_err().contains("which is not followed"));
    let new = json!({"path": "up/new.txt", "content": "x"});
    fixture.call("Write", new).await.unwrap_err();
    assert!(!fixture.outside("new.txt").exists());
}

#[tokio::test]
async fn hard_links_read_only_files_and_git_are_not_written() {
    let fixture = Fixture::new().await;
    let linked = fixture.file("linked.txt", "one\n");
    std::fs::hard_link(&linked, fixture.outside("other.txt")).unwrap();
    let fixed = fixture.file("fixed.txt", "one\n");
    std::fs::set_permissions(&fixed, PermissionsExt::from_mode(0o444)).unwrap();
    fixture.file(".git/config", "[core]\n");
    let cases = [
        ("linked.txt", "it has 2 hard links"),
        (".git/config", "files of git are not written"),
        (".GIT/hooks/pre-commit", "files of git are not written"),
        ("sub/.git/config", "files of git are not written"),
    ];
    for (path, fact) in cases {
        let _ = fixture.call("Read", json!({"path": path})).await;
        let error = fixture
            .call("Write", json!({"path": path, "content": "x"}))
            .await
            .unwrap_err();
        assert!(error.contains(fact), "{path}: {error}");
    }
    assert_eq!(
        std::fs::read_to_string(fixture.outside("other.txt")).unwrap(),
        "one\n"
    );
    if !nix::unistd::geteuid().is_root() {
        fixture
            .call("Read", json!({"path": "fixed.txt"}))
            .await
            .unwrap();
        let error = fixture
            .call("Write", json!({"path": "fixed.txt", "content": "x"}))
            .await;
        assert!(error.unwrap_err().contains("this user may not open it"));
    }
}

/// T33: only the shown change is applied. A file that changes while the person is asked is left
/// unchanged.
#[tokio::test]
async fn t33_a_file_that_changes_while_the_person_is_asked_is_not_overwritten() {
    use std::sync::Arc;
    use switchboard::{Approval, Call, Callbacks};
    let fixture = Fixture::new().await;
    let path = fixture.file("a.txt", "one\n");
    let swapped = path.clone();
    let person = Callbacks::new("p").on_approval(move |request| {
        let swapped = swapped.clone();
        async move {
            if request.exposed.as_str() == "Edit" {
                assert_eq!(request.preview, ["- one", "+ two"]);
                std::fs::write(swapped, "one\nrm -rf me\n").unwrap();
            }
            Approval::Once
        }
    });
    let person = Arc::new(person);
    let call = |tool: &str, arguments| {
        fixture
            .host
            .call_with(Call::new(tool, arguments).caller(person.clone()))
    };
    call("Read", json!({"path": "a.txt"})).await.unwrap();
    let edit = json!({"path": "a.txt", "old_text": "one", "new_text": "two"});
    let result = call("Edit", edit).await.unwrap();
    assert!(result.is_error(), "{}", result.text());
    assert_eq!(fixture.text("a.txt"), "one\nrm -rf me\n");
}

/// T34: arguments that are not what the schema says never reach a tool.
#[tokio::test]
async fn t34_arguments_are_checked_before_anybody_is_asked() {
    let fixture = Fixture::new().await;
    let cases = [
        ("Read", json!({"path": ["a"]})),
        ("Read", json!({"path": "a", "offset": 0})),
        ("Read", json!({"path": "a", "command": "ls"})),
        ("Write", json!({"path": "a"})),
        ("Edit", json!({"path": "a", "old_text": "x"})),
        ("Grep", json!({"pattern": "x", "output": "shell"})),
    ];
    for (tool, arguments) in cases {
        fixture.try_call(tool, arguments.clone()).await.unwrap_err();
    }
    assert_eq!(fixture.previews().len(), 0);
}
