//! Requesters that wait for a window.

use evacuation_e2e::{
    PodSpec, Scene,
    scene::{ASKER, LATE, answer, entry, first, in_millis, post, put_entries, responder, status, wanting},
};
use std::time::Duration;

use chrono::{DateTime, Datelike, SecondsFormat, TimeDelta, Timelike, Utc};
use controlplane::eventually;
use evacuation_api::ResponderState;
use evacuation_protocol::state_word;
use kube::ResourceExt;
use serde_json::{Value, json};

/// Longer than the longest way to a full minute.
const A_MINUTE: Duration = Duration::from_secs(100);

/// A window that opens at that time and on no other day of the year.
fn window_at(time: DateTime<Utc>) -> Value {
    let (minute, hour, day, month) = (time.minute(), time.hour(), time.day(), time.month());
    json!({"schedule": format!("{minute} {hour} {day} {month} *"), "durationSeconds": 60})
}

/// A window that opens in some months.
fn far() -> Value {
    window_at(Utc::now() + TimeDelta::days(100))
}

/// The next full minute that leaves time for the set-up on a busy machine.
fn next_minute() -> DateTime<Utc> {
    let now = Utc::now() + TimeDelta::seconds(15);
    let into = i64::from(now.second()) * 1_000_000_000 + i64::from(now.nanosecond());
    now + TimeDelta::nanoseconds(60_000_000_000 - into)
}

