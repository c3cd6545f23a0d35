//! The bodies of responses: a whole document, or pieces that come over time.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

use super::events::EventReader;

/// The body of a response of the HTTP edge.
pub struct HttpBody(BodySource);

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
        Self(BodySource::Whole(bytes.into()))
    }

    /// Pieces as they come through the channel, until its senders are gone.
    pub fn pieces(receiver: mpsc::Receiver<Bytes>) -> Self {
        Self(BodySource::Pieces(receiver))
    }

    pub(super) fn events(reader: EventReader) -> Self {
        Self(BodySource::Events(Some(Box::new(reader))))
    }
}

impl Body for HttpBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = match &mut self.0 {
            BodySource::Whole(bytes) => {
                let bytes = std::mem::take(bytes);
                (!bytes.is_empty()).then_some(bytes)
            }
            BodySource::Pieces(receiver) => ready!(receiver.poll_recv(context)),
            BodySource::Events(reader) => {
                let Some(mut reader) = reader.take() else {
                    return Poll::Ready(None);
                };
                self.0 = BodySource::NextEvents(Box::pin(async move {
                    let piece = reader.next().await;
                    (reader, piece)
                }));
                return self.poll_frame(context);
            }
            BodySource::NextEvents(next) => {
                let (reader, piece) = ready!(next.as_mut().poll(context));
                self.0 = BodySource::Events(piece.is_some().then_some(reader));
                piece
            }
        };
        Poll::Ready(piece.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            BodySource::Whole(bytes) => bytes.is_empty(),
            BodySource::Events(reader) => reader.is_none(),
            BodySource::Pieces(_) | BodySource::NextEvents(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            BodySource::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            _ => SizeHint::default(),
        }
    }
}
