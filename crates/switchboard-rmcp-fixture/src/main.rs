//! A server made with the official SDK: `rmcp-fixture [--era legacy|modern|both] [--http ADDR]
//! [--json]`, on stdio without `--http`.
//!
//! With `--http` it prints the address it listens on as one line; the path is `/mcp`.

use std::borrow::Cow;
use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;

use rmcp::ServiceExt as _;
use rmcp::model::ProtocolVersion;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};

/// Tools, resources, prompts and subscriptions.
mod fixture;

/// Questions to the client.
mod asking;

use fixture::Fixture;

fn main() -> ExitCode {
    let served = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Into::into)
        .and_then(|runtime| {
            let served = runtime.block_on(serve());
            // A call in flight must not keep the process alive.
            runtime.shutdown_background();
            served
        });
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            use std::io::Write;
            // A closed stderr cannot be reported anywhere.
            let _ = writeln!(std::io::stderr(), "rmcp-fixture: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve() -> Result<(), Box<dyn Error>> {
    let mut versions: Cow<'static, [ProtocolVersion]> =
        Cow::Borrowed(ProtocolVersion::KNOWN_VERSIONS);
    let (mut listen, mut is_json) = (None, false);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--era" => versions = of_era(&arguments.next().unwrap_or_default())?,
            "--http" => listen = arguments.next(),
            "--json" => is_json = true,
            _ => return Err(format!("unknown option {argument}").into()),
        }
    }
    let fixture = Fixture::new(versions);
    match listen {
        None => {
            _ = fixture
                .serve(rmcp::transport::stdio())
                .await?
                .waiting()
                .await?
        }
        Some(listen) => serve_http(fixture, &listen, is_json).await?,
    }
    Ok(())
}

fn of_era(era: &str) -> Result<Cow<'static, [ProtocolVersion]>, String> {
    let (legacy, modern) = ProtocolVersion::KNOWN_VERSIONS
        .split_at(ProtocolVersion::known_up_to(&ProtocolVersion::V_2025_11_25).len());
    match era {
        "legacy" => Ok(Cow::Borrowed(legacy)),
        "modern" => Ok(Cow::Borrowed(modern)),
        "both" => Ok(Cow::Borrowed(ProtocolVersion::KNOWN_VERSIONS)),
        _ => Err(format!("--era {era}: expected legacy, modern or both")),
    }
}

async fn serve_http(fixture: Fixture, listen: &str, is_json: bool) -> Result<(), Box<dyn Error>> {
    use std::io::Write;
    let listener = tokio::net::TcpListener::bind(listen).await?;
    let address = listener.local_addr()?;
    let service = StreamableHttpService::new(
        move || Ok(fixture.clone()),
        Arc::new(LocalSessionManager::default()),
        StreamableHttpServerConfig::default().with_json_response(is_json),
    );
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{address}")?;
    stdout.flush()?;
    axum::serve(listener, axum::Router::new().route_service("/mcp", service)).await?;
    Ok(())
}
