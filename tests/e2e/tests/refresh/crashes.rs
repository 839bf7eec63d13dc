//! A scene with Deployments whose pods look as if they crashed.

use std::ops::Deref;

use anyhow::bail;
use chrono::{DateTime, Utc};
use controlplane::eventually;
use evacuation_api::{Evacuation, from_condition_time};
use evacuation_e2e::{PlatformOptions, Scene, scene::PATIENCE};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Namespace, Pod},
};
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

/// The first backoff of the shared system, in seconds.
pub(crate) const BACKOFF_SECONDS: i64 = 15;
/// A responder that a test registers.
pub(crate) const KEEPER: &str = "db.acme.io/keeper";
pub(crate) const AFTER_RESTARTS: &str = "refresh.evacuation.dev/after-restarts";
pub(crate) const AFTER: &str = "refresh.evacuation.dev/after";
pub(crate) const ENABLED: &str = "refresh.evacuation.dev/enabled";
pub(crate) const ATTEMPT: &str = "refresh.evacuation.dev/attempt";

fn options() -> PlatformOptions {
    let arguments = [
        format!("--refresh-backoff={BACKOFF_SECONDS}s"),
        "--refresh-settled-after=30s".to_owned(),
        "--refresh-recovered-after=2s".to_owned(),
        // All tests of the suite share it.
        "--refresh-per-minute=1000".to_owned(),
    ];
    PlatformOptions { controller_args: arguments.into(), ..PlatformOptions::default() }
}

/// A scene with Deployments whose pods look as if they crashed.
pub(crate) struct Crashes(Scene);

impl Deref for Crashes {
    type Target = Scene;

    fn deref(&self) -> &Scene {
        &self.0
    }
}

impl Crashes {
    pub(crate) async fn new(prefix: &str) -> Self {
        Self(Scene::with(prefix, options).await)
    }

    /// A scene with a platform of its own, for a test that disturbs it.
    pub(crate) async fn alone(prefix: &str) -> Self {
        Self(Scene::alone(prefix, options()).await)
    }

    /// `admin` changes the namespace's metadata.
    pub(crate) async fn mark_namespace(&self, metadata: &Value) {
        let api: Api<Namespace> = Api::all(self.admin());
        let patch = Patch::Merge(json!({"metadata": metadata}));
        api.patch(self.pods.namespace(), &PatchParams::default(), &patch).await.unwrap();
    }

