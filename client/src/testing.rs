//! An API for tests of this crate.

use std::{
    convert::Infallible,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use evacuation_api::{Evacuation, SELF_RESPONDER};
use http::{Request, Response};
use kube::{Client, client::Body};

use crate::{Question, session::question, source::Source};

/// A client of an API with these replies, in their order; the last one is repeated.
pub(crate) fn replying(replies: &'static [(u16, &'static str)]) -> Client {
    recording(replies).0
}

/// A client like [`replying`]'s, with the bodies of its requests; null for a request without one.
pub(crate) fn recording(
    replies: &'static [(u16, &'static str)],
) -> (Client, Arc<Mutex<Vec<serde_json::Value>>>) {
    let next = AtomicUsize::new(0);
    let sent = Arc::new(Mutex::new(Vec::new()));
    let record = sent.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let index = next.fetch_add(1, Ordering::Relaxed).min(replies.len() - 1);
        let (code, body) = replies[index];
        let reply = Response::builder().status(code).body(Body::from(body.as_bytes().to_vec()));
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

/// An Evacuation of the pod `db-0` that asks the responder `self`.
pub(crate) fn asking() -> Evacuation {
    let evacuation = serde_json::json!({
        "metadata": {"name": "a", "namespace": "shop", "uid": "1"},
        "spec": {"target": {"pod": {"name": "db-0"}}, "requesters": [{"name": "acme.io/a"}]},
        "status": {"responders": [{"name": "self", "state": "Active", "priority": 10000, "timeoutSeconds": 60, "maxDelaySeconds": 600,
            "activeTime": "2026-11-20T22:00:00Z"}]},
    });
    serde_json::from_value(evacuation).unwrap()
}

/// The question that [`asking`] asks, answered through that client.
pub(crate) fn asked(client: &Client) -> Question {
    let evacuation = asking();
    question(client, &evacuation, evacuation.responder(SELF_RESPONDER).unwrap()).0
}
