//! The task of one connection: reads the stream and posts queued messages, until either side ends.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use reqwest::StatusCode;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};
use url::Url;

use super::post_queue::{PostCommand, PostQueue, QueuedMessage};
use super::stream::SseStream;
use crate::transport::http::endpoint::McpEndpoint;
use crate::transport::http::request::HttpRequest;
use crate::transport::http::status_fault;
use crate::transport::read_limit::ReadLimit;
use crate::transport::{Inbound, TransportFault};

/// The deadline of a request's POST. A server may hold it until it has sent the response, so it is
/// as long as any call; cancelling the call aborts it.
const REQUEST_DEADLINE: Duration = Duration::from_secs(60 * 60);

/// The deadline of notifications and responses, which nobody waits for.
const ONE_WAY_DEADLINE: Duration = Duration::from_secs(30);

/// How long queued messages may take when the channel is closed.
const DRAIN_DEADLINE: Duration = Duration::from_millis(500);

/// How much of the response to a POST is read, to reuse the connection.
const MAX_DRAINED_BYTES: usize = 64 * 1024;

/// Runs one connection to its end. Responses to the server use an endpoint of their own, which our
/// requests cannot block.
pub(super) async fn run(
    endpoint: McpEndpoint,
    reply_endpoint: McpEndpoint,
    queue: Arc<PostQueue>,
    inbound: Arc<dyn Inbound>,
) {
    let limit = ReadLimit::default();
    let opened = tokio::select! {
        opened = SseStream::open(&endpoint, &*inbound, &limit) => opened,
        () = queue.closed() => return,
    };
    match opened {
        Ok(stream) => {
            let target = PostTarget {
                endpoint,
                reply_endpoint,
                messages: stream.messages.clone(),
            };
            SseConnection::new(target, queue, inbound).run(stream).await;
        }
        Err(fault) => refuse(&fault, &queue, &*inbound).await,
    }
}

/// Fails each request with the fault of a stream that could not be opened, until the channel is
/// closed.
async fn refuse(fault: &TransportFault, queue: &PostQueue, inbound: &dyn Inbound) {
    while let Some(command) = queue.take().await {
        if let PostCommand::Post(message) = command {
            queue.finished(message.id.is_some());
            if let Some(id) = message.id {
                inbound.failed(id, fault.clone());
            }
        }
    }
}

/// An open connection.
struct SseConnection {
    target: Arc<PostTarget>,
    queue: Arc<PostQueue>,
    inbound: Arc<dyn Inbound>,
    /// The POSTs in flight.
    posts: JoinSet<PostOutcome>,
    requests: HashMap<u64, AbortHandle>,
    /// Whether `notifications/initialized` is in flight: no message may overtake it.
    is_exclusive: bool,
}

/// The endpoint that messages are posted to.
struct PostTarget {
    endpoint: McpEndpoint,
    /// The same endpoint over other connections, which our requests cannot block.
    reply_endpoint: McpEndpoint,
    messages: Url,
}

/// The outcome of a POST.
struct PostOutcome {
    id: Option<u64>,
    is_exclusive: bool,
    outcome: Result<(), TransportFault>,
}

/// The events that the connection's task handles.
enum SseTaskEvent {
    Ended(String),
    Posted(Option<PostOutcome>),
    Command(Option<PostCommand>),
}

impl SseConnection {
    fn new(target: PostTarget, queue: Arc<PostQueue>, inbound: Arc<dyn Inbound>) -> Self {
        Self {
            target: Arc::new(target),
            queue,
            inbound,
            posts: JoinSet::new(),
            requests: HashMap::new(),
            is_exclusive: false,
        }
    }

    async fn run(mut self, stream: SseStream<'_>) {
        let queue = self.queue.clone();
        let overdue = async {
            queue.closed().await;
            sleep(DRAIN_DEADLINE).await;
        };
        tokio::select! {
            () = self.serve(stream) => {}
            () = overdue => {}
        }
    }

