//! `bench gateway`: clients through a gateway to a server: one call in flight, 64 in flight, the
//! list of 1,000 tools, memory.
//!
//! The floor is a process that does the least that its way needs. The gate and the audit log of ours are on.

use std::time::{Duration, Instant};

use crate::gateway_start::{Connected, Setting};
use crate::measure::{Fault, Tool, many_in_flight, median_time, one_in_flight};
use crate::options::Options;
use crate::process_memory::{self, Memory};
use crate::report::{Row, Unit};
use crate::rounds::WIDTH;

/// Those who call a slower gateway make this part of the calls: they would take most of the time.
const SLOW_PART: usize = 10;

/// How many tools the long list has.
pub(crate) const LONG_LIST: usize = 1000;

/// The bars of these rows.
const LIST_SECONDS: f64 = 0.002;
const ATTACH_SECONDS: f64 = 40e-6;
const IDLE_BYTES: f64 = 9.0 * 1024.0 * 1024.0;
const LOADED_BYTES: f64 = 20.0 * 1024.0 * 1024.0;

/// Within this time our gateway releases the code of its start.
const START_TIME: Duration = Duration::from_secs(11);

/// From where to where the bytes of a table go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    StdioToStdio,
    HttpToHttp,
    HttpToStdio,
}

impl Way {
    const ALL: [Self; 3] = [Self::StdioToStdio, Self::HttpToHttp, Self::HttpToStdio];

    fn name(self) -> &'static str {
        match self {
            Self::StdioToStdio => "stdio to stdio",
            Self::HttpToHttp => "HTTP to HTTP",
            Self::HttpToStdio => "HTTP to stdio",
        }
    }
}

/// One contestant's figures.
#[derive(Default)]
struct Figures {
    one: Vec<f64>,
    many: Vec<f64>,
    idle: Memory,
    loaded: Memory,
    /// Connections that the gateway closed inside a measurement, so that the time to connect is in it.
    opened_while_measured: u64,
}

impl Figures {
    /// Runs a measurement with connections that are ready.
    async fn measure(
        &mut self,
        gateway: &Connected,
        width: usize,
        measured: impl Future<Output = Result<f64, Fault>>,
    ) -> Result<f64, Fault> {
        gateway.client.prepare(width).await?;
        let before = gateway.client.opened_connections();
        let figure = measured.await?;
        self.opened_while_measured += gateway.client.opened_connections() - before;
        Ok(figure)
    }
}

/// All rows of the table, and who is missing.
pub(crate) async fn run(options: &Options) -> Result<(Vec<Row>, Vec<String>), Fault> {
    let mut setting = Setting::new(options)?;
    let mut rows = Vec::new();
    for way in Way::ALL {
        rows.extend(measure(&mut setting, options, way).await?);
    }
    rows.push(long_list(&mut setting, options).await?);
    Ok((rows, setting.notes))
}

async fn measure(setting: &mut Setting, options: &Options, way: Way) -> Result<Vec<Row>, Fault> {
    let gateways = setting.start(way).await?;
    let mut figures: Vec<Figures> = gateways.iter().map(|_| Figures::default()).collect();
    if way == Way::HttpToStdio {
        tokio::time::sleep(START_TIME).await;
    }
    for (gateway, figures) in gateways.iter().zip(&mut figures) {
        figures.idle = gateway.memory()?;
    }
    let (one, many) = (options.size(1000, 200), options.size(16_000, 3_200));
    for round in 0..=options.rounds {
        let part = |gateway: &Connected| {
            let part = if gateway.is_slow { SLOW_PART } else { 1 };
            // The round that does not count comes first, as everywhere.
            part * if round == 0 { 4 } else { 1 }
        };
        for (gateway, figures) in gateways.iter().zip(&mut figures) {
            let calls = (one / part(gateway)).max(10);
            let measured = one_in_flight(&gateway.client, Tool::Echo, calls);
            let seconds = figures.measure(gateway, 1, measured).await;
            let seconds = seconds.map_err(|fault| failed(way, gateway, round, &fault))?;
            figures.one.extend((round > 0).then_some(seconds));
        }
        for (gateway, figures) in gateways.iter().zip(&mut figures) {
            let calls = (many / part(gateway)).max(WIDTH);
            let measured = many_in_flight(&gateway.client, WIDTH, calls);
            let per_second = figures.measure(gateway, WIDTH, measured).await;
            let per_second = per_second.map_err(|fault| failed(way, gateway, round, &fault))?;
            figures.many.extend((round > 0).then_some(per_second));
        }
    }
    for (gateway, figures) in gateways.iter().zip(&mut figures) {
        figures.loaded = gateway.memory()?;
    }
    for (gateway, figures) in gateways.iter().zip(&figures) {
        if figures.opened_while_measured > 0 {
            setting.notes.push(format!(
                "{}, {}: {} connections were opened inside measurements",
                gateway.who,
                way.name(),
                figures.opened_while_measured
            ));
        }
    }
    let names: Vec<_> = gateways.iter().map(|gateway| gateway.who).collect();
    drop(gateways);
    Ok(table(way, &names, &figures))
}

