//! How each gateway of `bench gateway` is started and connected to.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tokio::process::Child;
use tokio::time::{sleep, timeout};

use crate::cores;
use crate::gateway::{LONG_LIST, Way};
use crate::http::{self, Answers, DEMO_MARKER};
use crate::measure::{Contestant, EchoTool, Era, Fault, Tool};
use crate::options::Options;
use crate::raw::{Process, Raw};
use crate::raw_http::RawHttp;
use crate::{pump, rmcp_gateway, server};

/// How long a gateway may take until its first call is answered.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// The name of the tool through our gateway.
pub(crate) const OUR_ECHO: &str = "mcp__demo__echo";

/// What is the same for all gateways of a run.
pub(crate) struct Setting {
    era: Era,
    /// Where `baseline/gateways` put the others.
    peers: Option<PathBuf>,
    without: Vec<&'static str>,
    /// Configuration files, state, and the logs of gateways.
    pub(crate) folder: TempDir,
    /// This program, which is the server too.
    pub(crate) program: String,
    /// `switchboard`, beside this program.
    switchboard: PathBuf,
    pins: Pins,
    /// Who is missing, for the report.
    pub(crate) notes: Vec<String>,
}

/// Client and server share one core, the gateway has the other.
#[derive(Clone, Copy)]
enum Pins {
    Apart { ends: usize, gateway: usize },
    None,
}

/// A gateway with a client.
pub(crate) struct Connected {
    pub(crate) who: &'static str,
    pub(crate) client: GatewayClient,
    /// The gateway's, for its memory.
    pub(crate) process_id: u32,
    /// It is given fewer calls.
    pub(crate) is_slow: bool,
    /// What else must live as long.
    _processes: Vec<Running>,
}

/// A process that ends with its holder.
enum Running {
    Gateway { _process: Process },
    Server { _process: Child },
}

/// A client of a gateway.
#[derive(Clone)]
pub(crate) enum GatewayClient {
    Lines(Raw),
    Http(RawHttp),
}

impl GatewayClient {
    /// Before a measurement with `width` calls in flight. Over HTTP the connections are new ones: while
    /// others were measured, a gateway may have closed those of the last round.
    pub(crate) async fn prepare(&self, width: usize) -> Result<(), Fault> {
        match self {
            Self::Lines(_) => Ok(()),
            Self::Http(raw) => raw.renew_connections(width).await,
        }
    }

    /// How many connections were opened until now; one, over standard streams.
    pub(crate) fn opened_connections(&self) -> u64 {
        match self {
            Self::Lines(_) => 1,
            Self::Http(raw) => raw.opened_connections(),
        }
    }

    pub(crate) async fn list(&self) -> Result<usize, Fault> {
        match self {
            Self::Lines(raw) => raw.list().await,
            Self::Http(_) => Err("lists are measured over stdio".into()),
        }
    }
}

impl Contestant for GatewayClient {
    async fn call(&self, tool: Tool) -> Result<usize, Fault> {
        match self {
            Self::Lines(raw) => raw.call(tool).await,
            Self::Http(raw) => raw.call(tool).await,
        }
    }
}

impl Setting {
    pub(crate) fn new(options: &Options) -> Result<Self, Fault> {
        let program = std::env::current_exe()?;
        let switchboard = program.with_file_name("switchboard");
        if !switchboard.exists() {
            let path = switchboard.display();
            return Err(format!("{path} is missing: build it with --bin switchboard").into());
        }
        let pins = match options.pin.apply()?.as_slice() {
            [_, core] => {
                let gateway = core.parse()?;
                let ends = cores::current()?;
                Pins::Apart { ends, gateway }
            }
            _ => Pins::None,
        };
        let all = ["rmcp", "attach", "peers"];
        Ok(Self {
            era: options.era,
            peers: options.peers.clone(),
            without: all.into_iter().filter(|who| !options.with(who)).collect(),
            folder: tempfile::tempdir()?,
            program: program.to_str().ok_or("the path is not text")?.to_owned(),
            switchboard,
            pins,
            notes: Vec::new(),
        })
    }

