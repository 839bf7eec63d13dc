//! Nodes that leave a drain before its end.

use serde_json::json;

use super::*;

/// A drain of nodes `a` and `b`, one after the other, with that spec. The pods `p` and `q` of node `a` were
/// asked, and pod `r` is on node `b`.
fn asked(mut spec: Value) -> (Cluster, NodeEvacuation) {
    spec["nodes"] = json!({"names": ["a", "b"]});
    spec["maxParallel"] = json!({"nodes": 1});
    let (mut cluster, mut drain) = (Cluster::new(&["a", "b"]), drain(spec));
    for (node, pod) in [("a", "p"), ("a", "q"), ("b", "r")] {
        cluster.add_pod(node, pod, &json!({}));
    }
    assert_eq!(cluster.begun(&mut drain), ["ask p", "ask q"]);
    cluster.ask(&drain, "p");
    cluster.ask(&drain, "q");
    cluster.plan(&mut drain, 1);
    (cluster, drain)
}

impl Cluster {
    fn delete_node(&mut self, name: &str) {
        self.nodes.retain(|node| node.metadata.name.as_deref() != Some(name));
    }

    fn delete_pod(&mut self, name: &str) {
        self.pods.retain(|(_, pod)| pod.metadata.name.as_deref() != Some(name));
    }
}

fn status(drain: &NodeEvacuation) -> &NodeEvacuationStatus {
    drain.status.as_ref().unwrap()
}

fn blockers(drain: &NodeEvacuation) -> Vec<(&str, &str, bool)> {
    let all = status(drain).blockers.iter();
    all.map(|b| (b.pod.as_deref().unwrap(), b.reason.as_str(), b.stuck)).collect()
}

#[test]
fn the_pods_of_a_deleted_node_are_waited_for_and_then_it_is_gone_and_the_next_node_begins() {
    let (mut cluster, mut drain) = asked(json!({}));
    cluster.delete_node("a");
    assert_eq!(cluster.plan(&mut drain, 10), [] as [&str; 0]);
    let node = &status(&drain).nodes[0];
    assert_eq!((node.phase, node.deleted_time.map(|time| time.0)), (Draining, Some(at(10))));
    assert_eq!((node.pods.evicting, node.pods.asked, node.pods.total), (2, 0, 2));
    assert_eq!(drain.verdict(), DrainVerdict::Slow);
    let message = status(&drain).message.as_deref().unwrap();
    let (then, limit) = (at(10).format("%FT%TZ"), at(100).format("%FT%TZ"));
    for words in [format!("node a was deleted at {then}"), format!("Kubernetes removes the pod by {limit}")] {
        assert!(message.contains(&words), "{message}");
    }
    cluster.delete_pod("p");
    cluster.plan(&mut drain, 60);
    let node = &status(&drain).nodes[0];
    assert_eq!((node.pods.evicting, node.pods.gone, node.pods.total), (1, 1, 2));
    cluster.delete_pod("q");
    cluster.plan(&mut drain, 70);
    cluster.plan(&mut drain, 71);
    assert_eq!(phases(&drain), [Gone, Draining]);
    let node = &status(&drain).nodes[0];
    assert_eq!((node.verdict, node.pods.gone, node.pods.total), (DrainVerdict::Drained, 2, 2));
    assert_eq!(node.message, Some(format!("node a was deleted at {then}")));

    cluster.cordon("b", true, Some("d"));
    cluster.delete_pod("r");
    cluster.plan(&mut drain, 72);
    assert_eq!(drain.verdict(), DrainVerdict::Drained);
    assert!(status(&drain).message.as_deref().unwrap().ends_with(&format!("; node a was deleted at {then}")));
}

