//! The updater of the Vertical Pod Autoscaler 1.8, with recommendations far from what the pods ask for.

use std::process::Command;

use controlplane::{GoTool, eventually, free_port};
use evacuation_e2e::scene::PATIENCE;
use kube::{
    Api,
    api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
};
use serde_json::json;

use crate::{
    cast::{APPS, Cast, kubeconfig, on_own_node, running},
    stage::Stage,
};

const UPDATER: GoTool = GoTool {
    name: "vpa-updater",
    package: "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/updater",
    module: Some("k8s.io/autoscaler/vertical-pod-autoscaler"),
    toolchain: None,
    linker_flags: None,
    files: &[
        ("go.mod", include_str!("../../callers/vpa-updater/go.mod")),
        ("go.sum", include_str!("../../callers/vpa-updater/go.sum")),
    ],
};

#[tokio::test(flavor = "multi_thread")]
async fn the_updater_moves_each_pod_once_its_app_is_ready() {
    let stage = Stage::new("vpa").await;
    let built = tokio::task::spawn_blocking(|| UPDATER.build()).await.unwrap().unwrap();
    let definitions = built.source.unwrap().join("deploy/vpa-v1-crd-gen.yaml").display().to_string();
    let applied =
        stage.control_plane().kubectl(&["apply", "--server-side", "-f", &definitions]).await.unwrap();
    assert!(applied.success(), "{}", applied.stderr);
    let cast = Cast::enter(&stage, &on_own_node(&stage)).await;
    let kind = GroupVersionKind::gvk("autoscaling.k8s.io", "v1", "VerticalPodAutoscaler");
    let resource = ApiResource::from_gvk(&kind);
    let api: Api<DynamicObject> = Api::namespaced_with(stage.admin(), stage.namespace(), &resource);
    for app in APPS {
        let vpa = json!({
            "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "metadata": {"name": app},
            "spec": {
                "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": app},
                "updatePolicy": {"updateMode": "Recreate", "minReplicas": 1},
            },
        });
        let vpa: DynamicObject = serde_json::from_value(vpa).unwrap();
        let created = eventually(PATIENCE, "the kind is served", || async {
            api.create(&PostParams::default(), &vpa).await.map(drop).map_err(|error| error.to_string())
        });
        created.await.unwrap();
        let wanted = |cpu: &str| json!({"cpu": cpu});
        let recommendation = json!({"status": {
            "conditions": [{"type": "RecommendationProvided", "status": "True", "lastTransitionTime": "2026-11-20T22:00:00Z"}],
            "recommendation": {"containerRecommendations": [{
                "containerName": "app", "target": wanted("2"), "lowerBound": wanted("1"), "upperBound": wanted("4"),
                "uncappedTarget": wanted("2"),
            }]},
        }});
        api.patch(app, &PatchParams::default(), &Patch::Merge(&recommendation)).await.unwrap();
        api.patch_status(app, &PatchParams::default(), &Patch::Merge(&recommendation)).await.ok();
    }
    let mut command = Command::new(built.program);
    command.arg(format!("--kubeconfig={}", kubeconfig(&stage, "vpa-updater").await.display()));
    command
        .args([
            "--updater-interval=3s",
            "--min-replicas=1",
            "--use-admission-controller-status=false",
            "--v=4",
        ])
        .arg(format!("--vpa-object-namespace={}", stage.namespace()))
        .arg(format!("--address=127.0.0.1:{}", free_port().unwrap()));
    let updater = running(&stage, "vpa-updater", command);
    cast.leaves(&stage).await;
    assert!(stage.stays(cast.pod("refuses")).await);
    assert!(updater.is_running(), "{:?}", updater.log());
    cast.check(&stage, "system:serviceaccount:kube-system:vpa-updater");
}
