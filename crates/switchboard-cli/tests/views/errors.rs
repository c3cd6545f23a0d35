//! The error table of agent-code's document: nothing that a server does ends the run, and a model
//! is told in a result.

use serde_json::json;
use switchboard_testkit::{Chaos, Step};

use crate::fixture::{Fixture, good};

/// A file with these scripted servers.
fn fixture(servers: &[(&str, &Chaos)]) -> Fixture {
    let fixture = Fixture::new();
    let entry = |(name, chaos): &(&str, &Chaos)| {
        let launch = chaos.launch();
        format!(
            "[mcp_servers.{name}]\ncommand = {:?}\nargs = {}\n",
            launch.command,
            json!(launch.args)
        )
    };
    let mut text: String = servers.iter().map(entry).collect();
    text.push_str("[mcp_servers.gone]\ncommand = \"no-such-program-anywhere\"\n");
    fixture.write("project/config.toml", &text);
    fixture
}

const GIVEN: [&str; 4] = ["-c", "config.toml", "--dialect", "agent-code"];

fn run(fixture: &Fixture, words: &[&str]) -> crate::support::ProgramOutput {
    fixture.run(&[&GIVEN[..], words].concat())
}

/// S4-19: a warning is logged, the server is skipped, everything else goes on.
#[test]
fn s4_19_a_server_that_does_not_start_is_warned_about_and_skipped() {
    let fixture = fixture(&[("good", &good())]);
    let ran = run(&fixture, &["tools"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("mcp__good__ok"), "{ran:?}");
    let warning = "server \"gone\": no program \"no-such-program-anywhere\" in PATH";
    assert!(ran.stderr.contains(warning), "{ran:?}");
    let logged = fixture.run(&["logs", "gone"]).stdout;
    assert!(
        logged.contains("no program \"no-such-program-anywhere\" in PATH"),
        "{logged}"
    );
    let ran = run(&fixture, &["call", "mcp__good__ok", "--yes"]);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(0), "fine\n"),
        "{ran:?}"
    );
}

/// S4-25: a server that no file has, a tool that its server does not offer: each is an error that
/// names it, as text and as JSON, and nothing is sent; what is near is named too.
#[test]
fn s4_25_a_call_of_an_unknown_server_or_tool_is_an_error_that_names_it() {
    let fixture = fixture(&[("good", &good())]);
    for (name, named, near) in [
        ("mcp__nowhere__zzz", "mcp__nowhere__zzz", ""),
        ("nowhere/zzz", "nowhere", ""),
        ("mcp__good__zzz", "mcp__good__zzz", ""),
        ("good/zzz", "zzz", ""),
        ("mcp__good__okk", "mcp__good__okk", "mcp__good__ok"),
    ] {
        let error = run(&fixture, &["call", name, "--yes", "--json"]).error();
        assert_eq!(error["code"], 2, "{error}");
        assert!(
            error["message"].as_str().unwrap().contains(named),
            "{error}"
        );
        let ran = run(&fixture, &["call", name, "--yes"]);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
        assert!(
            ran.stderr.contains(named) && ran.stderr.contains(near),
            "{ran:?}"
        );
    }
    let ran = run(&fixture, &["call", "mcp__good__ok", "--yes"]);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(0), "fine\n"),
        "{ran:?}"
    );
}

/// S4-20: the connection is lost during a call; S4-22: no answer comes in time. Each is an error
/// that names the server, with a code of its own, and no crash.
#[test]
fn s4_20_s4_22_a_lost_connection_and_a_timeout_are_errors_and_no_crash() {
    let dying = good().tool("die", Step::Exit(7)).tool("hang", Step::Drop);
    let fixture = fixture(&[("frail", &dying)]);
    let check = |words: &[&str], code: i32, told: &str| {
        let ran = run(&fixture, &[words, &["--yes", "--json"]].concat());
        assert_eq!(ran.code, Some(code), "{words:?}: {ran:?}");
        let error = ran.error();
        assert_eq!(error["server"], "frail", "{words:?}: {ran:?}");
        assert!(
            error["message"].as_str().unwrap().contains(told),
            "{words:?}: {ran:?}"
        );
    };
    check(&["call", "mcp__frail__die"], 3, "exited with status 7");
    check(
        &["call", "mcp__frail__hang", "--timeout", "0.3"],
        3,
        "not completed within 300 ms",
    );
    let ran = run(&fixture, &["call", "mcp__frail__ok", "--yes"]);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(0), "fine\n"),
        "the server is usable again: {ran:?}"
    );
}

/// S4-21: what the tool says is wrong is its result.
#[test]
fn s4_21_a_tool_that_fails_returns_its_message_as_the_result() {
    let failed =
        r#"{"content":[{"type":"text","text":"no repository \"x\"; try \"y\""}],"isError":true}"#;
    let refuses = good().tool("fail", Step::result(failed));
    let fixture = fixture(&[("git", &refuses)]);
    let ran = run(&fixture, &["call", "mcp__git__fail", "--yes", "--json"]);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(1), format!("{failed}\n").as_str()),
        "{ran:?}"
    );
}

/// S4-27: the native one, and shown.
#[test]
fn s4_27_the_default_timeout_is_the_native_one_and_shown_in_the_verbose_status() {
    let fixture = fixture(&[("good", &good())]);
    let ran = run(&fixture, &["-v", "status"]);
    assert!(
        ran.stdout
            .contains("\n  Timeouts: connect 30s, call 1m without progress, 10m in total\n"),
        "{ran:?}"
    );
}
