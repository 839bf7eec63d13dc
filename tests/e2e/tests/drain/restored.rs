//! Drains that are created again from a backup.

use evacuation_api::DrainConditionType;
use evacuation_e2e::{
    PodSpec,
    scene::{post_to, quick},
};
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::nodes::{Stage, holders, is_cordoned};

impl Stage {
    /// Returns the names of the pods of this scene that were ever asked.
    async fn asked(&self) -> Vec<String> {
        let all = self.scene.evacuations().list(&ListParams::default()).await.unwrap().items;
        all.into_iter().map(|evacuation| evacuation.spec.target.pod.name).collect()
    }
}

/// An object as a backup has it, without what no creation may name.
fn backup(object: &impl serde::Serialize) -> Value {
    let mut object = serde_json::to_value(object).unwrap();
    object["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    object
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_that_is_created_again_from_its_backup_touches_nothing_until_it_is_resumed() {
    let stage = Stage::new("restored", 1).await;
    let node = stage.nodes[0].clone();
    stage.scene.pod("old", quick(PodSpec::default()).on(&node)).await;
    stage.drain("d", &[0], json!({"pods": {"unmanaged": "Evict"}})).await;
    let begun = stage.until("d", "the drain has begun", |status| status.verdict.is_some()).await;
    stage.drained("d").await;
    let whole = backup(&stage.drains().get(&stage.name("d")).await.unwrap());
    // Some tools remove the status.
    let mut without_status = whole.clone();
    without_status.as_object_mut().unwrap().remove("status");
    let mut in_progress = whole.clone();
    in_progress["status"] = serde_json::to_value(&begun).unwrap();

    for (pod, object) in [("second", whole), ("third", without_status), ("fourth", in_progress)] {
        stage.delete("d").await;
        stage.scene.pod(pod, quick(PodSpec::default()).on(&node)).await;
        let posted = post_to(&stage.scene.admin(), "nodeevacuations", &object).await;
        assert_eq!(posted.code, 201, "{posted:?}");
        let said = format!("nodeevacuation {} is created paused: ", stage.name("d"));
        assert!(posted.warnings.iter().any(|warning| warning.contains(&said)), "{posted:?}");

        stage.until("d", "the drain is paused", |status| status.is_true(DrainConditionType::Paused)).await;
        let live = stage.node(0).await;
        assert!(!is_cordoned(&live) && holders(&live).is_none(), "{live:?}");
        assert!(!stage.asked().await.iter().any(|asked| asked == pod));

        stage.change("d", json!({"paused": false})).await;
        stage.drained("d").await;
        assert!(is_cordoned(&stage.node(0).await));
        assert_eq!(stage.scene.evictions(pod).len(), 1);
    }
}
