//! The API server's etcd has no space: reads succeed, and every write fails.

use std::time::Duration;

use chrono::{TimeDelta, Utc};
use evacuation_api::Answer;
use evacuation_e2e::{
    PlatformOptions, PodSpec, Scene,
    scene::{first, in_millis, until_time},
};
use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;

use crate::worker::{self, Worker};

/// Quota of etcd, small enough to be filled at once.
const QUOTA: &str = "--quota-backend-bytes=16777216";
/// Delay that the app asks for again and again. It ends during the outage.
const DELAY: Duration = Duration::from_secs(15);
/// Time for which etcd has no space.
const OUTAGE: TimeDelta = TimeDelta::seconds(60);

#[tokio::test(flavor = "multi_thread")]
async fn while_etcd_has_no_space_no_delay_ends_and_afterwards_deadlines_act_first() {
    let options = PlatformOptions { etcd_args: vec![QUOTA.to_owned()], ..PlatformOptions::default() };
    let scene = Scene::alone("space", options).await;
    let worker = Worker::new(DELAY);
    let (delaying, _app) = worker::app(&scene, "db-0", worker.handler()).await;
    let late = scene.pod("late-0", PodSpec::watching()).await;
    let delayed = scene.evacuate("db-0").await;
    let granted = scene.answered(&delayed, Answer::Delay).await.delay_until.unwrap().0;
    // The deadline leaves time to fill a slow disk, and is reached during the outage.
    let due = scene.ask_and_reach(&late, json!({"deadline": in_millis(40_000), "atDeadline": "Evict"})).await;

    let began = Utc::now();
    let etcd = scene.platform().etcd().unwrap();
    etcd.fill().await.unwrap();
    let patch = Patch::Merge(json!({"metadata": {"annotations": {"a": "b"}}}));
    let refused = scene.evacuations().patch(&due.name_any(), &PatchParams::default(), &patch).await;
    let refused = refused.unwrap_err();
    assert!(matches!(&refused, kube::Error::Api(status) if status.code >= 500), "{refused:?}");
    until_time(began + OUTAGE).await;
    assert!(granted < Utc::now(), "the delay ended during the outage");
    assert!(scene.stays(&delaying).await, "the app could not renew its delay");
    assert!(scene.evicted().is_empty());

    etcd.make_room().await.unwrap();
    scene.ends(&due, "Evacuated Evicted").await;
    assert!(scene.stays(&delaying).await, "the app renews its delay");
    worker.finish();
    let ended = scene.ends(&delayed, "Evacuated Evicted").await;
    assert_eq!(first(&ended).answer, Some(Answer::Accept), "the app was heard");
}
