//! Finding the era and shaking hands, within one deadline.
//!
//! Unknown servers are probed with `server/discover`. A result or a recognised modern error means
//! modern; any other error means legacy; after [`PATIENCE`] without an answer `initialize` is sent
//! as well, and the first success decides.

use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep, timeout_at};

use super::envelope::{capabilities, our_info};
use super::link::{Link, Request, Waiting};
use super::receiver::read_error;
use super::{Era, Hello, OpenFault, OpenOptions, RequestFault, Revision, again};
use crate::config::Protocol;
use crate::secret::Redactor;
use crate::transport::WireFault;
use crate::untrusted::Untrusted;
use crate::wire::RawJson;

/// How long a probe may stay unanswered before `initialize` is sent beside it. Slow starters
/// (`npx`, `uvx`) read both in time.
const PATIENCE: Duration = Duration::from_secs(5);

/// Errors that only a modern server gives: header mismatch, missing capability, unsupported
/// version.
const MODERN_ERRORS: std::ops::RangeInclusive<i64> = -32022..=-32020;
const UNSUPPORTED_VERSION: i64 = -32022;
const UNKNOWN_METHOD: i64 = -32601;

/// Opens in the era that fits.
pub(super) async fn shake(link: &Link, options: &OpenOptions) -> Result<Hello, OpenFault> {
    let deadline = Instant::now() + options.connect_timeout;
    let opening = async {
        let first = shake_once(link, options).await;
        let pause = match &first {
            Err(OpenFault::Wire(fault)) => again::pause_if_busy(fault, deadline),
            _ => None,
        };
        match pause {
            Some(pause) => {
                sleep(pause).await;
                shake_once(link, options).await
            }
            None => first,
        }
    };
    match timeout_at(deadline, opening).await {
        Ok(outcome) => outcome,
        Err(_) => Err(OpenFault::Timeout(options.connect_timeout)),
    }
}

async fn shake_once(link: &Link, options: &OpenOptions) -> Result<Hello, OpenFault> {
    match (options.protocol, options.known_era) {
        (Protocol::Legacy, _) => initialize(link, options).await.map_err(refused),
        (Protocol::Modern, _) => discover(link).await.map_err(refused),
        (Protocol::Auto, Some(Era::Legacy)) => legacy_first(link, options).await,
        (Protocol::Auto, _) => probe(link, options).await,
    }
}

/// It spoke legacy last time. Should it refuse now, it may have learnt the other era.
async fn legacy_first(link: &Link, options: &OpenOptions) -> Result<Hello, OpenFault> {
    match initialize(link, options).await {
        Ok(hello) => Ok(hello),
        Err(fault @ RequestFault::Answered { .. }) => {
            discover(link).await.map_err(|_| refused(fault))
        }
        Err(fault) => Err(refused(fault)),
    }
}

/// Nothing is known: ask which era it speaks.
async fn probe(link: &Link, options: &OpenOptions) -> Result<Hello, OpenFault> {
    let mut discovering = send_discover(link).map_err(refused)?;
    let outcome = tokio::select! {
        answer = discovering.answer() => answer,
        () = sleep(PATIENCE) => return race(link, options, discovering).await,
    };
    match judge(outcome, &link.receiver.options.redactor) {
        Probe::Modern(hello) => Ok(*hello),
        Probe::ModernRefusal(fault) if offers_ours(&fault) => {
            discover_once(link).await.map_err(refused)
        }
        Probe::ModernRefusal(fault) | Probe::Unreachable(fault) => Err(refused(fault)),
        Probe::Legacy => initialize(link, options).await.map_err(after_probe),
        // Some servers end on a first message they do not know.
        Probe::Gone => Err(OpenFault::RefusedAfterProbe),
    }
}

/// The probe stays unanswered: `initialize` beside it, and the first success decides.
async fn race(
    link: &Link,
    options: &OpenOptions,
    mut discovering: Waiting<'_>,
) -> Result<Hello, OpenFault> {
    let initializing = initialize(link, options);
    tokio::pin!(initializing);
    let mut probe_open = true;
    let mut refusal: Option<RequestFault> = None;
    loop {
        tokio::select! {
            answer = discovering.answer(), if probe_open => match judge(answer, &link.receiver.options.redactor) {
                Probe::Modern(hello) => return Ok(*hello),
                Probe::Unreachable(fault) => return Err(refused(fault)),
                Probe::Gone => return Err(OpenFault::RefusedAfterProbe),
                Probe::ModernRefusal(_) | Probe::Legacy => {
                    probe_open = false;
                    if let Some(fault) = refusal.take() {
                        return Err(after_probe(fault));
                    }
                }
            },
            outcome = &mut initializing, if refusal.is_none() => match outcome {
                Ok(hello) => return Ok(hello),
                Err(fault) if !probe_open => return Err(after_probe(fault)),
                Err(fault) => refusal = Some(fault),
            },
        }
    }
}

