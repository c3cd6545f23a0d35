//! Closes a channel: aborts requests, gives notifications in flight time to finish, and ends the
//! session of a legacy server.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::channel::Channel;
use super::headers;
use super::request::HttpRequest;

/// How long one-way messages may take to finish.
const DRAIN_DEADLINE: Duration = Duration::from_millis(500);

/// How long the DELETE of a legacy session may take.
const DELETE_DEADLINE: Duration = Duration::from_secs(2);

/// Closes the channel. A task completes that within these deadlines.
pub(super) fn close(channel: &Arc<Channel>) {
    if channel.begin_close() {
        let closing = ClosingChannel(channel.clone());
        channel.runtime.spawn(async move { closing.run().await });
    }
}

/// A channel that is being closed. Dropping it marks the channel as closed, so that waiters always
/// continue.
struct ClosingChannel(Arc<Channel>);

impl ClosingChannel {
    async fn run(&self) {
        let channel = &self.0;
        let _ = timeout(DRAIN_DEADLINE, channel.wait_drained()).await;
        channel.abort_all();
        let legacy = channel.legacy();
        if legacy.id.is_none() {
            return;
        }
        let endpoint = &channel.endpoint;
        let headers = legacy.add_headers(&headers::for_get(&endpoint.post_headers));
        // The server may not support this (405) or be gone: then it drops the session itself.
        let _ = timeout(
            DELETE_DEADLINE,
            endpoint.send(HttpRequest::delete(&endpoint.url, &headers)),
        )
        .await;
    }
}

impl Drop for ClosingChannel {
    fn drop(&mut self) {
        self.0.mark_closed();
    }
}
