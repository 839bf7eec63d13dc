//! A namespace on a control plane that serves EvictionRequests.

use std::ops::Deref;

use controlplane::{ControlPlane, eventually};
use evacuation_e2e::{
    PlatformOptions, Scene,
    scene::{CONTROLLER, PATIENCE},
};
use k8s_openapi::{
    api::{
        core::v1::Pod,
        lifecycle::v1alpha1::{Eviction, EvictionRequest, ResponderStatus},
    },
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::Timestamp,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

/// The first responder of the pods of [`Stage::responding_pod`].
pub(crate) const FIRST: &str = "first.example.com/move";
/// The second one.
pub(crate) const SECOND: &str = "second.example.com/move";
/// The responder that stands for the eviction API.
pub(crate) const EVICTOR: &str = "imperative-eviction.k8s.io/evictor";

/// A scene whose controller acts on EvictionRequests.
pub(crate) struct Stage(Scene);

impl Deref for Stage {
    type Target = Scene;

    fn deref(&self) -> &Scene {
        &self.0
    }
}

/// Options of a platform that serves EvictionRequests, and acts on them.
pub(crate) fn options() -> PlatformOptions {
    PlatformOptions {
        control_plane: ControlPlane::builder()
            .feature_gates(&[("EvictionRequestAPI", true)])
            .runtime_config(&["lifecycle.k8s.io/v1alpha1=true"]),
        controller_args: vec!["--eviction-requests".to_owned()],
        components: vec!["eviction-requests".to_owned()],
        ..PlatformOptions::default()
    }
}

impl Stage {
    /// Returns a stage on the platform that all tests of this binary share.
    pub(crate) async fn new(prefix: &str) -> Self {
        Self(Scene::with(prefix, options).await)
    }

    /// Returns a stage on a platform of its own.
    pub(crate) async fn alone(prefix: &str) -> Self {
        Self(Scene::alone(prefix, options()).await)
    }

    /// Creates a pod with this `spec.evictionResponders`, and waits until it runs.
    pub(crate) async fn pod_with(&self, name: &str, responders: Value) -> Pod {
        let pod = json!({
            "metadata": {"name": name, "labels": {"app": name}, "annotations": {
                "controlplane.test/running-after": "100ms", "controlplane.test/gone-after": "100ms",
            }},
            "spec": {"containers": [{"name": "app", "image": "app"}], "evictionResponders": responders},
        });
        let created: Pod = self.create(pod).await;
        let api = self.pods.api();
        let runs = eventually(PATIENCE, "the pod runs", || async {
            let pod = api.get(name).await.unwrap();
            let phase = pod.status.as_ref().and_then(|status| status.phase.clone());
            if phase.as_deref() == Some("Running") { Ok(()) } else { Err(format!("{phase:?}")) }
        });
        runs.await.unwrap();
        created
    }

    /// Creates a pod with [`FIRST`] and [`SECOND`].
    pub(crate) async fn responding_pod(&self, name: &str) -> Pod {
        let responders = json!([{"name": SECOND, "priority": 1000}, {"name": FIRST, "priority": 20000}]);
        self.pod_with(name, responders).await
    }

    pub(crate) fn requests(&self) -> Api<EvictionRequest> {
        self.api()
    }

    pub(crate) fn evictions(&self) -> Api<Eviction> {
        self.api()
    }

    /// Creates an EvictionRequest of a pod.
    pub(crate) async fn request(&self, name: &str, requester: &str, pod: &Pod) -> EvictionRequest {
        self.request_of(name, requester, &pod.name_any(), &pod.uid().unwrap()).await
    }

    /// Creates an EvictionRequest of the pod of that name and UID.
    pub(crate) async fn request_of(
        &self,
        name: &str,
        requester: &str,
        pod: &str,
        uid: &str,
    ) -> EvictionRequest {
        self.create(json!({
            "metadata": {"name": name},
            "spec": {"target": {"pod": {"name": pod, "uid": uid}}, "requester": requester, "intent": "Eviction"},
        }))
        .await
    }

    /// Changes the intent of a request.
    pub(crate) async fn intend(&self, request: &str, intent: &str) {
        let patch = Patch::Merge(json!({"spec": {"intent": intent}}));
        self.requests().patch(request, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Deletes a request.
    pub(crate) async fn unrequest(&self, request: &str) {
        self.requests().delete(request, &DeleteParams::default()).await.unwrap();
    }

    /// Waits until the conditions of a request at its current generation are these, such as
    /// `Failed=False Succeeded, TargetEvicted=True PodDeleted`.
    pub(crate) async fn reports(&self, request: &str, expected: &str) -> EvictionRequest {
        let api = self.requests();
        let what = format!("{request}: {expected}");
        let found = eventually(PATIENCE, &what, || async {
            let request = api.get(request).await.unwrap();
            let status = request.status.clone().unwrap_or_default();
            let current = status.observed_generation == request.metadata.generation;
            let text = words(status.conditions.as_deref());
            if current && text == expected { Ok(request) } else { Err(format!("{current} {text}")) }
        });
        found.await.unwrap()
    }

    /// Waits until the youngest Eviction of a pod fits.
    pub(crate) async fn eviction(&self, pod: &Pod, what: &str, fits: impl Fn(&Eviction) -> bool) -> Eviction {
        let found = eventually(PATIENCE, what, || async {
            let all = self.evictions_of(pod).await;
            let last = all.last().cloned();
            last.clone().filter(&fits).ok_or_else(|| format!("{last:#?}"))
        });
        found.await.unwrap()
    }

    /// Returns the Evictions of a pod, the oldest first.
    pub(crate) async fn evictions_of(&self, pod: &Pod) -> Vec<Eviction> {
        let mut all = self.evictions().list(&ListParams::default()).await.unwrap().items;
        all.retain(|e| e.spec.target.pod.as_ref().map(|pod| &pod.uid) == pod.metadata.uid.as_ref());
        all.sort_by_key(|e| e.resource_version().and_then(|version| version.parse::<u64>().ok()));
        all.sort_by_key(|e| e.metadata.creation_timestamp.as_ref().map(|time| time.0));
        all
    }

    /// Waits until these are the states of an Eviction's responders in their order, such as
    /// `[("a", "Active")]`.
    pub(crate) async fn turns(&self, pod: &Pod, expected: &[(&str, &str)]) -> Eviction {
        self.eviction(pod, &format!("{expected:?}"), |eviction| states(eviction) == expected).await
    }

    /// Writes what a responder says to the youngest Eviction of a pod, as the responder would.
    pub(crate) async fn say(&self, pod: &Pod, responder: &str, change: impl Fn(&mut ResponderStatus)) {
        let api = self.evictions();
        let said = eventually(PATIENCE, "the responder's status is written", || async {
            let mut eviction = self.evictions_of(pod).await.pop().unwrap();
            let all = eviction.status.as_mut().unwrap().responders.as_mut().unwrap();
            change(all.iter_mut().find(|known| known.name == responder).unwrap());
            let name = eviction.name_any();
            api.replace_status(&name, &PostParams::default(), &eviction).await.map(drop)
        });
        said.await.unwrap();
    }

    /// Lets a responder report that it is done.
    pub(crate) async fn complete(&self, pod: &Pod, responder: &str) {
        self.say(pod, responder, |said| {
            said.completion_time = Some(now());
            said.message = Some("moved".to_owned());
        })
        .await;
    }

    /// Returns the number of calls of the controller for the eviction of a pod.
    pub(crate) fn calls(&self, pod: &str) -> usize {
        let events = self.control_plane().audit_events().unwrap();
        let of_pod = events.iter().filter(|event| {
            event.namespace() == self.namespace()
                && event.name() == pod
                && event.verb() == "create"
                && event.subresource() == "eviction"
        });
        of_pod.filter(|event| event.user() == CONTROLLER).count()
    }
}

/// Returns the time, as the API writes it.
pub(crate) fn now() -> Time {
    Time(Timestamp::from_second(Timestamp::now().as_second()).unwrap())
}

/// Returns conditions as `TYPE=STATUS REASON`, in the order of their types.
pub(crate) fn words(conditions: Option<&[Condition]>) -> String {
    let mut all: Vec<String> = conditions
        .unwrap_or_default()
        .iter()
        .map(|c| format!("{}={} {}", c.type_, c.status, c.reason))
        .collect();
    all.sort();
    all.join(", ")
}

/// Returns the states of an Eviction's responders in their order.
pub(crate) fn states(eviction: &Eviction) -> Vec<(&str, &str)> {
    let targets = eviction.status.as_ref().and_then(|status| status.target_responders.as_ref());
    targets.into_iter().flatten().map(|target| (target.name.as_str(), target.state.as_str())).collect()
}

/// What a responder has said.
pub(crate) fn said<'e>(eviction: &'e Eviction, responder: &str) -> &'e ResponderStatus {
    let all = eviction.status.as_ref().and_then(|status| status.responders.as_ref()).unwrap();
    all.iter().find(|known| known.name == responder).unwrap()
}

pub(crate) const AWAITING: &str = "Failed=False AwaitingEviction, TargetEvicted=False AwaitingEviction";
pub(crate) const DELETED: &str = "Failed=False Succeeded, TargetEvicted=True PodDeleted";
pub(crate) const CANCELED: &str = "Failed=True CanceledDueToNoRequesters, TargetEvicted=False EvictionFailed";
pub(crate) const INVALID: &str = "Failed=True EvictionInvalid, TargetEvicted=False EvictionFailed";
pub(crate) const LEFT_ALONE: &str = "Failed=True NoFurtherResponder, TargetEvicted=False EvictionFailed";
