//! `switchboard serve`: all servers as one MCP server, for the client that started this process, or
//! over HTTP and the Unix socket for all clients of this machine.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use switchboard::hint::Hint;
use switchboard::name::Style;
use switchboard::reload::PendingChange;
use switchboard_gateway::audit::AuditLog;
use switchboard_gateway::edge::http::PublicUrl;
use switchboard_gateway::{
    DenyUnasked, Gateway, GatewaySettings, ListingSettings, Operations, ServerSelection,
    ToolListing, Traces, edge,
};

use crate::arguments::{Options, seconds};
use crate::command::attach;
use crate::failure::{Code, Failure};
use crate::setup::Setup;
use crate::{hints, output};

/// `serve --http`, and the gateway that `attach` starts.
mod machine;

/// The gateway's log.
mod log;

/// How long the last spans of a gateway that ends may take to reach their collector.
const LAST_SPANS: Duration = Duration::from_secs(3);

/// Arguments of `serve`.
#[derive(Debug, Args)]
#[command(after_help = "\
Without --http it serves the client that starts it, over its standard streams. Calls that need
approval are denied there if the client cannot be asked (Gemini CLI, opencode): let such a client
start `switchboard attach`, and approve its calls with `switchboard approvals`.

Examples:
  switchboard serve --http 127.0.0.1:8808   clients connect to http://127.0.0.1:8808/mcp with a
                                            token; /mcp/NAME is one server under its own names
  switchboard token new codex               create a token for a client
  switchboard attach --as codex             connect without HTTP and token
  switchboard reload                        read the configuration again, and accept its changes
  kill -HUP PID                             the same, but what needs approval waits")]
pub(crate) struct ServeArgs {
    /// How tools and prompts are named; `identity` keeps the names of a single server
    #[arg(long, value_name = "STYLE", value_parser = styles())]
    pub(crate) names: Option<Style>,
    /// Serve clients over HTTP at this address (port 0: any free port), and clients of `switchboard attach`
    #[arg(long, value_name = "ADDR")]
    pub(crate) http: Option<String>,
    /// Host name that clients use for this gateway; required unless the address is loopback
    /// (repeatable)
    #[arg(long, value_name = "HOST", requires = "http")]
    pub(crate) allow_host: Vec<String>,
    /// Origin of web pages that may use the gateway, such as https://example.com (repeatable)
    #[arg(long, value_name = "ORIGIN", requires = "http")]
    pub(crate) allow_origin: Vec<String>,
    /// Where clients reach the gateway from outside, such as https://mcp.example.com: server cards
    /// are served with this address (also `[gateway] public_url`)
    #[arg(long, value_name = "URL", requires = "http")]
    pub(crate) public_url: Option<PublicUrl>,
    /// Serve /metrics without a token
    #[arg(long, requires = "http")]
    pub(crate) metrics_open: bool,
    /// Serve `switchboard attach` only, and end after the last client has disconnected
    #[arg(long, hide = true, conflicts_with = "http")]
    pub(crate) detached: bool,
    /// Seconds without a client after which a detached gateway ends
    #[arg(long, hide = true, default_value = attach::IDLE_SECONDS, value_parser = seconds)]
    pub(crate) idle_timeout: Duration,
    #[command(flatten)]
    pub(crate) listing: ListingArgs,
}

/// How tools are listed to clients.
#[derive(Debug, Args)]
pub(crate) struct ListingArgs {
    /// `search` lists only `search_tools` and `call_tool`, through which a client finds and calls the
    /// others; `auto` does so for a long list, if the client has no search of its own
    #[arg(long, value_name = "WHICH", default_value = "all", value_parser = ["all", "search", "auto"])]
    tools: String,
    /// `repaired` lists schemas that strict clients reject in a form that they accept
    #[arg(long, value_name = "HOW", default_value = "repaired", value_parser = ["repaired", "as-is"])]
    schemas: String,
}

impl ListingArgs {
    pub(crate) fn settings(&self) -> ListingSettings {
        ListingSettings {
            schemas_as_is: self.schemas == "as-is",
            tools: match self.tools.as_str() {
                "search" => ToolListing::Search,
                "auto" => ToolListing::Auto,
                _ => ToolListing::All,
            },
        }
    }
}

/// Serves until the client closes its end, or a signal arrives. Only protocol messages are written
/// to stdout.
pub(crate) fn run(options: &Options, args: &ServeArgs) -> Result<u8, Failure> {
    let mut setup = Setup::read(options)?;
    let selection = selection(&mut setup, args)?;
    if matches!(selection, ServerSelection::One(_)) && args.listing.tools != "all" {
        output::notice("--tools has no effect with --names identity: all tools are listed");
    }
    setup.offer_capabilities_of_clients();
    if args.http.is_some() || args.detached {
        return machine::run(options, args, setup, selection);
    }
    let (config, redactor) = (setup.config.gateway.clone(), setup.redactor());
    let outcome = setup.run_service(Some(Vec::new()), async |host, paths, closing, hang_up| {
        let audit = AuditLog::open(&paths.state, config.audit_arguments, redactor);
        let operations = Operations::new(host.clone(), audit, Vec::new());
        let traces = Traces::from_environment();
        let settings = GatewaySettings {
            // No operator can reach this process.
            approvals: Arc::new(DenyUnasked {
                advice: Some(format!(
                    "let the client start {} instead: then you approve its calls yourself",
                    hints::command(&["attach"])
                )),
            }),
            starts_on_request: true,
            traces: traces.clone(),
            listing: args.listing.settings(),
            lost_server_grace: config.lost_server_grace,
            review_words: Some(review_words),
            ..operations.settings()
        };
        let gateway = Gateway::new(host.clone(), settings);
        let until_closed = async move {
            let mut closing = closing;
            tokio::select! {
                _ = closing.wait_for(|closing| *closing) => {}
                // The terminal of the client that started this process is gone.
                () = hang_up.notified() => {}
            }
        };
        let outcome = edge::stdio::serve(&gateway, selection, until_closed).await;
        gateway.disconnect_all();
        operations.audit().close().await;
        traces.close(LAST_SPANS).await;
        outcome.map_err(|error| {
            Failure::new(
                Code::Usage,
                format!("the client cannot be reached: {error}"),
            )
        })?;
        Ok(0)
    });
    match outcome {
        // Clients stop their servers by a signal: this is no error.
        Err(failure) if failure.code.is_signal() => Ok(0),
        outcome => outcome,
    }
}

/// How a person reviews a change that waits. This process reads its configuration only once, so the
/// client must connect again.
fn review_words(change: &PendingChange) -> Option<String> {
    let review = hints::describe(Hint::Accept, change.server.as_ref()?, None)?;
    Some(format!("{review}, then connect again"))
}

/// Applies `--names`.
fn selection(setup: &mut Setup, args: &ServeArgs) -> Result<ServerSelection, Failure> {
    let Some(style) = args.names else {
        return Ok(ServerSelection::All);
    };
    if style != Style::Identity {
        setup.config.naming = style;
        return Ok(ServerSelection::All);
    }
    let mut servers = setup.config.servers.keys();
    match (servers.next(), servers.next()) {
        (Some(only), None) => Ok(ServerSelection::One(only.clone())),
        _ => Err(Failure::new(
            Code::Usage,
            format!(
                "--names identity is for a single server, and {} are configured",
                setup.config.servers.len()
            ),
        )
        .hint("choose another style, or a file with one server: -c FILE")),
    }
}

fn styles() -> impl TypedValueParser<Value = Style> {
    PossibleValuesParser::new(Style::words()).map(|word| Style::parse(&word).unwrap_or_default())
}
