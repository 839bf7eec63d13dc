//! The API server's etcd goes back to an older snapshot while a node is drained.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use anyhow::{bail, ensure};
use controlplane::eventually;
use evacuation_api::{Answer, DrainConditionType, Evacuation, NodeEvacuation};
use evacuation_client::{Answer as Reply, Question};
use evacuation_e2e::{
    PlatformOptions, PodSpec, Pool, Scene,
    scene::{Bystander, PATIENCE, answer, end_of, refused, status},
};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, EvictParams, ListParams, PostParams},
};
use serde_json::json;
use tokio::sync::Notify;

use crate::worker::Worker;

/// Arguments of `etcdutl snapshot restore` by which no revision names two states.
const BUMPED: [&str; 2] = ["--bump-revision=1000000", "--mark-compacted"];

/// Two API servers, each with a view of its own, and a gateway with another.
static REPLICAS: Pool = Pool::new(1, || {
    let configuration =
        "apiVersion: gateway.evacuation.dev/v1alpha1\nkind: GatewayConfiguration\ncallers: []\n".to_owned();
    PlatformOptions { apiservers: 2, gateway: Some(configuration), ..PlatformOptions::default() }
});

/// A pod on that node whose app is asked and has time to answer.
async fn patient(scene: &Scene, name: &str, node: &str) -> Pod {
    let spec = PodSpec::registered(&json!([{"name": "self", "timeoutSeconds": 120}]));
    scene.pod(name, spec.on(node)).await
}

/// Creates the drain of a node that waits where an app refuses.
async fn drain(scene: &Scene, node: &str) -> (Api<NodeEvacuation>, String) {
    let name = format!("d-{}", scene.namespace());
    let drain = json!({
        "metadata": {"name": name},
        "spec": {
            "nodes": {"names": [node]}, "pods": {"unmanaged": "Evict"}, "requester": {"onRefusal": "Wait"},
        },
    });
    let drains: Api<NodeEvacuation> = Api::all(scene.admin());
    drains.create(&PostParams::default(), &serde_json::from_value(drain).unwrap()).await.unwrap();
    (drains, name)
}

/// Answers as the app of that pod.
async fn says(scene: &Scene, pod: &Pod, to: &Evacuation, word: &str, seconds: Option<u32>) {
    let spec = json!({"answer": word, "delaySeconds": seconds});
    answer(&scene.client_of(pod).await, to, spec).await.unwrap();
}

/// The names of the scene's Evacuations, as the API server at that place shows them from its store and from
/// its cache. Both must be the same.
async fn shown(scene: &Scene, place: usize) -> anyhow::Result<BTreeSet<String>> {
    let api: Api<Evacuation> = Api::namespaced(scene.direct(place), scene.namespace());
    let stored = api.list(&ListParams::default()).await?.items;
    let cached = api.list(&ListParams::default().match_any()).await?.items;
    let [stored, cached] =
        [stored, cached].map(|items| items.iter().map(ResourceExt::name_any).collect::<BTreeSet<_>>());
    ensure!(stored == cached, "{stored:?} in the store, {cached:?} in the cache");
    Ok(stored)
}

/// The number of Evacuations that the controller counts.
async fn counted(scene: &Scene) -> anyhow::Result<f64> {
    let url = format!("http://127.0.0.1:{}/metrics", scene.platform().metrics_ports()[0]);
    let text = reqwest::get(url).await?.error_for_status()?.text().await?;
    let lines = text.lines().filter(|line| line.starts_with("evacuation_controller_evacuations{"));
    Ok(lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum())
}

/// The number of times that the controller has started anew.
fn starts(scene: &Scene) -> usize {
    let log = scene.platform().controllers()[0].log().unwrap();
    log.matches("starting from fresh lists").count()
}

