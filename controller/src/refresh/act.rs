//! Doing what was decided: each write guarded by what it was decided on.

use evacuation_api::Evacuation;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt,
    api::{ListParams, PostParams},
};
use tracing::{debug, info};

use super::{
    Refresher,
    decide::{Act, Ask, Decision},
    manifest::{message, request, settled, withdrawn},
    names::OWNER,
};
use crate::{
    ObjectKey,
    controller::Controller,
    error::{CallError, call},
    events::Notice,
    index::prune_pod,
};

impl Controller {
    /// Tells and does what was decided for a namespace. What fails does not keep the rest from being done; the first failure is
    /// given back.
    pub(super) async fn act_on_refreshes(
        &self,
        refresher: &Refresher,
        namespace: &str,
        decision: &Decision,
    ) -> Result<(), CallError> {
        self.tell_refreshes(refresher, namespace, decision);
        let mut failure = None;
        for act in &decision.acts {
            let done = match act {
                Act::Ask(ask) => self.ask_for_refresh(refresher, namespace, ask).await,
                Act::Withdraw { evacuation, why } => self.withdraw_refresh(evacuation, why).await,
                Act::Settle { evacuation, since } => {
                    let settled = settled(evacuation, *since);
                    self.replace(&settled, "settle").await.map(|_| ())
                }
            };
            if let Err(error) = done {
                failure.get_or_insert(error);
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// Asks a pod to move, if that is still what follows when the pod and what was asked of its owner are read live: the watches may
    /// lag behind, and another process may have led until now.
    async fn ask_for_refresh(
        &self,
        refresher: &Refresher,
        namespace: &str,
        ask: &Ask,
    ) -> Result<(), CallError> {
        self.look_again(namespace, ask).await?;
        let decision = self.decide_refreshes(refresher, namespace, self.clock.now());
        let confirmed = decision.acts.iter().find_map(|act| match act {
            Act::Ask(again) if again.pod.metadata.uid == ask.pod.metadata.uid => Some(again),
            _ => None,
        });
        let Some(ask) = confirmed else {
            refresher.wake(namespace.to_owned());
            return Ok(());
        };
        self.leadership.check()?;
        let pod = ask.pod.name_any();
        let api = self.evacuations(namespace);
        let created = call(
            format!("ask pod {namespace}/{pod} to move"),
            api.create(&PostParams::default(), &request(ask, &refresher.limits)),
        )
        .await;
        match created {
            Ok(created) => {
                info!(
                    pod,
                    namespace,
                    evacuation = created.name_any(),
                    attempt = ask.attempt,
                    "a pod in a crash loop is asked to move"
                );
                self.notify(&created, Notice::normal("Refreshing", message(ask)));
                self.apply(created);
                Ok(())
            }
            // Somebody else asked it meanwhile, which is enough; or it is gone, or another has its name.
            Err(error) if error.has_cause("ActiveEvacuationExists") => {
                self.count_refresh("already_asked");
                Ok(())
            }
            Err(error) if error.has_cause("WrongPod") || is_missing(&error) => {
                debug!(pod, namespace, "the pod to refresh is gone");
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Reads the pod and the Evacuations of its owner's pods as the API has them now.
    async fn look_again(&self, namespace: &str, ask: &Ask) -> Result<(), CallError> {
        let name = ask.pod.name_any();
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        match call(format!("read pod {namespace}/{name}"), pods.get_opt(&name)).await? {
            Some(mut pod) => {
                prune_pod(&mut pod);
                self.apply(pod);
            }
            None => self.remove::<Pod>(&ObjectKey::new(namespace, name)),
        }
        let of_owner = ListParams::default().labels(&format!("{OWNER}={}", ask.owner_uid));
        let list = self.evacuations(namespace);
        let action = format!("list the evacuations of namespace {namespace}");
        for evacuation in call(action, list.list(&of_owner)).await?.items {
            self.apply(evacuation);
        }
        Ok(())
    }

    /// Takes a request back. When it is too late, the platform has the last word.
    async fn withdraw_refresh(&self, evacuation: &Evacuation, why: &str) -> Result<(), CallError> {
        let written = self.replace(&withdrawn(evacuation), "withdraw from").await?;
        if written {
            info!(evacuation = %ObjectKey::of(evacuation), "a refresh was withdrawn: {why}");
        }
        Ok(())
    }

    /// Writes an Evacuation in place of the one that was decided on. False when that has changed, ended or gone, or it is too late:
    /// the watch shows what to do then.
    async fn replace(&self, evacuation: &Evacuation, verb: &str) -> Result<bool, CallError> {
        self.leadership.check()?;
        let key = ObjectKey::of(evacuation);
        let api = self.evacuations(&key.namespace);
        let parameters = PostParams::default();
        let write = api.replace(&key.name, &parameters, evacuation);
        match call(format!("{verb} evacuation {key}"), write).await {
            Ok(written) => {
                self.apply(written);
                Ok(true)
            }
            Err(error) if matches!(error.code(), 404 | 409) => {
                debug!(evacuation = %key, error = &error as &dyn std::error::Error, "not written");
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Counts how a refresh ended.
    pub(super) fn count_refresh(&self, outcome: &'static str) {
        self.metrics.refreshes.get_or_create(&[("outcome", outcome)]).inc();
    }
}

/// Whether the API said that the target does not exist.
fn is_missing(error: &CallError) -> bool {
    error.code() == 404 || error.has_cause("FieldValueNotFound")
}

#[cfg(test)]
mod tests;
