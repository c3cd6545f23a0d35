//! `switchboard serve`: all servers as one MCP server, for the client that started this process.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use switchboard::name::Style;
use switchboard_gateway::{Gateway, GatewaySettings, ServerSelection, edge};

use crate::arguments::Options;
use crate::failure::{Code, Failure};
use crate::setup::Setup;

/// Arguments of `serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// How tools and prompts are named; `identity` keeps the names of a single server
    #[arg(long, value_name = "STYLE", value_parser = styles())]
    pub(crate) names: Option<Style>,
}

/// Serves until the client closes its end, or a signal arrives. Only protocol messages are written
/// to stdout.
pub(crate) fn run(options: &Options, args: &ServeArgs) -> Result<u8, Failure> {
    let mut setup = Setup::read(options)?;
    let selection = selection(&mut setup, args)?;
    setup.answers_for_clients();
    setup.run(None, async |host, _| {
        let gateway = Gateway::new(host.clone(), GatewaySettings::default());
        let served = edge::stdio::serve(&gateway, selection).await;
        gateway.disconnect_all();
        served.map_err(|error| {
            Failure::new(
                Code::Usage,
                format!("the client cannot be reached: {error}"),
            )
        })?;
        Ok(0)
    })
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
