//! The gemini dialect: the document's view, its words, its flags.

use serde_json::json;
use switchboard_testkit::{Chaos, Entry, Launch, Step};

use crate::fixture::{Fixture, entry, gemini, good};
use crate::support::ProgramOutput;

/// The entries of the document, as they stand in it.
const DOCUMENTS: &str = r#"{
  "mcpServers": {
    "pythonTools": {
      "command": "python",
      "args": ["-m", "my_mcp_server", "--port", "8080"],
      "cwd": "./mcp-servers/python",
      "env": {
        "DATABASE_URL": "$DB_CONNECTION_STRING",
        "API_KEY": "${EXTERNAL_API_KEY}"
      },
      "timeout": 15000
    },
    "nodeServer": {
      "command": "node",
      "args": ["dist/server.js", "--verbose"],
      "cwd": "./mcp-servers/node",
      "trust": true
    },
    "dockerizedServer": {
      "command": "docker",
      "args": [
        "run",
        "-i",
        "--rm",
        "-e",
        "API_KEY",
        "-v",
        "${PWD}:/workspace",
        "my-mcp-server:latest"
      ],
      "env": {
        "API_KEY": "$EXTERNAL_SERVICE_TOKEN"
      }
    }
  }
}
"#;

fn documents_stage() -> Fixture {
    let mut fixture = Fixture::new();
    let answers = |names: &[&str]| {
        names
            .iter()
            .fold(Chaos::new(), |chaos, name| chaos.tool(name, Step::Answer))
    };
    fixture.server(
        "python",
        &answers(&["calculate_sum", "file_analyzer", "data_processor"]),
    );
    fixture.program(
        "node",
        "echo 'connect ECONNREFUSED 127.0.0.1:5432' >&2; exit 1",
    );
    fixture.server("docker", &answers(&["docker__deploy", "docker__status"]));
    for folder in ["python", "node"] {
        std::fs::create_dir_all(fixture.home.path(&format!("project/mcp-servers/{folder}")))
            .unwrap();
    }
    for (name, value) in [
        ("DB_CONNECTION_STRING", "postgres://canary-database"),
        ("EXTERNAL_API_KEY", "canary-key"),
        ("EXTERNAL_SERVICE_TOKEN", "canary-token"),
        ("PWD", "/somewhere"),
    ] {
        fixture.set(name, value);
    }
    fixture.write("project/.gemini/settings.json", DOCUMENTS);
    fixture
}

