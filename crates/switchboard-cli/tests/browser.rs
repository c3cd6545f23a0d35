//! The status page in a real browser: its buttons, text of servers and clients that stays text, no
//! policy is violated, narrow and wide, light and dark.
//!
//! Needs `chromium` and `chromedriver`. `SWITCHBOARD_SCREENSHOTS=FOLDER` keeps pictures of the page.
#![allow(clippy::unwrap_used)]

mod support;

/// A gateway, and a client that speaks HTTP by hand.
#[path = "gateway_http/client.rs"]
#[allow(dead_code)]
mod client;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use client::{Gateway, PATIENCE, request};
use serde_json::{Value, json};
use support::PROGRAM;
use switchboard_testkit::KilledOnDrop;

/// A browser with its driver.
struct Browser {
    _driver: KilledOnDrop,
    port: u16,
    session: String,
    _profile: tempfile::TempDir,
}

impl Browser {
    fn start() -> Self {
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("chromedriver: {error}; install chromium-driver"));
        let lines = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = lines.map_while(Result::ok).find_map(|line| {
            let (_, rest) = line.split_once("started successfully on port ")?;
            rest.trim_end_matches('.').parse().ok()
        });
        let profile = tempfile::tempdir().unwrap();
        let mut browser = Self {
            _driver: KilledOnDrop(driver),
            port: port.unwrap(),
            session: String::new(),
            _profile: profile,
        };
        let folder = format!("--user-data-dir={}", browser._profile.path().display());
        let arguments = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--window-size=1180,900",
            folder.as_str(),
        ];
        let options = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "goog:loggingPrefs": {"browser": "ALL"},
            "goog:chromeOptions": {"args": arguments},
        }}});
        let made = browser.ask("POST", "/session", &options);
        browser.session = made["sessionId"].as_str().unwrap().to_owned();
        browser
    }

    /// One command of the WebDriver protocol.
    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let answer = self.try_ask(method, path, body);
        assert!(answer["value"]["error"].is_null(), "{answer}");
        answer["value"].clone()
    }

    fn try_ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if method == "POST" {
            body.to_string()
        } else {
            String::new()
        };
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            self.port,
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        let body = read_body(&mut BufReader::new(stream));
        serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"))
    }

    fn command(&self, path: &str, body: Value) -> Value {
        self.ask("POST", &format!("/session/{}{path}", self.session), &body)
    }

    fn open(&self, url: &str) {
        self.command("/url", json!({"url": url}));
    }

    /// Opens the page with a new link, and waits for its script.
    fn log_in(&self, gateway: &Gateway) {
        let link = gateway.home.run(&["approvals", "--page"]);
        self.open(link.stdout.trim_end());
        self.until("return document.getElementById('live').textContent === 'live'");
    }

    fn text(&self) -> String {
        let text = self.run("return document.body.innerText");
        text.as_str().unwrap().to_owned()
    }

    fn run(&self, script: &str) -> Value {
        self.command("/execute/sync", json!({"script": script, "args": []}))
    }

    fn until(&self, script: &str) {
        let deadline = Instant::now() + PATIENCE;
        while self.run(script) != true {
            assert!(
                Instant::now() < deadline,
                "{script}: {}",
                self.run("return document.body.innerText")
            );
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// The page may replace the element between the look and the click: then it is looked up again.
    fn click(&self, selector: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let wanted = json!({"using": "css selector", "value": selector});
            let found = self.command("/element", wanted);
            let id = found.as_object().unwrap().values().next().unwrap();
            let path = format!(
                "/session/{}/element/{}/click",
                self.session,
                id.as_str().unwrap()
            );
            let answer = self.try_ask("POST", &path, &json!({}));
            let said = "return document.getElementById('live').textContent";
            if answer["value"]["error"] != "stale element reference" {
                assert!(answer["value"].is_null(), "{answer}");
                // A button that has just appeared or moved is not pressed.
                let said = self.run(said);
                if !said
                    .as_str()
                    .unwrap()
                    .starts_with("the page has just changed")
                {
                    return;
                }
                thread::sleep(Duration::from_millis(100));
            }
            assert!(
                Instant::now() < deadline,
                "{selector} is replaced all the time"
            );
        }
    }

    fn use_scheme(&self, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        let parameters =
            json!({"cmd": "Emulation.setEmulatedMedia", "params": {"features": features}});
        self.command("/goog/cdp/execute", parameters);
    }

    fn use_width(&self, width: u32) {
        self.command("/window/rect", json!({"width": width, "height": 900}));
    }

    fn screenshot(&self) -> Vec<u8> {
        let path = format!("/session/{}/screenshot", self.session);
        let picture = self.ask("GET", &path, &Value::Null);
        BASE64_STANDARD.decode(picture.as_str().unwrap()).unwrap()
    }

    /// The browser's log, without the missing favicon.
    fn log(&self) -> Vec<Value> {
        let lines = self.command("/se/log", json!({"type": "browser"}));
        let is_icon = |line: &&Value| line["message"].as_str().unwrap().contains("favicon");
        lines
            .as_array()
            .unwrap()
            .iter()
            .filter(|line| !is_icon(line))
            .cloned()
            .collect()
    }
}

