//! The task of one connection: reads the stream and posts what is queued, until either side ends.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use reqwest::StatusCode;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};
use url::Url;

use super::outbox::{Item, Message, Outbox};
use super::stream::Stream;
use crate::transport::http::endpoint::Endpoint;
use crate::transport::http::refusal;
use crate::transport::http::request::Request;
use crate::transport::read_limit::ReadLimit;
use crate::transport::{Inbound, WireFault};

/// A server may take the POST of a request only when it has answered it, so this is as long as any
/// call; a caller that waits no longer ends it.
const REQUEST_DEADLINE: Duration = Duration::from_secs(60 * 60);

/// What nobody waits for may take this long.
const NOTE_DEADLINE: Duration = Duration::from_secs(30);

/// How long what is queued when the channel closes may take to leave.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// So much of what a POST is answered with is read, to keep its connection.
const MAX_DRAINED_BYTES: usize = 64 * 1024;

/// Drives one connection to its end. Answers leave through an endpoint of their own, which no
/// request can hold up.
pub(super) async fn drive(
    endpoint: Endpoint,
    answering: Endpoint,
    outbox: Arc<Outbox>,
    inbound: Arc<dyn Inbound>,
) {
    let limit = ReadLimit::default();
    let opened = tokio::select! {
        opened = Stream::open(&endpoint, &*inbound, &limit) => opened,
        () = outbox.closed() => return,
    };
    match opened {
        Ok(stream) => {
            let posting = Posting {
                endpoint,
                answering,
                messages: stream.messages.clone(),
            };
            Driving::new(posting, outbox, inbound).run(stream).await;
        }
        Err(fault) => refuse(&fault, &outbox, &*inbound).await,
    }
}

/// There is no stream: each request learns why, until the channel is closed.
async fn refuse(fault: &WireFault, outbox: &Outbox, inbound: &dyn Inbound) {
    while let Some(item) = outbox.take().await {
        if let Item::Post(message) = item {
            outbox.over(message.id.is_some());
            if let Some(id) = message.id {
                inbound.failed(id, fault.clone());
            }
        }
    }
}

/// An open connection.
struct Driving {
    posting: Arc<Posting>,
    outbox: Arc<Outbox>,
    inbound: Arc<dyn Inbound>,
    /// Each POST under way, with the id of its request.
    posts: JoinSet<Posted>,
    requests: HashMap<u64, AbortHandle>,
    /// The message that nothing may overtake is under way.
    alone: bool,
}

/// Where messages go.
struct Posting {
    endpoint: Endpoint,
    /// The same place, over connections that no request can hold up.
    answering: Endpoint,
    messages: Url,
}

/// What became of a POST.
struct Posted {
    id: Option<u64>,
    alone: bool,
    outcome: Result<(), WireFault>,
}

/// What happened next.
enum Next {
    Ended(String),
    Posted(Option<Posted>),
    Item(Option<Item>),
}

impl Driving {
    fn new(posting: Posting, outbox: Arc<Outbox>, inbound: Arc<dyn Inbound>) -> Self {
        Self {
            posting: Arc::new(posting),
            outbox,
            inbound,
            posts: JoinSet::new(),
            requests: HashMap::new(),
            alone: false,
        }
    }

    async fn run(mut self, stream: Stream<'_>) {
        let outbox = self.outbox.clone();
        let overdue = async {
            outbox.closed().await;
            sleep(LAST_WORDS).await;
        };
        tokio::select! {
            () = self.serve(stream) => {}
            () = overdue => {}
        }
    }

    async fn serve(&mut self, mut stream: Stream<'_>) {
        loop {
            let next = tokio::select! {
                reason = stream.read(&*self.inbound) => Next::Ended(reason),
                Some(posted) = self.posts.join_next() => Next::Posted(posted.ok()),
                item = self.outbox.take(), if !self.alone => Next::Item(item),
            };
            match next {
                Next::Ended(reason) => return self.inbound.closed(reason),
                Next::Posted(posted) => {
                    if let Some(reason) = self.posted(posted) {
                        return self.inbound.closed(reason);
                    }
                }
                Next::Item(Some(item)) => self.begin(item),
                Next::Item(None) => {
                    // Requests are over with the session; what else was said before its end still
                    // leaves.
                    self.requests.values().for_each(AbortHandle::abort);
                    while self.posts.join_next().await.is_some() {}
                    return;
                }
            }
        }
    }

    fn begin(&mut self, item: Item) {
        match item {
            Item::Post(message) => {
                let (id, alone) = (message.id, message.goes_alone);
                self.alone = alone;
                let posting = self.posting.clone();
                let post = async move {
                    Posted {
                        id,
                        alone,
                        outcome: posting.post(message).await,
                    }
                };
                let handle = self.posts.spawn(post);
                if let Some(id) = id {
                    self.requests.insert(id, handle);
                }
            }
            Item::Forget(id) => {
                if let Some(post) = self.requests.remove(&id) {
                    post.abort();
                }
            }
        }
    }

    /// Answers with a reason where the connection is of no use any more.
    fn posted(&mut self, posted: Option<Posted>) -> Option<String> {
        // One that was ended by us was a request, and has nothing to say.
        self.outbox
            .over(posted.as_ref().is_none_or(|posted| posted.id.is_some()));
        let Posted { id, alone, outcome } = posted?;
        self.alone &= !alone;
        if let Some(id) = id {
            self.requests.remove(&id);
        }
        let fault = outcome.err()?;
        let forgotten = matches!(
            fault,
            WireFault::Status {
                status: 404 | 410,
                ..
            }
        );
        let reason = format!("the server no longer knows this connection: {fault}");
        match id {
            Some(id) => self.inbound.failed(id, fault),
            None => tracing::debug!(%fault, "a message that asks nothing was refused"),
        }
        forgotten.then_some(reason)
    }
}

impl Posting {
    async fn post(&self, message: Message) -> Result<(), WireFault> {
        let Message {
            id,
            body,
            is_answer,
            goes_alone: _,
        } = message;
        let limit = if id.is_some() {
            REQUEST_DEADLINE
        } else {
            NOTE_DEADLINE
        };
        let endpoint = if is_answer {
            &self.answering
        } else {
            &self.endpoint
        };
        let Endpoint { place, posting, .. } = endpoint;
        let taken = async {
            let mut response = endpoint
                .ask(Request::post(&self.messages, posting, &body))
                .await?;
            if !response.status().is_success() {
                return Err(refusal::read(response, id).await);
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
            Err(_) => Err(WireFault::Lost(format!(
                "{place} did not take a message within {} s",
                limit.as_secs()
            ))),
        }
    }
}
