//! Tests of every feature on every transport in both eras, against the demo server and one made
//! with the official SDK.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

/// The steps of each cell.
mod cell;

/// The caller of every cell.
mod person;

/// The servers and their transports.
mod server;

/// Which cells are run, and which do not exist in a revision.
mod table;

use server::{Kind, demo, rmcp};
use table::{Era, Wire, row};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn demo_on_stdio_legacy() {
    row(&demo(Wire::Stdio, Era::Legacy).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn demo_on_stdio_modern() {
    row(&demo(Wire::Stdio, Era::Modern).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn demo_on_streamable_http_legacy() {
    row(&demo(Wire::Http, Era::Legacy).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn demo_on_streamable_http_modern() {
    row(&demo(Wire::Http, Era::Modern).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn demo_on_http_sse_legacy() {
    row(&demo(Wire::Sse, Era::Legacy).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rmcp_on_stdio_legacy() {
    row(&rmcp(Wire::Stdio, Era::Legacy).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rmcp_on_stdio_modern() {
    row(&rmcp(Wire::Stdio, Era::Modern).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rmcp_on_streamable_http_legacy() {
    row(&rmcp(Wire::Http, Era::Legacy).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rmcp_on_streamable_http_modern() {
    row(&rmcp(Wire::Http, Era::Modern).await).await;
}

#[test]
fn every_transport_is_in_the_table_once_per_era() {
    for kind in [Kind::Demo, Kind::Rmcp] {
        for wire in [Wire::Stdio, Wire::Http, Wire::Sse] {
            for era in [Era::Legacy, Era::Modern] {
                assert_eq!(
                    table::rows(kind, wire, era).count(),
                    1,
                    "{kind:?} {wire:?} {era:?}"
                );
            }
        }
    }
}
