//! Maintenance of nodes whose names are as long as Kubernetes allows. The name of medik8s' lease of a node is
//! five bytes longer than that of the node.

use evacuation_client::Answer;

use crate::stage::Stage;

/// A stage whose node has a name of that length.
async fn stage(prefix: &str, length: usize) -> Stage {
    let mut stage = Stage::new(prefix).await;
    let name = format!("long-{}{}", stage.scene.namespace(), ".abcdefghi".repeat(25));
    stage.node = format!("{}z", &name[..length - 1]);
    stage.scene.control_plane().add_node(&stage.node, &[]).await.unwrap();
    stage
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_lease_has_the_longest_legal_name_is_maintained_and_put_back() {
    let stage = stage("longlease", 248).await;
    let pod = stage.pod("app").await;
    stage.maintain(&[]).await;
    stage.scene.evacuation_of("app").await;
    assert_eq!(stage.lease_holder().await.as_deref(), Some("evacuation.dev"));
    let _app = stage.scene.app(&pod, |_| async { Answer::accept() }).await;
    stage.in_phase("Succeeded", "").await;
    stage.maintenances().delete(&stage.maintenance()).await;
    stage.maintenances().gone(&stage.maintenance()).await;
    assert!(!stage.is_cordoned().await);
    assert_eq!(stage.lease_holder().await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_maintenance_of_a_node_whose_lease_can_have_no_name_says_so() {
    let stage = stage("nolease", 253).await;
    let pod = stage.pod("app").await;
    stage.maintain(&[]).await;
    stage.in_phase("Running", "the node's lease cannot be taken").await;
    assert!(stage.scene.stays(&pod).await && stage.drains_of_node().await.is_empty());
    stage.maintenances().delete(&stage.maintenance()).await;
    stage.maintenances().gone(&stage.maintenance()).await;
}
