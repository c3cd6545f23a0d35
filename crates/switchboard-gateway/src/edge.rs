//! Where clients connect: the standard streams, HTTP, a Unix socket.

use tokio::sync::watch;

pub mod http;
pub mod lines;
pub mod socket;
pub mod stdio;

/// Waits until an edge closes.
async fn closed(closing: &mut watch::Receiver<bool>) {
    // The sender ends with the edge.
    let _ = closing.wait_for(|closing| *closing).await;
}
