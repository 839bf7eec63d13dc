//! The kube-apiserver goes away: nobody reaches anybody.

use std::time::Duration;

use evacuation_api::{Evacuation, ResponderState, ResponderStatus};
use evacuation_client::End;
use k8s_openapi::jiff::Timestamp;

use crate::worker::{self, Worker};

/// Length of the outage.
const OUTAGE: Duration = Duration::from_secs(30);
/// Length of each delay that the app asks for: it ends during the outage.
const STEP: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread")]
async fn an_app_that_renews_its_delay_keeps_its_pod_through_thirty_seconds_without_kube_apiserver() {
    let scene = worker::scene("kube").await;
    let worker = Worker::new(STEP);
    let (pod, _app) = worker::app(&scene, "db-0", worker.handler()).await;
    let evacuation = scene.evacuate("db-0").await;
    let before = scene.until_state(evacuation.name(), "Delayed").await;
    let waiting = tokio::spawn({
        let evacuation = evacuation.clone();
        async move { evacuation.wait().await }
    });

    let kube_apiserver = scene.control_plane().apiserver();
    kube_apiserver.stop().unwrap();
    // The outage itself, which outlasts the delay.
    tokio::time::sleep(OUTAGE).await;
    kube_apiserver.start().await.unwrap();

    // The app reconnects by itself, and its delay holds.
    let renewed = |since: &Evacuation| {
        let granted = delay_until(since);
        move |e: &Evacuation| delay_until(e) > granted
    };
    let once = scene.pods.until(evacuation.name(), "the delay is renewed", renewed(&before)).await.unwrap();
    let twice =
        scene.pods.until(evacuation.name(), "the delay is renewed again", renewed(&once)).await.unwrap();
    assert_eq!(twice.spec, before.spec, "nothing was lost");
    assert_eq!(responder(&twice).state, ResponderState::Active);
    assert!(scene.stays(&pod).await);
    assert!(scene.evicted().is_empty());

    let finished = Timestamp::now();
    worker.finish();
    let end = waiting.await.unwrap().unwrap();
    assert!(matches!(&end, End::Evacuated { reason, .. } if reason == "Evicted"), "{end}");
    let evictions = scene.evicted();
    assert_eq!(evictions.len(), 1, "{evictions:?}");
    assert!(evictions[0] >= finished, "done at {finished}, evicted at {evictions:?}");
}

fn responder(evacuation: &Evacuation) -> &ResponderStatus {
    let status = evacuation.status.as_ref().unwrap();
    &status.responders.as_deref().unwrap()[0]
}

fn delay_until(evacuation: &Evacuation) -> Option<chrono::DateTime<chrono::Utc>> {
    responder(evacuation).delay_until.map(|time| time.0)
}
