//! Story 7: a pod that is never restarted ends by itself, and its object stays, to be read by whoever
//! collects results.

use evacuation_e2e::{PodSpec, Scene};
use std::{sync::Arc, time::Duration};

use evacuation_client::{Answer, Question};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tokio::sync::Notify;

#[tokio::test(flavor = "multi_thread")]
async fn an_app_that_ends_by_itself_leaves_its_pod_object_behind() {
    let scene = Scene::new("in-place").await;
    let responders = PodSpec::watching().responders;
    let job: Pod = scene
        .create(json!({
            "metadata": {"name": "job", "annotations": {
                "evacuation.dev/responders": responders, "controlplane.test/running-after": "100ms",
            }},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "app", "image": "app"}]},
        }))
        .await;
    let job = scene.pods.ready(&job.name_any()).await.unwrap();
    let asked = Arc::new(Notify::new());
    let heard = Arc::clone(&asked);
    let _app = scene
        .app(&job, move |question: Question| {
            heard.notify_one();
            // It ends when its process does; until then it wants to be left alone.
            async move {
                let _ = question.hold(Duration::from_secs(20), std::future::pending::<()>()).await;
                Answer::accept()
            }
        })
        .await;
    let evacuation = scene.requester("repair.acme.io/rack-7").evacuate_pod(&job).await.unwrap();
    asked.notified().await;
    scene
        .until(evacuation.name(), "the app asks for time", |e| {
            evacuation_protocol::state_word(e) == "Delayed"
        })
        .await;
    assert!(scene.stays(&job).await);

    // What its kubelet reports once the app has ended.
    let ended = json!({"status": {"phase": "Succeeded", "containerStatuses": [{
        "name": "app", "image": "app", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"terminated": {"exitCode": 0, "reason": "Completed"}},
    }]}});
    let api = scene.pods.api();
    let params = PatchParams::default();
    api.patch_status("job", &params, &Patch::Merge(ended)).await.unwrap();
    scene.ends(evacuation.name(), "Evacuated TerminatedInPlace").await;
    assert!(scene.stays(&job).await, "its object is still there");
    assert_eq!(scene.all_evictions().len(), 0);
}
