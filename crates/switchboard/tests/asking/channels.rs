//! A call carries its caller's channel; what the call leads to comes through that channel, and through no other.

use serde_json::json;
use switchboard::event::{Event, Next};
use switchboard_testkit::{Chaos, Scratch, Step};

use crate::support::{PATIENCE, Person, YOLO, call, open, server};
use crate::ways;

/// S3-15, S3-16, S3-17, S3-19: a call dispatched from a mailbox asks by mail, while somebody else sits at the terminal.
#[tokio::test(flavor = "multi_thread")]
async fn s3_17_s3_19_a_call_that_came_by_mail_asks_by_mail() {
    for way in ways::ALL {
        let (scratch, reached) = (Scratch::new(), way.reach());
        let host = open(&scratch, &format!("{YOLO}[servers.demo]\n{}", reached.entry)).await;
        let (mail, terminal) = (Person::new("mail").arc(), Person::new("terminal").arc());
        let text = call(&host, "demo/confirm", &json!({"subject": "the letter"}), &mail).await.unwrap();
        assert_eq!(text, "accepted: the letter would be erased now", "{}", way.name);
        assert_eq!((mail.came(), terminal.came()), (vec!["Really erase the letter?".to_owned()], vec![]), "{}", way.name);
        host.stop().await;
    }
}

/// S3-18: a question that no call caused is declined, counted, and told in one line.
#[tokio::test(flavor = "multi_thread")]
async fn s3_18_a_question_without_a_call_is_declined_and_told() {
    let scratch = Scratch::new();
    let go = scratch.path("go");
    let chaos = Chaos::new()
        .tool("ok", Step::text("hi"))
        .on("notifications/initialized", [Step::wait_file(&go), Step::ask("anybody?")])
        .record(scratch.path("seen"));
    let host = open(&scratch, &format!("{YOLO}{}", chaos.entry("chaos").render())).await;
    let mut events = host.events();
    std::fs::write(&go, "").unwrap();
    let told = async {
        loop {
            if let Some(Next::Event(Event::Notice { server, line })) = events.next().await {
                return (server.map(|server| server.to_string()), line);
            }
        }
    };
    let told = tokio::time::timeout(PATIENCE, told).await.expect("it is told");
    let line = "a question of the server was declined: no call is under way that it could belong to";
    assert_eq!(told, (Some("chaos".to_owned()), line.to_owned()));
    assert_eq!(server(&host).snapshot().noticed.oddities().unattributed, 1);
    host.stop().await;
}
