//! Commands that the messages of a drain name, run by the user who drains.

use std::time::Duration;

use evacuation_api::RefusalPolicy;
use evacuation_client::Answer;
use evacuation_e2e::{PodSpec, workload};
use k8s_openapi::api::{apps::v1::Deployment, policy::v1::PodDisruptionBudget};
use kube::ResourceExt;
use serde_json::json;

use crate::{
    person::Person,
    room::{Room, drain_of, drained, status},
    scene,
};

/// Starts a drain of the room's node that waits after a refusal.
async fn drains(person: &Person<'_>, room: &Room, flags: &str) {
    person.runs(&format!("kubectl evacuate node {} --force --detach {flags}", room.node)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_passed_by_the_override_that_the_drain_names() {
    let scene = scene("override").await;
    let ann = Person::drainer(&scene, "ann").await;
    let room = Room::new(&scene, Answer::refuse("a backup runs")).await;
    drains(&ann, &room, "--on-refusal=wait").await;
    let command = ann.reads(&status(&room.node), "kubectl evacuate override ").await;
    let said = ann.runs(&command).await;
    for part in ["self answered Refuse", "a backup runs", "on refusal Override", "evicted within its budgets"]
    {
        assert!(said.contains(part), "{part:?} is not in {said}");
    }
    scene.pods.gone(&room.pod).await.unwrap();
    ann.runs(&format!("kubectl evacuate cancel {}", room.node)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_ends_at_the_deadline_that_the_drain_names() {
    let scene = scene("deadline").await;
    let ann = Person::drainer(&scene, "ann").await;
    let room = Room::new(&scene, Answer::refuse("a backup runs")).await;
    drains(&ann, &room, "--on-refusal=wait").await;
    let command = ann.reads(&status(&room.node), "kubectl evacuate set ").await;
    let said = ann.runs(&command).await;
    assert!(said.contains(" min), then Evict; on refusal Wait"), "{said}");
    assert!(scene.stays(&room.pod).await, "the deadline is ten minutes away");
    ann.runs(&command.replace("10m", "1s")).await;
    scene.pods.gone(&room.pod).await.unwrap();
    ann.runs(&format!("kubectl evacuate cancel {}", room.node)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delay_ends_at_the_deadline_that_the_drain_names() {
    let scene = scene("delay").await;
    let ann = Person::drainer(&scene, "ann").await;
    let room = Room::new(&scene, Answer::delay(Duration::from_mins(30))).await;
    drains(&ann, &room, "--on-refusal=wait").await;
    let name = drain_of(&scene, &room.node).await.name_any();
    let message = format!("kubectl get nodeevac {name} -o jsonpath='{{.status.blockers[*].message}}'");
    let command = ann.reads(&message, "kubectl evacuate set ").await;
    ann.runs(&command.replace("10m", "1s")).await;
    scene.pods.gone(&room.pod).await.unwrap();
    ann.runs(&format!("kubectl evacuate cancel {}", room.node)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_was_left_alone_goes_by_the_request_that_the_drain_names() {
    let scene = scene("alone").await;
    let ann = Person::drainer(&scene, "ann").await;
    let room = Room::new(&scene, Answer::refuse("a backup runs")).await;
    drains(&ann, &room, "").await;
    let command = ann.reads(&status(&room.node), "kubectl create evacuation ").await;
    ann.runs(&command).await;
    scene.pods.gone(&room.pod).await.unwrap();
    ann.runs(&format!("kubectl evacuate cancel {}", room.node)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_was_left_alone_at_a_deadline_goes_by_the_request_that_the_drain_names() {
    let scene = scene("gaveup").await;
    let ann = Person::drainer(&scene, "ann").await;
    let room = Room::new(&scene, Answer::delay(Duration::from_mins(30))).await;
    drains(&ann, &room, "--on-refusal=wait").await;
    let evacuation = scene.evacuation_of("app").await;
    scene.answered(&evacuation, evacuation_api::Answer::Delay).await;
    ann.runs(&format!("kubectl evacuate set {} --deadline=1s --at-deadline=give-up", room.node)).await;
    scene.ends(&evacuation, "Failed DeadlineGaveUp").await;
    let command = ann.reads(&status(&room.node), "kubectl create evacuation ").await;
    assert!(command.ends_with(" --deadline=10m --at-deadline=evict"), "{command}");
    assert!(scene.stays(&room.pod).await);
    ann.runs(&command.replace("10m", "1s")).await;
    scene.pods.gone(&room.pod).await.unwrap();
    ann.runs(&format!("kubectl evacuate cancel {}", room.node)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_flags_are_taken_over_by_the_patch_that_a_second_run_names() {
    let scene = scene("flags").await;
    let ann = Person::drainer(&scene, "ann").await;
    let room = Room::new(&scene, Answer::refuse("a backup runs")).await;
    drains(&ann, &room, "--on-refusal=wait").await;
    let again = format!("kubectl evacuate node {} --force --detach --on-refusal=override", room.node);
    let command = ann.reads(&again, "kubectl patch nodeevac ").await;
    ann.runs(&command).await;
    scene.pods.gone(&room.pod).await.unwrap();
    let drain = drain_of(&scene, &room.node).await;
    assert_eq!(drain.spec.requester.on_refusal, Some(RefusalPolicy::Override), "{}", drain.name_any());
    ann.runs(&format!("kubectl evacuate cancel {}", room.node)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_that_allows_none_is_passed_by_the_deletion_that_the_drain_names() {
    let scene = scene("budget").await;
    let ann = Person::drainer(&scene, "ann").await;
    let node = scene.own_node().await;
    let mut web = workload("web", 1, &json!({"controlplane.test/gone-after": "100ms"}));
    web["spec"]["template"]["spec"]["nodeSelector"] = json!({"test": scene.namespace()});
    web["spec"]["template"]["spec"]["tolerations"] = json!(controlplane::tolerations());
    scene.create::<Deployment>(web).await;
    let pod = scene.only_pod("web", None).await;
    let budget = json!({"metadata": {"name": "web"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}}});
    scene.create::<PodDisruptionBudget>(budget).await;
    ann.runs(&format!("kubectl evacuate node {node} --detach")).await;
    let status = status(&node);
    let command = ann.reads(&status, "kubectl create evacuation ").await;
    let text = ann.runs(&status).await;
    assert!(text.contains("surge.evacuation.dev/replacement"), "a replacement first is named first: {text}");

    let command = command.replace("10m", "1s");
    let refused = ann.fails(&command).await;
    assert!(refused.contains("cannot delete resource \"pods\""), "{refused}");
    assert!(scene.stays(&pod).await);
    ann.may_delete_pods(&refused).await;
    let output = ann.runs_once_allowed(&command).await;
    assert!(output.stderr.contains("whatever their budgets say"), "it warns: {output:?}");
    scene.pods.gone(&pod).await.unwrap();
    drained(&scene, &node).await;
    ann.runs(&format!("kubectl evacuate cancel {node}")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_the_rules_refuse_is_left_out_by_the_selector_that_the_drain_names() {
    let scene = scene("leftout").await;
    let ann = Person::drainer(&scene, "ann").await;
    let node = scene.own_node().await;
    let pod = scene.pod("alone", PodSpec::default().label("app", "alone").on(&node)).await;
    let drain = json!({
        "apiVersion": "evacuation.dev/v1alpha1", "kind": "NodeEvacuation", "metadata": {"name": node},
        "spec": {"nodes": {"names": [node]}},
    });
    ann.runs(&format!("kubectl create -f - <<'END'\n{drain}\nEND\n")).await;
    let beginning = format!("kubectl evacuate set {node} --pod-selector=");
    let command = ann.reads(&status(&node), &beginning).await;
    let said = ann.runs(&command).await;
    assert!(said.contains("only pods with app!=alone"), "{said}");
    drained(&scene, &node).await;
    assert!(scene.stays(&pod).await);
    ann.runs(&format!("kubectl evacuate cancel {node}")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_with_a_selector_names_no_other_one_that_would_widen_it() {
    let scene = scene("widen").await;
    let ann = Person::drainer(&scene, "ann").await;
    let node = scene.own_node().await;
    let pod = scene.pod("alone", PodSpec::default().label("app", "alone").on(&node)).await;
    let spared = scene.pod("spared", PodSpec::default().label("app", "spared").on(&node)).await;
    let drain = json!({
        "apiVersion": "evacuation.dev/v1alpha1", "kind": "NodeEvacuation", "metadata": {"name": node},
        "spec": {"nodes": {"names": [node]}, "pods": {"selector": {"matchLabels": {"app": "alone"}}}},
    });
    ann.runs(&format!("kubectl create -f - <<'END'\n{drain}\nEND\n")).await;
    let command = ann.reads(&status(&node), &format!("kubectl evacuate set {node} ")).await;
    assert!(command.ends_with(" --force"), "{command}");
    let shown = ann.runs(&status(&node)).await;
    assert!(!shown.contains("--pod-selector"), "{shown}");
    let said = ann.runs(&command).await;
    assert!(said.contains("only pods with app=alone"), "{said}");
    scene.pods.gone(&pod).await.unwrap();
    drained(&scene, &node).await;
    assert!(scene.stays(&spared).await);
    ann.runs(&format!("kubectl evacuate cancel {node}")).await;
}

/// A drain by manifest refuses the pod that a drain by the plugin would have been refused for at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_the_rules_refuse_goes_by_the_flags_that_the_drain_names() {
    let scene = scene("rules").await;
    let ann = Person::drainer(&scene, "ann").await;
    let node = scene.own_node().await;
    let pod = json!({
        "metadata": {"name": "scratch", "annotations": {"controlplane.test/gone-after": "100ms"}},
        "spec": {
            "nodeName": node, "containers": [{"name": "app", "image": "app"}],
            "volumes": [{"name": "data", "emptyDir": {}}],
        },
    });
    let pod = scene.raw_pod(&pod).await;
    let drain = json!({
        "apiVersion": "evacuation.dev/v1alpha1", "kind": "NodeEvacuation", "metadata": {"name": node},
        "spec": {"nodes": {"names": [node]}},
    });
    ann.runs(&format!("kubectl create -f - <<'END'\n{drain}\nEND\n")).await;
    let command = ann.reads(&status(&node), "kubectl evacuate set ").await;
    assert!(command.ends_with(" --delete-emptydir-data --force"), "{command}");
    let why = ann.runs(&format!("kubectl evacuate why scratch -n {}", scene.namespace())).await;
    assert!(why.contains(&format!("It holds nodeevacuation {node} back:")), "{why}");
    assert!(why.contains("--delete-emptydir-data"), "{why}");
    let said = ann.runs(&command).await;
    for part in ["data of emptyDir volumes: Delete", "pods without a controller: Evict"] {
        assert!(said.contains(part), "{part:?} is not in {said}");
    }
    scene.pods.gone(&pod).await.unwrap();
    assert_eq!(drained(&scene, &node).await.pods.gone, 1);
    ann.runs(&format!("kubectl evacuate cancel {node}")).await;
}
