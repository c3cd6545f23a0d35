//! Tests of the headers that a file of another program sets.

use std::sync::Arc;

use switchboard::config::{self, ConfigFile, Dialect, Scope};
use switchboard::name::ServerName;
use switchboard::store::{MemoryStore, Store};
use switchboard_testkit::Scratch;

use crate::peer::{Kind, Peer};
use crate::support::{call, start};

/// The documented file, with the address of a server on this machine.
const DOCUMENTS: &str =
    include_str!("../../../switchboard-config/tests/seeds/gemini/http-headers.json");

/// S2-11, S2-17: headers of any name are sent with every request; one that the transport also sets
/// is sent once.
#[tokio::test]
async fn s2_11_s2_17_the_documented_headers_are_sent_with_every_request() {
    let scratch = Scratch::new();
    for (kind, handshake) in [
        (Kind::Legacy, "POST /mcp initialize"),
        (Kind::Modern, "POST /mcp server/discover"),
    ] {
        let peer = Peer::start(kind).await;
        let path = scratch.write(
            "settings.json",
            &DOCUMENTS.replace("http://localhost:3000/mcp", &peer.url()),
        );
        let file = ConfigFile {
            dialect: Some(Dialect::Gemini),
            ..ConfigFile::new(path, Scope::Given)
        };
        let mut entry = (*config::load(&[file]).unwrap().servers[0]).clone();
        entry.name = ServerName::new("peer").unwrap();
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let host = start(entry, &store).await;
        call(&host).await.unwrap();
        let seen = peer.seen();
        for asked in [handshake, "POST /mcp tools/list", "POST /mcp tools/call"] {
            assert!(
                seen.iter().any(|seen| seen.line == asked),
                "{asked}: {seen:?}"
            );
        }
        for seen in seen.iter().filter(|seen| seen.line.starts_with("POST ")) {
            let header = |name: &str| seen.headers.get(name).map(String::as_str);
            assert_eq!(
                header("authorization"),
                Some("Bearer your-api-token"),
                "{seen:?}"
            );
            assert_eq!(header("x-custom-header"), Some("custom-value"), "{seen:?}");
            assert_eq!(header("content-type"), Some("application/json"), "{seen:?}");
        }
        host.stop().await;
    }
}
