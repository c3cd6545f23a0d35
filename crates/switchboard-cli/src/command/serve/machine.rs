//! The gateway for all clients of a machine, over HTTP and over the Unix socket.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use switchboard::config::{self, Config, ConfigErrors, GatewayConfig};
use switchboard::reload::ReloadReport;
use switchboard::{BoxFuture, Host, ServerName};
use switchboard_gateway::audit::AuditLog;
use switchboard_gateway::cluster::Alone;
use switchboard_gateway::edge::http::{
    HttpEdge, HttpEdgeSettings, HttpLimits, PublicUrl, RESERVED_NAMES,
};
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
use crate::failure::{Code, Failure};
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
        address,
    };
    reload.adjust(&mut setup.config);
    let socket_path = setup.paths.gateway_socket(options);
    let public_url = public_url(args, &setup.config.gateway)?;
    let (config, redactor) = (setup.config.gateway.clone(), setup.redactor());
    let files = setup.paths.config_files(options).into_iter();
    let files = files.map(|file| file.path).collect();
    let outcome = setup.run_service(async |host, paths, closing, hang_up| {
        let audit = AuditLog::open(&paths.state, config.audit_arguments, redactor);
        let operations = Operations::new(host.clone(), audit, files);
        operations.set_hint_words(|hint, server| hints::describe(hint, server, None));
        let cluster = Alone::open(&paths.state).map_err(|error| {
            let folder = paths.state.display();
            Failure::new(Code::Usage, format!("the gateway's keys in {folder}: {error}"))
        })?;
        let traces = Traces::from_environment();
        let settings = GatewaySettings {
            traces: traces.clone(),
            listing: args.listing.settings(),
            lost_server_grace: config.lost_server_grace,
            cluster: Arc::new(cluster),
            review_words: Some(|_| {
                Some(format!("review it with {}", hints::command(&["approvals"])))
            }),
            ..operations.settings()
        };
        let gateway = Gateway::new(host.clone(), settings);
        let watched = reload.clone();
        watch::watch_config_with(host, paths, options, move || watched.load());
        let page = OperatorPage::new(operations.clone()).map_err(|error| {
            Failure::new(Code::Usage, format!("the status page cannot be served: {error}"))
        })?;
        let page = Arc::new(page.with_open_metrics(args.metrics_open));
        let commands = Arc::new(GatewayCommands {
            page: page.clone(),
            address,
            operations: operations.clone(),
            host: host.clone(),
            reload,
        });
        let socket = BoundSocket::bind(&socket_path).map_err(|error| {
            Failure::new(
                Code::Usage,
                format!("cannot listen on {}: {error}", socket_path.display()),
            )
        })?;
        if socket.is_none() && args.detached {
            // Another gateway started first, and serves the clients.
            return Ok(0);
        }
        if socket.is_none() {
            output::notice(
                "another gateway runs with these configuration files: `switchboard attach` and `switchboard reload` use that one",
            );
        }
        let socket = socket.map(|socket| {
            SocketEdge::serve(gateway.clone(), selection.clone(), socket, commands.clone())
        });
        let http = listener
            .map(|listener| serve_http(&gateway, listener, selection, args, public_url, paths, page))
            .transpose()?;
        let is_idle = async {
            match &socket {
                Some(socket) if args.detached => {
                    socket.until_idle(Duration::from_secs_f64(args.idle_timeout)).await
                }
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            () = run_until_closed(closing, hang_up, &commands, is_idle) => {}
            () = log::report(host, &operations) => {}
        }
        tokio::join!(
            async {
                if let Some(http) = http {
                    http.close().await;
                }
            },
            async {
                if let Some(socket) = socket {
                    socket.close().await;
                }
            },
        );
        gateway.disconnect_all();
        operations.audit().close().await;
        traces.close(LAST_SPANS).await;
        Ok(0)
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
    let written = config.public_url.as_deref().map(str::parse);
    match (&args.public_url, written) {
        (Some(given), _) => Ok(Some(given.clone())),
        (None, Some(Err(error))) => Err(Failure::new(
            Code::Usage,
            format!("public_url in [gateway]: {error}"),
        )),
        (None, written) => Ok(written.and_then(Result::ok)),
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
    for server in gateway.host().servers().iter() {
        let name = server.config.name.as_str();
        if RESERVED_NAMES.contains(&name) {
            output::notice(&format!(
                "server \"{name}\" has no path of its own: /mcp/{name} is reserved; rename it in its file"
            ));
        }
    }
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

/// Reloads on SIGHUP, until the gateway closes or is idle.
async fn run_until_closed(
    mut closing: Receiver<bool>,
    hang_up: &Notify,
    commands: &GatewayCommands,
    is_idle: impl Future<Output = ()>,
) {
    let mut is_idle = std::pin::pin!(is_idle);
    loop {
        tokio::select! {
            _ = closing.wait_for(|closing| *closing) => return,
            () = is_idle.as_mut() => return,
            () = hang_up.notified() => output::notice(&match commands.reload().await {
                Ok(report) => summary(&report),
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
    /// Where this gateway listens.
    address: Option<SocketAddr>,
}

impl Reload {
    fn load(&self) -> Result<Config, ConfigErrors> {
        let mut config = config::load(&self.paths.config_files(&self.options))?;
        self.adjust(&mut config);
        Ok(config)
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

/// The commands that the socket takes.
struct GatewayCommands {
    page: Arc<OperatorPage>,
    /// Where the page is, if it is served.
    address: Option<SocketAddr>,
    operations: Arc<Operations>,
    host: Host,
    reload: Reload,
}

impl GatewayCommands {
    async fn reload(&self) -> Result<ReloadReport, ConfigErrors> {
        let config = self.reload.load()?;
        self.host.reload(config).await
    }
}

impl SocketCommands for GatewayCommands {
    fn run<'a>(&'a self, command: &'a str) -> BoxFuture<'a, String> {
        Box::pin(async move {
            if let Some(answer) = self.operations.command(command).await {
                return answer;
            }
            let answer = match command {
                "page" => match (self.address, self.page.login_path()) {
                    (Some(address), Ok(path)) => {
                        json!({ "url": format!("http://{address}{path}") })
                    }
                    (None, _) => {
                        json!({ "error": "the gateway does not serve HTTP, so it has no status page" })
                    }
                    (_, Err(error)) => json!({ "error": error.to_string() }),
                },
                "reload" => match self.reload().await {
                    Ok(report) => json!({ "summary": summary(&report) }),
                    Err(error) => json!({ "error": error.to_string() }),
                },
                _ => json!({ "error": format!("the gateway has no command {command:?}") }),
            };
            answer.to_string()
        })
    }
}

/// A reload in one line.
fn summary(report: &ReloadReport) -> String {
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
    ]
    .into_iter()
    .flatten()
    .collect();
    let waiting = report.pending.iter().map(|change| match &change.server {
        Some(server) => format!("{server} waits: {}", change.reason),
        None => format!("waiting: {}", change.reason),
    });
    let parts: Vec<_> = done.into_iter().chain(waiting).collect();
    match parts.is_empty() {
        true => "nothing has changed".to_owned(),
        false => parts.join("; "),
    }
}