    /// A Deployment whose pods have those annotations; returns its pods once they are ready.
    pub(crate) async fn deployment(&self, name: &str, replicas: usize, annotations: &Value) -> Vec<Pod> {
        let mut all =
            json!({"controlplane.test/running-after": "100ms", "controlplane.test/gone-after": "100ms"});
        all.as_object_mut().unwrap().extend(annotations.as_object().unwrap().clone());
        self.create::<Deployment>(json!({
            "metadata": {"name": name},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": name}},
                "template": {
                    "metadata": {"labels": {"app": name}, "annotations": all},
                    "spec": {"containers": [{"name": "app", "image": "app"}],
                             "initContainers": [{"name": "init", "image": "init"}]},
                },
            },
        }))
        .await;
        self.ready(name, replicas, &[]).await
    }

    /// Waits until so many pods of a Deployment are ready, besides those pods.
    pub(crate) async fn ready(&self, app: &str, count: usize, besides: &[&Pod]) -> Vec<Pod> {
        let api = self.pods.api();
        let parameters = ListParams::default().labels(&format!("app={app}"));
        let found = eventually(PATIENCE, "the pods are ready", || async {
            let pods = api.list(&parameters).await?.items.into_iter();
            let ready: Vec<Pod> = pods
                .filter(|pod| !besides.iter().any(|other| other.uid() == pod.uid()))
                .filter(|pod| condition(pod, "Ready").is_some_and(|(status, _)| status == "True"))
                .collect();
            if ready.len() == count { Ok(ready) } else { bail!("{} are", ready.len()) }
        });
        found.await.unwrap()
    }

    /// Makes the pod's container wait in CrashLoopBackOff after so many restarts.
    pub(crate) async fn crash(&self, pod: &Pod, restarts: i32) {
        let state = json!({"waiting": {"reason": "CrashLoopBackOff"}});
        self.annotate(pod, &json!({"controlplane.test/ready": "false"})).await;
        self.until_ready_is(pod, "False").await;
        self.patch_status(pod, "containerStatuses", "app", restarts, &state).await;
    }

    /// The same with the pod's init container.
    pub(crate) async fn crash_init(&self, pod: &Pod, restarts: i32) {
        let state = json!({"waiting": {"reason": "CrashLoopBackOff"}});
        self.annotate(pod, &json!({"controlplane.test/ready": "false"})).await;
        self.until_ready_is(pod, "False").await;
        self.patch_status(pod, "initContainerStatuses", "init", restarts, &state).await;
    }

    /// Makes the pod's container run, and the pod ready.
    pub(crate) async fn recover(&self, pod: &Pod, restarts: i32) {
        let running = json!({"running": {}});
        self.patch_status(pod, "containerStatuses", "app", restarts, &running).await;
        self.annotate(pod, &json!({"controlplane.test/ready": "true"})).await;
        self.until_ready_is(pod, "True").await;
    }

    async fn patch_status(&self, pod: &Pod, list: &str, container: &str, restarts: i32, state: &Value) {
        let status = json!({
            "name": container, "image": "", "imageID": "", "ready": false, "restartCount": restarts, "state": state,
            "lastState": {"terminated": {"exitCode": 42, "startedAt": "2026-01-01T00:00:00Z",
                                         "finishedAt": "2026-01-01T00:00:01Z"}},
        });
        let patch = Patch::Merge(json!({"status": {list: [status]}}));
        let api = self.pods.api();
        api.patch_status(&pod.name_any(), &PatchParams::default(), &patch).await.unwrap();
    }

    async fn until_ready_is(&self, pod: &Pod, wanted: &str) {
        let api = self.pods.api();
        let changed = eventually(PATIENCE, "the pod's readiness changed", || async {
            let pod = api.get(&pod.name_any()).await?;
            match condition(&pod, "ContainersReady") {
                Some((status, _)) if status == wanted => Ok(()),
                other => bail!("{other:?}"),
            }
        });
        changed.await.unwrap();
    }

    /// Registers a responder for the pods of every Deployment, which nobody plays.
    pub(crate) async fn register_keeper(&self) {
        self.register("keeper", KEEPER, json!({"timeoutSeconds": 600})).await;
    }

    /// The Evacuations of a pod.
    pub(crate) async fn evacuations_of(&self, pod: &Pod) -> Vec<Evacuation> {
        let all = self.pods.evacuations().list(&ListParams::default()).await.unwrap();
        let target = |e: &Evacuation| e.spec.target.pod.uid == pod.uid();
        all.items.into_iter().filter(target).collect()
    }

    /// Waits until a pod is asked, and returns the Evacuation.
    pub(crate) async fn asked(&self, pod: &Pod) -> Evacuation {
        let found = eventually(PATIENCE, "the pod is asked", || async {
            match self.evacuations_of(pod).await.into_iter().next() {
                Some(evacuation) => Ok(evacuation),
                None => Err("nobody asks it"),
            }
        });
        found.await.unwrap()
    }

    /// Waits until a pod was asked and the Evacuation ended like this, and returns it.
    pub(crate) async fn ended(&self, pod: &Pod, how: &str) -> Evacuation {
        let asked = self.asked(pod).await;
        self.ends(&asked, how).await
    }

    /// Waits for an Event of that reason on a pod whose message contains this, and returns the message.
    pub(crate) async fn event_on(&self, pod: &Pod, reason: &str, part: &str) -> String {
        self.event_where(reason, |event| {
            event.involved_object.uid == pod.uid()
                && event.reason.as_deref() == Some(reason)
                && event.message.as_deref().is_some_and(|message| message.contains(part))
        })
        .await
    }
}

/// Status and time of a pod's condition.
pub(crate) fn condition(pod: &Pod, kind: &str) -> Option<(String, Option<DateTime<Utc>>)> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let found = conditions.iter().find(|condition| condition.type_ == kind)?;
    let time = found.last_transition_time.as_ref().map(from_condition_time);
    Some((found.status.clone(), time))
}

/// Creation time of an Evacuation.
pub(crate) fn created(evacuation: &Evacuation) -> DateTime<Utc> {
    from_condition_time(&evacuation.creation_timestamp().unwrap())
}

/// End time of an Evacuation.
pub(crate) fn finished(evacuation: &Evacuation) -> DateTime<Utc> {
    let conditions = &evacuation.status.as_ref().unwrap().conditions;
    let finished = conditions.iter().find(|c| c.type_ == "Finished").unwrap();
    from_condition_time(&finished.last_transition_time)
}

/// Identity of an attempt: its Evacuation and its number.
pub(crate) fn attempt(evacuation: &Evacuation) -> &str {
    &evacuation.annotations()[ATTEMPT]
}
