use serde_json::{Value, json};

use super::{
    super::testing::{at, limits, time},
    *,
};

/// The second at which the tests decide.
const NOW: i64 = 100_000;

/// A namespace as it is seen, with one Deployment `web` (UID `d`) whose ReplicaSet is `web-1`.
struct Cluster {
    snapshot: Snapshot,
    limits: Limits,
}

impl Cluster {
    fn new() -> Self {
        let replica_set = json!({"metadata": {"name": "web-1", "uid": "r", "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d", "controller": true}]}});
        let snapshot = Snapshot {
            replica_sets: [("web-1".to_owned(), Arc::new(serde_json::from_value(replica_set).unwrap()))]
                .into(),
            ..Snapshot::default()
        };
        Self { snapshot, limits: limits() }
    }

    /// The same with one more pod of the Deployment, that says so much else.
    fn pod(self, name: &str, more: &Value) -> Self {
        self.owned(name, "apps/v1", "ReplicaSet", "web-1", "r", more)
    }

    fn owned(mut self, name: &str, version: &str, kind: &str, owner: &str, uid: &str, more: &Value) -> Self {
        let mut pod = json!({
            "metadata": {"namespace": "ns", "name": name, "uid": format!("{name}-uid"), "creationTimestamp": time(NOW - 5000),
                "annotations": {"refresh.evacuation.dev/after-restarts": "5"},
                "ownerReferences": [{"apiVersion": version, "kind": kind, "name": owner, "uid": uid, "controller": true}]},
            "status": {"phase": "Running"},
        });
        merge(&mut pod, more);
        self.snapshot.pods.push(Arc::new(serde_json::from_value(pod).unwrap()));
        self
    }

    /// The same with an Evacuation of this requester: of that pod, that attempt, ended at that second.
    fn refreshed(self, name: &str, pod: &str, attempt: u32, ended: Option<i64>) -> Self {
        self.evacuation(name, pod, &own(attempt, ended))
    }

    fn evacuation(mut self, name: &str, pod: &str, more: &Value) -> Self {
        let mut evacuation = json!({
            "metadata": {"namespace": "ns", "name": name, "uid": name, "creationTimestamp": time(NOW - 4000)},
            "spec": {"target": {"pod": {"name": pod, "uid": format!("{pod}-uid")}}, "requesters": [{"name": "a.b/c"}]},
        });
        merge(&mut evacuation, more);
        self.snapshot.evacuations.push(Arc::new(serde_json::from_value(evacuation).unwrap()));
        self
    }

    fn decide(&self) -> Decision {
        decide(&self.snapshot, &self.limits, at(NOW))
    }
}

fn merge(into: &mut Value, more: &Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more.clone(),
    }
}

/// Fields of an Evacuation of this requester.
fn own(attempt: u32, ended: Option<i64>) -> Value {
    let conditions = ended.map(|second| {
        json!([{"type": "Finished", "status": "True", "reason": "x", "message": "", "lastTransitionTime": time(second)}])
    });
    json!({
        "metadata": {"labels": {"refresh.evacuation.dev/owner": "d"},
                     "annotations": {"refresh.evacuation.dev/attempt": attempt.to_string()}},
        "spec": {"requesters": [{"name": "refresh.evacuation.dev/crash-loop"}]},
        "status": {"conditions": conditions.unwrap_or(json!([]))},
    })
}

/// A pod in a crash loop after so many restarts.
fn crashing(restarts: i32) -> Value {
    json!({"status": {
        "conditions": [{"type": "Ready", "status": "False"}, {"type": "ContainersReady", "status": "False",
                        "lastTransitionTime": time(NOW - 300)}],
        "containerStatuses": [{"name": "app", "image": "", "imageID": "", "ready": false, "restartCount": restarts,
                               "state": {"waiting": {"reason": "CrashLoopBackOff"}}}],
    }})
}

fn ready(since: i64) -> Value {
    json!({"status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": time(since)}]}})
}

/// A pod that began just now.
fn new() -> Value {
    json!({"metadata": {"creationTimestamp": time(NOW - 3)}})
}

/// Each act as a few words.
fn acts(decision: &Decision) -> Vec<String> {
    let name = |name: &Option<String>| name.clone().unwrap_or_default();
    decision
        .acts
        .iter()
        .map(|act| match act {
            Act::Ask(ask) => format!("ask {} {} {}", name(&ask.pod.metadata.name), ask.owner, ask.attempt),
            Act::Withdraw { evacuation, why } => {
                format!("withdraw {}: {why}", name(&evacuation.metadata.name))
            }
            Act::Settle { evacuation, since } => {
                format!("settle {} {}", name(&evacuation.metadata.name), (*since - at(NOW)).num_seconds())
            }
        })
        .collect()
}

