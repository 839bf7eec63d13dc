//! Evictions that an admission webhook rejects, nodes that an admission policy keeps from being cordoned, and
//! the ways past them.

use evacuation_api::DrainBlockerReason;
use evacuation_e2e::{DenyingWebhook, PodSpec, Scene};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;

use crate::{
    person::Person,
    policy::RejectingPolicy,
    room::{drained, held, status, stuck_beside},
    scene,
};

/// Drains a node with one pod, whose eviction the webhook rejects.
async fn rejected(scene: &Scene, ann: &Person<'_>) -> (String, Pod, DenyingWebhook) {
    let node = scene.own_node().await;
    let pod = scene.pod("app", PodSpec::default().on(&node)).await;
    let webhook = DenyingWebhook::start(scene, "app").await;
    ann.runs(&format!("kubectl evacuate node {node} --force --detach")).await;
    held(scene, &node, DrainBlockerReason::EvictionRejected).await;
    (node, pod, webhook)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_eviction_is_passed_by_the_deletion_that_the_drain_names() {
    let scene = scene("denied").await;
    let ann = Person::drainer(&scene, "ann").await;
    let (node, pod, webhook) = rejected(&scene, &ann).await;
    let command = ann.reads(&status(&node), "kubectl create evacuation ").await.replace("10m", "1s");
    let refused = ann.fails(&command).await;
    assert!(refused.contains("cannot delete resource \"pods\""), "{refused}");
    assert!(scene.stays(&pod).await);
    ann.may_delete_pods(&refused).await;
    ann.runs_once_allowed(&command).await;
    scene.pods.gone(&pod).await.unwrap();
    drained(&scene, &node).await;
    assert!(scene.evicted().is_empty(), "the webhook rejects evictions to the end");
    ann.runs(&format!("kubectl evacuate cancel {node}")).await;
    webhook.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reply_that_the_drain_quotes_names_the_webhook_without_which_the_pod_goes() {
    let scene = scene("named").await;
    let ann = Person::drainer(&scene, "ann").await;
    let root = Person::new(&scene, "root");
    root.bind_in_cluster("cluster-admin").await;
    let (node, pod, webhook) = rejected(&scene, &ann).await;
    let said = ann.runs(&status(&node)).await;
    let (_, quoted) = said.split_once("admission webhook \"").unwrap_or_else(|| panic!("{said}"));
    let named = quoted.split('"').next().unwrap();
    let columns = "CONFIGURATION:.metadata.name,WEBHOOKS:.webhooks[*].name";
    let list = format!("kubectl get validatingwebhookconfigurations -o custom-columns={columns}");
    let listed = root.runs_once_allowed(&list).await.stdout;
    let found = listed.lines().find(|line| line.contains(named)).unwrap_or_else(|| panic!("{listed}"));
    let found = found.split(' ').next().unwrap();
    assert_eq!(found, webhook.name());
    root.runs(&format!("kubectl delete validatingwebhookconfiguration {found}")).await;
    scene.pods.gone(&pod).await.unwrap();
    drained(&scene, &node).await;
    ann.runs(&format!("kubectl evacuate cancel {node}")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_may_not_be_cordoned_is_drained_without_the_policy_that_the_drain_quotes() {
    let scene = scene("uncordonable").await;
    let ann = Person::drainer(&scene, "ann").await;
    let root = Person::new(&scene, "root");
    root.bind_in_cluster("cluster-admin").await;
    let node = scene.own_node().await;
    let pod = scene.pod("app", PodSpec::default().on(&node)).await;
    let nodes: Api<Node> = Api::all(scene.admin());
    let dry = PatchParams { dry_run: true, ..PatchParams::default() };
    let cordon = Patch::Merge(json!({"spec": {"unschedulable": true}}));
    let may = "!has(object.spec.unschedulable)";
    let cordons = || async { nodes.patch(&node, &dry, &cordon).await.map(drop) };
    let policy = RejectingPolicy::start(&scene, "nodes", &node, may, cordons).await;

    ann.runs(&format!("kubectl evacuate node {node} --force --detach")).await;
    let blocker = stuck_beside(&scene, &node, DrainBlockerReason::NodeRejected).await;
    assert_eq!((blocker.pod, blocker.object), (None, Some(format!("Node/{node}"))));
    let way_out =
        "give the controller the right to patch nodes, or change the policy or webhook that denies it";
    assert!(blocker.message.ends_with(way_out), "{}", blocker.message);
    assert!(scene.stays(&pod).await, "no pod is asked on a node that takes new ones");
    let said = ann.runs(&status(&node)).await;
    assert!(said.contains(way_out), "{said}");
    let (_, quoted) = said.split_once("ValidatingAdmissionPolicy '").unwrap_or_else(|| panic!("{said}"));
    let named = quoted.split('\'').next().unwrap();
    assert_eq!(named, policy.name());
    root.runs_once_allowed(&format!("kubectl delete validatingadmissionpolicy {named}")).await;
    scene.pods.gone(&pod).await.unwrap();
    drained(&scene, &node).await;
    ann.runs(&format!("kubectl evacuate cancel {node}")).await;
    policy.remove().await;
}
