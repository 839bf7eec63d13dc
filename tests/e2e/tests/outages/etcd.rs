//! The API server's etcd goes away.

use std::time::Duration;

use evacuation_client::Answer;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::worker;

/// Length of the outage.
const OUTAGE: Duration = Duration::from_secs(30);
/// For how long nothing lapses afterwards: what the design promises, less a second, for times are whole
/// seconds.
const CALM: SignedDuration = SignedDuration::from_secs(29);

#[tokio::test(flavor = "multi_thread")]
async fn a_delay_that_ends_while_etcd_is_down_lapses_only_thirty_seconds_after_it_is_back() {
    let scene = worker::scene("etcd").await;
    let answer = |_| async { Answer::delay(Duration::from_secs(15)).message("finishing") };
    let (pod, _app) = worker::app(&scene, "db-0", answer).await;
    let evacuation = scene.evacuate("db-0").await;
    let before = scene.until_state(evacuation.name(), "Delayed").await;

    let etcd = scene.platform().etcd().unwrap();
    etcd.stop().unwrap();
    // The outage itself, which outlasts the delay.
    tokio::time::sleep(OUTAGE).await;
    assert!(scene.stays(&pod).await);
    assert!(
        scene.pods.evacuations().get(evacuation.name()).await.is_err(),
        "nobody reads what is in no store"
    );
    let recovered = Timestamp::now();
    etcd.start_again().await.unwrap();

    let after = scene.pods.until(evacuation.name(), "the API is back", |_| true).await.unwrap();
    assert_eq!((&after.spec, &after.status), (&before.spec, &before.status), "nothing was lost");
    assert!(scene.stays(&pod).await);
    scene.pods.ended(evacuation.name()).await.unwrap();
    scene.pods.gone(&pod).await.unwrap();
    let evictions = scene.evicted();
    assert_eq!(evictions.len(), 1, "{evictions:?}");
    assert!(evictions[0] >= recovered + CALM, "recovered at {recovered}, evicted at {evictions:?}");
}
