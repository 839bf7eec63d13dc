//! Entries of DrainRequests in Evacuations. Each write is guarded by the state that was decided on.

use std::sync::Arc;

use evacuation_api::{Evacuation, EvacuationSpec, PodTarget, Requester, RequesterKey, Target};
use evacuation_protocol::awaits_acknowledgement;
use k8s_openapi::api::{authentication::v1::SelfSubjectReview, core::v1::Pod};
use kube::{Api, Client, ResourceExt, api::PostParams};
use tokio::sync::OnceCell;
use tracing::info;

use crate::{
    bridges::text::fitting,
    cluster::{
        CallError, Cluster, Leadership, ObjectKey, ServerClock, TargetPod, View, call, evacuations,
        is_finished,
    },
};

/// Writer of the entries.
pub(super) struct Entries {
    client: Client,
    leadership: Leadership,
    view: Arc<View>,
    clock: Arc<ServerClock>,
    /// Name of the controller's user, which owns its entries.
    user: OnceCell<String>,
}

impl Entries {
    /// Returns a writer that stores what the API returns in the view.
    pub(super) fn new(cluster: &Cluster) -> Self {
        Self {
            client: cluster.client.clone(),
            leadership: cluster.leadership.clone(),
            view: Arc::clone(&cluster.view),
            clock: Arc::clone(&cluster.clock),
            user: OnceCell::new(),
        }
    }

    /// Returns the name of the controller's user.
    pub(super) async fn user(&self) -> Result<&str, CallError> {
        let read = async || -> Result<String, CallError> {
            let reviews: Api<SelfSubjectReview> = Api::all(self.client.clone());
            let (parameters, review) = (PostParams::default(), SelfSubjectReview::default());
            let review =
                call("read the controller's user name", reviews.create(&parameters, &review)).await?;
            let user = review.status.and_then(|status| status.user_info).and_then(|user| user.username);
            Ok(user.unwrap_or_default())
        };
        Ok(self.user.get_or_try_init(read).await?.as_str())
    }

    /// Creates an Evacuation of a pod. Returns the reason of a rejection.
    pub(super) async fn ask(&self, pod: &Pod, entry: &Requester) -> Result<Option<String>, CallError> {
        self.leadership.check()?;
        let key = ObjectKey::of(pod);
        let target = Target { pod: PodTarget { name: pod.name_any(), uid: pod.uid() } };
        let requesters = vec![entry.clone()];
        let spec = EvacuationSpec { target, requesters, ttl_seconds_after_finished: None };
        let mut wanted = Evacuation::new("", spec);
        wanted.metadata.generate_name = Some(format!("{}-", pod.name_any()));
        let (api, parameters) = (evacuations(&self.client, &key.namespace), PostParams::default());
        match call(format!("ask pod {key} to move"), api.create(&parameters, &wanted)).await {
            Ok(created) => {
                self.view.apply(created);
                Ok(None)
            }
            Err(error) => rejection(error),
        }
    }

    /// Adds an entry to an active Evacuation. Returns the reason of a rejection.
    pub(super) async fn join(
        &self,
        evacuation: &Evacuation,
        entry: &Requester,
    ) -> Result<Option<String>, CallError> {
        let mut next = evacuation.clone();
        next.spec.requesters.push(entry.clone());
        match self.replace(next, "join").await {
            Ok(()) => Ok(None),
            Err(error) => rejection(error),
        }
    }

    /// Removes every entry of that name. Returns true when the responders know, or had the time to.
    ///
    /// # Errors
    ///
    /// A 409 while an eviction is in flight: its outcome decides whether the withdrawal is possible.
    pub(super) async fn withdraw(&self, name: &str) -> Result<bool, CallError> {
        let key = RequesterKey { owner: self.user().await?, name };
        let asks = |known: &Evacuation| known.spec.requesters.iter().any(|entry| entry.key() == key);
        let active: Vec<Arc<Evacuation>> = {
            let index = self.view.index();
            let all = index.evacuations().map(|(_, known)| known);
            // The Evacuation of a pod that is gone ends by itself.
            let stays = |known: &&Arc<Evacuation>| !matches!(index.target(known), TargetPod::Gone);
            all.filter(|known| !is_finished(known) && asks(known)).filter(stays).cloned().collect()
        };
        for evacuation in &active {
            let mut next = Evacuation::clone(evacuation);
            next.spec.requesters.retain(|entry| entry.key() != key);
            self.replace(next, "withdraw from").await?;
            info!(evacuation = %ObjectKey::of(evacuation.as_ref()), entry = name, "withdrawn");
        }
        let now = self.clock.now();
        let index = self.view.index();
        let mut statuses = index.evacuations().filter_map(|(_, known)| known.status.as_ref());
        let waits = statuses.any(|status| {
            status.requesters.iter().any(|known| known.key() == key) && awaits_acknowledgement(status, now)
        });
        Ok(!waits)
    }

    async fn replace(&self, next: Evacuation, verb: &str) -> Result<(), CallError> {
        self.leadership.check()?;
        let key = ObjectKey::of(&next);
        let (api, parameters) = (evacuations(&self.client, &key.namespace), PostParams::default());
        match call(format!("{verb} evacuation {key}"), api.replace(&key.name, &parameters, &next)).await {
            Ok(written) => {
                self.view.apply(written);
                Ok(())
            }
            Err(error) if error.code() == 404 => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Returns the reason of a rejection. The watch settles that another Evacuation is active, or the pod gone.
fn rejection(error: CallError) -> Result<Option<String>, CallError> {
    let settled = ["ActiveEvacuationExists", "WrongPod", "FieldValueNotFound"];
    if error.code() == 404 || settled.iter().any(|cause| error.has_cause(cause)) {
        return Ok(None);
    }
    match error.status() {
        Some(status) if matches!(error.code(), 400 | 403 | 422) => Ok(Some(fitting(&status.message))),
        _ => Err(error),
    }
}
