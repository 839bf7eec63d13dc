//! Karpenter 1.15 with its kwok provider: it makes the nodes of the apps, and takes them away.

use std::process::Command;

use controlplane::{GoTool, Process, eventually, free_port};
use evacuation_e2e::{Scene, scene::PATIENCE};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, PostParams},
    core::GroupVersionKind,
};
use serde_json::{Value, json};

use crate::{
    cast::{Cast, kubeconfig, running},
    stage::{Stage, options},
};

const KARPENTER: GoTool = GoTool {
    name: "karpenter",
    package: "sigs.k8s.io/karpenter/kwok",
    module: Some("sigs.k8s.io/karpenter"),
    toolchain: Some("go1.26.9"),
    linker_flags: None,
    files: &[
        ("go.mod", include_str!("../../callers/karpenter/go.mod")),
        ("go.sum", include_str!("../../callers/karpenter/go.sum")),
    ],
};
const USER: &str = "system:serviceaccount:kube-system:karpenter";

/// Starts Karpenter with one pool of nodes, which has these times and this disruption.
async fn karpenter(stage: &Stage, expire_after: &str, disruption: &Value) -> Process {
    let built = tokio::task::spawn_blocking(|| KARPENTER.build()).await.unwrap().unwrap();
    let source = built.source.unwrap();
    for folder in ["pkg/apis/crds", "kwok/apis/crds"] {
        let folder = source.join(folder).display().to_string();
        let applied =
            stage.control_plane().kubectl(&["apply", "--server-side", "-f", &folder]).await.unwrap();
        assert!(applied.success(), "{}", applied.stderr);
    }
    let class = json!({
        "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": stage.namespace()},
    });
    create(stage, "karpenter.kwok.sh", "v1alpha1", "KWOKNodeClass", class).await;
    let pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": stage.namespace()},
        "spec": {
            "disruption": disruption,
            "template": {"spec": {
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": stage.namespace()},
                "expireAfter": expire_after,
                "requirements": [
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                    {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
                ],
            }},
        },
    });
    create(stage, "karpenter.sh", "v1", "NodePool", pool).await;
    let mut command = Command::new(built.program);
    command
        .env("KUBECONFIG", kubeconfig(stage, "karpenter").await)
        .env("SYSTEM_NAMESPACE", "kube-system")
        .env("DISABLE_LEADER_ELECTION", "true")
        .env("METRICS_PORT", free_port().unwrap().to_string())
        .env("HEALTH_PROBE_PORT", free_port().unwrap().to_string())
        .env("CPU_REQUESTS", "1000");
    running(stage, "karpenter", command)
}

async fn create(stage: &Stage, group: &str, version: &str, kind: &str, object: Value) {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    let api: Api<DynamicObject> = Api::all_with(stage.admin(), &resource);
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    let created = eventually(PATIENCE, &format!("{kind} is served"), || async {
        api.create(&PostParams::default(), &object).await.map(drop).map_err(|error| error.to_string())
    })
    .await;
    created.unwrap();
}

async fn stage(prefix: &str) -> Stage {
    Stage::of(Scene::alone(prefix, options())).await
}

/// Returns the fields of a pod's spec that want a node of the pool.
fn on_pool(stage: &Stage) -> Value {
    json!({"nodeSelector": {"karpenter.sh/nodepool": stage.namespace()}})
}

/// Waits until the apps left their first node, and judges how.
async fn leaves(stage: &Stage, cast: &Cast, karpenter: &Process) {
    cast.leaves(stage).await;
    assert!(stage.stays(cast.pod("refuses")).await);
    assert!(karpenter.is_running(), "{:?}", karpenter.log());
    cast.check(stage, USER);
    let entries = stage.all_evacuations().await.into_iter().flat_map(|e| e.spec.requesters);
    let entries: Vec<_> = entries.map(|entry| (entry.owner, entry.name)).collect();
    let own = (USER.to_owned(), "gateway.evacuation.dev/karpenter".to_owned());
    assert!(entries.iter().all(|entry| *entry == own), "{entries:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn karpenter_takes_an_expired_node_away_when_its_apps_are_ready() {
    let stage = stage("expiry").await;
    let never = json!({"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never"});
    let karpenter = karpenter(&stage, "60s", &never).await;
    let cast = Cast::enter(&stage, &on_pool(&stage)).await;
    leaves(&stage, &cast, &karpenter).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn karpenter_consolidates_a_node_when_its_apps_are_ready() {
    let stage = stage("consolidation").await;
    let often = json!({"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "10s"});
    let karpenter = karpenter(&stage, "Never", &often).await;
    // A large pod makes Karpenter choose a large node, on which the apps find room.
    let mut filler = on_pool(&stage);
    filler["containers"] = json!([{"name": "app", "image": "app", "resources": {"requests": {"cpu": "30"}}}]);
    let filler = json!({
        "metadata": {"name": "filler"},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"app": "filler"}},
            "template": {"metadata": {"labels": {"app": "filler"}}, "spec": filler},
        },
    });
    let filler: Deployment = stage.create(filler).await;
    let large = stage.ready_pods("filler", 1, &[]).await.remove(0);
    let cast = Cast::enter(&stage, &on_pool(&stage)).await;
    assert_eq!(
        cast.pod("accepts").spec.as_ref().unwrap().node_name,
        large.spec.as_ref().unwrap().node_name,
        "they share the node"
    );
    stage.api::<Deployment>().delete(&filler.name_any(), &DeleteParams::default()).await.unwrap();
    leaves(&stage, &cast, &karpenter).await;
}
