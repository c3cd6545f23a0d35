//! `attach`: a client on standard streams, through the socket, to a gateway that is started if none
//! runs; and `reload`.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::unistd::Pid;
use serde_json::{Value, json};
use switchboard_gateway::edge::socket::attach_line;
use switchboard_testkit::is_alive;

use super::client::{Gateway, PATIENCE, initialize, modern, request};
use super::operator::until;
use super::support::{Home, PROGRAM};

/// A client that `attach` serves.
struct Attached {
    child: Child,
    lines: Receiver<String>,
}

impl Attached {
    fn start(home: &Home, client: &str) -> Self {
        Self::start_with(home, client, "300")
    }

    /// A gateway that it starts ends so many seconds after its last client.
    fn start_with(home: &Home, client: &str, idle: &str) -> Self {
        let mut command = home.command(&["attach", "--as", client, "--idle-timeout", idle]);
        let command = command.stdin(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let mut lines = stdout.lines().map_while(Result::ok);
            lines.all(|line| sender.send(line).is_ok())
        });
        Self { child, lines }
    }

    fn send(&mut self, message: &str) {
        let stdin = self.child.stdin.as_mut().unwrap();
        stdin.write_all(format!("{message}\n").as_bytes()).unwrap();
    }

    fn next(&mut self) -> Value {
        let line = self.lines.recv_timeout(PATIENCE).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// The response to this request; what comes before it is dropped.
    fn response(&mut self, id: u64) -> Value {
        std::iter::repeat_with(|| self.next())
            .find(|message| message["id"] == id && message.get("method").is_none())
            .unwrap()
    }

    /// Closes its end; returns the exit code.
    fn end(mut self) -> Option<i32> {
        drop(self.child.stdin.take());
        self.child.wait().unwrap().code()
    }
}

/// The socket of the gateway in this home.
fn socket(home: &Home) -> std::path::PathBuf {
    let folder = home.path("state/switchboard/run");
    let files = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path());
    let mut sockets = files.filter(|path| path.extension().is_some_and(|end| end == "sock"));
    sockets.next().unwrap()
}

/// The process that listens on it.
fn gateway_pid(home: &Home) -> Pid {
    let stream = UnixStream::connect(socket(home)).unwrap();
    Pid::from_raw(getsockopt(&stream.as_fd(), PeerCredentials).unwrap().pid())
}

#[test]
fn attach_starts_one_gateway_for_clients_that_come_at_once() {
    let home = Home::with_demo("[permissions]\nallow = [\"*\"]\n");
    let mut clients: Vec<_> = (0..4).map(|_| Attached::start(&home, "codex")).collect();
    for client in &mut clients {
        client.send(&initialize("2025-11-25"));
        assert_eq!(client.next()["result"]["serverInfo"]["name"], "switchboard");
    }
    let mode = std::fs::metadata(socket(&home))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    // It outlives its clients: the next one meets the same process.
    let pid = gateway_pid(&home);
    for client in clients {
        assert_eq!(client.end(), Some(0));
    }
    let mut next = Attached::start(&home, "gemini");
    next.send(&request(1, "ping", json!({})));
    assert_eq!(
        next.next(),
        json!({"jsonrpc": "2.0", "id": 1, "result": {}})
    );
    assert_eq!(gateway_pid(&home), pid);
    // When the gateway ends, so does attach, and the socket is gone.
    kill(pid, Signal::SIGTERM).unwrap();
    assert_eq!(
        next.lines.recv_timeout(PATIENCE),
        Err(RecvTimeoutError::Disconnected)
    );
    assert_eq!(next.end(), Some(3));
    let folder = home.path("state/switchboard/run");
    // The gateway removes it after its last client has left.
    until(|| {
        let files = std::fs::read_dir(&folder).unwrap();
        let mut names = files.map(|file| file.unwrap().file_name());
        let is_socket = |name: std::ffi::OsString| name.to_string_lossy().ends_with(".sock");
        (!names.any(is_socket)).then_some(())
    });
}

