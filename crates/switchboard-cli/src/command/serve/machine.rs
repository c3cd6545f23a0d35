//! The gateway for all clients of a machine, over HTTP and over the Unix socket.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use switchboard::config::{self, Config, ConfigErrors, Diagnostic, GatewayConfig};
use switchboard::reload::{ConfigSource, ReloadReport};
use switchboard::secret::{Redactor, Secret};
use switchboard::sync::lock;
use switchboard::{BoxFuture, Host, ServerName};
use switchboard_gateway::audit::AuditLog;
use switchboard_gateway::cluster::Alone;
use switchboard_gateway::edge::http::{HttpEdge, HttpEdgeSettings, HttpLimits, PublicUrl};
use switchboard_gateway::edge::socket::{BoundSocket, SocketCommands, SocketEdge};
use switchboard_gateway::tokens::ClientTokens;
use switchboard_gateway::{
    Gateway, GatewaySettings, Operations, OperatorPage, ServerSelection, Traces,
};
use tokio::sync::Notify;
use tokio::sync::watch::Receiver;

use super::{LAST_SPANS, ServeArgs, log};
use crate::arguments::Options;
use crate::command::watch;
use crate::config_secrets::ConfigSecrets;
use crate::failure::{Code, Failure};
use crate::gateway_record::GatewayRecord;
use crate::paths::Paths;
use crate::setup::Setup;
use crate::{hints, output};

pub(super) fn run(
    options: &Options,
    args: &ServeArgs,
    mut setup: Setup,
    selection: ServerSelection,
) -> Result<u8, Failure> {
    // Before any server starts: an address in use is reported at once.
    let listener = args.http.as_deref().map(|address| listen(address, args));
    let listener = listener.transpose()?;
    let address = listener
        .as_ref()
        .and_then(|listener| listener.local_addr().ok());
    let reload = Reload {
        paths: setup.paths.clone(),
        options: options.clone(),
        naming: args.names.map(|_| setup.config.naming),
        overrides_public_url: args.public_url.is_some(),
        address,
        only_server: match &selection {
            ServerSelection::One(server) => Some(server.clone()),
            ServerSelection::All => None,
        },
        secrets: setup.secrets(),
        known_secrets: Arc::new(Mutex::new(setup.secrets().of(&setup.config))),
        running: None,
        is_watcher: false,
    };
    reload.adjust(&mut setup.config);
    let files = setup.paths.config_files(options).into_iter();
    let machine = MachineGateway {
        args,
        selection,
        listener,
        socket_path: setup.paths.gateway_socket(options),
        public_url: public_url(args, &setup.config.gateway)?,
        config: setup.config.gateway.clone(),
        config_files: files.map(|file| file.path).collect(),
        redactor: setup.redactor(),
        reload,
    };
    let outcome = setup.run_service(None, async |host, paths, closing, hang_up| {
        machine.serve(host, paths, closing, hang_up).await
    });
    match outcome {
        // Stopping a gateway by a signal is not an error; the exit code names the signal.
        Err(failure) if failure.code.is_signal() => {
            output::line_on_stderr(&format!(
                "the gateway was stopped ({}); none of its servers runs any more",
                failure.message
            ));
            Ok(failure.code as u8)
        }
        outcome => outcome,
    }
}

/// Everything that is known before the host starts.
struct MachineGateway<'a> {
    args: &'a ServeArgs,
    selection: ServerSelection,
    listener: Option<TcpListener>,
    socket_path: PathBuf,
    public_url: Option<PublicUrl>,
    config: GatewayConfig,
    config_files: Vec<PathBuf>,
    redactor: Redactor,
    reload: Reload,
}

