//! Tools that a vendor refuses, against scripted servers on four wires.

use switchboard_agent::TurnEvent;
use switchboard_agent::tools::ToolTreatment;

use crate::continuation::VENDORS;
use crate::driver::{PLAIN, ask, question, retries, tools};
use crate::server::{Reply, Strictness, VendorServer, error_body, text_stream};

const PATTERN: &str =
    r#"{"type":"object","properties":{"p":{"type":"string","pattern":"^(?=a)b$"}}}"#;

#[tokio::test]
async fn a_refused_tool_is_simplified_and_the_turn_goes_on() {
    for vendor in VENDORS {
        for strictness in [Strictness::NamesPatterns, Strictness::HidesPatterns] {
            let mut schemas = vec![
                ("weather", PLAIN),
                ("now", PLAIN),
                ("c", PLAIN),
                ("d", PLAIN),
            ];
            schemas.push(("culprit", PATTERN));
            schemas.push(("f", PLAIN));
            let tools = tools(&schemas);
            // Probes of a search are answered, too, and cancelled by the client.
            let replies = vec![Reply::Stream(text_stream(vendor, "Sunny.")); 12];
            let server = VendorServer::start_strict(vendor, replies, strictness).await;
            let model = server.model();
            let (turn, events) = ask(&model, &question(), &tools).await;
            let turn = turn.unwrap_or_else(|fault| panic!("{vendor:?}: {fault}"));
            assert_eq!(turn.text(), "Sunny.");
            let refused: Vec<&str> = events
                .iter()
                .filter_map(|event| match event {
                    TurnEvent::ToolRefused {
                        name,
                        treatment: ToolTreatment::Loosened { words },
                    } if !words.is_empty() => Some(name.as_str()),
                    _ => None,
                })
                .collect();
            assert_eq!(refused, ["culprit"], "{vendor:?} {strictness:?}");
            let requests = server.requests();
            let last = requests.last().expect("a request").to_string();
            assert!(
                last.contains("culprit") && !last.contains("(?=a)"),
                "{last}"
            );
            // It is remembered: the next turn needs one request.
            let before = requests.len();
            let (turn, _) = ask(&model, &question(), &tools).await;
            assert!(turn.is_ok());
            assert_eq!(
                server.requests().len(),
                before + 1,
                "{vendor:?} {strictness:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_busy_vendor_does_not_end_the_search_for_a_refused_tool() {
    for vendor in VENDORS {
        let tools = tools(&[("weather", PLAIN), ("culprit", PATTERN), ("now", PLAIN)]);
        let busy = |status| {
            let body = error_body(vendor, status, "slow down").to_string();
            Reply::Status(status, Vec::new(), body)
        };
        let mut replies = vec![busy(429), busy(503)];
        replies.extend(vec![Reply::Stream(text_stream(vendor, "Sunny.")); 6]);
        let server = VendorServer::start_strict(vendor, replies, Strictness::HidesPatterns).await;
        let (turn, events) = ask(&server.model(), &question(), &tools).await;
        let turn = turn.unwrap_or_else(|fault| panic!("{vendor:?}: {fault}"));
        assert_eq!(turn.text(), "Sunny.");
        assert_eq!(retries(&events).len(), 2, "{vendor:?}");
    }
}
