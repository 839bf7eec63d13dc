//! Cordons that drains, people and other tools share.

use evacuation_api::CordonOwner;
use serde_json::json;

use crate::nodes::{Stage, entry, holders, is_cordoned};

#[tokio::test(flavor = "multi_thread")]
async fn of_two_drains_of_a_node_the_last_one_to_leave_uncordons_it() {
    let stage = Stage::new("shared", 1).await;
    stage.drain("a", &[0], json!({})).await;
    stage.drained("a").await;
    stage.drain("b", &[0], json!({})).await;
    let status = stage.drained("b").await;
    assert_eq!(entry(&status, &stage.nodes[0]).cordoned, CordonOwner::Ours);
    let both = format!("{},{}", stage.name("a"), stage.name("b"));
    assert_eq!(holders(&stage.node(0).await), Some(both.as_str()));

    stage.delete("a").await;
    let node = stage.node(0).await;
    assert!(is_cordoned(&node));
    assert_eq!(holders(&node), Some(stage.name("b").as_str()));
    stage.delete("b").await;
    let node = stage.node(0).await;
    assert!(!is_cordoned(&node) && holders(&node).is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cordon_that_a_person_set_before_stays_when_the_drain_is_deleted() {
    let stage = Stage::new("human", 1).await;
    stage.scene.cordon(&stage.nodes[0], true).await;
    stage.drain("d", &[0], json!({})).await;
    let status = stage.drained("d").await;
    assert_eq!(entry(&status, &stage.nodes[0]).cordoned, CordonOwner::Others);
    stage.delete("d").await;
    let node = stage.node(0).await;
    assert!(is_cordoned(&node) && holders(&node).is_none());
}
