//! Pods that nobody can make a replacement for beside them.

use evacuation_api::{Answer, RELEASED_ANNOTATION, REPLACEMENT_RESPONDER};
use evacuation_e2e::{
    PodSpec, Scene,
    scene::{Availability, annotation},
    workload,
};
use futures::future::join_all;
use k8s_openapi::api::{
    apps::v1::{Deployment, StatefulSet},
    core::v1::{PersistentVolume, PersistentVolumeClaim, Pod},
};
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::json;

use crate::workload::Workload;

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_of_a_stateful_set_is_accepted_with_the_reason_and_left_to_its_budget() {
    let scene = Scene::with("stateful", crate::options).await;
    scene.register("built-in", REPLACEMENT_RESPONDER, json!({})).await;
    let template = json!({"metadata": {"labels": {"app": "db"}},
        "spec": {"containers": [{"name": "app", "image": "app"}]}});
    scene
        .create::<StatefulSet>(
            json!({"metadata": {"name": "db"}, "spec": {"serviceName": "db", "replicas": 1,
            "selector": {"matchLabels": {"app": "db"}}, "template": template}}),
        )
        .await;
    let pod = scene.pod_until("db-0", "it is there", |_| true).await;
    scene.pods.ready("db-0").await.unwrap();
    let evacuation = scene.evacuate(&pod).await;
    let answer = scene.answered(&evacuation, Answer::Accept).await;
    assert_eq!(answer.reason.as_deref(), Some("NoReplacement"));
    let message = answer.message.unwrap();
    assert!(message.contains("StatefulSet db recreates the pod under the same name"), "{message}");
    scene.ends(&evacuation, "Evacuated Evicted").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_without_the_label_that_nothing_else_uses_is_accepted_with_the_reason_and_not_touched() {
    let scene = Scene::with("in-use", crate::options).await;
    scene.register("built-in", REPLACEMENT_RESPONDER, json!({})).await;
    let pods = Workload::of(1).replica_set(&scene).await;
    let evacuation = scene.evacuate(&pods[0]).await;
    let answer = scene.answered(&evacuation, Answer::Accept).await;
    let message = answer.message.unwrap();
    assert!(message.contains("does not select its pods by the label pod-template-hash"), "{message}");
    let name = pods[0].metadata.name.clone().unwrap();
    let pod = scene.pod_until(&name, "it is there", |_| true).await;
    assert_eq!(annotation(&pod, RELEASED_ANNOTATION), None);
    assert_eq!(pod.metadata.labels, pods[0].metadata.labels);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_without_a_controller_is_accepted_with_the_reason() {
    let scene = Scene::with("alone", crate::options).await;
    scene.register("built-in", REPLACEMENT_RESPONDER, json!({})).await;
    let pod = scene.pods.create("one", &PodSpec::default()).await.unwrap();
    let evacuation = scene.evacuate(&pod).await;
    let answer = scene.answered(&evacuation, Answer::Accept).await;
    assert!(answer.message.unwrap().contains("no controller recreates the pod"));
    scene.ends(&evacuation, "Evacuated Evicted").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_wants_one_pod_at_a_time_never_has_two() {
    let scene = Scene::with("one", crate::options).await;
    scene.register("built-in", REPLACEMENT_RESPONDER, json!({})).await;
    let strategy = |strategy| json!({"spec": {"strategy": strategy}});
    let template = |template| json!({"spec": {"template": template}});
    let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}});
    let port = json!([{"name": "app", "image": "app", "ports": [{"containerPort": 80, "hostPort": 18_080}]}]);
    let network = json!([{"name": "app", "image": "app", "ports": [{"containerPort": 18_081}]}]);
    let network = json!({"hostNetwork": true, "containers": network});
    let said = json!({"surge.evacuation.dev/one-at-a-time": "true"});
    let (volumes, volume) = claim(&scene).await;
    let uses_it = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
    let owners = [
        ("recreate", strategy(json!({"type": "Recreate"})), "Deployment recreate has the strategy Recreate"),
        ("no-surge", strategy(rolling), "Deployment no-surge has maxSurge 0"),
        ("port", template(json!({"spec": {"containers": port}})), "it takes port 18080 of its node"),
        (
            "network",
            template(json!({"spec": network})),
            "it takes port 18081 of its node, whose network it uses",
        ),
        (
            "claim",
            template(json!({"spec": {"volumes": uses_it}})),
            "its claim data has the access mode ReadWriteOncePod",
        ),
        ("said", template(json!({"metadata": {"annotations": said}})), "surge.evacuation.dev/one-at-a-time"),
    ];
    let asked = owners.map(|(name, patch, expected)| {
        let scene = &scene;
        async move {
            let mut owner = workload(name, 1, &json!({}));
            merge(&mut owner, patch);
            scene.create::<Deployment>(owner).await;
            let pod = scene.only_pod(name, None).await;
            let labels = format!("app={name}");
            let stays = |pod: &Pod| pod.metadata.deletion_timestamp.is_none();
            let staying = Availability::counting(scene.pods.api(), &labels, stays).await;
            let evacuation = scene.evacuate(&pod).await;
            let answer = scene.answered(&evacuation, Answer::Accept).await;
            assert_eq!(answer.reason.as_deref(), Some("NoReplacement"), "{name}");
            let message = answer.message.unwrap();
            assert!(message.contains(expected), "{message}");
            scene.ends(&evacuation, "Evacuated Evicted").await;
            let next = scene.only_pod(name, Some(&pod)).await;
            assert_eq!(annotation(&next, RELEASED_ANNOTATION), None);
            let (_, most) = staying.bounds().await;
            assert_eq!(most, 1, "{name}: pods that did not terminate");
        }
    });
    join_all(asked).await;
    volumes.delete(&volume, &DeleteParams::default()).await.unwrap();
}

/// Creates a claim `data` with a volume that one pod can have at a time. Returns the volume to delete at the
/// end.
async fn claim(scene: &Scene) -> (Api<PersistentVolume>, String) {
    let name = format!("data-{}", scene.namespace());
    let spec = json!({
        "accessModes": ["ReadWriteOncePod"], "capacity": {"storage": "1Gi"}, "storageClassName": "",
        "persistentVolumeReclaimPolicy": "Retain",
        "csi": {"driver": "volumes.test.evacuation.dev", "volumeHandle": name},
        "claimRef": {"namespace": scene.namespace(), "name": "data"},
    });
    let object = json!({"metadata": {"name": name}, "spec": spec});
    let volumes: Api<PersistentVolume> = Api::all(scene.admin());
    volumes.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    let spec = json!({
        "accessModes": ["ReadWriteOncePod"], "storageClassName": "", "volumeName": name,
        "resources": {"requests": {"storage": "1Gi"}},
    });
    scene.create::<PersistentVolumeClaim>(json!({"metadata": {"name": "data"}, "spec": spec})).await;
    (volumes, name)
}

/// Sets the fields of a patch.
fn merge(into: &mut serde_json::Value, patch: serde_json::Value) {
    match (into, patch) {
        (serde_json::Value::Object(into), serde_json::Value::Object(patch)) => {
            for (key, value) in patch {
                merge(into.entry(key).or_insert(serde_json::Value::Null), value);
            }
        }
        (into, patch) => *into = patch,
    }
}
