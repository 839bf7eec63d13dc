//! Events on Evacuations and their pods, and on other objects.

use evacuation_api::Evacuation;
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use kube::Resource;
use machinery_events::Reporter;
pub(crate) use machinery_events::{LAST_EVENTS, Notice, publish_events};
use prometheus_client::metrics::counter::Counter;

/// Takes notices and never waits. Clones share the backlog.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventSink(machinery_events::EventSink);

impl EventSink {
    /// Returns the sink as the publisher takes it.
    pub(crate) fn published(&self) -> machinery_events::EventSink {
        self.0.clone()
    }

    /// Returns the counter of the records that were dropped.
    pub(crate) fn dropped(&self) -> Counter {
        self.0.dropped()
    }

    /// Publishes a notice on an Evacuation, and on its pod unless it is progress.
    pub(crate) fn send(&self, evacuation: &Evacuation, notice: Notice) {
        let reference = evacuation.object_ref(&());
        let target = &evacuation.spec.target.pod;
        let pod = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            namespace: evacuation.metadata.namespace.clone(),
            name: Some(target.name.clone()),
            uid: target.uid.clone(),
            ..ObjectReference::default()
        };
        if !notice.progress {
            self.0.send(pod.clone(), Some(reference.clone()), notice.clone());
        }
        self.0.send(reference, Some(pod), notice);
    }

    /// Publishes a notice on a pod without an Evacuation.
    pub(crate) fn send_about_pod(&self, pod: &Pod, notice: Notice) {
        self.0.send(pod.object_ref(&()), None, notice);
    }

    /// Publishes a notice on an object without an Evacuation.
    pub(crate) fn send_about(&self, object: ObjectReference, notice: Notice) {
        self.0.send(object, None, notice);
    }
}

/// Returns a program as the reporter of its Events. `identity` is the name of this process.
pub(crate) fn reporter(program: &'static str, identity: String) -> Reporter {
    Reporter { controller: program, instance: identity, action: "Evacuate" }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::{Request, Response};
    use http_body_util::BodyExt;
    use kube::{Client, client::Body};
    use serde_json::{Value, json};
    use tokio_util::sync::CancellationToken;
    use tower_test::mock;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_end_is_on_the_evacuation_and_its_pod_and_progress_on_the_evacuation_only() {
        let (service, mut handle) = mock::pair::<Request<Body>, Response<Body>>();
        let sink = EventSink::default();
        let evacuation: Evacuation = serde_json::from_value(json!({
            "metadata": {"namespace": "ns", "name": "e", "uid": "e"},
            "spec": {"target": {"pod": {"name": "p", "uid": "p"}}},
        }))
        .unwrap();
        sink.send(&evacuation, Notice::progress("Accepted", "accepted".to_owned()));
        sink.send(&evacuation, Notice::normal("Evicted", "the pod is gone".to_owned()));
        let stop = CancellationToken::new();
        let client = Client::new(service, "default");
        tokio::spawn(publish_events(
            client,
            reporter("evacuation-controller", "me".to_owned()),
            sink.published(),
            stop,
        ));
        let mut found = Vec::new();
        while let Ok(Some((request, send))) =
            tokio::time::timeout(Duration::from_mins(1), handle.next_request()).await
        {
            let bytes = request.into_body().collect().await.unwrap().to_bytes();
            let event: Value = serde_json::from_slice(&bytes).unwrap();
            found.push(
                [&event["reason"], &event["regarding"]["kind"]].map(|v| v.as_str().unwrap().to_owned()),
            );
            let reply = json!({"metadata": {"name": "x"}, "eventTime": null});
            send.send_response(Response::new(Body::from(reply.to_string().into_bytes())));
        }
        found.sort();
        assert_eq!(found, [["Accepted", "Evacuation"], ["Evicted", "Evacuation"], ["Evicted", "Pod"]]);
    }
}
