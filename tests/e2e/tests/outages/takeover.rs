//! Two controllers: when the one that leads goes, the other acts.

use evacuation_e2e::{
    PodSpec, Scene,
    scene::{Bystander, LATE, PATIENCE},
};
use std::time::{Duration, Instant};

use chrono::{DurationRound, TimeDelta, Timelike, Utc};
use controlplane::{Process, Signal, eventually};
use evacuation_api::Window;
use evacuation_client::{End, Requester};

use crate::worker;

/// Less than the 10 s after which a lease that is not given back can expire.
const AFTER_SIGTERM: Duration = Duration::from_secs(8);
const AFTER_SIGKILL: Duration = Duration::from_secs(20);

/// The second controller of the platform.
fn second(scene: &Scene) -> &Process {
    &scene.platform().controllers()[1]
}

/// The identity of the leader.
async fn holder(scene: &Scene) -> Option<String> {
    scene.platform().holder().await.unwrap()
}

/// A scene whose first controller leads, and whose second has read the lease and waits for it.
async fn two_controllers(prefix: &str) -> Scene {
    let scene = worker::scene(prefix).await;
    let (leader, other) = (&scene.platform().controllers()[0], second(&scene));
    scene.platform().start_controllers().await.unwrap();
    let holder = holder(&scene).await.unwrap();
    assert!(holder.starts_with(leader.name()) && other.is_running(), "{holder} leads");
    scene
}

/// Waits for another holder, until `bound` after `since`, and returns it.
async fn another_holder(scene: &Scene, old: &str, since: Instant, bound: Duration) -> String {
    let left = bound.saturating_sub(since.elapsed());
    let taken = eventually(left, "the other controller leads", || async {
        match holder(scene).await {
            Some(new) if new != old => Ok(new),
            other => Err(format!("{other:?}")),
        }
    });
    taken.await.unwrap()
}

/// Waits until the new leader has evicted the pod, once.
async fn evacuates(scene: &Scene, evacuation: &str) {
    let end = scene.pods.ended(evacuation).await.unwrap();
    assert!(matches!(&end, End::Evacuated { reason, .. } if reason == "Evicted"), "{end}");
    assert_eq!(scene.evicted().len(), 1, "the pod was evicted once");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_sigterm_the_other_controller_leads_before_the_lease_expires() {
    let scene = two_controllers("term").await;
    scene.pods.create("web-0", &PodSpec::default()).await.unwrap();
    let (leader, other) = (&scene.platform().controllers()[0], second(&scene));
    let mark = other.mark().unwrap();
    let old = holder(&scene).await.unwrap();

    let since = Instant::now();
    leader.signal(Signal::Terminate).unwrap();
    let evacuation = scene.evacuate("web-0").await;
    another_holder(&scene, &old, since, AFTER_SIGTERM).await;
    assert!(leader.wait(PATIENCE).await.unwrap().success());
    evacuates(&scene, evacuation.name()).await;
    other.wait_for_log_since(PATIENCE, mark, "acting").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn after_sigkill_the_other_controller_leads_within_twenty_seconds() {
    let scene = two_controllers("kill").await;
    scene.pods.create("web-0", &PodSpec::default()).await.unwrap();
    let leader = &scene.platform().controllers()[0];
    let old = holder(&scene).await.unwrap();

    let since = Instant::now();
    leader.kill().unwrap();
    let evacuation = scene.evacuate("web-0").await;
    another_holder(&scene, &old, since, AFTER_SIGKILL).await;
    evacuates(&scene, evacuation.name()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_sleeps_when_the_leader_dies_is_woken_by_the_other_controller() {
    let scene = two_controllers("asleep").await;
    scene.pods.create("web-0", &PodSpec::default()).await.unwrap();
    let leader = &scene.platform().controllers()[0];
    let old = holder(&scene).await.unwrap();
    // The next full minute that leaves time for the takeover.
    let now = Utc::now() + AFTER_SIGKILL + Duration::from_secs(5);
    let opens = now.duration_trunc(TimeDelta::minutes(1)).unwrap() + TimeDelta::minutes(1);
    let window = Window {
        schedule: format!("{} {} * * *", opens.minute(), opens.hour()),
        duration_seconds: 60,
        time_zone: None,
    };
    let client = scene.platform().client().unwrap();
    let requester = Requester::new(client, "test.evacuation.dev/outages").window(window);
    let asked = requester.evacuate(scene.pods.namespace(), "web-0").await;
    let evacuation = asked.unwrap();
    scene.until_state(evacuation.name(), "Scheduled").await;

    let since = Instant::now();
    leader.kill().unwrap();
    another_holder(&scene, &old, since, AFTER_SIGKILL).await;
    // Longer than a minute may pass until it opens.
    let ended = eventually(2 * PATIENCE, "the window has opened", || async {
        let found = scene.pods.evacuations().get(evacuation.name()).await;
        let found = found.map_err(|error| error.to_string())?;
        if evacuation_protocol::state_word(&found) == "Scheduled" {
            Err("it sleeps".to_owned())
        } else {
            Ok(())
        }
    });
    ended.await.unwrap();
    evacuates(&scene, evacuation.name()).await;
    let evicted = scene.evicted()[0].as_millisecond();
    let late = evicted - opens.timestamp_millis();
    assert!((0..LATE.num_milliseconds()).contains(&late), "{late} ms after it opened");
}

/// A controller acts only while it leads.
///
/// # Attack
///
/// - Attacker: a controller that was suspended
/// - Act: goes on after another controller has taken over
/// - Promise: 9, 11
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_was_frozen_past_its_lease_does_not_act_when_it_goes_on() {
    let scene = two_controllers("frozen").await;
    let bystander = Bystander::new(&scene).await;
    scene.pods.create("web-0", &PodSpec::default()).await.unwrap();
    let leader = &scene.platform().controllers()[0];
    let old = holder(&scene).await.unwrap();

    let (since, mark) = (Instant::now(), leader.mark().unwrap());
    leader.pause().unwrap();
    let new = another_holder(&scene, &old, since, AFTER_SIGKILL).await;
    leader.resume().unwrap();
    let evacuation = scene.evacuate("web-0").await;
    evacuates(&scene, evacuation.name()).await;
    leader.wait_for_log_since(PATIENCE, mark, "this process no longer leads").await.unwrap();
    bystander.drains(&scene).await;
    assert_eq!(holder(&scene).await, Some(new));
}