/// Waits until every API server and the controller know exactly these Evacuations of the scene.
async fn knows(scene: &Scene, expected: &BTreeSet<String>) {
    for place in 0..scene.platform().apiservers().len() {
        let known = eventually(PATIENCE, "the API server shows no ghost", || async move {
            let names = shown(scene, place).await?;
            ensure!(names == *expected, "{names:?}");
            anyhow::Ok(())
        });
        known.await.unwrap();
    }
    let known = eventually(PATIENCE, "the controller knows no ghost", || async {
        let all: Api<Evacuation> = Api::all(scene.admin());
        let live = all.list_metadata(&ListParams::default()).await?.items.len();
        let counted = counted(scene).await?;
        #[allow(clippy::cast_precision_loss, reason = "a few objects")]
        let difference = counted - live as f64;
        ensure!(difference.abs() < 0.5, "{counted} counted, {live} listed");
        anyhow::Ok(())
    });
    known.await.unwrap();
}

/// Returns how often a pod was evicted.
fn times_evicted(scene: &Scene, pod: &str) -> usize {
    scene.evictions(pod).iter().filter(|event| event.code() == 201).count()
}

/// Evicts a pod, until the gateway holds the call with those words.
async fn is_held(scene: &Scene, pod: &str, words: &str) {
    let held = eventually(PATIENCE, "the gateway holds the call", || async {
        let status = refused(scene.pods.api().evict(pod, &EvictParams::default()).await);
        ensure!(status.code == 429 && status.message.contains(words), "{status:?}");
        anyhow::Ok(())
    });
    held.await.unwrap();
}

