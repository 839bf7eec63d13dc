//! The API server's etcd has no space: reads succeed, and every write fails.

use std::time::Duration;

use evacuation_api::Answer;
use evacuation_e2e::{
    Platform, PlatformOptions, PodSpec, Scene,
    scene::{in_millis, until_time},
};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::worker;

/// Quota of etcd, small enough to be filled at once.
const QUOTA: &str = "--quota-backend-bytes=16777216";
/// The delay that the app asks for: it ends during the outage.
const DELAY: Duration = Duration::from_secs(15);
/// Time for which etcd has no space.
const OUTAGE: chrono::TimeDelta = chrono::TimeDelta::seconds(60);

fn etcd(platform: &Platform) -> &controlplane::Etcd {
    platform.etcd().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn while_etcd_has_no_space_no_delay_ends_and_afterwards_deadlines_act() {
    let options = PlatformOptions { etcd_args: vec![QUOTA.to_owned()], ..PlatformOptions::default() };
    let scene = Scene::alone("space", options).await;
    let answer = |_| async { evacuation_client::Answer::delay(DELAY) };
    let (delaying, _app) = worker::app(&scene, "db-0", answer).await;
    let late = scene.pod("late-0", PodSpec::watching()).await;
    let delayed = scene.evacuate("db-0").await;
    let granted = scene.answered(&delayed, Answer::Delay).await.delay_until.unwrap().0;
    let deadline = json!({"deadline": in_millis(10_000), "atDeadline": "Evict"});
    let due = scene.ask_and_reach(&late, deadline).await;

    let began = chrono::Utc::now();
    etcd(scene.platform()).fill().await.unwrap();
    let patch = Patch::Merge(json!({"metadata": {"annotations": {"a": "b"}}}));
    let refused =
        scene.evacuations().patch(delayed.name(), &PatchParams::default(), &patch).await.unwrap_err();
    assert!(matches!(&refused, kube::Error::Api(status) if status.code >= 500), "{refused:?}");
    until_time(began + OUTAGE).await;
    assert!(granted < chrono::Utc::now(), "the delay ended during the outage");
    assert!(scene.stays(&delaying).await, "the app could not renew its delay");
    assert!(scene.evicted().is_empty());

    etcd(scene.platform()).make_room().await.unwrap();
    let recovered = chrono::Utc::now();
    scene.ends(&due, "Evacuated Evicted").await;
    let acted = scene.evicted_at("late-0");
    scene.ends(&delayed, "Evacuated Evicted").await;
    let evicted = scene.evicted_at("db-0");
    // Times in the objects are whole seconds.
    let calm = recovered + chrono::TimeDelta::seconds(29);
    assert!(calm <= evicted, "recovered at {recovered}, evicted at {evicted}");
    assert!(acted < evicted, "the deadline acted at {acted}, the delay ended at {evicted}");
}
