//! From nothing to a result in ten lines, in a folder with a `switchboard.toml`:
//! `cargo run -p switchboard --example embed`.

use serde_json::json;
use switchboard::Host;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    switchboard::launcher_main(); // first: the servers then end with this process
    tokio::runtime::Runtime::new()?.block_on(async {
        let host = Host::open("switchboard.toml").await?;
        let arguments = json!({"path": "README.md"});
        println!("{}", host.call("files/read_file", arguments).await?.text());
        host.stop().await;
        Ok(())
    })
}
