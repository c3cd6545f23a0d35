//! Messages over a child's standard streams, one JSON line each: one task writes the whole queue at
//! once, one task reads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::deliver::deliver_text;
use super::read_limit::{Pacer, ReadLimit, ReadUsage};
use super::{Closed, ConnectFault, Connector, Inbound, MessageKind, Transport, supervised};
use crate::future::BoxFuture;
use crate::sync::{lock, yield_to_ready_tasks};
use crate::wire::lines::{Frame, LineFrames, push_line};
use crate::wire::{Outgoing, RawJson};

/// Requests wait while this many bytes are queued and not yet written.
const MAX_QUEUED_BYTES: usize = 1024 * 1024;

/// How long writing the rest of the queue may take when the channel closes: a server that does not
/// read must still see the end of its input.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(500);

/// How long the reader may take to report the end of a server that can no longer be written to: with
/// one that exits, its last messages count.
const END_GRACE_PERIOD: Duration = Duration::from_millis(500);

/// How long the server's output is read after the session has ended: as long as stopping it takes,
/// so that it gets no broken pipe before.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(5);

/// The size of each read.
const READ_BYTES: usize = 64 * 1024;

/// Connects over the two pipes of one child, once.
#[derive(Debug)]
pub struct StdioConnector {
    pipes: Mutex<Option<(pipe::Sender, pipe::Receiver)>>,
    max_message_bytes: usize,
}

impl StdioConnector {
    /// Takes the child's stdin and stdout.
    pub fn new(stdin: pipe::Sender, stdout: pipe::Receiver, max_message_bytes: usize) -> Self {
        Self {
            pipes: Mutex::new(Some((stdin, stdout))),
            max_message_bytes,
        }
    }
}

impl Connector for StdioConnector {
    fn connect<'a>(
        &'a self,
        inbound: Arc<dyn Inbound>,
    ) -> BoxFuture<'a, Result<Arc<dyn Transport>, ConnectFault>> {
        Box::pin(async move {
            let pipes = lock(&self.pipes).take();
            let (stdin, stdout) =
                pipes.ok_or_else(|| ConnectFault("these pipes are in use already".into()))?;
            let queue = Arc::new(StdinQueue::default());
            // The transport owns both tasks. The writer ends soon after the transport closes, once
            // the queue is written; the reader ends with the server, or soon after the transport is
            // dropped.
            let writing = write(stdin, inbound.clone(), queue.clone());
            tokio::spawn(supervised(inbound.clone(), writing));
            let reading = read(
                stdout,
                self.max_message_bytes,
                inbound.clone(),
                queue.clone(),
            );
            tokio::spawn(supervised(inbound, reading));
            Ok(Arc::new(StdioTransport { queue }) as Arc<dyn Transport>)
        })
    }
}

/// The sending half, and the owner of both tasks.
#[derive(Debug)]
struct StdioTransport {
    queue: Arc<StdinQueue>,
}

impl Drop for StdioTransport {
    fn drop(&mut self) {
        // A cancellation is queued just before a session is dropped: it must still be written.
        self.queue.close();
        self.queue.dropped.notify_one();
    }
}

/// Bytes to be written to the server.
#[derive(Debug, Default)]
struct StdinQueue {
    pending: Mutex<PendingBytes>,
    /// Whether so many bytes are queued that requests wait. Changed with `pending` locked; every
    /// request asks, without the lock.
    is_full: AtomicBool,
    /// The server answered several requests at once. Their callers are about to run, and may queue
    /// further requests: the writer lets them.
    answered_several: AtomicBool,
    /// Notified when the queue is no longer empty, or closes. The writer waits on it.
    filled: Notify,
    /// Notified when the writer has taken the queue. Requests that wait for room wait on it.
    taken: Notify,
    /// Notified when the channel closes. The writer waits on it.
    closing: Notify,
    /// Notified when the transport is dropped. The reader waits on it.
    dropped: Notify,
}

#[derive(Debug, Default)]
struct PendingBytes {
    bytes: Vec<u8>,
    closed: bool,
}

impl Transport for StdioTransport {
    fn send(&self, message: Outgoing<'_>) -> Result<(), Closed> {
        let mut pending = lock(&self.queue.pending);
        if pending.closed {
            return Err(Closed);
        }
        let was_empty = pending.bytes.is_empty();
        pending.bytes.reserve(message.body.len() + 1);
        push_line(&mut pending.bytes, message.body);
        self.queue.update_is_full(&pending);
        drop(pending);
        if was_empty {
            self.queue.filled.notify_one();
        }
        Ok(())
    }

    fn wait_for_room(&self, _: MessageKind) -> Option<BoxFuture<'_, ()>> {
        (!self.queue.has_room()).then(|| Box::pin(self.queue.wait_for_room()) as BoxFuture<'_, ()>)
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        self.queue.close();
        Box::pin(async {})
    }
}

impl StdinQueue {
    fn has_room(&self) -> bool {
        !self.is_full.load(Ordering::Acquire)
    }

    fn update_is_full(&self, pending: &PendingBytes) {
        let is_full = !pending.closed && pending.bytes.len() >= MAX_QUEUED_BYTES;
        self.is_full.store(is_full, Ordering::Release);
    }

    async fn wait_for_room(&self) {
        loop {
            let taken = self.taken.notified();
            tokio::pin!(taken);
            taken.as_mut().enable();
            if self.has_room() {
                return;
            }
            taken.await;
        }
    }

