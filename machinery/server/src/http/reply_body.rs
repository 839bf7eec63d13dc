//! The body of a reply, which keeps the request's slot until it was sent.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use actix_web::body::{BodySize, BoxBody, MessageBody};
use bytes::Bytes;

use machinery_tracing::Span;

use super::{exchange::Slot, trail::Trail};

/// Body of a reply, which keeps the slot of its request until the connection has taken all of it.
///
/// A client that does not read its replies so uses up its own share, and not the memory of the server.
pub(crate) struct ReplyBody {
    body: BoxBody,
    _slot: Option<Slot>,
    /// Records the end of a watch when it is dropped.
    _trail: Option<Trail>,
    /// Ends when it is dropped.
    _span: Option<Arc<Span>>,
}

impl ReplyBody {
    pub(crate) fn new(
        body: BoxBody,
        slot: Option<Slot>,
        trail: Option<Trail>,
        span: Option<Arc<Span>>,
    ) -> Self {
        Self { body, _slot: slot, _trail: trail, _span: span }
    }
}

impl MessageBody for ReplyBody {
    type Error = Box<dyn std::error::Error>;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Self::Error>>> {
        Pin::new(&mut self.body).poll_next(context)
    }
}
