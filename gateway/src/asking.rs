//! Writing of the caller's entry: creates an Evacuation or joins the active one.

use std::{sync::Arc, time::Duration};

use evacuation_api::{Evacuation, PodTarget, Requester as Entry};
use evacuation_client::{RequestError, Requester};
use kube::{Api, Client, api::PostParams, core::Status};
use moka::future::Cache;

/// Reason for which an entry was not written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    /// The pod is gone.
    #[error("the pod is gone")]
    Gone,
    /// The evacuation API answered, and rejected the entry.
    #[error("the evacuation API rejected the request")]
    Rejected(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The evacuation API did not answer.
    #[error("the evacuation API did not answer")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Time for which the result of a write is kept. The watch delivers it sooner, as a rule.
const KEPT: Duration = Duration::from_secs(1);
/// Maximum number of results that are kept.
const MAX_KEPT: u64 = 10_000;

/// UID of the pod, owner and name of the entry.
type Key = (String, String, String);

/// Writes the entries of callers.
///
/// Calls at the same time for one entry share one write. Otherwise a caller that sends many would make them
/// late by their conflicts, and a late call passes.
pub(crate) struct Asker {
    client: Client,
    written: Cache<Key, Arc<Evacuation>>,
}

impl Asker {
    /// Returns an asker. The client's user needs the verb `override` on Evacuations, and `create` on
    /// `pods/eviction`.
    pub(crate) fn new(client: Client) -> Self {
        Self { client, written: Cache::builder().max_capacity(MAX_KEPT).time_to_live(KEPT).build() }
    }

    /// Writes an entry for that pod, and returns the Evacuation with it.
    ///
    /// `expired_in` names the Evacuation in which an entry of the same name has expired. That one is removed
    /// first, because the server changes no expired entry. If no other entry is left, the removal cancels the
    /// Evacuation, and the pod is asked again by a new one.
    pub(crate) async fn ask(
        &self,
        namespace: &str,
        pod: PodTarget,
        entry: Entry,
        expired_in: Option<&str>,
    ) -> Result<Arc<Evacuation>, Arc<AskError>> {
        let key = (pod.uid.clone().unwrap_or_default(), entry.owner.clone(), entry.name.clone());
        self.written.try_get_with(key, self.write(namespace, pod, entry, expired_in)).await
    }

    async fn write(
        &self,
        namespace: &str,
        pod: PodTarget,
        entry: Entry,
        expired_in: Option<&str>,
    ) -> Result<Arc<Evacuation>, AskError> {
        if let Some(evacuation) = expired_in {
            self.remove(namespace, evacuation, &entry).await?;
        }
        let requester = Requester::of_entry(self.client.clone(), entry);
        match requester.evacuate_target(namespace, &pod).await {
            Ok(handle) => Ok(Arc::new(handle.object().clone())),
            Err(error) if error.is_pod_gone() => Err(AskError::Gone),
            Err(error) => Err(classify(error)),
        }
    }

    /// Removes an entry from an Evacuation. One that is gone, or has ended, holds nothing up.
    async fn remove(&self, namespace: &str, name: &str, entry: &Entry) -> Result<(), AskError> {
        let api: Api<Evacuation> = Api::namespaced(self.client.clone(), namespace);
        let found = api.get_opt(name).await.map_err(of_call)?;
        let Some(mut evacuation) = found else {
            return Ok(());
        };
        let before = evacuation.spec.requesters.len();
        evacuation.spec.requesters.retain(|known| known.key() != entry.key());
        if evacuation.spec.requesters.len() == before {
            return Ok(());
        }
        match api.replace(name, &PostParams::default(), &evacuation).await {
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
            written => written.map(drop).map_err(of_call),
        }
    }
}

fn classify(error: RequestError) -> AskError {
    let rejected = match &error {
        RequestError::Api { source, .. } => is_rejection(source),
        RequestError::Contended { .. } => true,
        RequestError::NoReply { .. } | RequestError::Removed { .. } => false,
    };
    if rejected { AskError::Rejected(Box::new(error)) } else { AskError::Unavailable(Box::new(error)) }
}

fn of_call(error: kube::Error) -> AskError {
    if is_rejection(&error) {
        AskError::Rejected(Box::new(error))
    } else {
        AskError::Unavailable(Box::new(error))
    }
}

/// Returns true for a reply by which the evacuation API rejects the request itself. A missing API (404) and a
/// busy one (429) do not answer.
fn is_rejection(error: &kube::Error) -> bool {
    let rejects = |status: &Status| matches!(status.code, 400 | 403 | 409 | 422);
    matches!(error, kube::Error::Api(status) if rejects(status))
}
