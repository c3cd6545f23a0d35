//! `bench stdio`: calls over one session to one server: one in flight, 64 in flight, 1 MiB results.

use std::sync::Arc;

use switchboard::store::MemoryStore;

use crate::floor::Floor;
use crate::measure::{Fault, server_command};
use crate::options::Options;
use crate::peer_rmcp::Rmcp;
use crate::raw::Raw;
use crate::report::{Row, Unit};
use crate::rounds::{Rounds, Sizes, stop};
use crate::us::Us;

/// The open sessions, one for each contestant that takes part.
struct Sessions {
    floor: Option<Floor>,
    raw: Option<Raw>,
    rmcp: Option<Rmcp>,
    us: Option<Us>,
}

/// All rows of the table.
pub(crate) async fn run(options: &Options) -> Result<Vec<Row>, Fault> {
    let sizes = Sizes {
        one: options.size(2000, 400),
        many: options.size(32_000, 6_400),
        big: options.size(40, 10),
    };
    let mut sessions = Sessions::open(options).await?;
    sessions
        .round(&sizes.warming_up(), &mut Default::default())
        .await?;
    let mut rounds: [Rounds; 4] = Default::default();
    for _ in 0..options.rounds {
        sessions.round(&sizes, &mut rounds).await?;
    }
    stop(sessions.us, sessions.rmcp).await?;
    Ok(rows(rounds))
}

/// Only the second row, for profilers and instruction counts.
pub(crate) async fn run_many(options: &Options) -> Result<Vec<Row>, Fault> {
    let sizes = Sizes {
        one: 0,
        many: options.size(32_000, 6_400),
        big: 0,
    };
    let sessions = Sessions::open(options).await?;
    let mut rounds: [Rounds; 3] = Default::default();
    for _ in 0..options.rounds {
        rounds[0].many(&sessions.raw, &sizes).await?;
        rounds[1].many(&sessions.rmcp, &sizes).await?;
        rounds[2].many(&sessions.us, &sizes).await?;
    }
    stop(sessions.us, sessions.rmcp).await?;
    let [raw, rmcp, us] = rounds;
    Ok(vec![many_row(raw.many, rmcp.many, us.many)])
}

fn many_row(raw: Vec<f64>, rmcp: Vec<f64>, us: Vec<f64>) -> Row {
    Row::new("stdio calls, 64 in flight", Unit::CallsPerSecond)
        .cell("raw", raw)
        .cell("rmcp", rmcp)
        .cell("us", us)
        .at_least("raw", 2.5, "rmcp")
        .at_least("us", 3.0, "rmcp")
        .at_least("us", 0.65, "raw")
}

fn rows([floor, raw, rmcp, us]: [Rounds; 4]) -> Vec<Row> {
    vec![
        Row::new("stdio call, 1 in flight, p50", Unit::Seconds)
            .cell("floor", floor.one)
            .cell("raw", raw.one)
            .cell("rmcp", rmcp.one)
            .cell("us", us.one)
            .at_most("us", 1.25, "raw"),
        many_row(raw.many, rmcp.many, us.many),
        Row::new("1 MiB result over stdio, p50", Unit::Seconds)
            .cell("raw", raw.big)
            .cell("rmcp", rmcp.big)
            .cell("us", us.big)
            .at_most("us", 1.2, "raw"),
    ]
}

impl Sessions {
    async fn open(options: &Options) -> Result<Self, Fault> {
        let era = options.era;
        let flags: Vec<String> = [format!("--{}", era.name())]
            .into_iter()
            .chain(options.pin.apply()?)
            .collect();
        let command = || server_command(&flags);
        let floor = if options.with("floor") {
            Some(Floor::start(command()?, era)?)
        } else {
            None
        };
        let raw = if options.with("raw") {
            Some(Raw::start(command()?, era).await?)
        } else {
            None
        };
        let rmcp = if options.with("rmcp") {
            Some(Rmcp::start(command()?, era).await?)
        } else {
            None
        };
        let us = if options.with("us") {
            Some(Us::start(flags, era, Arc::new(MemoryStore::default())).await?)
        } else {
            None
        };
        Ok(Self {
            floor,
            raw,
            rmcp,
            us,
        })
    }

    /// Each kind of work by each contestant in turn, so that other load on the machine affects all of
    /// them.
    async fn round(
        &mut self,
        sizes: &Sizes,
        [floor, raw, rmcp, us]: &mut [Rounds; 4],
    ) -> Result<(), Fault> {
        if let Some(contestant) = &mut self.floor {
            floor.one.push(contestant.one_in_flight(sizes.one)?);
        }
        raw.one(&self.raw, sizes).await?;
        rmcp.one(&self.rmcp, sizes).await?;
        us.one(&self.us, sizes).await?;

        raw.many(&self.raw, sizes).await?;
        rmcp.many(&self.rmcp, sizes).await?;
        us.many(&self.us, sizes).await?;

        raw.big(&self.raw, sizes).await?;
        rmcp.big(&self.rmcp, sizes).await?;
        us.big(&self.us, sizes).await
    }
}