/// A client whose gateway was killed reads why in what `attach` says, and the next one is served.
#[test]
fn attach_reports_that_its_gateway_has_ended() {
    let home = Home::with_demo("[permissions]\nallow = [\"*\"]\n");
    let mut command = home.command(&["attach", "--as", "codex"]);
    let piped = command.stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut stdin = child.stdin.take().unwrap();
    writeln!(stdin, "{}", request(1, "ping", json!({}))).unwrap();
    assert!(lines.next().unwrap().unwrap().contains("\"id\":1"));
    kill(gateway_pid(&home), Signal::SIGKILL).unwrap();
    let ended = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains("the gateway has ended"), "{stderr}");
    drop(stdin);
    let mut client = Attached::start(&home, "codex");
    client.send(&request(1, "ping", json!({})));
    assert_eq!(client.next()["id"], 1);
    assert_eq!(client.end(), Some(0));
}

/// A gateway without clients ends and leaves nothing; a client that connects at that moment is
/// served by it or by the next one.
#[test]
fn a_gateway_without_clients_ends_and_no_client_is_lost_to_its_end() {
    let home = Home::with_demo("[permissions]\nallow = [\"*\"]\n");
    let ping = request(1, "ping", json!({}));
    let deadline = Instant::now() + PATIENCE;
    let mut pids: Vec<Pid> = Vec::new();
    // Stays around the moment at which the gateway ends, however slow the machine is.
    let mut pause = Duration::from_millis(350);
    let step = Duration::from_millis(10);
    let (mut served_by_same, mut served_by_next) = (0, 0);
    while served_by_same + served_by_next < 20 || served_by_same.min(served_by_next) == 0 {
        assert!(
            Instant::now() < deadline,
            "by the same: {served_by_same}, by the next: {served_by_next}"
        );
        let mut client = Attached::start_with(&home, "codex", "0.4");
        client.send(&ping);
        assert_eq!(client.next()["id"], 1);
        let pid = gateway_pid(&home);
        assert_eq!(client.end(), Some(0));
        if pids.last() == Some(&pid) {
            served_by_same += 1;
            pause += step;
        } else {
            served_by_next += 1;
            pause = pause.saturating_sub(step);
            pids.push(pid);
        }
        std::thread::sleep(pause);
    }
    let deadline = Instant::now() + PATIENCE;
    while pids.iter().any(|pid| is_alive(pid.as_raw())) {
        assert!(Instant::now() < deadline, "a gateway without clients runs");
        std::thread::sleep(Duration::from_millis(20));
    }
    let folder = std::fs::read_dir(home.path("state/switchboard/run")).unwrap();
    let files = folder.map(|file| file.unwrap().path());
    let left: Vec<_> = files
        .filter(|path| path.extension().is_some_and(|end| end == "sock"))
        .collect();
    assert_eq!(left, Vec::<std::path::PathBuf>::new());
}

