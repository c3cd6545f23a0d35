//! The work of one contestant in each round, on any transport: one call in flight, 64 in flight,
//! large results.

use crate::measure::{Contestant, Fault, Tool, many_in_flight, one_in_flight};
use crate::peer_rmcp::Rmcp;
use crate::us::Us;

/// How many calls are in flight in the measurements of many.
pub(crate) const WIDTH: usize = 64;

/// How many calls one round makes, by kind of work.
pub(crate) struct Sizes {
    pub(crate) one: usize,
    pub(crate) many: usize,
    pub(crate) big: usize,
}

impl Sizes {
    /// The sizes of the warm-up round: buffers grow, connections are opened, schemas are compiled.
    pub(crate) fn warming_up(&self) -> Self {
        Self {
            one: self.one / 4,
            many: self.many / 4,
            big: self.big / 4,
        }
    }
}

/// One contestant's figures, by kind of work and in the order in which they were measured.
#[derive(Default)]
pub(crate) struct Rounds {
    pub(crate) one: Vec<f64>,
    pub(crate) many: Vec<f64>,
    pub(crate) big: Vec<f64>,
}

impl Rounds {
    /// One call after the other, if the contestant takes part.
    pub(crate) async fn one(
        &mut self,
        contestant: &Option<impl Contestant>,
        sizes: &Sizes,
    ) -> Result<(), Fault> {
        if let Some(contestant) = contestant {
            self.one
                .push(one_in_flight(contestant, Tool::Echo, sizes.one).await?);
        }
        Ok(())
    }

    /// Many calls at once.
    pub(crate) async fn many(
        &mut self,
        contestant: &Option<impl Contestant>,
        sizes: &Sizes,
    ) -> Result<(), Fault> {
        if let Some(contestant) = contestant {
            self.many
                .push(many_in_flight(contestant, WIDTH, sizes.many).await?);
        }
        Ok(())
    }

    /// Large results, one after the other.
    pub(crate) async fn big(
        &mut self,
        contestant: &Option<impl Contestant>,
        sizes: &Sizes,
    ) -> Result<(), Fault> {
        if let Some(contestant) = contestant {
            self.big
                .push(one_in_flight(contestant, Tool::Big, sizes.big).await?);
        }
        Ok(())
    }
}

/// Stops the two contestants that need it; the others end when they are dropped.
pub(crate) async fn stop(us: Option<Us>, rmcp: Option<Rmcp>) -> Result<(), Fault> {
    if let Some(us) = us {
        us.host.stop().await;
    }
    match rmcp {
        Some(rmcp) => rmcp.stop().await,
        None => Ok(()),
    }
}