impl MachineGateway<'_> {
    /// Serves clients until the gateway is closed or idle.
    async fn serve(
        mut self,
        host: &Host,
        paths: &Paths,
        closing: Receiver<bool>,
        hang_up: &Notify,
    ) -> Result<u8, Failure> {
        let audit = AuditLog::open(&paths.state, self.config.audit_arguments, self.redactor);
        let operations = Operations::new(host.clone(), audit, self.config_files);
        operations.set_words(
            |hint, server| hints::describe(hint, server, None),
            hints::command,
        );
        operations.set_tokens(ClientTokens::new(&paths.state));
        let settings = gateway_settings(&operations, self.args, &self.config, paths)?;
        let traces = settings.traces.clone();
        let gateway = Gateway::new(host.clone(), settings);
        self.reload.running = Some(RunningGateway {
            gateway: gateway.clone(),
            operations: operations.clone(),
            config: self.config,
        });
        let mut watched = self.reload.clone();
        watched.is_watcher = true;
        let options = &self.reload.options;
        let record = GatewayRecord::new(paths, options);
        watch::watch_config_with(host, paths, options, watched);
        let page = OperatorPage::new(operations.clone()).map_err(|error| {
            let message = format!("the status page cannot be served: {error}");
            Failure::new(Code::Usage, message)
        })?;
        let page = Arc::new(
            page.with_open_metrics(self.args.metrics_open)
                .with_listing(self.args.listing.settings()),
        );
        let commands = Arc::new(GatewayCommands {
            page: page.clone(),
            operations: operations.clone(),
            host: host.clone(),
            reload: self.reload,
        });
        let socket = bind_socket(&self.socket_path, &record)?;
        if socket.is_none() && self.args.detached {
            // Another gateway started first, and serves the clients.
            return Ok(0);
        }
        if socket.is_none() {
            output::notice(
                "another gateway runs with these configuration files: `switchboard attach`, `switchboard approvals` and `switchboard reload` use that one",
            );
        }
        let socket = socket.map(|socket| {
            let selection = self.selection.clone();
            SocketEdge::serve(gateway.clone(), selection, socket, commands.clone())
        });
        let http = self.listener.map(|listener| {
            let (args, url) = (self.args, self.public_url);
            serve_http(&gateway, listener, self.selection, args, url, paths, page)
        });
        let http = http.transpose()?;
        let has_http = http.is_some();
        tokio::select! {
            () = run_until_closed(closing, hang_up, &commands, until_idle(socket.as_ref(), self.args)) => {}
            () = log::report(host, &operations, has_http) => {}
        }
        tokio::join!(close_http(http), close_socket(socket));
        gateway.disconnect_all();
        operations.audit().close().await;
        traces.close(LAST_SPANS).await;
        Ok(0)
    }
}

fn gateway_settings(
    operations: &Arc<Operations>,
    args: &ServeArgs,
    config: &GatewayConfig,
    paths: &Paths,
) -> Result<GatewaySettings, Failure> {
    let cluster = Alone::open(&paths.state).map_err(|error| {
        let folder = paths.state.display();
        Failure::new(
            Code::Usage,
            format!("cannot open the gateway's keys in {folder}: {error}"),
        )
    })?;
    Ok(GatewaySettings {
        traces: Traces::from_environment(),
        listing: args.listing.settings(),
        lost_server_grace: config.lost_server_grace,
        cluster: Arc::new(cluster),
        review_words: Some(|_| Some(format!("review it with {}", hints::command(&["approvals"])))),
        ..operations.settings()
    })
}

/// The socket of this gateway; `None` if another gateway listens on it.
fn bind_socket(path: &Path, record: &GatewayRecord) -> Result<Option<BoundSocket>, Failure> {
    BoundSocket::bind(path, &record.as_json()).map_err(|error| {
        let failure = |fact: &str| {
            let message = format!("cannot listen on {}: {fact}", path.display());
            Failure::new(Code::Usage, message)
        };
        match is_too_long(path) {
            true => failure("the path of the socket is too long")
                .hint("set XDG_RUNTIME_DIR to a shorter folder"),
            false => failure(&error.to_string()),
        }
    })
}

/// Whether the operating system takes no socket of such a long path.
fn is_too_long(path: &Path) -> bool {
    std::os::unix::net::SocketAddr::from_pathname(path).is_err()
}

