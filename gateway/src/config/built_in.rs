//! The built-in rows. The retry behaviour of each caller was read in its source.

use evacuation_api::{CallerMatch, CallerRow, DeadlineAction, GraceSource, Operation, RefusalPolicy};

use super::callers::patience;
use crate::owner::{CONTROLLER_MANAGER, OwnerKind, controller_user};

/// User of the scheduler.
const SCHEDULER: &str = "system:kube-scheduler";
/// Reasons that taint evictions give a pod before they delete it.
const TAINT_REASONS: [&str; 2] = ["DeletionByTaintManager", "DeletionByDeviceTaintManager"];
/// Time that an app has after a taint. The controller of taints gives up after five tries within 50 ms.
const TAINT_PATIENCE_SECONDS: u32 = 3600;

/// Returns the built-in rows, the last of which match every call.
pub(super) fn built_in() -> Vec<CallerRow> {
    let mut rows = vec![taint_eviction(), preemption()];
    rows.extend(workload_controllers());
    rows.push(evictor());
    rows.extend(third_parties());
    rows.extend(anyone());
    rows
}

/// Five tries 10 ms apart, then the pod is forgotten: the Evacuation itself carries the eviction out. A taint
/// overrides a refusal, and a delay lasts until the deadline.
fn taint_eviction() -> CallerRow {
    let by_account = CallerMatch {
        users: controllers(&[
            "node-controller",
            "taint-eviction-controller",
            "device-taint-eviction-controller",
        ]),
        ..CallerMatch::default()
    };
    let by_reason = CallerMatch {
        users: texts(&[CONTROLLER_MANAGER]),
        disruption_reasons: texts(&TAINT_REASONS),
        ..CallerMatch::default()
    };
    CallerRow {
        matches: vec![by_account, by_reason],
        on_refusal: RefusalPolicy::Override,
        patience_seconds: TAINT_PATIENCE_SECONDS,
        at_deadline: DeadlineAction::Evict,
        ..CallerRow::named("taint-eviction")
    }
}

/// Tries again at once and without a pause. The header gives it one. Up to Kubernetes 1.32 the header stops
/// the scheduling of all pods for ten times its seconds: use a row with 0 there.
fn preemption() -> CallerRow {
    CallerRow {
        matches: vec![CallerMatch {
            users: texts(&[SCHEDULER]),
            operations: vec![Operation::Delete],
            ..CallerMatch::default()
        }],
        on_refusal: RefusalPolicy::Override,
        patience_seconds: 60,
        at_deadline: DeadlineAction::Evict,
        retry_after_seconds: 1,
        count_deletions: true,
        ..CallerRow::named("preemption")
    }
}

/// Try for ever, with pauses from 5 ms to 1,000 s (Job: 1 s to 60 s). Each has two to five workers in the
/// whole cluster, which a header would block: they get none.
fn workload_controllers() -> Vec<CallerRow> {
    let row = |name: &str, accounts: &[&str], kinds: &[&str], follows_owner| {
        let operations = vec![Operation::Delete];
        let by_account = CallerMatch {
            users: controllers(accounts),
            operations: operations.clone(),
            ..CallerMatch::default()
        };
        let by_owner = CallerMatch {
            users: texts(&[CONTROLLER_MANAGER]),
            operations,
            owner_kinds: texts(kinds),
            ..CallerMatch::default()
        };
        CallerRow {
            matches: vec![by_account, by_owner],
            patience_seconds: patience(name),
            follows_owner,
            count_deletions: true,
            ..CallerRow::named(name)
        }
    };
    vec![
        row(
            "replicaset",
            &[OwnerKind::ReplicaSet.account(), OwnerKind::ReplicationController.account()],
            &["ReplicaSet", "ReplicationController"],
            true,
        ),
        row("statefulset", &[OwnerKind::StatefulSet.account()], &["StatefulSet"], true),
        row("daemonset", &[OwnerKind::DaemonSet.account()], &["DaemonSet"], true),
        row("job", &[OwnerKind::Job.account()], &["Job"], false),
    ]
}

