//! A kube-apiserver that answers as a test says. For faults and for counting; what a real one answers is in
//! `cluster`.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use http::{Request, Response};
use kube::client::Body;
use serde_json::{Value, json};

/// Counts the calls.
#[derive(Clone, Default)]
pub(crate) struct Calls(Arc<AtomicUsize>);

impl Calls {
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// A client of a server that answers the n-th call (from 1) with what `answer` makes of the call's body: code
/// and body.
pub(crate) fn answering<F, A>(answer: F) -> (kube::Client, Calls)
where
    F: Fn(usize, Value) -> A + Clone + Send + 'static,
    A: Future<Output = (u16, Value)> + Send,
{
    let calls = Calls::default();
    let counted = calls.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (answer, call) = (answer.clone(), counted.0.fetch_add(1, Ordering::SeqCst) + 1);
        async move {
            let body = request.into_body().collect_bytes().await.unwrap();
            let (code, value) = answer(call, serde_json::from_slice(&body).unwrap_or_default()).await;
            let body = Body::from(serde_json::to_vec(&value).unwrap());
            Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
        }
    });
    (kube::Client::new(service, "default"), calls)
}

/// A failure as kube-apiserver sends it.
pub(crate) fn failure(code: u16, retry_after_seconds: u32) -> (u16, Value) {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code,
        "message": "as the test says", "reason": "", "details": {"retryAfterSeconds": retry_after_seconds},
    });
    (code, status)
}

/// The call's object with that status.
pub(crate) fn reviewed(mut review: Value, status: Value) -> (u16, Value) {
    review["status"] = status;
    (201, review)
}
