//! Pods that have ended, are going, or come back: what an Evacuation of them is.

use controlplane::eventually;
use evacuation_e2e::{
    PlatformOptions, PodSpec, Scene,
    scene::{
        ASKER, PATIENCE, answer, condition, end_of, entry, fields, post, refused_saying, responder, wanting,
    },
};
use k8s_openapi::api::{
    apps::v1::DaemonSet,
    core::v1::{Event, Node, Pod},
};
use kube::{
    Api, ResourceExt,
    api::{ListParams, PostParams},
};
use serde_json::json;

fn wanted(pod: &str) -> serde_json::Value {
    json!(wanting(pod, &[entry(ASKER, json!({}))]))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_has_ended_ends_the_evacuation_at_once() {
    let scene = Scene::new("completed").await;
    let pod = PodSpec::watching()
        .annotation("controlplane.test/phase", "Succeeded")
        .annotation("controlplane.test/running-after", "100ms");
    let created = scene
        .raw_pod(&json!({
            "metadata": {"name": "job", "annotations": pod.annotations.iter().cloned().collect::<std::collections::BTreeMap<_, _>>()},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "app", "image": "app"}]},
        }))
        .await;
    let api = scene.pods.api();
    let completed = eventually(PATIENCE, "the pod has ended", || async {
        let phase = api.get("job").await.unwrap().status.and_then(|status| status.phase);
        if phase.as_deref() == Some("Succeeded") { Ok(()) } else { Err(format!("{phase:?}")) }
    });
    completed.await.unwrap();
    let posted = post(&scene.admin(), scene.namespace(), "", &wanted("job")).await;
    assert!(posted.warnings.iter().any(|warning| warning.contains("has ended")), "{posted:?}");
    let evacuation = posted.created();
    scene.ends(&evacuation, "Evacuated TerminatedInPlace").await;
    assert!(scene.stays(&created).await, "there was nothing to evict");
    assert!(scene.evictions("job").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_is_terminating_is_not_asked_and_the_evacuation_ends_when_it_is_gone() {
    let scene = Scene::new("terminating").await;
    let pod = scene.pod("app", PodSpec::watching()).await;
    scene.finalizers(&pod, &["test.evacuation.dev/hold"]).await;
    scene.delete_pod("app").await;
    let posted = post(&scene.admin(), scene.namespace(), "", &wanted("app")).await;
    assert!(posted.warnings.iter().any(|warning| warning.contains("is terminating")), "{posted:?}");
    let evacuation = posted.created();
    let seen = scene
        .until(&evacuation, "the controller has seen it", |e| {
            e.status.as_ref().is_some_and(|s| s.observed_generation.is_some())
        })
        .await;
    assert_eq!(end_of(&seen), None);
    scene.finalizers(&pod, &[]).await;
    let ended = scene.ends(&evacuation, "Evacuated GoneByOther").await;
    assert_eq!(responder(&ended, 0).and_then(|responder| responder.active_time), None, "nobody is asked");
    assert!(scene.evictions("app").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_is_deleted_by_somebody_else_ends_the_evacuation() {
    let scene = Scene::new("deleted").await;
    let pod = scene.pod("app", PodSpec::watching()).await;
    let evacuation = scene.ask_and_reach(&pod, json!({})).await;
    scene.delete_pod("app").await;
    scene.ends(&evacuation, "Evacuated GoneByOther").await;
    assert!(scene.evictions("app").is_empty());
    let said = scene.event("Pod", "app", "DeletedDespiteAnswer").await;
    assert!(said.contains("although responder self was being asked"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_refused_and_is_deleted_by_somebody_else_is_named() {
    // A platform of its own: the metric counts the pods of all namespaces.
    let scene = Scene::alone("despite", PlatformOptions::default()).await;
    let pod = scene.pod("app", PodSpec::watching()).await;
    let evacuation = scene.ask_and_reach(&pod, json!({"onRefusal": "Wait"})).await;
    answer(&scene.client_of(&pod).await, &evacuation, json!({"answer": "Refuse"})).await.unwrap();
    scene.delete_pod("app").await;
    let ended = scene.ends(&evacuation, "Evacuated GoneByOther").await;
    let is_warning = |event: &Event| {
        event.reason.as_deref() == Some("DeletedDespiteAnswer") && event.type_.as_deref() == Some("Warning")
    };
    let said = scene.event_where("a warning of the deletion", is_warning).await;
    assert!(said.contains("although responder self had refused"), "{said}");
    assert_eq!(evacuation_protocol::state_word(&ended), "DeletedDespiteAnswer");
    let counted = eventually(PATIENCE, "it is counted", || async {
        let text = scene.platform().controller_metrics().await.map_err(|error| error.to_string())?;
        let line = "evacuation_controller_pods_deleted_despite_answer_total 1";
        if text.lines().any(|known| known == line) { Ok(()) } else { Err(text) }
    });
    counted.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mirror_pod_is_refused() {
    let scene = Scene::new("mirror").await;
    let nodes: Api<Node> = Api::all(scene.admin());
    let node = nodes.list(&ListParams::default()).await.unwrap().items[0].name_any();
    let mirror = PodSpec::default().annotation("kubernetes.io/config.mirror", "x").on(&node);
    scene.pod("static", mirror).await;
    let refused = scene
        .evacuations()
        .create(&PostParams::default(), &wanting("static", &[entry(ASKER, json!({}))]))
        .await;
    let status = refused_saying(refused, 422, "mirror pod");
    assert_eq!(fields(&status), ["spec.target.pod.name"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_of_a_daemon_set_is_evicted_with_a_warning() {
    let scene = Scene::new("daemons").await;
    let labels = json!({"app": "daemon"});
    let set = json!({
        "metadata": {"name": "daemon"},
        "spec": {"selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels, "annotations": {
                "controlplane.test/running-after": "100ms", "controlplane.test/gone-after": "100ms",
            }},
            "spec": {"containers": [{"name": "app", "image": "app"}]},
        }},
    });
    let sets: Api<DaemonSet> = Api::namespaced(scene.admin(), scene.namespace());
    sets.create(&PostParams::default(), &serde_json::from_value(set).unwrap()).await.unwrap();
    let pods: Api<Pod> = scene.pods.api();
    let pod = eventually(PATIENCE, "the set has a pod", || async {
        let all = pods.list(&ListParams::default()).await.unwrap().items;
        all.into_iter().next().ok_or("no pod")
    });
    let pod = scene.pods.ready(&pod.await.unwrap().name_any()).await.unwrap();
    let posted = post(&scene.admin(), scene.namespace(), "", &wanted(&pod.name_any())).await;
    assert!(posted.warnings.iter().any(|warning| warning.contains("belongs to a DaemonSet")), "{posted:?}");
    let ended = scene.ends(&posted.created(), "Evacuated Evicted").await;
    assert_eq!(condition(&ended, "Failed"), None);
}