/// Kubernetes' own evictor behind EvictionRequests, as its draft is: it tries with pauses from 5 s to 10 min.
/// Its account is not settled, so the row knows the names of the controllers in the drafts. With one user for
/// all controllers it is the only one that evicts.
fn evictor() -> CallerRow {
    let operations = vec![Operation::Evict];
    let accounts = controllers(&[
        "imperative-eviction*",
        "imperativeeviction*",
        "eviction-request*",
        "evictionrequest*",
    ]);
    let by_account =
        CallerMatch { users: accounts, operations: operations.clone(), ..CallerMatch::default() };
    let by_manager =
        CallerMatch { users: texts(&[CONTROLLER_MANAGER]), operations, ..CallerMatch::default() };
    CallerRow {
        matches: vec![by_account, by_manager],
        patience_seconds: patience("eviction-request"),
        grace_period: GraceSource::Caller,
        ..CallerRow::named("eviction-request")
    }
}

/// Drainers that are installed into clusters, by the usual names of their service accounts.
fn third_parties() -> Vec<CallerRow> {
    let row = |name: &str, accounts: &[&str]| CallerRow {
        matches: vec![CallerMatch {
            users: accounts.iter().map(|account| format!("system:serviceaccount:*:{account}")).collect(),
            ..CallerMatch::default()
        }],
        patience_seconds: patience(name),
        grace_period: GraceSource::Caller,
        ..CallerRow::named(name)
    };
    vec![
        // Tries every 10 s for 2 min, then leaves the node for a later round.
        CallerRow {
            on_refusal: RefusalPolicy::GiveUp,
            ..row("cluster-autoscaler", &["cluster-autoscaler", "*cluster-autoscaler"])
        },
        // Deletes at the end of the grace period of its NodeClaim, which its user has set.
        CallerRow {
            matches: vec![CallerMatch {
                users: vec!["system:serviceaccount:*:karpenter".to_owned()],
                operations: vec![Operation::Delete],
                ..CallerMatch::default()
            }],
            on_refusal: RefusalPolicy::Override,
            at_deadline: DeadlineAction::Evict,
            ..row("karpenter-deadline", &[])
        },
        // Tries with pauses up to 10 s for ever.
        row("karpenter", &["karpenter"]),
        // One try a cycle, of 5 min by default, and a cycle takes its time. A header would hold up its other
        // evictions.
        CallerRow {
            on_refusal: RefusalPolicy::GiveUp,
            patience_seconds: 600,
            ..row("descheduler", &["descheduler", "descheduler-*"])
        },
        // One try a minute.
        CallerRow {
            on_refusal: RefusalPolicy::GiveUp,
            patience_seconds: 180,
            ..row("vpa-updater", &["vpa-updater", "*-vpa-updater"])
        },
        // The library of kubectl drain without its pause of 5 s: the header gives them one.
        CallerRow { retry_after_seconds: 1, ..row("kured", &["kured"]) },
        CallerRow {
            retry_after_seconds: 1,
            ..row("node-termination-handler", &["aws-node-termination-handler", "node-termination-handler"])
        },
    ]
}

/// Every other caller: `kubectl drain` tries every 5 s until its timeout. `kubectl delete` does not try
/// again by itself: client-go does so ten times, after the seconds of the header. They grow, so that ten
/// tries last longer than an app may stay silent.
fn anyone() -> Vec<CallerRow> {
    vec![
        CallerRow {
            matches: vec![CallerMatch { operations: vec![Operation::Evict], ..CallerMatch::default() }],
            patience_seconds: patience("eviction"),
            grace_period: GraceSource::Caller,
            ..CallerRow::named("eviction")
        },
        CallerRow {
            on_refusal: RefusalPolicy::GiveUp,
            patience_seconds: 90,
            ask_again_after_seconds: 60,
            grace_period: GraceSource::Caller,
            retry_after_seconds: 1,
            max_retry_after_seconds: 10,
            ..CallerRow::named("deletion")
        },
    ]
}

fn controllers(accounts: &[&str]) -> Vec<String> {
    accounts.iter().map(|account| controller_user(account)).collect()
}

