//! The ways around the protocol that the guide lists, and the policy of the guide that closes some of them.

use std::time::Duration;

use controlplane::eventually;
use evacuation_e2e::{PodSpec, scene::PATIENCE};
use k8s_openapi::api::{
    admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding},
    core::v1::{Node, Pod},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::stage::Stage;

/// The guide, whose policy this test applies as it stands there.
const GUIDE: &str = include_str!("../../../../docs/guide/gateway.md");

/// Patience with the pod garbage collector: it looks every 20 s, and leaves the pods of a missing node alone
/// for 40 s after it first missed the node, so that a pod goes after 40 to 80 s.
const COLLECTION: Duration = Duration::from_mins(3);

/// Changes of a pod that end or restart it, or that hide that it wants to be asked.
fn changes() -> [Value; 4] {
    let dead = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "none", "uid": "00000000-none"});
    [
        json!({"spec": {"activeDeadlineSeconds": 3600}}),
        json!({"spec": {"containers": [{"name": "app", "image": "other"}]}}),
        json!({"metadata": {"annotations": {"evacuation.dev/responders": null}}}),
        json!({"metadata": {"ownerReferences": [dead]}}),
    ]
}

async fn change(pods: &Api<Pod>, pod: &Pod, change: &Value) -> kube::Result<Pod> {
    pods.patch(&pod.name_any(), &PatchParams::default(), &Patch::Strategic(change)).await
}

/// The users that deleted a pod.
fn deleted_by(stage: &Stage, pod: &Pod) -> Vec<String> {
    stage.deletions(&pod.name_any()).iter().map(|event| event.user().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_goes_unasked_by_an_owner_that_is_gone_and_a_policy_of_the_guide_prevents_it() {
    let stage = Stage::new("owner").await;
    let user = stage.user("tenant", &["edit"]).await;
    let pods: Api<Pod> = Api::namespaced(user.client, stage.namespace());
    let pod = stage.app_pod("app", PodSpec::watching()).await;
    let [.., owner] = changes();
    change(&pods, &pod, &owner).await.unwrap();
    stage.pods.gone(&pod).await.unwrap();
    let collector = "system:serviceaccount:kube-system:generic-garbage-collector";
    assert_eq!(deleted_by(&stage, &pod), [collector]);
    assert!(stage.all_evacuations().await.is_empty());

    let kept = stage.app_pod("kept", PodSpec::watching()).await;
    for each in &changes()[..2] {
        let dry = PatchParams { dry_run: true, ..PatchParams::default() };
        pods.patch(&kept.name_any(), &dry, &Patch::Strategic(each)).await.unwrap();
    }
    let (policy, binding) = policy_of_the_guide(stage.namespace());
    let (policies, bindings): (Api<ValidatingAdmissionPolicy>, Api<ValidatingAdmissionPolicyBinding>) =
        (Api::all(stage.admin()), Api::all(stage.admin()));
    policies.create(&PostParams::default(), &policy).await.unwrap();
    bindings.create(&PostParams::default(), &binding).await.unwrap();
    for each in changes() {
        let denied = eventually(PATIENCE, "the policy denies it", || async {
            let dry = PatchParams { dry_run: true, ..PatchParams::default() };
            match pods.patch(&kept.name_any(), &dry, &Patch::Strategic(&each)).await {
                Err(kube::Error::Api(status)) if status.message.contains("app must be asked") => Ok(()),
                other => Err(format!("{each}: {other:?}")),
            }
        });
        denied.await.unwrap();
    }
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    change(&pods, &kept, &label).await.unwrap();
    bindings.delete(&binding.name_any(), &DeleteParams::default()).await.unwrap();
    policies.delete(&policy.name_any(), &DeleteParams::default()).await.unwrap();
}

/// The policy of the guide and its binding, for one namespace only: other tests share the control plane.
fn policy_of_the_guide(namespace: &str) -> (ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding) {
    let begin = GUIDE.find("apiVersion: admissionregistration.k8s.io/v1").unwrap();
    let text = &GUIDE[begin..];
    let text = &text[..text.find("```").unwrap()];
    let [policy, binding] = text.split("---\n").collect::<Vec<_>>()[..] else { panic!("{text}") };
    let policy: ValidatingAdmissionPolicy = serde_saphyr::from_str(policy).unwrap();
    let mut binding: ValidatingAdmissionPolicyBinding = serde_saphyr::from_str(binding).unwrap();
    let only = json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}});
    binding.spec.match_resources = serde_json::from_value(only).unwrap();
    (policy, binding)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pods_of_a_deleted_node_go_unasked() {
    let stage = Stage::new("nodeless").await;
    let pod = stage.app_pod("app", PodSpec::watching()).await;
    let nodes: Api<Node> = Api::all(stage.admin());
    nodes.delete(stage.node(), &DeleteParams::default()).await.unwrap();
    stage.pods.gone_within(COLLECTION, &pod).await.unwrap();
    let users = deleted_by(&stage, &pod);
    assert_eq!(users, ["system:serviceaccount:kube-system:pod-garbage-collector"]);
    assert!(stage.all_evacuations().await.is_empty());
}
