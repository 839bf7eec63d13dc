//! Crash loops of containers, and their ends, as far as the API shows them.

use chrono::{DateTime, TimeDelta, Utc};
use evacuation_api::from_condition_time;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodCondition};

use super::opt_in::Thresholds;

/// Reason for which the kubelet makes a container wait.
const WAITING_REASON: &str = "CrashLoopBackOff";
/// Minimum time of a run that counts as no crash. After twice its longest backoff of 5 minutes the kubelet
/// starts its own backoff again.
const LONG_RUN: TimeDelta = TimeDelta::minutes(10);
/// Time in which a new pod may become ready. Other pods are held back for it no longer than that.
const NEW_FOR: TimeDelta = TimeDelta::minutes(10);

/// A container in a crash loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CrashLoop {
    /// Name of the container.
    pub(super) container: String,
    /// Number of its restarts since the pod began.
    pub(super) restarts: i32,
    /// Exit code of its last run.
    pub(super) exit_code: Option<i32>,
    /// Start of the loop, as far as the API shows it.
    since: Option<DateTime<Utc>>,
}

/// Returns true if a container of the pod waits in `CrashLoopBackOff`.
pub(crate) fn is_crash_looping(pod: &Pod) -> bool {
    containers(pod).any(waits)
}

/// State of a pod against its thresholds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reached {
    /// A threshold is reached, by this container.
    Now(CrashLoop),
    /// The threshold of time is reached at that time, if the crash loop lasts.
    At(DateTime<Utc>),
    /// No threshold of time applies.
    Not,
}

/// Returns the state of a pod against its thresholds.
pub(crate) fn reached(pod: &Pod, thresholds: &Thresholds, now: DateTime<Utc>) -> Reached {
    let mut next: Option<DateTime<Utc>> = None;
    for found in containers(pod).filter(|container| waits(container)) {
        let found = crash_loop(pod, found);
        if thresholds.restarts.is_some_and(|restarts| found.restarts >= restarts) {
            return Reached::Now(found);
        }
        let Some(at) = found.since.zip(thresholds.time).map(|(since, time)| since + time) else {
            continue;
        };
        if at <= now {
            return Reached::Now(found);
        }
        next = Some(next.map_or(at, |next| next.min(at)));
    }
    next.map_or(Reached::Not, Reached::At)
}

/// Returns the time since which the pod is ready and in no crash loop. `None` when it is not.
pub(crate) fn well_since(pod: &Pod) -> Option<DateTime<Utc>> {
    let ready = condition(pod, "Ready").filter(|ready| ready.status == "True" && !is_crash_looping(pod))?;
    ready.last_transition_time.as_ref().map(from_condition_time)
}

/// Returns the time until which a new pod that is not ready holds others back. `None` for other pods.
pub(crate) fn new_until(pod: &Pod, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let ready = condition(pod, "Ready").is_some_and(|ready| ready.status == "True");
    let restarted = containers(pod).any(|container| container.restart_count > 0);
    let created = pod.metadata.creation_timestamp.as_ref().map(from_condition_time)?;
    let until = created + NEW_FOR;
    (!ready && !restarted && until > now).then_some(until)
}

fn crash_loop(pod: &Pod, container: &ContainerStatus) -> CrashLoop {
    let last = container.last_state.as_ref().and_then(|last| last.terminated.as_ref());
    let long_run = last.and_then(|last| {
        let started = from_condition_time(last.started_at.as_ref()?);
        let finished = from_condition_time(last.finished_at.as_ref()?);
        (finished - started >= LONG_RUN).then_some(finished)
    });
    // The API shows no such time for a container. While all containers are ready it has none.
    let unready = match condition(pod, "ContainersReady") {
        Some(ready) if ready.status == "True" => None,
        Some(ready) => ready.last_transition_time.as_ref(),
        None => pod.metadata.creation_timestamp.as_ref(),
    };
    CrashLoop {
        container: container.name.clone(),
        restarts: container.restart_count,
        exit_code: last.map(|last| last.exit_code),
        since: unready
            .map(from_condition_time)
            .map(|unready| long_run.map_or(unready, |run| run.max(unready))),
    }
}

fn waits(container: &ContainerStatus) -> bool {
    let waiting = container.state.as_ref().and_then(|state| state.waiting.as_ref());
    waiting.is_some_and(|waiting| waiting.reason.as_deref() == Some(WAITING_REASON))
}

/// Returns the statuses of the containers, init containers first, as they run.
fn containers(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let status = pod.status.as_ref();
    let init = status.and_then(|status| status.init_container_statuses.as_ref());
    let main = status.and_then(|status| status.container_statuses.as_ref());
    [init, main].into_iter().flatten().flatten()
}

fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<&'a PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == kind)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{
        super::testing::{at, time},
        *,
    };

    fn pod(status: &Value) -> Pod {
        serde_json::from_value(json!({"metadata": {"creationTimestamp": time(0)}, "status": status})).unwrap()
    }

    fn waiting(reason: &str, restarts: i32, last: &Value) -> Value {
        json!({"name": "app", "image": "", "imageID": "", "ready": false, "restartCount": restarts,
               "state": {"waiting": {"reason": reason}}, "lastState": {"terminated": last}})
    }

    fn unready(since: i64) -> Value {
        json!([{"type": "ContainersReady", "status": "False", "lastTransitionTime": time(since)}])
    }

    fn short_run() -> Value {
        json!({"exitCode": 3, "startedAt": time(900), "finishedAt": time(910)})
    }

    fn judge(status: &Value, restarts: Option<i32>, seconds: Option<i64>) -> Reached {
        let thresholds = Thresholds { restarts, time: seconds.map(TimeDelta::seconds) };
        reached(&pod(status), &thresholds, at(1000))
    }

    #[test]
    fn either_threshold_is_enough_and_only_a_container_that_waits_for_its_crashes_counts() {
        let crashing = waiting("CrashLoopBackOff", 5, &short_run());
        let long = waiting(
            "CrashLoopBackOff",
            5,
            &json!({"exitCode": 0, "startedAt": time(100), "finishedAt": time(900)}),
        );
        let pulling = waiting("ImagePullBackOff", 50, &short_run());
        let main = |container: &Value, since: i64| json!({"containerStatuses": [container], "conditions": unready(since)});
        let init = json!({"initContainerStatuses": [crashing], "conditions": unready(400)});
        let never_said = json!({"containerStatuses": [crashing]});
        let ready = json!({"containerStatuses": [crashing],
            "conditions": [{"type": "ContainersReady", "status": "True", "lastTransitionTime": time(1)}]});
        for (status, restarts, seconds, expected) in [
            (main(&crashing, 400), Some(5), None, Some(None)),
            (main(&crashing, 400), Some(6), None, None),
            (main(&crashing, 400), None, Some(600), Some(None)),
            (main(&crashing, 400), None, Some(601), Some(Some(1001))),
            (main(&crashing, 400), Some(6), Some(600), Some(None)),
            (main(&crashing, 400), Some(5), Some(6000), Some(None)),
            (init, Some(5), None, Some(None)),
            (never_said, None, Some(1000), Some(None)),
            (ready, None, Some(1), None),
            (main(&long, 50), None, Some(100), Some(None)),
            (main(&long, 50), None, Some(101), Some(Some(1001))),
            (main(&pulling, 0), Some(5), Some(1), None),
            (json!({}), Some(1), Some(1), None),
        ] {
            let found = judge(&status, restarts, seconds);
            match (found, expected) {
                (Reached::Now(found), Some(None)) => {
                    assert_eq!((found.container.as_str(), found.restarts), ("app", 5));
                }
                (Reached::At(found), Some(Some(expected))) => assert_eq!(found, at(expected), "{status}"),
                (Reached::Not, None) => {}
                (found, expected) => panic!("{status}: {found:?}, not {expected:?}"),
            }
        }
    }

    #[test]
    fn the_exit_code_of_the_last_run_is_told() {
        let status = json!({"containerStatuses": [waiting("CrashLoopBackOff", 5, &short_run())]});
        let Reached::Now(found) = judge(&status, Some(1), None) else {
            panic!("not reached");
        };
        assert_eq!(found.exit_code, Some(3));
    }

    #[test]
    fn a_pod_is_well_since_it_is_ready_unless_a_container_waits_for_its_crashes() {
        let ready =
            |status: &str| json!([{"type": "Ready", "status": status, "lastTransitionTime": time(7)}]);
        let crashing = waiting("CrashLoopBackOff", 5, &short_run());
        assert_eq!(well_since(&pod(&json!({"conditions": ready("True")}))), Some(at(7)));
        assert_eq!(well_since(&pod(&json!({"conditions": ready("False")}))), None);
        let both = json!({"conditions": ready("True"), "containerStatuses": [crashing]});
        assert_eq!(well_since(&pod(&both)), None);
    }

    #[test]
    fn a_pod_is_new_while_it_was_neither_ready_nor_restarted_for_ten_minutes_at_most() {
        let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        let restarted = json!({"containerStatuses": [waiting("CrashLoopBackOff", 1, &short_run())]});
        for (status, now, until) in [
            (json!({}), 599, Some(at(600))),
            (json!({}), 600, None),
            (ready, 10, None),
            (restarted, 10, None),
        ] {
            assert_eq!(new_until(&pod(&status), at(now)), until, "{status} at {now}");
        }
    }
}
