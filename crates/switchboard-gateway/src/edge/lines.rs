//! A client whose messages are lines on a stream of bytes: standard streams, a Unix socket. One that
//! does not read is disconnected.

use std::io;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use switchboard::config::MAX_MESSAGE_BYTES;
use switchboard::sync::yield_to_ready_tasks;
use switchboard::wire::lines::{Frame, LineFrames, push_line};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use crate::client_session::ClientSession;
use crate::gateway::Gateway;
use crate::outbound::{Outbound, OutboundQueue};
use crate::principal::Principal;
use crate::settings::ServerSelection;

/// How much is read at once.
const READ_BYTES: usize = 64 * 1024;

/// Messages are joined into one write up to this size.
const WRITE_BYTES: usize = 64 * 1024;

/// How long requests may continue after the client closed its end.
const DRAIN: Duration = Duration::from_secs(5);

/// How long a client may stop reading what is written.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// Serves one client until either end of the connection is closed, or the client does not read: that
/// is an error. After the client closed its end, the requests in flight may end; after a few seconds
/// the rest is answered with an error.
pub async fn serve(
    gateway: &Gateway,
    principal: Principal,
    selection: ServerSelection,
    reader: impl AsyncRead + Unpin,
    writer: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    let closing = std::future::pending();
    serve_until(gateway, principal, selection, reader, writer, closing).await
}

/// The same for an edge that closes: no more is read then, as if the client had closed its end.
pub(super) async fn serve_until(
    gateway: &Gateway,
    principal: Principal,
    selection: ServerSelection,
    reader: impl AsyncRead + Unpin,
    writer: impl AsyncWrite + Unpin,
    closing: impl Future<Output = ()>,
) -> io::Result<()> {
    let (outbound, queue) = gateway.outbound();
    let client = gateway.connect(principal, selection, outbound.clone());
    let reading = async move {
        let outcome = tokio::select! {
            biased;
            // First, so that what the client has sent already is handled.
            outcome = read(&client, &outbound, reader) => outcome,
            () = closing => Ok(()),
        };
        client.drain(DRAIN).await;
        // A task of this client may go on, and has a sender.
        outbound.end();
        outcome
    };
    let writing = write(queue, writer);
    tokio::pin!(reading, writing);
    tokio::select! {
        written = &mut writing => written,
        outcome = &mut reading => {
            // The queue ends with the last request.
            let _ = timeout(DRAIN, writing).await;
            outcome
        }
    }
}

async fn read(
    client: &ClientSession,
    outbound: &Outbound,
    mut reader: impl AsyncRead + Unpin,
) -> io::Result<()> {
    let mut frames = LineFrames::new(MAX_MESSAGE_BYTES);
    let mut receive = |frame: Frame<'_>| match frame {
        Frame::Short(line) => receive_line(client, outbound, Bytes::copy_from_slice(line)),
        Frame::Long(line) => receive_line(client, outbound, line),
        Frame::Oversized(message) => client.reject_oversized(Some(&message), outbound),
        Frame::OversizedUnknown => client.reject_oversized(None, outbound),
    };
    // A client that sends many requests before it reads waits, and is not disconnected.
    loop {
        outbound.until_room().await;
        if reader.read_buf(frames.buffer(READ_BYTES)).await? == 0 {
            frames.finish(&mut receive);
            return Ok(());
        }
        while frames.drain_while(&mut |frame| {
            receive(frame);
            outbound.has_room()
        }) {
            outbound.until_room().await;
        }
    }
}

fn receive_line(client: &ClientSession, outbound: &Outbound, line: Bytes) {
    if !line.trim_ascii().is_empty() {
        client.receive(&line, outbound);
    }
}

/// Writes until the queue ends.
async fn write(mut queue: OutboundQueue, mut writer: impl AsyncWrite + Unpin) -> io::Result<()> {
    let mut buffer = BytesMut::new();
    // How many messages the last write had.
    let mut count = 0;
    while let Some(message) = queue.next().await {
        // Requests that end together get their responses in one write.
        if count > 1 {
            yield_to_ready_tasks().await;
        }
        count = 1;
        push_line(&mut buffer, &message);
        while buffer.len() < WRITE_BYTES
            && let Some(message) = queue.try_next()
        {
            count += 1;
            push_line(&mut buffer, &message);
        }
        while !buffer.is_empty() {
            let written = while_reading(&mut queue, writer.write(&buffer)).await?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            buffer.advance(written);
        }
        while_reading(&mut queue, writer.flush()).await?;
    }
    match queue.is_cut_off() {
        true => Err(does_not_read()),
        false => Ok(()),
    }
}

/// The output of a write, unless the client is found not to read.
async fn while_reading<T>(
    queue: &mut OutboundQueue,
    write: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    let written = tokio::select! {
        biased;
        written = timeout(WRITE_TIMEOUT, write) => written.ok(),
        () = queue.until_cut_off() => None,
    };
    written.unwrap_or_else(|| {
        queue.cut_off();
        Err(does_not_read())
    })
}

fn does_not_read() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the client does not read")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// F35: a client that stops in the middle of a message.
    #[tokio::test(start_paused = true)]
    async fn f35_a_client_that_takes_no_byte_for_half_a_minute_is_disconnected() {
        let (outbound, queue) = Outbound::channel();
        let (_client, writer) = tokio::io::duplex(8);
        outbound.send(Bytes::from_static(b"more than the pipe takes"));
        let began = tokio::time::Instant::now();
        let written = timeout(10 * WRITE_TIMEOUT, write(queue, writer)).await;
        let error = written.expect("it ends").expect_err("nobody reads");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(began.elapsed(), WRITE_TIMEOUT);
    }
}
