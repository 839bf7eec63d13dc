//! How this crate watches.

use kube::runtime::watcher;

/// For how long one watch runs before it is begun anew.
///
/// A connection that died without a word (a node that lost its power, a gateway that forgot it) looks like one on which
/// nothing happens; it is given up a few seconds after this time. With kube's own 290 s an app would not hear of
/// questions for that long, and many a responder's time to answer is shorter.
const WATCH_SECONDS: u32 = 30;

/// What every watch of this crate begins with.
pub(crate) fn config() -> watcher::Config {
    watcher::Config::default().timeout(WATCH_SECONDS)
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::atomic::{AtomicUsize, Ordering},
        time::Duration,
    };

    use bytes::Bytes;
    use evacuation_api::Evacuation;
    use futures::stream;
    use http::{Request, Response};
    use http_body_util::{Full, StreamBody, combinators::BoxBody};
    use kube::{Api, Client, client::Body};

    use crate::{End, EvacuationHandle};

    const FOUND: &str = r#"{"metadata":{"resourceVersion":"5"},"items":[{
        "metadata":{"name":"a","namespace":"shop","uid":"1"},"spec":{"target":{"pod":{"name":"db-0"}}}}]}"#;
    const ENDED: &str = concat!(
        r#"{"type":"MODIFIED","object":{"apiVersion":"evacuation.dev/v1alpha1","kind":"Evacuation","#,
        r#""metadata":{"name":"a","namespace":"shop","uid":"1","resourceVersion":"9"},"#,
        r#""spec":{"target":{"pod":{"name":"db-0"}}},"status":{"conditions":[{"type":"Evacuated","status":"True","#,
        r#""reason":"Evicted","message":"gone","lastTransitionTime":"2026-11-20T22:00:00Z"}]}}}"#,
        "\n"
    );

    #[tokio::test(start_paused = true)]
    async fn a_watch_whose_connection_died_without_a_word_is_begun_anew_within_a_minute() {
        let next = AtomicUsize::new(0);
        let service = tower::service_fn(move |_: Request<Body>| {
            let body: BoxBody<Bytes, Infallible> = match next.fetch_add(1, Ordering::Relaxed) {
                0 => BoxBody::new(Full::from(FOUND)),
                1 => BoxBody::new(StreamBody::new(stream::pending())),
                _ => BoxBody::new(Full::from(ENDED)),
            };
            async move { Ok::<_, Infallible>(Response::new(body)) }
        });
        let object: Evacuation = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "a", "namespace": "shop", "uid": "1"},
            "spec": {"target": {"pod": {"name": "db-0"}}},
        }))
        .unwrap();
        let api = Api::namespaced(Client::new(service, "shop"), "shop");
        let handle = EvacuationHandle::new(api, "acme.io/a", object, false);
        let end = tokio::time::timeout(Duration::from_mins(1), handle.wait()).await;
        assert!(matches!(end, Ok(Ok(End::Evacuated { .. }))), "{end:?}");
    }
}
