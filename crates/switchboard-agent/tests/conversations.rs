//! Several conversations on one host: what a server asks during a call reaches the conversation
//! that made the call, through the channel that it is held on.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use switchboard::caller::CallerCapabilities;
use switchboard::config::{self, ConfigFile, Dialect, Scope};
use switchboard::{Host, HostBuilder};
use switchboard_agent::{Agent, DemoModel, UserMessage};
use switchboard_host_testkit::TestCaller;
use switchboard_testkit::Scratch;

const PATIENCE: Duration = Duration::from_secs(60);

/// How many messages each conversation sends.
const MESSAGES: usize = 10;

/// What can be asked on each channel.
fn forms() -> CallerCapabilities {
    CallerCapabilities {
        elicit_form: true,
        ..CallerCapabilities::default()
    }
}

/// A host with the servers of an Agent Apps file: one that asks, over stdio, in the legacy era, so
/// that the protocol does not say which call a question belongs to.
async fn agent_apps_host(scratch: &Scratch) -> Host {
    let demo = switchboard_testkit::program("switchboard-demo");
    let text = format!(
        "metadata:\n  mcp:\n    desk:\n      command: {demo:?}\n      args: [\"--era\", \"legacy\"]\n"
    );
    let file = ConfigFile {
        dialect: Some(Dialect::AgentApps),
        ..ConfigFile::new(scratch.write("skill.yaml", &text), Scope::Given)
    };
    let config = config::load(&[file]).unwrap();
    let host = HostBuilder::new(config)
        .capabilities(forms())
        .start()
        .await
        .unwrap();
    // It starts when it is needed.
    let server = host.server("desk").unwrap();
    server.ready(PATIENCE).await.unwrap();
    host
}

/// A conversation on a channel: each message has the model call a tool that asks.
async fn converse(host: &Host, channel: &str) -> Arc<TestCaller> {
    let caller = Arc::new(TestCaller::new(channel).capabilities(forms()));
    let mut agent = Agent::new(host.clone(), DemoModel, caller.clone());
    for number in 0..MESSAGES {
        let subject = format!("{channel} {number}");
        let text = format!("call desk-confirm {{\"subject\":\"{subject}\"}}");
        let message = UserMessage::text(text);
        let summary = agent.run(message, &mut |_| {}).await.unwrap();
        let expected = format!("desk-confirm answered: accepted: {subject} would be erased now");
        assert_eq!(summary.text, expected);
    }
    caller
}

/// S3-15: each call carries the conversation that made it. S3-19: a pipeline that is fed by mail is
/// asked by mail, while a conversation at a console is asked there. S3-20: both at once, again and
/// again, and no question crosses.
#[tokio::test(flavor = "multi_thread")]
async fn s3_15_s3_19_s3_20_a_conversation_by_mail_is_asked_by_mail() {
    let scratch = Scratch::new();
    let host = agent_apps_host(&scratch).await;
    let both = async { tokio::join!(converse(&host, "mail"), converse(&host, "console")) };
    let (mail, console) = tokio::time::timeout(PATIENCE, both).await.unwrap();
    for (channel, caller) in [("mail", mail), ("console", console)] {
        let expected: Vec<_> = (0..MESSAGES)
            .map(|number| format!("Really erase {channel} {number}?"))
            .collect();
        assert_eq!(caller.seen().questions, expected);
    }
    host.stop().await;
}
