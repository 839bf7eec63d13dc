//! A volume that is still attached to the drained node. The attach/detach controller is Kubernetes' own. The
//! scene plays the volume's driver. The kubelet is kwok, which is told not to start the replacement.

use controlplane::eventually;
use evacuation_api::DrainBlockerReason;
use evacuation_e2e::scene::PATIENCE;
use k8s_openapi::api::{
    apps::v1::ReplicaSet,
    core::v1::{Node, PersistentVolume, PersistentVolumeClaim},
    storage::v1::VolumeAttachment,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::quick_pods;
use crate::nodes::Stage;

const DRIVER: &str = "volumes.test.evacuation.dev";

/// Lets the attach/detach controller attach volumes to a node, as a kubelet does.
async fn takes_volumes(stage: &Stage, number: usize) {
    let annotation = json!({"volumes.kubernetes.io/controller-managed-attach-detach": "true"});
    let patch = Patch::Merge(json!({"metadata": {"annotations": annotation}}));
    let api: Api<Node> = stage.node_api();
    api.patch(&stage.nodes[number], &PatchParams::default(), &patch).await.unwrap();
}

/// Creates a claim `data` with a volume that one node can have at a time. Returns the volume's name.
async fn volume(stage: &Stage) -> String {
    let (namespace, name) = (stage.scene.namespace(), format!("data-{}", stage.scene.namespace()));
    let spec = json!({
        "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "storageClassName": "",
        "persistentVolumeReclaimPolicy": "Retain",
        "csi": {"driver": DRIVER, "volumeHandle": name},
        "claimRef": {"namespace": namespace, "name": "data"},
    });
    let object = json!({"metadata": {"name": name}, "spec": spec});
    let volumes: Api<PersistentVolume> = Api::all(stage.scene.admin());
    volumes.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    let claim = json!({
        "accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": name,
        "resources": {"requests": {"storage": "1Gi"}},
    });
    let claim = json!({"metadata": {"name": "data"}, "spec": claim});
    stage.scene.create::<PersistentVolumeClaim>(claim).await;
    name
}

/// Reports, as the driver, that the volume is attached to a node.
async fn attach(stage: &Stage, volume: &str, node: &str) {
    let api: Api<VolumeAttachment> = Api::all(stage.scene.admin());
    let wanted = |attachment: &VolumeAttachment| {
        attachment.spec.node_name == node
            && attachment.spec.source.persistent_volume_name.as_deref() == Some(volume)
    };
    let asked = eventually(PATIENCE, "the volume is to be attached", || async {
        let all = api.list(&ListParams::default()).await.map_err(|error| error.to_string())?.items;
        all.into_iter().find(&wanted).ok_or_else(|| "no volumeattachment".to_owned())
    });
    let name = asked.await.unwrap().name_any();
    let attached = Patch::Merge(json!({"status": {"attached": true}}));
    api.patch_status(&name, &PatchParams::default(), &attached).await.unwrap();
}

fn template(stage: &Stage, annotations: &Value) -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}, "annotations": annotations},
        "spec": {
            "nodeSelector": {"pool": stage.scene.namespace()}, "tolerations": controlplane::tolerations(),
            "containers": [{"name": "app", "image": "app"}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replacement_whose_volume_is_attached_to_the_drained_node_holds_the_drain_until_it_is_free() {
    let mut stage = Stage::new("volume", 1).await;
    takes_volumes(&stage, 0).await;
    let volume = volume(&stage).await;
    let selector = json!({"matchLabels": {"app": "web"}});
    let spec = json!({"replicas": 2, "selector": selector, "template": template(&stage, &quick_pods())});
    stage.scene.create::<ReplicaSet>(json!({"metadata": {"name": "web"}, "spec": spec})).await;
    let pods = stage.scene.ready_pods("web", 2, &[]).await;
    attach(&stage, &volume, &stage.nodes[0]).await;
    stage.budget("guard", "web", json!({"maxUnavailable": 1})).await;

    stage.add_node(1).await;
    takes_volumes(&stage, 1).await;
    // A kubelet starts no pod before its volumes are attached.
    let waiting = template(&stage, &json!({"controlplane.test/running-after": "1h"}));
    let patch = Patch::Merge(json!({"spec": {"template": waiting}}));
    stage.scene.api::<ReplicaSet>().patch("web", &PatchParams::default(), &patch).await.unwrap();
    stage.drain("d", &[0], json!({})).await;
    let found = stage.blocked("d", DrainBlockerReason::ReplacementVolume, true).await;
    found.concerns(&pods.iter().collect::<Vec<_>>(), &format!("PersistentVolume/{volume}")).says(&[
        "budget guard waits for pod web-",
        "a volume that cannot be attached to its node",
        // The words before are "Waiting for detach", or "Multi-Attach error" in earlier versions.
        &format!("for volume \"{volume}\" Volume is already used by pod(s) web-"),
        "delete the VolumeAttachment",
    ]);
    assert_eq!(found.blocker.owner.as_deref(), Some("ReplicaSet/web"));
    assert_eq!(found.status.pods.gone, 1);

    // The pod that uses the volume goes.
    stage.change_budget("guard", json!({"maxUnavailable": 2})).await;
    stage.drained("d").await;
    let volumes: Api<PersistentVolume> = Api::all(stage.scene.admin());
    volumes.delete(&volume, &DeleteParams::default()).await.unwrap();
}
