//! The status page in a real browser: a call is approved on it, text of servers and clients stays
//! text, no policy is violated, narrow and wide, light and dark.
//!
//! Needs `chromium` and `chromedriver`. `SWITCHBOARD_SCREENSHOT=FILE` keeps a picture of the page.
#![allow(clippy::unwrap_used)]

mod support;

/// A gateway, and a client that speaks HTTP by hand.
#[path = "gateway_http/client.rs"]
#[allow(dead_code)]
mod client;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use client::{Gateway, PATIENCE, request};
use serde_json::{Value, json};

/// A browser with its driver.
struct Browser {
    driver: Child,
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
            driver,
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
        let answer: Value =
            serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"));
        assert!(answer["value"]["error"].is_null(), "{answer}");
        answer["value"].clone()
    }

    fn command(&self, path: &str, body: Value) -> Value {
        self.ask("POST", &format!("/session/{}{path}", self.session), &body)
    }

    fn open(&self, url: &str) {
        self.command("/url", json!({"url": url}));
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

    fn click(&self, selector: &str) {
        let found = self.command(
            "/element",
            json!({"using": "css selector", "value": selector}),
        );
        let id = found
            .as_object()
            .unwrap()
            .values()
            .next()
            .unwrap()
            .as_str()
            .unwrap();
        self.command(&format!("/element/{id}/click"), json!({}));
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

    /// What the browser logged, but for the icon that it looks for by itself.
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
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// What each of these would do if it were not text.
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
    let link = gateway.home.run(&["approvals", "--page"]);
    browser.open(link.stdout.trim_end());
    browser.until("return document.getElementById('live').textContent === 'live'");
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
        if let Some(file) = std::env::var_os("SWITCHBOARD_SCREENSHOT") {
            std::fs::write(file, browser.screenshot()).unwrap();
        }
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
    let shown = "return document.body.innerText";
    browser.open(&format!("http://{}/servers/broken", gateway.address));
    assert!(
        browser
            .run(shown)
            .as_str()
            .unwrap()
            .contains("<img src=x onerror=")
    );
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
        }
    }
    assert_ne!(colours[0], colours[1]);
    browser.use_scheme("light");
}

fn shell_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
