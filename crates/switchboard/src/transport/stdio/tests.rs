//! Tests of the standard streams.

#![allow(clippy::unwrap_used)]

use tokio::sync::mpsc;

use super::*;
use crate::transport::{MessageOrigin, TransportFault};
use crate::wire::{Incoming, OversizedMessage, RequestMetadata};

struct Ignore;

impl Inbound for Ignore {
    fn message(&self, _: Incoming, _: MessageOrigin) {}
    fn failed(&self, _: u64, _: TransportFault) {}
    fn session_renewed(&self) {}
    fn not_a_message(&self, _: &[u8]) {}
    fn oversized(&self, _: Option<OversizedMessage>) {}
    fn closed(&self, _: String) {}
}

/// Sends this much, drops the transport at once, and returns how much the server reads until its
/// input ends, either at once or `later`.
async fn received(sent: usize, later: Duration) -> usize {
    let (stdin, mut input) = pipe::pipe().unwrap();
    let (_output, stdout) = pipe::pipe().unwrap();
    let transport = StdioConnector::new(stdin, stdout, 1024)
        .connect(Arc::new(Ignore))
        .await
        .unwrap();
    transport
        .send(Outgoing {
            id: None,
            method: None,
            body: &vec![b'x'; sent - 1],
            metadata: RequestMetadata::default(),
        })
        .unwrap();
    drop(transport);
    tokio::time::sleep(later).await;
    let mut bytes = Vec::new();
    input.read_to_end(&mut bytes).await.unwrap();
    bytes.len()
}

/// F28: the cancellation of a call is sent just before the session is closed and dropped.
#[tokio::test]
async fn f28_messages_sent_before_the_end_arrive() {
    assert_eq!(received(100, Duration::ZERO).await, 100);
    assert_eq!(received(300_000, Duration::ZERO).await, 300_000);
}

/// A request that waits for room in a full queue must not wait for a server that reads no more.
#[tokio::test]
async fn closing_ends_the_wait_for_room() {
    let (stdin, _input) = pipe::pipe().unwrap();
    let (_output, stdout) = pipe::pipe().unwrap();
    let transport = StdioConnector::new(stdin, stdout, 1024)
        .connect(Arc::new(Ignore))
        .await
        .unwrap();
    let message = || Outgoing {
        id: None,
        method: None,
        body: &[b'x'; 2 * MAX_QUEUED_BYTES],
        metadata: RequestMetadata::default(),
    };
    // The writer takes the first message, and waits for the server to read it.
    transport.send(message()).unwrap();
    let taken = transport.wait_for_room(MessageKind::Request).unwrap();
    taken.await;
    transport.send(message()).unwrap();
    let waiting = transport.wait_for_room(MessageKind::Request).unwrap();
    tokio::pin!(waiting);
    let polled = tokio::time::timeout(Duration::ZERO, &mut waiting).await;
    assert!(polled.is_err(), "the queue has room");
    transport.close().await;
    waiting.await;
    assert!(transport.send(message()).is_err());
}

/// Passes on why the connection ended.
struct EndReason(mpsc::UnboundedSender<String>);

impl Inbound for EndReason {
    fn message(&self, _: Incoming, _: MessageOrigin) {}
    fn failed(&self, _: u64, _: TransportFault) {}
    fn session_renewed(&self) {}
    fn not_a_message(&self, _: &[u8]) {}
    fn oversized(&self, _: Option<OversizedMessage>) {}
    fn closed(&self, reason: String) {
        self.0.send(reason).unwrap();
    }
}

/// Its stdout stays open, so the reader reports nothing.
#[tokio::test(start_paused = true)]
async fn a_server_that_closes_its_input_and_lives_on_is_reported_at_the_next_message() {
    let (stdin, input) = pipe::pipe().unwrap();
    let (_output, stdout) = pipe::pipe().unwrap();
    let (ended, mut reasons) = mpsc::unbounded_channel();
    let transport = StdioConnector::new(stdin, stdout, 1024)
        .connect(Arc::new(EndReason(ended)))
        .await
        .unwrap();
    drop(input);
    let message = Outgoing {
        id: None,
        method: None,
        body: b"{}",
        metadata: RequestMetadata::default(),
    };
    transport.send(message).unwrap();
    assert_eq!(reasons.recv().await.unwrap(), "the server closed its stdin");
}

/// A server that exits in an orderly way may write first.
#[tokio::test]
async fn a_server_can_write_after_its_input_has_ended() {
    let (stdin, mut input) = pipe::pipe().unwrap();
    let (mut output, stdout) = pipe::pipe().unwrap();
    let transport = StdioConnector::new(stdin, stdout, 1024)
        .connect(Arc::new(Ignore))
        .await
        .unwrap();
    drop(transport);
    assert_eq!(input.read_to_end(&mut Vec::new()).await.unwrap(), 0);
    // More than a pipe holds, so that it must have been read.
    output.write_all(&vec![b'x'; 1 << 20]).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_read_still_sees_the_end_of_its_input() {
    let received = received(300_000, Duration::from_secs(1)).await;
    assert!((1..300_000).contains(&received), "{received}");
}
