//! The caller of every cell: answers forms, samples and reports roots.

use std::sync::Arc;

use serde_json::json;
use switchboard::caller::{CallerCapabilities, Root};
use switchboard_host_testkit::TestCaller;

/// What the caller offers to servers.
pub(crate) const OFFERS: CallerCapabilities = CallerCapabilities {
    elicit_form: true,
    elicit_url: true,
    sampling: true,
    sampling_tools: false,
};

/// Fills in the name `Ada` and `yes`, whatever else the form has.
pub(crate) fn person(name: &str) -> Arc<TestCaller> {
    let root = Root {
        uri: "file:///work".to_owned(),
        name: None,
    };
    TestCaller::new(name)
        .capabilities(OFFERS)
        .fills_in(json!({"name": "Ada", "yes": true}))
        .model("parrot", "fine")
        .roots(vec![root])
        .arc()
}
