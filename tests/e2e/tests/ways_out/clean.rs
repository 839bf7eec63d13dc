//! `kubectl evacuate clean`, on a platform whose drains no other test needs.

use anyhow::bail;
use controlplane::{Output, eventually};
use evacuation_api::CORDONED_BY_ANNOTATION;
use evacuation_client::Answer;
use evacuation_e2e::{PlatformOptions, Scene, scene::PATIENCE};
use k8s_openapi::{
    api::core::v1::{Node, NodeCondition},
    kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use kube::{Api, ResourceExt, api::DeleteParams};

use crate::room::{Room, drain_of};

async fn clean(scene: &Scene, flags: &[&str]) -> Output {
    let arguments: Vec<&str> = ["evacuate", "clean"].iter().chain(flags).copied().collect();
    scene.platform().kubectl(&arguments).await.unwrap()
}

async fn kubectl(scene: &Scene, arguments: &[&str]) {
    let output = scene.platform().kubectl(arguments).await.unwrap();
    assert_eq!(output.code, Some(0), "{arguments:?}: {output:?}");
}

async fn node(scene: &Scene, name: &str) -> Node {
    Api::all(scene.admin()).get(name).await.unwrap()
}

fn is_marked(node: &Node) -> bool {
    let of_us = |condition: &NodeCondition| condition.reason.as_deref() == Some("NodeEvacuation");
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    node.annotations().contains_key(CORDONED_BY_ANNOTATION) || conditions.into_iter().any(of_us)
}

fn is_cordoned(node: &Node) -> bool {
    node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true)
}

#[tokio::test(flavor = "multi_thread")]
async fn finished_drains_go_and_the_marks_of_a_removed_installation() {
    let scene = Scene::alone("clean", PlatformOptions::default()).await;
    let room = Room::new(&scene, Answer::refuse("a backup runs")).await;
    let name = &room.node;
    kubectl(&scene, &["evacuate", "node", name, "--force", "--detach", "--on-refusal=wait"]).await;
    let drain = drain_of(&scene, name).await.name_any();

    let output = clean(&scene, &["--marks", "--yes"]).await;
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.stderr.contains(&format!("kubectl evacuate cancel {drain}")), "{output:?}");
    assert_eq!(clean(&scene, &[]).await.stdout.trim(), "nothing to clean", "it has not ended");

    kubectl(&scene, &["evacuate", "set", name, "--on-refusal=override"]).await;
    scene.pods.gone(&room.pod).await.unwrap();
    kubectl(&scene, &["wait", "--for=condition=Finished", &format!("nodeevac/{drain}"), "--timeout=60s"])
        .await;
    let output = clean(&scene, &["--older-than=24h"]).await;
    assert_eq!(output.stdout.trim(), "nothing to clean", "{output:?}");
    let deleted = format!("nodeevacuation/{drain}: delete (Drained ");
    let output = clean(&scene, &["--dry-run"]).await;
    assert!(output.stdout.contains(&deleted) && output.stdout.contains("(dry run)"), "{output:?}");
    let output = clean(&scene, &[]).await;
    assert_eq!(output.code, Some(1), "without a terminal nobody confirms: {output:?}");
    assert!(output.stderr.contains("--yes"), "{output:?}");
    assert!(is_cordoned(&node(&scene, name).await));
    let output = clean(&scene, &["--yes"]).await;
    assert_eq!(output.code, Some(0), "{output:?}");
    let released = eventually(PATIENCE, "the node is released", || async {
        let node = node(&scene, name).await;
        if is_cordoned(&node) || is_marked(&node) {
            bail!("{:?}", node.spec);
        }
        Ok(())
    });
    released.await.unwrap();

    // The installation is removed while a drained node is in maintenance.
    kubectl(&scene, &["evacuate", "node", name, "--timeout=60s"]).await;
    let marked = eventually(PATIENCE, "the node has its conditions", || async {
        let node = node(&scene, name).await;
        let drained = format!("{:?}", node.status).contains("NodeEvacuation");
        if drained && is_cordoned(&node) { Ok(()) } else { bail!("{:?}", node.status) }
    });
    marked.await.unwrap();
    for controller in scene.platform().controllers() {
        controller.kill().unwrap();
    }
    let services: Api<APIService> = Api::all(scene.admin());
    services.delete("v1alpha1.evacuation.dev", &DeleteParams::default()).await.unwrap();
    let output = clean(&scene, &["--yes"]).await;
    assert!(output.code == Some(1) && output.stderr.contains("--marks"), "{output:?}");
    let output = clean(&scene, &["--marks", "--yes"]).await;
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.stdout.contains(&format!("node/{name}: uncordon (cordoned by ")), "{output:?}");
    let node = node(&scene, name).await;
    assert!(!is_cordoned(&node) && !is_marked(&node), "{node:?}");
    let output = clean(&scene, &["--marks"]).await;
    assert_eq!(output.stdout.trim(), "nothing to clean", "{output:?}");
}
