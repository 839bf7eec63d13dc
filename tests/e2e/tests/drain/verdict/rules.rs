//! Pods that the rules of a drain refuse, with the meanings of `kubectl drain`.

use std::collections::{BTreeMap, BTreeSet};

use evacuation_api::{CordonOwner, DrainBlockerReason, DrainVerdict, NodeEvacuationStatus};
use evacuation_e2e::{PodSpec, scene::is_ready};
use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment},
    core::v1::Pod,
};
use kube::{ResourceExt, api::ListParams};
use serde_json::json;

use super::quick_pods;
use crate::nodes::{Stage, entry, is_cordoned};

/// Arguments with which `kubectl drain` evicts every pod but those of DaemonSets.
const ALL: &[&str] = &["--ignore-daemonsets", "--delete-emptydir-data", "--force"];

/// A node with a pod of a Deployment, one of a DaemonSet, one with an emptyDir volume and one without a
/// controller.
async fn crowded(prefix: &str) -> Stage {
    let stage = Stage::new(prefix, 1).await;
    let pool = json!({"pool": stage.scene.namespace()});
    let set = json!({
        "metadata": {"name": "agent"},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {
                "metadata": {"labels": {"app": "agent"}, "annotations": quick_pods()},
                "spec": {"nodeSelector": pool, "tolerations": controlplane::tolerations(), "containers": [{"name": "app", "image": "app"}]},
            },
        },
    });
    stage.scene.create::<DaemonSet>(set).await;
    stage.deployment("web", 1, quick_pods()).await;
    stage.scene.pod("bare", PodSpec::default().on(&stage.nodes[0])).await;
    let labels = json!({"app": "scratch"});
    let scratch = json!({
        "metadata": {"name": "scratch"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels, "annotations": quick_pods()},
                "spec": {
                    "nodeSelector": {"pool": stage.scene.namespace()}, "tolerations": controlplane::tolerations(),
                    "containers": [{"name": "app", "image": "app"}],
                    "volumes": [{"name": "data", "emptyDir": {}}],
                },
            },
        },
    });
    stage.scene.create::<Deployment>(scratch).await;
    stage.scene.only_pod("scratch", None).await;
    stage.scene.only_pod("agent", None).await;
    stage
}

/// The output of `kubectl drain --dry-run=server` with these arguments.
async fn kubectl_drain(stage: &Stage, more: &[&str]) -> String {
    let arguments = ["drain", &stage.nodes[0], "--dry-run=server"];
    let output = stage.scene.platform().kubectl(&[&arguments, more].concat()).await.unwrap();
    format!("{}\n{}", output.stdout, output.stderr)
}

/// The names of this scene's pods in a text.
async fn named_in(stage: &Stage, text: &str) -> BTreeSet<String> {
    let pods = stage.scene.pods.api().list(&ListParams::default()).await.unwrap().items;
    let keys = pods.iter().map(|pod| format!("{}/{}", stage.scene.namespace(), pod.name_any()));
    keys.filter(|key| text.contains(key.as_str())).collect()
}

async fn pod_of(stage: &Stage, app: &str) -> String {
    let pod = stage.scene.only_pod(app, None).await;
    format!("{}/{}", stage.scene.namespace(), pod.name_any())
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_the_rules_refuse_are_those_of_kubectl_drain_and_stay() {
    let stage = crowded("rules").await;
    let (agent, namespace) = (pod_of(&stage, "agent").await, stage.scene.namespace().to_owned());
    let kubectl = named_in(&stage, &kubectl_drain(&stage, &[]).await).await;
    let evicts = named_in(&stage, &evicting(&kubectl_drain(&stage, ALL).await)).await;
    stage.drain("d", &[0], json!({"pods": {"daemonSets": "Refuse"}})).await;
    let found = stage.blocked("d", DrainBlockerReason::DaemonSet, true).await;
    let status = found.status;
    let reasons: BTreeMap<&str, (&str, &str)> = status
        .blockers
        .iter()
        .map(|b| (b.pod.as_deref().unwrap(), (b.reason.as_str(), b.object.as_deref().unwrap())))
        .collect();
    let (bare, scratch) = (format!("{namespace}/bare"), pod_of(&stage, "scratch").await);
    let scratch_object = format!("Pod/{}", scratch.split_once('/').unwrap().1);
    let expected = BTreeMap::from([
        (agent.as_str(), ("DaemonSet", "DaemonSet/agent")),
        (bare.as_str(), ("Unmanaged", "Pod/bare")),
        (scratch.as_str(), ("LocalStorage", scratch_object.as_str())),
    ]);
    assert_eq!(reasons, expected);
    assert!(status.blockers.iter().all(|blocker| blocker.stuck), "{status:?}");
    assert_eq!(reasons.keys().map(|key| (*key).to_owned()).collect::<BTreeSet<_>>(), kubectl);
    let way_out =
        |pod: &str| &status.blockers.iter().find(|b| b.pod.as_deref() == Some(pod)).unwrap().message;
    for (pod, words) in
        [(&agent, " --ignore-daemonsets; "), (&bare, " --force; "), (&scratch, " --delete-emptydir-data; ")]
    {
        assert!(way_out(pod).contains(words), "{:?}", way_out(pod));
    }
    let moved = |status: &NodeEvacuationStatus| (status.pods.gone, status.pods.blocked) == (1, 3);
    let status = stage.until("d", "the fourth pod has moved", moved).await;
    assert_eq!(entry(&status, &stage.nodes[0]).cordoned, CordonOwner::Ours);
    assert_eq!(status.verdict, Some(DrainVerdict::Stuck));
    let asked = stage.scene.evacuations().list(&ListParams::default()).await.unwrap().items;
    let asked: BTreeSet<_> =
        asked.iter().map(|e| format!("{namespace}/{}", e.spec.target.pod.name)).collect();
    assert!(asked.is_disjoint(&kubectl), "{asked:?}");

    let rules = json!({"daemonSets": "Skip", "emptyDirData": "Delete", "unmanaged": "Evict"});
    stage.change("d", json!({"pods": rules})).await;
    let status = stage.drained("d").await;
    assert_eq!(status.verdict, Some(DrainVerdict::Drained));
    assert!(is_cordoned(&stage.node(0).await));
    let evicted: BTreeSet<String> = stage
        .scene
        .all_evictions()
        .iter()
        .filter(|event| event.value().pointer("/requestObject/deleteOptions/dryRun").is_none())
        .map(|event| format!("{namespace}/{}", event.name()))
        .collect();
    assert_eq!(evicted, evicts);
    assert_eq!(usize::try_from(status.pods.gone).unwrap(), evicts.len(), "{status:?}");
    let left: Vec<Pod> = stage.scene.pods.api().list(&ListParams::default()).await.unwrap().items;
    assert_eq!(left.iter().filter(|pod| is_ready(pod)).count(), 1, "the DaemonSet's pod stays");
}

/// The lines of `kubectl drain` about pods that it evicts.
fn evicting(output: &str) -> String {
    let lines = output.lines().filter(|line| line.starts_with("evicting pod") || line.starts_with("pod/"));
    lines.collect::<Vec<_>>().join("\n")
}