fn failed(way: Way, gateway: &Connected, round: usize, fault: &Fault) -> String {
    let (who, way) = (gateway.who, way.name());
    format!("{who}, {way}, round {round}: {fault}")
}

fn table(way: Way, names: &[&'static str], figures: &[Figures]) -> Vec<Row> {
    let row = |what: &str, unit, of: &dyn Fn(&Figures) -> Vec<f64>| {
        let row = Row::new(format!("{what}, {}", way.name()), unit);
        let cells = names.iter().zip(figures);
        cells.fold(row, |row, (who, figures)| row.cell(who, of(figures)))
    };
    let one = row("call, 1 in flight, p50", Unit::Seconds, &|figures| {
        figures.one.clone()
    });
    let many = row("calls, 64 in flight", Unit::CallsPerSecond, &|figures| {
        figures.many.clone()
    });
    let many = ["rmcp", "mcp-proxy.rs"]
        .into_iter()
        .fold(many, |row, peer| row.at_least("us", 2.3, peer));
    let others = ["fastmcp", "mcp-proxy.py", "mcp-proxy.js", "supergateway"];
    let many = others
        .into_iter()
        .filter(|peer| names.contains(peer))
        .fold(many, |row, peer| row.at_least("us", 20.0, peer));
    let mut rows = vec![
        one.at_most("us", 1.2, "pump"),
        many.at_least("us", 0.85, "pump"),
    ];
    if way == Way::StdioToStdio
        && let Some(attach) = added(names, figures, "attach", "us")
    {
        let row = Row::new("what attach adds to a call, p50", Unit::Seconds);
        rows.push(row.cell("attach", attach).below("attach", ATTACH_SECONDS));
    }
    if way == Way::HttpToStdio {
        let memory = |what: &str, of: &dyn Fn(&Figures) -> f64| {
            row(what, Unit::Bytes, &|figures| vec![of(figures)])
        };
        rows.push(memory("RSS, idle", &|of| of.idle.resident).below("us", IDLE_BYTES));
        rows.push(memory("RSS, after load", &|of| of.loaded.resident).below("us", LOADED_BYTES));
        rows.push(memory("PSS, idle", &|of| of.idle.proportional));
        rows.push(memory("PSS, after load", &|of| of.loaded.proportional));
        rows.push(memory("RssAnon, idle", &|of| of.idle.anonymous));
        rows.push(memory("RssAnon, after load", &|of| of.loaded.anonymous));
    }
    rows
}

/// The difference of two contestants in each round.
fn added(
    names: &[&'static str],
    figures: &[Figures],
    who: &str,
    against: &str,
) -> Option<Vec<f64>> {
    let of = |who: &str| {
        let at = names.iter().position(|&name| name == who)?;
        Some(&figures[at].one)
    };
    let pairs = of(who)?.iter().zip(of(against)?);
    Some(pairs.map(|(one, other)| one - other).collect())
}

async fn long_list(setting: &mut Setting, options: &Options) -> Result<Row, Fault> {
    let gateways = setting.start_with_long_list().await?;
    let mut row = Row::new(
        format!("tools/list of {LONG_LIST} tools, p50"),
        Unit::Seconds,
    );
    let mut rounds = vec![Vec::new(); gateways.len()];
    for _ in 0..options.rounds {
        for (gateway, rounds) in gateways.iter().zip(&mut rounds) {
            rounds.push(list_time(gateway, options.size(50, 10)).await?);
        }
    }
    for (gateway, rounds) in gateways.iter().zip(rounds) {
        row = row.cell(gateway.who, rounds);
    }
    Ok(row.below("us", LIST_SECONDS))
}

async fn list_time(gateway: &Connected, count: usize) -> Result<f64, Fault> {
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..count {
        let start = Instant::now();
        let bytes = gateway.client.list().await?;
        times.push(start.elapsed());
        // A definition of the benchmark server is some 400 bytes.
        if bytes < LONG_LIST * 300 {
            return Err(format!("{}: a list of {bytes} bytes", gateway.who).into());
        }
    }
    Ok(median_time(&mut times))
}

impl Connected {
    fn memory(&self) -> Result<Memory, Fault> {
        let servers = [crate::http::DEMO_MARKER, crate::server::MARKER];
        process_memory::of_process(self.process_id, &servers)
    }
}
