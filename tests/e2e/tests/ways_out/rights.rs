//! Errors of missing rights, which name the ClusterRole to bind.

use anyhow::bail;
use controlplane::eventually;
use evacuation_client::Answer;
use evacuation_e2e::{PodSpec, scene::PATIENCE};
use serde_json::json;

use crate::{
    person::{Person, role},
    room::{Room, drained},
    scene,
};

#[tokio::test(flavor = "multi_thread")]
async fn the_role_that_an_error_names_lets_a_stranger_ask_a_pod() {
    let scene = scene("stranger").await;
    let pod = scene.pod("app", PodSpec::default().on("node-1")).await;
    let carl = Person::new(&scene, "carl");
    let ask = format!("kubectl create evacuation app -n {}", scene.namespace());
    let error = carl.fails(&ask).await;
    assert!(error.contains(&format!("bound in namespace {}", scene.namespace())), "{error}");
    let right = json!({"group": "evacuation.dev", "resource": "evacuations", "verb": "create"});
    carl.bind(role(&error), &right).await;
    carl.runs_once_allowed(&ask).await;
    scene.pods.gone(&pod).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_roles_that_errors_name_let_a_stranger_drain_a_node() {
    let scene = scene("drainer").await;
    let node = scene.own_node().await;
    let carl = Person::new(&scene, "carl");
    let drain = format!("kubectl evacuate node {node} --timeout=1m");
    let mut error = carl.fails(&drain).await;
    // The first error names the role for reading drains, and the next one that for draining.
    for _ in 0..2 {
        assert!(error.contains("bound in the cluster"), "{error}");
        let named = role(&error).to_owned();
        carl.bind_in_cluster(&named).await;
        let verb = if named == "evacuation:view" { "list" } else { "create" };
        let right = json!({"group": "evacuation.dev", "resource": "nodeevacuations", "verb": verb});
        scene.decided(&carl.name, &right, true).await;
        if verb == "create" {
            break;
        }
        // The evacuation API remembers for a while what a user may not do.
        let next = eventually(PATIENCE, "another right is missing", || async {
            let error = carl.fails(&drain).await;
            if role(&error) == named {
                bail!("{error}");
            }
            Ok(error)
        });
        error = next.await.unwrap();
    }
    carl.runs_once_allowed(&drain).await;
    carl.runs(&format!("kubectl evacuate cancel {node}")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_role_that_errors_name_lets_a_drainer_delete_at_a_deadline() {
    let scene = scene("deleter").await;
    let carl = Person::drainer(&scene, "carl").await;
    let room = Room::new(&scene, Answer::refuse("a backup runs")).await;
    let node = &room.node;
    let drain = format!("kubectl evacuate node {node} --force --detach --on-refusal=wait");
    let error = carl.fails(&format!("{drain} --deadline=1h --at-deadline=delete")).await;
    assert!(error.contains("bound in the cluster"), "{error}");
    carl.runs(&drain).await;
    let set = format!("kubectl evacuate set {node} --deadline=1s --at-deadline=delete");
    let refused = carl.fails(&set).await;
    assert_eq!(role(&refused), role(&error));
    assert!(scene.stays(&room.pod).await);
    carl.bind_in_cluster(role(&refused)).await;
    carl.runs_once_allowed(&set).await;
    scene.pods.gone(&room.pod).await.unwrap();
    drained(&scene, node).await;
    carl.runs(&format!("kubectl evacuate cancel {node}")).await;
}
