//! Pods that come back to a node that is being drained.

use evacuation_api::{DrainedNode, LateRule, MAX_RETURNED_OWNERS, MAX_RETURNED_PODS, ReturnedOwner};
use serde_json::json;

use super::*;
use crate::drain::plan::returns::{OWN_ROUNDS, Turn, begin_rounds, turn};

/// A drain of node `a` that has asked its only pod `p`, which is gone.
fn asked(spec: Value) -> (Cluster, NodeEvacuation) {
    let (mut cluster, mut drain) = (Cluster::new(&["a"]), drain(spec));
    cluster.add_pod("a", "p", &json!({}));
    assert_eq!(cluster.begun(&mut drain), ["ask p"]);
    cluster.pods.clear();
    (cluster, drain)
}

impl Cluster {
    /// Has a late pod of `web` alone, in that phase.
    fn replace_by_late(&mut self, name: &str, second: i64, phase: &str) {
        self.pods.clear();
        self.add_late(name, second, Some("web"));
        self.pods[0].1.status.as_mut().unwrap().phase = Some(phase.to_owned());
    }

    fn add_late(&mut self, name: &str, second: i64, owner: Option<&str>) {
        self.add_late_in("ns", name, second, owner);
    }

    fn add_late_in(&mut self, namespace: &str, name: &str, second: i64, owner: Option<&str>) {
        let owner = owner.map(|uid| {
            json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": uid, "uid": uid, "controller": true})
        });
        let owners: Vec<_> = owner.into_iter().collect();
        let created = at(second).to_rfc3339();
        let metadata =
            json!({"namespace": namespace, "creationTimestamp": created, "ownerReferences": owners});
        self.add_pod("a", name, &json!({"metadata": metadata}));
    }
}

fn blocker(drain: &NodeEvacuation) -> Option<(&str, bool)> {
    let first = drain.status.as_ref()?.blockers.first()?;
    Some((first.reason.as_str(), first.stuck))
}

#[test]
fn a_replacement_that_is_back_at_once_goes_after_pauses_that_grow_and_makes_the_drain_stuck() {
    for (phase, act, done) in
        [("Running", "ask", "asked"), ("Failed", "remove", "deleted"), ("Succeeded", "remove", "deleted")]
    {
        let (mut cluster, mut drain) = asked(json!({"maxParallel": {"pods": 1}}));
        let (mut times, mut seen) = (Vec::new(), Vec::new());
        cluster.replace_by_late("p0", 1, phase);
        for second in 1..=600 {
            let acts = cluster.plan(&mut drain, second);
            seen.extend(blocker(&drain).map(|(reason, stuck)| (times.len(), reason.to_owned(), stuck)));
            if acts.is_empty() {
                continue;
            }
            assert_eq!(acts, [format!("{act} p{}", times.len())], "{phase}");
            times.push(second);
            cluster.replace_by_late(&format!("p{}", times.len()), second, phase);
        }
        assert_eq!(times, [2, 12, 22, 52, 112, 232, 472], "{phase}: eight in ten minutes, with the first");
        seen.dedup();
        let comes = |times: usize| (times, "ComesBack".to_owned(), times >= 3);
        assert_eq!(seen, (1..=7).map(comes).collect::<Vec<_>>(), "{phase}");
        assert_eq!(drain.verdict(), DrainVerdict::Stuck, "{phase}");
        let status = drain.status.as_ref().unwrap();
        let said = &status.blockers[0].message;
        for words in [
            "pods of ReplicaSet/web came to the node 7 times since the drain began",
            "kubectl evacuate set d --skip-late-pods",
            &format!("until then the pod is {done} at "),
        ] {
            assert!(said.contains(words), "{phase}: {said}");
        }
        assert_eq!(status.blockers[0].object.as_deref(), Some("ReplicaSet/web"));

        drain.spec.pods.late = Some(LateRule::Skip);
        cluster.plan(&mut drain, 601);
        assert_eq!((phases(&drain), drain.verdict()), (vec![Drained], DrainVerdict::Drained), "the way out");
        assert!(drain.status.as_ref().unwrap().nodes[0].returned.is_empty());
    }
}