#[tokio::test(flavor = "multi_thread")]
async fn outside_of_the_window_nobody_is_asked_and_the_status_names_the_next_one() {
    let scene = Scene::new("asleep").await;
    let window = window_at(Utc::now() + TimeDelta::days(100));
    let watching = scene.pod("watching", PodSpec::watching()).await;
    let plain = scene.pod("plain", PodSpec::default()).await;
    let awake = scene.pod("awake", PodSpec::default()).await;
    let mut asleep = Vec::new();
    for pod in [&watching, &plain] {
        let evacuation = scene.ask(pod, json!({"window": window, "onRefusal": "Override"})).await;
        asleep.push(scene.observed(&evacuation).await);
    }
    // What is asked after them without a window is long done.
    let other = scene.ask(&awake, json!({})).await;
    scene.ends(&other, "Evacuated Evicted").await;
    for evacuation in asleep {
        let evacuation = scene.get(&evacuation).await;
        let now = status(&evacuation);
        let mut responders = now.responders.iter().flatten();
        assert!(responders.all(|responder| responder.state == ResponderState::Inactive), "{now:?}");
        assert_eq!(state_word(&evacuation), "Scheduled");
        let next = now.policy.unwrap().next_window_time.unwrap().0;
        let wanted = (Utc::now() + TimeDelta::days(100)).timestamp();
        assert!((wanted - next.timestamp()).abs() < 180, "{next}");
        let shown = scene
            .platform()
            .kubectl(&["get", "evac", "-n", scene.namespace(), &evacuation.name_any(), "-o", "wide"])
            .await
            .unwrap();
        let next = next.to_rfc3339_opts(SecondsFormat::Secs, true);
        assert!(shown.stdout.contains("Scheduled") && shown.stdout.contains(&next), "{shown:?}");
    }
    for pod in [&watching, &plain] {
        assert!(scene.stays(pod).await);
        assert!(scene.evictions(&pod.name_any()).is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_that_opens_starts_the_negotiation_soon_after_and_not_before() {
    let scene = Scene::new("opens").await;
    let watching = scene.pod("watching", PodSpec::watching()).await;
    scene.pod("plain", PodSpec::default()).await;
    let opens = next_minute();
    let asked = scene.ask(&watching, json!({"window": window_at(opens)})).await;
    let plain = scene.pods.api().get("plain").await.unwrap();
    let evicted = scene.ask(&plain, json!({"window": window_at(opens)})).await;
    for evacuation in [&asked, &evicted] {
        let policy = status(evacuation).policy.unwrap();
        assert_eq!(policy.next_window_time, Some(opens.into()));
    }
    let api = scene.evacuations();
    let name = asked.name_any();
    let started = eventually(A_MINUTE, "the window has opened", || async {
        let found = api.get(&name).await.map_err(|error| error.to_string())?;
        match responder(&found, 0).map(|r| r.state) {
            Some(ResponderState::Active) => Ok(found),
            other => Err(format!("{other:?}")),
        }
    });
    let started = started.await.unwrap();
    let active = first(&started).active_time.unwrap().0;
    let within = |time| opens <= time && time < opens + LATE;
    assert!(within(active), "opened at {opens}, asked at {active}");
    assert_eq!(status(&started).policy.unwrap().next_window_time, None);
    scene.ends(&evicted, "Evacuated Evicted").await;
    let arrived = scene.evicted_at("plain");
    assert!(within(arrived), "opened at {opens}, evicted at {arrived}");

    // It is awake from now on, whenever the window closes.
    let app = scene.client_of(&watching).await;
    answer(&app, &asked, json!({"answer": "Accept"})).await.unwrap();
    scene.ends(&asked, "Evacuated Evicted").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_that_is_open_starts_the_negotiation_at_once() {
    let scene = Scene::new("open").await;
    let pod = scene.pod("app", PodSpec::default()).await;
    let window = json!({"schedule": "@hourly", "durationSeconds": 7200, "timeZone": "Asia/Kathmandu"});
    let evacuation = scene.ask(&pod, json!({"window": window})).await;
    scene.ends(&evacuation, "Evacuated Evicted").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_who_joins_without_a_window_starts_it_and_when_that_one_leaves_it_rests() {
    let scene = Scene::new("joined").await;
    let pod = scene.pod("app", PodSpec::watching()).await;
    let evacuation = scene.ask(&pod, json!({"window": far(), "onRefusal": "Override"})).await;
    scene.observed(&evacuation).await;
    let api = scene.evacuations();
    let sleeper = entry(ASKER, json!({"window": far(), "onRefusal": "Override"}));
    let other = entry("test.evacuation.dev/joins", json!({"onRefusal": "Wait"}));
    let joined = put_entries(&api, &evacuation, &[sleeper.clone(), other]).await.unwrap();
    scene.reached(&joined, 0).await;
    // The sleeper's Override does not count.
    answer(&scene.client_of(&pod).await, &evacuation, json!({"answer": "Refuse"})).await.unwrap();
    scene.until_condition(&evacuation, "Blocked", "Refused").await;

    put_entries(&api, &evacuation, &[sleeper]).await.unwrap();
    let rests = scene
        .until(&evacuation, "it rests", |e| {
            state_word(e) == "Scheduled" && status(e).observed_generation == e.metadata.generation
        })
        .await;
    assert_eq!(first(&rests).state, ResponderState::Active);
    assert!(scene.stays(&pod).await);

    // Without its window the sleeper counts at once, and overrides.
    let awake = entry(ASKER, json!({"onRefusal": "Override"}));
    put_entries(&api, &evacuation, &[awake]).await.unwrap();
    scene.ends(&evacuation, "Evacuated Evicted").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_acts_outside_of_the_window() {
    let scene = Scene::new("deadline").await;
    let pods = [
        ("evicted", json!({"deadline": in_millis(15_000)}), "Evacuated Evicted"),
        (
            "deleted",
            json!({"deadline": in_millis(15_000), "atDeadline": "Delete", "gracePeriodSeconds": 3}),
            "Evacuated Deleted",
        ),
        ("spared", json!({"deadline": in_millis(15_000), "atDeadline": "GiveUp"}), "Failed DeadlineGaveUp"),
    ];
    let mut asked = Vec::new();
    for (name, mut more, end) in pods {
        scene.pod(name, PodSpec::watching()).await;
        more["window"] = far();
        let wanted = wanting(name, &[entry(ASKER, more)]);
        let posted = post(&scene.admin(), scene.namespace(), "", &json!(wanted)).await;
        assert!(posted.warnings.iter().any(|w| w.contains("before the window opens")), "{posted:?}");
        asked.push((posted.created(), end));
    }
    for (evacuation, end) in &asked {
        let ended = scene.ends(evacuation, end).await;
        if let Some(responder) = responder(&ended, 0) {
            assert_eq!(responder.active_time, None, "nobody was asked");
        }
    }
    let deadline = asked[0].0.spec.requesters[0].deadline.unwrap().time();
    assert!(scene.evicted_at("evicted") >= deadline);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_a_window_can_withdraw() {
    let scene = Scene::new("withdraws").await;
    let pod = scene.pod("app", PodSpec::watching()).await;
    let evacuation = scene.ask(&pod, json!({"window": far()})).await;
    scene.observed(&evacuation).await;
    scene.withdraw(&evacuation).await.unwrap();
    scene.ends(&evacuation, "Failed Canceled").await;
    assert!(scene.stays(&pod).await);
}
