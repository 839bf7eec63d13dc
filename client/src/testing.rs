//! An API for tests of this crate.

use std::{
    convert::Infallible,
    sync::atomic::{AtomicUsize, Ordering},
};

use http::{Request, Response};
use kube::{Client, client::Body};

/// A client of an API that replies so, one reply after another and the last one for ever, whatever is asked.
pub(crate) fn replying(replies: &'static [(u16, &'static str)]) -> Client {
    let next = AtomicUsize::new(0);
    let service = tower::service_fn(move |_: Request<Body>| {
        let index = next.fetch_add(1, Ordering::Relaxed).min(replies.len() - 1);
        let (code, body) = replies[index];
        let reply = Response::builder()
            .status(code)
            .body(Body::from(body.as_bytes().to_vec()));
        async move { Ok::<_, Infallible>(reply.unwrap()) }
    });
    Client::new(service, "shop")
}
