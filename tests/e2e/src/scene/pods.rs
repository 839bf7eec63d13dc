//! Pods and nodes of a scene.

use anyhow::bail;
use controlplane::eventually;
use k8s_openapi::{
    api::{
        core::v1::{Node, Pod},
        policy::v1::PodDisruptionBudget,
    },
    jiff::Timestamp,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::{Named, PATIENCE, Scene};
use crate::{PodSpec, pods::is_ready};

impl Scene {
    /// Creates a pod that runs at once and is gone at once after its deletion, and waits until it is ready.
    pub async fn pod(&self, name: &str, spec: PodSpec) -> Pod {
        self.pods.create(name, &quick(spec)).await.unwrap()
    }

    /// Creates a pod as described, without waiting.
    pub async fn raw_pod(&self, pod: &Value) -> Pod {
        let pod = serde_json::from_value(pod.clone()).unwrap();
        self.pods.api().create(&PostParams::default(), &pod).await.unwrap()
    }

    /// Deletes a pod.
    pub async fn delete_pod(&self, pod: impl Named) {
        self.pods.api().delete(&pod.object_name(), &DeleteParams::default()).await.unwrap();
    }

    /// Returns whether the very pod is there and is not terminating.
    pub async fn stays(&self, pod: &Pod) -> bool {
        let found = self.pods.api().get_opt(&pod.name_any()).await.unwrap();
        found.is_some_and(|found| found.uid() == pod.uid() && found.metadata.deletion_timestamp.is_none())
    }

    /// Waits until a pod is as wanted, and returns it.
    pub async fn pod_until(&self, pod: impl Named, what: &str, wanted: impl Fn(&Pod) -> bool) -> Pod {
        let (api, name) = (self.pods.api(), pod.object_name());
        let found = eventually(PATIENCE, what, || async {
            match api.get(&name).await {
                Ok(pod) if wanted(&pod) => Ok(pod),
                Ok(pod) => Err(serde_json::to_string(&pod.metadata).unwrap()),
                Err(error) => Err(error.to_string()),
            }
        });
        found.await.unwrap()
    }

    /// Waits until exactly that many pods of an app exist, all ready and none of them `gone`.
    pub async fn ready_pods(&self, app: &str, count: usize, gone: &[&Pod]) -> Vec<Pod> {
        let (api, params) = (self.pods.api(), ListParams::default().labels(&format!("app={app}")));
        let ready = eventually(PATIENCE, "the pods are ready", || async {
            let all = api.list(&params).await?.items;
            let gone = all.iter().all(|pod| gone.iter().all(|gone| gone.uid() != pod.uid()));
            if gone && all.len() == count && all.iter().all(is_ready) {
                return Ok(all);
            }
            bail!("{:?}", all.iter().map(ResourceExt::name_any).collect::<Vec<_>>())
        });
        ready.await.unwrap()
    }

    /// Waits until an app has one ready pod other than that, and returns it.
    pub async fn only_pod(&self, app: &str, other_than: Option<&Pod>) -> Pod {
        let gone: Vec<_> = other_than.into_iter().collect();
        self.ready_pods(app, 1, &gone).await.remove(0)
    }

    /// Sets annotations of a pod; null removes one.
    pub async fn annotate(&self, pod: &Pod, annotations: &Value) {
        self.patch_metadata(pod, &json!({"annotations": annotations})).await;
    }

    /// Sets a pod's finalizers.
    pub async fn finalizers(&self, pod: &Pod, finalizers: &[&str]) {
        self.patch_metadata(pod, &json!({"finalizers": finalizers})).await;
    }

    async fn patch_metadata(&self, pod: &Pod, metadata: &Value) {
        let patch = Patch::Merge(json!({"metadata": metadata}));
        self.pods.api().patch(&pod.name_any(), &PatchParams::default(), &patch).await.unwrap();
    }

    /// Creates a budget for the pods with that label, which counts from below.
    ///
    /// The pods of a scene belong to no workload, so the disruption controller cannot count from their
    /// replicas.
    pub async fn floor(&self, name: &str, label: (&str, &str), min_available: i32) {
        self.pods.budget(name, label, 0).await.unwrap();
        self.lower(name, min_available).await;
    }

    /// Changes the `minAvailable` of a budget.
    pub async fn lower(&self, name: &str, min_available: i32) {
        let patch = Patch::Merge(json!({"spec": {"maxUnavailable": null, "minAvailable": min_available}}));
        self.api::<PodDisruptionBudget>().patch(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Makes a node take no pods, or take pods again.
    pub async fn cordon(&self, node: &str, cordoned: bool) {
        let nodes: Api<Node> = Api::all(self.admin());
        let patch = Patch::Merge(json!({"spec": {"unschedulable": cordoned}}));
        nodes.patch(node, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Adds a node that no kubelet plays and that the control plane has heard nothing of.
    pub async fn dead_node(&self) -> String {
        let name = format!("dead-of-{}", self.namespace());
        let nodes: Api<Node> = Api::all(self.admin());
        let node = json!({"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}});
        nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
        let now = Timestamp::now().to_string();
        let condition = json!({
            "type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown",
            "message": "Kubelet stopped posting node status.",
            "lastHeartbeatTime": now, "lastTransitionTime": now,
        });
        let patch = Patch::Merge(json!({"status": {"conditions": [condition]}}));
        nodes.patch_status(&name, &PatchParams::default(), &patch).await.unwrap();
        name
    }

    /// Adds a node for this scene alone, which pods choose by the label `test` with the namespace's name.
    pub async fn own_node(&self) -> String {
        let name = format!("node-of-{}", self.namespace());
        let labels = [("test", self.namespace())];
        self.control_plane().add_node(&name, &labels).await.unwrap();
        name
    }
}

/// The same pod, which runs at once and is gone at once after its deletion, unless its annotations differ.
pub fn quick(spec: PodSpec) -> PodSpec {
    ["running-after", "gone-after"].iter().fold(spec, |spec, name| {
        let name = format!("controlplane.test/{name}");
        if spec.annotations.iter().any(|(known, _)| *known == name) {
            spec
        } else {
            spec.annotation(&name, "100ms")
        }
    })
}

/// An annotation of a pod.
pub fn annotation<'a>(pod: &'a Pod, name: &str) -> Option<&'a str> {
    pod.annotations().get(name).map(String::as_str)
}
