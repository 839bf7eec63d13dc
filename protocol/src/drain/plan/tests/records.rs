//! The records of a drain: the pods that stay, and the nodes for which it has no room.

use evacuation_api::{MAX_DRAINED_NODES, MAX_LEFT_ALONE_PODS};
use serde_json::json;

use super::*;

fn left_alone(drain: &NodeEvacuation) -> Vec<String> {
    let status = drain.status.as_ref().unwrap();
    status.left_alone.iter().map(|known| format!("{} {:?}", known.pod, known.reason)).collect()
}

/// A drain of node `a`, on which pod `p` was left alone while pod `q` was asked.
fn with_one_left_alone() -> (Cluster, NodeEvacuation) {
    let (mut cluster, mut drain) = (Cluster::new(&["a"]), drain(json!({})));
    cluster.add_pod("a", "p", &json!({}));
    cluster.add_pod("a", "q", &json!({}));
    cluster.begun(&mut drain);
    cluster.ask(&drain, "p");
    cluster.ask(&drain, "q");
    cluster.cancel("p");
    cluster.plan(&mut drain, 2);
    (cluster, drain)
}

#[test]
fn a_pod_that_was_left_alone_is_not_asked_again_when_its_evacuation_is_gone() {
    let (mut cluster, mut drain) = with_one_left_alone();
    assert_eq!(left_alone(&drain), ["ns/p Some(\"Canceled\")"]);
    let before = drain.status.as_ref().unwrap().blockers.clone();
    cluster.evacuations.retain(|e| e.metadata.name.as_deref() != Some("p"));
    assert_eq!(cluster.plan(&mut drain, 3), [] as [&str; 0], "it was asked once");
    let after = drain.status.as_ref().unwrap().blockers.clone();
    assert_eq!(after[0].reason, "LeftAlone");
    assert_eq!((&after[0].object, after[0].since), (&before[0].object, before[0].since));

    cluster.pods.retain(|(_, pod)| pod.metadata.name.as_deref() != Some("q"));
    cluster.plan(&mut drain, 4);
    assert_eq!(phases(&drain), [Failed]);
    assert_eq!(left_alone(&drain).len(), 1);
}

#[test]
fn the_record_of_a_pod_goes_with_the_pod() {
    let (mut cluster, mut drain) = with_one_left_alone();
    cluster.pods.retain(|(_, pod)| pod.metadata.name.as_deref() != Some("p"));
    cluster.plan(&mut drain, 3);
    assert_eq!(left_alone(&drain), [] as [&str; 0]);
    // A StatefulSet creates a pod of the same name, which is another pod.
    cluster.add_pod("a", "p", &json!({"metadata": {"uid": "later"}}));
    assert_eq!(cluster.plan(&mut drain, 4), ["ask p"]);
}

#[test]
fn the_record_is_bounded_and_pods_beyond_it_are_known_by_their_evacuations() {
    let (mut cluster, mut drain) = (Cluster::new(&["a"]), drain(json!({})));
    let names: Vec<String> = (0..=MAX_LEFT_ALONE_PODS).map(|n| format!("p{n:03}")).collect();
    for name in &names {
        cluster.add_pod("a", name, &json!({}));
    }
    cluster.add_pod("a", "q", &json!({}));
    cluster.begun(&mut drain);
    for name in &names {
        cluster.ask(&drain, name);
        cluster.cancel(name);
    }
    cluster.ask(&drain, "q");
    assert_eq!(cluster.plan(&mut drain, 2), [] as [&str; 0]);
    assert_eq!(left_alone(&drain).len(), MAX_LEFT_ALONE_PODS);
    assert_eq!(cluster.plan(&mut drain, 3), [] as [&str; 0]);
    cluster.evacuations.retain(|e| e.metadata.name.as_deref() == Some("q"));
    assert_eq!(cluster.plan(&mut drain, 4), [format!("ask {}", names[MAX_LEFT_ALONE_PODS])]);
}

#[test]
fn nodes_for_which_there_is_no_room_are_counted_and_told() {
    for (more, told) in [(0, None), (1, Some("1 more node matches")), (12, Some("12 more nodes match"))] {
        let mut cluster = Cluster::default();
        for number in 0..MAX_DRAINED_NODES + more {
            cluster.add_node(&format!("n{number:04}"), &json!({"pool": "old"}));
        }
        let nodes = json!({"selector": {"matchLabels": {"pool": "old"}}});
        let mut drain = drain(json!({"nodes": nodes, "maxParallel": {"nodes": 1}}));
        for second in 0..2 {
            cluster.plan(&mut drain, second);
            let status = drain.status.as_ref().unwrap();
            assert_eq!(status.nodes.len(), MAX_DRAINED_NODES);
            assert_eq!(usize::try_from(status.nodes_omitted).unwrap(), more);
            let message = status.message.as_deref().unwrap();
            let says = message.contains("the selector and stay");
            assert_eq!(says, told.is_some(), "{message}");
            assert!(told.is_none_or(|told| message.matches(told).count() == 1), "{message}");
        }
    }
}

