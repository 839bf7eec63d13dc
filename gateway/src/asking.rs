//! Writing of the caller's entry: creates an Evacuation or joins the active one.

use std::{sync::Arc, time::Duration};

use evacuation_api::{Evacuation, LIMIT_CAUSES, PodTarget, Requester as Entry};
use evacuation_client::{RequestError, Requester, is_admission_denial, is_missing};
use kube::{Api, Client, api::PostParams, core::Status};
use moka::future::Cache;

use crate::call::Call;

/// Reason for which an entry was not written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    /// The pod is gone.
    #[error("the pod is gone")]
    Gone,
    /// A limit or a ResourceQuota has no room for the entry, or others keep changing the Evacuation.
    #[error("the evacuation API has no room for the request: {0}")]
    NoRoom(String),
    /// The pod's Evacuation or a registration of its namespace cannot be read, so an answer may be there.
    #[error("the evacuation API cannot read what concerns the pod: {words}")]
    Unreadable {
        /// The words of the API server.
        words: String,
        /// Name of the pod's Evacuation, if that is the object.
        evacuation: Option<String>,
    },
    /// The evacuation API answered, and rejected the entry, with these words.
    #[error("the evacuation API rejected the request: {0}")]
    Rejected(String),
    /// The evacuation API did not answer.
    #[error("the evacuation API did not answer")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Time for which the result of a write is kept. The watch delivers it sooner, as a rule.
const KEPT: Duration = Duration::from_secs(1);
/// Maximum number of results that are kept.
const MAX_KEPT: u64 = 10_000;

/// Reason of a reply that failed because objects of the namespace cannot be read.
const READ_ERROR: &str = "StorageReadError";
/// Cause of the conflict with the pod's Evacuation when that cannot be read.
const ACTIVE_UNREADABLE: &str = "ActiveEvacuationUnreadable";

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
        call: &Call,
        pod: PodTarget,
        entry: Entry,
        expired_in: Option<&str>,
    ) -> Result<Arc<Evacuation>, Arc<AskError>> {
        let key = (pod.uid.clone().unwrap_or_default(), entry.owner.clone(), entry.name.clone());
        self.written.try_get_with(key, self.write(call, pod, entry, expired_in)).await
    }

    async fn write(
        &self,
        call: &Call,
        pod: PodTarget,
        entry: Entry,
        expired_in: Option<&str>,
    ) -> Result<Arc<Evacuation>, AskError> {
        let namespace = &call.namespace;
        if let Some(evacuation) = expired_in {
            self.remove(namespace, evacuation, &entry).await?;
        }
        let requester = Requester::of_entry(self.client.clone(), entry).owner_groups(&call.user.groups);
        match requester.evacuate_target(namespace, &pod).await {
            Ok(handle) => Ok(Arc::new(handle.object().clone())),
            Err(error) if error.is_pod_gone() => Err(AskError::Gone),
            Err(error) => Err(classify(error)),
        }
    }

    /// Removes an entry from an Evacuation, and returns true. An Evacuation that is gone, has ended or
    /// changes holds nothing up.
    pub(crate) async fn remove(&self, namespace: &str, name: &str, entry: &Entry) -> Result<bool, AskError> {
        let api: Api<Evacuation> = Api::namespaced(self.client.clone(), namespace);
        let mut evacuation = match api.get(name).await {
            Err(kube::Error::Api(status)) if is_missing(&status, name) => return Ok(false),
            found => found.map_err(of_call)?,
        };
        let before = evacuation.spec.requesters.len();
        evacuation.spec.requesters.retain(|known| known.key() != entry.key());
        if evacuation.spec.requesters.len() == before {
            return Ok(false);
        }
        match api.replace(name, &PostParams::default(), &evacuation).await {
            Err(kube::Error::Api(status)) if is_missing(&status, name) || is_conflict(&status) => Ok(false),
            written => written.map(|_| true).map_err(of_call),
        }
    }
}

fn classify(error: RequestError) -> AskError {
    match error {
        RequestError::Api { ref source, .. } => match &**source {
            kube::Error::Api(status) if is_full(status) => AskError::NoRoom(status.message.clone()),
            kube::Error::Api(status) if is_of_unreadable(status) => AskError::Unreadable {
                words: status.message.clone(),
                evacuation: cause(status, &[ACTIVE_UNREADABLE]).map(str::to_owned),
            },
            kube::Error::Api(status) if is_rejection(status) => AskError::Rejected(status.message.clone()),
            _ => AskError::Unavailable(Box::new(error)),
        },
        RequestError::Contended { .. } => AskError::NoRoom(error.to_string()),
        RequestError::NoReply { .. } | RequestError::Removed { .. } => AskError::Unavailable(Box::new(error)),
    }
}