#[test]
fn a_late_pod_that_has_ended_and_terminates_needs_no_round() {
    let (mut cluster, mut drain) = asked(json!({}));
    cluster.add_late("q", 1, Some("web"));
    let pod = &mut cluster.pods[0].1;
    pod.status.as_mut().unwrap().phase = Some("Succeeded".to_owned());
    pod.metadata.deletion_timestamp = Some(condition_time(at(2)));
    assert_eq!(cluster.plan(&mut drain, 2), [""; 0]);
    let status = drain.status.as_ref().unwrap();
    assert_eq!((status.pods.evicting, status.nodes[0].returned.len()), (1, 0));
}

#[test]
fn a_pod_of_the_second_in_which_the_drain_began_may_have_come_back() {
    let (mut cluster, mut drain) = asked(json!({}));
    cluster.add_late("q", 0, Some("web"));
    assert_eq!(cluster.plan(&mut drain, 0), [""; 0]);
    assert_eq!(cluster.plan(&mut drain, 0), ["ask q"]);
    cluster.pods.clear();
    cluster.add_late("r", 0, Some("web"));
    cluster.plan(&mut drain, 1);
    assert_eq!(cluster.plan(&mut drain, 1), [""; 0]);
}

#[test]
fn the_owner_of_pods_that_come_back_holds_no_other_owner_up() {
    let (mut cluster, mut drain) = asked(json!({"pods": {"unmanaged": "Evict"}}));
    for (name, owner) in [("a", Some("web")), ("b", Some("web")), ("c", Some("db")), ("d", None)] {
        cluster.add_late(name, 1, owner);
    }
    assert_eq!(cluster.plan(&mut drain, 1), [""; 0], "the rounds are recorded first");
    assert_eq!(cluster.plan(&mut drain, 1), ["ask a", "ask b", "ask c", "ask d"]);
    cluster.pods.clear();
    cluster.add_late("e", 2, Some("web"));
    cluster.add_late("f", 2, Some("new"));
    cluster.plan(&mut drain, 2);
    assert_eq!(cluster.plan(&mut drain, 2), ["ask f"]);
    let wakes = plan(&drain, &cluster.world(), at(9)).wake_at;
    assert_eq!(wakes, Some(at(11)), "the next round of web");
}

#[test]
fn a_round_in_which_nobody_could_be_asked_is_not_followed_by_another() {
    let (mut cluster, mut drain) = (Cluster::new(&["a"]), drain(json!({"maxParallel": {"pods": 1}})));
    cluster.add_pod("a", "p", &json!({}));
    assert_eq!(cluster.begun(&mut drain), ["ask p"]);
    cluster.ask(&drain, "p");
    for (second, name) in [(1, "a"), (2, "b"), (3, "c")] {
        cluster.add_late(name, second, Some("web"));
    }
    for second in (4..600).step_by(20) {
        assert_eq!(cluster.plan(&mut drain, second), [""; 0], "p takes the only place");
    }
    assert!(drain.status.as_ref().unwrap().nodes[0].returned.is_empty());
    cluster.pods.retain(|(_, pod)| pod.metadata.name.as_deref() != Some("p"));
    cluster.plan(&mut drain, 600);
    assert_eq!(cluster.plan(&mut drain, 600), ["ask a"]);
    cluster.pods.retain(|(_, pod)| pod.metadata.name.as_deref() != Some("a"));
    cluster.add_late("d", 601, Some("web"));
    assert_eq!(cluster.plan(&mut drain, 601), ["ask b"], "c and b are in the same round");
    cluster.pods.retain(|(_, pod)| pod.metadata.name.as_deref() != Some("b"));
    assert_eq!(cluster.plan(&mut drain, 602), ["ask c"]);
    let returned = &drain.status.as_ref().unwrap().nodes[0].returned[0];
    assert_eq!(returned.rounds, 1);
    cluster.plan(&mut drain, 610);
    let returned = &drain.status.as_ref().unwrap().nodes[0].returned[0];
    assert_eq!((returned.rounds, returned.pods.len()), (2, 2), "c is still there, and d has come");
}

