//! The operator's side of the gateway: the page without script, approvals by form and by command,
//! the audit log, health and metrics.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use switchboard_testkit::{Chaos, Step};

use super::client::{Gateway, PATIENCE, modern, request};
use super::support::PROGRAM;

/// A browser that is logged in.
pub(crate) struct Operator {
    cookie: String,
}

impl Operator {
    pub(crate) fn log_in(gateway: &Gateway) -> Self {
        Self::log_in_at(gateway, &login_path(gateway, &[]))
    }

    fn log_in_at(gateway: &Gateway, path: &str) -> Self {
        let answer = gateway.send("GET", path, &[("Authorization", "")], "");
        assert_eq!((answer.status, answer.header("location")), (303, Some("/")));
        let cookie = answer.header("set-cookie").unwrap();
        assert!(
            cookie.contains("; HttpOnly; SameSite=Strict; Path=/;"),
            "{cookie}"
        );
        Self {
            cookie: cookie.split(';').next().unwrap().to_owned(),
        }
    }

    pub(crate) fn page(&self, gateway: &Gateway, path: &str) -> String {
        let answer = gateway.send(
            "GET",
            path,
            &[("Authorization", ""), ("Cookie", &self.cookie)],
            "",
        );
        assert_eq!(answer.status, 200, "{answer:?}");
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.contains("default-src 'none'"), "{policy}");
        assert!(
            policy.contains("require-trusted-types-for 'script'"),
            "{policy}"
        );
        answer.body
    }

    /// The token of the page's forms.
    fn token(page: &str) -> &str {
        let (_, rest) = page.split_once("name=\"token\" value=\"").unwrap();
        rest.split('"').next().unwrap()
    }

    pub(crate) fn post(&self, gateway: &Gateway, path: &str, origin: &str, body: &str) -> u16 {
        let headers = [
            ("Authorization", ""),
            ("Cookie", self.cookie.as_str()),
            ("Origin", origin),
            ("Content-Type", "application/x-www-form-urlencoded"),
        ];
        gateway.send("POST", path, &headers, body).status
    }
}

/// A new link, without its origin, of the gateway with these files.
pub(crate) fn login_path(gateway: &Gateway, files: &[&str]) -> String {
    let link = gateway
        .home
        .run(&[files, &["approvals", "--page"]].concat());
    let (_, path) = link.stdout.trim_end().split_once("/login").unwrap();
    format!("/login{path}")
}

/// A call of the demo server's `echo` by a client that cannot be asked.
pub(crate) fn call(gateway: &Gateway, session: &str, tool: &str, message: &str) -> Value {
    call_with(gateway, session, tool, json!({"message": message}))
}

pub(crate) fn call_with(gateway: &Gateway, session: &str, tool: &str, arguments: Value) -> Value {
    let params = json!({"name": tool, "arguments": arguments});
    let call = request(7, "tools/call", params);
    let answer = gateway.send("POST", "/mcp", &[("Mcp-Session-Id", session)], &call);
    let message = match answer.body.starts_with('{') {
        true => answer.json(),
        false => answer.events().pop().unwrap(),
    };
    message["result"].clone()
}

fn waiting(gateway: &Gateway) -> Vec<Value> {
    let listed = gateway.home.run(&["--json", "approvals"]);
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    listed["waiting"].as_array().unwrap().clone()
}

#[track_caller]
pub(crate) fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline);
        thread::sleep(Duration::from_millis(20));
    }
}

fn audit(gateway: &Gateway, is_wanted: impl Fn(&Value) -> bool) -> Value {
    let path = gateway.home.path("state/switchboard/audit/audit.jsonl");
    until(|| {
        let text = std::fs::read_to_string(&path).ok()?;
        let mut lines = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        lines.find(&is_wanted)
    })
}

