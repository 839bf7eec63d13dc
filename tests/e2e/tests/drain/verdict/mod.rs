//! The verdict of a drain: each reason for which a pod does not move, on the real control plane. Each scene
//! then does what the blocker's message says, and the drain ends.

mod answers;
mod budgets;
mod ends;
mod leaving;
mod replacements;
mod rules;
mod volume;
mod webhook;

use anyhow::bail;
use controlplane::eventually;
use evacuation_api::{DrainBlocker, DrainBlockerReason, DrainVerdict, NodeEvacuationStatus};
use evacuation_e2e::scene::PATIENCE;
use k8s_openapi::api::{core::v1::Pod, policy::v1::PodDisruptionBudget};
use kube::{
    ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::nodes::Stage;

/// Annotations of pods that run at once and are gone at once after their deletion.
fn quick_pods() -> Value {
    json!({"controlplane.test/running-after": "100ms", "controlplane.test/gone-after": "100ms"})
}

/// A blocker of a drain, and the status that lists it.
struct Found {
    status: NodeEvacuationStatus,
    blocker: DrainBlocker,
}

impl Found {
    /// Checks the pod and the object of the blocker.
    fn concerns(&self, pods: &[&Pod], object: &str) -> &Self {
        let key = |pod: &&Pod| format!("{}/{}", pod.namespace().unwrap(), pod.name_any());
        let keys: Vec<String> = pods.iter().map(key).collect();
        assert!(self.blocker.pod.as_ref().is_some_and(|pod| keys.contains(pod)), "{:?}", self.blocker);
        assert_eq!(self.blocker.object.as_deref(), Some(object), "{:?}", self.blocker);
        self
    }

    /// Checks that the message holds these words, and the message of the drain the whole of it.
    fn says(&self, words: &[&str]) -> &Self {
        let message = &self.blocker.message;
        for word in words {
            assert!(message.contains(word), "{word:?} is not in {message:?}");
        }
        let summary = self.status.message.clone().unwrap_or_default();
        let (cause, help) = evacuation_protocol::message_parts(message);
        for part in [Some(cause), help].into_iter().flatten() {
            assert!(summary.contains(part), "{part:?} is not in {summary:?}");
        }
        self
    }
}

impl Stage {
    /// Waits until a drain lists a blocker of that reason, and the verdict follows from it.
    async fn blocked(&self, drain: &str, reason: DrainBlockerReason, stuck: bool) -> Found {
        let is_it = |blocker: &&DrainBlocker| blocker.reason == reason.as_str() && blocker.stuck == stuck;
        let what = format!("{reason:?} holds it, stuck: {stuck}");
        let status = self.until(drain, &what, |status| status.blockers.iter().any(|b| is_it(&b))).await;
        let verdict = if stuck { DrainVerdict::Stuck } else { DrainVerdict::Slow };
        assert_eq!(status.verdict, Some(verdict), "{status:?}");
        let blocker = status.blockers.iter().find(is_it).cloned().unwrap();
        let node = status.nodes.iter().find(|node| node.name == blocker.node).unwrap();
        assert_eq!(node.verdict, verdict, "{status:?}");
        Found { status, blocker }
    }

    /// Creates a budget of an app with that limit, and waits until it is computed.
    async fn budget(&self, name: &str, app: &str, limit: Value) {
        let mut spec = limit;
        spec["selector"] = json!({"matchLabels": {"app": app}});
        let object = json!({"metadata": {"name": name}, "spec": spec});
        self.scene.create::<PodDisruptionBudget>(object).await;
        let api = self.scene.api::<PodDisruptionBudget>();
        let computed = eventually(PATIENCE, "the budget is computed", || async {
            let status = api.get(name).await?.status.unwrap_or_default();
            if status.conditions.is_some() { Ok(()) } else { bail!("{status:?}") }
        });
        computed.await.unwrap();
    }

    /// Changes the spec of a budget.
    async fn change_budget(&self, name: &str, spec: Value) {
        let patch = Patch::Merge(json!({"spec": spec}));
        let api = self.scene.api::<PodDisruptionBudget>();
        api.patch(name, &PatchParams::default(), &patch).await.unwrap();
    }

    async fn delete_budget(&self, name: &str) {
        let api = self.scene.api::<PodDisruptionBudget>();
        api.delete(name, &DeleteParams::default()).await.unwrap();
    }
}
