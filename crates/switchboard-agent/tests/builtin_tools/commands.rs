//! Bash: real processes, their limits and their end.

use std::time::Duration;

use serde_json::json;
use switchboard::ToolEffect;
use switchboard::config::Environment;
use switchboard::launch::Launcher;
use switchboard_agent::builtin_tools::{BuiltinTools, Denylist};
use switchboard_testkit::{descendants_with_env, wait_until};

use crate::fixture::Fixture;

const PATIENCE: Duration = Duration::from_secs(60);

/// A fixture whose processes can be found even if they were detached.
async fn fixture() -> (Fixture, String) {
    let canary = format!("{:016x}", fastrand::u64(..));
    let path = std::env::var("PATH").unwrap_or_default();
    let variables = [("CANARY", &*canary), ("PATH", &*path)];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let tools = |tools: switchboard_agent::builtin_tools::BuiltinTools| {
        tools
            .launcher(Launcher::process_groups())
            .environment(Environment::new(variables))
    };
    let fixture = Fixture::with(tools, |host| host).await;
    (fixture, format!("CANARY={canary}"))
}

#[tokio::test]
async fn a_command_runs_in_the_workspace_and_returns_output_and_status() {
    let (fixture, _) = fixture().await;
    let run = async |command: &str| fixture.call("Bash", json!({"command": command})).await;
    let here = format!(
        "{}\n",
        fixture.path("").display().to_string().trim_end_matches('/')
    );
    assert_eq!(run("pwd").await.unwrap(), here);
    assert_eq!(
        run("echo one; echo two >&2; echo three").await.unwrap(),
        "one\ntwo\nthree\n"
    );
    assert_eq!(run("exit 3").await.unwrap_err(), "[exited with status 3]");
    assert_eq!(
        run("echo no; false").await.unwrap_err(),
        "no\n[exited with status 1]"
    );
    assert_eq!(
        run("kill -9 $$").await.unwrap_err(),
        "[was killed by SIGKILL]"
    );
    // Without stdin and terminal, a command that asks ends.
    assert_eq!(run("cat; read x || echo end").await.unwrap(), "end\n");
    assert_eq!(
        run("test -t 0 || test -t 1 || echo none").await.unwrap(),
        "none\n"
    );
    assert!(run("echo 'unfinished").await.is_err());
    let nul = fixture
        .try_call("Bash", json!({"command": "echo \0"}))
        .await;
    assert!(nul.is_err() || nul.is_ok_and(|result| result.is_error()));
    let asked = fixture.caller.asked.lock().unwrap();
    assert!(
        asked
            .iter()
            .all(|asked| asked.0 == Some(ToolEffect::Execute))
    );
}

#[tokio::test]
async fn a_command_that_takes_too_long_or_writes_too_much_is_stopped() {
    let (fixture, canary) = fixture().await;
    let late = json!({"command": "echo start; sleep 600 & sleep 600", "timeout_seconds": 1});
    let error = fixture.call("Bash", late).await.unwrap_err();
    assert_eq!(error, "start\n[stopped: it ran longer than 1 s]");
    let much = json!({"command": "yes"});
    let error = fixture.call("Bash", much).await.unwrap_err();
    assert!(
        error.ends_with("[stopped: it wrote more than 8388608 bytes]"),
        "{}",
        error.len()
    );
    assert!(wait_until(PATIENCE, || descendants_with_env(&canary).is_empty()));
}

#[tokio::test]
async fn descendants_of_a_command_end_with_it() {
    let (fixture, canary) = fixture().await;
    let left = json!({"command": "sleep 600 & echo started"});
    assert_eq!(fixture.call("Bash", left).await.unwrap(), "started\n");
    assert!(wait_until(PATIENCE, || descendants_with_env(&canary).is_empty()));
}

#[tokio::test]
async fn dropping_the_call_ends_the_command() {
    let (fixture, canary) = fixture().await;
    let command = json!({"command": "sleep 600 & sleep 600"});
    {
        let call = fixture.call("Bash", command);
        tokio::pin!(call);
        let is_running = || descendants_with_env(&canary).len() >= 3;
        while !is_running() {
            let tick = tokio::time::sleep(Duration::from_millis(20));
            tokio::select! {
                result = &mut call => panic!("{result:?}"),
                () = tick => {}
            }
        }
    }
    assert!(wait_until(PATIENCE, || descendants_with_env(&canary).is_empty()));
}

