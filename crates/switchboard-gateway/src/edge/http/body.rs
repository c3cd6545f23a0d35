//! The bodies of responses: a whole document, or pieces that come over time.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

use super::events::EventReader;

/// The body of a response of the HTTP edge.
pub struct HttpBody {
    source: BodySource,
    content_type: Option<&'static str>,
}

enum BodySource {
    /// Empty once it was sent.
    Whole(Bytes),
    Pieces(mpsc::Receiver<Bytes>),
    /// The reader, while no piece is waited for.
    Events(Option<Box<EventReader>>),
    /// The reader comes back with the next piece.
    NextEvents(Pin<Box<dyn Future<Output = ReaderAndPiece> + Send>>),
}

type ReaderAndPiece = (Box<EventReader>, Option<Bytes>);

impl HttpBody {
    /// A whole document.
    pub fn whole(bytes: impl Into<Bytes>) -> Self {
        BodySource::Whole(bytes.into()).into()
    }

    /// A JSON document. The header of its type is written with it: a map of one header would be the
    /// largest part of most responses.
    pub(super) fn json(document: Bytes) -> Self {
        Self {
            source: BodySource::Whole(document),
            content_type: Some("application/json"),
        }
    }

    /// The type that is not among the headers of the response.
    pub(super) fn content_type(&self) -> Option<&'static str> {
        self.content_type
    }

    /// Pieces as they come through the channel, until its senders are gone.
    pub fn pieces(receiver: mpsc::Receiver<Bytes>) -> Self {
        BodySource::Pieces(receiver).into()
    }

    /// The document, or the body itself if it comes in pieces.
    pub(super) fn into_whole(self) -> Result<Bytes, Self> {
        match self.source {
            BodySource::Whole(bytes) => Ok(bytes),
            _ => Err(self),
        }
    }

    pub(super) fn events(reader: EventReader) -> Self {
        BodySource::Events(Some(Box::new(reader))).into()
    }
}

impl From<BodySource> for HttpBody {
    fn from(source: BodySource) -> Self {
        Self {
            source,
            content_type: None,
        }
    }
}

impl Body for HttpBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = match &mut self.source {
            BodySource::Whole(bytes) => {
                let bytes = std::mem::take(bytes);
                (!bytes.is_empty()).then_some(bytes)
            }
            BodySource::Pieces(receiver) => ready!(receiver.poll_recv(context)),
            BodySource::Events(reader) => {
                let Some(mut reader) = reader.take() else {
                    return Poll::Ready(None);
                };
                self.source = BodySource::NextEvents(Box::pin(async move {
                    let piece = reader.next().await;
                    (reader, piece)
                }));
                return self.poll_frame(context);
            }
            BodySource::NextEvents(next) => {
                let (reader, piece) = ready!(next.as_mut().poll(context));
                self.source = BodySource::Events(piece.is_some().then_some(reader));
                piece
            }
        };
        Poll::Ready(piece.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            BodySource::Whole(bytes) => bytes.is_empty(),
            BodySource::Events(reader) => reader.is_none(),
            BodySource::Pieces(_) | BodySource::NextEvents(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            BodySource::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            _ => SizeHint::default(),
        }
    }
}