/// What an answer to the probe means.
enum Probe {
    Modern(Box<Hello>),
    /// A modern server, but it and we have no version in common.
    ModernRefusal(RequestFault),
    Legacy,
    /// The wire does not lead to it, whatever era it speaks.
    Unreachable(RequestFault),
    Gone,
}

fn judge(answer: Result<RawJson, RequestFault>, redactor: &Redactor) -> Probe {
    match answer
        .map_err(as_answer)
        .and_then(|result| read_discovery(&result, redactor))
    {
        Ok(hello) => Probe::Modern(Box::new(hello)),
        Err(RequestFault::Answered {
            code: UNSUPPORTED_VERSION,
            data: Some(data),
            ..
        }) if offers_legacy(&data) => Probe::Legacy,
        Err(fault @ RequestFault::Answered { code, .. }) if MODERN_ERRORS.contains(&code) => {
            Probe::ModernRefusal(fault)
        }
        Err(RequestFault::Closed(_)) => Probe::Gone,
        Err(RequestFault::Wire(fault)) if !may_be_legacy(&fault) => {
            Probe::Unreachable(RequestFault::Wire(fault))
        }
        Err(_) => Probe::Legacy,
    }
}

/// A modern server says its errors with a status of HTTP as well: these are answers, whatever the
/// status.
fn as_answer(fault: RequestFault) -> RequestFault {
    let RequestFault::Wire(WireFault::Status {
        status,
        error: Some(error),
        ..
    }) = &fault
    else {
        return fault;
    };
    match read_error(error) {
        answered @ RequestFault::Answered { code, .. } if MODERN_ERRORS.contains(&code) => answered,
        // Of `initialize`, a modern server says this; to an older one, neither 404 nor the body
        // would come to mind.
        answered @ RequestFault::Answered {
            code: UNKNOWN_METHOD,
            ..
        } if *status == 404 => answered,
        _ => fault,
    }
}

/// Whether a server that speaks only legacy may have turned the probe away like this: with a status
/// that is about the message.
fn may_be_legacy(fault: &WireFault) -> bool {
    match fault {
        // No time, too many requests; the others of this kind say that the server does not like
        // what it got.
        WireFault::Status { status, .. } => {
            matches!(status, 200..=501) && !matches!(status, 408 | 429)
        }
        WireFault::Lost(_) => true,
        WireFault::NotSent(_) | WireFault::NeedsLogin(_) => false,
    }
}

/// The server names the versions it supports, and one of them is legacy.
fn offers_legacy(data: &RawJson) -> bool {
    supported(data)
        .iter()
        .any(|version| spoken(version, Era::Legacy).is_some())
}

/// The server refuses the version, and then names it among those it supports: an instance of it
/// that is older than another, say.
fn offers_ours(fault: &RequestFault) -> bool {
    match fault {
        RequestFault::Answered {
            code: UNSUPPORTED_VERSION,
            data: Some(data),
            ..
        } => supported(data)
            .iter()
            .any(|version| spoken(version, Era::Modern).is_some()),
        _ => false,
    }
}

/// The revision of this name, if it is of this era and we speak it.
fn spoken(version: &str, era: Era) -> Option<Revision> {
    Revision::parse(version).filter(|revision| revision.era() == era)
}

fn supported(data: &RawJson) -> Vec<String> {
    #[derive(Deserialize)]
    struct Wire {
        supported: Vec<String>,
    }
    data.decode()
        .map(|wire: Wire| wire.supported)
        .unwrap_or_default()
}

fn refused(fault: RequestFault) -> OpenFault {
    match as_answer(fault) {
        RequestFault::Closed(reason) => OpenFault::Channel(reason),
        RequestFault::Wire(WireFault::NeedsLogin(needed)) => OpenFault::NeedsLogin(needed),
        RequestFault::Wire(
            fault @ WireFault::Status {
                status: 400 | 404 | 405,
                ..
            },
        ) => OpenFault::WrongWire(fault.to_string()),
        RequestFault::Wire(fault) => OpenFault::Wire(fault),
        fault => OpenFault::Refused(fault.to_string()),
    }
}