fn held(decision: &Decision) -> Vec<(String, &'static str)> {
    let held = decision.held.iter();
    held.map(|(pod, hold)| (pod.metadata.name.clone().unwrap_or_default(), hold.as_str())).collect()
}

#[test]
fn a_pod_is_asked_when_it_reached_a_threshold_and_opted_in_and_a_controller_recreates_it() {
    let opted_out = json!({"metadata": {"annotations": {"refresh.evacuation.dev/enabled": "false"}}});
    let not_in = json!({"metadata": {"annotations": Value::Null}});
    let going = json!({"metadata": {"deletionTimestamp": time(NOW)}});
    let ended = json!({"status": {"phase": "Failed"}});
    for (more, expected) in [
        (json!({}), &["ask web-a Deployment web 1"][..]),
        (opted_out, &[]),
        (not_in, &[]),
        (going, &[]),
        (ended, &[]),
    ] {
        let mut pod = crashing(5);
        merge(&mut pod, &more);
        let decision = Cluster::new().pod("web-a", &pod).decide();
        assert_eq!(acts(&decision), expected, "{more}");
        assert_eq!(held(&decision), []);
    }
    let below = Cluster::new().pod("web-a", &crashing(4)).decide();
    assert_eq!(acts(&below), [""; 0]);
    assert!(!below.pending);
}

#[test]
fn a_pod_below_its_time_is_looked_at_again_when_it_is_reached() {
    let mut pod = crashing(4);
    merge(&mut pod, &json!({"metadata": {"annotations": {"refresh.evacuation.dev/after": "10m"}}}));
    let decision = Cluster::new().pod("web-a", &pod).decide();
    assert_eq!(acts(&decision), [""; 0]);
    assert_eq!(decision.wake_at, Some(at(NOW + 300)));
}

#[test]
fn a_pod_that_no_controller_recreates_is_left_alone() {
    let decision = Cluster::new()
        .owned("job", "batch/v1", "Job", "once", "j", &crashing(5))
        .owned("agent", "apps/v1", "DaemonSet", "agent", "a", &crashing(5))
        .owned("early", "apps/v1", "ReplicaSet", "unseen", "u", &crashing(5))
        .decide();
    assert_eq!(acts(&decision), [""; 0]);
    let reasons: Vec<_> = held(&decision).into_iter().map(|(_, reason)| reason).collect();
    assert_eq!(reasons, ["no_owner", "no_owner", "owner_unseen"]);
}

#[test]
fn of_one_owner_one_pod_is_asked_and_of_two_owners_one_each() {
    let decision = Cluster::new()
        .pod("web-a", &crashing(9))
        .pod("web-b", &crashing(5))
        .owned("db-0", "apps/v1", "StatefulSet", "db", "s", &crashing(5))
        .decide();
    assert_eq!(acts(&decision), ["ask web-a Deployment web 1", "ask db-0 StatefulSet db 1"]);
}

#[test]
fn while_a_pod_of_the_owner_is_asked_the_others_wait() {
    let decision = Cluster::new()
        .pod("web-a", &crashing(9))
        .pod("web-b", &crashing(5))
        .refreshed("first", "web-a", 1, None)
        .decide();
    assert_eq!(acts(&decision), [""; 0]);
    assert_eq!(held(&decision), [("web-b".to_owned(), "one_at_a_time")]);
}

#[test]
fn a_pod_that_somebody_else_asked_is_on_its_way() {
    let decision =
        Cluster::new().pod("web-a", &crashing(9)).evacuation("drain", "web-a", &json!({})).decide();
    assert_eq!(acts(&decision), [""; 0]);
    assert_eq!(held(&decision), []);
    let other = Cluster::new()
        .pod("web-a", &crashing(9))
        .pod("web-b", &crashing(9))
        .evacuation("drain", "web-a", &json!({}))
        .decide();
    assert_eq!(acts(&other), ["ask web-b Deployment web 1"]);
}

