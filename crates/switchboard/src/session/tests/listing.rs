//! Tests of lists: pages, limits, and lists that never end.

use super::*;

type Listing = tokio::task::JoinHandle<Result<Offerings, RequestFault>>;

/// Opens a session whose server declares resources, and starts listing.
async fn listing() -> (Listing, ScriptedServer) {
    listing_with(options(Protocol::Legacy)).await
}

async fn listing_with(options: OpenOptions) -> (Listing, ScriptedServer) {
    let (connector, peer) = wire();
    let task = tokio::spawn(async move {
        let session = Session::open(&connector, options).await.unwrap();
        session.offerings().await
    });
    let mut peer = peer.await;
    let request = peer.expect("initialize").await;
    peer.answer(
        &request,
        json!({"protocolVersion": "2025-11-25", "capabilities": {"resources": {}}}),
    );
    peer.expect("notifications/initialized").await;
    (task, peer)
}

/// Answers every list request with `page` until the listing ends.
async fn serve(
    mut listing: Listing,
    mut peer: ScriptedServer,
    mut page: impl FnMut(usize, &Value) -> Value,
) -> (Offerings, usize) {
    let mut pages = 0;
    loop {
        tokio::select! {
            biased;
            Some(message) = peer.sent.recv() => {
                match message["method"].as_str() {
                    Some("resources/list") => {
                        pages += 1;
                        let answer = page(pages, &message);
                        peer.answer(&message, answer);
                    }
                    Some("resources/templates/list") => peer.respond_error(&message, -32601),
                    _ => {}
                }
            }
            offerings = &mut listing => return (offerings.unwrap().unwrap(), pages),
        }
    }
}

fn resource(number: usize) -> Value {
    json!({"uri": format!("r:{number}"), "name": format!("r{number}")})
}

#[tokio::test(start_paused = true)]
async fn every_page_is_followed_in_order() {
    let (task, peer) = listing().await;
    let (offerings, pages) = serve(task, peer, |page, request| match page {
        1 => json!({"resources": [resource(1)], "nextCursor": "two"}),
        _ => {
            assert_eq!(request["params"]["cursor"], "two");
            json!({"resources": [resource(2)]})
        }
    })
    .await;
    assert_eq!(pages, 2);
    assert_eq!(
        offerings
            .resources
            .iter()
            .map(|resource| resource.uri.as_str())
            .collect::<Vec<_>>(),
        ["r:1", "r:2"]
    );
    assert_eq!(offerings.faults, []);
}

/// Where connecting may take longer than usual, its list may too.
#[tokio::test(start_paused = true)]
async fn a_slow_list_has_as_long_as_connecting() {
    let (task, mut peer) = listing_with(OpenOptions {
        connect_timeout: Duration::from_secs(90),
        ..options(Protocol::Legacy)
    })
    .await;
    let requests = [peer.next().await, peer.next().await];
    tokio::time::sleep(Duration::from_secs(80)).await;
    for request in requests {
        let key = match request["method"].as_str() {
            Some("resources/list") => "resources",
            _ => "resourceTemplates",
        };
        peer.answer(&request, json!({ key: [] }));
    }
    assert_eq!(task.await.unwrap().unwrap().faults, []);
}

/// Some servers write an empty cursor where there are no more pages.
#[tokio::test(start_paused = true)]
async fn an_empty_cursor_that_comes_twice_ends_the_list_of_a_legacy_server() {
    let (task, peer) = listing().await;
    let page = || json!({"resources": [resource(1)], "nextCursor": ""});
    let (offerings, pages) = serve(task, peer, |_, _| page()).await;
    let uris: Vec<_> = offerings.resources.iter().map(|one| &*one.uri).collect();
    assert_eq!((uris, pages, offerings.faults), (vec!["r:1"], 2, vec![]));
    // It is a cursor like any other while it leads on.
    let (task, peer) = listing().await;
    let (offerings, pages) = serve(task, peer, |number, _| match number {
        1 => page(),
        _ => json!({"resources": [resource(2)]}),
    })
    .await;
    assert_eq!((offerings.resources.len(), pages), (2, 2));
}