/// Completes when a detached gateway has had no client for a while.
async fn until_idle(socket: Option<&SocketEdge>, args: &ServeArgs) {
    match socket {
        Some(socket) if args.detached => {
            socket.until_idle(args.idle_timeout).await;
        }
        _ => std::future::pending().await,
    }
}

async fn close_http(edge: Option<HttpEdge>) {
    if let Some(edge) = edge {
        edge.close().await;
    }
}

async fn close_socket(edge: Option<SocketEdge>) {
    if let Some(edge) = edge {
        edge.close().await;
    }
}

/// Listens on an address. Addresses other than loopback need a host name, to detect web pages that
/// point a host name of their own at this machine (DNS rebinding).
fn listen(address: &str, args: &ServeArgs) -> Result<TcpListener, Failure> {
    let usage = |message: String| Failure::new(Code::Usage, message);
    let addresses: Vec<SocketAddr> = address
        .to_socket_addrs()
        .map_err(|error| {
            usage(format!("--http {address}: {error}"))
                .hint("expected an address with a port, such as 127.0.0.1:8808")
        })?
        .collect();
    let is_public = addresses.iter().any(|address| !address.ip().is_loopback());
    if is_public && args.allow_host.is_empty() {
        return Err(usage(format!(
            "--http {address} can be reached from other machines"
        ))
        .hint("use 127.0.0.1, or name the host that clients use with --allow-host"));
    }
    TcpListener::bind(&*addresses)
        .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
        .map_err(|error| {
            let failure = usage(format!("cannot listen on {address}: {error}"));
            match error.kind() {
                ErrorKind::AddrInUse => failure.hint(
                    "another gateway or program has this port; choose another, or 0 for any free one",
                ),
                ErrorKind::PermissionDenied => failure.hint("choose a port above 1023"),
                _ => failure,
            }
        })
}

/// `--public-url`, else that of the configuration.
fn public_url(args: &ServeArgs, config: &GatewayConfig) -> Result<Option<PublicUrl>, Failure> {
    let configured = config.public_url.as_deref().map(str::parse);
    match (&args.public_url, configured) {
        (Some(option), _) => Ok(Some(option.clone())),
        (None, Some(Err(error))) => Err(Failure::new(
            Code::Usage,
            format!("public_url in [gateway]: {error}"),
        )),
        (None, configured) => Ok(configured.and_then(Result::ok)),
    }
}

fn serve_http(
    gateway: &Gateway,
    listener: TcpListener,
    selection: ServerSelection,
    args: &ServeArgs,
    public_url: Option<PublicUrl>,
    paths: &Paths,
    page: Arc<OperatorPage>,
) -> Result<HttpEdge, Failure> {
    let tokens = ClientTokens::new(&paths.state);
    let serve = || {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let settings = HttpEdgeSettings {
            tokens,
            selection,
            routes: page.clone(),
            hosts: args.allow_host.clone(),
            origins: args.allow_origin.clone(),
            public_url,
            limits: HttpLimits::default(),
        };
        HttpEdge::serve(gateway.clone(), listener, settings)
    };
    let edge = serve()
        .map_err(|error| Failure::new(Code::Usage, format!("HTTP cannot be served: {error}")))?;
    output::line_on_stderr(&format!("listening on http://{}/mcp", edge.address()));
    if let Ok(path) = page.login_path() {
        let address = edge.address();
        output::notice(&format!(
            "status page (this link logs one browser in, once): http://{address}{path}"
        ));
    }
    Ok(edge)
}

/// Reloads on SIGHUP as far as no approval is needed, until the gateway closes or is idle.
async fn run_until_closed(
    mut closing: Receiver<bool>,
    hang_up: &Notify,
    commands: &GatewayCommands,
    until_idle: impl Future<Output = ()>,
) {
    let mut until_idle = std::pin::pin!(until_idle);
    loop {
        tokio::select! {
            _ = closing.wait_for(|closing| *closing) => return,
            () = until_idle.as_mut() => return,
            () = hang_up.notified() => output::notice(&match commands.reload_unattended().await {
                Ok(summary) => summary,
                Err(error) => format!("the configuration was not reloaded: {error}"),
            }),
        }
    }
}