/// S2-46: the shape of the document's example, with our own text for the error.
#[test]
fn s2_46_the_documents_servers_are_shown_in_the_documents_shape() {
    let fixture = documents_stage();
    let ran = fixture.run(&["-c", ".gemini/settings.json", "status"]);
    let expected = "MCP Servers Status:

📡 pythonTools (CONNECTED)
  Command: python -m my_mcp_server --port 8080
  Working Directory: ./mcp-servers/python
  Timeout: 15000ms
  Tools: calculate_sum, file_analyzer, data_processor

🔌 nodeServer (DISCONNECTED)
  Command: node dist/server.js --verbose
  Error: exited with status 1 before the handshake was complete (last stderr: \"connect ECONNREFUSED 127.0.0.1:5432\"); try `switchboard -c .gemini/settings.json doctor nodeServer`
  Next attempt: number 2, …

🐳 dockerizedServer (CONNECTED)
  Command: docker run -i --rm -e API_KEY -v ${PWD}:/workspace my-mcp-server:latest
  Tools: docker__deploy, docker__status

Discovery State: COMPLETED
";
    assert_eq!(
        (
            ran.code,
            without_times(&ran.stdout).as_str(),
            ran.stderr.as_str()
        ),
        (Some(0), expected, "")
    );
}

/// The view without how long it is until the next attempt.
fn without_times(view: &str) -> String {
    let line = |line: &str| match line
        .strip_prefix("  Next attempt: ")
        .and_then(|next| next.split_once(", "))
    {
        Some((number, _)) => format!("  Next attempt: {number}, …\n"),
        None => format!("{line}\n"),
    };
    view.lines().map(line).collect()
}

/// S2-45: all configured servers, their status, details, tools and the discovery state; S2-56: no
/// value of a variable.
#[test]
fn s2_45_the_view_has_every_part_and_no_secret_in_any_form() {
    let fixture = documents_stage();
    for words in [
        &["status"][..],
        &["-vvv", "status"],
        &["status", "--json"],
        &["-v", "status", "--json"],
        &["why", "pythonTools"],
    ] {
        let words: Vec<_> = ["-c", ".gemini/settings.json"]
            .iter()
            .chain(words)
            .copied()
            .collect();
        let ran = fixture.run(&words);
        assert!(
            !ran.stdout.contains("canary") && !ran.stderr.contains("canary"),
            "{words:?}: {ran:?}"
        );
    }
    let document = fixture
        .run(&["-c", ".gemini/settings.json", "status", "--json"])
        .json();
    assert_eq!(document["discovery"], "COMPLETED");
    let parts: Vec<_> = document["servers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|server| json!([server["name"], server["word"], server["dialect"]]))
        .collect();
    assert_eq!(
        parts,
        [
            json!(["pythonTools", "CONNECTED", "gemini"]),
            json!(["nodeServer", "DISCONNECTED", "gemini"]),
            json!(["dockerizedServer", "CONNECTED", "gemini"])
        ]
    );
}

/// S2-19, S2-48: while a server is being connected to it is `CONNECTING`, and discovery
/// `IN_PROGRESS`.
#[test]
fn s2_19_a_server_that_has_not_answered_yet_is_connecting_and_discovery_in_progress() {
    let fixture = Fixture::new();
    let silent = Chaos::new()
        .on("initialize", Step::Drop)
        .on("server/discover", Step::Drop)
        .tool("x", Step::Answer);
    fixture.write(
        "settings.json",
        &gemini(json!({ "late": entry(&silent.launch()), "good": entry(&good().launch()) })),
    );
    let file = fixture.home.path("settings.json").display().to_string();
    // A busy machine may need longer for the good one; the other one is never there.
    let run = |wait| fixture.run(&["-c", &file, "--dialect", "gemini", "--wait", wait, "status"]);
    let is_good = |ran: &ProgramOutput| ran.stdout.contains("good (CONNECTED)");
    let ran = ["1", "8"].into_iter().map(run).find(is_good);
    let ran = ran.unwrap_or_else(|| run("30"));
    assert!(
        ran.stdout.contains("🔄 late (CONNECTING)\n  Command: "),
        "{ran:?}"
    );
    assert!(ran.stdout.contains("📡 good (CONNECTED)\n"), "{ran:?}");
    assert!(
        ran.stdout.ends_with("\nDiscovery State: IN_PROGRESS\n"),
        "{ran:?}"
    );
}

/// S2-48, S2-36: a server that failed has been discovered and is `DISCONNECTED` with its error and
/// the next attempt, also while it is being retried.
#[test]
fn s2_36_48_a_failed_server_is_disconnected_with_its_error_while_it_is_tried_again() {
    let fixture = Fixture::new();
    let marker = |name: &str| fixture.home.path(name).display().to_string();
    let (starts, again) = (marker("starts"), marker("again"));
    // One attempt starts it twice, as each era's server, and it exits both times; in the next it
    // says nothing, and the other server waits for just that.
    let script = format!(
        "echo >> '{starts}'; [ $(wc -l < '{starts}') -le 2 ] && exit 4; : > '{again}'; exec sleep 600"
    );
    let broken = Launch::new("/bin/sh").arg("-c").arg(script);
    fixture.server("waiting", &good());
    let slow = Launch::new("/bin/sh").arg("-c").arg(format!(
        "until [ -e '{again}' ]; do sleep 0.1; done; exec '{}'",
        marker("bin/waiting")
    ));
    fixture.write(
        "settings.json",
        &gemini(json!({ "broken": entry(&broken), "slow": entry(&slow) })),
    );
    let file = fixture.home.path("settings.json").display().to_string();
    let ran = fixture.run(&["-c", &file, "--dialect", "gemini", "status"]);
    assert!(
        ran.stdout.contains("🔌 broken (DISCONNECTED)\n")
            && ran.stdout.contains("📡 slow (CONNECTED)\n"),
        "{ran:?}"
    );
    assert!(
        ran.stdout.contains(
            "\n  Error: exited with status 4 before the handshake was complete; try `switchboard "
        ),
        "{ran:?}"
    );
    assert!(
        ran.stdout
            .contains("\n  Next attempt: number 2, under way\n"),
        "{ran:?}"
    );
    assert!(
        ran.stdout.ends_with("\nDiscovery State: COMPLETED\n"),
        "{ran:?}"
    );
    let native = fixture.write(
        "switchboard.toml",
        &format!(
            "[servers.broken]\ncommand = {:?}\nargs = {}\n",
            broken.command,
            json!(broken.args)
        ),
    );
    std::fs::remove_file(&starts).unwrap();
    let document = fixture
        .run(&["-c", native.to_str().unwrap(), "status", "--json"])
        .json();
    let server = &document["servers"][0];
    assert_eq!(
        (&server["status"], &document["discovery"]),
        (&json!("DISCONNECTED"), &json!("COMPLETED")),
        "{document}"
    );
    assert!(
        server["error"]
            .as_str()
            .unwrap()
            .starts_with("exited with status 4"),
        "{document}"
    );
    assert!(
        server["nextAttempt"]
            .as_str()
            .unwrap()
            .starts_with("number 2, "),
        "{document}"
    );
}

/// S2-48: where nothing was started, discovery has not.
#[test]
fn s2_48_discovery_is_not_started_if_no_server_was() {
    let fixture = Fixture::new();
    fixture.write(
        "project/.gemini/settings.json",
        &gemini(json!({ "theirs": entry(&good().launch()) })),
    );
    let ran = fixture.run(&["status"]);
    assert!(
        ran.stdout.contains("theirs (DISCONNECTED)\n")
            && ran.stdout.ends_with("\nDiscovery State: NOT_STARTED\n"),
        "{ran:?}"
    );
    let off = "[servers.off]\ncommand = \"true\"\nenabled = false\n";
    let file = fixture.write("off.toml", off).display().to_string();
    assert_eq!(
        fixture.run(&["-c", &file, "status", "--json"]).json()["discovery"],
        json!("NOT_STARTED")
    );
}

/// S2-22: a connection that fails is logged, and the status is `DISCONNECTED`; S2-36: so each ends
/// as one or the other.
#[test]
fn s2_22_a_connection_that_fails_is_logged_and_ends_disconnected() {
    let fixture = Fixture::new();
    let broken = Launch::new("/bin/sh")
        .arg("-c")
        .arg("echo 'no disk' >&2; exit 4");
    fixture.write(
        "settings.json",
        &gemini(json!({ "broken": entry(&broken), "good": entry(&good().launch()) })),
    );
    let file = fixture.home.path("settings.json").display().to_string();
    let given = ["-c", &file, "--dialect", "gemini"];
    let document = fixture
        .run(&[&given[..], &["status", "--json"]].concat())
        .json();
    let words: Vec<_> = document["servers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|server| server["word"].as_str().unwrap())
        .collect();
    assert_eq!(
        (words.as_slice(), &document["discovery"]),
        (&["DISCONNECTED", "CONNECTED"][..], &json!("COMPLETED"))
    );
    let logged = fixture.run(&["logs", "broken"]).stdout;
    assert!(
        logged.contains(" stderr no disk\n")
            && logged.contains("exited with status 4 before the handshake was complete"),
        "{logged}"
    );
}

/// S2-52: the document's flag shows more of each server. (`output/debug_log.rs` tests the
/// log of each step.)
#[test]
fn s2_52_debug_mode_shows_pids_and_what_is_done() {
    let fixture = Fixture::new();
    fixture.write(
        "settings.json",
        &gemini(json!({ "good": entry(&good().launch()) })),
    );
    let file = fixture.home.path("settings.json").display().to_string();
    let plain = fixture.run(&["-c", &file, "--dialect", "gemini", "status"]);
    assert!(
        !plain.stdout.contains("pid ") && plain.stderr.is_empty(),
        "{plain:?}"
    );
    for flag in ["--debug", "--debug_mode"] {
        let ran = fixture.run(&["-c", &file, "--dialect", "gemini", flag, "status"]);
        assert!(ran.stdout.contains("\n  Process: pid "), "{flag}: {ran:?}");
        assert!(!ran.stderr.is_empty(), "{flag}: {ran:?}");
    }
}

/// S2-57: each server is a process of its own; S2-70: pid, uptime, memory and restarts are shown.
#[test]
fn s2_57_each_server_has_a_pid_of_its_own_in_the_verbose_status() {
    let fixture = Fixture::new();
    fixture.write(
        "settings.json",
        &gemini(json!({ "one": entry(&good().launch()), "two": entry(&good().launch()) })),
    );
    let file = fixture.home.path("settings.json").display().to_string();
    let given = ["-c", &file, "--dialect", "gemini", "-v", "status"];
    let document = fixture.run(&[&given[..], &["--json"]].concat()).json();
    let servers = document["servers"].as_array().unwrap();
    let pids: Vec<_> = servers
        .iter()
        .map(|server| server["pid"].as_u64().unwrap())
        .collect();
    assert!(pids.len() == 2 && pids[0] != pids[1], "{document}");
    for server in servers {
        assert!(
            server["memoryBytes"].as_u64().unwrap() > 100_000 && server["uptimeSeconds"].is_u64(),
            "{server}"
        );
        assert_eq!(server["restarts"], 0);
    }
    let text = fixture.run(&given).stdout;
    let process = text
        .lines()
        .find(|line| line.starts_with("  Process: "))
        .unwrap();
    let told: Vec<_> = ["pid ", ", up ", ", memory "]
        .iter()
        .filter(|part| process.contains(**part))
        .collect();
    assert!(
        told.len() == 3 && text.contains("\n  Restarts: 0\n"),
        "{text}"
    );
    // S2-14: the document's own deadline, whatever progress there is.
    assert!(
        text.contains(", call 10m in total, regardless of progress\n"),
        "{text}"
    );
}

/// S2-55: a server behind a wrapper works with the paths and the network that the wrapper's
/// arguments give it; without one of them the status names what was printed. `bwrap` is not
/// everywhere, so the wrappers here are scripts of these names that do as the real ones:
/// they run what their arguments say, with what their arguments say.
#[test]
fn s2_55_a_server_under_a_sandbox_wrapper_works_and_its_failure_names_the_wrappers_words() {
    let fixture = Fixture::new();
    fixture.program(
        "bwrap",
        "files=none; network=none
while [ \"$1\" != -- ]; do
  [ \"$1 $2 $3\" = '--ro-bind / /' ] && files=all
  [ \"$1\" = --share-net ] && network=shared
  shift
done
shift
[ $files = all ] || { echo \"bwrap: execvp $1: No such file or directory\" >&2; exit 1; }
cd /; exec env -i PATH=/usr/bin:/bin GIVEN=\"$GIVEN\" NETWORK=$network \"$@\"",
    );
    fixture.program("online", "[ $NETWORK = shared ] || { echo 'connect: Network is unreachable' >&2; exit 2; }; exec \"$@\"");
    fixture.program(
        "docker",
        "echo 'docker: Cannot connect to the Docker daemon. Is it running?' >&2; exit 125",
    );
    let inner = Chaos::new().tool("look", Step::Inspect).launch();
    let online = fixture.home.path("bin/online").display().to_string();
    let boxed = |options: &[&str]| {
        let program = inner.command.display().to_string();
        let args = options
            .iter()
            .copied()
            .chain(["--", &online, &program])
            .chain(inner.args.iter().map(String::as_str));
        json!({ "command": "bwrap", "args": args.collect::<Vec<_>>(), "env": { "GIVEN": "through" }, "trust": true })
    };
    let servers = json!({
        "boxed": boxed(&["--ro-bind", "/", "/", "--share-net"]),
        "pathless": boxed(&["--share-net"]),
        "offline": boxed(&["--ro-bind", "/", "/"]),
        "broken": { "command": "docker", "args": ["run", "-i", "--rm", "my-mcp-server:latest"] },
    });
    fixture.write("settings.json", &gemini(servers));
    let file = fixture.home.path("settings.json").display().to_string();
    let given = ["-c", &file, "--dialect", "gemini"];
    let ran = fixture.run(&[&given[..], &["call", "boxed/look", "--yes", "--json"]].concat());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(
        ran.stdout.contains("GIVEN") && ran.stdout.contains("through"),
        "{ran:?}"
    );
    let document = fixture
        .run(&[&given[..], &["status", "--json"]].concat())
        .json();
    let check = |name: &str, word: &str, error: Option<&str>| {
        let server = document["servers"]
            .as_array()
            .unwrap()
            .iter()
            .find(|server| server["name"] == name)
            .unwrap();
        assert_eq!(server["word"], word, "{server}");
        assert_eq!(
            server["error"]
                .as_str()
                .map(|told| told.split("; try ").next().unwrap()),
            error,
            "{server}"
        );
    };
    check("boxed", "CONNECTED", None);
    let lost = format!(
        "exited with status 1 before the handshake was complete (last stderr: \"bwrap: execvp {online}: No such file or directory\")"
    );
    check("pathless", "DISCONNECTED", Some(&lost));
    let lost = "exited with status 2 before the handshake was complete (last stderr: \"connect: Network is unreachable\")";
    check("offline", "DISCONNECTED", Some(lost));
    let lost = "exited with status 125 before the handshake was complete (last stderr: \"docker: Cannot connect to the Docker daemon. Is it running?\")";
    check("broken", "DISCONNECTED", Some(lost));
}

/// S2-55 with a real sandbox: `unshare` gives the server a network of its own and its own users.
/// Where the system forbids that to everybody, there is no sandbox to test.
#[test]
fn s2_55_a_server_in_a_real_sandbox_works_and_its_failure_names_the_sandboxs_words() {
    let sandbox = ["--map-root-user", "--net"];
    let is_allowed = std::process::Command::new("unshare")
        .args(sandbox)
        .arg("true")
        .output();
    if !is_allowed.is_ok_and(|output| output.status.success()) {
        return switchboard_testkit::skipped("`unshare --map-root-user --net` is not allowed here");
    }
    let fixture = Fixture::new();
    let inner = Chaos::new().tool("look", Step::Inspect).launch();
    let program = inner.command.display().to_string();
    let boxed = |options: &[&'static str]| {
        let args = sandbox
            .iter()
            .chain(options)
            .copied()
            .chain(["--", &program])
            .chain(inner.args.iter().map(String::as_str));
        json!({ "command": "unshare", "args": args.collect::<Vec<_>>(), "env": { "GIVEN": "through" }, "trust": true })
    };
    let servers = json!({ "boxed": boxed(&[]), "pathless": boxed(&["--root=/no/such/root"]) });
    fixture.write("settings.json", &gemini(servers));
    let file = fixture.home.path("settings.json").display().to_string();
    let given = ["-c", &file, "--dialect", "gemini"];
    let ran = fixture.run(&[&given[..], &["call", "boxed/look", "--yes", "--json"]].concat());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(
        ran.stdout.contains("GIVEN") && ran.stdout.contains("through"),
        "{ran:?}"
    );
    let document = fixture
        .run(&[&given[..], &["status", "--json"]].concat())
        .json();
    let pathless = document["servers"]
        .as_array()
        .unwrap()
        .iter()
        .find(|server| server["name"] == "pathless")
        .unwrap();
    let error = pathless["error"].as_str().unwrap();
    assert!(
        error.contains("before the handshake was complete (last stderr: \"unshare: ")
            && error.contains("/no/such/root"),
        "{error}"
    );
}

/// S2-13, S2-60: in a project's file `command` and `cwd` start at the project, in the user's own at the
/// folder that the program was started in.
#[test]
fn s2_60_a_relative_program_and_folder_start_at_the_project_or_at_the_working_folder() {
    let fixture = Fixture::new();
    fixture.server("inner", &good());
    let inner = fixture.home.path("bin/inner").display().to_string();
    let deep = fixture.home.path("project/deep");
    for folder in ["project", "project/deep"] {
        let left = fixture.home.path(folder).join("left").display().to_string();
        let program = fixture.write(
            &format!("{folder}/server"),
            &format!("#!/bin/sh\npwd > '{left}'\nexec '{inner}'\n"),
        );
        std::fs::set_permissions(program, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
        std::fs::create_dir_all(fixture.home.path(folder).join("sub")).unwrap();
    }
    let entry = json!({ "command": "./server", "cwd": "sub" });
    fixture.write(
        "project/.gemini/settings.json",
        &gemini(json!({ "ours": entry })),
    );
    fixture.write(".gemini/settings.json", &gemini(json!({ "mine": entry })));
    // The user's own servers run there once it is accepted.
    fixture.home.accept_folder("project/deep");
    let run = |words: &[&str]| {
        ProgramOutput::of(
            &fixture
                .home
                .command(words)
                .current_dir(&deep)
                .output()
                .unwrap(),
        )
    };
    let ours = run(&["-c", "../.gemini/settings.json", "status"]);
    assert!(ours.stdout.contains("📡 ours (CONNECTED)\n"), "{ours:?}");
    let mine = run(&["status"]);
    assert!(mine.stdout.contains("📡 mine (CONNECTED)\n"), "{mine:?}");
    for folder in ["project", "project/deep"] {
        let sub = fixture
            .home
            .path(folder)
            .canonicalize()
            .unwrap()
            .join("sub");
        assert_eq!(
            fixture.read(&format!("{folder}/left")),
            format!("{}\n", sub.display())
        );
    }
}

/// S2-64, C8: a variable that is not set is the empty text, and a warning names it, in a file of
/// gemini and in a native one.
#[test]
fn s2_64_c8_an_unset_variable_is_warned_about_by_name_server_and_field() {
    let mut fixture = Fixture::new();
    fixture.set("GIVEN", "here");
    let launch = Chaos::new().tool("look", Step::Inspect).launch();
    let mut server = entry(&launch);
    server["env"] = json!({ "A": "<$GONE>", "B": "${GIVEN}", "C": "$GONE" });
    let gemini = fixture.write("settings.json", &gemini(json!({ "x": server })));
    let env = "env = { A = '<${GONE}>', B = '${GIVEN}', C = '${GONE}' }\n";
    let native = Entry::new("x", &launch).render() + env;
    let native = fixture.write("own.toml", &native);
    for (file, dialect) in [(gemini, "gemini"), (native, "native")] {
        let file = file.display().to_string();
        let given = ["-c", &file, "--dialect", dialect];
        let call = ["call", "x/look", "--yes", "--json"];
        let ran = fixture.run(&[&given[..], &call].concat());
        assert_eq!(
            (ran.code, ran.stderr.as_str()),
            (
                Some(0),
                "server \"x\": GONE is not set, and is left out of env.A\nserver \"x\": GONE is not set; env.C is empty\n"
            ),
            "{ran:?}"
        );
        let received = &ran.json()["structuredContent"]["environment"];
        assert_eq!(
            json!(["A", "B", "C"].map(|name| &received[name])),
            json!(["<>", "here", ""])
        );
    }
}

/// S2-62: an entry without any of the three is that server's fault alone.
#[test]
fn s2_62_an_entry_without_an_address_is_disconnected_and_its_neighbour_lives() {
    let fixture = Fixture::new();
    fixture.write(
        "settings.json",
        &gemini(json!({ "empty": { "timeout": 5 }, "good": entry(&good().launch()) })),
    );
    let file = fixture.home.path("settings.json").display().to_string();
    let ran = fixture.run(&["-c", &file, "--dialect", "gemini", "status"]);
    assert!(ran.stdout.contains("🔌 empty (DISCONNECTED)\n"), "{ran:?}");
    assert!(
        ran.stdout
            .contains("none of `httpUrl`, `url` and `command` is set"),
        "{ran:?}"
    );
    assert!(ran.stdout.contains("📡 good (CONNECTED)\n"), "{ran:?}");
}

/// S2-66: what is wrong with a list names the server, what is wrong with a schema the tool; S2-24:
/// both in the status, with the reason, and also where no other tool is left.
#[test]
fn s2_66_a_malformed_list_names_the_server_and_an_invalid_schema_the_tool() {
    let fixture = Fixture::new();
    let odd_list = good().on("tools/list", Step::result(r#"{"tools":"none"}"#));
    let odd = |chaos: Chaos| {
        chaos
            .tool("odd", Step::Answer)
            .define("odd", "inputSchema", "7")
    };
    fixture.write(
        "settings.json",
        &gemini(json!({
            "list": entry(&odd_list.launch()),
            "tool": entry(&odd(good()).launch()),
            "only": entry(&odd(Chaos::new()).launch()),
        })),
    );
    let file = fixture.home.path("settings.json").display().to_string();
    let ran = fixture.run(&["-c", &file, "--dialect", "gemini", "status"]);
    let block = |name: &str| {
        ran.stdout
            .split("\n\n")
            .find(|block| block.contains(&format!("{name} (")))
            .unwrap()
            .to_owned()
    };
    assert!(
        block("list").starts_with("🔌 list (DISCONNECTED)\n")
            && block("list").contains("tools/list failed"),
        "{ran:?}"
    );
    assert!(
        block("tool").starts_with("📡 tool (CONNECTED)\n"),
        "{ran:?}"
    );
    assert!(
        block("tool")
            .ends_with("\n  Tools: ok\n  Withheld: odd (its inputSchema is not an object)"),
        "{ran:?}"
    );
    assert!(
        block("only").starts_with("🔌 only (DISCONNECTED)\n"),
        "{ran:?}"
    );
    let told = "\n  Error: closed: no tools discovered that can be used (odd: its inputSchema is not an object)";
    assert!(block("only").contains(told), "{ran:?}");
    let document = fixture
        .run(&["-c", &file, "--dialect", "gemini", "status", "--json"])
        .json();
    let withheld: Vec<_> = document["servers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|server| &server["withheld"])
        .collect();
    let told = json!([{ "tool": "odd", "reason": "its inputSchema is not an object" }]);
    assert_eq!(
        withheld,
        [&json!([]), &json!([]), &told],
        "list, only, tool: {document}"
    );
}

/// S2-67: text as text, JSON in a block, other kinds by type and size; S2-44: with `--json`, every
/// part as it came.
#[test]
fn s2_67_results_are_shown_readably() {
    let fixture = Fixture::new();
    let chaos = Chaos::new()
        .tool("text", Step::text("two\nlines"))
        .tool(
            "data",
            Step::result(r#"{"content":[{"type":"text","text":"{\"a\":1,\"b\":[2]}"}]}"#),
        )
        .tool(
            "image",
            Step::result(
                r#"{"content":[{"type":"image","data":"aGVsbG8=","mimeType":"image/png"}]}"#,
            ),
        );
    fixture.write(
        "settings.json",
        &gemini(json!({ "s": entry(&chaos.launch()) })),
    );
    let file = fixture.home.path("settings.json").display().to_string();
    let shown = |tool: &str| {
        let ran = fixture.run(&["-c", &file, "--dialect", "gemini", "call", tool, "--yes"]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        ran.stdout
    };
    assert_eq!(shown("s/text"), "two\nlines\n");
    // A program gets the text alone; a person at a terminal gets it laid out, in a block.
    assert_eq!(shown("s/data"), "{\"a\":1,\"b\":[2]}\n");
    let seen = fixture
        .home
        .run_in_terminal(&[
            "-c",
            &file,
            "--dialect",
            "gemini",
            "call",
            "s/data",
            "--yes",
        ])
        .end()
        .screen;
    assert!(
        seen.contains("```json\n{\n  \"a\": 1,\n  \"b\": [\n    2\n  ]\n}\n```"),
        "{seen}"
    );
    let image = shown("s/image");
    assert!(
        image.contains("image/png") && image.contains("5 bytes") && !image.contains("aGVsbG8"),
        "{image}"
    );
    // S2-44: for a model that takes them, the parts are there as the server sent them.
    let document = fixture
        .run(&[
            "-c",
            &file,
            "--dialect",
            "gemini",
            "call",
            "s/image",
            "--yes",
            "--json",
        ])
        .json();
    assert_eq!(
        document["content"],
        json!([{ "type": "image", "data": "aGVsbG8=", "mimeType": "image/png" }]),
        "{document}"
    );
}

/// S2-68: names only in the plain view, and what each tool does in the other.
#[test]
fn s2_68_the_view_with_descriptions_says_what_each_tool_does() {
    let fixture = Fixture::new();
    fixture.server(
        "teller",
        &good().define("ok", "description", r#""Says that all is well""#),
    );
    fixture.write(
        "settings.json",
        &gemini(json!({ "s": { "command": "teller" } })),
    );
    let file = fixture.home.path("settings.json").display().to_string();
    let plain = fixture
        .run(&["-c", &file, "--dialect", "gemini", "status"])
        .stdout;
    assert!(
        plain.contains("\n  Tools: ok\n") && !plain.contains("all is well"),
        "{plain}"
    );
    let told = fixture
        .run(&[
            "-c",
            &file,
            "--dialect",
            "gemini",
            "status",
            "--descriptions",
        ])
        .stdout;
    assert!(
        told.contains("\n  Tools:\n  - ok\n      Says that all is well\n"),
        "{told}"
    );
}

/// S2-53: connected, and nothing to use: told apart from a connection that failed.
#[test]
fn s2_53_a_server_without_usable_tools_is_disconnected_for_that_reason() {
    let fixture = Fixture::new();
    let broken = Launch::new("/bin/false");
    fixture.write(
        "settings.json",
        &gemini(json!({ "idle": entry(&Chaos::new().launch()), "broken": entry(&broken) })),
    );
    let file = fixture.home.path("settings.json").display().to_string();
    let ran = fixture.run(&["-c", &file, "--dialect", "gemini", "status"]);
    let block = |name: &str| {
        ran.stdout
            .split("\n\n")
            .find(|block| block.contains(&format!("{name} (")))
            .unwrap()
            .to_owned()
    };
    assert!(
        block("idle").starts_with("🔌 idle (DISCONNECTED)\n"),
        "{ran:?}"
    );
    assert!(
        block("idle").contains("\n  Error: closed: no tools discovered")
            && !block("broken").contains("closed: no tools discovered"),
        "{ran:?}"
    );
}
