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
