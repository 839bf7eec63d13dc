//! The one ledger: a deletion that counts against budgets as an eviction does.
//!
//! The gateway posts an eviction of the same pod, as its own account. The kube-apiserver does the arithmetic
//! of the budget, and no other is needed. The deletion of a pod whose eviction was accepted changes nothing
//! more.

use std::time::Duration;

use evacuation_client::is_missing;
use evacuation_protocol::NEEDS_NONE;
use http::Request;
use k8s_openapi::{
    api::policy::v1::Eviction,
    apimachinery::pkg::apis::meta::v1::{DeleteOptions, ObjectMeta, Preconditions},
};
use kube::{
    Client,
    core::{Status, response::StatusCause},
};
use tokio::time::timeout;

use crate::{call::Call, pod::chosen_grace};
use k8s_openapi::api::core::v1::Pod;

/// Words of the eviction API, with code 500, for a pod that two budgets select.
const SEVERAL_BUDGETS: &str = "more than one PodDisruptionBudget";
/// Reason of the cause of a refusal by a budget.
const BUDGET_CAUSE: &str = "DisruptionBudget";
/// Maximum time of an eviction. A call that takes longer waits for other writers of the same budget.
const TIMEOUT: Duration = Duration::from_millis(450);

/// Outcome of counting a deletion.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// The pod was evicted: its budget has room, or does not count it.
    Evicted,
    /// The pod is gone, or another has its name.
    Gone,
    /// A budget allows no disruption. Holds the words of the eviction API.
    Blocked(String),
    /// The eviction API cannot count: it rejects the eviction itself, or two budgets select the pod.
    Impossible(String),
    /// The kube-apiserver is busy, or others write the budget at the same moment, for which it waits longer
    /// than this gateway can. The next try may be counted.
    Busy(String),
    /// The kube-apiserver did not answer, or failed. Nothing is known of the budget.
    Unanswered(String),
}

/// Posts the evictions of counted deletions.
#[derive(Clone)]
pub(crate) struct Ledger {
    client: Client,
}

impl Ledger {
    /// Returns a ledger that evicts as the user of that client.
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// Counts the deletion of a pod.
    pub(crate) async fn count(&self, call: &Call, pod: &Pod) -> Counted {
        let request = match request(call, pod) {
            Ok(request) => request,
            Err(problem) => return Counted::Impossible(problem.to_string()),
        };
        match timeout(TIMEOUT, self.client.request::<Status>(request)).await {
            Err(_) => Counted::Busy(format!("no answer in {} ms", TIMEOUT.as_millis())),
            Ok(Ok(status)) if status.code < 400 => Counted::Evicted,
            Ok(Ok(status)) => meaning(&status, &call.pod),
            Ok(Err(kube::Error::Api(status))) => meaning(&status, &call.pod),
            Ok(Err(error)) => Counted::Unanswered(error.to_string()),
        }
    }
}

fn meaning(status: &Status, pod: &str) -> Counted {
    match status.code {
        404 if is_gone(status, pod) => Counted::Gone,
        403 | 429 if needs_none(status) => Counted::Impossible(status.message.clone()),
        403 | 429 if is_by_budget(status) => Counted::Blocked(status.message.clone()),
        409 if status.message.contains("UID") => Counted::Gone,
        500 if status.message.contains(SEVERAL_BUDGETS) => Counted::Impossible(status.message.clone()),
        // Among them 404, for a budget that was deleted while it was asked, and 429, from flow control.
        404 | 409 | 429 => Counted::Busy(status.message.clone()),
        401 | 408 | 500.. => Counted::Unanswered(status.message.clone()),
        _ => Counted::Impossible(status.message.clone()),
    }
}

/// Returns true for the refusal by a budget that needs no healthy pod: after a scale-down to 0 the eviction
/// API evicts none of its pods.
fn needs_none(status: &Status) -> bool {
    causes(status).any(|cause| cause.message.contains(NEEDS_NONE))
}

/// Returns true for the word that the pod does not exist. A budget can have its name.
fn is_gone(status: &Status, pod: &str) -> bool {
    is_missing(status, pod) && status.details.as_ref().is_some_and(|details| details.kind == "pods")
}

/// Returns true for a refusal that names a budget as its cause.
fn is_by_budget(status: &Status) -> bool {
    causes(status).any(|cause| cause.reason == BUDGET_CAUSE)
}

fn causes(status: &Status) -> impl Iterator<Item = &StatusCause> {
    status.details.iter().flat_map(|details| &details.causes)
}