    async fn serve(&mut self, mut stream: SseStream<'_>) {
        loop {
            let next = tokio::select! {
                reason = stream.read(&*self.inbound) => SseTaskEvent::Ended(reason),
                Some(posted) = self.posts.join_next() => SseTaskEvent::Posted(posted.ok()),
                command = self.queue.take(), if !self.is_exclusive => SseTaskEvent::Command(command),
            };
            match next {
                SseTaskEvent::Ended(reason) => return self.inbound.closed(reason),
                SseTaskEvent::Posted(posted) => {
                    if let Some(reason) = self.posted(posted) {
                        return self.inbound.closed(reason);
                    }
                }
                SseTaskEvent::Command(Some(command)) => self.begin(command),
                SseTaskEvent::Command(None) => {
                    // Requests are aborted; notifications and responses may still finish.
                    self.requests.values().for_each(AbortHandle::abort);
                    while self.posts.join_next().await.is_some() {}
                    return;
                }
            }
        }
    }

    fn begin(&mut self, command: PostCommand) {
        match command {
            PostCommand::Post(message) => {
                let (id, is_exclusive) = (message.id, message.is_exclusive);
                self.is_exclusive = is_exclusive;
                let target = self.target.clone();
                let post = async move {
                    PostOutcome {
                        id,
                        is_exclusive,
                        outcome: target.post(message).await,
                    }
                };
                let handle = self.posts.spawn(post);
                if let Some(id) = id {
                    self.requests.insert(id, handle);
                }
            }
            PostCommand::Cancel(id) => {
                if let Some(post) = self.requests.remove(&id) {
                    post.abort();
                }
            }
        }
    }

    /// Handles a finished POST. Returns a reason if the connection is no longer usable.
    fn posted(&mut self, posted: Option<PostOutcome>) -> Option<String> {
        // An aborted POST belongs to a cancelled request.
        self.queue
            .finished(posted.as_ref().is_none_or(|posted| posted.id.is_some()));
        let PostOutcome {
            id,
            is_exclusive,
            outcome,
        } = posted?;
        self.is_exclusive &= !is_exclusive;
        if let Some(id) = id {
            self.requests.remove(&id);
        }
        let fault = outcome.err()?;
        let forgotten = matches!(
            fault,
            TransportFault::Status {
                status: 404 | 410,
                ..
            }
        );
        let reason = format!("the server no longer knows this connection: {fault}");
        match id {
            Some(id) => self.inbound.failed(id, fault),
            None => tracing::debug!(%fault, "a notification or response was rejected"),
        }
        forgotten.then_some(reason)
    }
}

impl PostTarget {
    async fn post(&self, message: QueuedMessage) -> Result<(), TransportFault> {
        let QueuedMessage {
            id,
            body,
            is_answer,
            is_exclusive: _,
        } = message;
        let limit = if id.is_some() {
            REQUEST_DEADLINE
        } else {
            ONE_WAY_DEADLINE
        };
        let endpoint = if is_answer {
            &self.reply_endpoint
        } else {
            &self.endpoint
        };
        let McpEndpoint {
            address,
            post_headers,
            ..
        } = endpoint;
        let taken = async {
            let mut response = endpoint
                .send(HttpRequest::post(&self.messages, post_headers, &body))
                .await?;
            if !response.status().is_success() {
                return Err(status_fault::read(response, id).await);
            }
            let mut read = 0;
            while response.status() != StatusCode::NO_CONTENT
                && read < MAX_DRAINED_BYTES
                && let Ok(Some(chunk)) = response.chunk().await
            {
                read += chunk.len();
            }
            Ok(())
        };
        match timeout(limit, taken).await {
            Ok(outcome) => outcome,
            Err(_) => Err(TransportFault::Lost(format!(
                "{address} did not accept a message within {} s",
                limit.as_secs()
            ))),
        }
    }
}
