//! `why`: file, line and scope of each value, what it overrides, and which variables it reads.

use serde_json::json;

use crate::fixture::Fixture;

fn fixture() -> Fixture {
    let mut fixture = Fixture::new();
    fixture.home.user_file("# mine\n[servers.git]\ncommand = \"git-mcp\"\ncwd = \"/old\"\n\n[servers.only]\nurl = \"https://u:p@x.example/mcp?k=v\"\n");
    fixture.write(
        "project/.gemini/settings.json",
        "{\n  \"mcpServers\": {\n    \"git\": {\n      \"command\": \"npx\",\n      \"args\": [\"-y\", \"$PACKAGE\"],\n      \"timeout\": 5000,\n      \
         \"env\": { \"TOKEN\": \"$SECRET\", \"MODE\": \"x\" }\n    }\n  }\n}\n",
    );
    fixture.set("SECRET", "canary");
    fixture
}

#[test]
fn why_shows_file_line_and_scope_of_each_value_and_what_it_overrides() {
    let fixture = fixture();
    let ran = fixture.run(&["why", "git"]);
    let file = |name: &str| {
        fixture
            .home
            .path(name)
            .canonicalize()
            .unwrap()
            .display()
            .to_string()
    };
    let (project, user) = (
        file("project/.gemini/settings.json"),
        file("config/switchboard/switchboard.toml"),
    );
    let expected = format!(
        "git is the entry in {project}:3 (the project's file, gemini)
  command = \"npx\"    line 4
  args = [\"-y\", \"$PACKAGE\"]    line 5
      PACKAGE is not set: it is empty
  timeout (call_timeout) = 5s    line 6
  timeout (connect_timeout) = 5s    line 6
  env.TOKEN = ${{SECRET}}    line 7
      SECRET is set
  env.MODE = ***    line 7
  defaults: start = eager, call_timeout_max = 5s, enabled = true, trust = false, inherit_env = true

It overrides the entry in {user}:2 (your own file, native)
  command = \"git-mcp\"    line 3
  cwd = \"/old\"    line 4
"
    );
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(0), expected.as_str()),
        "{ran:?}"
    );
}

#[test]
fn why_of_one_field_accepts_both_names_and_shows_defaults() {
    let fixture = fixture();
    let first = |words: &[&str]| {
        fixture
            .run(words)
            .stdout
            .lines()
            .nth(1)
            .unwrap_or_default()
            .to_owned()
    };
    for name in ["timeout", "call_timeout"] {
        assert_eq!(
            first(&["why", "git", name]),
            "  timeout (call_timeout) = 5s    line 6"
        );
    }
    assert_eq!(
        first(&["why", "only", "url"]),
        "  url = \"https://x.example/mcp\"    line 7"
    );
    let ran = fixture.run(&["why", "only", "start"]);
    let told = "error: server \"only\": its entry does not set `start`; the default applies, of a native file: eager\n";
    assert_eq!(
        (
            ran.code,
            ran.stderr
                .lines()
                .last()
                .map(|line| format!("{line}\n"))
                .as_deref()
        ),
        (Some(2), Some(told)),
        "{ran:?}"
    );
    let ran = fixture.run(&["why", "nobody"]);
    assert!(
        ran.code == Some(2) && ran.stderr.contains("configured servers: git, only"),
        "{ran:?}"
    );
}

#[test]
fn why_json_has_the_same_values() {
    let fixture = fixture();
    let document = fixture.run(&["why", "git", "--json"]).json();
    assert_eq!(
        (
            &document["server"],
            &document["scope"],
            &document["dialect"],
            &document["line"]
        ),
        (
            &json!("git"),
            &json!("project"),
            &json!("gemini"),
            &json!(3)
        )
    );
    let timeout = document["values"]
        .as_array()
        .unwrap()
        .iter()
        .find(|value| value["written"] == "timeout")
        .unwrap();
    assert_eq!(
        *timeout,
        json!({ "field": "call_timeout", "written": "timeout", "value": "5s", "line": 6, "column": 7, "reads": [] })
    );
    let token = document["values"]
        .as_array()
        .unwrap()
        .iter()
        .find(|value| value["field"] == "env.TOKEN")
        .unwrap();
    assert_eq!(
        token["reads"],
        json!([{ "variable": "SECRET", "state": "set" }])
    );
    let shadow = &document["shadows"][0];
    assert_eq!(
        (&shadow["scope"], &shadow["values"][0]["value"]),
        (&json!("user"), &json!("\"git-mcp\"")),
        "{document}"
    );
}
