//! `bench flood`: calls of a healthy server next to none, one and two flooding servers, and how late
//! calls of the flooding servers time out.

use std::process::Stdio;
use std::time::{Duration, Instant};

use switchboard::config::{Endpoint, HttpEndpoint, StdioEndpoint};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::flooder::{self, Flood};
use crate::http::{self, Answers};
use crate::measure::{Contestant as _, Fault, Tool};
use crate::options::Options;
use crate::report::{Row, Unit};
use crate::us::Us;

/// How many tasks call the healthy server.
const CALLERS: usize = 4;

/// The timeout of a call of a flooding server, and how much later it may end.
const CALL_TIMEOUT: Duration = Duration::from_secs(1);
const ALLOWANCE: Duration = Duration::from_secs(1);

/// How long a server may take to print its address.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// The columns of the table.
const NEIGHBOURS: [&str; 3] = ["none", "one", "two"];

/// The results of one measurement.
#[derive(Default)]
struct Figures {
    calls_per_second: Vec<f64>,
    p99: Vec<f64>,
    slowest: Vec<f64>,
    /// The longest call of a flooding server.
    flooded: Vec<f64>,
}

/// All rows of the table.
pub(crate) async fn run(options: &Options) -> Result<Vec<Row>, Fault> {
    let mut rows = Vec::new();
    for flood in Flood::ALL {
        let mut figures: [Figures; 3] = Default::default();
        // The first round warms up, and does not count.
        for round in 0..=options.rounds {
            for (count, figures) in figures.iter_mut().enumerate() {
                let mut unused = Figures::default();
                measure(
                    options,
                    flood,
                    count,
                    if round == 0 { &mut unused } else { figures },
                )
                .await?;
            }
        }
        rows.extend(table(flood, figures));
    }
    Ok(rows)
}

fn table(flood: Flood, figures: [Figures; 3]) -> [Row; 4] {
    let name = flood.name();
    let row = |what: &str, unit, of: fn(&Figures) -> &Vec<f64>| {
        let row = Row::new(format!("{what} beside {name} floods"), unit);
        figures
            .iter()
            .zip(NEIGHBOURS)
            .fold(row, |row, (figures, beside)| {
                row.cell(beside, of(figures).clone())
            })
    };
    let latest = (CALL_TIMEOUT + ALLOWANCE).as_secs_f64();
    [
        row("healthy calls", Unit::CallsPerSecond, |figures| {
            &figures.calls_per_second
        }),
        row("healthy p99", Unit::Seconds, |figures| &figures.p99)
            .at_most("one", 2.0, "none")
            .at_most("two", 2.0, "none"),
        row("slowest healthy call", Unit::Seconds, |figures| {
            &figures.slowest
        }),
        row("end of flooded calls", Unit::Seconds, |figures| {
            &figures.flooded
        })
        .below("one", latest)
        .below("two", latest),
    ]
}

/// Measures a host with a healthy server and this many flooding ones.
async fn measure(
    options: &Options,
    flood: Flood,
    count: usize,
    figures: &mut Figures,
) -> Result<(), Fault> {
    let (healthy, mut children) = match flood {
        Flood::Stdio => (floor()?, Vec::new()),
        Flood::Response | Flood::Get => {
            let (child, url) = http::serve(&[], Answers::Json).await?;
            (Endpoint::Http(HttpEndpoint::new(&url)), vec![child])
        }
    };
    let mut endpoints = vec![healthy];
    for _ in 0..count {
        let (endpoint, child) = flooder(flood).await?;
        endpoints.push(endpoint);
        children.extend(child);
    }
    let us = Us::beside_others(endpoints, flood != Flood::Stdio).await?;
    let flooded: Vec<JoinHandle<Result<f64, Fault>>> = (1..=count)
        .map(|index| tokio::spawn(flooded_call(us.clone(), format!("floor{index}/flood"))))
        .collect();
    let began = Instant::now();
    let span = Duration::from_millis(options.size(3000, 1500) as u64);
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| tokio::spawn(healthy_calls(us.clone(), began + span)))
        .collect();
    let mut times = Vec::new();
    for caller in callers {
        times.extend(caller.await??);
    }
    figures
        .calls_per_second
        .push(times.len() as f64 / began.elapsed().as_secs_f64());
    times.sort_unstable();
    figures.p99.push(
        times
            .get(times.len() * 99 / 100)
            .map_or(f64::NAN, Duration::as_secs_f64),
    );
    figures
        .slowest
        .push(times.last().map_or(f64::NAN, Duration::as_secs_f64));
    let mut latest = 0.0_f64;
    for call in flooded {
        latest = latest.max(call.await??);
    }
    if count > 0 {
        figures.flooded.push(latest);
    }
    us.host.stop().await;
    drop(children);
    Ok(())
}

/// Makes calls one after the other until `until`; returns their times.
async fn healthy_calls(us: Us, until: Instant) -> Result<Vec<Duration>, Fault> {
    let mut times = Vec::new();
    while Instant::now() < until {
        let start = Instant::now();
        us.call(Tool::Echo).await?;
        times.push(start.elapsed());
    }
    Ok(times)
}

/// The time until a call that is never answered ends.
async fn flooded_call(us: Us, tool: String) -> Result<f64, Fault> {
    let start = Instant::now();
    match us.call_within(&tool, CALL_TIMEOUT).await {
        Err(_) => Ok(start.elapsed().as_secs_f64()),
        Ok(()) => Err(format!("{tool} was answered").into()),
    }
}

fn floor() -> Result<Endpoint, Fault> {
    Ok(Endpoint::Stdio(StdioEndpoint::new(
        &program()?,
        [crate::server::MARKER, "--legacy"].map(str::to_owned),
    )))
}

fn program() -> Result<String, Fault> {
    Ok(std::env::current_exe()?
        .to_str()
        .ok_or("the path of this program is not text")?
        .to_owned())
}

async fn flooder(flood: Flood) -> Result<(Endpoint, Option<Child>), Fault> {
    if flood == Flood::Stdio {
        let words = [flooder::MARKER, flood.name()].map(str::to_owned);
        return Ok((
            Endpoint::Stdio(StdioEndpoint::new(&program()?, words)),
            None,
        ));
    }
    let mut command = Command::new(program()?);
    command
        .args([flooder::MARKER, flood.name()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true);
    let mut child = command.spawn()?;
    let mut lines = BufReader::new(child.stdout.take().ok_or("the child has no stdout")?).lines();
    let address = timeout(START_TIMEOUT, lines.next_line())
        .await
        .map_err(|_| "the flooder printed no address")??;
    let url = format!("http://{}/mcp", address.ok_or("the flooder ended")?);
    Ok((Endpoint::Http(HttpEndpoint::new(&url)), Some(child)))
}