#[test]
fn attach_and_http_reach_the_same_gateway_and_a_broken_file_changes_nothing() {
    let gateway = Gateway::start();
    let home = &gateway.home;
    assert_eq!(gateway_pid(home).as_raw(), gateway.pid());
    let mut client = Attached::start(home, "codex");
    client.send(&initialize("2025-11-25"));
    client.next();
    let unchanged = home.run(&["reload"]);
    assert_eq!(
        (unchanged.code, unchanged.stdout.as_str()),
        (Some(0), "nothing has changed\n")
    );
    let broken = home.path("config/switchboard/switchboard.toml");
    let before = std::fs::read_to_string(&broken).unwrap();
    std::fs::write(&broken, "[servers").unwrap();
    let refused = home.run(&["reload"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    std::fs::write(&broken, before).unwrap();
    client.send(&request(2, "ping", json!({})));
    assert_eq!(client.next()["id"], 2);
    assert_eq!(client.end(), Some(0));
}

/// The mode of the socket keeps others out, and so does the gateway if it does not.
#[test]
#[cfg(target_os = "linux")]
fn t21_another_user_cannot_attach_and_the_attempt_is_audited() {
    use nix::libc;
    const NOBODY: libc::uid_t = 65534;
    if !nix::unistd::geteuid().is_root() {
        return switchboard_testkit::skipped("only root can become another user");
    }
    let gateway = Gateway::start();
    let socket = socket(&gateway.home);
    let mode = std::fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let connect = |socket: std::path::PathBuf| {
        let attempt = std::thread::spawn(move || {
            // SAFETY: the system call takes numbers, and changes this thread alone, which ends here.
            let changed = unsafe { libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) };
            assert_eq!(changed, 0);
            let mut stream = UnixStream::connect(socket)?;
            // The gateway may have closed its end.
            let _ = stream.write_all(attach_line("codex").as_bytes());
            let mut answer = String::new();
            let _ = stream.read_to_string(&mut answer);
            std::io::Result::Ok(answer)
        });
        attempt.join().unwrap()
    };
    let kept_out = connect(socket.clone()).unwrap_err();
    assert_eq!(kept_out.kind(), std::io::ErrorKind::PermissionDenied);

    let open = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    open(&socket, 0o666);
    let home = gateway.home.folder.path();
    let folders = socket.ancestors().skip(1);
    let folders = folders.take_while(|folder| folder.starts_with(home));
    folders.for_each(|folder| open(folder, 0o711));
    assert_eq!(connect(socket).unwrap(), "");
    gateway.assert_audited("other_user");
}

#[test]
fn a_server_that_a_reload_adds_or_removes_is_announced_to_clients() {
    let gateway = Gateway::start();
    let home = &gateway.home;
    let mut client = Attached::start(home, "codex");
    client.send(&initialize("2025-11-25"));
    client.response(0);
    client.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    let mut last_id = 0;
    let mut has_twin = |client: &mut Attached| {
        last_id += 1;
        client.send(&request(last_id, "tools/list", json!({})));
        let listed = client.response(last_id);
        let tools = listed["result"]["tools"].as_array().unwrap().clone();
        let is_of_twin = |tool: &Value| tool["name"].as_str().unwrap().starts_with("mcp__twin__");
        tools.iter().any(is_of_twin)
    };
    assert!(!has_twin(&mut client));
    let twin = format!("[servers.twin]\ncommand = {PROGRAM:?}\nargs = [\"__demo-server\"]\n");
    for (text, expected) in [
        (format!("{}{twin}", gateway.config), true),
        (gateway.config.clone(), false),
    ] {
        home.user_file(&text);
        let reloaded = home.run(&["reload"]);
        assert_eq!(reloaded.code, Some(0), "{reloaded:?}");
        loop {
            while client.next()["method"] != "notifications/tools/list_changed" {}
            if has_twin(&mut client) == expected {
                break;
            }
        }
    }
    assert_eq!(client.end(), Some(0));
}

#[test]
fn a_port_in_use_and_a_gateway_elsewhere_have_a_next_step() {
    let home = Home::with_demo("");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ran = home.run(&["serve", "--http", &address]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(
        ran.stderr.contains("has this port; choose another"),
        "{ran:?}"
    );
    let ran = home.run(&["approvals"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(ran.stderr.contains("use the folder and the -c"), "{ran:?}");
}

#[test]
fn a_failure_to_start_is_reported() {
    let home = Home::new();
    home.user_file("[servers");
    let failed = home.run(&["attach"]);
    assert_eq!(
        (failed.code, failed.stdout.as_str()),
        (Some(3), ""),
        "{failed:?}"
    );
    assert!(
        failed.stderr.contains("the gateway did not start"),
        "{failed:?}"
    );
    let none = home.run(&["reload"]);
    assert_eq!(none.code, Some(3), "{none:?}");
}

/// Nobody sees what a gateway prints that `attach` has started, so its clients are told what waits.
#[test]
fn a_server_that_waits_for_approval_is_named_to_the_clients_of_attach() {
    let entry = |name: &str| format!("[servers.{name}]\ncommand = \"/nowhere\"\n");
    let home = Home::with_demo("[permissions]\nallow = [\"*\"]\n");
    home.project_file(&entry("first"));
    let mut client = Attached::start_with(&home, "codex", "0.2");
    client.send(&initialize("2025-11-25"));
    let waits = "server \"first\" waits for a person's approval: this project's entry has not been accepted; review it with `switchboard approvals`";
    let legacy = client.response(0)["result"]["instructions"].clone();
    assert!(legacy.as_str().unwrap().contains(waits), "{legacy}");
    client.send(&request(1, "server/discover", modern(json!({}))));
    let discovered = client.response(1)["result"]["instructions"].clone();
    assert!(discovered.as_str().unwrap().contains(waits), "{discovered}");

    client.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    client.send(&request(2, "logging/setLevel", json!({"level": "info"})));
    assert_eq!(client.response(2)["result"], json!({}));
    home.project_file(&format!("{}{}", entry("first"), entry("second")));
    let logged = loop {
        let message = client.next();
        if message["method"] == "notifications/message" {
            break message["params"].clone();
        }
    };
    assert_eq!(
        (&logged["level"], &logged["logger"]),
        (&json!("warning"), &json!("switchboard"))
    );
    let text = logged["data"].as_str().unwrap();
    assert!(
        text.starts_with("server \"second\" waits for a person's approval: it is new ("),
        "{text}"
    );
    assert!(text.ends_with("; review it with `switchboard approvals`"));
    // What the client was told to run works.
    let listed = home.run(&["approvals"]);
    assert_eq!(listed.code, Some(0), "{listed:?}");
    for server in ["first", "second"] {
        assert!(listed.stdout.contains(&format!("server \"{server}\"")));
    }
    assert_eq!(client.end(), Some(0));
}

/// A client's entry for the gateway may be read as a server of the gateway, under any name.
#[test]
fn an_entry_that_leads_to_the_gateway_itself_is_left_out() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let entries = format!(
        "[servers.again]\nurl = \"http://localhost:{}/mcp\"\n[servers.attached]\ncommand = \"switchboard\"\nargs = [\"attach\"]\n",
        address.port()
    );
    let gateway = Gateway::start_with(&entries, &["--http", &address.to_string()]);
    assert_eq!(gateway.address, address);
    let notice = "server \"again\" is left out: its URL leads to this gateway itself";
    assert!(gateway.printed.contains(notice), "{}", gateway.printed);
    let shown = gateway.home.run(&["--json", "why", "attached"]);
    assert_ne!(shown.code, Some(0), "{shown:?}");
}

/// `install gemini` writes a file that the gateway reads, too: it stays the gateway of this user.
#[test]
fn a_file_of_the_user_that_appears_later_leads_to_the_same_gateway() {
    let gateway = Gateway::start();
    let file = gateway.home.path(".gemini/settings.json");
    assert!(!file.exists());
    let installed = gateway.home.run(&["install", "gemini", "--yes"]);
    assert_eq!(installed.code, Some(0), "{installed:?}");
    assert!(file.exists());
    let shown = gateway.home.run(&["--json", "approvals"]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    assert_eq!(shown.json()["waiting"], json!([]), "{shown:?}");
}

#[test]
fn a_reload_that_fails_is_a_failure_with_json_as_well() {
    let gateway = Gateway::start();
    gateway.home.user_file("[servers");
    let ran = gateway.home.run(&["reload", "--json"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
    let error = ran.error();
    assert_eq!(error["code"], 2, "{ran:?}");
    assert_eq!(
        error["hint"], "the gateway keeps its previous configuration",
        "{ran:?}"
    );
}

#[test]
fn a_gateway_that_closes_without_an_answer_is_unreachable() {
    let mut gateway = Gateway::start();
    let socket = socket(&gateway.home);
    nix::sys::signal::kill(Pid::from_raw(gateway.pid()), Signal::SIGKILL).unwrap();
    gateway.wait();
    std::fs::remove_file(&socket).unwrap();
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = stream.unwrap().read(&mut [0; 64]);
        }
    });
    for words in [&["reload"][..], &["approvals"], &["reload", "--json"]] {
        let ran = gateway.home.run(words);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(3), ""), "{ran:?}");
        assert!(
            ran.stderr
                .contains("the gateway did not answer: it closed the connection"),
            "{ran:?}"
        );
    }
}

#[test]
fn a_reload_says_that_rules_have_changed() {
    let gateway = Gateway::start_with("", &[]);
    let allow = "[permissions]\nallow = [\"demo/echo\"]\n";
    gateway
        .home
        .user_file(&format!("{}{allow}", gateway.config));
    let ran = gateway.home.run(&["reload"]);
    let expected = "rules changed\naccepted: a new rule would allow \"demo/echo\"\n";
    assert_eq!(ran.stdout, expected, "{ran:?}");
    let ran = gateway.home.run(&["reload"]);
    assert_eq!(ran.stdout, "nothing has changed\n", "{ran:?}");
}

/// T3: SIGHUP, which any program can send, accepts nothing. A person's reload lists what it accepts,
/// and the audit log has a line for each.
#[test]
fn t3_a_hang_up_accepts_nothing_and_a_reload_lists_and_records_what_it_accepts() {
    let mut gateway = Gateway::start_with("[permissions]\nallow = [\"demo/echo\"]\n", &[]);
    let started = gateway.home.path("started");
    let run = format!("touch {}; exec {PROGRAM} __demo-server", started.display());
    let twin = format!("[servers.twin]\ncommand = \"sh\"\nargs = [\"-c\", {run:?}]\n");
    let wider = gateway.config.replace("demo/echo", "*");
    gateway.home.user_file(&format!("{twin}{wider}"));
    kill(Pid::from_raw(gateway.pid()), Signal::SIGHUP).unwrap();
    let file = gateway.home.path("state/switchboard/audit/audit.jsonl");
    let audited = |event: &str, by: &str| -> Vec<Value> {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let lines = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        let lines = lines.filter(|line: &Value| line["event"] == event && line["by"] == by);
        lines.collect()
    };
    let waits = until(|| audited("reload", "SIGHUP").pop());
    let name = waits["name"].as_str().unwrap();
    assert!(name.contains("twin waits: it is new"), "{waits}");
    assert!(name.contains("a new rule would allow"), "{waits}");
    assert!(!started.exists());

    let ran = gateway.home.run(&["reload"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(
        ran.stdout
            .contains("accepted: server \"twin\": it is new ("),
        "{ran:?}"
    );
    assert!(
        ran.stdout
            .contains("accepted: a new rule would allow \"*\"\n"),
        "{ran:?}"
    );
    assert!(ran.stdout.contains("__demo-server"), "{ran:?}");
    until(|| started.exists().then_some(()));
    let accepted = until(|| {
        let accepted = audited("accept", "switchboard reload");
        (accepted.len() == 2).then_some(accepted)
    });
    assert_eq!(accepted[0]["server"], "twin");
    let shown = accepted[0]["name"].as_str().unwrap();
    assert!(
        shown.contains("it is new") && shown.contains("__demo-server"),
        "{shown}"
    );
    assert_eq!(accepted[1]["name"], "a new rule would allow \"*\"");
    kill(Pid::from_raw(gateway.pid()), Signal::SIGTERM).unwrap();
    gateway.wait();
    assert_eq!(audited("accept", "switchboard reload").len(), 2);
}

/// The gateway offers one server under its own names, and knows no other.
#[test]
fn a_reload_that_renames_the_server_of_names_identity_is_refused() {
    let gateway = Gateway::start_with("", &["--names", "identity"]);
    let renamed = gateway.config.replace("servers.demo", "servers.other");
    gateway.home.user_file(&renamed);
    let ran = gateway.home.run(&["reload"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    let expected = "with `--names identity` the gateway offers only the server \"demo\"";
    assert!(ran.stderr.contains(expected), "{ran:?}");
    let session = gateway.initialize("/mcp");
    assert_eq!(gateway.tool("/mcp", &session, "echo"), "echo");
}

#[test]
fn a_gateway_is_found_by_its_folder_when_a_projects_file_appears_or_disappears() {
    let gateway = Gateway::start();
    let home = &gateway.home;
    home.project_file("[servers.other]\nurl = \"http://127.0.0.1:9/mcp\"\n");
    for words in [["reload"], ["approvals"]] {
        let ran = home.run(&words);
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }
    // `attach` starts a gateway for the project's file, which is the one for this folder then.
    let client = Attached::start_with(home, "codex", "0.1");
    let folder = home.path("state/switchboard/run");
    until(|| (sockets_in(&folder) == 2).then_some(()));
    std::fs::remove_file(home.path("project/switchboard.toml")).unwrap();
    let ran = home.run(&["reload"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(client.end(), Some(0));
}

fn sockets_in(folder: &std::path::Path) -> usize {
    let files = std::fs::read_dir(folder).unwrap().flatten();
    let is_socket = |path: &std::path::Path| path.extension().is_some_and(|end| end == "sock");
    files.filter(|file| is_socket(&file.path())).count()
}

#[test]
fn each_gateway_that_attach_starts_has_a_log_of_its_own() {
    let home = Home::with_demo("[permissions]\nallow = [\"*\"]\n");
    let mut clients = Vec::new();
    for project in ["", "[servers.other]\nurl = \"http://127.0.0.1:9/mcp\"\n"] {
        if !project.is_empty() {
            home.project_file(project);
        }
        let mut client = Attached::start_with(&home, "codex", "0.1");
        client.send(&initialize("2025-11-25"));
        client.response(0);
        clients.push(client);
    }
    let state = std::fs::read_dir(home.path("state/switchboard")).unwrap();
    let mut logs: Vec<_> = state
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".log"))
        .collect();
    logs.sort();
    let folder = std::fs::read_dir(home.path("state/switchboard/run")).unwrap();
    let mut expected: Vec<_> = folder
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| Some(format!("{}.log", name.strip_suffix(".sock")?)))
        .collect();
    expected.sort();
    assert_eq!((logs.len(), logs), (2, expected));
    for client in clients {
        assert_eq!(client.end(), Some(0));
    }
}

#[test]
fn a_socket_whose_path_is_too_long_has_a_next_step() {
    let home = Home::with_demo("");
    let long = home.path(&"x".repeat(100));
    let mut command = home.command(&["serve", "--http", "127.0.0.1:0"]);
    let ran = command.env("XDG_RUNTIME_DIR", &long).output().unwrap();
    let stderr = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!(ran.status.code(), Some(2), "{stderr}");
    assert!(
        stderr.ends_with(
            "the path of the socket is too long; set XDG_RUNTIME_DIR to a shorter folder\n"
        ),
        "{stderr}"
    );
    let ran = home
        .command(&["-c", "nothing.toml", "attach"])
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(
        stderr.contains("the gateway did not start: ") && !stderr.contains("start: error: "),
        "{stderr}"
    );
    assert!(
        stderr.contains("`switchboard -c nothing.toml serve --http 127.0.0.1:8808`"),
        "{stderr}"
    );
}