#[test]
fn a_pod_that_comes_back_holds_no_later_phase_up() {
    let spec = json!({"phases": [{"selector": {"matchLabels": {"app": "op"}}}]});
    let (mut cluster, mut drain) = (Cluster::new(&["a"]), drain(spec));
    cluster.add_pod("a", "p", &json!({"metadata": {"labels": {"app": "op"}}}));
    cluster.add_pod("a", "later", &json!({}));
    assert_eq!(cluster.begun(&mut drain), ["ask p"]);
    let mut asked = Vec::new();
    for second in 1..=60 {
        let acts = cluster.plan(&mut drain, second);
        if acts.iter().any(|act| act == "ask later") {
            assert_eq!(asked.len(), 4, "p, and three rounds: {asked:?}");
            return;
        }
        if !acts.is_empty() || second == 1 {
            asked.extend(acts);
            cluster.pods.retain(|(_, pod)| pod.metadata.name.as_deref() == Some("later"));
            cluster.add_late(&format!("p{second}"), second, Some("op"));
            cluster.pods.last_mut().unwrap().1.metadata.labels =
                Some([("app".to_owned(), "op".to_owned())].into());
        }
    }
    panic!("{asked:?}");
}

#[test]
fn the_owners_on_one_node_leave_place_for_those_on_another() {
    let spec = json!({"nodes": {"names": ["a", "b"]}});
    let (mut cluster, mut drain) = (Cluster::new(&["a", "b"]), drain(spec));
    cluster.add_pod("b", "there", &json!({}));
    cluster.plan(&mut drain, 0);
    for node in ["a", "b"] {
        cluster.cordon(node, true, Some("d"));
    }
    let long = "x".repeat(1_000_000);
    for number in 0..MAX_RETURNED_OWNERS {
        let namespace = format!("ns-{}", number / OWN_ROUNDS);
        cluster.add_late_in(&namespace, &format!("{number:03}"), 1, Some(&format!("{number:03}{long}")));
    }
    cluster.plan(&mut drain, 1);
    assert_eq!(drain.status.as_ref().unwrap().nodes[0].returned.len(), MAX_RETURNED_OWNERS);
    let size = |drain: &NodeEvacuation| serde_json::to_string(drain.status.as_ref().unwrap()).unwrap().len();
    assert!(size(&drain) < 100_000, "the author of a pod chooses the name of its owner");
    cluster.add_late("late", 2, Some("web"));
    cluster.pods.last_mut().unwrap().0 = "b".to_owned();
    assert!(!cluster.plan(&mut drain, 10).contains(&"ask late".to_owned()), "all others rest");
    cluster.plan(&mut drain, 11);
    let acts = cluster.plan(&mut drain, 11);
    assert!(acts.contains(&"ask late".to_owned()), "{acts:?}");
}

#[test]
fn owners_that_have_the_last_place_keep_their_pauses_while_nobody_needs_one() {
    let spec = json!({"nodes": {"names": ["a", "b"]}});
    let (mut cluster, mut drain) = (Cluster::new(&["a", "b"]), drain(spec));
    cluster.add_pod("b", "there", &json!({}));
    cluster.plan(&mut drain, 0);
    for node in ["a", "b"] {
        cluster.cordon(node, true, Some("d"));
    }
    let come = |cluster: &mut Cluster, round: usize, second: i64| {
        cluster.pods.retain(|(_, pod)| pod.metadata.name.as_deref() == Some("there"));
        for number in 0..MAX_RETURNED_OWNERS {
            let namespace = format!("ns-{}", number / OWN_ROUNDS);
            cluster.add_late_in(&namespace, &format!("{round}-{number}"), second, Some(&format!("{number}")));
        }
    };
    for (round, second) in [(0, 1), (1, 12), (2, 23), (3, 54)] {
        come(&mut cluster, round, second);
        cluster.plan(&mut drain, second);
        cluster.plan(&mut drain, second);
    }
    let rounds = |drain: &NodeEvacuation| {
        let returned = &drain.status.as_ref().unwrap().nodes[0].returned;
        (
            returned.len(),
            returned.iter().map(|known| known.rounds).min(),
            returned.iter().map(|k| k.rounds).max(),
        )
    };
    assert_eq!(rounds(&drain), (MAX_RETURNED_OWNERS, Some(4), Some(4)));
    // All pauses are over, and node b is planned, too.
    come(&mut cluster, 4, 1000);
    cluster.plan(&mut drain, 1000);
    assert_eq!(rounds(&drain), (MAX_RETURNED_OWNERS, Some(5), Some(5)));
}

