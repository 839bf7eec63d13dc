//! The ends of drains, and what they say.

use serde_json::json;

use super::*;

fn status(drain: &NodeEvacuation) -> &NodeEvacuationStatus {
    drain.status.as_ref().unwrap()
}

fn message(drain: &NodeEvacuation) -> &str {
    status(drain).message.as_deref().unwrap()
}

/// A drain of node `a`, whose only pod was asked.
fn asked() -> (Cluster, NodeEvacuation) {
    let (mut cluster, mut drain) = (Cluster::new(&["a"]), drain(json!({})));
    cluster.add_pod("a", "p", &json!({}));
    cluster.begun(&mut drain);
    cluster.ask(&drain, "p");
    cluster.plan(&mut drain, 1);
    (cluster, drain)
}

/// As [`asked`], and the pod was left alone.
fn failed() -> (Cluster, NodeEvacuation) {
    let (mut cluster, mut drain) = asked();
    cluster.cancel("p");
    cluster.plan(&mut drain, 2);
    assert_eq!(phases(&drain), [Failed]);
    (cluster, drain)
}

#[test]
fn a_drain_that_ended_without_success_is_failed_and_says_what_happened() {
    let (_, drain) = failed();
    let node = &status(&drain).nodes[0];
    assert_eq!((drain.verdict(), node.verdict), (DrainVerdict::Failed, DrainVerdict::Failed));
    assert_eq!(status(&drain).verdict, Some(DrainVerdict::Failed));
    let words =
        "not drained: a: 1 pod did not move: ns/p: the pod was left alone, because the request was canceled";
    assert!(message(&drain).starts_with(words), "{}", message(&drain));
    let (cause, help) = crate::message_parts(message(&drain));
    assert!(cause.ends_with("; 0 pods are gone") && help.is_some(), "{}", message(&drain));
    assert_eq!(status(&drain).blockers.len(), 1, "the blocker tells what would have helped");
}

#[test]
fn a_drain_that_ended_at_an_uncordon_is_failed_and_says_so_in_the_past_tense() {
    let (mut cluster, mut drain) = asked();
    cluster.cordon("a", false, Some("d"));
    cluster.plan(&mut drain, 2);
    let node = &status(&drain).nodes[0];
    assert_eq!((node.phase, node.verdict, node.is_cordoned()), (Draining, DrainVerdict::Canceled, false));
    cluster.cancel("p");
    cluster.plan(&mut drain, 3);
    cluster.cordon("a", false, None);
    cluster.plan(&mut drain, 4);
    let node = &status(&drain).nodes[0];
    assert_eq!((node.phase, node.verdict, node.cordoned), (Withdrawn, DrainVerdict::Failed, CordonOwner::No));
    assert_eq!(drain.verdict(), DrainVerdict::Failed);
    let words = "not drained: a: it was uncordoned, so the drain took its requests back; 0 pods are gone";
    assert_eq!(message(&drain), words);
}

#[test]
fn drains_without_nodes_end_as_failed() {
    let selector = json!({"selector": {"matchLabels": {"pool": "old"}}});
    for (nodes, said) in
        [(selector, "no node matches"), (json!({"names": ["x"]}), "there is no node of this name")]
    {
        let (cluster, mut drain) = (Cluster::new(&["a"]), drain(json!({"nodes": nodes})));
        cluster.plan(&mut drain, 0);
        assert_eq!(drain.verdict(), DrainVerdict::Failed);
        assert!(message(&drain).contains(said), "{drain:?}");
        assert!(status(&drain).nodes.iter().all(|node| node.verdict == DrainVerdict::Failed));
    }
}

#[test]
fn a_drain_that_an_earlier_controller_left_as_stuck_becomes_failed() {
    let (cluster, mut drain) = failed();
    drain.status.as_mut().unwrap().verdict = Some(DrainVerdict::Stuck);
    assert_eq!(cluster.plan(&mut drain, 9), [] as [&str; 0]);
    assert_eq!(status(&drain).verdict, Some(DrainVerdict::Failed));
}

#[test]
fn a_drain_that_is_deleted_is_canceled_and_one_that_had_ended_keeps_its_verdict() {
    for ((cluster, mut drain), before, after, acts) in [
        (asked(), DrainVerdict::Draining, DrainVerdict::Canceled, ["withdraw p"]),
        (failed(), DrainVerdict::Failed, DrainVerdict::Failed, ["release a"]),
    ] {
        assert_eq!(drain.verdict(), before);
        drain.metadata.deletion_timestamp = Some(condition_time(at(3)));
        assert_eq!(drain.verdict(), after, "also before the controller has noticed");
        // The responder of a request that was canceled has time to learn it.
        assert_eq!(cluster.plan(&mut drain, 100), acts);
        assert_eq!(status(&drain).verdict, Some(after));
        assert!(message(&drain).starts_with("it was deleted; "), "{drain:?}");
    }
}

#[test]
fn a_drain_that_follows_its_selector_is_failed_until_a_further_node_begins() {
    let nodes = json!({"selector": {"matchLabels": {"pool": "old"}}, "follow": true});
    let (mut cluster, mut drain) = (Cluster::default(), drain(json!({"nodes": nodes})));
    cluster.add_node("a", &json!({"pool": "old"}));
    cluster.add_pod("a", "p", &json!({}));
    cluster.begun(&mut drain);
    cluster.ask(&drain, "p");
    cluster.cancel("p");
    cluster.plan(&mut drain, 2);
    assert_eq!(drain.verdict(), DrainVerdict::Failed);
    assert!(!status(&drain).is_true(DrainConditionType::Finished));
    cluster.add_node("b", &json!({"pool": "old"}));
    cluster.add_pod("b", "q", &json!({}));
    cluster.plan(&mut drain, 3);
    assert_eq!((phases(&drain), drain.verdict()), (vec![Failed, Draining], DrainVerdict::Draining));
}