/// The driver may leave the connection open: the head says how long the body is.
fn read_body(stream: &mut BufReader<TcpStream>) -> String {
    let mut length = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        let line = line.trim_end().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    String::from_utf8(body).unwrap()
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !thread::panicking() {
            self.ask(
                "DELETE",
                &format!("/session/{}", self.session),
                &Value::Null,
            );
        }
    }
}

/// Hostile texts, each with what it would do as markup.
const EVIL: &str =
    "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>";

#[test]
fn t19_a_call_is_approved_on_the_page_and_evil_text_stays_text() {
    let stderr = format!("echo {} >&2; exit 1", shell_quoted(EVIL));
    let more = format!("[servers.broken]\ncommand = \"sh\"\nargs = [\"-c\", {stderr:?}]\n");
    let gateway = Gateway::start_with(&more, &[]);
    let session = gateway.initialize("/mcp");
    let tool = gateway.tool("/mcp", &session, "echo");
    let browser = Browser::start();
    browser.log_in(&gateway);
    browser.until(
        "return document.body.innerText.includes('1 of 2 servers is down; no call waits for you.')",
    );
    thread::scope(|scope| {
        let held = scope.spawn(|| {
            let arguments = json!({"message": EVIL});
            let call = request(
                7,
                "tools/call",
                json!({"name": tool, "arguments": arguments}),
            );
            gateway.send("POST", "/mcp", &[("Mcp-Session-Id", &session)], &call)
        });
        // It appears without loading the page again.
        browser.until("return document.querySelectorAll('#waiting .card').length === 1");
        browser.until("return document.title.startsWith('1 of 2 servers is down; 1 call waits')");
        looks_right(&browser);
        browser.click("button.primary");
        browser.until("return document.querySelectorAll('#waiting .card').length === 0");
        let answer = held.join().unwrap();
        assert!(answer.body.contains("onerror"), "{answer:?}");
    });
    gateway.assert_calls(1);
    browser.until("return document.querySelector('#audit tbody').innerText.includes('answered')");
    for page in ["/", "/servers/broken", "/servers/demo"] {
        browser.open(&format!("http://{}{page}", gateway.address));
        let foreign = "return document.querySelectorAll('main img, main script').length";
        assert_eq!(browser.run(foreign), 0, "{page}");
        assert_ne!(browser.run("return document.title"), "owned", "{page}");
    }
    browser.open(&format!("http://{}/servers/broken", gateway.address));
    assert!(browser.text().contains("<img src=x onerror="));
    assert_eq!(browser.log(), Vec::<Value>::new());
}

/// Nothing is cut off at any width, and both colour schemes differ.
fn looks_right(browser: &Browser) {
    let fits =
        "return document.documentElement.scrollWidth <= document.documentElement.clientWidth";
    let colour = "return getComputedStyle(document.body).backgroundColor";
    let mut colours = Vec::new();
    for scheme in ["light", "dark"] {
        browser.use_scheme(scheme);
        colours.push(browser.run(colour));
        for width in [500, 1180] {
            browser.use_width(width);
            assert_eq!(browser.run(fits), true, "{scheme}, {width} wide");
            if let Some(folder) = std::env::var_os("SWITCHBOARD_SCREENSHOTS") {
                let file = Path::new(&folder).join(format!("page-{scheme}-{width}.png"));
                std::fs::write(file, browser.screenshot()).unwrap();
            }
        }
    }
    assert_ne!(colours[0], colours[1]);
    browser.use_scheme("light");
}