#[test]
fn a_call_is_approved_by_a_form_and_another_by_command_and_both_are_audited() {
    let gateway = Gateway::start_with("", &[]);
    let session = gateway.initialize("/mcp");
    let tool = gateway.tool("/mcp", &session, "echo");
    let operator = Operator::log_in(&gateway);
    thread::scope(|scope| {
        let first = scope.spawn(|| call(&gateway, &session, &tool, "by form <b>"));
        let page = until(|| {
            let page = operator.page(&gateway, "/");
            page.contains("1 call waits for you.").then_some(page)
        });
        assert!(
            page.contains("by form &lt;b&gt;") && page.contains("no rule applies"),
            "{page}"
        );
        let body = format!("token={}&decision=allow", Operator::token(&page));
        let origin = format!("http://{}", gateway.address);
        let id = waiting(&gateway)[0]["id"].as_u64().unwrap();
        let path = format!("/approvals/{id}");
        assert_eq!(operator.post(&gateway, &path, &origin, &body), 303);
        assert_eq!(first.join().unwrap()["content"][0]["text"], "by form <b>");
        assert_eq!(operator.post(&gateway, &path, &origin, &body), 409);

        let second = scope.spawn(|| call(&gateway, &session, &tool, "by command"));
        let shown = until(|| waiting(&gateway).pop());
        assert_eq!(
            (&shown["id"], &shown["client"]),
            (&json!(id + 1), &json!("tester"))
        );
        let next = (id + 1).to_string();
        let allowed = gateway.home.run(&["approvals", "allow", &next]);
        assert_eq!(
            (allowed.code, allowed.stdout.as_str()),
            (Some(0), "allowed: tester's call of demo/echo runs\n")
        );
        assert_eq!(second.join().unwrap()["content"][0]["text"], "by command");

        let third = scope.spawn(|| call(&gateway, &session, &tool, "denied"));
        until(|| waiting(&gateway).pop());
        assert_eq!(
            gateway
                .home
                .run(&["approvals", "deny", &(id + 2).to_string()])
                .stdout,
            "denied: tester's call of demo/echo\n"
        );
        let denied = third.join().unwrap();
        assert_eq!(denied["isError"], true);
        let text = denied["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("an operator denied it"), "{text}");
    });
    gateway.assert_calls(2);
    let line = audit(&gateway, |line| {
        line["event"] == "request" && line["approval"] == "yes"
    });
    for (key, expected) in [
        ("client", json!("tester")),
        ("server", json!("demo")),
        ("name", json!("echo")),
        ("decision", json!("ask")),
        ("rule", json!("no rule applies")),
        ("outcome", json!("answered")),
        ("arguments", json!({"message": "string"})),
    ] {
        assert_eq!(line[key], expected, "{line}");
    }
    audit(&gateway, |line| line["by"] == "the status page");
    let line = audit(&gateway, |line| line["by"] == "switchboard approvals");
    assert_eq!(line["outcome"], "runs", "{line}");
    assert!(line["approval_id"].is_u64(), "{line}");
    audit(&gateway, |line| line["outcome"] == "denied");
    let unknown = gateway.home.run(&["approvals", "allow", "9"]);
    assert_eq!(unknown.code, Some(2));
}

/// T19, T20: a client's token opens no page, the cookie opens no `/mcp`, and a form needs its page.
#[test]
fn t19_t20_the_page_needs_its_own_login_and_forms_of_its_own() {
    let gateway = Gateway::start_with("", &[]);
    let status =
        |path: &str, headers: &[(&str, &str)]| gateway.send("GET", path, headers, "").status;
    for path in ["/", "/events", "/servers/demo"] {
        assert_eq!(status(path, &[]), 401, "{path} with a bearer token");
        assert_eq!(status(path, &[("Authorization", "")]), 401, "{path}");
    }
    let link = login_path(&gateway, &[]);
    assert_eq!(status("/login?k=CANARY", &[]), 401);
    let closing = [("Authorization", ""), ("Connection", "close")];
    let looked_at = gateway.send("HEAD", &link, &closing, "");
    assert_eq!(
        looked_at.status, 200,
        "a program that looks at the link does not use it up"
    );
    assert_eq!(status(&link, &[("Authorization", "")]), 303);
    assert_eq!(
        status(&link, &[("Authorization", "")]),
        401,
        "a link works once"
    );
    let operator = Operator::log_in(&gateway);
    let cookie = [("Authorization", ""), ("Cookie", operator.cookie.as_str())];
    let list = request(1, "tools/list", json!({}));
    assert_eq!(gateway.send("POST", "/mcp", &cookie, &list).status, 401);
    assert_eq!(status("/servers/nope", &cookie), 404);

    let other = Operator::log_in(&gateway);
    let out = format!("token={}", Operator::token(&other.page(&gateway, "/")));
    let origin = format!("http://{}", gateway.address);
    assert_eq!(other.post(&gateway, "/logout", &origin, &out), 303);
    let cookie = [("Authorization", ""), ("Cookie", other.cookie.as_str())];
    assert_eq!(status("/", &cookie), 401, "it was logged out");

    let session = gateway.initialize("/mcp");
    let tool = gateway.tool("/mcp", &session, "echo");
    thread::scope(|scope| {
        let held = scope.spawn(|| call(&gateway, &session, &tool, "x"));
        let id = until(|| waiting(&gateway).pop())["id"].to_string();
        let path = format!("/approvals/{id}");
        let page = operator.page(&gateway, "/");
        let token = Operator::token(&page);
        let good = format!("token={token}&decision=allow");
        let origin = format!("http://{}", gateway.address);
        let other_port = "http://127.0.0.1:1";
        for (origin, body) in [
            (other_port, good.as_str()),
            ("", good.as_str()),
            (&origin, "decision=allow"),
            (&origin, "token=0000&decision=allow"),
        ] {
            let status = operator.post(&gateway, &path, origin, body);
            assert_eq!(status, 403, "{origin} {body}");
        }
        assert_eq!(gateway.calls(), 0);
        let no = format!("token={token}&decision=deny");
        assert_eq!(operator.post(&gateway, &path, &origin, &no), 303);
        held.join().unwrap();
    });
    gateway.assert_calls(0);
}

#[test]
fn health_is_open_and_metrics_need_a_token() {
    let gateway = Gateway::start();
    let session = gateway.initialize("/mcp");
    let tool = gateway.tool("/mcp", &session, "echo");
    call(&gateway, &session, &tool, "x");
    let without = [("Authorization", "")];
    let health = gateway.send("GET", "/healthz", &without, "");
    assert_eq!((health.status, health.body.as_str()), (200, "ok\n"));
    assert_eq!(gateway.send("GET", "/readyz", &without, "").status, 200);
    assert_eq!(gateway.send("GET", "/metrics", &without, "").status, 401);
    let metrics = gateway.send("GET", "/metrics", &[], "").body;
    for line in [
        "mcp_server_operation_duration_seconds_count{gen_ai_tool_name=\"echo\",server=\"demo\",mcp_method_name=\"tools/call\"} 1",
        "switchboard_server_up{server=\"demo\"} 1",
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
}

/// The list on the page has the arguments shortened; the page of the call has all of them.
#[test]
fn a_waiting_call_with_long_arguments_is_short_on_the_page_and_has_a_page_of_its_own() {
    let gateway = Gateway::start_with("", &[]);
    let session = gateway.initialize("/mcp");
    let echo = gateway.tool("/mcp", &session, "echo");
    let operator = Operator::log_in(&gateway);
    let long = "x".repeat(1 << 20);
    thread::scope(|scope| {
        let held = scope.spawn(|| call(&gateway, &session, &echo, &long));
        let id = until(|| waiting(&gateway).pop())["id"].to_string();
        let page = operator.page(&gateway, "/");
        assert!(
            page.len() < 64 << 10 && page.contains("bytes not shown"),
            "{}",
            page.len()
        );
        assert!(
            page.contains("aria-label=\"Allow once: tester calls demo/echo\""),
            "{page}"
        );
        let path = format!("/approvals/{id}");
        assert!(operator.page(&gateway, &path).contains(&long));
        let denied = gateway.home.run(&["approvals", "deny", &id]);
        assert_eq!(denied.code, Some(0), "{denied:?}");
        held.join().unwrap();
        let cookie = [("Authorization", ""), ("Cookie", operator.cookie.as_str())];
        assert_eq!(gateway.send("GET", &path, &cookie, "").status, 404);
    });
}

/// T19: the call that waits is not run, though an operator allows it.
#[test]
fn t19_a_waiting_call_of_a_client_whose_token_was_revoked_cannot_be_allowed() {
    let gateway = Gateway::start_with("[permissions]\nask = [\"*\"]\n", &[]);
    let session = gateway.initialize("/mcp");
    let echo = gateway.tool("/mcp", &session, "echo");
    thread::scope(|scope| {
        let held = scope.spawn(|| call(&gateway, &session, &echo, "x"));
        let id = until(|| waiting(&gateway).pop())["id"].to_string();
        let revoked = gateway.home.run(&["token", "revoke", "tester"]);
        assert_eq!(revoked.code, Some(0), "{revoked:?}");
        let allowed = gateway.home.run(&["approvals", "allow", &id]);
        assert_eq!(allowed.code, Some(2), "{allowed:?}");
        assert!(allowed.stderr.contains("no such approval"), "{allowed:?}");
        let denied = held.join().unwrap();
        assert!(denied.to_string().contains("was revoked"), "{denied}");
    });
    gateway.assert_calls(0);
    audit(&gateway, |line| {
        line["by"] == "the client's token was revoked"
    });
}

#[test]
fn a_secret_that_a_reload_brings_is_not_in_the_audit_log() {
    const SECRET: &str = "CANARY-of-a-reload";
    let more = "[permissions]\nallow = [\"*\"]\n[gateway]\naudit_arguments = \"full\"\n";
    let gateway = Gateway::start_with(more, &[]);
    let session = gateway.initialize("/mcp");
    let echo = gateway.tool("/mcp", &session, "echo");
    let added = format!("[servers.other]\ncommand = \"false\"\nenv = {{ KEY = \"{SECRET}\" }}\n");
    gateway
        .home
        .user_file(&format!("{}{added}", gateway.config));
    let reloaded = gateway.home.run(&["reload"]);
    assert_eq!(reloaded.code, Some(0), "{reloaded:?}");
    audit(&gateway, |line| line["by"] == "switchboard reload");
    call(&gateway, &session, &echo, SECRET);
    let line = audit(&gateway, |line| line["method"] == "tools/call");
    assert_eq!(line["arguments"], json!({"message": "[secret]"}));
}

/// A server that keeps running, or a client, may still use a secret that is in the file no more.
#[test]
fn a_secret_of_a_configuration_between_is_not_in_the_audit_log() {
    const SECRET: &str = "CANARY-of-a-reload";
    let more = "[permissions]\nallow = [\"*\"]\n[gateway]\naudit_arguments = \"full\"\n";
    let gateway = Gateway::start_with(more, &[]);
    let session = gateway.initialize("/mcp");
    let echo = gateway.tool("/mcp", &session, "echo");
    let added = format!("[servers.other]\ncommand = \"false\"\nenv = {{ KEY = \"{SECRET}\" }}\n");
    for text in [format!("{}{added}", gateway.config), gateway.config.clone()] {
        gateway.home.user_file(&text);
        let reloaded = gateway.home.run(&["reload"]);
        assert_eq!(reloaded.code, Some(0), "{reloaded:?}");
    }
    call(&gateway, &session, &echo, SECRET);
    let line = audit(&gateway, |line| line["method"] == "tools/call");
    assert_eq!(line["arguments"], json!({"message": "[secret]"}));
}

#[test]
fn a_reload_applies_the_settings_of_the_gateway_or_says_that_it_does_not() {
    let rules = "[permissions]\nallow = [\"*\"]\n";
    let with = |settings: &str| format!("{rules}[gateway]\n{settings}\n");
    let gateway = Gateway::start_with(&with("audit_arguments = \"full\""), &[]);
    let session = gateway.initialize("/mcp");
    let echo = gateway.tool("/mcp", &session, "echo");
    let operator = Operator::log_in(&gateway);
    let hash = |page: &str| {
        let (_, rest) = page.split_once("hash <code>").unwrap();
        rest.split('<').next().unwrap().to_owned()
    };
    let before = hash(&operator.page(&gateway, "/"));
    let servers = gateway.config.split("[permissions]").next().unwrap();
    let changed = with("audit_arguments = \"none\"\npublic_url = \"https://mcp.example.com\"");
    gateway.home.user_file(&format!("{servers}{changed}"));
    let reloaded = gateway.home.run(&["reload"]);
    assert_eq!(
        reloaded.stdout,
        "public_url in [gateway] counts after a restart of the gateway\n"
    );
    call(&gateway, &session, &echo, "hello");
    let line = audit(&gateway, |line| line["method"] == "tools/call");
    assert_eq!(line.get("arguments"), None, "{line}");
    let after = hash(&operator.page(&gateway, "/"));
    assert_ne!(before, after, "the page shows the configuration in force");
}

/// Rules that name a client hold for the token's name; what the client calls itself changes nothing.
#[test]
fn a_rule_for_a_client_holds_for_its_token() {
    let rules = "[permissions]\nallow = [\"*\"]\ndeny = [{ tool = \"demo/echo\", client = \"tester\" }, { tool = \"*\", client = \"by hand\" }]\n";
    let gateway = Gateway::start_with(rules, &[]);
    let session = gateway.initialize("/mcp");
    let echo = gateway.tool("/mcp", &session, "echo");
    let denied = call(&gateway, &session, &echo, "x");
    let text = denied["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("for client \"tester\""), "{text}");
    gateway.assert_calls(0);
    let line = audit(&gateway, |line| line["decision"] == "deny");
    assert_eq!(line["client_info"]["name"], "by hand");
}

/// The lines are filtered by a plain form, and each request has a page of its own.
#[test]
fn requests_are_filtered_without_script_and_each_has_a_page() {
    let gateway = Gateway::start_with(
        "[permissions]\nallow = [\"*\"]\ndeny = [{ tool = \"demo/slow\", client = \"tester\" }]\n",
        &[],
    );
    let session = gateway.initialize("/mcp");
    let echo = gateway.tool("/mcp", &session, "echo");
    let slow = gateway.tool("/mcp", &session, "slow");
    call(&gateway, &session, &echo, "CANARY-argument");
    call_with(&gateway, &session, &slow, json!({}));
    let operator = Operator::log_in(&gateway);
    let rows = |path: &str| {
        let page = operator.page(&gateway, path);
        let (_, table) = page.split_once("id=\"audit\"").unwrap();
        let table = table.split("</table>").next().unwrap();
        table.matches("href=\"/calls/").count()
    };
    assert_eq!(until(|| Some(rows("/")).filter(|rows| *rows == 2)), 2);
    assert_eq!(rows("/?server=demo&client=tester&outcome="), 2);
    assert_eq!(rows("/?outcome=denied"), 1);
    assert_eq!(rows("/?outcome=answered&client=tester"), 1);
    assert_eq!(rows("/?client=%3Cscript%3E"), 0);
    let page = operator.page(&gateway, "/?outcome=denied&client=%3Cscript%3E");
    assert!(
        page.contains("<option value=\"denied\" selected>denied</option>"),
        "{page}"
    );
    assert!(!page.contains("<script>"), "{page}");
    assert!(page.contains("hash <code>"), "{page}");

    let request = operator.page(&gateway, "/calls/1");
    for shown in [
        "tester",
        "tools/call",
        "demo",
        "echo",
        "allow",
        "answered",
        "&quot;message&quot;: &quot;string&quot;",
    ] {
        assert!(request.contains(shown), "{shown}: {request}");
    }
    assert!(!request.contains("CANARY"), "{request}");
    let cookie = [("Authorization", ""), ("Cookie", operator.cookie.as_str())];
    assert_eq!(gateway.send("GET", "/calls/99", &cookie, "").status, 404);
}

/// A server that a changed file adds starts only after an operator has accepted exactly what was
/// shown.
#[test]
fn a_new_server_waits_until_an_operator_accepts_what_was_shown() {
    let gateway = Gateway::start();
    let before = gateway.home.run(&["approvals"]);
    assert_eq!(before.stdout, "nothing waits for approval\n");
    let marker = gateway.home.path("started");
    let add = |word: &str| {
        let entry = format!(
            "{}\n[servers.second]\ncommand = \"sh\"\nargs = [\"-c\", {:?}]\n",
            gateway.config,
            format!("echo {word} >> {}; exec cat", marker.display())
        );
        gateway.home.user_file(&entry);
    };
    let change = |word: &str| {
        until(|| {
            let listed = gateway.home.run(&["--json", "approvals"]);
            let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
            let change = listed["changes"][0].clone();
            change.to_string().contains(word).then_some(change)
        })
    };
    add("first");
    let first = change("echo first");
    assert_eq!(first["server"], "second");
    let shown = gateway.home.run(&["approvals"]).stdout;
    assert!(
        shown.starts_with("change-") && shown.contains("server \"second\": "),
        "{shown}"
    );
    // The file changes once more between the look and the answer.
    add("other");
    let other = change("echo other");
    assert_ne!(first["id"], other["id"]);
    // Too long for two texts with the same id to be found.
    let digits = first["id"].as_str().unwrap().strip_prefix("change-");
    assert_eq!(digits.unwrap().len(), 32);
    let stale = gateway
        .home
        .run(&["approvals", "allow", first["id"].as_str().unwrap()]);
    assert_eq!(stale.code, Some(2), "{stale:?}");
    let operator = Operator::log_in(&gateway);
    let page = operator.page(&gateway, "/");
    assert!(
        page.contains("1 change of the configuration waits for you"),
        "{page}"
    );
    assert!(!marker.exists());
    let allowed = gateway
        .home
        .run(&["approvals", "allow", other["id"].as_str().unwrap()]);
    assert_eq!(
        allowed.stdout, "accepted: the change is in use\n",
        "{allowed:?}"
    );
    until(|| {
        std::fs::read_to_string(&marker)
            .ok()
            // It may be started again, since it does not answer.
            .filter(|text| !text.is_empty() && text.lines().all(|line| line == "other"))
    });
    audit(&gateway, |line| {
        line["event"] == "accept" && line["server"] == "second"
    });
    assert!(
        !gateway
            .home
            .run(&["approvals"])
            .stdout
            .starts_with("change-")
    );
}

/// The browser is closed while the acceptance is being stored: it is stored nevertheless.
#[test]
fn an_acceptance_whose_browser_went_away_is_in_the_audit_log() {
    let gateway = Gateway::start();
    let entry = "[servers.second]\ncommand = \"cat\"\n";
    gateway
        .home
        .user_file(&format!("{}\n{entry}", gateway.config));
    let operator = Operator::log_in(&gateway);
    let (page, id) = until(|| {
        let page = operator.page(&gateway, "/");
        let (_, rest) = page.split_once("/changes/")?;
        let id = rest.split('/').next()?.to_owned();
        Some((page, id))
    });
    let lock = std::fs::File::create(gateway.home.path("state/switchboard/trust.lock")).unwrap();
    lock.lock().unwrap();
    let open_files = || {
        let files = std::fs::read_dir(format!("/proc/{}/fd", gateway.pid())).unwrap();
        let links = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
        let links: Vec<_> = links.map(|link| link.display().to_string()).collect();
        let sockets = links.iter().filter(|link| link.starts_with("socket:"));
        let is_waiting = links.iter().any(|link| link.ends_with("trust.lock"));
        (sockets.count(), is_waiting)
    };
    let (sockets, _) = open_files();
    let mut headers = gateway.headers();
    headers.retain(|(name, _)| name == "Host");
    headers.push(("Cookie".to_owned(), operator.cookie.clone()));
    headers.push(("Origin".to_owned(), format!("http://{}", gateway.address)));
    let body = format!("token={}", Operator::token(&page));
    let path = format!("/changes/{id}/accept");
    let browser = gateway.open("POST", &path, &headers, &body);
    until(|| open_files().1.then_some(()));
    drop(browser);
    until(|| (open_files().0 <= sockets).then_some(()));
    drop(lock);
    let line = audit(&gateway, |line| line["event"] == "accept");
    assert_eq!(
        (&line["server"], &line["outcome"]),
        (&json!("second"), &json!("accepted"))
    );
}

/// A configuration with a fault, while the gateway runs: the page says where, and the servers go on.
#[test]
fn a_broken_configuration_is_on_the_page_and_the_previous_one_serves() {
    let gateway = Gateway::start();
    let session = gateway.initialize("/mcp");
    let tool = gateway.tool("/mcp", &session, "echo");
    let operator = Operator::log_in(&gateway);
    gateway
        .home
        .user_file(&format!("{}\n[servers.x\n", gateway.config));
    let page = until(|| {
        let page = operator.page(&gateway, "/");
        page.contains("the changed configuration is invalid")
            .then_some(page)
    });
    assert!(page.contains("switchboard.toml:"), "{page}");
    assert_eq!(
        call(&gateway, &session, &tool, "x")["content"][0]["text"],
        "x"
    );
    gateway.home.user_file(&gateway.config);
    until(|| {
        Some(operator.page(&gateway, "/"))
            .filter(|page| page.contains("The server is up; no call waits for you."))
    });
}

/// An audit log that cannot be written delays and loses no call; the page says so, and the lines are
/// written once it can be.
#[test]
fn an_audit_log_that_cannot_be_written_is_a_notice_and_its_lines_are_kept() {
    let gateway = Gateway::start();
    let folder = gateway.home.path("state/switchboard/audit");
    std::fs::create_dir_all(folder.parent().unwrap()).unwrap();
    std::fs::write(&folder, "not a folder").unwrap();
    let session = gateway.initialize("/mcp");
    let tool = gateway.tool("/mcp", &session, "echo");
    assert_eq!(
        call(&gateway, &session, &tool, "x")["content"][0]["text"],
        "x"
    );
    let operator = Operator::log_in(&gateway);
    let page = until(|| {
        Some(operator.page(&gateway, "/"))
            .filter(|page| page.contains("the audit log cannot be written"))
    });
    assert!(
        page.contains("Calls go on; their lines wait in memory"),
        "{page}"
    );
    std::fs::remove_file(&folder).unwrap();
    audit(&gateway, |line| {
        line["name"] == "echo" && line["outcome"] == "answered"
    });
    until(|| Some(operator.page(&gateway, "/")).filter(|page| !page.contains("cannot be written")));
}

/// A server whose program is missing fails within milliseconds, before the gateway listens.
#[test]
fn a_server_that_failed_before_the_gateway_listened_is_in_its_log() {
    let mut gateway =
        Gateway::start_with("[servers.dead]\ncommand = \"/nonexistent/program\"\n", &[]);
    let operator = Operator::log_in(&gateway);
    until(|| Some(operator.page(&gateway, "/")).filter(|page| page.contains("1 of 2 servers")));
    let pid = nix::unistd::Pid::from_raw(gateway.pid());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    gateway.wait();
    let log = gateway.last_words();
    let lines = log.lines().filter(|line| line.contains("server \"dead\""));
    assert_eq!(
        lines.collect::<Vec<_>>(),
        [
            "server \"dead\" is down: there is no file \"/nonexistent/program\"; correct `command`; try `switchboard doctor dead`"
        ]
    );
}

#[test]
fn a_resource_that_two_servers_list_is_shown_with_the_one_that_answers() {
    let twin = format!(
        "[permissions]\nallow = [\"*\"]\n[servers.twin]\ncommand = {PROGRAM:?}\nargs = [\"__demo-server\"]\n"
    );
    let gateway = Gateway::start_with(&twin, &[]);
    let operator = Operator::log_in(&gateway);
    let page = until(|| {
        Some(operator.page(&gateway, "/")).filter(|page| page.contains("several servers"))
    });
    let shown = "Resource <code>demo://counter</code> is listed by several servers: <a href=\"/servers/demo\">demo</a> answers, because it comes first in the configuration; <a href=\"/servers/twin\">twin</a> does only under <code>/mcp/NAME</code>.";
    assert!(page.contains(shown), "{page}");
    let examined = gateway.home.run(&["doctor"]);
    for fact in [
        "Same URI: demo://counter is listed by \"twin\", too; through the gateway this one answers, because it comes first",
        "Same URI: demo://counter is listed by \"demo\", too; through the gateway \"demo\" answers, because it comes first",
    ] {
        assert!(examined.stdout.contains(fact), "{examined:?}");
    }
}

/// Names of other dialects may have any character: they are encoded in paths, and decoded once.
#[test]
fn a_server_with_any_name_has_a_path_of_its_own_and_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mcp.json");
    let servers =
        json!({"mcpServers": {"my filés 100%": {"command": PROGRAM, "args": ["__demo-server"]}}});
    std::fs::write(&file, servers.to_string()).unwrap();
    let files = ["-c", file.to_str().unwrap()];
    let public = ["--public-url", "https://mcp.example.com"];
    let gateway = Gateway::start_with("", &[files, public].concat());
    let name = "my%20fil%C3%A9s%20100%25";
    let path = format!("/mcp/{name}");
    let session = gateway.initialize(&path);
    let list = request(2, "tools/list", json!({}));
    let listed = until(|| {
        let answer = gateway.send("POST", &path, &[("Mcp-Session-Id", &session)], &list);
        Some(answer.body).filter(|body| body.contains("echo"))
    });
    assert!(listed.contains(r#""name":"echo""#), "{listed}");
    let host = [("Host", "mcp.example.com")];
    let card = gateway.send("GET", &format!("{path}/server-card"), &host, "");
    let url = &card.json()["remotes"][0]["url"];
    assert_eq!(url, &format!("https://mcp.example.com{path}"));
    for wrong in [
        "my%20fil%C3%A9s%20100%2525",
        "my%20fil%C3%A9s%20100%",
        "%zz",
        "server%2Dcard",
    ] {
        let post = gateway.send("POST", &format!("/mcp/{wrong}"), &[], &list);
        assert_eq!(post.status, 404, "{wrong}");
    }

    let operator = Operator::log_in_at(&gateway, &login_path(&gateway, &files));
    let overview = operator.page(&gateway, "/");
    let link = format!(" href=\"/servers/{name}\">my filés 100%</a>");
    assert!(overview.contains(&link), "{overview}");
    let page = operator.page(&gateway, &format!("/servers/{name}"));
    let action = format!("/servers/{name}/restart");
    assert!(page.contains(&format!("action=\"{action}\"")), "{page}");
    let origin = format!("http://{}", gateway.address);
    let body = format!("token={}", Operator::token(&page));
    assert_eq!(operator.post(&gateway, &action, &origin, &body), 303);
    let action = "/servers/%zz/restart";
    assert_eq!(operator.post(&gateway, action, &origin, &body), 409);
}

/// The page shows what the list has: repairs, and none with `--schemas as-is`.
#[test]
fn the_page_shows_the_repairs_of_the_list_and_none_of_a_list_as_it_is() {
    let odd = Chaos::new().tool("t", Step::text("ok")).define(
        "t",
        "inputSchema",
        r#"{"type":"object","properties":{"any":true}}"#,
    );
    let entry = odd.entry("odd").render();
    for (words, is_repaired) in [(&[][..], true), (&["--schemas", "as-is"], false)] {
        let gateway = Gateway::start_with(&entry, words);
        let operator = Operator::log_in(&gateway);
        let page = until(|| {
            Some(operator.page(&gateway, "/servers/odd")).filter(|page| page.contains("Listed as"))
        });
        let repair = "Repaired for strict clients: <code>/inputSchema/properties/any</code>";
        assert_eq!(page.contains(repair), is_repaired, "{page}");
        // A modern client may be as strict as a legacy one.
        let list = request(3, "tools/list", modern(json!({})));
        let headers = [
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", "tools/list"),
        ];
        let listed = gateway.send("POST", "/mcp/odd", &headers, &list).json();
        let any = &listed["result"]["tools"][0]["inputSchema"]["properties"]["any"];
        let expected = if is_repaired { json!({}) } else { json!(true) };
        assert_eq!(any, &expected, "{listed}");
    }
}

/// Prompts are named as tools are: a name that is taken is preceded by the server's.
#[test]
fn a_prompt_whose_name_is_taken_is_listed_under_a_longer_one_and_shown() {
    let twin = format!("[servers.twin]\ncommand = {PROGRAM:?}\nargs = [\"__demo-server\"]\n");
    let gateway = Gateway::start_with(&twin, &["--names", "first-wins"]);
    let operator = Operator::log_in(&gateway);
    let page = until(|| {
        Some(operator.page(&gateway, "/")).filter(|page| page.contains("Prompt <code>review"))
    });
    let shown = "Prompt <code>review</code> is that of <a href=\"/servers/demo\">demo</a>, which comes first in the configuration; that of <a href=\"/servers/twin\">twin</a> is listed as <code>twin__review</code>.";
    assert!(page.contains(shown), "{page}");
    let session = gateway.initialize("/mcp");
    let session = [("Mcp-Session-Id", session.as_str())];
    let list = request(2, "prompts/list", json!({}));
    let listed = gateway.send("POST", "/mcp", &session, &list).json();
    let prompts = listed["result"]["prompts"].as_array().unwrap().iter();
    let names: Vec<_> = prompts.map(|prompt| prompt["name"].clone()).collect();
    assert!(
        names.contains(&json!("review")) && names.contains(&json!("twin__review")),
        "{names:?}"
    );
    let params = json!({"name": "twin__review", "arguments": {"language": "rust"}});
    let got = gateway.send("POST", "/mcp", &session, &request(3, "prompts/get", params));
    assert!(got.body.contains("messages"), "{got:?}");
}