    /// All gateways of one table, each with its first call answered.
    pub(crate) async fn start(&mut self, way: Way) -> Result<Vec<Connected>, Fault> {
        let mut gateways = Vec::new();
        match way {
            Way::StdioToStdio => {
                let server = self.demo_words();
                gateways.push(self.pump(&server).await?);
                if self.with("rmcp") {
                    gateways.push(self.naive(&server).await?);
                }
                let config = self.config("stdio.toml", &self.stdio_entry(&server))?;
                gateways.push(self.serve(&config, OUR_ECHO).await?);
                if self.with("attach") {
                    gateways.push(self.attach(&config).await?);
                }
                gateways.extend(self.fastmcp_over_stdio(&server).await?);
            }
            Way::HttpToHttp => {
                let (server, url) = self.demo_over_http().await?;
                gateways.push(self.tcp_pump(&url, server).await?);
                let entry = format!("[servers.demo]\nurl = {url:?}\n");
                let config = self.config("http.toml", &entry)?;
                gateways.push(self.serve_http(&config).await?);
                gateways.extend(
                    self.crate_proxy(&format!("transport = \"http\"\nurl = {url:?}\n"))
                        .await?,
                );
            }
            Way::HttpToStdio => {
                let server = self.demo_words();
                gateways.push(self.http_pump(&server).await?);
                let config = self.config("stdio.toml", &self.stdio_entry(&server))?;
                gateways.push(self.serve_http(&config).await?);
                if self.with("rmcp") {
                    gateways.push(self.naive_over_http(&server).await?);
                }
                let (command, args) = (&server[0], &server[1..]);
                let entry =
                    format!("transport = \"stdio\"\ncommand = {command:?}\nargs = {args:?}\n");
                gateways.extend(self.crate_proxy(&entry).await?);
                gateways.extend(self.others_over_http(&server).await?);
            }
        }
        Ok(gateways)
    }

    /// Those that are measured with a list of many tools.
    pub(crate) async fn start_with_long_list(&mut self) -> Result<Vec<Connected>, Fault> {
        let words = [
            &self.program,
            server::MARKER,
            "--tools",
            &LONG_LIST.to_string(),
        ];
        let server: Vec<String> = words.map(str::to_owned).to_vec();
        let server = [server, vec![format!("--{}", self.era.name())]].concat();
        let echo = EchoTool::of_floor();
        let mut gateways = vec![
            self.lines("pump", self.pump_command(&server), echo.clone())
                .await?,
        ];
        if self.with("rmcp") {
            let command = self.naive_command(&server);
            gateways.push(self.lines("rmcp", command, echo.clone()).await?);
        }
        let config = self.config("long.toml", &self.stdio_entry(&server))?;
        let name = EchoTool {
            name: OUR_ECHO.into(),
            ..echo
        };
        let command = self.our_command(&config, &["serve"]);
        gateways.push(self.lines("us", command, name).await?);
        Ok(gateways)
    }

    fn with(&self, who: &str) -> bool {
        !self.without.contains(&who)
    }

    /// The demo server over stdio.
    pub(crate) fn demo_words(&self) -> Vec<String> {
        let mut words = vec![self.program.clone(), DEMO_MARKER.to_owned()];
        words.extend(self.core_flags());
        words.extend(["--era".to_owned(), self.era.name().to_owned()]);
        words
    }

    async fn demo_over_http(&self) -> Result<(Child, String), Fault> {
        http::serve(&self.core_flags(), Answers::Json).await
    }

    fn core_flags(&self) -> Vec<String> {
        match self.pins {
            Pins::Apart { ends, .. } => vec!["--core".to_owned(), ends.to_string()],
            Pins::None => Vec::new(),
        }
    }

    pub(crate) fn stdio_entry(&self, server: &[String]) -> String {
        let (command, args) = (&server[0], &server[1..]);
        format!("[servers.demo]\ncommand = {command:?}\nargs = {args:?}\n")
    }

    /// The gate asks unless a rule allows; the audit log is always on.
    pub(crate) fn config(&self, name: &str, entry: &str) -> Result<PathBuf, Fault> {
        let path = self.folder.path().join(name);
        let rules = "[permissions]\nmode = \"ask\"\nallow = [\"demo\"]\n";
        std::fs::write(&path, format!("{rules}{entry}"))?;
        Ok(path)
    }