    fn close(&self) {
        let mut pending = lock(&self.pending);
        pending.closed = true;
        self.update_is_full(&pending);
        drop(pending);
        self.filled.notify_one();
        self.closing.notify_one();
        // Sending fails for those who wait for room.
        self.taken.notify_waiters();
    }
}

/// Writes until the channel is closed and the queue is empty, or the timeout has passed. A server
/// that can no longer be written to is reported, even if it lives on.
async fn write(mut stdin: pipe::Sender, inbound: Arc<dyn Inbound>, queue: Arc<StdinQueue>) {
    let timed_out = async {
        queue.closing.notified().await;
        tokio::time::sleep(FLUSH_TIMEOUT).await;
    };
    let written = tokio::select! {
        written = write_queue(&mut stdin, &queue) => written,
        () = timed_out => Ok(()),
    };
    if written.is_ok() {
        return;
    }
    tokio::time::sleep(END_GRACE_PERIOD).await;
    inbound.closed("the server closed its stdin".to_owned());
}

/// Takes the whole queue and writes it at once, repeatedly: messages that are queued during a write
/// are written together.
async fn write_queue(stdin: &mut pipe::Sender, queue: &StdinQueue) -> std::io::Result<()> {
    let mut taken = Vec::new();
    loop {
        let closed = {
            let mut pending = lock(&queue.pending);
            std::mem::swap(&mut pending.bytes, &mut taken);
            queue.update_is_full(&pending);
            pending.closed
        };
        if taken.is_empty() {
            if closed {
                return Ok(());
            }
            queue.filled.notified().await;
            // With 64 callers about six requests then share one write. Otherwise each would be a
            // system call and a wake-up of the server.
            if queue.answered_several.load(Ordering::Relaxed) {
                yield_to_ready_tasks().await;
            }
            continue;
        }
        queue.taken.notify_waiters();
        if let Err(error) = stdin.write_all(&taken).await {
            // The queue must stop growing.
            let mut pending = lock(&queue.pending);
            pending.closed = true;
            pending.bytes = Vec::new();
            queue.update_is_full(&pending);
            drop(pending);
            queue.taken.notify_waiters();
            return Err(error);
        }
        taken.clear();
        taken.shrink_to(MAX_QUEUED_BYTES);
    }
}

/// Reads to the end: for the session, and after its end to discard the rest.
async fn read(
    mut stdout: pipe::Receiver,
    max_message_bytes: usize,
    inbound: Arc<dyn Inbound>,
    queue: Arc<StdinQueue>,
) {
    tokio::select! {
        () = read_messages(&mut stdout, max_message_bytes, inbound, &queue) => return,
        () = queue.dropped.notified() => {}
    }
    let _ = timeout(DISCARD_TIMEOUT, discard(stdout)).await;
}

/// Discards what a server writes while it is being stopped: closing its stdout together with its
/// stdin would end it with a broken pipe.
async fn discard(mut stdout: pipe::Receiver) {
    let limit = ReadLimit::default();
    let (mut pacer, mut buffer) = (Pacer::new(&limit), vec![0; READ_BYTES]);
    while let Ok(count @ 1..) = stdout.read(&mut buffer).await {
        pacer.count(count, &ReadUsage::discarded(count));
        if let Some(pause) = pacer.pause() {
            pause.await;
        }
    }
}

/// Reads until the end, handing each message to the session.
async fn read_messages(
    stdout: &mut pipe::Receiver,
    max_message_bytes: usize,
    inbound: Arc<dyn Inbound>,
    queue: &StdinQueue,
) {
    let mut lines = LineFrames::new(max_message_bytes);
    let limit = ReadLimit::default();
    let mut pacer = Pacer::new(&limit);
    let reason = loop {
        let read_bytes = match stdout.read_buf(lines.buffer(READ_BYTES)).await {
            Ok(0) => break "the server closed its stdout".to_owned(),
            Ok(count) => count,
            Err(error) => break format!("reading from the server failed: {error}"),
        };
        let mut has_more = true;
        while has_more {
            let (mut handled, buffered) = (ReadUsage::default(), lines.buffered());
            has_more = lines.drain_while(&mut |frame| {
                deliver(frame, &*inbound, &mut handled);
                !handled.fills_turn()
            });
            handled.bytes = buffered - lines.buffered();
            let answered_several = handled.answers() > 1;
            queue
                .answered_several
                .store(answered_several, Ordering::Relaxed);
            pacer.count(read_bytes, &handled);
            if let Some(pause) = pacer.pause() {
                pause.await;
            }
        }
    };
    lines.finish(&mut |frame| deliver(frame, &*inbound, &mut ReadUsage::default()));
    inbound.closed(reason);
}

fn deliver(frame: Frame<'_>, inbound: &dyn Inbound, handled: &mut ReadUsage) {
    match &frame {
        Frame::Oversized(message) => handled.message(0, inbound, || {
            inbound.oversized(Some(message.clone()));
            1
        }),
        Frame::OversizedUnknown => handled.message(0, inbound, || {
            inbound.oversized(None);
            1
        }),
        Frame::Short(line) => handled.message(line.len(), inbound, || {
            deliver_text(line, RawJson::keep, inbound)
        }),
        Frame::Long(line) => {
            let keep = |text: &str| RawJson::share(line, text);
            handled.message(line.len(), inbound, || deliver_text(line, keep, inbound));
        }
    }
}

#[cfg(test)]
mod tests;
