//! Pods of DaemonSets: those that are asked last, those of other API groups, and those whose DaemonSet does
//! not exist.

use std::collections::BTreeSet;

use controlplane::eventually;
use evacuation_api::{DrainBlockerReason, RESPONDERS_ANNOTATION};
use evacuation_client::Answer;
use evacuation_e2e::{Scene, scene::PATIENCE};
use k8s_openapi::api::{
    admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding},
    apps::v1::DaemonSet,
    core::v1::Pod,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::json;

use crate::nodes::{Stage, entry};

/// The user that deletes objects whose owner does not exist.
const COLLECTOR: &str = "system:serviceaccount:kube-system:generic-garbage-collector";

async fn asked_pods(stage: &Stage) -> Vec<String> {
    let all = stage.scene.evacuations().list(&ListParams::default()).await.unwrap().items;
    all.into_iter().map(|evacuation| evacuation.spec.target.pod.name).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_of_daemon_sets_are_asked_last_and_their_replacements_stay() {
    let stage = Stage::new("last", 1).await;
    let quick = json!({"controlplane.test/running-after": "100ms", "controlplane.test/gone-after": "100ms"});
    let set = json!({
        "metadata": {"name": "agent"},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {
                "metadata": {"labels": {"app": "agent"}, "annotations": quick},
                "spec": {
                    "nodeSelector": {"pool": stage.scene.namespace()}, "tolerations": controlplane::tolerations(),
                    "containers": [{"name": "app", "image": "app"}],
                },
            },
        },
    });
    stage.scene.create::<DaemonSet>(set).await;
    let mut annotations = quick.clone();
    annotations[RESPONDERS_ANNOTATION] = json!(json!([{"name": "self"}]).to_string());
    let web = stage.deployment("web", 1, annotations).await.remove(0);
    let agent = stage.scene.only_pod("agent", None).await;
    stage.drain("d", &[0], json!({"pods": {"daemonSets": "Last"}})).await;
    let status = stage.until("d", "the app is asked", |status| status.pods.asked == 1).await;
    assert_eq!((status.pods.total, status.pods.waiting), (2, 1), "{status:?}");
    assert_eq!(asked_pods(&stage).await, [web.name_any()]);
    assert!(entry(&status, &stage.nodes[0]).daemon_set_pods.is_empty());

    let _app = stage.scene.app(&web, |_| async { Answer::accept() }).await;
    let status = stage.drained("d").await;
    assert_eq!((status.pods.total, status.pods.gone), (2, 2), "{status:?}");
    assert!(stage.scene.evicted_at(&web.name_any()) < stage.scene.evicted_at(&agent.name_any()));
    let later = stage.scene.only_pod("agent", Some(&agent)).await;
    let asked: BTreeSet<String> = asked_pods(&stage).await.into_iter().collect();
    assert_eq!(asked, BTreeSet::from([web.name_any(), agent.name_any()]));
    assert!(stage.scene.stays(&later).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_of_a_daemon_set_of_another_api_group_is_left_alone_or_asked_last_as_of_kubernetes_own() {
    let stage = Stage::new("foreign", 1).await;
    let owner = json!([{
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "DaemonSet", "name": "agent", "uid": "7c1fd7a8",
        "controller": true,
    }]);
    let pod = json!({
        "metadata": {
            "name": "agent", "ownerReferences": owner, "annotations": {"controlplane.test/gone-after": "100ms"},
        },
        "spec": {
            "nodeName": stage.nodes[0], "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "app", "image": "app"}],
        },
    });
    let api = stage.scene.pods.api();
    let pod = api.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    stage.drain("d", &[0], json!({})).await;
    let status = stage.drained("d").await;
    assert_eq!(status.pods.total, 0, "{status:?}");
    assert!(asked_pods(&stage).await.is_empty());
    assert!(stage.scene.stays(&pod).await);

    stage.drain("last", &[0], json!({"pods": {"daemonSets": "Last"}})).await;
    let status = stage.drained("last").await;
    assert_eq!((status.pods.total, status.pods.gone), (1, 1), "{status:?}");
    assert_eq!(asked_pods(&stage).await, ["agent"]);
}

/// Keeps the garbage collector from the pods of a namespace.
struct Uncollected(Api<ValidatingAdmissionPolicy>, Api<ValidatingAdmissionPolicyBinding>, String);

impl Uncollected {
    async fn start(scene: &Scene) -> Self {
        let name = format!("uncollected-{}", scene.namespace());
        let namespace = json!({"matchLabels": {"kubernetes.io/metadata.name": scene.namespace()}});
        let policy = json!({
            "metadata": {"name": name},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {
                    "namespaceSelector": namespace,
                    "resourceRules": [{
                        "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"],
                        "operations": ["DELETE", "UPDATE"],
                    }],
                },
                "validations": [{"expression": format!("request.userInfo.username != '{COLLECTOR}'")}],
            },
        });
        let binding = json!({
            "metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]},
        });
        let (policies, bindings) = (Api::all(scene.admin()), Api::all(scene.admin()));
        let params = PostParams::default();
        policies.create(&params, &serde_json::from_value(policy).unwrap()).await.unwrap();
        bindings.create(&params, &serde_json::from_value(binding).unwrap()).await.unwrap();
        Self(policies, bindings, name)
    }

    async fn stop(self) {
        let Self(policies, bindings, name) = self;
        bindings.delete(&name, &DeleteParams::default()).await.unwrap();
        policies.delete(&name, &DeleteParams::default()).await.unwrap();
    }
}

