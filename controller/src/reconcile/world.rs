//! What is seen besides the Evacuation.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use evacuation_api::Evacuation;
use evacuation_protocol::{BudgetView, PodView, World, registered_responders};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;

use crate::{
    ObjectKey,
    controller::{Controller, lock},
    error::{CallError, call},
    index::{TargetPod, is_finished},
};

impl Controller {
    /// What is seen besides the Evacuation. A pod that the watch does not show is read live, for the watch may lag behind.
    pub(super) async fn world(
        &self,
        key: &ObjectKey,
        evacuation: &Evacuation,
        now: DateTime<Utc>,
    ) -> Result<World, CallError> {
        let target = lock(&self.index).target(evacuation);
        let pod = match target {
            TargetPod::Live(pod) => Some(pod),
            TargetPod::Gone => None,
            // What has ended does not need its pod.
            TargetPod::Unknown if is_finished(evacuation) => None,
            TargetPod::Unknown => self.read_target(key, evacuation).await?,
        };
        let uid = evacuation.spec.target.pod.uid.as_deref().unwrap_or_default();
        let index = lock(&self.index);
        let pod = pod.as_deref();
        Ok(World {
            pod: PodView::of(pod, uid),
            node_reachable: pod.is_none_or(|pod| index.node_reachable(pod)),
            registered: pod.map_or_else(|| Ok(Vec::new()), registered_responders),
            budgets: pod
                .map(|pod| {
                    index
                        .budgets_of(pod)
                        .iter()
                        .map(|budget| BudgetView::of(budget))
                        .collect()
                })
                .unwrap_or_default(),
            turn: false,
            recovered_at: self.reachability.recovered_at(now),
            attempt: self.attempts.view(key, super::uid(evacuation)),
        })
    }

    /// The target as the API has it now. `None` when it is gone.
    pub(super) async fn read_target(
        &self,
        key: &ObjectKey,
        evacuation: &Evacuation,
    ) -> Result<Option<Arc<Pod>>, CallError> {
        let target = &evacuation.spec.target.pod;
        let pod_key = ObjectKey::new(key.namespace.clone(), target.name.clone());
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &key.namespace);
        let found = call(format!("read pod {pod_key}"), api.get_opt(&target.name)).await?;
        let found = found.filter(|pod| pod.metadata.uid == target.uid);
        match (&found, &target.uid) {
            (None, Some(uid)) => lock(&self.index).note_gone(&pod_key, uid),
            (Some(pod), _) => {
                let mut pod = pod.clone();
                crate::index::prune_pod(&mut pod);
                self.apply(pod);
            }
            (None, None) => {}
        }
        Ok(found.map(Arc::new))
    }
}
