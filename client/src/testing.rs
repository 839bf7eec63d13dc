//! An API for tests of this crate.

use std::{
    convert::Infallible,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use http::{Request, Response};
use kube::{Client, client::Body};

/// A client of an API that replies so, one reply after another and the last one for ever, whatever is asked.
pub(crate) fn replying(replies: &'static [(u16, &'static str)]) -> Client {
    recording(replies).0
}

/// As [`replying`], with what was sent: the body of each request, and null where there is none.
pub(crate) fn recording(
    replies: &'static [(u16, &'static str)],
) -> (Client, Arc<Mutex<Vec<serde_json::Value>>>) {
    let next = AtomicUsize::new(0);
    let sent = Arc::new(Mutex::new(Vec::new()));
    let record = sent.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let index = next.fetch_add(1, Ordering::Relaxed).min(replies.len() - 1);
        let (code, body) = replies[index];
        let reply = Response::builder()
            .status(code)
            .body(Body::from(body.as_bytes().to_vec()));
        let record = record.clone();
        async move {
            let bytes = request.into_body().collect_bytes().await.unwrap();
            let value = serde_json::from_slice(&bytes).unwrap_or_default();
            record.lock().unwrap().push(value);
            Ok::<_, Infallible>(reply.unwrap())
        }
    });
    (Client::new(service, "shop"), sent)
}