fn shell_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A call is cancelled, a server restarted and a changed entry accepted, each with its button.
#[test]
fn buttons_cancel_a_call_restart_a_server_and_accept_a_change() {
    let gateway = Gateway::start();
    let session = gateway.initialize("/mcp");
    let tool = gateway.tool("/mcp", &session, "slow");
    let browser = Browser::start();
    browser.log_in(&gateway);
    thread::scope(|scope| {
        let running = scope.spawn(|| {
            let params = json!({"name": tool, "arguments": {"seconds": 600, "steps": 1}});
            let call = request(7, "tools/call", params);
            gateway.send("POST", "/mcp", &[("Mcp-Session-Id", &session)], &call)
        });
        browser.until("return document.querySelectorAll('#running .card').length === 1");
        browser.click("#running a");
        browser.until("return document.querySelector('h1').innerText === 'Request 1 is running'");
        assert!(browser.text().contains("\"seconds\": \"number\""));
        browser.click("button");
        let answer = running.join().unwrap();
        assert!(
            answer.body.contains("an operator cancelled the request"),
            "{answer:?}"
        );
    });
    browser.until("return document.querySelector('h1').innerText === 'Request 1: failed'");

    let page = format!("http://{}/servers/demo", gateway.address);
    let pid = "const found = document.body.innerText.match(/Process\\s+(\\d+)/); return found && found[1]";
    browser.open(&page);
    let before = browser.run(pid);
    browser.click("#restart summary");
    browser.click("#restart button");
    browser.until("return location.pathname === '/'");
    browser.open(&page);
    browser.until(&format!(
        "{} && found[1] !== {before}",
        pid.replace("found && found[1]", "!!found")
    ));

    browser.open(&format!("http://{}/?outcome=failed", gateway.address));
    let second = format!(
        "{}\n[servers.second]\ncommand = {PROGRAM:?}\nargs = [\"__demo-server\"]\n",
        gateway.config
    );
    gateway.home.user_file(&second);
    browser.until("return document.querySelectorAll('#changes .card').length === 1");
    assert!(
        browser
            .text()
            .contains("1 change of the configuration waits for you")
    );
    browser.click("#changes button");
    browser.until("return document.querySelectorAll('#changes .card').length === 0");
    browser
        .until("return document.querySelector('h1').innerText.startsWith('All 2 servers are up')");
    // What is live is still filtered.
    let rows = "return [...document.querySelectorAll('#audit tbody tr')].map(row => row.cells[4].innerText.split('\\n')[0]).join()";
    assert_eq!(browser.run(rows), "failed");
    assert_eq!(browser.log(), Vec::<Value>::new());
}

/// What a server calls its tools and says of them is text: markup, a turned direction, terminal
/// escapes.
#[test]
fn t12_texts_of_a_server_are_inert_and_visible() {
    let home = tempfile::tempdir().unwrap();
    let evil = format!("{EVIL}\u{202e}desrever\u{1b}[31mred");
    let definition = json!({
        "name": format!("tool{EVIL}"), "description": evil,
        "inputSchema": {"type": "object", "properties": {(evil.as_str()): {"type": "string", "description": evil}}},
    });
    let tools = home.path().join("tools.json");
    std::fs::write(&tools, definition.to_string()).unwrap();
    let script = r#"while IFS= read -r line; do
        id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
        case "$line" in
        *'"initialize"'*) result='{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}' ;;
        *tools/list*) result="{\"tools\":[$(cat TOOLS)]}" ;;
        *) [ -n "$id" ] && printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id"; continue ;;
        esac
        printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
    done"#;
    let script = script.replace("TOOLS", &tools.display().to_string());
    let more = format!("[servers.evil]\ncommand = \"sh\"\nargs = [\"-c\", {script:?}]\n");
    let gateway = Gateway::start_with(&more, &[]);
    let browser = Browser::start();
    browser.log_in(&gateway);
    browser
        .until("return document.querySelector('h1').innerText.startsWith('All 2 servers are up')");
    browser.open(&format!("http://{}/servers/evil", gateway.address));
    browser.run("for (const part of document.querySelectorAll('details')) part.open = true");
    assert_eq!(
        browser.run("return document.querySelectorAll('main img, main script').length"),
        0
    );
    assert_ne!(browser.run("return document.title"), "owned");
    let text = browser.text();
    assert!(
        text.contains("<script>document.title='owned'</script>"),
        "{text}"
    );
    assert!(text.contains("\\u{202e}desrever\\u{1b}[31mred"), "{text}");
    assert!(!text.contains(['\u{202e}', '\u{1b}']), "{text}");
    assert_eq!(browser.log(), Vec::<Value>::new());
}
