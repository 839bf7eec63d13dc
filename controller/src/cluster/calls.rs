//! Requests to the API, and their errors.

use std::time::Duration;

use evacuation_api::{Evacuation, EvacuationSpec, PodTarget, Requester};
use futures::{StreamExt, stream};
use k8s_openapi::api::{authentication::v1::SelfSubjectReview, core::v1::Pod};
use kube::{Api, Client, ResourceExt, api::PostParams, core::Status};
use machinery_validation::derived_name;
use tokio::time::timeout;

use super::{Kept, NotLeading, ObjectKey};

/// Maximum time of a request to the API. A request without an answer by then counts as failed. The API may
/// have carried it out.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Error of a request to the API.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// The API refused it or could not be reached.
    #[error("could not {action}")]
    Api {
        /// Action, with the object's name.
        action: String,
        /// Error of the API or of the connection.
        #[source]
        source: kube::Error,
    },
    /// The API did not answer in time.
    #[error("could not {action}: no answer within {} s", REQUEST_TIMEOUT.as_secs())]
    Timeout {
        /// Action, with the object's name.
        action: String,
    },
    /// Others had their turn all the time.
    #[error("could not {action}: the pages of other lists took all the time")]
    NoTurn {
        /// Action, with the object's name.
        action: String,
    },
    /// Another process leads.
    #[error(transparent)]
    NotLeading(#[from] NotLeading),
}

impl CallError {
    /// Returns the Status with which the API refused the request.
    pub(crate) fn status(&self) -> Option<&Status> {
        match self {
            Self::Api { source: kube::Error::Api(status), .. } => Some(status),
            _ => None,
        }
    }

    /// Returns the code of the Status, or 0.
    ///
    /// A 404 that names no object says nothing of one and is no such code: the kube-apiserver does not know
    /// the path while the API is not registered, and a webhook may choose any code.
    pub(crate) fn code(&self) -> u16 {
        let is_named =
            |status: &&Status| status.details.as_ref().is_some_and(|details| !details.name.is_empty());
        self.status().filter(|status| status.code != 404 || is_named(status)).map_or(0, |status| status.code)
    }

    /// Returns true if the Status has a cause of that reason.
    pub(crate) fn has_cause(&self, reason: &str) -> bool {
        let details = self.status().and_then(|status| status.details.as_ref());
        details.is_some_and(|details| details.causes.iter().any(|cause| cause.reason == reason))
    }

    /// Returns true if an object that the API server cannot read stands in the way: the pod's Evacuation, or
    /// a registration of its namespace. The message names it.
    pub(crate) fn is_of_unreadable(&self) -> bool {
        self.status().is_some_and(|status| status.reason == "StorageReadError")
            || self.has_cause("ActiveEvacuationUnreadable")
    }

    /// Returns the time after which the API asks for another attempt.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        let details = self.status().and_then(|status| status.details.as_ref())?;
        (details.retry_after_seconds > 0).then(|| Duration::from_secs(details.retry_after_seconds.into()))
    }
}

/// Reads the part of a pod that the view keeps. `None` when there is no pod of that name.
pub(crate) async fn read_pod(client: &Client, key: &ObjectKey) -> Result<Option<Pod>, CallError> {
    let pods: Api<Kept<Pod>> = Api::namespaced(client.clone(), &key.namespace);
    Ok(call(format!("read pod {key}"), pods.get_opt(&key.name)).await?.map(Kept::into_inner))
}

/// Reads the name of the controller's user, which owns its entries.
pub(crate) async fn user_name(client: &Client) -> Result<String, CallError> {
    let reviews: Api<SelfSubjectReview> = Api::all(client.clone());
    let (parameters, review) = (PostParams::default(), SelfSubjectReview::default());
    let status = call("read the controller's user name", reviews.create(&parameters, &review)).await?.status;
    Ok(status.and_then(|status| status.user_info?.username).unwrap_or_default())
}

/// Returns the Evacuation of a pod with that entry, as it is to be created.
pub(crate) fn evacuation_of(pod: &Pod, entry: &Requester) -> Evacuation {
    let target = PodTarget { name: pod.name_any(), uid: pod.uid() };
    let mut evacuation = Evacuation::new("", EvacuationSpec::new(target, vec![entry.clone()]));
    evacuation.metadata.generate_name = Some(derived_name(&pod.name_any(), "-"));
    evacuation
}

/// Returns true for the failure of a creation after which the watch shows that another Evacuation of the pod
/// is active, or that the pod is gone or replaced.
pub(crate) fn is_settled_by_the_watch(error: &CallError) -> bool {
    ["ActiveEvacuationExists", "WrongPod", "FieldValueNotFound"].iter().any(|cause| error.has_cause(cause))
        || error.code() == 404
}

/// Carries out a request with a timeout.
pub(crate) async fn call<T>(
    action: impl Into<String>,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, CallError> {
    match timeout(REQUEST_TIMEOUT, request).await {
        Ok(result) => result.map_err(|source| CallError::Api { action: action.into(), source }),
        Err(_) => Err(CallError::Timeout { action: action.into() }),
    }
}

/// Returns nothing for an object that the controller may not read or that does not exist.
pub(crate) fn if_readable<T>(read: Result<Option<T>, CallError>) -> Result<Option<T>, CallError> {
    match read {
        Err(error) if matches!(error.code(), 403 | 404) => Ok(None),
        read => read,
    }
}

/// Does all of the acts, at most so many at a time.
///
/// # Errors
///
/// The first failure. It does not keep the other acts from being done.
pub(crate) async fn all_done(
    acts: Vec<impl Future<Output = Result<(), CallError>>>,
    at_once: usize,
) -> Result<(), CallError> {
    let mut done = std::pin::pin!(stream::iter(acts).buffer_unordered(at_once));
    let mut failure = None;
    while let Some(result) = done.next().await {
        if let Err(error) = result {
            failure.get_or_insert(error);
        }
    }
    failure.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// # Attack
    ///
    /// - Attacker: an administrator who installs the APIService anew, or a webhook that denies with a 404
    /// - Act: makes each write to an Evacuation a 404, so that the controller takes it for one that is gone
    /// - Promise: 10
    #[test]
    fn a_404_that_names_no_object_says_of_none_that_it_is_gone() {
        let named =
            json!({"code": 404, "reason": "NotFound", "details": {"name": "e", "kind": "evacuations"}});
        let plain =
            json!({"code": 404, "reason": "Failed to parse error data", "message": "404 page not found"});
        let denied = json!({"code": 404, "message": "admission webhook denied the request", "details": {}});
        let conflict = json!({"code": 409, "reason": "Conflict"});
        for (status, code) in [(named, 404), (plain, 0), (denied, 0), (conflict, 409)] {
            let status: Status = serde_json::from_value(status).unwrap();
            let source = kube::Error::Api(Box::new(status));
            assert_eq!(CallError::Api { action: "x".to_owned(), source }.code(), code);
        }
    }
}
