//! The eviction and the deletion as requests, and what the API's replies mean.

use std::time::Duration;

use evacuation_protocol::{EvictionOutcome, PodView};
use http::Request;
use k8s_openapi::{
    api::policy::v1::Eviction,
    apimachinery::pkg::apis::meta::v1::{DeleteOptions, ObjectMeta, Preconditions},
};
use kube::{Client, core::Status};
use serde::Serialize;
use tokio::time::timeout;

use crate::cluster::{ObjectKey, read_pod};

/// The cause with which pods/eviction names a budget.
const BUDGET_CAUSE: &str = "DisruptionBudget";
/// Time that a request and its reply may take on their way, beside the time that the server may take.
const TRANSIT: Duration = Duration::from_secs(1);
/// Minimum time that the server is given.
const LEAST: Duration = Duration::from_secs(1);

/// Timeouts of one request that is sent now and must not take effect after a given time.
///
/// A kube-apiserver counts `timeout=` from the moment at which it receives the request. The controller gives
/// the request up after `client`, so that is the latest moment of receipt. The request takes effect before
/// `client + server` or never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Timeouts {
    client: Duration,
    server: Duration,
}

impl Timeouts {
    /// The longest timeouts with `client + server` within `left`; `None` when that is too short.
    pub(super) fn within(left: Duration) -> Option<Self> {
        let server = left.saturating_sub(TRANSIT) / 2;
        (server >= LEAST).then_some(Self { client: server + TRANSIT, server })
    }

    /// The shortest time in which an attempt can be made.
    pub(super) const fn least() -> Duration {
        Duration::from_secs(2 * LEAST.as_secs() + TRANSIT.as_secs())
    }
}

/// Request by which a pod is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// By pods/eviction, which respects budgets.
    Evict,
    /// By a deletion, at a deadline.
    Delete,
}

/// Request for an attempt.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) manner: Manner,
    pub(crate) pod: ObjectKey,
    pub(crate) uid: String,
    pub(crate) grace_period_seconds: Option<i64>,
    /// The names of the budgets that select the pod.
    pub(crate) budgets: Vec<String>,
}

/// Meaning of a reply.
#[derive(Debug, PartialEq, Eq)]
enum Reply {
    /// It is clear.
    Clear(EvictionOutcome),
    /// The API refused. The pod, read live, shows the reason, or that the eviction succeeded.
    ReadPod { retry_after_seconds: Option<u32>, message: String },
    /// It is not known whether the attempt is or will be carried out.
    Lost,
}

/// Carries out an attempt. `None` when its outcome is not known.
pub(super) async fn post(client: &Client, order: &Order, timeouts: Timeouts) -> Option<EvictionOutcome> {
    let request = match request(order, timeouts.server) {
        Ok(request) => request,
        Err(problem) => {
            return Some(EvictionOutcome::Rejected {
                retry_after_seconds: None,
                message: problem.to_string(),
            });
        }
    };
    let reply = timeout(timeouts.client, client.request::<serde_json::Value>(request)).await.ok()?;
    match meaning(reply, order) {
        Reply::Clear(outcome) => Some(outcome),
        Reply::Lost => None,
        Reply::ReadPod { retry_after_seconds, message } => {
            // As the API has it now, not as a watch last reported it.
            let pod = read_pod(client, &order.pod).await.ok()?;
            Some(match PodView::of(pod.as_ref(), &order.uid) {
                PodView::Gone => EvictionOutcome::PodGone,
                PodView::Replaced => EvictionOutcome::UidMismatch,
                PodView::Live(pod) if pod.terminating_until.is_some() => EvictionOutcome::Accepted,
                PodView::Live(_) => EvictionOutcome::Rejected { retry_after_seconds, message },
            })
        }
    }
}