#[test]
fn a_pod_that_stays_on_a_deleted_node_makes_the_drain_stuck() {
    let (mut cluster, mut drain) = asked(json!({}));
    cluster.delete_node("a");
    cluster.plan(&mut drain, 10);
    assert_eq!(plan(&drain, &cluster.world(), at(99)).wake_at, Some(at(100)));
    cluster.plan(&mut drain, 99);
    assert_eq!(blockers(&drain), [("ns/p", "NodeDeleted", false), ("ns/q", "NodeDeleted", false)]);
    cluster.plan(&mut drain, 100);
    assert_eq!(drain.verdict(), DrainVerdict::Stuck);
    assert_eq!(blockers(&drain), [("ns/p", "NodeDeleted", true), ("ns/q", "NodeDeleted", true)]);
    assert!(status(&drain).blockers[0].message.contains("--grace-period=0 --force"));
    // Kubernetes deletes it, and a finalizer keeps it.
    let metadata = &mut cluster.pods[0].1.metadata;
    metadata.deletion_timestamp = Some(condition_time(at(50)));
    metadata.finalizers = Some(vec!["example.com/hold".to_owned()]);
    cluster.delete_pod("q");
    cluster.plan(&mut drain, 110);
    assert_eq!(blockers(&drain), [("ns/p", "Finalizer", true)]);
    cluster.delete_pod("p");
    cluster.plan(&mut drain, 120);
    assert_eq!(status(&drain).nodes[0].phase, Gone);
}

#[test]
fn a_deadline_ends_the_drain_of_a_deleted_node_on_which_a_pod_stays_unasked() {
    for (deadline, before, phase) in [(150, 149, Failed), (50, 99, Failed)] {
        let (mut cluster, mut drain) = asked(json!({"requester": {"deadlineSeconds": deadline}}));
        cluster.evacuations.clear();
        cluster.delete_node("a");
        cluster.plan(&mut drain, 10);
        cluster.plan(&mut drain, before);
        assert_eq!(status(&drain).nodes[0].phase, Draining, "{deadline}");
        cluster.plan(&mut drain, before + 1);
        let node = &status(&drain).nodes[0];
        assert_eq!((node.phase, node.verdict), (phase, DrainVerdict::Failed), "{deadline}");
        assert!(node.message.as_deref().unwrap().contains("2 pods did not move"), "{node:?}");
    }
}

#[test]
fn a_node_that_is_deleted_while_it_waits_is_gone_when_its_pods_are() {
    for paused in [false, true] {
        let (mut cluster, mut drain) = asked(json!({}));
        drain.spec.paused = paused;
        cluster.delete_node("b");
        assert_eq!(cluster.plan(&mut drain, 10), [] as [&str; 0]);
        assert_eq!(cluster.plan(&mut drain, 11), [] as [&str; 0], "no pod of a deleted node is asked");
        let node = &status(&drain).nodes[1];
        assert_eq!((node.phase, node.pods.evicting, node.pods.gone), (Draining, 1, 0), "{paused}");
        assert_eq!(node.deleted_time.map(|time| time.0), Some(at(10)));
        assert!(blockers(&drain).contains(&("ns/r", "NodeDeleted", false)), "{:?}", blockers(&drain));
        cluster.delete_pod("r");
        cluster.plan(&mut drain, 12);
        let node = &status(&drain).nodes[1];
        assert_eq!((node.phase, node.verdict), (Gone, DrainVerdict::Drained), "{paused}");
        assert_eq!((node.pods.gone, node.pods.total), (1, 1));
        assert!(node.message.as_deref().unwrap().starts_with("node b was deleted at"), "{node:?}");
    }
}

#[test]
fn the_pods_of_a_waiting_node_that_registered_again_were_not_moved() {
    let (mut cluster, mut drain) = asked(json!({}));
    cluster.nodes[1].metadata.uid = Some("later".to_owned());
    cluster.plan(&mut drain, 10);
    assert_eq!(cluster.plan(&mut drain, 11), [] as [&str; 0]);
    let node = &status(&drain).nodes[1];
    assert_eq!((node.phase, node.verdict, node.pods.gone), (Withdrawn, DrainVerdict::Failed, 0));
    for pod in ["p", "q"] {
        cluster.delete_pod(pod);
    }
    cluster.plan(&mut drain, 12);
    assert_eq!(drain.verdict(), DrainVerdict::Failed);
    let failed = status(&drain).conditions.iter().find(|condition| condition.type_ == "Failed").unwrap();
    assert_eq!(failed.reason, "NodesLeft");
    let words = "another node took its name; the drain left the pods there alone";
    assert!(failed.message.contains(words), "{}", failed.message);
}

