//! Two replicas that are replaced while a drain goes on.

use evacuation_client::{Answer, Question, Responder};
use evacuation_e2e::{
    PlatformOptions, PodSpec, Scene,
    scene::{Running, end_of},
};
use kube::api::EvictParams;
use serde_json::json;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

use crate::stage::{Stage, options, start};

/// Pods with an app that accepts after a while.
const PODS: usize = 12;

#[tokio::test(flavor = "multi_thread")]
async fn both_replicas_are_replaced_during_a_drain_and_no_app_is_passed_over() {
    let scene = Scene::alone("replicas", PlatformOptions { gateways: 2, ..options() });
    let stage = Stage::alone(scene).await;
    let mut apps: Vec<Running> = Vec::new();
    let (begin, replaced) = (CancellationToken::new(), CancellationToken::new());
    for number in 0..PODS {
        let patient = PodSpec::registered(&json!([{"name": "self", "timeoutSeconds": 600}]));
        let pod = stage.app_pod(&format!("app-{number}"), patient).await;
        let client = stage.client_of(&pod).await;
        // Each app keeps the drain waiting for some seconds more than the one before.
        let wait = Duration::from_secs(u64::try_from(number).unwrap() * 2);
        // The last one waits until the end of the replacements.
        let after = if number == PODS - 1 { replaced.clone() } else { begin.clone() };
        let app = Responder::of_pod(client).run(move |_: Question| {
            let after = after.clone();
            async move {
                after.cancelled().await;
                tokio::time::sleep(wait).await;
                Answer::accept()
            }
        });
        apps.push(tokio::spawn(app).into());
    }
    // One after the other: the questions of a whole drain at the same moment would test the CPU.
    for number in 0..PODS {
        stage.pods.api().evict(&format!("app-{number}"), &EvictParams::default()).await.unwrap_err();
    }
    let drain = start(stage.drain(&["--timeout=300s"]));
    begin.cancel();
    // kubectl tries every 5 s. This caller finds the gaps between its tries, too.
    let (pods, last) = (stage.pods.api(), format!("app-{}", PODS - 1));
    // A call that its caller gives up is audited as one that failed open, so it ends between two calls.
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let hammer = tokio::spawn(async move {
        while !stopped.is_cancelled() {
            pods.evict(&last, &EvictParams::default()).await.unwrap_err();
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    });
    for replica in [0, 1, 0, 1] {
        stage.gateway().restart(replica).await.unwrap();
    }
    stop.cancel();
    hammer.await.expect("no call passed while the replicas were replaced");
    assert!(!drain.is_finished(), "the replicas were replaced during the drain");
    replaced.cancel();
    let drained = drain.await.unwrap();
    assert!(drained.success(), "{drained:?}");
    let failed_open = stage.failed_open();
    assert!(failed_open.is_empty(), "the kube-apiserver let calls pass: {failed_open:?}");
    let evacuations = stage.all_evacuations().await;
    assert_eq!(evacuations.len(), PODS);
    for evacuation in &evacuations {
        let ended = stage.until(evacuation, "the evacuation has ended", |e| end_of(e).is_some()).await;
        assert_eq!(evacuation_e2e::scene::first(&ended).answer, Some(evacuation_api::Answer::Accept));
    }
}