/// Built by hand: kube's own eviction request spells `deleteOptions` in a way that the API ignores, and with
/// it the precondition.
fn request(order: &Order, server_limit: Duration) -> Result<Request<Vec<u8>>, http::Error> {
    let options = DeleteOptions {
        grace_period_seconds: order.grace_period_seconds,
        preconditions: Some(Preconditions { uid: Some(order.uid.clone()), resource_version: None }),
        ..DeleteOptions::default()
    };
    let ObjectKey { namespace, name } = &order.pod;
    let pod = format!("/api/v1/namespaces/{namespace}/pods/{name}");
    let limit = server_limit.as_millis();
    match order.manner {
        Manner::Delete => json(Request::delete(format!("{pod}?timeout={limit}ms")), &options),
        Manner::Evict => {
            let metadata = ObjectMeta {
                namespace: Some(namespace.clone()),
                name: Some(name.clone()),
                ..ObjectMeta::default()
            };
            let eviction = Eviction { metadata, delete_options: Some(options) };
            json(Request::post(format!("{pod}/eviction?timeout={limit}ms")), &eviction)
        }
    }
}

fn json<T: Serialize>(request: http::request::Builder, body: &T) -> Result<Request<Vec<u8>>, http::Error> {
    // Kubernetes' own types always serialise.
    request
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(serde_json::to_vec(body).unwrap_or_default())
}

fn meaning(reply: Result<serde_json::Value, kube::Error>, order: &Order) -> Reply {
    match reply {
        Ok(body) => match refusal(&body) {
            None => Reply::Clear(EvictionOutcome::Accepted),
            Some(status) => refused(&status, order),
        },
        Err(kube::Error::Api(status)) => refused(&status, order),
        // The reply was 2xx, and only its body cannot be read.
        Err(kube::Error::SerdeError(_) | kube::Error::FromUtf8(_)) => Reply::ReadPod {
            retry_after_seconds: None,
            message: "the API's reply could not be read".to_owned(),
        },
        Err(_) => Reply::Lost,
    }
}

/// A Status that reports a failure although the code of the reply may be 2xx.
fn refusal(body: &serde_json::Value) -> Option<Status> {
    if body.get("kind")? != "Status" || body.get("status")? != "Failure" {
        return None;
    }
    serde_json::from_value(body.clone()).ok()
}

fn refused(status: &Status, order: &Order) -> Reply {
    let details = status.details.as_ref();
    let retry_after_seconds = details.map(|d| d.retry_after_seconds).filter(|seconds| *seconds > 0);
    let message = if status.message.is_empty() { status.reason.clone() } else { status.message.clone() };
    let causes = details.into_iter().flat_map(|details| &details.causes);
    let by_budget: Vec<&str> =
        causes.filter(|cause| cause.reason == BUDGET_CAUSE).map(|cause| cause.message.as_str()).collect();
    match status.code {
        403 | 429 if !by_budget.is_empty() => {
            let (message, budgets) = (by_budget.join("; "), order.budgets.clone());
            Reply::Clear(EvictionOutcome::BudgetExhausted { retry_after_seconds, message, budgets })
        }
        429 => Reply::Clear(EvictionOutcome::Rejected { retry_after_seconds, message }),
        500 if message.contains("more than one PodDisruptionBudget") => {
            Reply::Clear(EvictionOutcome::MultipleBudgets { message, budgets: order.budgets.clone() })
        }
        // The request may still be under way in the server, or its write in etcd.
        408 | 502..=599 => Reply::Lost,
        500 if matches!(status.reason.as_str(), "Timeout" | "ServerTimeout") || message.contains("etcd") => {
            Reply::Lost
        }
        // Among them 409, which is about the UID, or about a change of the pod in the meantime; and 404,
        // which may be about a budget that was deleted while it was asked, or a webhook's denial, with the
        // pod alive.
        _ => Reply::ReadPod { retry_after_seconds, message },
    }
}

#[cfg(test)]
#[path = "post_tests.rs"]
mod tests;