#[test]
fn more_pods_of_an_owner_than_a_round_takes_have_their_turn_in_the_next() {
    let (mut cluster, mut drain) = asked(json!({}));
    let more = MAX_RETURNED_PODS + 8;
    for number in 0..more {
        cluster.add_late(&format!("{number:03}"), 1, Some("web"));
    }
    cluster.plan(&mut drain, 1);
    assert_eq!(cluster.plan(&mut drain, 1).len(), MAX_RETURNED_PODS);
    for number in 0..MAX_RETURNED_PODS {
        cluster.ask(&drain, &format!("{number:03}"));
    }
    cluster.plan(&mut drain, 11);
    assert_eq!(cluster.plan(&mut drain, 11).len(), 8, "those that were asked take no place");
    for number in MAX_RETURNED_PODS..more {
        cluster.ask(&drain, &format!("{number:03}"));
    }
    for second in (12..600).step_by(20) {
        assert_eq!(cluster.plan(&mut drain, second), [""; 0]);
    }
    assert_eq!(drain.status.as_ref().unwrap().nodes[0].returned[0].rounds, 2, "nobody came after that");
}

#[test]
fn a_new_owner_does_not_end_the_pause_of_those_that_share_their_rounds() {
    let mut cluster = Cluster::default();
    for number in 0..=OWN_ROUNDS {
        cluster.add_late(&format!("a-{number}"), 1, Some(&format!("owner-{number}")));
    }
    let pods: Vec<_> = cluster.pods.iter().map(|(_, pod)| pod.clone()).collect();
    let (there, room) = (BTreeSet::new(), MAX_RETURNED_OWNERS);
    let mut node = DrainedNode::default();
    begin_rounds(&mut node, &pods[1..], &there, room, at(1));
    begin_rounds(&mut node, &pods[..1], &there, room, at(1));
    assert_eq!(node.returned.len(), OWN_ROUNDS + 1);
    let shared =
        |node: &DrainedNode| node.returned.iter().find(|known| known.uid.is_none()).cloned().unwrap();
    let before = shared(&node);
    node.returned.remove(0);
    cluster.add_late("b", 2, Some("new"));
    cluster.add_late("c", 2, Some("newer"));
    let late: Vec<_> = cluster.pods.iter().rev().take(2).map(|(_, pod)| pod).collect();
    begin_rounds(&mut node, late, &there, room, at(2));
    assert_eq!((node.returned.len(), shared(&node)), (OWN_ROUNDS + 1, before));
}

#[test]
fn pods_without_a_controller_share_the_rounds_of_their_namespace() {
    let (mut cluster, mut drain) = asked(json!({"pods": {"unmanaged": "Evict"}}));
    cluster.add_late("x-1", 1, None);
    cluster.plan(&mut drain, 1);
    assert_eq!(cluster.plan(&mut drain, 1), ["ask x-1"]);
    cluster.pods.clear();
    cluster.add_late("x-2", 2, None);
    for second in 2..=10 {
        assert_eq!(cluster.plan(&mut drain, second), [""; 0], "another name is no other owner");
    }
}