/// Returns the request, built by hand: kube's own spells `deleteOptions` in a way that the API ignores.
fn request(call: &Call, pod: &Pod) -> Result<Request<Vec<u8>>, Box<dyn std::error::Error + Send + Sync>> {
    let eviction = Eviction {
        metadata: ObjectMeta {
            namespace: Some(call.namespace.clone()),
            name: Some(call.pod.clone()),
            ..ObjectMeta::default()
        },
        delete_options: Some(DeleteOptions {
            grace_period_seconds: chosen_grace(pod, call.grace_period_seconds),
            dry_run: call.dry_run.then(|| vec!["All".to_owned()]),
            preconditions: Some(Preconditions { uid: pod.metadata.uid.clone(), resource_version: None }),
            ..DeleteOptions::default()
        }),
    };
    let path = format!("/api/v1/namespaces/{}/pods/{}/eviction", call.namespace, call.pod);
    let request = Request::post(path).header(http::header::CONTENT_TYPE, "application/json");
    Ok(request.body(serde_json::to_vec(&eviction)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{call_of, pod_of};
    use evacuation_api::Operation;

    #[test]
    fn the_eviction_names_the_very_pod_and_carries_the_callers_grace_period_and_dry_run() {
        let call = Call { grace_period_seconds: Some(5), dry_run: true, ..call_of("rs", Operation::Delete) };
        let request = request(&call, &pod_of(None, None)).unwrap();
        assert_eq!(request.uri(), "/api/v1/namespaces/shop/pods/db-0/eviction");
        let body: serde_json::Value = serde_json::from_slice(request.body()).unwrap();
        let options = serde_json::json!({
            "gracePeriodSeconds": 5, "dryRun": ["All"], "preconditions": {"uid": "pod-1"},
        });
        assert_eq!(body["deleteOptions"], options);
    }

    #[test]
    fn each_reply_of_the_eviction_api_has_its_meaning() {
        let status = |code, message: &str| Status { code, message: message.to_owned(), ..Status::default() };
        let meaning = |status: &Status| meaning(status, "db-0");
        let missing = |kind: &str, name: &str| {
            let details = serde_json::from_value(serde_json::json!({"kind": kind, "name": name})).unwrap();
            Status { reason: "NotFound".to_owned(), details, ..status(404, "not found") }
        };
        assert_eq!(meaning(&missing("pods", "db-0")), Counted::Gone);
        let budget = meaning(&missing("poddisruptionbudgets", "db-0"));
        assert_eq!(budget, Counted::Busy("not found".to_owned()), "deleted while it was asked");
        assert_eq!(meaning(&status(429, "too many requests")), Counted::Busy("too many requests".to_owned()));
        assert_eq!(meaning(&status(401, "no")), Counted::Unanswered("no".to_owned()), "our own token");
        let caused = |code, reason: &str, message: &str| {
            let cause = serde_json::json!({"reason": reason, "message": message});
            let details = serde_json::from_value(serde_json::json!({"causes": [cause]})).unwrap();
            Status { details, ..status(code, "Cannot evict pod") }
        };
        let needs_none = "The disruption budget web needs 0 healthy pods and has 2 currently";
        let needs_all = "The disruption budget web needs 2 healthy pods and has 2 currently";
        let blocked = || Counted::Blocked("Cannot evict pod".to_owned());
        let impossible = || Counted::Impossible("Cannot evict pod".to_owned());
        for (code, reason, message, expected) in [
            (429, "DisruptionBudget", needs_all, blocked()),
            (429, "DisruptionBudget", needs_none, impossible()),
            (403, "DisruptionBudget", needs_all, blocked()),
            (403, "DisruptionBudget", needs_none, impossible()),
            (403, "NamespaceTerminating", "no", impossible()),
            (422, "DisruptionBudget", needs_all, impossible()),
        ] {
            assert_eq!(meaning(&caused(code, reason, message)), expected, "{code} {reason} {message}");
        }
        assert_eq!(meaning(&status(403, "no")), Counted::Impossible("no".to_owned()));
        assert_eq!(meaning(&status(409, "the UID in the precondition (a) does not match")), Counted::Gone);
        let several = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
        assert_eq!(meaning(&status(500, several)), Counted::Impossible(several.to_owned()));
        assert_eq!(meaning(&status(422, "no")), Counted::Impossible("no".to_owned()));
        assert_eq!(meaning(&status(409, "modified")), Counted::Busy("modified".to_owned()));
        for code in [408, 500, 503, 504] {
            assert_eq!(meaning(&status(code, "etcd")), Counted::Unanswered("etcd".to_owned()), "{code}");
        }
    }

    /// # Attack
    ///
    /// - Attacker: a network that breaks the connection between the gateway and the kube-apiserver
    /// - Act: lets a deletion of a workload controller pass without a count against its budget
    /// - Promise: 11
    #[tokio::test]
    async fn a_connection_that_breaks_is_no_reason_to_leave_a_deletion_uncounted() {
        // Nothing listens there any more.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let config = kube::Config::new(format!("http://127.0.0.1:{port}").parse().unwrap());
        let ledger = Ledger::new(Client::try_from(config).unwrap());
        let counted = ledger.count(&call_of("rs", Operation::Delete), &pod_of(None, None)).await;
        assert!(matches!(counted, Counted::Unanswered(_)), "{counted:?}");
    }
}
