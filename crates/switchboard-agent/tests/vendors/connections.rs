//! The connection to a vendor's server: reused for the next turn, and closed if its answer has no end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use switchboard_agent::{HttpModel, ModelSettings, ModelVendor};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use crate::driver::{ask, question, usual_tools};
use crate::server::{read_request, text_stream};

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                    transfer-encoding: chunked\r\n\r\n";

/// Answers every request of a connection. The end of the body comes later than the last event, or
/// not at all.
async fn serve(mut stream: TcpStream, has_end: bool) -> std::io::Result<()> {
    while read_request(&mut stream).await.is_some() {
        let text = text_stream(ModelVendor::Anthropic, "Sunny.");
        let chunk = format!("{HEAD}{:x}\r\n{text}\r\n", text.len());
        stream.write_all(chunk.as_bytes()).await?;
        if has_end {
            // The client reads the last event in the meantime.
            tokio::time::sleep(Duration::from_millis(5)).await;
            stream.write_all(b"0\r\n\r\n").await?;
        }
    }
    Ok(())
}

/// How many connections three turns need.
async fn connections(has_end: bool) -> usize {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a socket");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let accepted = Arc::new(AtomicUsize::new(0));
    let count = accepted.clone();
    let server = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(serve(stream, has_end));
        }
    });
    let mut settings = ModelSettings::new(ModelVendor::Anthropic, "m");
    settings.base_url = Some(url);
    let model = HttpModel::new(settings).expect("a model");
    for _ in 0..3 {
        let began = Instant::now();
        let (turn, _) = ask(&model, &question(), &usual_tools()).await;
        assert_eq!(turn.expect("a turn").text(), "Sunny.");
        // Far below the idle timeout.
        assert!(began.elapsed() < Duration::from_secs(30));
    }
    server.abort();
    accepted.load(Ordering::Relaxed)
}

#[tokio::test]
async fn all_turns_use_one_connection() {
    assert_eq!(connections(true).await, 1);
}

#[tokio::test]
async fn an_answer_without_an_end_marker_is_a_turn_and_closes_its_connection() {
    assert_eq!(connections(false).await, 3);
}
