//! Deployments and ReplicaSets of pods labelled `app: web`, with a budget that allows no disruption.

use controlplane::eventually;
use evacuation_e2e::{Scene, scene::PATIENCE};
use k8s_openapi::api::{
    apps::v1::{Deployment, ReplicaSet},
    core::v1::Pod,
};
use kube::{
    Resource, ResourceExt,
    api::{ListParams, Patch, PatchParams},
    core::NamespaceResourceScope,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Description of a workload.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    pub(crate) replicas: i32,
    pub(crate) labels: Value,
    pub(crate) annotations: Value,
    pub(crate) node: Option<String>,
    /// Creates a budget that allows no disruption.
    pub(crate) guarded: bool,
}

impl Default for Workload {
    fn default() -> Self {
        Self { replicas: 1, labels: json!({"app": "web"}), annotations: json!({}), node: None, guarded: true }
    }
}

impl Workload {
    pub(crate) fn of(replicas: i32) -> Self {
        Self { replicas, ..Self::default() }
    }

    /// The same with one annotation of its pods.
    pub(crate) fn annotated(mut self, key: &str, value: &str) -> Self {
        self.annotations[key] = json!(value);
        self
    }

    fn object(&self) -> Value {
        let selector = self.node.as_ref().map(|node| json!({"kubernetes.io/hostname": node}));
        json!({
            "metadata": {"name": "web"},
            "spec": {
                "replicas": self.replicas,
                "selector": {"matchLabels": self.labels},
                "template": {
                    "metadata": {"labels": self.labels, "annotations": self.annotations},
                    "spec": {"nodeSelector": selector, "tolerations": selector.as_ref().map(|_| controlplane::tolerations()), "containers": [{"name": "app", "image": "app"}]},
                },
            },
        })
    }

    /// A Deployment under a budget that allows none of its pods to be missing; waits until its pods are
    /// ready.
    pub(crate) async fn deployment(&self, scene: &Scene) -> Vec<Pod> {
        scene.create::<Deployment>(self.object()).await;
        self.ready(scene).await
    }

    /// The same as a ReplicaSet that nobody manages.
    pub(crate) async fn replica_set(&self, scene: &Scene) -> Vec<Pod> {
        scene.create::<ReplicaSet>(self.object()).await;
        self.ready(scene).await
    }

    async fn ready(&self, scene: &Scene) -> Vec<Pod> {
        let pods = settled(scene, usize::try_from(self.replicas).unwrap()).await;
        if self.guarded {
            scene.pods.budget("web", ("app", "web"), 0).await.unwrap();
        }
        pods
    }
}

/// Waits until there are exactly so many pods, each ready and owned.
pub(crate) async fn settled(scene: &Scene, count: usize) -> Vec<Pod> {
    let api = scene.pods.api();
    let found = eventually(PATIENCE, "the pods are ready and no others are there", || async {
        let pods = api.list(&ListParams::default().labels("app=web")).await.unwrap().items;
        let fine = pods.iter().filter(|pod| is_ready(pod) && is_owned(pod)).count();
        if pods.len() == count && fine == count {
            Ok(pods)
        } else {
            Err(format!("{fine} of {} pods", pods.len()))
        }
    });
    found.await.unwrap()
}

/// Returns whether a pod is ready and not terminating.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let ready = conditions
        .into_iter()
        .flatten()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True");
    ready && pod.metadata.deletion_timestamp.is_none()
}

/// Returns whether a controller owns a pod.
pub(crate) fn is_owned(pod: &Pod) -> bool {
    pod.owner_references().iter().any(|owner| owner.controller == Some(true))
}

/// Asks a workload for another number of replicas, as an autoscaler does.
pub(crate) async fn scale<K>(scene: &Scene, replicas: i32)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned,
{
    let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
    scene.api::<K>().patch_scale("web", &PatchParams::default(), &patch).await.unwrap();
}

/// The number of replicas in the Deployment's spec.
pub(crate) async fn replicas(scene: &Scene) -> Option<i32> {
    scene.api::<Deployment>().get("web").await.unwrap().spec.replicas
}
