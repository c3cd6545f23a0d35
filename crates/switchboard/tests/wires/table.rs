//! The table: server × wire × era × feature. A row is run cell by cell, on one host.

use super::cell::{self, Feature};
use super::server::{Kind, Reached};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    Stdio,
    /// Streamable HTTP.
    Http,
    /// HTTP+SSE of 2024-11-05.
    Sse,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    Legacy,
    Modern,
}

/// The kind of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cell {
    Run,
    /// The revisions of this era have no such feature on this transport.
    NotInRevision,
    /// The server has no such feature; another server covers it.
    #[allow(dead_code, reason = "only real servers lack something")]
    NotOffered,
    /// The server's SDK has dropped this transport; the demo and `server-everything` cover it.
    NotInSdk,
}

use Cell::{NotInRevision as NONE, NotInSdk as GONE, Run as RUN};

/// In the order of [`Feature::ALL`]: list, call, read, prompt, subscribe, complete, elicit, sample, progress, cancel.
#[rustfmt::skip]
pub(crate) const TABLE: [(Kind, Wire, Era, [Cell; 10]); 12] = [
    (Kind::Demo, Wire::Stdio, Era::Legacy, [RUN, RUN, RUN, RUN, RUN, RUN, RUN, RUN, RUN, RUN]),
    (Kind::Demo, Wire::Stdio, Era::Modern, [RUN, RUN, RUN, RUN, RUN, RUN, RUN, RUN, RUN, RUN]),
    (Kind::Demo, Wire::Http,  Era::Legacy, [RUN, RUN, RUN, RUN, RUN, RUN, RUN, RUN, RUN, RUN]),
    (Kind::Demo, Wire::Http,  Era::Modern, [RUN, RUN, RUN, RUN, RUN, RUN, RUN, RUN, RUN, RUN]),
    (Kind::Demo, Wire::Sse,   Era::Legacy, [RUN, RUN, RUN, RUN, RUN, RUN, RUN, RUN, RUN, RUN]),
    // 2026-07-28 has two transports: stdio and Streamable HTTP.
    (Kind::Demo, Wire::Sse,   Era::Modern, [NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE]),
    (Kind::Rmcp, Wire::Stdio, Era::Legacy, [RUN, RUN, RUN, RUN, RUN, RUN, RUN, RUN, RUN, RUN]),
    (Kind::Rmcp, Wire::Stdio, Era::Modern, [RUN, RUN, RUN, RUN, RUN, RUN, RUN, RUN, RUN, RUN]),
    (Kind::Rmcp, Wire::Http,  Era::Legacy, [RUN, RUN, RUN, RUN, RUN, RUN, RUN, RUN, RUN, RUN]),
    (Kind::Rmcp, Wire::Http,  Era::Modern, [RUN, RUN, RUN, RUN, RUN, RUN, RUN, RUN, RUN, RUN]),
    // rmcp no longer supports HTTP+SSE.
    (Kind::Rmcp, Wire::Sse,   Era::Legacy, [GONE, GONE, GONE, GONE, GONE, GONE, GONE, GONE, GONE, GONE]),
    (Kind::Rmcp, Wire::Sse,   Era::Modern, [NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE]),
];

pub(crate) fn rows(kind: Kind, wire: Wire, era: Era) -> impl Iterator<Item = [Cell; 10]> {
    TABLE
        .into_iter()
        .filter(move |row| (row.0, row.1, row.2) == (kind, wire, era))
        .map(|row| row.3)
}

/// Runs every cell of a server's row, and names the one that fails.
pub(crate) async fn row(reached: &Reached) {
    let cells = rows(reached.kind, reached.wire, reached.era)
        .next()
        .expect("the table has this row");
    run(reached, cells).await;
}

pub(crate) async fn run(reached: &Reached, cells: [Cell; 10]) {
    for (feature, cell) in Feature::ALL.into_iter().zip(cells) {
        println!(
            "{:?} {:?} {:?} {feature:?}: {cell:?}",
            reached.kind, reached.wire, reached.era
        );
        if cell == Cell::Run {
            cell::check(reached, feature).await;
        }
    }
    reached.host.stop().await;
}