/// T26: the model gets the beginning and the end; the file has everything, and Read reads it.
#[tokio::test]
async fn t26_long_output_goes_to_a_file_that_can_be_read() {
    let (fixture, _) = fixture().await;
    let command = json!({"command": "seq 1 20000"});
    let output = fixture.call("Bash", command).await.unwrap();
    assert!(output.len() < 40_000, "{}", output.len());
    assert!(
        output.starts_with("1\n2\n") && output.ends_with("\n20000\n"),
        "{output}"
    );
    let note = output.lines().find(|line| line.starts_with("[…")).unwrap();
    let file = note.split("the whole is in ").nth(1).unwrap();
    let file = file.split(';').next().unwrap().trim_end_matches(']');
    let read = json!({"path": file, "offset": 15_000, "limit": 1});
    let line = fixture.call("Read", read).await.unwrap();
    assert!(line.starts_with("15000\t15000\n"), "{line}");
    // The folder of results is read-only for tools.
    let write = fixture
        .call(
            "Write",
            json!({"path": format!("{file}.sh"), "content": "x"}),
        )
        .await;
    assert!(write.unwrap_err().contains("can be read and not written"));
}

/// The folder of results is below a symbolic link.
#[tokio::test]
async fn t26_long_output_can_be_read_back_through_a_link() {
    let scratch = tempfile::tempdir().unwrap();
    let (state, link) = (scratch.path().join("state"), scratch.path().join("link"));
    std::fs::create_dir(&state).unwrap();
    std::os::unix::fs::symlink(&state, &link).unwrap();
    let results = |tools: BuiltinTools| tools.results_folder(link.join("results")).unwrap();
    let fixture = Fixture::with(results, |builder| builder).await;
    let command = json!({"command": "seq 1 20000"});
    let output = fixture.call("Bash", command).await.unwrap();
    let file = output.split("the whole is in ").nth(1).unwrap();
    let file = file.split(']').next().unwrap();
    let read = json!({"path": file, "offset": 15_000, "limit": 1});
    let line = fixture.call("Read", read).await.unwrap();
    assert!(line.starts_with("15000\t15000\n"), "{line}");
}

/// T11: the model gets no characters that a person would not see.
#[tokio::test]
async fn t11_hidden_characters_of_output_and_files_do_not_reach_the_model() {
    let (fixture, _) = fixture().await;
    fixture.file("a.txt", "open\u{e0041}\u{200b}\u{202e}\u{1b}[2J\n");
    for (tool, arguments) in [
        ("Read", json!({"path": "a.txt"})),
        ("Grep", json!({"pattern": "open"})),
        ("Bash", json!({"command": "cat a.txt"})),
    ] {
        let text = fixture.call(tool, arguments).await.unwrap();
        let is_layout = |character: char| matches!(character, '\n' | '\t');
        let hidden = switchboard::untrusted::hidden_in(&text);
        let hidden = hidden
            .filter(|(_, character)| !is_layout(*character))
            .count();
        assert!(text.contains("open") && hidden == 0, "{tool}: {text:?}");
    }
}

/// S0-26: the denylist holds where everything else is allowed, and nobody is asked about it.
#[tokio::test]
async fn s0_26_the_denylist_holds_in_yolo_and_after_a_yes() {
    use switchboard::config::Mode;
    let tools = |tools: switchboard_agent::builtin_tools::BuiltinTools| {
        tools.denylist(Denylist::new(["touch marked*"]).unwrap())
    };
    for mode in [Mode::Yolo, Mode::Ask] {
        let fixture = Fixture::with(tools, |mut host| {
            host.config_mut().permissions.mode = mode;
            host
        })
        .await;
        let denied = fixture
            .call("Bash", json!({"command": "true && touch marked.txt"}))
            .await;
        let denied = denied.unwrap_err();
        assert!(
            denied.contains("the deny rule \"bash:touch marked*\" matches it"),
            "{denied}"
        );
        let denied = fixture
            .try_call("Bash", json!({"command": "rm -rf /"}))
            .await
            .unwrap_err();
        assert!(
            matches!(denied, switchboard::CallError::Denied { .. }),
            "{denied}"
        );
        assert_eq!(fixture.previews().len(), 0, "nobody was asked");
        assert!(!fixture.path("marked.txt").exists());
        fixture
            .call("Bash", json!({"command": "/bin/echo fine > fine.txt"}))
            .await
            .unwrap();
        assert_eq!(fixture.text("fine.txt"), "fine\n");
        assert_eq!(fixture.previews().len(), usize::from(mode == Mode::Ask));
    }
}

/// Nothing runs that was not allowed: no file appears.
#[tokio::test]
async fn a_refused_command_does_not_run_and_the_model_reads_why() {
    let (mut fixture, _) = fixture().await;
    fixture.caller = std::sync::Arc::new(crate::fixture::Person {
        refuses: true,
        ..Default::default()
    });
    let denied = fixture
        .call("Bash", json!({"command": "touch ran.txt"}))
        .await
        .unwrap_err();
    assert!(denied.contains("not today"), "{denied}");
    let write = fixture
        .call("Write", json!({"path": "ran.txt", "content": "x"}))
        .await;
    write.unwrap_err();
    assert!(!fixture.path("ran.txt").exists());
}
