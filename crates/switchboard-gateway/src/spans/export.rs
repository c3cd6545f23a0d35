//! Sends spans to a collector: OTLP over HTTP, as the standard `OTEL_*` variables say.
//!
//! A thread of the SDK takes batches from a bounded queue; the requests run on the gateway's own
//! runtime. A collector that is slow or down costs spans, never a call.

use std::env;
use std::error::Error;
use std::pin::Pin;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use bytes::Bytes;
use opentelemetry::{Key, KeyValue};
use opentelemetry_http::{HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{SpanExporter, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use reqwest::redirect;
use switchboard::sync::lock;
use switchboard::transport::http::reqwest_builder;
use tokio::runtime::Handle;

/// How long one request may take, unless a variable sets it.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// How often the log says that spans cannot be sent.
const LOG_INTERVAL: Duration = Duration::from_secs(300);

/// The provider that sends spans; `None` if the variables do not ask for traces. The error says which
/// variable is not valid.
pub(super) fn provider() -> Result<Option<SdkTracerProvider>, String> {
    if !is_wanted()? {
        return Ok(None);
    }
    let collector = Collector {
        http: http_client().map_err(|error| describe(&error))?,
        runtime: Handle::try_current().map_err(|error| error.to_string())?,
        health: Mutex::default(),
    };
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(collector)
        .build()
        .map_err(|error| error.to_string())?;
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_resource(resource());
    Ok(Some(provider.build()))
}

/// Whether the variables ask for traces, in a form that is sent here.
fn is_wanted() -> Result<bool, String> {
    if variable(&["OTEL_SDK_DISABLED"]).is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        return Ok(false);
    }
    let endpoint = variable(&[
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        "OTEL_EXPORTER_OTLP_ENDPOINT",
    ]);
    match variable(&["OTEL_TRACES_EXPORTER"]).as_deref() {
        Some("none") => return Ok(false),
        Some("otlp") => {}
        None if endpoint.is_some() => {}
        None => return Ok(false),
        Some(other) => {
            return Err(format!(
                "OTEL_TRACES_EXPORTER is {other:.40?}; expected otlp or none"
            ));
        }
    }
    let protocol = variable(&[
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
        "OTEL_EXPORTER_OTLP_PROTOCOL",
    ]);
    match protocol {
        Some(other) if other != "http/protobuf" => Err(format!(
            "OTEL_EXPORTER_OTLP_PROTOCOL is {other:.40?}; expected http/protobuf"
        )),
        _ => Ok(true),
    }
}

/// The first of these variables that is set and not empty.
fn variable(names: &[&str]) -> Option<String> {
    let values = names.iter().filter_map(|name| env::var(name).ok());
    values
        .map(|value| value.trim().to_owned())
        .find(|value| !value.is_empty())
}

/// Headers may contain a token: no redirect is followed.
fn http_client() -> Result<reqwest::Client, reqwest::Error> {
    let timeout = variable(&[
        "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
        "OTEL_EXPORTER_OTLP_TIMEOUT",
    ]);
    let timeout = timeout.and_then(|text| text.parse().ok());
    reqwest_builder()
        .timeout(timeout.map_or(DEFAULT_TIMEOUT, Duration::from_millis))
        .redirect(redirect::Policy::none())
        .referer(false)
        .build()
}

/// The service as the variables describe it; by default with our name and version.
fn resource() -> Resource {
    let from_variables = Resource::builder().build();
    let name = from_variables.get(&Key::from_static_str("service.name"));
    let is_named = name.is_some_and(|name| !name.as_str().starts_with("unknown_service"));
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let builder = Resource::builder();
    let builder = match is_named {
        true => builder,
        false => builder.with_service_name(crate::SERVER_NAME),
    };
    match from_variables.get(&Key::from_static_str("service.version")) {
        Some(_) => builder.build(),
        None => builder.with_attribute(version).build(),
    }
}

/// The HTTP client of the exporter.
#[derive(Debug)]
struct Collector {
    http: reqwest::Client,
    /// The SDK's thread has no runtime of its own.
    runtime: Handle,
    health: Mutex<ExportHealth>,
}

/// Whether sending fails, and when that was last logged.
#[derive(Debug, Default)]
struct ExportHealth {
    is_failing: bool,
    logged: Option<Instant>,
}

impl HttpClient for Collector {
    fn send_bytes<'life0, 'async_trait>(
        &'life0 self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'async_trait>>
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        let uri = request.uri();
        let port = uri
            .port()
            .map(|port| format!(":{port}"))
            .unwrap_or_default();
        // Not the whole address: a path, a query or a user name may be a secret.
        let place = format!("{}{port}", uri.host().unwrap_or_default());
        let sent = self.runtime.spawn(send(self.http.clone(), request));
        Box::pin(async move {
            let sent = match sent.await {
                Ok(sent) => sent,
                Err(error) => Err(error.into()),
            };
            self.log_outcome(&place, &sent);
            sent
        })
    }
}

/// The body of a response is not used.
async fn send(
    http: reqwest::Client,
    request: Request<Bytes>,
) -> Result<Response<Bytes>, HttpError> {
    let response = http.execute(request.try_into()?).await;
    let response = response.map_err(reqwest::Error::without_url)?;
    let mut answer = Response::new(Bytes::new());
    *answer.status_mut() = response.status();
    *answer.headers_mut() = response.headers().clone();
    Ok(answer)
}

impl Collector {
    /// Logs when sending begins to fail, at intervals while it fails, and when it works again.
    fn log_outcome(&self, place: &str, sent: &Result<Response<Bytes>, HttpError>) {
        let fault = match sent {
            Ok(response) if response.status().is_success() => None,
            Ok(response) => Some(format!("it answered {}", response.status())),
            Err(error) => Some(describe(&**error)),
        };
        let mut health = lock(&self.health);
        match fault {
            None if health.is_failing => {
                *health = ExportHealth::default();
                tracing::info!("traces reach the collector at {place} again");
            }
            None => {}
            Some(fault) => {
                health.is_failing = true;
                if health
                    .logged
                    .is_none_or(|logged| logged.elapsed() >= LOG_INTERVAL)
                {
                    health.logged = Some(Instant::now());
                    tracing::warn!(
                        "traces do not reach the collector at {place}: {fault}; calls go on"
                    );
                }
            }
        }
    }
}

/// An error with its causes.
fn describe(mut error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    while let Some(cause) = error.source() {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        error = cause;
    }
    text
}
