//! Fixtures that the tests of the features share.

use std::sync::{Arc, Mutex};

use http::{Request, Response, request::Parts};
use http_body_util::BodyExt;
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tower_test::mock;

use super::{Cluster, EventSink, Leadership, lock};

/// The requests that an API got, in order: each the method and the last part of the path.
pub(crate) type Asked = Arc<Mutex<Vec<String>>>;

/// Returns the handles of a process that leads and whose API answers nothing.
pub(crate) fn cluster_without_api() -> Cluster {
    cluster_with_handle().0
}

/// Returns the handles of a process that leads, and its API, whose requests the test answers.
pub(crate) fn cluster_with_handle() -> (Cluster, mock::Handle<Request<Body>, Response<Body>>) {
    let (service, handle) = mock::pair();
    (cluster(Client::new(service, "default")), handle)
}

/// Returns the handles of a process that leads, and what its API is asked. `reply` returns the code and the
/// body of the API's response to a request and its body.
pub(crate) fn cluster_with_api(
    mut reply: impl FnMut(&Parts, Value) -> (u16, Value) + Send + 'static,
) -> (Cluster, Asked) {
    let (cluster, mut handle) = cluster_with_handle();
    let asked = Asked::default();
    let log = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Some((request, send)) = handle.next_request().await {
            let (parts, body) = request.into_parts();
            lock(&log).push(format!("{} {}", parts.method, last(&parts)));
            let sent = body.collect().await.unwrap().to_bytes();
            let (code, body) = reply(&parts, serde_json::from_slice(&sent).unwrap_or_default());
            send.send_response(response(code, &body));
        }
    });
    (cluster, asked)
}

/// Returns the response of that code and body.
pub(crate) fn response(code: u16, body: &Value) -> Response<Body> {
    Response::builder().status(code).body(Body::from(body.to_string().into_bytes())).unwrap()
}

/// Returns the last part of a request's path.
pub(crate) fn last(request: &Parts) -> &str {
    request.uri.path().rsplit('/').next().unwrap_or_default()
}

/// Returns the response for an object that does not exist.
pub(crate) fn not_found() -> (u16, Value) {
    let details = json!({"name": "gone", "kind": "objects"});
    (
        404,
        json!({"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound", "details": details}),
    )
}

fn cluster(client: Client) -> Cluster {
    Cluster::new(client, Leadership::alone(), EventSink::default())
}
