use serde_json::{Value, json};

mod group;
mod outage;
mod unwritten;

use super::*;
use crate::{
    config::Table,
    testing::{call_of, pod_of},
};

const RS: &str = "system:serviceaccount:kube-system:replicaset-controller";

fn now() -> DateTime<Utc> {
    "2026-11-20T12:00:00Z".parse().unwrap()
}

fn at(seconds: i64) -> Value {
    json!(now() + TimeDelta::seconds(seconds))
}

/// A call with everything that concerns it. Every test changes a part of it.
struct Case {
    call: Call,
    pod: Pod,
    sight: Sight,
    registered: bool,
    namespace: NamespaceFacts,
    active: Option<Evacuation>,
    last: Option<Evacuation>,
    predecessor: Option<Evacuation>,
    unreadable: Option<&'static str>,
    group: Vec<Mate>,
    table: Table,
    outage: Option<Outage>,
}

/// Returns a call of that user for a registered pod that nobody has asked.
fn case(user: &str, operation: Operation) -> Case {
    Case {
        call: call_of(user, operation),
        pod: pod_of(None, None),
        sight: Sight::Live { drained_before: false },
        registered: true,
        namespace: NamespaceFacts::default(),
        active: None,
        last: None,
        predecessor: None,
        unreadable: None,
        group: Vec::new(),
        table: Table::new(Vec::new()),
        outage: None,
    }
}

fn evict() -> Case {
    case("alice", Operation::Evict)
}

fn delete() -> Case {
    case("alice", Operation::Delete)
}

/// Returns a deletion by the ReplicaSet controller in a namespace that counts, of a pod without responders.
fn counted() -> Case {
    let namespace = NamespaceFacts { counts: true, ..NamespaceFacts::default() };
    Case {
        registered: false,
        namespace,
        pod: pod_of(Some("ReplicaSet"), None),
        ..case(RS, Operation::Delete)
    }
}

impl Case {
    fn judge(&self) -> Verdict {
        self.with_facts(judge)
    }

    /// Returns true when the call passes if the pod is surplus.
    fn passes_as_surplus(&self) -> bool {
        self.with_facts(|facts| waits_to_be_counted(facts, &judge(facts)))
    }

