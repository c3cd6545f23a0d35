//! A host for one test, and its callers.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use switchboard::call::{Call, CallError};
use switchboard::caller::{Caller, CallerCapabilities};
use switchboard::config::{self, Config, ConfigFile, Dialect, Scope};
use switchboard::launch::Launcher;
use switchboard::server::ServerHandle;
use switchboard::wire::RawJson;
use switchboard::{Host, HostBuilder};
use switchboard_host_testkit::TestCaller;
use switchboard_testkit::Scratch;

/// The longest that any step may take, on a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// Every capability of a caller.
pub(crate) const ALL: CallerCapabilities = CallerCapabilities {
    elicit_form: true,
    elicit_url: true,
    sampling: true,
    sampling_tools: true,
};

pub(crate) const YOLO: &str = "[permissions]\nmode = \"yolo\"\n";

/// Starts a host with these tables and waits until every server is settled.
pub(crate) async fn open(scratch: &Scratch, tables: &str) -> Host {
    open_file(ConfigFile::new(
        scratch.write("switchboard.toml", tables),
        Scope::Given,
    ))
    .await
}

/// Like [`open`], with a file of any dialect.
pub(crate) async fn open_file(file: ConfigFile) -> Host {
    open_config(config::load(&[file]).unwrap()).await
}

/// Like [`open`], with servers that are treated as those of this dialect.
pub(crate) async fn open_as(file: ConfigFile, dialect: Dialect) -> Host {
    let mut config = config::load(&[file]).unwrap();
    for server in config.servers.values_mut() {
        Arc::make_mut(server).dialect = dialect;
    }
    open_config(config).await
}

async fn open_config(config: Config) -> Host {
    let builder = HostBuilder::new(config)
        .launcher(Launcher::start(switchboard_testkit::program("switchboard-launcher")).unwrap())
        .capabilities(ALL);
    let host = builder.start().await.unwrap();
    assert!(
        host.wait_until_settled(TIMEOUT).await,
        "the servers do not settle"
    );
    host
}

/// The one server of a host.
pub(crate) fn server(host: &Host) -> ServerHandle {
    host.servers()[0].clone()
}

/// Makes a call; the text of its result.
pub(crate) async fn call(
    host: &Host,
    tool: &str,
    arguments: &Value,
    who: &Arc<TestCaller>,
) -> Result<String, CallError> {
    let call =
        Call::new(tool, RawJson::from_value(arguments)).caller(who.clone() as Arc<dyn Caller>);
    let result = tokio::time::timeout(TIMEOUT, host.call_with(call))
        .await
        .expect("a call ends")?;
    Ok(result.untrusted_text().unwrap().raw().to_owned())
}

/// A caller of this name that can answer everything.
pub(crate) fn person(name: &str) -> TestCaller {
    TestCaller::new(name).capabilities(ALL)
}