#[test]
fn after_each_refresh_the_owner_is_left_alone_for_twice_as_long() {
    for (attempt, minutes) in [(1, 10), (2, 20), (3, 40), (7, 360)] {
        let cluster = |seconds_ago: i64| {
            Cluster::new()
                .pod("web-b", &crashing(5))
                .refreshed("older", "web-z", attempt.max(2) - 1, Some(NOW - 90_000))
                .evacuation("last", "web-a", &{
                    let mut last = own(attempt, Some(NOW - seconds_ago));
                    merge(&mut last, &json!({"metadata": {"creationTimestamp": time(NOW - 3000)}}));
                    last
                })
                .decide()
        };
        let early = cluster(minutes * 60 - 1);
        assert_eq!(acts(&early), [""; 0]);
        assert_eq!(held(&early), [("web-b".to_owned(), "backoff")]);
        assert_eq!(early.wake_at, Some(at(NOW + 1)));
        let next = format!("ask web-b Deployment web {}", attempt + 1);
        assert_eq!(acts(&cluster(minutes * 60)), [next]);
    }
}

#[test]
fn a_new_pod_of_the_owner_that_is_not_ready_holds_the_others_back_for_a_while() {
    let decision = Cluster::new().pod("web-a", &crashing(9)).pod("web-b", &new()).decide();
    assert_eq!(acts(&decision), [""; 0]);
    assert_eq!(held(&decision), [("web-a".to_owned(), "new_pod")]);
    assert_eq!(decision.wake_at, Some(at(NOW + 597)));
    let mut is_ready = new();
    merge(&mut is_ready, &ready(NOW - 1));
    let decision = Cluster::new().pod("web-a", &crashing(9)).pod("web-b", &is_ready).decide();
    assert_eq!(acts(&decision), ["ask web-a Deployment web 1"]);
}

#[test]
fn of_the_pods_of_an_owner_the_one_that_was_asked_least_comes_first() {
    let decision = Cluster::new()
        .pod("web-a", &crashing(9))
        .pod("web-b", &crashing(5))
        .refreshed("refused", "web-a", 1, Some(NOW - 3000))
        .decide();
    assert_eq!(acts(&decision), ["ask web-b Deployment web 2"]);
}

#[test]
fn no_more_pods_of_a_namespace_are_asked_within_a_minute_than_its_share() {
    let mut cluster = Cluster::new().pod("web-a", &crashing(5)).owned(
        "db-0",
        "apps/v1",
        "StatefulSet",
        "db",
        "s",
        &crashing(5),
    );
    cluster.limits.per_minute = 2;
    cluster.snapshot.name = "ns".to_owned();
    cluster.snapshot.recent.add("other", at(NOW - 10));
    let decision = cluster.decide();
    assert_eq!(acts(&decision), ["ask web-a Deployment web 1"]);
    assert_eq!(held(&decision), [("db-0".to_owned(), "namespace_share")]);
    assert_eq!(decision.wake_at, Some(at(NOW + 61)));
}

#[test]
fn a_request_is_taken_back_when_the_pod_has_been_ready_for_a_while_or_is_to_be_left_alone() {
    let opted_out = json!({"metadata": {"annotations": {"refresh.evacuation.dev/enabled": "false"}}});
    let broken = json!({"metadata": {"annotations": {"refresh.evacuation.dev/after-restarts": "x"}}});
    for (pod, expected) in [
        (crashing(5), &[][..]),
        (crashing(1), &[]),
        (ready(NOW - 59), &[]),
        (ready(NOW - 60), &["withdraw first: the pod recovered"]),
        (opted_out, &["withdraw first: the pod has not opted in"]),
        (broken, &["withdraw first: the pod has not opted in"]),
    ] {
        let decision = Cluster::new().pod("web-a", &pod).refreshed("first", "web-a", 1, None).decide();
        assert_eq!(acts(&decision), expected, "{pod}");
        assert!(decision.pending);
    }
    let soon = Cluster::new().pod("web-a", &ready(NOW - 59)).refreshed("first", "web-a", 1, None).decide();
    assert_eq!(soon.wake_at, Some(at(NOW + 1)));
}

#[test]
fn only_what_this_requester_asked_and_has_not_ended_is_taken_back() {
    let well = ready(NOW - 600);
    let ended = Cluster::new().pod("web-a", &well).refreshed("first", "web-a", 1, Some(NOW - 60)).decide();
    let others = Cluster::new().pod("web-a", &well).evacuation("drain", "web-a", &json!({})).decide();
    let mut removed = own(1, None);
    merge(&mut removed, &json!({"spec": {"requesters": [{"name": "a.b/c"}]}}));
    let removed = Cluster::new().pod("web-a", &well).evacuation("joined", "web-a", &removed).decide();
    for decision in [ended, others, removed] {
        assert_eq!(acts(&decision), [""; 0]);
    }
}

