//! Limits of the driver: time, size, redirects and keys.

use std::time::Duration;

use switchboard_agent::driver::DriverLimits;
use switchboard_agent::{FaultKind, HttpModel, Model, ModelSettings, ModelTurn, ModelVendor};
use switchboard_testkit::until;

use crate::driver::{ask, question, retries, usual_tools};
use crate::server::{KEY, Reply, VendorServer};

#[tokio::test]
async fn silence_ends_at_the_idle_timeout_and_dropping_a_turn_closes_its_connection() {
    let vendor = ModelVendor::Anthropic;
    let server = VendorServer::start(vendor, vec![Reply::Silence]).await;
    let mut settings = server.model().settings().clone();
    let limits = DriverLimits {
        idle_timeout: Duration::from_millis(50),
        max_retries: 0,
        ..DriverLimits::default()
    };
    let impatient = HttpModel::with_limits(settings.clone(), limits).expect("a model");
    let (turn, _) = ask(&impatient, &question(), &usual_tools()).await;
    let fault = turn.expect_err("a fault");
    assert_eq!(
        (fault.kind, fault.may_work_later()),
        (FaultKind::TimedOut, true)
    );

    let server = VendorServer::start(vendor, vec![Reply::Silence]).await;
    let model = server.model();
    let (conversation, tools) = (question(), usual_tools());
    tokio::select! {
        _ = ask(&model, &conversation, &tools) => panic!("the vendor is silent"),
        () = until("the request comes", || !server.requests().is_empty()) => {}
    }
    until("the connection is closed", || server.gone() > 0).await;

    // Nobody listens there.
    settings.base_url = Some("http://127.0.0.1:1".to_owned());
    let limits = DriverLimits {
        max_retries: 1,
        first_pause: Duration::from_millis(1),
        ..DriverLimits::default()
    };
    let model = HttpModel::with_limits(settings, limits).expect("a model");
    let (turn, events) = ask(&model, &question(), &usual_tools()).await;
    let fault = turn.expect_err("a fault");
    assert_eq!(
        (fault.kind, retries(&events).len()),
        (FaultKind::Network, 1)
    );
}

#[tokio::test]
async fn json_documents_are_read_and_oversized_or_foreign_bodies_are_refused() {
    let vendor = ModelVendor::OpenAiChat;
    let document =
        r#"{"choices":[{"index":0,"message":{"content":"Whole."},"finish_reason":"stop"}]}"#;
    let huge = format!("data: {}\n\n", "x".repeat(70 * 1024));
    let redirect = vec![("location", "http://elsewhere/".to_owned())];
    for (reply, expected) in [
        (Reply::Document(document.to_owned()), Ok("Whole.")),
        (
            Reply::Document("{\"a\":".to_owned()),
            Err(FaultKind::Unreadable),
        ),
        (
            Reply::Document(format!("\"{}\"", "x".repeat(70 * 1024))),
            Err(FaultKind::Unreadable),
        ),
        (Reply::Stream(huge), Err(FaultKind::Unreadable)),
        (
            Reply::Status(307, redirect, String::new()),
            Err(FaultKind::InvalidRequest),
        ),
    ] {
        let server = VendorServer::start(vendor, vec![reply]).await;
        let (turn, _) = ask(&server.model(), &question(), &usual_tools()).await;
        let found = turn
            .as_ref()
            .map(ModelTurn::text)
            .map_err(|fault| fault.kind);
        assert_eq!(found, expected.map(str::to_owned));
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn a_missing_key_says_what_to_set_and_no_key_prints() {
    let vendor = ModelVendor::Anthropic;
    let server = VendorServer::start(vendor, Vec::new()).await;
    let model = server.model();
    assert!(!format!("{model:?} {}", model.description()).contains(KEY));
    let mut settings: ModelSettings = model.settings().clone();
    settings.api_key = None;
    let model = HttpModel::new(settings).expect("a model");
    let (turn, _) = ask(&model, &question(), &usual_tools()).await;
    let fault = turn.expect_err("a fault");
    assert_eq!(
        (fault.kind, fault.may_work_later()),
        (FaultKind::Authentication, false)
    );
    // The vendor's own variable is for the vendor's own server.
    let message = "there is no key; set `api_key`";
    assert_eq!(fault.message, message, "{fault}");
}
