//! `attach`: a client on standard streams, through the socket, to a gateway that is started if none
//! runs; and `reload`.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::unistd::Pid;
use serde_json::{Value, json};
use switchboard_testkit::is_alive;

use super::client::{Gateway, PATIENCE, initialize, request};
use super::support::Home;

/// A client that `attach` serves.
struct Attached {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Attached {
    fn start(home: &Home, client: &str) -> Self {
        Self::start_with(home, client, "300")
    }

    /// A gateway that it starts ends so many seconds after its last client.
    fn start_with(home: &Home, client: &str, idle: &str) -> Self {
        let mut command = home.command(&["attach", "--as", client, "--idle-timeout", idle]);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn send(&mut self, message: &str) {
        let stdin = self.child.stdin.as_mut().unwrap();
        stdin.write_all(format!("{message}\n").as_bytes()).unwrap();
    }

    fn next(&mut self) -> Value {
        let line = self.lines.next().expect("it is connected").unwrap();
        serde_json::from_str(&line).unwrap()
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
    assert!(next.lines.next().is_none());
    assert_eq!(next.end(), Some(3));
    let folder = home.path("state/switchboard/run");
    let left = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path());
    let left: Vec<_> = left
        .filter(|path| path.extension().is_some_and(|end| end == "sock"))
        .collect();
    assert_eq!(left, Vec::<std::path::PathBuf>::new());
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
    let mut pids = std::collections::HashSet::new();
    for round in 0..20 {
        let mut client = Attached::start_with(&home, "codex", "0.2");
        client.send(&ping);
        assert_eq!(client.next()["id"], 1, "round {round}");
        pids.insert(gateway_pid(&home));
        assert_eq!(client.end(), Some(0), "round {round}");
        // Around the moment at which the gateway ends.
        std::thread::sleep(Duration::from_millis(150 + 5 * round));
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
