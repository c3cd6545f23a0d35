//! The end of a channel: requests end at once, what was said before still leaves, and a legacy
//! server is told that the session is over.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::channel::Channel;
use super::headers;
use super::request::Request;

/// How long what was said before the end may take to leave.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// How long the server may take to be told of the end.
const FAREWELL: Duration = Duration::from_secs(2);

/// Ends it. What must still be said is said by a task that these two deadlines end.
pub(super) fn close(channel: &Arc<Channel>) {
    if channel.shut() {
        let farewell = Farewell(channel.clone());
        channel.runtime.spawn(async move { farewell.say().await });
    }
}

/// The last words of a channel. However they end, whoever waits for them goes on.
struct Farewell(Arc<Channel>);

impl Farewell {
    async fn say(&self) {
        let channel = &self.0;
        let _ = timeout(LAST_WORDS, channel.all_landed()).await;
        channel.ground_all();
        let legacy = channel.legacy();
        if legacy.id.is_none() {
            return;
        }
        let endpoint = &channel.endpoint;
        let headers = legacy.beside(&headers::listening(&endpoint.posting));
        // It may not let us (405), or be gone: it forgets the session by itself then.
        let _ = timeout(
            FAREWELL,
            endpoint.ask(Request::delete(&endpoint.url, &headers)),
        )
        .await;
    }
}

impl Drop for Farewell {
    fn drop(&mut self) {
        self.0.end();
    }
}
