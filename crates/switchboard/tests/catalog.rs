//! Tests of a host's catalog, with real processes.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use switchboard::HostBuilder;
use switchboard::config::{self, ConfigFile, Scope};
use switchboard::launch::Launcher;
use switchboard_testkit::{Chaos, Scratch, Step};

/// P8: the tools of a server that was seen Ready are in the catalog, without further waiting.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p8_the_catalog_shows_the_tools_of_every_server_that_was_seen_ready() {
    let scratch = Scratch::new();
    let names: Vec<String> = (0..24).map(|index| format!("s{index}")).collect();
    let chaos = Chaos::new().tool("ok", Step::text("hi"));
    let entries: Vec<_> = names
        .iter()
        .map(|name| chaos.entry(name).set("protocol", "legacy"))
        .collect();
    let file = ConfigFile::new(scratch.config(&entries), Scope::Given);
    let host = HostBuilder::new(config::load(&[file]).unwrap())
        .launcher(Launcher::start(switchboard_testkit::program("switchboard-launcher")).unwrap())
        .start()
        .await
        .unwrap();
    for name in &names {
        host.server(name)
            .unwrap()
            .ready(Duration::from_secs(30))
            .await
            .unwrap();
        assert!(
            host.catalog().resolve(&format!("{name}/ok")).is_ok(),
            "{name} is ready, its tool is missing"
        );
    }
    host.stop().await;
}
