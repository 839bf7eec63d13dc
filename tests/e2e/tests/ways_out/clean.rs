//! `kubectl evacuate clean`, on a platform whose drains no other test needs.

use anyhow::bail;
use controlplane::{Output, eventually};
use evacuation_api::{CORDONED_BY_ANNOTATION, RELEASED_ANNOTATION};
use evacuation_client::Answer;
use evacuation_e2e::{PlatformOptions, Scene, scene::PATIENCE, workload};
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{Node, NodeCondition, Pod},
    },
    kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;

use crate::{
    person::commands,
    room::{Room, drain_of},
};

/// Label by which the ReplicaSet of a Deployment selects its pods.
const HASH: &str = "pod-template-hash";
/// Annotation by which a ReplicaSet chooses the pod to delete: the one with the lowest number.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

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

/// Releases the pod of a Deployment as the built-in responder does that gives it back, and waits until its
/// replacement is ready. Returns the pod as it was before, and the replacement.
async fn release(scene: &Scene) -> (Pod, Pod) {
    let web = workload("web", 1, &json!({"controlplane.test/gone-after": "100ms", DELETION_COST: "7"}));
    scene.create::<Deployment>(web).await;
    let pod = scene.only_pod("web", None).await;
    let label = json!({"key": HASH, "value": pod.labels()[HASH]});
    let record = json!({"label": label, "returning": {"deletionCost": "7"}}).to_string();
    let annotations = json!({RELEASED_ANNOTATION: record, DELETION_COST: "2147483647"});
    let patch = Patch::Merge(json!({"metadata": {"labels": {HASH: null}, "annotations": annotations}}));
    scene.pods.api().patch(&pod.name_any(), &PatchParams::default(), &patch).await.unwrap();
    scene.pod_until(&pod, "its ReplicaSet lets it go", |pod| pod.owner_references().is_empty()).await;
    let mut both = scene.ready_pods("web", 2, &[]).await;
    both.retain(|other| other.uid() != pod.uid());
    // The pod that is given back stays then.
    scene.annotate(&both[0], &json!({DELETION_COST: "1"})).await;
    (pod, both.remove(0))
}

/// Waits until the ReplicaSet of a released pod has it again, in the place of its replacement.
async fn is_restored(scene: &Scene, pod: &Pod, replacement: &Pod) {
    let found = scene.only_pod("web", Some(replacement)).await;
    assert_eq!(found.uid(), pod.uid());
    let adopted = |found: &Pod| found.owner_references() == pod.owner_references();
    let found = scene.pod_until(pod, "its ReplicaSet adopts it", adopted).await;
    assert_eq!((found.labels(), found.annotations()), (pod.labels(), pod.annotations()));
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
    let named = commands(&output.stderr);
    assert_eq!(named, [format!("kubectl evacuate cancel {drain}")], "{output:?}");
    assert_eq!(clean(&scene, &[]).await.stdout.trim(), "nothing to clean", "it has not ended");
    kubectl(&scene, &named[0].split(' ').skip(1).collect::<Vec<_>>()).await;
    assert!(scene.stays(&room.pod).await);

    kubectl(&scene, &["evacuate", "node", name, "--force", "--detach", "--on-refusal=override"]).await;
    let drain = drain_of(&scene, name).await.name_any();
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

    // The installation is removed while a drained node is in maintenance, and a pod is released.
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
    let (pod, replacement) = release(&scene).await;
    let output = clean(&scene, &["--yes"]).await;
    assert!(output.code == Some(1) && output.stderr.contains("--marks"), "{output:?}");
    let output = clean(&scene, &["--marks", "--yes"]).await;
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.stdout.contains(&format!("node/{name}: uncordon (cordoned by ")), "{output:?}");
    let given_back = format!("pod/{}/{}: give back its label ", scene.namespace(), pod.name_any());
    assert!(output.stdout.contains(&given_back), "{output:?}");
    is_restored(&scene, &pod, &replacement).await;
    let node = node(&scene, name).await;
    assert!(!is_cordoned(&node) && !is_marked(&node), "{node:?}");
    let output = clean(&scene, &["--marks"]).await;
    assert_eq!(output.stdout.trim(), "nothing to clean", "{output:?}");
}