    pub(crate) fn our_command(&self, config: &Path, words: &[&str]) -> Command {
        let mut command = Command::new(&self.switchboard);
        command.arg("-c").arg(config).args(words);
        for (variable, folder) in [
            ("HOME", "home"),
            ("XDG_CONFIG_HOME", "config"),
            ("XDG_STATE_HOME", "state"),
            ("XDG_RUNTIME_DIR", "run"),
        ] {
            command.env(variable, self.folder.path().join(folder));
        }
        command
    }

    fn pump_command(&self, server: &[String]) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(pump::MARKER).args(server);
        command
    }

    fn naive_command(&self, server: &[String]) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(rmcp_gateway::MARKER).args(server);
        command
    }

    async fn pump(&self, server: &[String]) -> Result<Connected, Fault> {
        let echo = EchoTool::of_demo("echo");
        self.lines("pump", self.pump_command(server), echo).await
    }

    async fn naive(&self, server: &[String]) -> Result<Connected, Fault> {
        let echo = EchoTool::of_demo("echo");
        self.lines("rmcp", self.naive_command(server), echo).await
    }

    pub(crate) async fn serve(&self, config: &Path, echo: &str) -> Result<Connected, Fault> {
        let command = self.our_command(config, &["serve"]);
        self.lines("us", command, EchoTool::of_demo(echo)).await
    }

    /// `attach` to a gateway that runs already.
    async fn attach(&self, config: &Path) -> Result<Connected, Fault> {
        let gateway = self.serve_http(config).await?;
        let command = self.our_command(config, &["attach", "--as", "bench"]);
        let echo = EchoTool::of_demo(OUR_ECHO);
        let mut attached = self.lines("attach", command, echo).await?;
        attached.process_id = gateway.process_id;
        attached._processes = gateway._processes;
        Ok(attached)
    }

    pub(crate) async fn serve_http(&self, config: &Path) -> Result<Connected, Fault> {
        let token = self.token(config)?;
        let port = free_port()?;
        let address = format!("127.0.0.1:{port}");
        let command = self.our_command(config, &["serve", "--http", &address]);
        let url = format!("http://{address}/mcp");
        let echo = EchoTool::of_demo(OUR_ECHO);
        self.http("us", command, &url, echo, Some(&token)).await
    }

    /// A token for our gateways, made once.
    pub(crate) fn token(&self, config: &Path) -> Result<String, Fault> {
        let output = self
            .our_command(config, &["token", "new", "bench"])
            .output()?;
        let token = String::from_utf8(output.stdout)?.trim().to_owned();
        // A second gateway of the run has it already.
        let saved = self.folder.path().join("token");
        if !output.status.success() {
            return Ok(std::fs::read_to_string(&saved)?);
        }
        std::fs::write(&saved, &token)?;
        Ok(token)
    }

    async fn tcp_pump(&self, url: &str, server: Child) -> Result<Connected, Fault> {
        let address = url.trim_start_matches("http://").trim_end_matches("/mcp");
        let mut command = Command::new(&self.program);
        command.args([pump::MARKER, "--tcp", address]);
        let mut pump = self.printing_address("pump", command).await?;
        pump._processes.push(Running::Server { _process: server });
        Ok(pump)
    }

    async fn http_pump(&self, server: &[String]) -> Result<Connected, Fault> {
        let mut command = Command::new(&self.program);
        command.args([pump::MARKER, "--http"]).args(server);
        self.printing_address("pump", command).await
    }

    async fn naive_over_http(&self, server: &[String]) -> Result<Connected, Fault> {
        let mut command = Command::new(&self.program);
        command.args([rmcp_gateway::MARKER, "--http"]).args(server);
        self.printing_address("rmcp", command).await
    }

    /// A gateway whose first line is the address that it listens on.
    async fn printing_address(
        &self,
        who: &'static str,
        mut command: Command,
    ) -> Result<Connected, Fault> {
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = Process(self.pinned(|| command.spawn())?);
        let output = process.0.stdout.take().ok_or("no stdout")?;
        let mut address = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut address)?;
        let url = format!("http://{}/mcp", address.trim());
        let echo = EchoTool::of_demo("echo");
        let client = RawHttp::open_with(&url, self.era, echo, None).await?;
        first_call(who, &client).await?;
        Ok(Connected {
            who,
            client: GatewayClient::Http(client),
            process_id: process.0.id(),
            is_slow: false,
            _processes: vec![Running::Gateway { _process: process }],
        })
    }

    /// Starts a gateway that speaks over its standard streams.
    pub(crate) async fn lines(
        &self,
        who: &'static str,
        mut command: Command,
        echo: EchoTool,
    ) -> Result<Connected, Fault> {
        command.stderr(self.log(who)?);
        let started = self.pinned(|| Raw::spawn(command))?;
        let client = timeout(START_TIMEOUT, Raw::open(started, self.era, echo));
        let client = client.await.map_err(|_| format!("{who} did not start"))??;
        let process_id = client.process_id();
        // Our lists come before the servers do; calls wait for them.
        first_call(who, &client).await?;
        Ok(Connected {
            who,
            client: GatewayClient::Lines(client),
            process_id,
            is_slow: false,
            _processes: Vec::new(),
        })
    }

    /// Starts a gateway that listens at this URL.
    async fn http(
        &self,
        who: &'static str,
        mut command: Command,
        url: &str,
        echo: EchoTool,
        token: Option<&str>,
    ) -> Result<Connected, Fault> {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(self.log(who)?);
        let process = Process(self.pinned(|| command.spawn())?);
        let connecting = async {
            loop {
                let opened = RawHttp::open_with(url, self.era, echo.clone(), token).await;
                if let Ok(client) = opened
                    && first_call(who, &client).await.is_ok()
                {
                    return client;
                }
                sleep(Duration::from_millis(100)).await;
            }
        };
        let client = timeout(START_TIMEOUT, connecting).await;
        let client = client.map_err(|_| format!("{who} does not answer at {url}"))?;
        Ok(Connected {
            who,
            client: GatewayClient::Http(client),
            process_id: process.0.id(),
            is_slow: false,
            _processes: vec![Running::Gateway { _process: process }],
        })
    }

    fn log(&self, who: &str) -> Result<Stdio, Fault> {
        let file = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.folder.path().join(format!("{who}.log")))?;
        Ok(file.into())
    }

    /// Children inherit the core of the thread that starts them; servers choose their own.
    fn pinned<T>(&self, start: impl FnOnce() -> T) -> T {
        let Pins::Apart { ends, gateway } = self.pins else {
            return start();
        };
        // A core that was allowed before still is.
        let _ = cores::to_core(gateway);
        let started = start();
        let _ = cores::to_core(ends);
        started
    }

    /// The folder of the others, if this program is in it.
    fn peer(&mut self, who: &'static str, program: &str) -> Option<PathBuf> {
        if !self.with("peers") || self.era == Era::Modern {
            return None;
        }
        let folder = self.peers.clone().unwrap_or_default();
        let path = folder.join(program);
        if self.peers.is_some() && path.exists() {
            return Some(path);
        }
        let note = format!("{who}: not installed (bench/baseline/gateways DIR, then --peers DIR)");
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
        None
    }

    /// The crate `mcp-proxy`.
    async fn crate_proxy(&mut self, backend: &str) -> Result<Option<Connected>, Fault> {
        let Some(program) = self.peer("mcp-proxy.rs", "cargo/bin/mcp-proxy") else {
            return Ok(None);
        };
        let port = free_port()?;
        let config = self.folder.path().join(format!("mcp-proxy-{port}.toml"));
        let text = format!(
            "[proxy]\nname = \"bench\"\nseparator = \"/\"\n[proxy.listen]\nhost = \"127.0.0.1\"\nport = {port}\n\
             [[backends]]\nname = \"demo\"\n{backend}"
        );
        std::fs::write(&config, text)?;
        let mut command = Command::new(program);
        command.arg("--config").arg(config);
        let url = format!("http://127.0.0.1:{port}/");
        Ok(self.other("mcp-proxy.rs", command, &url, "demo/echo").await)
    }

    async fn fastmcp_over_stdio(&mut self, server: &[String]) -> Result<Option<Connected>, Fault> {
        let Some(program) = self.peer("fastmcp", "venv-fastmcp/bin/fastmcp") else {
            return Ok(None);
        };
        let mut command = Command::new(program);
        command.arg("run").arg(self.servers_file(server)?);
        command.args(["--no-banner", "--log-level", "ERROR"]);
        let echo = EchoTool::of_demo("echo");
        match self.lines("fastmcp", command, echo).await {
            Ok(gateway) => Ok(Some(slow(gateway))),
            Err(fault) => {
                self.notes.push(format!("fastmcp: does not run: {fault}"));
                Ok(None)
            }
        }
    }

    async fn others_over_http(&mut self, server: &[String]) -> Result<Vec<Connected>, Fault> {
        let mut gateways = Vec::new();
        let mut programs = Vec::new();
        if let Some(program) = self.peer("mcp-proxy.py", "venv-mcp-proxy/bin/mcp-proxy") {
            let port = free_port()?;
            let mut command = Command::new(program);
            command
                .args(["--port", &port.to_string(), "--"])
                .args(server);
            programs.push(("mcp-proxy.py", command, port));
        }
        if let Some(program) = self.peer("fastmcp", "venv-fastmcp/bin/fastmcp") {
            let port = free_port()?;
            let mut command = Command::new(program);
            command.arg("run").arg(self.servers_file(server)?);
            command.args(["--transport", "http", "--port", &port.to_string()]);
            command.args(["--no-banner", "--log-level", "ERROR"]);
            programs.push(("fastmcp", command, port));
        }
        if let Some(program) = self.peer("mcp-proxy.js", "node_modules/.bin/mcp-proxy") {
            let port = free_port()?;
            let mut command = Command::new(program);
            command
                .args(["--port", &port.to_string(), "--"])
                .args(server);
            programs.push(("mcp-proxy.js", command, port));
        }
        if let Some(program) = self.peer("supergateway", "node_modules/.bin/supergateway") {
            let port = free_port()?;
            let mut command = Command::new(program);
            command.args([
                "--stdio",
                &server.join(" "),
                "--outputTransport",
                "streamableHttp",
            ]);
            command.args([
                "--stateful",
                "--logLevel",
                "none",
                "--port",
                &port.to_string(),
            ]);
            programs.push(("supergateway", command, port));
        }
        for (who, command, port) in programs {
            let url = format!("http://127.0.0.1:{port}/mcp");
            gateways.extend(self.other(who, command, &url, "echo").await);
        }
        Ok(gateways)
    }

    /// Another gateway. One that does not run is left out.
    async fn other(
        &mut self,
        who: &'static str,
        command: Command,
        url: &str,
        echo: &str,
    ) -> Option<Connected> {
        match self
            .http(who, command, url, EchoTool::of_demo(echo), None)
            .await
        {
            Ok(gateway) => Some(match who {
                "mcp-proxy.rs" => gateway,
                _ => slow(gateway),
            }),
            Err(fault) => {
                let log = std::fs::read_to_string(self.folder.path().join(format!("{who}.log")));
                let log = log.unwrap_or_default();
                let last = log.lines().rfind(|line| !line.trim().is_empty());
                let last = last.unwrap_or_default();
                self.notes
                    .push(format!("{who}: does not run: {fault} ({last})"));
                None
            }
        }
    }

    /// What most clients read: `mcpServers`.
    fn servers_file(&self, server: &[String]) -> Result<PathBuf, Fault> {
        let path = self.folder.path().join("mcp.json");
        let entry = serde_json::json!({"command": server[0], "args": server[1..]});
        let text = serde_json::json!({"mcpServers": {"demo": entry}}).to_string();
        std::fs::write(&path, text)?;
        Ok(path)
    }
}

fn slow(gateway: Connected) -> Connected {
    Connected {
        is_slow: true,
        ..gateway
    }
}

/// The whole way works: what came is what the server echoes, and no error in a result.
async fn first_call(who: &str, client: &impl FirstCall) -> Result<(), Fault> {
    let answer = client.echo().await?;
    let text = String::from_utf8_lossy(&answer);
    if text.contains("thirty-two characters of a text.") && !text.contains("\"isError\":true") {
        return Ok(());
    }
    Err(format!("{who}: the first call was answered {text:.400}").into())
}

/// The answer to a call of the echo tool as it came.
pub(crate) trait FirstCall {
    fn echo(&self) -> impl Future<Output = Result<bytes::Bytes, Fault>>;
}

impl FirstCall for Raw {
    async fn echo(&self) -> Result<bytes::Bytes, Fault> {
        self.call_for_answer(Tool::Echo).await
    }
}

impl FirstCall for RawHttp {
    async fn echo(&self) -> Result<bytes::Bytes, Fault> {
        Ok(self.call_for_answer(Tool::Echo).await?.freeze())
    }
}

/// Free when it was looked for: nobody else here takes ports meanwhile.
fn free_port() -> Result<u16, Fault> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
