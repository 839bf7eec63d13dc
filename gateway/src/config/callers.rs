//! The callers whose source was read: the row of each, and its longest pause between two tries.

/// A caller, as its source describes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller {
    /// Name for people.
    pub(super) name: &'static str,
    /// Name of the built-in row that matches its calls.
    pub(super) row: &'static str,
    /// Longest pause between two tries, in seconds. Shorter ones than a second count as one.
    pub(super) longest_pause_seconds: u32,
    /// The source, or the setting, that the pause follows from.
    pub(super) source: &'static str,
}

/// Minimum patience of a row, in seconds.
const MIN_PATIENCE_SECONDS: u32 = 60;

const fn caller(
    name: &'static str,
    row: &'static str,
    longest_pause_seconds: u32,
    source: &'static str,
) -> Caller {
    Caller { name, row, longest_pause_seconds, source }
}

/// Backoff of the queues of workload controllers: 5 ms, doubled up to 1,000 s.
const WORK_QUEUE: &str =
    "`DefaultTypedControllerRateLimiter`, `util/workqueue/default_rate_limiters.go`, client-go v0.37.1";
/// Pause of kubectl's drain after a 429.
const DRAIN: &str = "`EvictErrorRetryDelay`, `pkg/drain/drain.go`, k8s.io/kubectl v0.37.1";

/// All callers whose source was read, by their rows.
pub(super) const CALLERS: &[Caller] = &[
    caller(
        "taint eviction",
        "taint-eviction",
        1,
        "`pkg/controller/tainteviction/taint_eviction.go`, kubernetes v1.37.1",
    ),
    caller("device taint eviction", "taint-eviction", 1000, WORK_QUEUE),
    caller(
        "scheduler (preemption)",
        "preemption",
        300,
        "`DefaultPodMaxInUnschedulablePodsDuration`, `pkg/scheduler/backend/queue/scheduling_queue.go`, kubernetes v1.37.1",
    ),
    caller("ReplicaSet, also of a Deployment", "replicaset", 1000, WORK_QUEUE),
    caller("ReplicationController", "replicaset", 1000, WORK_QUEUE),
    caller("StatefulSet", "statefulset", 1000, WORK_QUEUE),
    caller("DaemonSet", "daemonset", 1000, WORK_QUEUE),
    caller(
        "Job",
        "job",
        60,
        "`MaxJobApiBackOff`, `pkg/controller/job/job_controller.go`, kubernetes v1.37.1",
    ),
    caller(
        "Kubernetes' own evictor of EvictionRequests (draft)",
        "eviction-request",
        600,
        "[kubernetes#137396](https://github.com/kubernetes/kubernetes/pull/137396), KEP-4563: 5 s, doubled up to 10 min",
    ),
    caller(
        "cluster-autoscaler",
        "cluster-autoscaler",
        10,
        "`cluster-autoscaler/core/scaledown/actuation/drain.go`, cluster-autoscaler 1.36.1",
    ),
    caller(
        "Karpenter, DELETE",
        "karpenter-deadline",
        10,
        "`pkg/controllers/node/termination/terminator/terminator.go`, karpenter v1.15.0",
    ),
    caller(
        "Karpenter, eviction",
        "karpenter",
        10,
        "`pkg/controllers/node/termination/terminator/eviction.go`, karpenter v1.15.0",
    ),
    caller(
        "descheduler",
        "descheduler",
        300,
        "`--descheduling-interval` of its manifest, descheduler v0.36.0",
    ),
    caller("VPA updater", "vpa-updater", 60, "`--updater-interval`, vertical-pod-autoscaler v1.8.0"),
    caller("kured", "kured", 5, DRAIN),
    caller("aws-node-termination-handler", "node-termination-handler", 5, DRAIN),
    caller("kubectl drain", "eviction", 5, DRAIN),
    caller(
        "Cluster API",
        "eviction",
        30,
        "a round of 10 s and a pause of 20 s, `core/reconcilers/machine/machine_controller.go`, cluster-api v1.14",
    ),
    caller("Argo Rollouts, restart", "eviction", 30, "`rollout/restart.go`, argo-rollouts v1.10"),
    caller(
        "kubectl delete pod",
        "deletion",
        10,
        "the header of its row; `rest/with_retry.go`, client-go v0.37.1",
    ),
];

/// Returns the longest pause of the callers of a row, in seconds.
pub(super) fn longest_pause(row: &str) -> u32 {
    let callers = CALLERS.iter().filter(|caller| caller.row == row);
    callers.map(|caller| caller.longest_pause_seconds).max().unwrap_or_default()
}

/// Returns the patience of a built-in row: a fifth more than the longest pause of its callers, and a minute
/// at least. A shorter one would forget a caller between two tries, and the app would be asked each time.
pub(super) fn patience(row: &str) -> u32 {
    let pause = longest_pause(row);
    (pause + pause / 5).max(MIN_PATIENCE_SECONDS)
}
