//! Evacuations that ended before the pod moved, as records.

use chrono::TimeDelta;
use evacuation_e2e::{
    PlatformOptions, PodSpec, Pool, Scene,
    scene::{ASKER, Bystander, entry, refused, wanting},
};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{EvictParams, PostParams},
};
use serde_json::json;

use crate::stage::{Stage, options};

/// Patience of the caller, in seconds: that of the row `hasty`.
const PATIENCE: i64 = 30;

/// Seconds for which a user's own record is kept that asked for this: less than that of a call.
const BRIEF: i64 = 60;

/// Seconds for which the record of a call is kept that its caller left.
const LEFT: i64 = 300;

/// Platforms whose clocks a test sets.
static POOL: Pool = Pool::new(1, || PlatformOptions { fake_clocks: true, ..options() });

/// # Attack
///
/// - Attacker: a tenant who may evict the pods of its namespace
/// - Act: starts evictions and leaves them, so that the records of its questions fill the namespace
/// - Promise: 8
#[tokio::test(flavor = "multi_thread")]
async fn the_record_of_a_call_that_was_left_goes_after_five_minutes_and_that_of_a_user_as_it_asked() {
    let stage = Stage::of(Scene::from_pool("records", &POOL)).await;
    let bystander = Bystander::new(&stage).await;
    for name in ["called", "brief", "usual"] {
        stage.app_pod(name, PodSpec::watching()).await;
    }
    let user = stage.user("hasty", &["edit"]).await;
    let right = json!({"resource": "pods", "subresource": "eviction", "verb": "create"});
    stage.decided(&user.name, &right, true).await;
    let pods: Api<Pod> = Api::namespaced(user.client, stage.namespace());
    refused(pods.evict("called", &EvictParams::default()).await);
    let called = stage.evacuation_of("called").await;
    let mut wanted = wanting("brief", &[entry(ASKER, json!({}))]);
    wanted.spec.ttl_seconds_after_finished = Some(BRIEF);
    let brief = stage.evacuations().create(&PostParams::default(), &wanted).await.unwrap();
    let usual = wanting("usual", &[entry(ASKER, json!({}))]);
    let usual = stage.evacuations().create(&PostParams::default(), &usual).await.unwrap();
    for asked in [&called, &brief, &usual] {
        stage.reached(asked, 0).await;
    }
    bystander.drains(&stage).await;

    let clock = &stage.platform().clocks().unwrap().apiservers[0];
    let ended = PATIENCE + 1;
    clock.set(TimeDelta::seconds(ended)).unwrap();
    stage.ends(&called, "Failed DeadlineGaveUp").await;
    for own in [&brief, &usual] {
        stage.withdraw(own).await.unwrap();
        stage.ends(own, "Failed Canceled").await;
    }
    // Between the two, with as much time as there is for a machine that is slow.
    clock.set(TimeDelta::seconds(ended + BRIEF + 1)).unwrap();
    stage.removed(&brief).await;
    stage.get(&called).await;
    clock.set(TimeDelta::seconds(ended + LEFT + 1)).unwrap();
    stage.removed(&called).await;
    stage.get(&usual).await;
}
