//! One test's namespace on the shared system.

use evacuation_api::{Evacuation, ResponderStatus};
use evacuation_e2e::{Platform, PodSpec, Pods, shared};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

/// The name of the entry that [`Scene::ask`] makes.
pub(crate) const ASKER: &str = "test.evacuation.dev/asks";
/// Its message, which a reader of JSON may stumble over.
pub(crate) const MESSAGE: &str = "Kernel \"6.1\" \\ größer\t{[,]}\u{1F680}";

pub(crate) struct Scene {
    pub(crate) platform: &'static Platform,
    pub(crate) pods: Pods,
}

impl Scene {
    pub(crate) async fn new(prefix: &str) -> Self {
        let platform = shared().await.unwrap();
        let pods = platform.namespace(prefix).await.unwrap();
        Self { platform, pods }
    }

    /// A pod that runs at once, and is gone at once when it is told to go.
    pub(crate) async fn pod(&self, name: &str, spec: PodSpec) -> Pod {
        let spec = spec
            .annotation("controlplane.test/running-after", "100ms")
            .annotation("controlplane.test/gone-after", "100ms");
        self.pods.create(name, &spec).await.unwrap()
    }

    /// Asks a pod to move.
    pub(crate) async fn ask(&self, pod: &Pod, on_refusal: &str) -> Evacuation {
        let entry = json!({"name": ASKER, "message": MESSAGE, "onRefusal": on_refusal});
        let wanted = json!({
            "metadata": {"generateName": format!("{}-", pod.name_any())},
            "spec": {"target": {"pod": {"name": pod.name_any()}}, "requesters": [entry]},
        });
        let wanted = serde_json::from_value(wanted).unwrap();
        let api = self.pods.evacuations();
        api.create(&PostParams::default(), &wanted).await.unwrap()
    }

    /// The last requester leaves.
    pub(crate) async fn withdraw(&self, evacuation: &Evacuation) {
        let patch: Patch<Value> = Patch::Merge(json!({"spec": {"requesters": []}}));
        let api = self.pods.evacuations();
        api.patch(&evacuation.name_any(), &PatchParams::default(), &patch).await.unwrap();
    }

    /// Waits until the one responder is as wanted.
    pub(crate) async fn until(
        &self,
        evacuation: &Evacuation,
        what: &str,
        wanted: impl Fn(&ResponderStatus) -> bool,
    ) -> ResponderStatus {
        let name = evacuation.name_any();
        let found = self.pods.until(&name, what, |e| self::responder(e).is_some_and(&wanted)).await.unwrap();
        responder(&found).unwrap().clone()
    }

    /// Waits for the end, which must be for this reason; returns what the responder had said.
    pub(crate) async fn ends(&self, evacuation: &Evacuation, reason: &str) -> ResponderStatus {
        let name = evacuation.name_any();
        let finished = |e: &Evacuation| {
            let conditions = e.status.iter().flat_map(|status| &status.conditions);
            let mut finished = conditions.filter(|c| c.type_ == "Finished" && c.status == "True");
            finished.next().map(|c| c.reason.clone())
        };
        let found = self.pods.until(&name, "it has ended", |e| finished(e).is_some()).await;
        let found = found.unwrap();
        assert_eq!(finished(&found).as_deref(), Some(reason), "{:?}", found.status);
        responder(&found).unwrap().clone()
    }

    /// Whether the very pod is there and was not told to go.
    pub(crate) async fn stays(&self, pod: &Pod) -> bool {
        let found = self.pods.api().get_opt(&pod.name_any()).await.unwrap();
        found.is_some_and(|found| found.uid() == pod.uid() && found.metadata.deletion_timestamp.is_none())
    }
}

fn responder(evacuation: &Evacuation) -> Option<&ResponderStatus> {
    evacuation.status.as_ref()?.responders.as_ref()?.first()
}