/// Restores a snapshot of the middle of a drain, after the drain went on.
///
/// By the time of the snapshot one pod is gone, one app was granted a delay, one refused, and two are asked.
/// Afterwards one of the two accepts and is evicted, the other is granted a delay, and a pod elsewhere is
/// asked.
async fn a_drain_ends_well_after(arguments: &[&str]) {
    let scene = Scene::from_pool("back", &REPLICAS).await;
    let etcd = scene.platform().etcd().unwrap();
    let (beside, node) = tokio::join!(Bystander::new(&scene), scene.own_node());
    let worker = Worker::new(Duration::from_mins(1));
    let early = scene.pod("early", PodSpec::default().on(&node)).await;
    let granted = patient(&scene, "granted", &node).await;
    let refusing = patient(&scene, "refusing", &node).await;
    let accepting = patient(&scene, "accepting", &node).await;
    let late = patient(&scene, "late", &node).await;
    let elsewhere = scene.pod("elsewhere", PodSpec::watching()).await;
    let _granted_app = scene.app(&granted, worker.handler()).await;
    let decided = Arc::new(Notify::new());
    let _late_app = {
        let decided = Arc::clone(&decided);
        let handler = move |_: Question| {
            let decided = Arc::clone(&decided);
            async move {
                decided.notified().await;
                Reply::delay(Duration::from_mins(20))
            }
        };
        scene.app(&late, handler).await
    };

    let (drains, drain) = drain(&scene, &node).await;
    let of_granted = scene.evacuation_of("granted").await;
    let of_refusing = scene.evacuation_of("refusing").await;
    let of_accepting = scene.evacuation_of("accepting").await;
    let of_late = scene.evacuation_of("late").await;
    scene.until_state(&of_granted, "Delayed").await;
    for asked in [&of_refusing, &of_accepting, &of_late] {
        scene.reached(asked, 0).await;
    }
    says(&scene, &refusing, &of_refusing, "Refuse", None).await;
    scene.answered(&of_refusing, Answer::Refuse).await;
    let of_early = scene.evacuation_of("early").await;
    scene.ends(&of_early, "Evacuated Evicted").await;
    let expected = shown(&scene, 0).await.unwrap();
    assert_eq!(expected.len(), 5, "{expected:?}");

    let folder = tempfile::tempdir().unwrap();
    let snapshot = folder.path().join("snapshot");
    etcd.save_snapshot(&snapshot).await.unwrap();
    says(&scene, &accepting, &of_accepting, "Accept", None).await;
    scene.ends(&of_accepting, "Evacuated Evicted").await;
    scene.pods.gone(&accepting).await.unwrap();
    decided.notify_one();
    scene.answered(&of_late, Answer::Delay).await;
    is_held(&scene, "elsewhere", "has not answered").await;
    let ghost = scene.reached(&scene.evacuation_of("elsewhere").await, 0).await;
    says(&scene, &elsewhere, &ghost, "Delay", Some(600)).await;
    scene.answered(&ghost, Answer::Delay).await;
    is_held(&scene, "elsewhere", "asked for time").await;
    let starts_before = starts(&scene);

    etcd.restore_snapshot(&snapshot, arguments).await.unwrap();
    let started = eventually(PATIENCE, "the controller starts from fresh lists", || async {
        if starts(&scene) > starts_before { Ok(()) } else { bail!("it has not seen the restore") }
    });
    started.await.unwrap();
    knows(&scene, &expected).await;
    is_held(&scene, "granted", "asked for time").await;
    // The app of the lost delay gives its answer again, without being asked by its test.
    scene.answered(&of_late, Answer::Delay).await;
    let gone = scene.until(&of_accepting, "the pod is found to be gone", |e| end_of(e).is_some()).await;
    assert_eq!(end_of(&gone).as_deref(), Some("Evacuated GoneByOther"), "{:?}", status(&gone));
    beside.drains(&scene).await;

    let (mut names, api) = (Vec::new(), scene.pods.api());
    for pod in [&early, &granted, &refusing, &accepting, &late, &elsewhere] {
        if api.get_opt(&pod.name_any()).await.unwrap().is_some_and(|live| live.uid() == pod.uid()) {
            names.push(pod.name_any());
        }
    }
    assert_eq!(names, ["granted", "refusing", "late", "elsewhere"], "an app that delays or refuses is heard");
    let status = drains.get(&drain).await.unwrap().status.unwrap_or_default();
    assert!(!status.is_true(DrainConditionType::Finished), "{status:?}");

    worker.finish();
    says(&scene, &refusing, &of_refusing, "Accept", None).await;
    says(&scene, &late, &of_late, "Accept", None).await;
    let ended = eventually(PATIENCE, "the drain has ended", || async {
        let status = drains.get(&drain).await?.status.unwrap_or_default();
        if status.is_true(DrainConditionType::Finished) {
            return Ok(status);
        }
        bail!("{}", serde_json::to_string(&status)?)
    });
    let status = ended.await.unwrap();
    assert!(status.is_true(DrainConditionType::Drained), "{status:?}");
    for pod in ["early", "granted", "refusing", "accepting", "late"] {
        assert_eq!(times_evicted(&scene, pod), 1, "{pod}");
    }
    assert!(scene.stays(&elsewhere).await);
    assert_eq!(times_evicted(&scene, "elsewhere"), 0, "the ghost evicts nobody");
    knows(&scene, &expected).await;
    // What the gateway has read and written itself is gone with the rest.
    is_held(&scene, "elsewhere", "has not answered").await;
    assert_ne!(scene.evacuation_of("elsewhere").await.name_any(), ghost.name_any());
    drains.delete(&drain, &DeleteParams::default()).await.unwrap();
}

/// # Attack
///
/// - Attacker: an operator who restores etcd without `--bump-revision`, while a node is drained
/// - Act: brings back Evacuations that have ended, and takes away answers, under revisions that were used
/// - Promise: 10, 11
#[tokio::test(flavor = "multi_thread")]
async fn a_drain_whose_etcd_went_back_to_an_older_snapshot_evicts_each_pod_once_and_passes_over_nobody() {
    a_drain_ends_well_after(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_whose_etcd_was_restored_with_a_bumped_revision_evicts_each_pod_once_and_passes_over_nobody()
{
    a_drain_ends_well_after(&BUMPED).await;
}