/// F15, T28: endless, repeated and huge cursors, and too many items, are a fault of that list
/// alone.
#[tokio::test(start_paused = true)]
async fn f15_t28_lists_that_never_end_are_cut_off() {
    let faults = |offerings: Offerings| {
        offerings
            .faults
            .into_iter()
            .map(|(method, fault)| format!("{method}: {fault}"))
            .collect::<Vec<_>>()
    };

    let (task, peer) = listing().await;
    let (offerings, pages) = serve(
        task,
        peer,
        |_, _| json!({"resources": [], "nextCursor": "again"}),
    )
    .await;
    assert_eq!(pages, 2);
    assert_eq!(
        faults(offerings),
        [
            "resources/list: the answer is not valid: the same cursor came twice, so the list would never end"
        ]
    );

    let (task, peer) = listing().await;
    let (offerings, pages) = serve(
        task,
        peer,
        |page, _| json!({"resources": [], "nextCursor": page.to_string()}),
    )
    .await;
    assert_eq!(pages, 1_000);
    assert_eq!(
        faults(offerings),
        ["resources/list: the answer is not valid: more than 1000 pages"]
    );

    let (task, peer) = listing().await;
    let many: Vec<Value> = (0..500).map(resource).collect();
    let (offerings, pages) = serve(
        task,
        peer,
        |page, _| json!({"resources": many, "nextCursor": page.to_string()}),
    )
    .await;
    assert_eq!(pages, 41);
    assert_eq!(
        faults(offerings),
        ["resources/list: the answer is not valid: more than 20000 items"]
    );

    let (task, peer) = listing().await;
    let cursor = "c".repeat(65 * 1024);
    let (offerings, _) = serve(
        task,
        peer,
        |_, _| json!({"resources": [], "nextCursor": cursor}),
    )
    .await;
    assert_eq!(
        faults(offerings),
        ["resources/list: the answer is not valid: a cursor of 66560 bytes"]
    );
}

#[tokio::test(start_paused = true)]
async fn an_invalid_list_is_a_fault_of_that_list_alone() {
    let (task, peer) = listing().await;
    let (offerings, _) = serve(task, peer, |_, _| json!({"resources": {"a": 1}})).await;
    assert_eq!(offerings.faults.len(), 1);
}

/// A result of a kind that this revision does not know is invalid, whatever else it contains.
#[tokio::test(start_paused = true)]
async fn a_modern_list_or_completion_of_an_unknown_kind_is_invalid() {
    let (connector, peer) = wire();
    let opening = tokio::spawn(async move {
        Session::open(&connector, options(Protocol::Modern))
            .await
            .unwrap()
    });
    let mut peer = peer.await;
    let request = peer.expect("server/discover").await;
    peer.answer(&request, json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}, "completions": {}}}));
    let session = opening.await.unwrap();
    for (kind, is_accepted) in [("complete", true), ("dream", false), ("task", false)] {
        let listed = session.clone();
        let listing = tokio::spawn(async move { listed.offerings().await.unwrap() });
        let request = peer.expect("tools/list").await;
        peer.answer(&request, json!({"resultType": kind, "tools": []}));
        let faults = listing.await.unwrap().faults;
        assert_eq!(faults.is_empty(), is_accepted, "{kind}: {faults:?}");

        let completed = session.clone();
        let completing = tokio::spawn(async move {
            let of = CompletionTarget::Prompt("p".to_owned());
            let given = serde_json::Map::new();
            let wait = Duration::from_secs(5);
            completed.completions(&of, "a", "", &given, wait).await
        });
        let request = peer.expect("completion/complete").await;
        let result = json!({"resultType": kind, "completion": {"values": []}});
        peer.answer(&request, result);
        let completed = completing.await.unwrap();
        assert_eq!(completed.is_ok(), is_accepted, "{kind}: {completed:?}");
    }
}