/// # Attack
///
/// - Attacker: a tenant whose controller makes a new owner for each pod that it puts back
/// - Act: has no owner whose pods come back, so that none is asked after a pause
/// - Promise: 8
#[test]
fn owners_beyond_the_first_few_of_a_namespace_share_their_rounds() {
    let (mut cluster, mut drain) = asked(json!({}));
    let mut asked = Vec::new();
    let owner = |number: usize| format!("job-{number}");
    cluster.add_late("p0", 1, Some(&owner(0)));
    for second in 1..=600 {
        let acts = cluster.plan(&mut drain, second);
        if let [act] = &acts[..] {
            assert_eq!(*act, format!("ask p{}", asked.len()));
            asked.push(second);
            cluster.pods.clear();
            cluster.add_late(&format!("p{}", asked.len()), second, Some(&owner(asked.len())));
        }
    }
    let own = i64::try_from(OWN_ROUNDS).unwrap();
    let (alone, shared) = asked.split_at(OWN_ROUNDS);
    assert_eq!(alone, (1..=own).map(|number| 2 * number).collect::<Vec<_>>(), "each is asked at once");
    let first = 2 * (own + 1);
    assert_eq!(shared, [0, 10, 20, 50, 110, 230, 470].map(|pause| first + pause));
    let status = drain.status.as_ref().unwrap();
    assert_eq!(status.nodes[0].returned.len(), OWN_ROUNDS + 1);
    let said = &status.blockers[0].message;
    assert!(said.contains("pods of ReplicaSet/job-15 and of other owners in its namespace came"), "{said}");
    assert_eq!(blocker(&drain), Some(("ComesBack", true)));

    cluster.add_late_in("other", "q", 601, Some("web"));
    cluster.add_late("again", 601, Some(&owner(0)));
    cluster.plan(&mut drain, 601);
    assert_eq!(cluster.plan(&mut drain, 601), ["ask again", "ask q"], "others do not wait for them");
}

#[test]
fn a_deadline_ends_the_drain_of_a_node_whose_pods_come_back() {
    for phase in ["Running", "Failed"] {
        let (mut cluster, mut drain) = asked(json!({"requester": {"deadlineSeconds": 5}}));
        cluster.replace_by_late("q", 1, phase);
        cluster.plan(&mut drain, 1);
        cluster.plan(&mut drain, 1);
        cluster.replace_by_late("r", 2, phase);
        cluster.plan(&mut drain, 4);
        assert_eq!(phases(&drain), [Draining], "{phase}");
        cluster.plan(&mut drain, 5);
        assert_eq!(phases(&drain), [Failed], "{phase}");
    }
}

/// # Attack
///
/// - Attacker: a tenant with many workloads that tolerate the cordon
/// - Act: fills the record of owners, so that its pods are evicted without pauses
/// - Promise: 8
#[test]
fn the_record_of_owners_is_bounded_and_those_that_rest_keep_their_place() {
    let mut cluster = Cluster::default();
    let more = MAX_RETURNED_OWNERS + 2;
    for number in 0..more {
        let namespace = format!("ns-{:03}", number / OWN_ROUNDS);
        cluster.add_late_in(&namespace, &format!("{number:03}"), 1, Some(&format!("owner-{number:03}")));
    }
    let pods = || cluster.pods.iter().map(|(_, pod)| pod);
    let mut node = DrainedNode::default();
    let there = BTreeSet::new();
    begin_rounds(&mut node, pods(), &there, MAX_RETURNED_OWNERS, at(1));
    assert_eq!(node.returned.len(), MAX_RETURNED_OWNERS);
    let (first, last) = (&cluster.pods[0].1, &cluster.pods[more - 1].1);
    assert_eq!((turn(&node, first, at(2)), turn(&node, last, at(2))), (Turn::Now, Turn::Next));
    begin_rounds(&mut node, [last], &there, MAX_RETURNED_OWNERS, at(10));
    assert_eq!(turn(&node, last, at(10)), Turn::Next, "all others rest");
    begin_rounds(&mut node, [last], &there, MAX_RETURNED_OWNERS, at(11));
    assert_eq!((node.returned.len(), turn(&node, last, at(11))), (MAX_RETURNED_OWNERS, Turn::Now));

    let mut cluster = Cluster::default();
    for number in 0..=MAX_RETURNED_PODS {
        cluster.add_late(&format!("{number:03}"), 1, Some("web"));
    }
    let mut node = DrainedNode::default();
    begin_rounds(&mut node, cluster.pods.iter().map(|(_, pod)| pod), &there, 1, at(1));
    let ReturnedOwner { rounds, pods, .. } = node.returned.remove(0);
    assert_eq!((rounds, pods.len()), (1, MAX_RETURNED_PODS));
}
