//! Where clients connect: the standard streams, HTTP, a Unix socket.

pub mod http;
pub mod lines;
pub mod socket;
pub mod stdio;

/// Waits until an edge closes.
async fn closed(closing: &mut tokio::sync::watch::Receiver<bool>) {
    // The sender goes with the edge.
    let _ = closing.wait_for(|closing| *closing).await;
}
