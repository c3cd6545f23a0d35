//! Servers, rules and approval without a file: `cargo run -p switchboard --example in_code`.

use serde_json::json;
use switchboard::{Approval, Host, Server};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files = ["-y", "@modelcontextprotocol/server-filesystem", "."];
    let tracker = Server::http("tracker", "https://tracker.example.com/mcp");
    let host = Host::builder()
        .server(Server::stdio("files", "npx").args(files))
        .server(tracker.bearer("secret-token").lazy())
        .allow("files/read_*")
        .on_approval(|request| async move {
            eprintln!("{}: {}", request.id.shown(), request.because);
            Approval::no("this program only reads")
        })
        .start()
        .await?;
    let arguments = json!({"path": "notes.txt", "content": "hello"});
    match host.call("files/write_file", arguments).await {
        Ok(result) => println!("{}", result.text()),
        Err(error) => println!("{error}"),
    }
    host.stop().await;
    Ok(())
}