/// Reads the configuration again: for `switchboard reload`, on SIGHUP, and when a file changes.
#[derive(Clone)]
struct Reload {
    paths: Paths,
    options: Options,
    /// `--names`, which the files do not change.
    naming: Option<switchboard::name::Style>,
    /// Whether `--public-url` is given, which the files do not change either.
    overrides_public_url: bool,
    /// Where this gateway serves HTTP, if it does.
    address: Option<SocketAddr>,
    /// The server of `--names identity`.
    only_server: Option<ServerName>,
    secrets: ConfigSecrets,
    /// Those of all configurations so far: a server that keeps running, or a client, may still use them.
    known_secrets: Arc<Mutex<Vec<Secret>>>,
    /// Set once the gateway runs.
    running: Option<RunningGateway>,
    /// Whether it reads a file because that has changed.
    is_watcher: bool,
}

/// What a reload adjusts besides the host.
#[derive(Clone)]
struct RunningGateway {
    gateway: Gateway,
    operations: Arc<Operations>,
    /// The settings that the gateway started with.
    config: GatewayConfig,
}

impl RunningGateway {
    /// Applies the settings of a configuration that the host has accepted.
    fn apply(&self, config: &GatewayConfig) {
        let GatewayConfig {
            audit_arguments,
            lost_server_grace,
            // Names the address in documents and among the hosts of the edge: fixed at the start.
            public_url: _,
        } = config;
        self.operations.audit().set_arguments(*audit_arguments);
        self.gateway.set_lost_server_grace(*lost_server_grace);
        self.operations.set_config_read();
    }
}

impl ConfigSource for Reload {
    fn load(&self) -> Result<Config, ConfigErrors> {
        let mut config = config::load(&self.paths.config_files(&self.options))?;
        self.check_only_server(&config)?;
        self.adjust(&mut config);
        // Before a server of it can start.
        self.add_secrets(&config);
        Ok(config)
    }

    fn accepted(&self, config: &Config) {
        if let Some(running) = &self.running {
            running.apply(&config.gateway);
            if self.is_watcher {
                running.operations.record_reload("", "a changed file");
            }
        }
    }
}

impl Reload {
    /// With `--names identity` the gateway offers the server that it started with, and no other.
    fn check_only_server(&self, config: &Config) -> Result<(), ConfigErrors> {
        let Some(only) = &self.only_server else {
            return Ok(());
        };
        if config.servers.keys().eq([only]) {
            return Ok(());
        }
        let file = self.paths.config_files(&self.options).into_iter().next();
        let file = Arc::new(file.map(|file| file.path).unwrap_or_default());
        let message = format!(
            "with `--names identity` the gateway offers only the server \"{only}\", and others are configured now; restart the gateway"
        );
        Err(ConfigErrors(vec![Diagnostic::of_file(&file, message)]))
    }

    /// The audit log leaves out the secrets of this configuration, too.
    fn add_secrets(&self, config: &Config) {
        let mut known = lock(&self.known_secrets);
        for secret in self.secrets.of(config) {
            if !known.iter().any(|known| known.expose() == secret.expose()) {
                known.push(secret);
            }
        }
        if let Some(running) = &self.running {
            let redactor = Redactor::new(known.iter().cloned());
            running.operations.audit().set_redactor(redactor);
        }
    }

    /// What a reload has read and cannot apply.
    fn needs_restart(&self, config: &GatewayConfig) -> Option<&'static str> {
        let running = self.running.as_ref()?;
        let is_changed = running.config.public_url != config.public_url;
        (is_changed && !self.overrides_public_url)
            .then_some("public_url in [gateway] counts after a restart of the gateway")
    }

    fn adjust(&self, config: &mut Config) {
        if let Some(naming) = self.naming {
            config.naming = naming;
        }
        let Some(address) = self.address else {
            return;
        };
        for name in config.leave_out_gateway_at(address) {
            output::notice(&format!(
                "server \"{name}\" is left out: its URL leads to this gateway itself ({address})"
            ));
        }
    }
}