/// A refusal that the probe may have caused: worth a fresh start without one.
fn after_probe(fault: RequestFault) -> OpenFault {
    match as_answer(fault) {
        RequestFault::Answered { .. } | RequestFault::Closed(_) => OpenFault::RefusedAfterProbe,
        fault => refused(fault),
    }
}

fn send_discover(link: &Link) -> Result<Waiting<'_>, RequestFault> {
    link.post(Request::new(Era::Modern, "server/discover", &[]), None)
}

/// Asks, and asks once more if the refusal names our version among those that are spoken there.
async fn discover(link: &Link) -> Result<Hello, RequestFault> {
    match discover_once(link).await {
        Err(fault) if offers_ours(&fault) => discover_once(link).await,
        outcome => outcome,
    }
}

async fn discover_once(link: &Link) -> Result<Hello, RequestFault> {
    let result = send_discover(link)?.answer().await.map_err(as_answer)?;
    read_discovery(&result, &link.receiver.options.redactor)
}

fn read_discovery(result: &RawJson, redactor: &Redactor) -> Result<Hello, RequestFault> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Wire<'a> {
        supported_versions: Vec<String>,
        #[serde(borrow, default)]
        capabilities: Option<&'a RawValue>,
        #[serde(borrow, default, rename = "_meta")]
        meta: Option<Meta<'a>>,
        #[serde(default)]
        instructions: Option<String>,
    }
    #[derive(Deserialize)]
    struct Meta<'a> {
        #[serde(borrow, default, rename = "io.modelcontextprotocol/serverInfo")]
        server_info: Option<&'a RawValue>,
    }
    let wire: Wire<'_> = result
        .decode()
        .map_err(|fault| RequestFault::Invalid(fault.to_string()))?;
    let versions = wire.supported_versions.iter();
    let common = versions.filter_map(|version| spoken(version, Era::Modern));
    let Some(revision) = common.max() else {
        let message = format!(
            "it speaks {}, we speak {}",
            wire.supported_versions.join(", "),
            Revision::MODERN.map(Revision::as_str).join(", ")
        );
        return Err(RequestFault::Invalid(
            Untrusted::new(message).for_terminal_line().to_string(),
        ));
    };
    Ok(Hello {
        revision,
        server_info: wire
            .meta
            .and_then(|meta| meta.server_info)
            .map(|info| result.part(info)),
        capabilities: wire
            .capabilities
            .map_or_else(|| RawJson::from_value(&json!({})), |raw| result.part(raw)),
        instructions: wire.instructions.map(|words| redactor.words(&words)),
    })
}

async fn initialize(link: &Link, options: &OpenOptions) -> Result<Hello, RequestFault> {
    let version = RawJson::from_value(Revision::newest(Era::Legacy).as_str());
    let declared = RawJson::from_value(&capabilities(
        Era::Legacy,
        options.offers,
        options.roots.offered(),
    ));
    let info = RawJson::from_value(&our_info());
    let fields: [(&str, &[u8]); 3] = [
        ("protocolVersion", version.as_bytes()),
        ("capabilities", declared.as_bytes()),
        ("clientInfo", info.as_bytes()),
    ];
    let result = link
        .post(Request::new(Era::Legacy, "initialize", &fields), None)?
        .answer()
        .await?;
    let hello = read_initialization(&result, &link.receiver.options.redactor)?;
    link.notify("notifications/initialized", &serde_json::Value::Null);
    Ok(hello)
}

fn read_initialization(result: &RawJson, redactor: &Redactor) -> Result<Hello, RequestFault> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Wire<'a> {
        protocol_version: String,
        #[serde(borrow, default)]
        capabilities: Option<&'a RawValue>,
        #[serde(borrow, default)]
        server_info: Option<&'a RawValue>,
        #[serde(default)]
        instructions: Option<String>,
    }
    let wire: Wire<'_> = result
        .decode()
        .map_err(|fault| RequestFault::Invalid(fault.to_string()))?;
    let Some(revision) = spoken(&wire.protocol_version, Era::Legacy) else {
        let message = format!(
            "it wants protocol version {:?}, we speak {}",
            wire.protocol_version,
            Revision::LEGACY.map(Revision::as_str).join(", ")
        );
        return Err(RequestFault::Invalid(
            Untrusted::new(message).for_terminal_line().to_string(),
        ));
    };
    Ok(Hello {
        revision,
        server_info: wire.server_info.map(|info| result.part(info)),
        capabilities: wire
            .capabilities
            .map_or_else(|| RawJson::from_value(&json!({})), |raw| result.part(raw)),
        instructions: wire.instructions.map(|words| redactor.words(&words)),
    })
}