    fn with_facts<T>(&self, look: impl FnOnce(&Facts<'_>) -> T) -> T {
        let trusted =
            Trusted { users: vec!["the-controller".to_owned()], namespace: "evacuation-system".to_owned() };
        look(&Facts {
            call: &self.call,
            pod: &self.pod,
            sight: self.sight,
            registered: self.registered,
            namespace: self.namespace,
            active: self.active.as_ref(),
            last: self.last.as_ref(),
            predecessor: self.predecessor.as_ref(),
            unreadable: self.unreadable,
            group: &self.group,
            row: self.table.row(&self.call, &self.pod),
            trusted: &trusted,
            outage: self.outage,
            longest_hold: TimeDelta::seconds(900),
            now: now(),
        })
    }

    fn passes(&self) -> Option<Pass> {
        match self.judge() {
            Verdict::Pass(pass) => Some(pass),
            _ => None,
        }
    }

    fn asks(&self) -> Requester {
        match self.judge() {
            Verdict::Ask { entry, .. } => *entry,
            other => panic!("{other:?}"),
        }
    }

    fn waits(&self) -> Reply {
        match self.judge() {
            Verdict::Wait(reply) => reply,
            other => panic!("{other:?}"),
        }
    }
}

/// Returns an Evacuation of the pod with these entries and this status.
fn evacuation(requesters: &Value, status: &Value) -> Evacuation {
    serde_json::from_value(json!({
        "metadata": {"name": "db-0-x", "namespace": "shop"},
        "spec": {"target": {"pod": {"name": "db-0", "uid": "pod-1"}}, "requesters": requesters},
        "status": status,
    }))
    .unwrap()
}

/// Returns the status with one responder in that state, with that answer.
fn responder(state: &str, answer: &Value) -> Value {
    let mut responder = json!({
        "name": "self", "priority": 1, "timeoutSeconds": 60, "maxDelaySeconds": 60, "state": state,
        "activeTime": at(-5),
    });
    responder.as_object_mut().unwrap().extend(answer.as_object().unwrap().clone());
    json!({"responders": [responder]})
}

fn asking() -> Value {
    responder("Active", &json!({}))
}

fn done() -> Value {
    responder("Completed", &json!({"answer": "Accept"}))
}

/// Returns Alice's entry of the row for evictions with its deadline so many seconds from now.
fn entry_until(seconds: i64) -> Value {
    json!([{
        "owner": "alice", "name": "gateway.evacuation.dev/eviction", "onRefusal": "Wait",
        "deadline": at(seconds), "atDeadline": "GiveUp",
    }])
}

fn ended(kind: &str, reason: &str, seconds: i64) -> Value {
    let condition = |kind: &str| {
        json!({"type": kind, "status": "True", "reason": reason, "message": "responder self refused: Busy",
               "lastTransitionTime": at(seconds)})
    };
    json!({"conditions": [condition(kind), condition("Finished")], "finishTime": at(seconds)})
}

#[test]
fn a_registered_pod_is_asked_with_an_entry_in_the_callers_name() {
    let entry = evict().asks();
    assert_eq!(entry.owner, "alice");
    assert_eq!(entry.name, "gateway.evacuation.dev/eviction");
    assert_eq!(entry.message.as_deref(), Some("alice asked to evict the pod"));
    assert_eq!(entry.on_refusal, Some(RefusalPolicy::Wait));
    assert_eq!(entry.at_deadline, Some(DeadlineAction::GiveUp));
    assert_eq!(entry.deadline.unwrap().time(), now() + TimeDelta::seconds(60));
    assert_eq!(delete().asks().name, "gateway.evacuation.dev/deletion");
}

#[test]
fn a_pod_without_responders_passes_unless_its_namespace_opts_in() {
    let mut case = Case { registered: false, ..evict() };
    assert_eq!(case.passes(), Some(Pass::Unregistered));
    case.namespace.asks_all = true;
    case.asks();
}

#[test]
fn the_machinery_of_kubernetes_and_of_this_project_always_passes() {
    let kube = |name: &str| format!("system:serviceaccount:kube-system:{name}");
    for user in [
        "the-controller".to_owned(),
        kube("generic-garbage-collector"),
        kube("namespace-controller"),
        kube("pod-garbage-collector"),
    ] {
        assert_eq!(case(&user, Operation::Delete).passes(), Some(Pass::Exempt), "{user}");
    }
    let mut kubelet = case("system:node:node-a", Operation::Delete);
    kubelet.call.user.groups = vec!["system:nodes".to_owned()];
    assert_eq!(kubelet.passes(), Some(Pass::Exempt));
}

#[test]
fn the_common_user_of_all_controllers_passes_where_it_collects_and_is_told_apart_elsewhere() {
    let manager = || case("system:kube-controller-manager", Operation::Delete);
    let mut collector = manager();
    collector.call.propagates = true;
    assert_eq!(collector.passes(), Some(Pass::Exempt));
    let mut pod_collector = manager();
    pod_collector.call.grace_period_seconds = Some(0);
    assert_eq!(pod_collector.passes(), Some(Pass::Exempt));
    let workload = Case { pod: pod_of(Some("ReplicaSet"), None), ..manager() };
    assert_eq!(workload.asks().name, "gateway.evacuation.dev/replicaset");
    let taint = Case { pod: pod_of(Some("ReplicaSet"), Some("DeletionByTaintManager")), ..manager() };
    assert_eq!(taint.asks().name, "gateway.evacuation.dev/taint-eviction");
}

#[test]
fn a_pod_that_goes_anyway_is_not_asked() {
    let mut terminating = evict();
    terminating.pod.metadata.deletion_timestamp =
        Some(serde_json::from_value(json!("2026-11-20T12:00:30Z")).unwrap());
    assert_eq!(terminating.passes(), Some(Pass::Leaving));
    for phase in ["Succeeded", "Failed"] {
        let mut ended = evict();
        ended.pod.status.as_mut().unwrap().phase = Some(phase.to_owned());
        assert_eq!(ended.passes(), Some(Pass::Leaving), "{phase}");
    }
    let mut namespace = delete();
    namespace.namespace.terminating = true;
    assert_eq!(namespace.passes(), Some(Pass::NamespaceTerminating));
    let mut own = evict();
    own.call.namespace = "evacuation-system".to_owned();
    assert_eq!(own.passes(), Some(Pass::OwnNamespace));
    let mut other = evict();
    other.call.uid = Some("pod-0".to_owned());
    assert_eq!(other.passes(), Some(Pass::OtherPod));
}

#[test]
fn a_fresh_entry_waits_without_a_write_and_an_older_one_is_renewed() {
    for (seconds, renewed) in [(59, false), (41, false), (39, true), (1, true)] {
        let mut case = evict();
        case.active = Some(evacuation(&entry_until(seconds), &asking()));
        match case.judge() {
            Verdict::Wait(_) => assert!(!renewed, "{seconds}"),
            Verdict::Ask { expired_in: None, .. } => assert!(renewed, "{seconds}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn an_expired_entry_is_removed_before_it_is_written_again() {
    let mut case = evict();
    case.active = Some(evacuation(&entry_until(-1), &asking()));
    let Verdict::Ask { expired_in, .. } = case.judge() else { panic!() };
    assert_eq!(expired_in.as_deref(), Some("db-0-x"));
}

#[test]
fn an_evacuation_of_others_is_joined() {
    let mut case = evict();
    case.active = Some(evacuation(&json!([{"owner": "bob", "name": "a.b/c"}]), &asking()));
    let Verdict::Ask { entry, expired_in: None } = case.judge() else { panic!() };
    assert_eq!(entry.owner, "alice");
}

#[test]
fn an_entry_that_evicts_at_its_deadline_is_not_moved_by_retries() {
    let mut taint = case("system:serviceaccount:kube-system:node-controller", Operation::Delete);
    let entry = taint.asks();
    assert_eq!(entry.at_deadline, Some(DeadlineAction::Evict));
    assert_eq!(entry.on_refusal, Some(RefusalPolicy::Override));
    let written = Requester { deadline: Some((now() + TimeDelta::seconds(1)).into()), ..entry };
    taint.active = Some(evacuation(&json!([written]), &asking()));
    taint.waits();
}

#[test]
fn when_every_responder_is_done_the_call_passes() {
    for status in [done(), responder("Active", &json!({"answer": "Accept"})), json!({"responders": []})] {
        for mut case in [evict(), delete()] {
            case.active = Some(evacuation(&entry_until(50), &status));
            assert_eq!(case.passes(), Some(Pass::RespondersDone), "{status}");
        }
    }
}

#[test]
fn the_reply_names_the_responder_its_answer_and_the_command_that_explains_it() {
    let said = |answer: Value| {
        let mut case = evict();
        case.active = Some(evacuation(&entry_until(50), &responder("Active", &answer)));
        case.waits().message
    };
    let silent = said(json!({}));
    assert!(silent.starts_with("shop/db-0: responder self was asked at 2026-11-20T11:59:55Z"), "{silent}");
    assert!(silent.contains("this request counts until 2026-11-20T12:00:50Z, then GiveUp"), "{silent}");
    assert!(silent.ends_with("see evacuation db-0-x, or: kubectl evacuate why db-0 -n shop"), "{silent}");
    let delay = said(json!({"answer": "Delay", "delayUntil": at(30), "message": "migrating\nnow"}));
    assert!(delay.contains("asked for time until 2026-11-20T12:00:30Z: migrating\\nnow"), "{delay}");
    let refused = said(json!({"answer": "Refuse", "reason": "Busy", "message": "no, thanks"}));
    assert!(refused.contains("responder self refused: Busy: no, thanks"), "{refused}");
}

#[test]
fn the_header_is_that_of_the_row_and_absent_for_controllers_with_few_workers() {
    let retry = |mut case: Case| {
        let entry = case.asks();
        case.active = Some(evacuation(&json!([entry]), &asking()));
        case.waits().retry_after_seconds
    };
    assert_eq!(retry(evict()), 0);
    assert_eq!(retry(case(RS, Operation::Delete)), 0);
}

#[test]
fn the_pauses_of_a_deletion_grow_with_the_age_of_its_own_entry() {
    let retry = |owner: &str, age: i64| {
        let name = "gateway.evacuation.dev/deletion";
        let mut status = asking();
        status["requesters"] = json!([
            {"owner": owner, "name": name, "user": "gateway", "time": at(0), "joinedTime": at(-age)},
        ]);
        let entry = json!({"owner": "alice", "name": name, "deadline": at(80), "atDeadline": "GiveUp"});
        let active = Some(evacuation(&json!([entry]), &status));
        Case { active, ..delete() }.waits().retry_after_seconds
    };
    assert_eq!([0, 1, 3, 7, 15, 70].map(|age| retry("alice", age)), [1, 2, 4, 8, 10, 10]);
    assert_eq!(retry("bob", 0), 10, "the longest without a record of its own");
}

#[test]
fn the_entry_of_a_deletion_that_comes_back_says_within_what_time() {
    let within = |case: Case| match case.judge() {
        Verdict::Count { entry, .. } => entry.caller_deletes_within_seconds,
        _ => case.asks().caller_deletes_within_seconds,
    };
    let with_grace = |seconds| {
        let mut case = delete();
        case.call.grace_period_seconds = Some(seconds);
        case
    };
    assert_eq!(within(delete()), Some(15), "the longest pause and five seconds");
    assert_eq!(within(with_grace(5)), Some(15));
    assert_eq!(within(with_grace(0)), None, "it is not repeated");
    assert_eq!(within(evict()), None, "the controller evicts as the caller would");
    assert_eq!(within(case(RS, Operation::Delete)), None, "it is not told when to come back");
    assert_eq!(within(case("system:kube-scheduler", Operation::Delete)), None, "the controller evicts");
    assert_eq!(within(counted()), None, "the budget decides");
}

/// Any caller may shorten the grace period of a terminating pod by a call of its own.
#[test]
fn only_a_deletion_whose_shorter_grace_period_does_not_count_is_not_repeated() {
    let cuts = |mut case: Case, seconds| {
        case.call.grace_period_seconds = Some(seconds);
        cuts_grace(&case.call, &case.pod, case.table.row(&case.call, &case.pod))
    };
    assert!(cuts(delete(), 0), "a forced deletion without the right to force");
    assert!(!cuts(delete(), 5), "its entry says so: the controller evicts with it");
    assert!(!cuts(delete(), 30) && !cuts(delete(), 60), "it shortens nothing");
    assert!(cuts(case(RS, Operation::Delete), 5), "its row takes the pod's own");
    assert!(!cuts(case(RS, Operation::Delete), 60));
    assert!(!cuts(evict(), 0), "an eviction of a terminating pod changes nothing");
}

#[test]
fn a_refusal_is_answered_from_its_record_until_it_is_time_to_ask_again() {
    // The row of deletions asks again after 60 s.
    for (seconds, retry_time, asked) in [
        (-59, None, false),
        (-60, None, true),
        (-59, Some(-30), false),
        (-120, Some(10), false),
        (-120, Some(0), true),
    ] {
        let mut status = ended("Failed", "Refused", seconds);
        if let Some(time) = retry_time {
            status["responders"] =
                responder("Canceled", &json!({"retryTime": at(time)}))["responders"].clone();
        }
        let mut case = delete();
        case.last = Some(evacuation(&json!([]), &status));
        match case.judge() {
            Verdict::Ask { .. } => assert!(asked, "{seconds} {retry_time:?}"),
            Verdict::Wait(reply) => {
                assert!(!asked, "{seconds} {retry_time:?}");
                assert!(reply.message.contains("responder self refused: Busy"), "{}", reply.message);
                assert_eq!(reply.retry_after_seconds, 0);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn another_end_than_a_refusal_is_no_reason_to_wait() {
    for reason in ["Canceled", "DeadlineGaveUp"] {
        let mut case = delete();
        case.last = Some(evacuation(&json!([]), &ended("Failed", reason, -1)));
        case.asks();
    }
}

#[test]
fn a_caller_that_overrides_refusals_is_not_answered_by_an_old_one() {
    let mut taint = case("system:serviceaccount:kube-system:node-controller", Operation::Delete);
    taint.last = Some(evacuation(&json!([]), &ended("Failed", "Refused", -1)));
    taint.asks();
}

/// Returns Alice's eviction of a pod on node-a that was made 10 s ago. She asked for the pod before it 50 s
/// ago, on that node, and its Evacuation ended so many seconds ago.
fn successor(node_before: &str, ended_seconds: i64) -> Case {
    let mut status = ended("Evacuated", "Evicted", -ended_seconds);
    status["nodeName"] = json!(node_before);
    status["requesters"] = json!([{
        "owner": "alice", "name": "gateway.evacuation.dev/eviction", "user": "the-gateway", "time": at(-20),
        "joinedTime": at(-50),
    }]);
    let mut case = Case { predecessor: Some(evacuation(&entry_until(50), &status)), ..evict() };
    case.pod.metadata.creation_timestamp = Some(serde_json::from_value(at(-10)).unwrap());
    case
}

#[test]
fn a_retry_that_reaches_the_successor_of_the_pod_is_told_that_the_pod_is_gone() {
    let reply = successor("node-a", 29).waits();
    assert_eq!((reply.code, reply.reason), (404, "NotFound"));
    // Later, for another caller, and with a UID, it is a new request.
    successor("node-a", 31).asks();
    for user in ["bob", "alice"] {
        let mut case = successor("node-a", 29);
        case.call.user.name = user.to_owned();
        case.call.uid = (user == "alice").then(|| "pod-1".to_owned());
        case.asks();
    }
    // A successor without a node can hold up no drain.
    let mut pending = successor("node-b", 29);
    pending.pod.spec.as_mut().unwrap().node_name = None;
    assert_eq!(pending.waits().code, 404);
}

/// # Attack
///
/// - Attacker: a user who drains two nodes, one after the other
/// - Act: takes the end of a pod on the first node for the end of its successor on the second
/// - Promise: 10
#[test]
fn a_successor_on_another_node_is_asked_unless_only_the_earlier_node_is_drained() {
    for known in ["node-b", ""] {
        successor(known, 1).asks();
    }
    let drained = |case: Case| Case { sight: Sight::Live { drained_before: true }, ..case };
    assert_eq!(drained(successor("node-b", 1)).waits().code, 404);
    let mut deletion = drained(successor("node-b", 1));
    deletion.call.operation = Operation::Delete;
    deletion.asks();
}

/// `kubectl delete pod` after `kubectl drain` means the pod that runs now.
#[test]
fn only_a_live_entry_of_the_same_row_makes_a_call_a_retry() {
    let mut deletion = successor("node-a", 1);
    deletion.call.operation = Operation::Delete;
    deletion.asks();
    let mut left = successor("node-a", 1);
    let status = left.predecessor.as_mut().unwrap().status.as_mut().unwrap();
    status.requesters[0].left_time = Some((now() - TimeDelta::seconds(2)).into());
    left.asks();
    let expired = |reached| {
        let mut case = successor("node-a", 1);
        let policy = json!({"onRefusal": "Wait", "deadlines": [{
            "owner": "alice", "requester": "gateway.evacuation.dev/eviction", "time": at(-5),
            "action": "GiveUp", "reached": reached,
        }]});
        let status = case.predecessor.as_mut().unwrap().status.as_mut().unwrap();
        status.policy = serde_json::from_value(policy).unwrap();
        case
    };
    expired(true).asks();
    assert_eq!(expired(false).waits().code, 404, "it expired after the end");
}

#[test]
fn a_caller_that_first_asked_after_the_successor_was_made_means_the_successor() {
    let made = |seconds: i64| {
        let mut case = successor("node-a", 1);
        case.pod.metadata.creation_timestamp = Some(serde_json::from_value(at(seconds)).unwrap());
        case
    };
    made(-51).asks();
    assert_eq!(made(-50).waits().code, 404, "a pod can move within a second");
}

#[test]
fn a_caller_is_told_of_an_earlier_pod_only_when_the_present_one_was_read() {
    let mut case = Case { sight: Sight::Cached { fresh: true }, ..successor("node-a", 1) };
    assert_eq!(case.judge(), Verdict::Look);
    case.predecessor = None;
    case.asks();
}

/// # Attack
///
/// - Attacker: a network that holds up the gateway's watch of pods
/// - Act: lets an eviction pass by the state of an earlier pod, or of the pod before it registered
/// - Promise: 10, 11
#[test]
fn no_call_passes_by_a_cached_pod_that_may_have_changed() {
    let cached = |fresh, case| Case { sight: Sight::Cached { fresh }, ..case };
    let leaving = || {
        let mut case = evict();
        case.pod.status.as_mut().unwrap().phase = Some("Failed".to_owned());
        case
    };
    let other = || {
        let mut case = evict();
        case.call.uid = Some("pod-0".to_owned());
        case
    };
    let responded = || Case { active: Some(evacuation(&entry_until(50), &done())), ..evict() };
    for fresh in [true, false] {
        for case in [leaving(), other(), responded()] {
            assert_eq!(cached(fresh, case).judge(), Verdict::Look);
        }
        // The user and the namespace say enough, and an entry names the pod by its UID.
        assert_eq!(cached(fresh, case("the-controller", Operation::Evict)).passes(), Some(Pass::Exempt));
        cached(fresh, evict()).asks();
    }
    let plain = || Case { registered: false, ..evict() };
    assert_eq!(cached(true, plain()).passes(), Some(Pass::Unregistered));
    assert_eq!(cached(false, plain()).judge(), Verdict::Look);
}

#[test]
fn the_evacuation_of_the_present_pod_comes_before_that_of_an_earlier_one() {
    let mut case = successor("node-a", 1);
    case.active = Some(evacuation(&entry_until(50), &asking()));
    assert_eq!(case.waits().code, 429);
    case.active = Some(evacuation(&entry_until(50), &done()));
    assert_eq!(case.passes(), Some(Pass::RespondersDone));
    // It refused this caller's question.
    let mut refused = successor("node-a", 10);
    let mut status = ended("Failed", "Refused", -1);
    status["requesters"] =
        serde_json::to_value(&refused.predecessor.as_ref().unwrap().status.as_ref().unwrap().requesters)
            .unwrap();
    refused.last = Some(evacuation(&json!([]), &status));
    let reply = refused.waits();
    assert_eq!((reply.code, reply.cause), (429, "EvacuationRefused"));
}

#[test]
fn the_callers_grace_period_counts_where_the_row_says_so_and_never_a_forced_zero() {
    let grace = |mut case: Case, seconds| {
        case.call.grace_period_seconds = Some(seconds);
        case.asks().grace_period_seconds
    };
    assert_eq!(grace(evict(), 5), Some(5));
    assert_eq!(grace(evict(), 0), Some(0));
    assert_eq!(grace(evict(), i64::from(i32::MAX) + 1), Some(i32::MAX.into()), "the API takes no longer one");
    assert_eq!(grace(delete(), 5), Some(5));
    assert_eq!(grace(delete(), 0), None);
    assert_eq!(grace(case(RS, Operation::Delete), 5), None);
    // The kube-apiserver fills in the pod's own.
    assert_eq!(grace(delete(), 30), None);
}

#[test]
fn a_row_of_the_administrator_can_let_calls_pass() {
    let row = json!({"name": "bot", "matches": [{"users": ["alice"]}], "act": "Pass"});
    let table = Table::new(vec![serde_json::from_value(row).unwrap()]);
    assert_eq!(Case { table, ..evict() }.passes(), Some(Pass::Row));
}

#[test]
fn a_deletion_by_a_workload_controller_is_counted_where_the_namespace_says_so() {
    assert!(matches!(counted().judge(), Verdict::Count { .. }));
    assert_eq!(Case { namespace: NamespaceFacts::default(), ..counted() }.passes(), Some(Pass::Unregistered));
    let person = Case { call: delete().call, ..counted() };
    assert_eq!(person.passes(), Some(Pass::Unregistered));
    // A pod with responders is asked first.
    assert_eq!(Case { registered: true, ..counted() }.asks().name, "gateway.evacuation.dev/replicaset");
}

/// Returns a counted deletion whose Evacuation every responder is done with. Its own entry was made so many
/// seconds ago, and the condition Blocked has been True for an hour, now with that reason.
fn held_back(joined: i64, reason: &str, budget_seconds: Option<i64>) -> Case {
    blocked_saying(joined, reason, budget_seconds, "budget web allows no disruption")
}

/// Returns the same with that message.
fn blocked_saying(joined: i64, reason: &str, budget_seconds: Option<i64>, message: &str) -> Case {
    let mut status = done();
    status["conditions"] = json!([{
        "type": "Blocked", "status": "True", "reason": reason, "message": message,
        "lastTransitionTime": at(-3600),
    }]);
    status["eviction"] = json!({"budgetBlockedTime": budget_seconds.map(|seconds| at(-seconds))});
    let entry = counted().table.row(&counted().call, &counted().pod).entry_name();
    let record = |owner: &str, name: &str, joined: i64| json!({"owner": owner, "name": name, "user": owner, "time": at(-1), "joinedTime": at(-joined)});
    // Another requester, such as a drain, has waited for the whole time.
    status["requesters"] = json!([record("drain", "a.b/c", 3600), record(RS, &entry, joined)]);
    let entries = json!([
        {"owner": "drain", "name": "a.b/c"},
        {"owner": RS, "name": entry, "deadline": at(1100), "atDeadline": "GiveUp", "budgetPatienceSeconds": 1800},
    ]);
    Case { active: Some(evacuation(&entries, &status)), ..counted() }
}

#[test]
fn a_counted_deletion_waits_for_the_budget_until_its_time_is_over() {
    let blocked = |seconds, reason| held_back(seconds, reason, Some(seconds));
    let reply = blocked(1799, "BudgetExhausted").waits();
    assert!(
        reply.message.contains("every responder is done, and budget web allows no disruption"),
        "{reply:?}"
    );
    assert_eq!(blocked(1800, "BudgetExhausted").passes(), Some(Pass::BlockedTooLong));
    // After a scale-down to 0 the eviction API evicts none of the pods.
    let needs = "The disruption budget web needs 0 healthy pods and has 2 currently";
    assert_eq!(blocked_saying(1, "BudgetExhausted", Some(1), needs).passes(), Some(Pass::Uncounted));
    let expects =
        "budget web expects no pod, because the scale of the owner is 0, and so it allows no disruption";
    assert_eq!(blocked_saying(1, "BudgetAllowsNone", Some(1), expects).passes(), Some(Pass::Uncounted));
    let stale = "budget web was not computed since its last change";
    blocked_saying(1, "BudgetExhausted", Some(1), stale).waits();
    // The words of a failure name objects of others.
    blocked_saying(1, "BudgetNotComputed", Some(1), expects).waits();
    held_back(1799, "BudgetAllowsNone", Some(1799)).waits();
    assert_eq!(held_back(1800, "BudgetAllowsNone", Some(1800)).passes(), Some(Pass::BlockedTooLong));
    blocked_saying(1, "EvictionRejected", None, needs).waits();
    // Another block, such as by a webhook, is no matter of the ledger.
    held_back(1800, "EvictionRejected", None).waits();
    // Without the label the deletion passes.
    let plain = Case { namespace: NamespaceFacts::default(), ..blocked(1, "BudgetExhausted") };
    assert_eq!(plain.passes(), Some(Pass::RespondersDone));
}

/// # Attack
///
/// - Attacker: a requester whose Evacuation of a pod has been held back by a budget for long
/// - Act: leaves the way past the budget open to the first deletion that a workload controller tries
/// - Promise: 8
#[test]
fn a_deletion_does_not_pass_a_budget_by_the_patience_of_another_requester() {
    held_back(0, "BudgetExhausted", Some(3600)).waits();
    held_back(1799, "BudgetExhausted", Some(3600)).waits();
    assert_eq!(held_back(1800, "BudgetExhausted", Some(3600)).passes(), Some(Pass::BlockedTooLong));
    // An entry that expired, or left, has no patience any more: the caller begins anew.
    let mut expired = held_back(1800, "BudgetExhausted", Some(3600));
    let entry = expired.active.as_ref().unwrap().spec.requesters[1].clone();
    let active = expired.active.as_mut().unwrap().status.as_mut().unwrap();
    let deadline = json!({"deadlines": [{
        "owner": RS, "requester": entry.name, "time": at(-1), "action": "GiveUp", "reached": true,
    }], "onRefusal": "Wait"});
    active.policy = serde_json::from_value(deadline).unwrap();
    assert!(matches!(expired.judge(), Verdict::Ask { expired_in: Some(_), .. }));
    let mut left = held_back(1800, "BudgetExhausted", Some(3600));
    let active = left.active.as_mut().unwrap();
    active.spec.requesters.pop();
    active.status.as_mut().unwrap().requesters[1].left_time = Some((now() - TimeDelta::seconds(9)).into());
    left.asks();
}

/// The controller records an expired entry a moment later, or after an outage.
#[test]
fn an_entry_that_expired_has_no_patience_also_before_that_is_recorded() {
    let mut held = held_back(1800, "BudgetExhausted", Some(3600));
    let deadline = |seconds| Some((now() + TimeDelta::seconds(seconds)).into());
    held.active.as_mut().unwrap().spec.requesters[1].deadline = deadline(1);
    assert_eq!(held.passes(), Some(Pass::BlockedTooLong));
    held.active.as_mut().unwrap().spec.requesters[1].deadline = deadline(0);
    assert!(matches!(held.judge(), Verdict::Ask { expired_in: Some(_), .. }));
}

#[test]
fn a_counted_deletion_that_waits_names_its_own_end() {
    let reply = held_back(600, "BudgetExhausted", Some(540)).waits();
    for part in [
        "passes the budget from 2026-11-20T12:21:00Z on",
        "kubectl delete pod db-0 -n shop",
        "kubectl evacuate why db-0 -n shop",
    ] {
        assert!(reply.message.contains(part), "{part:?} is not in {}", reply.message);
    }
    assert!(!reply.message.contains("GiveUp"), "its retries move that deadline: {}", reply.message);
    let reply = held_back(600, "EvictionRejected", None).waits();
    assert!(reply.message.contains("a budget can hold it back for 1800 s"), "{}", reply.message);
    let entry = |case: Case| match case.judge() {
        Verdict::Count { entry, .. } => entry.budget_patience_seconds,
        _ => case.asks().budget_patience_seconds,
    };
    assert_eq!(entry(counted()), Some(1800));
    assert_eq!(entry(Case { registered: true, ..counted() }), Some(1800));
    assert_eq!(entry(evict()), None);
}

#[test]
fn only_a_counted_deletion_that_no_responder_holds_passes_as_surplus() {
    assert!(held_back(1, "BudgetExhausted", Some(1)).passes_as_surplus());
    assert!(held_back(1, "EvictionRejected", None).passes_as_surplus());
    // Its own entry is to be written first.
    let mut joins = held_back(1, "BudgetExhausted", Some(1));
    joins.active.as_mut().unwrap().spec.requesters.pop();
    joins.asks();
    assert!(joins.passes_as_surplus());
    // What passes anyway needs no read, and neither does an app that is to answer first.
    assert!(!held_back(1800, "BudgetExhausted", Some(1800)).passes_as_surplus());
    let asked = Some(evacuation(&json!([]), &asking()));
    assert!(!Case { active: asked, registered: true, ..counted() }.passes_as_surplus());
    assert!(!Case { registered: true, ..counted() }.passes_as_surplus());
    assert!(!counted().passes_as_surplus(), "the eviction API counts it first");
    let plain = Case { namespace: NamespaceFacts::default(), ..held_back(1, "BudgetExhausted", Some(1)) };
    assert!(!plain.passes_as_surplus());
    let person = Case { call: delete().call, ..held_back(1, "BudgetExhausted", Some(1)) };
    assert!(!person.passes_as_surplus());
}

#[test]
fn time_under_another_reason_than_a_budget_is_no_time_under_a_budget() {
    // The condition has been True for an hour, first because a responder refused.
    held_back(3600, "BudgetExhausted", Some(1799)).waits();
    assert_eq!(held_back(3600, "BudgetExhausted", Some(1800)).passes(), Some(Pass::BlockedTooLong));
}

#[test]
fn only_a_deletion_without_a_grace_period_is_forced() {
    use Operation::{Delete, Evict};
    for (operation, grace, forced) in
        [(Delete, Some(0), true), (Delete, Some(1), false), (Delete, None, false), (Evict, Some(0), false)]
    {
        let mut case = case("alice", operation);
        case.call.grace_period_seconds = grace;
        assert_eq!(is_forced(&case.call, &case.pod), forced, "{grace:?}");
    }
}