/// Returns true for a reply that is due to an object that the API server cannot read.
fn is_of_unreadable(status: &Status) -> bool {
    status.reason == READ_ERROR || cause(status, &[ACTIVE_UNREADABLE]).is_some()
}

/// Returns the message of the first cause that has one of these reasons.
fn cause<'a>(status: &'a Status, reasons: &[&str]) -> Option<&'a str> {
    let causes = status.details.as_ref().map(|details| details.causes.as_slice()).unwrap_or_default();
    let found = causes.iter().find(|cause| reasons.contains(&cause.reason.as_str()));
    found.map(|cause| cause.message.as_str())
}

/// Returns true for the reply of a limit on objects, or of a ResourceQuota.
fn is_full(status: &Status) -> bool {
    status.code == 403 && cause(status, &LIMIT_CAUSES).is_some()
}

fn of_call(error: kube::Error) -> AskError {
    match error {
        kube::Error::Api(status) if is_rejection(&status) => AskError::Rejected(status.message.clone()),
        error => AskError::Unavailable(Box::new(error)),
    }
}

/// Returns true for the conflict of a write with the state of the object.
fn is_conflict(status: &Status) -> bool {
    status.code == 409 && !is_admission_denial(status)
}

/// Returns true for a reply by which the evacuation API rejects the request itself, or a webhook or policy of
/// its admission, which may choose any code. A missing API (404) and a busy one (429) do not answer.
///
/// A webhook or policy that others control can therefore hold up calls, but let none pass.
fn is_rejection(status: &Status) -> bool {
    matches!(status.code, 400 | 403 | 409 | 413 | 422) || is_admission_denial(status)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn status(code: u16, cause: Option<&str>, message: &str) -> Status {
        let causes: Vec<_> = cause.into_iter().map(|reason| json!({"reason": reason})).collect();
        serde_json::from_value(json!({"code": code, "message": message, "details": {"causes": causes}}))
            .unwrap()
    }

    #[test]
    fn a_denial_by_admission_is_a_rejection_whatever_its_code() {
        let webhook = "admission webhook \"a.b.c\" denied the request: not today";
        let policy = "evacuations.evacuation.dev \"db-0-x\" is forbidden: ValidatingAdmissionPolicy 'p' with \
                      binding 'p' denied request: not today";
        for (code, message, rejected) in [
            (400, webhook, true),
            (401, webhook, true),
            (401, policy, true),
            (403, policy, true),
            (404, webhook, true),
            (409, webhook, true),
            (429, webhook, true),
            (500, webhook, true),
            (503, webhook, true),
            (422, "metadata.generateName: Invalid value", true),
            (401, "Unauthorized", false),
            (404, "the server could not find the requested resource", false),
            (429, "too many requests", false),
            (500, "Internal error occurred: failed calling webhook \"a.b.c\": timed out", false),
            (503, "the server is currently unable to handle the request", false),
        ] {
            let error = || kube::Error::Api(status(code, None, message).boxed());
            let create = RequestError::Api {
                action: "creating an evacuation of pod",
                namespace: "shop".to_owned(),
                name: "db-0".to_owned(),
                source: Box::new(error()),
            };
            for found in [classify(create), of_call(error())] {
                let is_rejected = matches!(&found, AskError::Rejected(words) if words == message);
                assert_eq!(is_rejected, rejected, "{code} {message}: {found:?}");
                assert_eq!(matches!(found, AskError::Unavailable(_)), !rejected, "{code} {message}");
            }
        }
    }

    #[test]
    fn an_unreadable_evacuation_or_registration_is_no_rejection() {
        let mut failed = status(500, Some("UnexpectedServerResponse"), "failed to read one or more");
        assert!(!is_of_unreadable(&failed));
        failed.reason = READ_ERROR.to_owned();
        assert!(is_of_unreadable(&failed));
        assert!(is_of_unreadable(&status(409, Some(ACTIVE_UNREADABLE), "move-db-0")));
        assert!(!is_of_unreadable(&status(409, Some("ActiveEvacuationExists"), "move-db-0")));
    }

    #[test]
    fn only_a_limit_or_a_quota_is_full() {
        for (status, full) in [
            (status(403, Some("NamespaceObjectLimit"), "evacuations is forbidden"), true),
            (status(403, Some("UserByteLimit"), ""), true),
            (status(403, Some("ResourceQuota"), "evacuations \"e\" is forbidden: exceeded quota: q"), true),
            (status(403, Some("RequesterOfAnother"), ""), false),
            (status(403, None, "admission webhook \"x\" denied the request: exceeded quota: q"), false),
            (status(422, Some("ResourceQuota"), ""), false),
        ] {
            assert_eq!(is_full(&status), full, "{status:?}");
        }
    }
}
