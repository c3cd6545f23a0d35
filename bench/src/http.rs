//! `bench http`: calls over Streamable HTTP to the demo server: one in flight, 64 in flight;
//! answered as JSON or as events.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::measure::Fault;
use crate::options::Options;
use crate::peer_child::{ChildPeer, Sdk};
use crate::peer_rmcp::Rmcp;
use crate::raw_http::RawHttp;
use crate::report::{Row, Unit};
use crate::rounds::{Rounds, Sizes, WIDTH, stop};
use crate::us::Us;

/// The hidden subcommand of the embedded demo server.
pub(crate) const DEMO_MARKER: &str = "__demo";

/// How long the server may take to print its address.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// How the server answers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answers {
    Json,
    Events,
}

impl Answers {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Events => "sse",
        }
    }
}

/// The open sessions, one for each contestant that takes part.
struct Sessions {
    raw: Option<RawHttp>,
    rmcp: Option<Rmcp>,
    us: Option<Us>,
    ts: Option<ChildPeer>,
    python: Option<ChildPeer>,
    _server: Child,
}

/// All rows of the table.
pub(crate) async fn run(options: &Options) -> Result<Vec<Row>, Fault> {
    let mut rows = Vec::new();
    // Only once: a pinned process sees one core, and would put the next server there as well.
    let flags = options.pin.apply()?;
    for answers in [Answers::Json, Answers::Events] {
        if options.answers.is_none_or(|wanted| wanted == answers) {
            rows.extend(measure(options, &flags, answers).await?);
        }
    }
    Ok(rows)
}

/// Lines for the report on SDKs that are not installed.
pub(crate) fn missing(options: &Options) -> Vec<String> {
    let missing = |sdk: &Sdk| options.with(sdk.name()) && folder(options, *sdk).is_none();
    let line = |sdk: Sdk| {
        format!(
            "{}: skipped, not installed (bench/baseline/sdks DIR, then --sdks DIR)",
            sdk.name()
        )
    };
    [Sdk::TypeScript, Sdk::Python]
        .into_iter()
        .filter(missing)
        .map(line)
        .collect()
}

fn folder(options: &Options, sdk: Sdk) -> Option<&PathBuf> {
    options
        .sdks
        .as_ref()
        .filter(|folder| options.with(sdk.name()) && sdk.is_in(folder))
}

async fn measure(options: &Options, flags: &[String], answers: Answers) -> Result<Vec<Row>, Fault> {
    let sizes = Sizes {
        one: options.size(1000, 200),
        many: options.size(16_000, 3_200),
        big: 0,
    };
    let mut sessions = Sessions::open(options, flags, answers).await?;
    sessions
        .round(&sizes.warming_up(), &mut Default::default())
        .await?;
    let mut rounds: [Rounds; 5] = Default::default();
    for _ in 0..options.rounds {
        sessions.round(&sizes, &mut rounds).await?;
    }
    stop(sessions.us, sessions.rmcp).await?;
    Ok(rows(answers, rounds))
}

fn rows(answers: Answers, [raw, rmcp, us, ts, python]: [Rounds; 5]) -> Vec<Row> {
    let name = answers.name();
    vec![
        Row::new(
            format!("HTTP call, {name} answer, 1 in flight, p50"),
            Unit::Seconds,
        )
        .cell("raw", raw.one)
        .cell("rmcp", rmcp.one)
        .cell("us", us.one)
        .cell("ts", ts.one)
        .cell("python", python.one)
        .at_most("us", 1.2, "raw"),
        Row::new(
            format!("HTTP calls, {name} answers, 64 in flight"),
            Unit::CallsPerSecond,
        )
        .cell("raw", raw.many)
        .cell("rmcp", rmcp.many)
        .cell("us", us.many)
        .cell("ts", ts.many)
        .cell("python", python.many)
        .at_least("us", 0.8, "raw"),
    ]
}

impl Sessions {
    async fn open(options: &Options, flags: &[String], answers: Answers) -> Result<Self, Fault> {
        let era = options.era;
        let (server, url) = serve(flags, answers).await?;
        let raw = if options.with("raw") {
            Some(RawHttp::open(&url, era).await?)
        } else {
            None
        };
        let rmcp = if options.with("rmcp") {
            Some(Rmcp::connect(&url, era, WIDTH).await?)
        } else {
            None
        };
        let us = if options.with("us") {
            Some(Us::connect(&url, era).await?)
        } else {
            None
        };
        let ts = child(options, Sdk::TypeScript, &url).await?;
        let python = child(options, Sdk::Python, &url).await?;
        Ok(Self {
            raw,
            rmcp,
            us,
            ts,
            python,
            _server: server,
        })
    }

    /// Each kind of work by each contestant in turn, so that other load on the machine affects all of
    /// them. The two that are compared follow each other, in alternating order, because a slow
    /// contestant affects the next one. SDKs of other languages make fewer calls, because they would
    /// take most of the time.
    async fn round(
        &mut self,
        sizes: &Sizes,
        [raw, rmcp, us, ts, python]: &mut [Rounds; 5],
    ) -> Result<(), Fault> {
        let is_raw_first = us.one.len() % 2 == 0;
        if is_raw_first {
            raw.one(&self.raw, sizes).await?;
            us.one(&self.us, sizes).await?;
        } else {
            us.one(&self.us, sizes).await?;
            raw.one(&self.raw, sizes).await?;
        }
        rmcp.one(&self.rmcp, sizes).await?;
        for (peer, rounds) in [(&mut self.ts, &mut *ts), (&mut self.python, &mut *python)] {
            if let Some(peer) = peer {
                rounds.one.push(peer.one_in_flight(sizes.one / 5).await?);
            }
        }
        if is_raw_first {
            raw.many(&self.raw, sizes).await?;
            us.many(&self.us, sizes).await?;
        } else {
            us.many(&self.us, sizes).await?;
            raw.many(&self.raw, sizes).await?;
        }
        rmcp.many(&self.rmcp, sizes).await?;
        for (peer, rounds) in [(&mut self.ts, ts), (&mut self.python, python)] {
            if let Some(peer) = peer {
                rounds
                    .many
                    .push(peer.many_in_flight(WIDTH, sizes.many / 10).await?);
            }
        }
        Ok(())
    }
}

/// The demo server on a free port, and its URL: the first line it prints is the address that it
/// listens on.
pub(crate) async fn serve(flags: &[String], answers: Answers) -> Result<(Child, String), Fault> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(DEMO_MARKER).args(flags).args([
        "--http",
        "127.0.0.1:0",
        "--answers",
        answers.name(),
    ]);
    let mut server = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut lines = BufReader::new(server.stdout.take().ok_or("the child has no stdout")?).lines();
    match timeout(START_TIMEOUT, lines.next_line()).await {
        Ok(line) => Ok((
            server,
            format!("http://{}/mcp", line?.ok_or("the demo server ended")?),
        )),
        Err(_) => Err("the demo server printed no address".into()),
    }
}

async fn child(options: &Options, sdk: Sdk, url: &str) -> Result<Option<ChildPeer>, Fault> {
    match folder(options, sdk) {
        Some(folder) => Ok(Some(ChildPeer::start(sdk, folder, url, options.era).await?)),
        None => Ok(None),
    }
}
