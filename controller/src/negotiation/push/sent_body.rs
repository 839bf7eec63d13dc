//! Body of a request that reports when the connection takes it.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio_util::sync::CancellationToken;

/// Body that cancels a token when the transport takes it: the connection stands then, and the endpoint reads
/// next.
#[derive(Debug)]
pub(super) struct SentBody {
    bytes: Option<Bytes>,
    sent: CancellationToken,
}

impl SentBody {
    pub(super) fn new(bytes: Vec<u8>, sent: CancellationToken) -> Self {
        Self { bytes: Some(Bytes::from(bytes)), sent }
    }
}

impl Body for SentBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let bytes = self.bytes.take();
        if bytes.is_some() {
            self.sent.cancel();
        }
        Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    /// The exact length: without one the request would be chunked, which some small servers cannot read.
    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}
