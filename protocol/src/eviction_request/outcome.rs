//! The end of an eviction, as EvictionRequests and Evictions report it.

use chrono::{DateTime, Utc};
use evacuation_api::{ConditionType, EvacuatedReason, Evacuation, FailedReason};
use k8s_openapi::api::core::v1::Pod;

use super::{EvictionAct, EvictionWorld, intents};
use crate::{
    pod::{LivePod, PodPhase},
    upstream::{End, EvictionRequest, has_ended},
};

/// The report on one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The conditions, and the message.
    Known(End, String),
    /// No Evacuation of the pod is known.
    Unasked,
    /// Nothing was heard of the pod yet.
    Unknown,
}

impl Outcome {
    /// Returns the outcome of a pod, whose last Evacuation is given.
    pub(super) fn of(world: &EvictionWorld<'_>, evacuation: Option<&Evacuation>) -> Self {
        let ended = evacuation.filter(|evacuation| !intents::is_open(evacuation));
        if let Some(outcome @ Self::Known(End::PodDeleted | End::PodTerminal, _)) =
            ended.map(|evacuation| Self::of_evacuation(evacuation, true))
        {
            return outcome;
        }
        let Some(pod) = world.pod else {
            let asked = evacuation.is_some() || !world.evictions.is_empty();
            return match world.is_gone {
                false => Self::Unknown,
                true if asked || world.requests.iter().any(|request| is_awaiting(request)) => {
                    Self::Known(End::PodDeleted, "the pod is gone".to_owned())
                }
                true => {
                    let (namespace, name, uid) = (world.namespace, world.name, world.uid);
                    Self::Known(End::Invalid, format!("there is no pod {namespace}/{name} of UID {uid}"))
                }
            };
        };
        if LivePod::of(pod).phase == PodPhase::Terminal {
            return Self::Known(End::PodTerminal, "the pod has ended".to_owned());
        }
        if has_group(pod) {
            let message = "the pod is part of a PodGroup, whose pods are not evicted one by one";
            return Self::Known(End::Invalid, message.to_owned());
        }
        match evacuation {
            Some(evacuation) => Self::of_evacuation(evacuation, !world.wanted().is_empty()),
            None => Self::Unasked,
        }
    }

    /// Returns the outcome of an Evacuation. `is_wanted` says whether requests still want the pod to go.
    pub(super) fn of_evacuation(evacuation: &Evacuation, is_wanted: bool) -> Self {
        let status = evacuation.status.as_ref();
        let message = |kind| {
            let condition = status.and_then(|status| status.true_condition(kind));
            condition.map(|condition| condition.message.clone()).unwrap_or_default()
        };
        let failed = status.and_then(|status| status.true_condition(ConditionType::Failed));
        match failed {
            Some(failed) if failed.reason == FailedReason::Canceled.as_str() && !is_wanted => {
                Self::Known(End::Canceled, message(ConditionType::Failed))
            }
            Some(_) => Self::Known(End::LeftAlone, message(ConditionType::Failed)),
            None if status.is_some_and(|status| status.is_true(ConditionType::Evacuated)) => {
                let reason = status.and_then(|status| status.true_condition(ConditionType::Evacuated));
                let in_place = EvacuatedReason::TerminatedInPlace.as_str();
                let end = match reason {
                    Some(reason) if reason.reason == in_place => End::PodTerminal,
                    _ => End::PodDeleted,
                };
                Self::Known(end, message(ConditionType::Evacuated))
            }
            None => Self::Known(End::Awaiting, message(ConditionType::Blocked)),
        }
    }

    /// Returns the act that writes the outcome to a request, if it is not there.
    ///
    /// The end of a generation of a request is final.
    pub(super) fn report(
        &self,
        request: &EvictionRequest,
        now: DateTime<Utc>,
    ) -> Option<EvictionAct<'static>> {
        let (end, message) = match self {
            Self::Known(end, message) => (*end, message.as_str()),
            Self::Unasked => (End::Awaiting, ""),
            Self::Unknown => return None,
        };
        if has_answer(request) {
            return None;
        }
        let next = reported(request, end, message, now);
        (next.status != request.status).then(|| EvictionAct::Report(Box::new(next)))
    }
}

/// Returns a request that the API does not take, with the API's message in its status.
#[must_use]
pub fn invalid_request(request: &EvictionRequest, message: &str, now: DateTime<Utc>) -> EvictionRequest {
    reported(request, End::Invalid, message, now)
}

/// Returns true when an end was written for this generation of a request.
pub(super) fn has_answer(request: &EvictionRequest) -> bool {
    is_observed(request)
        && request.status.as_ref().is_some_and(|status| has_ended(status.conditions.as_ref()))
}

/// Returns true when an Evacuation was made for this generation of a request, and no end was written.
fn is_awaiting(request: &EvictionRequest) -> bool {
    is_observed(request) && !has_answer(request)
}

/// Returns true when a status was written for this generation of a request.
pub(super) fn is_observed(request: &EvictionRequest) -> bool {
    let observed = request.status.as_ref().and_then(|status| status.observed_generation);
    observed.is_some() && observed == request.metadata.generation
}

fn reported(request: &EvictionRequest, end: End, message: &str, now: DateTime<Utc>) -> EvictionRequest {
    let mut status = request.status.clone().unwrap_or_default();
    status.observed_generation = request.metadata.generation;
    end.write(&mut status.conditions, message, request.metadata.generation, now);
    EvictionRequest { status: Some(status), ..request.clone() }
}

/// Returns true for a pod that this API can evict.
pub(super) fn is_evictable(pod: &Pod) -> bool {
    LivePod::of(pod).phase != PodPhase::Terminal && !has_group(pod)
}

fn has_group(pod: &Pod) -> bool {
    pod.spec.as_ref().is_some_and(|spec| spec.scheduling_group.is_some())
}
