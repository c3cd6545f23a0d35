//! A client whose messages are lines on a stream of bytes: standard streams, a Unix socket.

use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use switchboard::config::MAX_MESSAGE_BYTES;
use switchboard::sync::yield_to_ready_tasks;
use switchboard::wire::lines::{Frame, LineFrames};
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

/// Serves one client until either end of the connection is closed. After the client closed its end,
/// the requests in flight may end; after a few seconds the rest is answered with an error.
pub async fn serve(
    gateway: &Gateway,
    principal: Principal,
    selection: ServerSelection,
    reader: impl AsyncRead + Unpin,
    writer: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    let (outbound, queue) = gateway.outbound();
    let client = gateway.connect(principal, selection, outbound.clone());
    let reading = async move {
        let outcome = read(&client, &outbound, reader).await;
        client.drain(DRAIN).await;
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
        Frame::Oversized(id) => client.reject_oversized(Some(&id), outbound),
        Frame::OversizedUnknown => client.reject_oversized(None, outbound),
    };
    loop {
        if reader.read_buf(frames.buffer(READ_BYTES)).await? == 0 {
            frames.finish(&mut receive);
            return Ok(());
        }
        frames.drain(&mut receive);
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
        writer.write_all(&buffer).await?;
        writer.flush().await?;
        buffer.clear();
    }
    Ok(())
}

fn push_line(buffer: &mut BytesMut, message: &[u8]) {
    buffer.extend_from_slice(message);
    buffer.extend_from_slice(b"\n");
}