#[test]
fn a_drain_that_follows_its_selector_counts_the_omitted_nodes_anew() {
    let mut cluster = Cluster::default();
    for number in 0..=MAX_DRAINED_NODES {
        cluster.add_node(&format!("n{number:04}"), &json!({"pool": "old"}));
    }
    let nodes = json!({"selector": {"matchLabels": {"pool": "old"}}, "follow": true});
    let mut drain = drain(json!({"nodes": nodes, "maxParallel": {"nodes": 1}}));
    cluster.plan(&mut drain, 0);
    assert_eq!(drain.status.as_ref().unwrap().nodes_omitted, 1);
    cluster.nodes.pop();
    cluster.plan(&mut drain, 1);
    assert_eq!(drain.status.as_ref().unwrap().nodes_omitted, 0);
}

#[test]
fn a_drain_with_a_time_to_live_is_deleted_that_long_after_its_end_and_uncordons() {
    let (mut cluster, mut drain) = (Cluster::new(&["a"]), drain(json!({"ttlSecondsAfterFinished": 60})));
    assert_eq!(cluster.begun(&mut drain), [] as [&str; 0]);
    assert!(drain.status.as_ref().unwrap().is_true(DrainConditionType::Finished));
    let world = cluster.world();
    let waiting = plan(&drain, &world, at(59));
    assert_eq!((waiting.acts, waiting.wake_at), (vec![], Some(at(60))));
    assert_eq!(cluster.plan(&mut drain, 60), ["delete"]);
    drain.metadata.deletion_timestamp = Some(condition_time(at(60)));
    assert_eq!(cluster.plan(&mut drain, 61), ["release a"]);

    drain.metadata.deletion_timestamp = None;
    drain.spec.ttl_seconds_after_finished = None;
    let world = cluster.world();
    assert_eq!(plan(&drain, &world, at(1_000_000)).wake_at, None, "without one it stays");
}

#[test]
fn the_pods_of_nodes_that_wait_for_their_turn_count_as_not_asked() {
    let spec = json!({"nodes": {"names": ["a", "b", "c"]}, "maxParallel": {"nodes": 1}, "pods": {"daemonSets": "Skip"}});
    let (mut cluster, mut drain) = (Cluster::new(&["a", "b", "c"]), drain(spec));
    let owner =
        json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "2", "controller": true}]);
    for node in ["a", "b", "c"] {
        for number in 0..3 {
            cluster.add_pod(node, &format!("{node}{number}"), &json!({}));
        }
        cluster.add_pod(node, &format!("{node}-agent"), &json!({"metadata": {"ownerReferences": owner}}));
    }
    // The rules refuse it, for two reasons.
    let refused =
        json!({"metadata": {"ownerReferences": []}, "spec": {"volumes": [{"name": "v", "emptyDir": {}}]}});
    cluster.add_pod("c", "bare", &refused);
    cluster.begun(&mut drain);
    let pods = |drain: &NodeEvacuation| {
        let pods = drain.status.as_ref().unwrap().pods;
        (pods.gone, pods.waiting, pods.total)
    };
    assert_eq!(pods(&drain), (0, 10, 10));
    cluster.pods.retain(|(node, _)| node != "a");
    cluster.plan(&mut drain, 1);
    assert_eq!(pods(&drain), (3, 7, 10));
    assert_eq!(drain.status.as_ref().unwrap().nodes_done(), 1);
    // A pod that goes by itself before its node begins was not moved by the drain.
    cluster.pods.retain(|(_, pod)| pod.metadata.name.as_deref() != Some("c0"));
    cluster.plan(&mut drain, 2);
    assert_eq!((phases(&drain), pods(&drain)), (vec![Drained, Draining, Pending], (3, 6, 9)));
}