fn texts(all: &[&str]) -> Vec<String> {
    all.iter().map(|text| (*text).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::{callers::CALLERS, table::Table},
        testing::{call_of, pod_of},
    };

    #[test]
    fn each_caller_has_its_row() {
        use Operation::{Delete, Evict};
        let controller = |name: &str| format!("system:serviceaccount:kube-system:{name}");
        let plain = pod_of(None, None);
        let of = |kind: &str| pod_of(Some(kind), None);
        let tainted = pod_of(Some("ReplicaSet"), Some("DeletionByTaintManager"));
        let manager = CONTROLLER_MANAGER.to_owned();
        let table = [
            ("alice".to_owned(), Evict, &plain, "eviction"),
            ("alice".to_owned(), Delete, &plain, "deletion"),
            (controller("node-controller"), Delete, &plain, "taint-eviction"),
            (manager.clone(), Delete, &tainted, "taint-eviction"),
            (manager.clone(), Delete, &of("ReplicaSet"), "replicaset"),
            (manager.clone(), Delete, &of("Job"), "job"),
            (manager, Delete, &plain, "deletion"),
            (controller("replicaset-controller"), Delete, &of("ReplicaSet"), "replicaset"),
            (controller("statefulset-controller"), Delete, &of("StatefulSet"), "statefulset"),
            (controller("daemon-set-controller"), Delete, &of("DaemonSet"), "daemonset"),
            (controller("job-controller"), Delete, &of("Job"), "job"),
            (SCHEDULER.to_owned(), Delete, &plain, "preemption"),
            (controller("cluster-autoscaler"), Evict, &plain, "cluster-autoscaler"),
            ("system:serviceaccount:karpenter:karpenter".to_owned(), Evict, &plain, "karpenter"),
            ("system:serviceaccount:karpenter:karpenter".to_owned(), Delete, &plain, "karpenter-deadline"),
            (controller("descheduler-sa"), Evict, &plain, "descheduler"),
            (controller("vpa-updater"), Evict, &plain, "vpa-updater"),
            (controller("kured"), Evict, &plain, "kured"),
            (controller("imperative-eviction-responder-controller"), Evict, &plain, "eviction-request"),
            (CONTROLLER_MANAGER.to_owned(), Evict, &plain, "eviction-request"),
            // A tenant's account of that name is no part of Kubernetes.
            ("system:serviceaccount:shop:evictionrequest-controller".to_owned(), Evict, &plain, "eviction"),
        ];
        let rows = Table::new(Vec::new());
        for (user, operation, pod, expected) in table {
            assert_eq!(rows.row(&call_of(&user, operation), pod).name, expected, "{user} {operation:?}");
        }
    }

    /// # Attack
    ///
    /// - Attacker: a caller that pauses for minutes between two tries, as the evictor of Kubernetes does
    /// - Act: is forgotten in its pause, so that each try asks the app anew
    /// - Promise: 11
    #[test]
    fn each_row_remembers_its_callers_for_longer_than_their_longest_pause() {
        let rows = built_in();
        for caller in CALLERS {
            let row = rows.iter().find(|row| row.name == caller.row).expect(caller.row);
            let forgets = row.at_deadline == DeadlineAction::GiveUp;
            // A try takes up to a second, and comes late on a busy machine.
            let needed = caller.longest_pause_seconds * 6 / 5;
            assert!(!forgets || row.patience_seconds >= needed, "{}: {row:?}", caller.name);
            assert!(!forgets || row.patience_seconds > row.longest_retry_after(), "{row:?}");
        }
        for row in &rows {
            assert!(CALLERS.iter().any(|caller| caller.row == row.name), "{} has no caller", row.name);
        }
    }

    #[test]
    fn a_row_with_few_workers_behind_it_sends_no_header_and_names_are_unique() {
        let rows = built_in();
        let mut names: Vec<_> = rows.iter().map(|row| row.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), rows.len());
        for row in rows.iter().filter(|row| row.count_deletions && row.name != "preemption") {
            assert_eq!(row.retry_after_seconds, 0, "{}", row.name);
        }
    }
}
