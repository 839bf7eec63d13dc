//! What a drain remembers of its pods, and how long the drain itself is kept.

use std::time::Duration;

use anyhow::bail;
use controlplane::eventually;
use evacuation_api::{DrainConditionType, DrainedNodePhase};
use evacuation_client::Answer;
use evacuation_e2e::{
    PodSpec,
    scene::{PATIENCE, end_of, quick},
};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::json;

use crate::nodes::{Stage, holders, is_cordoned, phases};

async fn pod(stage: &Stage, name: &str) -> Pod {
    stage.scene.pod(name, quick(PodSpec::watching()).on(&stage.nodes[0])).await
}

/// Deletes the Evacuation of a pod, and waits until it is gone.
async fn delete_evacuation(stage: &Stage, pod: &str) {
    let name = stage.scene.evacuation_of(pod).await.name_any();
    let api = stage.scene.evacuations();
    api.delete(&name, &DeleteParams::default()).await.unwrap();
    let gone = eventually(PATIENCE, "the evacuation is gone", || async {
        match api.get_opt(&name).await? {
            Some(found) => bail!("{found:?}"),
            None => Ok(()),
        }
    });
    gone.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_were_left_alone_are_asked_once_also_when_their_evacuations_are_deleted() {
    let stage = Stage::new("once", 1).await;
    let (refuses, canceled, last) =
        (pod(&stage, "refuses").await, pod(&stage, "canceled").await, pod(&stage, "last").await);
    let _refuses = stage.scene.app(&refuses, |_| async { Answer::refuse("not now") }).await;
    let _delays = stage.scene.app(&canceled, |_| async { Answer::delay(Duration::from_mins(10)) }).await;
    let drain = json!({"requester": {"onRefusal": "GiveUp"}, "pods": {"unmanaged": "Evict"}});
    stage.drain("d", &[0], drain).await;
    stage.until("d", "one app delays", |status| status.pods.delayed == 1).await;
    let answered = stage.scene.evacuation_of("refuses").await.name_any();
    let ended = stage.scene.pods.until(&answered, "it has ended", |e| end_of(e).is_some()).await.unwrap();
    assert_eq!(end_of(&ended).as_deref(), Some("Failed Refused"));

    // An ended one, as at the end of its time to live, and one in progress.
    delete_evacuation(&stage, "refuses").await;
    delete_evacuation(&stage, "canceled").await;
    let status = stage.until("d", "both are recorded", |status| status.left_alone.len() == 2).await;
    let mut known: Vec<_> = status.left_alone.iter().map(|p| (p.pod.clone(), p.reason.clone())).collect();
    known.sort();
    let namespace = stage.scene.namespace();
    let expected = [("canceled", "Canceled"), ("refuses", "Refused")]
        .map(|(pod, reason)| (format!("{namespace}/{pod}"), Some(reason.to_owned())));
    assert_eq!(known, expected);

    let _accepts = stage.scene.app(&last, |_| async { Answer::accept() }).await;
    let status =
        stage.until("d", "the drain has ended", |status| status.is_true(DrainConditionType::Failed)).await;
    assert_eq!(phases(&status), [DrainedNodePhase::Failed]);
    assert_eq!(status.blockers.iter().filter(|b| b.reason == "LeftAlone").count(), 2, "{status:?}");
    let all = stage.scene.evacuations().list(&ListParams::default()).await.unwrap().items;
    let asked: Vec<&str> = all.iter().map(|e| e.spec.target.pod.name.as_str()).collect();
    assert_eq!(asked, ["last"], "no pod was asked again");
    assert!(stage.scene.stays(&refuses).await && stage.scene.stays(&canceled).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_whose_time_to_live_is_over_is_deleted_and_its_node_uncordoned() {
    let stage = Stage::new("ttl", 1).await;
    stage.drain("keeps", &[0], json!({})).await;
    stage.drained("keeps").await;
    stage.drain("d", &[0], json!({"ttlSecondsAfterFinished": 3})).await;
    let ended = stage.drained("d").await.finish_time.unwrap().0;
    stage.gone("d").await;
    let passed = chrono::Utc::now() - ended;
    assert!(passed >= chrono::TimeDelta::seconds(2), "it was kept for {passed}");
    let node = stage.node(0).await;
    assert!(is_cordoned(&node), "another drain holds it");
    assert_eq!(holders(&node), Some(stage.name("keeps").as_str()));
    stage.delete("keeps").await;

    stage.drain("d", &[0], json!({"ttlSecondsAfterFinished": 0})).await;
    stage.gone("d").await;
    let node = stage.node(0).await;
    assert!(!is_cordoned(&node) && holders(&node).is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loss_that_the_rules_allow_is_told_in_an_event_of_the_drain() {
    let stage = Stage::new("loss", 1).await;
    pod(&stage, "lonely").await;
    let drain = stage.drain("d", &[0], json!({"pods": {"unmanaged": "Evict"}})).await.name_any();
    let events: Api<Event> = Api::namespaced(stage.scene.admin(), "default");
    let of_drain = ListParams::default().fields(&format!("involvedObject.name={drain},reason=PodLost"));
    let told = eventually(PATIENCE, "the loss is told", || async {
        match events.list(&of_drain).await?.items.into_iter().next() {
            Some(event) => Ok(event),
            None => bail!("no event"),
        }
    });
    let note = told.await.unwrap().message.unwrap_or_default();
    assert!(note.contains("no controller creates it again, because of spec.pods.unmanaged: Evict"), "{note}");
}

/// The second pod takes the name of the first on the same node, as soon as the name is free.
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_comes_back_under_its_name_on_the_same_node_counts_as_another() {
    let stage = Stage::new("again", 1).await;
    let silent = json!([{"name": "self", "timeoutSeconds": 600}]);
    stage.scene.pod("last", PodSpec::registered(&silent).on(&stage.nodes[0])).await;
    let first = stage.scene.pod("app", PodSpec::default().on(&stage.nodes[0])).await;
    let second: Pod = serde_json::from_value(json!({
        "metadata": {
            "name": "app",
            "annotations": first.annotations(),
            // The kubelet that kwok plays deletes by name: its second try can reach this pod, too.
            "finalizers": ["test.evacuation.dev/seen"],
        },
        "spec": {"nodeName": stage.nodes[0], "containers": [{"name": "app", "image": "app"}]},
    }))
    .unwrap();
    stage.drain("d", &[0], json!({"pods": {"unmanaged": "Evict"}})).await;
    let (api, post) = (stage.scene.pods.api(), PostParams::default());
    let second = eventually(PATIENCE, "the name is free", || api.create(&post, &second));
    let second = second.await.unwrap();
    assert_ne!(first.uid(), second.uid());
    stage.until("d", "the pod counts", |status| status.pods.total == 3).await;
    stage.scene.pod_until(&second, "it terminates", |pod| pod.metadata.deletion_timestamp.is_some()).await;
    stage.scene.finalizers(&second, &[]).await;
    stage.scene.pods.gone(&second).await.unwrap();
    let status = stage.until("d", "two pods are gone", |status| status.pods.gone == 2).await;
    assert_eq!((status.pods.total, status.pods.asked), (3, 1), "{status:?}");
    let ask_no_more = json!({"requester": {"deadlineSeconds": 1, "atDeadline": "Evict"}});
    stage.change("d", ask_no_more).await;
    let status = stage.drained("d").await;
    assert_eq!((status.pods.total, status.pods.gone), (3, 3), "{status:?}");
    assert!(status.nodes[0].counted_pods.is_empty(), "{status:?}");
}
