//! Requests of the refresher. Each write is guarded by the state that was decided on.

use std::sync::Arc;

use evacuation_api::Evacuation;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt, api::ListParams};
use machinery_watch::Pages;
use prometheus_client::metrics::{counter::Counter, family::Family};
use tokio::sync::OnceCell;
use tracing::{debug, info};

use super::{
    decide::{Act, Ask, Decision},
    manifest::{message, request, settled, withdrawn},
    names::OWNER,
    planner::Planner,
};
use crate::cluster::{
    CallError, Cluster, EventSink, Kept, Label, Leadership, Notice, ObjectKey, ServerClock, View, call,
    evacuations, read_pod, user_name,
};

/// Writer of the refresher's Evacuations.
pub(super) struct Requests {
    client: Client,
    leadership: Leadership,
    view: Arc<View>,
    clock: Arc<ServerClock>,
    events: EventSink,
    planner: Arc<Planner>,
    /// Refreshes by their outcome.
    refreshes: Family<Label, Counter>,
    /// Name of the controller's user, which owns its entries. Read from the API at the first withdrawal.
    user: OnceCell<String>,
}

impl Requests {
    /// Returns a writer that has `planner` confirm each request.
    pub(super) fn new(cluster: &Cluster, planner: Arc<Planner>) -> Self {
        let help = "Evacuations of pods in a crash loop by how they ended";
        Self {
            client: cluster.client.clone(),
            leadership: cluster.leadership.clone(),
            view: Arc::clone(&cluster.view),
            clock: Arc::clone(&cluster.clock),
            events: cluster.events.clone(),
            planner,
            refreshes: cluster.metrics.counters("refreshes", help),
            user: OnceCell::new(),
        }
    }

    /// Returns the name of the controller's user.
    async fn user(&self) -> Result<&str, CallError> {
        Ok(self.user.get_or_try_init(|| user_name(&self.client)).await?.as_str())
    }

    /// Does what was decided for a namespace. Returns false when a pod that was to be asked must be decided
    /// on again.
    ///
    /// # Errors
    ///
    /// The first failure. It does not keep the other acts from being done.
    pub(super) async fn act(&self, namespace: &str, decision: &Decision) -> Result<bool, CallError> {
        let (mut failure, mut confirmed) = (None, true);
        for act in &decision.acts {
            let done = match act {
                Act::Ask(ask) => self.ask(namespace, ask).await.map(|asked| confirmed &= asked),
                Act::Withdraw { evacuation, why } => self.withdraw(evacuation, why).await,
                Act::Settle { evacuation, since } => {
                    let settle = |whole: &mut Evacuation| *whole = settled(whole, *since);
                    self.edit(evacuation, "settle", settle).await.map(|_| ())
                }
            };
            if let Err(error) = done {
                failure.get_or_insert(error);
            }
        }
        failure.map_or(Ok(confirmed), Err)
    }

    /// Asks a pod to move, if a decision on live reads confirms it. The watches can be late, and another
    /// process may have led until now.
    async fn ask(&self, namespace: &str, ask: &Ask) -> Result<bool, CallError> {
        self.look_again(namespace, ask).await?;
        let decision = self.planner.decide(namespace, self.clock.now());
        let confirmed = decision.acts.iter().find_map(|act| match act {
            Act::Ask(again) if again.pod.metadata.uid == ask.pod.metadata.uid => Some(again),
            _ => None,
        });
        let Some(ask) = confirmed else {
            return Ok(false);
        };
        self.leadership.check()?;
        let pod = ask.pod.name_any();
        let api = evacuations(&self.client, namespace);
        let created = call(
            format!("ask pod {namespace}/{pod} to move"),
            api.create(&request(ask, &self.planner.limits)),
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
                self.events.send(&created, Notice::normal("Refreshing", message(ask)));
                self.view.apply(created);
                Ok(true)
            }
            // Another requester asked the pod, which is enough. Or the pod is gone, or another pod has its
            // name.
            Err(error) if error.has_cause("ActiveEvacuationExists") => {
                self.count("already_asked");
                Ok(true)
            }
            Err(error) if error.has_cause("WrongPod") || is_missing(&error) => {
                debug!(pod, namespace, "the pod to refresh is gone");
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }

    /// Reads the pod, and the Evacuations of its owner's pods, from the API.
    async fn look_again(&self, namespace: &str, ask: &Ask) -> Result<(), CallError> {
        let key = ObjectKey::new(namespace, ask.pod.name_any());
        if let Some(pod) = read_pod(&self.client, &key).await? {
            self.view.apply(pod);
        } else {
            self.view.remove::<Pod>(&key, ask.pod.metadata.uid.as_deref());
        }
        let of_owner = format!("{OWNER}={}", ask.owner_uid);
        let api: Api<Kept<Evacuation>> = Api::namespaced(self.client.clone(), namespace);
        let action = format!("list the evacuations of namespace {namespace}");
        let mut pages = Pages::new(&api, ListParams::default().labels(&of_owner));
        while !pages.is_over() {
            for evacuation in call(action.as_str(), pages.read_next()).await? {
                self.view.apply(evacuation);
            }
        }
        Ok(())
    }

    /// Withdraws a request. A withdrawal that comes too late has no effect.
    async fn withdraw(&self, evacuation: &Evacuation, why: &str) -> Result<(), CallError> {
        let user = self.user().await?;
        if withdrawn(evacuation, user).spec.requesters.len() == evacuation.spec.requesters.len() {
            return Ok(());
        }
        let withdraw = |whole: &mut Evacuation| *whole = withdrawn(whole, user);
        let written = self.edit(evacuation, "withdraw from", withdraw).await?;
        if written {
            info!(evacuation = %ObjectKey::of(evacuation), "a refresh was withdrawn: {why}");
        }
        Ok(())
    }

    /// Changes the Evacuation that was decided on. Returns false if it has changed, ended or gone, or if it
    /// is too late. The watch then shows the new state.
    async fn edit(
        &self,
        evacuation: &Evacuation,
        verb: &str,
        change: impl FnOnce(&mut Evacuation),
    ) -> Result<bool, CallError> {
        self.leadership.check()?;
        let key = ObjectKey::of(evacuation);
        let api = evacuations(&self.client, &key.namespace);
        match api.edit_in(&self.view, evacuation, verb, change).await {
            Err(error) if error.code() == 409 => {
                debug!(evacuation = %key, error = &error as &dyn std::error::Error, "not written");
                Ok(false)
            }
            written => written,
        }
    }

    /// Counts the outcome of a refresh.
    pub(super) fn count(&self, outcome: &'static str) {
        self.refreshes.get_or_create(&[("outcome", outcome)]).inc();
    }
}

/// Returns true if the API answered that the target does not exist.
fn is_missing(error: &CallError) -> bool {
    error.code() == 404 || error.has_cause("FieldValueNotFound")
}

#[cfg(test)]
mod tests;