#[test]
fn a_pod_that_takes_the_name_and_the_node_of_another_between_two_looks_is_counted_beside_it() {
    let (mut cluster, mut drain) = (Cluster::new(&["a"]), drain(json!({})));
    cluster.add_pod("a", "p", &json!({}));
    cluster.add_pod("a", "q", &json!({}));
    cluster.begun(&mut drain);
    let numbers = |drain: &NodeEvacuation| {
        let pods = drain.status.as_ref().unwrap().pods;
        (pods.total, pods.gone)
    };
    assert_eq!(numbers(&drain), (2, 0));
    cluster.pods.retain(|(_, pod)| pod.metadata.name.as_deref() != Some("p"));
    cluster.add_pod("a", "p", &json!({"metadata": {"uid": "later"}}));
    cluster.plan(&mut drain, 1);
    assert_eq!(numbers(&drain), (3, 1));
    cluster.pods.clear();
    cluster.plan(&mut drain, 2);
    assert_eq!((numbers(&drain), phases(&drain)), ((3, 3), vec![Drained]));
    assert!(drain.status.as_ref().unwrap().nodes[0].counted_pods.is_empty());
}

/// Returns the numbers of the pods: all, those that are gone, and the skipped ones.
fn numbers(drain: &NodeEvacuation) -> (i32, i32, i32) {
    let pods = drain.status.as_ref().unwrap().pods;
    (pods.total, pods.gone, pods.skipped)
}

/// Returns the messages of a drain and of its first node.
fn messages(drain: &NodeEvacuation) -> [&str; 2] {
    let status = drain.status.as_ref().unwrap();
    [status.message.as_deref().unwrap(), status.nodes[0].message.as_deref().unwrap()]
}

#[test]
fn a_pod_that_the_drain_skips_after_a_while_is_there_and_does_not_count_as_gone() {
    let mut cluster = Cluster::new(&["a"]);
    let mut drain = drain(json!({"pods": {"skipTerminatingSeconds": 10}}));
    cluster.add_pod("a", "p", &json!({}));
    cluster.add_pod("a", "q", &json!({}));
    cluster.begun(&mut drain);
    let end = at(5).to_rfc3339();
    cluster.pods.clear();
    cluster.add_pod("a", "p", &json!({"metadata": {"deletionTimestamp": end}}));
    cluster.plan(&mut drain, 5);
    assert_eq!(numbers(&drain), (2, 1, 0));
    assert_eq!(drain.status.as_ref().unwrap().pods.evicting, 1);
    cluster.plan(&mut drain, 16);
    assert_eq!((numbers(&drain), phases(&drain)), ((2, 1, 1), vec![Drained]));
    assert_eq!(messages(&drain), ["1 pod is gone, 1 was skipped and is there"; 2]);
}

#[test]
fn a_pod_that_terminated_for_long_before_the_drain_is_skipped() {
    let mut cluster = Cluster::new(&["a"]);
    let mut drain = drain(json!({"pods": {"skipTerminatingSeconds": 10}}));
    cluster.add_pod("a", "p", &json!({"metadata": {"deletionTimestamp": at(-60).to_rfc3339()}}));
    cluster.begun(&mut drain);
    assert_eq!((numbers(&drain), phases(&drain)), ((1, 0, 1), vec![Drained]));
    assert_eq!(messages(&drain), ["0 pods are gone, 1 was skipped and is there"; 2]);
}

#[test]
fn a_pod_whose_labels_leave_the_selector_is_skipped_and_counts_as_gone_only_when_it_is() {
    let labels = json!({"metadata": {"labels": {"app": "db"}}});
    for goes in [false, true] {
        let mut cluster = Cluster::new(&["a"]);
        let mut drain = drain(json!({"pods": {"selector": {"matchLabels": {"app": "db"}}}}));
        cluster.add_pod("a", "beside", &json!({}));
        cluster.add_pod("a", "p", &labels);
        cluster.add_pod("a", "q", &labels);
        cluster.begun(&mut drain);
        assert_eq!(numbers(&drain), (2, 0, 0));
        let relabelled = cluster.pods.iter_mut().find(|(_, pod)| pod.metadata.uid.as_deref() == Some("p"));
        relabelled.unwrap().1.metadata.labels = None;
        cluster.plan(&mut drain, 1);
        assert_eq!((numbers(&drain), phases(&drain)), ((2, 0, 1), vec![Draining]));
        cluster.pods.retain(|(_, pod)| pod.metadata.uid.as_deref() != Some(if goes { "p" } else { "q" }));
        cluster.plan(&mut drain, 2);
        if goes {
            assert_eq!((numbers(&drain), phases(&drain)), ((2, 1, 0), vec![Draining]));
        } else {
            assert_eq!((numbers(&drain), phases(&drain)), ((2, 1, 1), vec![Drained]));
            assert_eq!(messages(&drain), ["1 pod is gone, 1 was skipped and is there"; 2]);
        }
    }
}