#[test]
fn once_all_pods_of_the_owner_have_been_well_for_a_while_the_next_attempt_is_a_first_one() {
    let cluster = |others: &Value, ended: i64| {
        Cluster::new()
            .pod("web-a", &ready(NOW - 9000))
            .pod("web-b", others)
            .refreshed("last", "web-z", 3, Some(ended))
            .decide()
    };
    let minutes = |minutes: i64| NOW - minutes * 60;
    assert_eq!(acts(&cluster(&ready(minutes(30)), NOW - 8000)), ["settle last -1800"]);
    assert_eq!(acts(&cluster(&ready(NOW - 9000), minutes(30))), ["settle last -1800"]);
    for (others, ended, wake_at) in [
        (ready(minutes(30) + 1), NOW - 8000, Some(NOW + 1)),
        (ready(NOW - 9000), minutes(30) + 1, Some(NOW + 1)),
        (crashing(1), NOW - 8000, None),
        (new(), NOW - 8000, None),
    ] {
        let decision = cluster(&others, ended);
        assert_eq!(acts(&decision), [""; 0], "{others}");
        assert_eq!(decision.wake_at, wake_at.map(at), "{others}");
        assert!(decision.pending);
    }
    let mut settled = own(3, Some(NOW - 2000));
    merge(
        &mut settled,
        &json!({"metadata": {"annotations": {"refresh.evacuation.dev/settled": time(NOW - 100)}}}),
    );
    let decision = Cluster::new().pod("web-a", &crashing(5)).evacuation("last", "web-z", &settled).decide();
    assert_eq!(acts(&decision), ["ask web-a Deployment web 1"]);
}

#[test]
fn an_owner_of_which_no_pod_is_there_or_one_is_not_known_is_not_well() {
    let nobody = Cluster::new().refreshed("last", "web-z", 1, Some(NOW - 9000));
    assert_eq!(acts(&nobody.decide()), [""; 0]);
    let unseen = nobody.pod("web-a", &ready(NOW - 9000)).owned(
        "web-b",
        "apps/v1",
        "ReplicaSet",
        "web-2",
        "r2",
        &ready(NOW - 9000),
    );
    assert_eq!(acts(&unseen.decide()), [""; 0]);
}

#[test]
fn a_pods_own_annotation_that_cannot_be_read_is_told_at_once_and_its_namespaces_when_it_matters() {
    let broken = |mut pod: Value| {
        let annotations = json!({"refresh.evacuation.dev/after-restarts": "x"});
        merge(&mut pod, &json!({"metadata": {"annotations": annotations}}));
        Cluster::new().pod("web-a", &pod).decide()
    };
    for pod in [ready(NOW), crashing(50)] {
        let decision = broken(pod);
        assert_eq!((decision.unreadable.len(), decision.acts.len()), (1, 0));
    }
    for (pod, told) in [(ready(NOW), 0), (crashing(50), 1)] {
        let mut pod = pod;
        merge(&mut pod, &json!({"metadata": {"annotations": Value::Null}}));
        let mut cluster = Cluster::new().pod("web-a", &pod);
        let namespace = json!({"metadata": {"labels": {"refresh.evacuation.dev/enabled": "true"},
                                            "annotations": {"refresh.evacuation.dev/after": "soon"}}});
        cluster.snapshot.namespace = Some(Arc::new(serde_json::from_value(namespace).unwrap()));
        let decision = cluster.decide();
        assert_eq!((decision.unreadable.len(), decision.acts.len()), (told, 0));
    }
}

#[test]
fn every_pod_of_many_is_reached_in_the_end() {
    // What is asked at each step ends as a refusal, and time goes on: no pod is passed over for ever.
    let mut cluster = Cluster::new();
    for name in ["web-a", "web-b", "web-c"] {
        cluster = cluster.pod(name, &crashing(9));
    }
    let mut asked = Vec::new();
    for round in 0..6_i64 {
        let now = NOW + round * 40_000;
        let decision = decide(&cluster.snapshot, &cluster.limits, at(now));
        let [Act::Ask(ask)] = decision.acts.as_slice() else {
            panic!("{decision:?}");
        };
        let name = ask.pod.metadata.name.clone().unwrap();
        let mut more = own(ask.attempt, Some(now));
        merge(&mut more, &json!({"metadata": {"creationTimestamp": time(now)}}));
        cluster = cluster.evacuation(&format!("round-{round}"), &name, &more);
        asked.push(name);
    }
    assert_eq!(asked, ["web-a", "web-b", "web-c", "web-a", "web-b", "web-c"]);
}