/// Creates a pod whose DaemonSet does not exist, and which stays.
async fn orphan(stage: &Stage) -> Pod {
    // The policy acts some time after it was created: until then the garbage collector deletes the pods.
    let created = eventually(PATIENCE, "the orphan stays", || async {
        let api = stage.scene.pods.api();
        if let Some(pod) = api.get_opt("agent-orphan").await.unwrap() {
            // The policy can deny another deletion of a pod that is on its way out.
            if pod.metadata.deletion_timestamp.is_some() {
                return Err("deleted before the policy acted".to_owned());
            }
            let blocked = stage.scene.control_plane().audit_events().unwrap().iter().any(|event| {
                event.verb() == "delete"
                    && event.name() == "agent-orphan"
                    && event.user() == COLLECTOR
                    && matches!(event.code(), 403 | 422)
            });
            return if blocked { Ok(pod) } else { Err("not yet denied".to_owned()) };
        }
        let owner = json!([{
            "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "gone", "uid": "4a1fd7a8", "controller": true,
        }]);
        let pod = json!({
            "metadata": {
                "name": "agent-orphan", "ownerReferences": owner,
                "annotations": {"controlplane.test/gone-after": "100ms"},
            },
            "spec": {
                "nodeName": stage.nodes[0], "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "app", "image": "app"}],
            },
        });
        let _ = api.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await;
        Err("created".to_owned())
    });
    created.await.unwrap()
}

/// The output of `kubectl drain --dry-run=server` with these arguments.
async fn kubectl_drain(stage: &Stage, more: &[&str]) -> String {
    let arguments = ["drain", &stage.nodes[0], "--dry-run=server", "--ignore-daemonsets"];
    let output = stage.scene.platform().kubectl(&[&arguments, more].concat()).await.unwrap();
    format!("{}\n{}", output.stdout, output.stderr)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_whose_daemon_set_does_not_exist_is_refused_and_evicted_as_by_kubectl_drain() {
    let stage = Stage::new("missing", 1).await;
    let uncollected = Uncollected::start(&stage.scene).await;
    let pod = orphan(&stage).await;
    let key = format!("{}/{}", stage.scene.namespace(), pod.name_any());
    let refusal = kubectl_drain(&stage, &[]).await;
    assert!(refusal.contains("daemonsets.apps \"gone\" not found") && refusal.contains(&key), "{refusal}");

    stage.drain("d", &[0], json!({"pods": {"daemonSets": "Skip"}})).await;
    let found = stage
        .until("d", "the pod is refused", |status| {
            status.blockers.iter().any(|b| b.reason == DrainBlockerReason::Unmanaged.as_str())
        })
        .await;
    let blocker = &found.blockers[0];
    assert_eq!((blocker.pod.as_ref(), blocker.owner.as_deref()), (Some(&key), Some("DaemonSet/gone")));
    for words in ["it belongs to a DaemonSet that does not exist", " --force; "] {
        assert!(blocker.message.contains(words), "{}", blocker.message);
    }
    assert!(asked_pods(&stage).await.is_empty());

    let evicts = kubectl_drain(&stage, &["--force"]).await;
    assert!(evicts.contains(&format!("evicting pod {key}")), "{evicts}");
    stage.change("d", json!({"pods": {"unmanaged": "Evict"}})).await;
    let status = stage.drained("d").await;
    assert_eq!((status.pods.total, status.pods.gone), (1, 1), "{status:?}");
    assert_eq!(asked_pods(&stage).await, [pod.name_any()]);
    uncollected.stop().await;
}