/// Runs the commands that arrive at the socket.
struct GatewayCommands {
    page: Arc<OperatorPage>,
    operations: Arc<Operations>,
    host: Host,
    reload: Reload,
}

impl GatewayCommands {
    /// Reloads for `switchboard reload`; returns its answer, with all that was accepted.
    async fn reload(&self) -> Result<Value, ConfigErrors> {
        let config = self.reload.load()?;
        let report = self.host.reload(config.clone()).await?;
        const BY: &str = "switchboard reload";
        self.operations.record_accepted(&report, BY);
        let accepted = report.accepted.iter().map(|change| {
            let server = change.server.as_ref().map(ServerName::as_str);
            json!({"server": server, "reason": change.reason, "lines": change.lines})
        });
        let accepted: Vec<_> = accepted.collect();
        let summary = self.finish_reload(&report, &config, BY);
        Ok(json!({ "summary": summary, "accepted": accepted }))
    }

    /// Reloads on SIGHUP, which any program of the same user can send: what would start or allow
    /// more waits, as after an edit of a watched file.
    async fn reload_unattended(&self) -> Result<String, ConfigErrors> {
        let config = self.reload.load()?;
        let report = self.host.reload_unattended(config.clone()).await?;
        Ok(self.finish_reload(&report, &config, "SIGHUP"))
    }

    /// Says in one line what has changed.
    fn finish_reload(&self, report: &ReloadReport, config: &Config, by: &'static str) -> String {
        let needs_restart = self.reload.needs_restart(&config.gateway);
        self.reload.accepted(config);
        let summary = summary(report, needs_restart);
        self.operations.record_reload(&summary, by);
        summary
    }
}

impl SocketCommands for GatewayCommands {
    fn run<'a>(&'a self, command: &'a str) -> BoxFuture<'a, String> {
        Box::pin(async move {
            if let Some(answer) = self.operations.command(command).await {
                return answer;
            }
            let answer = match command {
                "page" => match (self.reload.address, self.page.login_path()) {
                    (Some(address), Ok(path)) => {
                        json!({ "url": format!("http://{address}{path}") })
                    }
                    (None, _) => {
                        json!({ "error": "the gateway does not serve HTTP, so it has no status page" })
                    }
                    (_, Err(error)) => json!({ "error": error.to_string() }),
                },
                "reload" => match self.reload().await {
                    Ok(answer) => answer,
                    Err(error) => json!({ "error": error.to_string() }),
                },
                _ => json!({ "error": format!("the gateway has no command {command:?}") }),
            };
            answer.to_string()
        })
    }
}

/// A reload in one line.
fn summary(report: &ReloadReport, needs_restart: Option<&str>) -> String {
    let names = |verb: &str, servers: &[ServerName]| {
        let names: Vec<_> = servers.iter().map(ServerName::as_str).collect();
        (!names.is_empty()).then(|| format!("{verb} {}", names.join(", ")))
    };
    let done: Vec<_> = [
        names("added", &report.added),
        names("restarted", &report.restarted),
        names("stopped", &report.stopped),
        names("adjusted", &report.adjusted),
        names("removed", &report.removed),
        report.rules_changed.then(|| "rules changed".to_owned()),
    ]
    .into_iter()
    .flatten()
    .collect();
    let waiting = report.pending.iter().map(|change| match &change.server {
        Some(server) => format!("{server} waits: {}", change.reason),
        None => format!("waiting: {}", change.reason),
    });
    let needs_restart = needs_restart.map(str::to_owned);
    let parts: Vec<_> = done
        .into_iter()
        .chain(waiting)
        .chain(needs_restart)
        .collect();
    match parts.is_empty() {
        true => "nothing has changed".to_owned(),
        false => parts.join("; "),
    }
}
