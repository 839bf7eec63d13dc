//! Entries of drains that no longer exist.

use evacuation_api::NodeEvacuation;
use evacuation_e2e::{
    PodSpec,
    scene::{Bystander, end_of, quick},
};
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;

use crate::nodes::Stage;

/// # Attack
///
/// - Attacker: an administrator who removes the finalizer of a drain, and the drain
/// - Act: leaves its requests behind, so that a later answer moves a pod that nobody drains
/// - Promise: 3
#[tokio::test(flavor = "multi_thread")]
async fn the_entries_of_a_drain_whose_finalizer_was_removed_by_hand_are_taken_back() {
    let stage = Stage::new("orphan", 1).await;
    let bystander = Bystander::new(&stage.scene).await;
    let pod = stage.scene.pod("app", quick(PodSpec::watching()).on(&stage.nodes[0])).await;
    let drain = stage.drain("d", &[0], json!({"pods": {"unmanaged": "Evict"}})).await;
    stage.until("d", "the pod is asked", |status| status.pods.asked == 1).await;

    // In one write with the deletion, so that the drain's own withdrawal has no time.
    let api = stage.drains();
    let name = drain.metadata.name.unwrap();
    let bare: NodeEvacuation = api
        .patch(&name, &PatchParams::default(), &Patch::Merge(json!({"metadata": {"finalizers": null}})))
        .await
        .unwrap();
    assert_eq!(bare.metadata.finalizers, None);
    stage.delete("d").await;

    let asked = stage.scene.evacuations().list(&ListParams::default()).await.unwrap().items.remove(0);
    let name = asked.metadata.name.unwrap();
    let ended = stage.scene.pods.until(&name, "it was taken back", |e| end_of(e).is_some()).await.unwrap();
    assert_eq!(end_of(&ended).as_deref(), Some("Failed Canceled"));
    bystander.drains(&stage.scene).await;
    assert!(stage.scene.stays(&pod).await);
}
