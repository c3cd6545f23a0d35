//! `demo --gateway`: a gateway over the demo servers, and two clients of it. One client is asked about
//! its call; the other cannot be asked, so its call waits for an operator.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard::config::AuditArguments;
use switchboard::secret::Redactor;
use switchboard::{Callbacks, Caller, ElicitAnswer, Headless, Host, Server};
use switchboard_gateway::audit::AuditLog;
use switchboard_gateway::edge::http::{HttpEdge, HttpEdgeSettings, HttpLimits};
use switchboard_gateway::tokens::ClientTokens;
use switchboard_gateway::{Gateway, Operations, OperatorPage, ServerSelection};

use super::example;
use crate::arguments::Options;
use crate::failure::{Code, Failure};
use crate::output;
use crate::progress;
use crate::terminal::{self, tty::Tty};
use crate::view::server::escaped;

/// How long a call may take until it waits for an operator.
const APPROVAL_TIMEOUT: Duration = Duration::from_secs(30);

/// How many lines of the audit log are shown.
const AUDIT_LINES: usize = 20;

pub(super) async fn run(host: &Host, folder: &Path, options: &Options) -> Result<u8, Failure> {
    progress::wait_until_settled(host, progress::WaitLimit::start(options)).await;
    let audit = AuditLog::open(folder, AuditArguments::Shape, Redactor::default());
    let operations = Operations::new(host.clone(), audit, Vec::new());
    let gateway = Gateway::new(host.clone(), operations.settings());
    let tokens = ClientTokens::new(folder);
    let edge = serve(&gateway, &operations, folder).await.map_err(broken)?;
    let url = format!("http://{}/mcp", edge.address());
    let print = |line: &str| match options.json {
        true => Ok(()),
        false => output::print(line),
    };
    print(&format!(
        "A gateway offers two demo servers as one, at {url}\n\
         $ switchboard serve --http {}\n\n\
         Client \"editor\" can be asked, so the gate's question goes to it:\n\
         $ switchboard token new editor\n",
        edge.address()
    ))?;
    let editor = client(&url, &tokens, "editor", editor_caller()).await?;
    let first = call(&editor, host, 0).await?;
    print(&format!("  result: {}\n\n", escaped(&first)))?;

    print(
        "Client \"script\" cannot be asked, so its call waits for an operator, here and on the status page:\n\
         $ switchboard token new script\n",
    )?;
    let script = client(&url, &tokens, "script", Arc::new(Headless::new("script"))).await?;
    let (second, approved) = tokio::join!(call(&script, host, 1), approve(&operations));
    print(&approved?)?;
    let second = second?;
    print(&format!(
        "  result: {}\n\nThe audit log:\n",
        escaped(&second)
    ))?;

    editor.stop().await;
    script.stop().await;
    edge.close().await;
    let mut lines = operations.audit().recent(AUDIT_LINES);
    lines.reverse();
    for line in &lines {
        print(&format!("  {}\n", escaped(line)))?;
    }
    gateway.disconnect_all();
    operations.audit().close().await;
    if options.json {
        let audit: Vec<Value> = lines
            .iter()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        let calls =
            json!([{"client": "editor", "result": first}, {"client": "script", "result": second}]);
        output::print_json(&json!({"calls": calls, "audit": audit}).to_string())?;
    }
    print("\nNext: `switchboard install CLIENT` writes the gateway into a client's file.\n")?;
    Ok(0)
}

async fn serve(
    gateway: &Gateway,
    operations: &Arc<Operations>,
    folder: &Path,
) -> std::io::Result<HttpEdge> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let page = OperatorPage::new(operations.clone())?;
    let settings = HttpEdgeSettings {
        tokens: ClientTokens::new(folder),
        selection: ServerSelection::All,
        routes: Arc::new(page),
        hosts: Vec::new(),
        origins: Vec::new(),
        public_url: None,
        limits: HttpLimits::default(),
    };
    HttpEdge::serve(gateway.clone(), listener, settings)
}

/// A client of the gateway. Its own host asks nothing, because the demo shows the gateway's gate.
async fn client(
    url: &str,
    tokens: &ClientTokens,
    name: &str,
    caller: Arc<dyn Caller>,
) -> Result<Host, Failure> {
    let token = tokens.create(name).map_err(broken)?;
    let server = Server::http("gateway", url).bearer(token);
    Ok(Host::builder()
        .server(server)
        .allow("gateway")
        .caller(caller)
        .start()
        .await?)
}

/// The person at the terminal; without one, the answer is yes.
fn editor_caller() -> Arc<dyn Caller> {
    if Tty::open().is_some() {
        return terminal::caller();
    }
    let answer = json!({"decision": "allow once"});
    let fields = answer.as_object().cloned().unwrap_or_default();
    let accept = move |_| {
        let fields = fields.clone();
        async move { ElicitAnswer::Accept(fields) }
    };
    Arc::new(Callbacks::new("editor").on_elicitation(accept))
}

/// Calls the example tool of a demo server through the gateway. Returns the text of the result.
async fn call(client: &Host, host: &Host, server: usize) -> Result<String, Failure> {
    let server = host.servers()[server].config.name.clone();
    let Some((tool, arguments)) = example(host, &server) else {
        let message = format!("server \"{server}\" offers nothing to call");
        return Err(Failure::new(Code::Unreachable, message).server(&server));
    };
    let result = client
        .call(format!("gateway/{}", tool.exposed.as_str()), arguments)
        .await?;
    Ok(result.text())
}

/// Allows the waiting call as an operator does. Returns the commands and their output.
async fn approve(operations: &Operations) -> Result<String, Failure> {
    let queue = operations.approvals();
    let mut changes = queue.changes();
    let waiting_call = async {
        loop {
            if let Some(call) = queue.waiting().into_iter().next() {
                return call;
            }
            let _ = changes.changed().await;
        }
    };
    let call = tokio::time::timeout(APPROVAL_TIMEOUT, waiting_call).await;
    let call = call.map_err(|_| broken("no call waits for approval"))?;
    operations.decide(call.id, true, "command");
    Ok(format!(
        "$ switchboard approvals\n  {} · {} · {} {} · {}\n$ switchboard approvals allow {}\n",
        call.id,
        call.principal.as_str(),
        call.tool.shown(),
        escaped(call.arguments.as_str()),
        escaped(&call.because),
        call.id
    ))
}

fn broken(error: impl std::fmt::Display) -> Failure {
    Failure::new(Code::Usage, format!("the gateway demo failed: {error}"))
}
