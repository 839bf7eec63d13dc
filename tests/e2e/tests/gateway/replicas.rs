//! Two replicas that are replaced while a drain goes on.

use evacuation_client::{Answer, Question, Responder};
use evacuation_e2e::{
    PlatformOptions, PodSpec, Scene,
    scene::{Running, end_of},
};
use kube::api::EvictParams;
use std::time::Duration;

use crate::stage::{CPU, Stage, options, start};

/// Pods with an app that accepts after a while.
const PODS: usize = 12;

#[tokio::test(flavor = "multi_thread")]
async fn both_replicas_are_replaced_during_a_drain_and_no_app_is_passed_over() {
    let _alone = CPU.lock().await;
    let scene = Scene::alone("replicas", PlatformOptions { gateways: 2, ..options() }).await;
    let stage = Stage::of(scene).await;
    let mut apps: Vec<Running> = Vec::new();
    for number in 0..PODS {
        let pod = stage.app_pod(&format!("app-{number}"), PodSpec::watching()).await;
        let client = stage.client_of(&pod).await;
        // Each app keeps the drain waiting for some seconds more than the one before.
        let wait = Duration::from_secs(u64::try_from(number).unwrap() * 2);
        let app = Responder::of_pod(client).run(move |_: Question| async move {
            tokio::time::sleep(wait).await;
            Answer::accept()
        });
        apps.push(tokio::spawn(app).into());
    }
    let drain = start(stage.drain(&["--timeout=100s"]));
    stage.evacuation_of("app-0").await;
    // kubectl tries every 5 s. This caller finds the gaps between its tries, too.
    let (pods, last) = (stage.pods.api(), format!("app-{}", PODS - 1));
    let hammer: Running = tokio::spawn(async move {
        loop {
            pods.evict(&last, &EvictParams::default()).await.unwrap_err();
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    })
    .into();
    for replica in [0, 1, 0, 1] {
        stage.gateway().restart(replica).await.unwrap();
    }
    drop(hammer);
    assert!(!drain.is_finished(), "the replicas were replaced during the drain");
    let drained = drain.await.unwrap();
    assert!(drained.success(), "{drained:?}");
    let failed_open = stage.all_evictions().into_iter().filter(|event| {
        let annotations = event.value().get("annotations").and_then(|all| all.as_object());
        annotations.into_iter().flatten().any(|(key, _)| key.starts_with("failed-open"))
    });
    assert_eq!(failed_open.count(), 0, "the kube-apiserver let no call pass");
    let evacuations = stage.all_evacuations().await;
    assert_eq!(evacuations.len(), PODS);
    for evacuation in &evacuations {
        let ended = stage.until(evacuation, "the evacuation has ended", |e| end_of(e).is_some()).await;
        assert_eq!(evacuation_e2e::scene::first(&ended).answer, Some(evacuation_api::Answer::Accept));
    }
}
