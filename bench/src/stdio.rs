//! `bench stdio`: calls over one session to one server: one in flight, 64 in flight, 1 MiB results.

use std::sync::Arc;

use switchboard::store::MemoryStore;

use crate::floor::Floor;
use crate::measure::{Contestant, Fault, Tool, many_in_flight, one_in_flight, server_command};
use crate::options::Options;
use crate::peer_rmcp::Rmcp;
use crate::raw::Raw;
use crate::report::{Row, Unit};
use crate::us::Us;

const WIDTH: usize = 64;

/// The open sessions, one for each contestant that takes part.
struct Sessions {
    floor: Option<Floor>,
    raw: Option<Raw>,
    rmcp: Option<Rmcp>,
    us: Option<Us>,
}

/// One contestant's rounds, by kind of work.
#[derive(Default)]
struct Rounds {
    one: Vec<f64>,
    many: Vec<f64>,
    big: Vec<f64>,
}

/// How many calls one round makes.
struct Sizes {
    one: usize,
    many: usize,
    big: usize,
}

/// All rows of the table.
pub(crate) async fn run(options: &Options) -> Result<Vec<Row>, Fault> {
    let sizes = Sizes { one: options.size(2000, 400), many: options.size(32_000, 6_400), big: options.size(40, 10) };
    let mut sessions = Sessions::open(options).await?;
    // One round that does not count: buffers grow, schemas are compiled, processors wake up.
    sessions.round(&Sizes { one: sizes.one / 4, many: sizes.many / 4, big: sizes.big / 4 }, &mut Default::default()).await?;
    let mut rounds: [Rounds; 4] = Default::default();
    for _ in 0..options.rounds {
        sessions.round(&sizes, &mut rounds).await?;
    }
    sessions.close().await?;
    Ok(rows(rounds))
}

fn rows([floor, raw, rmcp, us]: [Rounds; 4]) -> Vec<Row> {
    vec![
        Row::new("stdio call, 1 in flight, p50", Unit::Seconds)
            .cell("floor", floor.one)
            .cell("raw", raw.one)
            .cell("rmcp", rmcp.one)
            .cell("us", us.one)
            .at_most("us", 1.25, "raw"),
        Row::new("stdio calls, 64 in flight", Unit::CallsPerSecond)
            .cell("raw", raw.many)
            .cell("rmcp", rmcp.many)
            .cell("us", us.many)
            .at_least("raw", 2.5, "rmcp")
            .at_least("us", 3.0, "rmcp")
            .at_least("us", 0.65, "raw"),
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
        let flags: Vec<String> = [format!("--{}", era.name())].into_iter().chain(options.pin.apply()?).collect();
        let command = || server_command(&flags);
        let floor = if options.with("floor") { Some(Floor::start(command()?, era)?) } else { None };
        let raw = if options.with("raw") { Some(Raw::start(command()?, era).await?) } else { None };
        let rmcp = if options.with("rmcp") { Some(Rmcp::start(command()?, era).await?) } else { None };
        let us = if options.with("us") { Some(Us::start(flags, era, Arc::new(MemoryStore::default())).await?) } else { None };
        Ok(Self { floor, raw, rmcp, us })
    }

    /// Each kind of work by each contestant in turn, so that a busy moment of the machine hits all of them.
    async fn round(&mut self, sizes: &Sizes, [floor, raw, rmcp, us]: &mut [Rounds; 4]) -> Result<(), Fault> {
        if let Some(contestant) = &mut self.floor {
            floor.one.push(contestant.one_in_flight(sizes.one)?);
        }
        one(&self.raw, sizes, raw).await?;
        one(&self.rmcp, sizes, rmcp).await?;
        one(&self.us, sizes, us).await?;

        many(&self.raw, sizes, raw).await?;
        many(&self.rmcp, sizes, rmcp).await?;
        many(&self.us, sizes, us).await?;

        big(&self.raw, sizes, raw).await?;
        big(&self.rmcp, sizes, rmcp).await?;
        big(&self.us, sizes, us).await
    }

    /// Dropping ends the children of `floor` and `raw`; the others have their own way to stop.
    async fn close(self) -> Result<(), Fault> {
        if let Some(us) = self.us {
            us.host.stop().await;
        }
        match self.rmcp {
            Some(rmcp) => rmcp.stop().await,
            None => Ok(()),
        }
    }
}

async fn one(contestant: &Option<impl Contestant>, sizes: &Sizes, rounds: &mut Rounds) -> Result<(), Fault> {
    if let Some(contestant) = contestant {
        rounds.one.push(one_in_flight(contestant, Tool::Echo, sizes.one).await?);
    }
    Ok(())
}

async fn many(contestant: &Option<impl Contestant>, sizes: &Sizes, rounds: &mut Rounds) -> Result<(), Fault> {
    if let Some(contestant) = contestant {
        rounds.many.push(many_in_flight(contestant, WIDTH, sizes.many).await?);
    }
    Ok(())
}

async fn big(contestant: &Option<impl Contestant>, sizes: &Sizes, rounds: &mut Rounds) -> Result<(), Fault> {
    if let Some(contestant) = contestant {
        rounds.big.push(one_in_flight(contestant, Tool::Big, sizes.big).await?);
    }
    Ok(())
}