#[test]
fn a_drain_that_follows_its_selector_takes_in_the_node_that_registered_again() {
    let labels = json!({"pool": "old"});
    let spec =
        json!({"nodes": {"selector": {"matchLabels": labels}, "follow": true}, "maxParallel": {"nodes": 1}});
    let (mut cluster, mut drain) = (Cluster::default(), drain(spec));
    for (node, pod) in [("a", "p"), ("b", "r")] {
        cluster.add_node(node, &labels);
        cluster.add_pod(node, pod, &json!({}));
    }
    cluster.begun(&mut drain);
    cluster.nodes[1].metadata.uid = Some("later".to_owned());
    for second in [10, 11] {
        cluster.plan(&mut drain, second);
    }
    assert_eq!(phases(&drain), [Draining, Withdrawn]);
    cluster.plan(&mut drain, 12);
    assert_eq!(phases(&drain), [Draining, Pending]);
    assert_eq!(status(&drain).nodes[1].uid.as_deref(), Some("later"));
}

#[test]
fn a_drain_that_follows_its_selector_takes_in_a_node_that_registered_again_after_it_was_drained_or_failed() {
    let labels = json!({"pool": "old"});
    for expected in [Drained, Failed] {
        let nodes = json!({"selector": {"matchLabels": labels}, "follow": true});
        let (mut cluster, mut drain) = (Cluster::default(), drain(json!({"nodes": nodes})));
        for node in ["a", "b"] {
            cluster.add_node(node, &labels);
            cluster.add_pod(node, &format!("on-{node}"), &json!({}));
        }
        for second in [0, 1] {
            cluster.plan(&mut drain, second);
        }
        for node in ["a", "b"] {
            cluster.cordon(node, true, Some("d"));
        }
        cluster.plan(&mut drain, 2);
        for pod in ["on-a", "on-b"] {
            cluster.ask(&drain, pod);
        }
        cluster.plan(&mut drain, 3);
        match expected {
            Failed => cluster.cancel("on-a"),
            _ => cluster.delete_pod("on-a"),
        }
        cluster.plan(&mut drain, 4);
        assert_eq!(phases(&drain), [expected, Draining]);
        cluster.nodes[0].metadata.uid = Some("later".to_owned());
        cluster.nodes[0].spec = None;
        cluster.plan(&mut drain, 5);
        assert!(matches!(phases(&drain)[0], Pending | Draining), "{expected:?}");
        assert_eq!(status(&drain).nodes[0].uid.as_deref(), Some("later"));
    }
}

#[test]
fn a_paused_drain_whose_pods_are_all_gone_ends_when_it_goes_on() {
    let (mut cluster, mut drain) = asked(json!({}));
    drain.spec.paused = true;
    for node in ["a", "b"] {
        cluster.delete_node(node);
    }
    cluster.pods.clear();
    for second in [10, 11, 12] {
        cluster.plan(&mut drain, second);
    }
    assert_eq!((phases(&drain), drain.verdict()), (vec![Gone, Gone], DrainVerdict::Waiting));
    assert_eq!(status(&drain).message.as_deref(), Some("it is paused"));
    drain.spec.paused = false;
    cluster.plan(&mut drain, 13);
    assert_eq!(drain.verdict(), DrainVerdict::Drained);
}

#[test]
fn a_node_that_its_drain_leaves_counts_no_pod_as_delayed_or_asked() {
    for uncordoned in [true, false] {
        let (mut cluster, mut drain) = asked(json!({}));
        assert_eq!(status(&drain).pods.asked, 2);
        cluster.delete_pod("q");
        cluster.plan(&mut drain, 2);
        if uncordoned {
            cluster.cordon("a", false, None);
        } else {
            cluster.nodes[0].metadata.uid = Some("later".to_owned());
        }
        assert_eq!(cluster.plan(&mut drain, 3), ["withdraw p"]);
        let pods = status(&drain).nodes[0].pods;
        assert_eq!((pods.total, pods.gone, pods.asked), (1, 1, 0), "{uncordoned}");
        let message = status(&drain).message.as_deref().unwrap();
        assert!(message.starts_with("a: ") && !message.contains("counted"), "{message}");
        cluster.cancel("p");
        cluster.plan(&mut drain, 4);
        assert_eq!(phases(&drain)[0], Withdrawn);
        assert_eq!(status(&drain).nodes[0].pods, pods, "{uncordoned}");
    }
}
