//! The fence between withdrawing and evicting.

use evacuation_e2e::{
    PodSpec, Scene,
    scene::{answer, end_of, refused_for, status},
};
use std::time::Duration;

use evacuation_api::{Evacuation, EvictionStatus};
use futures::{StreamExt, future::join_all, pin_mut};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    ResourceExt,
    api::{DeleteParams, PostParams, WatchEvent, WatchParams},
};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn the_fence_holds_a_withdrawal_off_while_the_outcome_of_an_attempt_is_not_recorded() {
    let scene = Scene::new("in-flight").await;
    let pod = scene.pod("app", PodSpec::default().label("app", "a")).await;
    scene.pods.budget("app", ("app", "a"), 0).await.unwrap();
    let evacuation = scene.ask(&pod, json!({})).await;
    let mut blocked = scene.until_condition(&evacuation, "Blocked", "BudgetNotComputed").await;
    // As a controller leaves it that dies between recording an attempt and posting it.
    let attempt = blocked.status.as_mut().unwrap().eviction.get_or_insert_default();
    attempt.in_flight = true;
    let api = scene.evacuations();
    let recorded = api.replace_status(&blocked.name_any(), &PostParams::default(), &blocked).await.unwrap();
    assert!(eviction(&recorded).in_flight);

    refused_for(scene.withdraw(&recorded).await, 409, "EvictionInFlight");
    let deleted = api.delete(&recorded.name_any(), &DeleteParams::default()).await;
    let refused = refused_for(deleted, 409, "EvictionInFlight");
    assert_eq!(refused.details.unwrap().retry_after_seconds, 1);

    // Whoever leads finds out what became of the attempt, by reading the pod.
    let resolved = scene.until(&evacuation, "the attempt is resolved", |e| !eviction(e).in_flight).await;
    assert_eq!(end_of(&resolved), None);
    scene.withdraw(&evacuation).await.unwrap();
    scene.ends(&evacuation, "Failed Canceled").await;
    assert!(scene.stays(&pod).await);
}

fn eviction(evacuation: &Evacuation) -> EvictionStatus {
    status(evacuation).eviction.unwrap_or_default()
}

/// Number of pods in a round of the race.
const RACES: u64 = 24;
/// Maximum number of rounds.
const ROUNDS: u64 = 5;

/// A withdrawal and an eviction never both succeed.
///
/// # Attack
///
/// - Attacker: a race
/// - Act: withdraws the last entry while the controller evicts
/// - Promise: 3, 10
#[tokio::test(flavor = "multi_thread")]
async fn the_fence_lets_no_eviction_follow_a_withdrawal_that_succeeded() {
    let scene = Scene::new("races").await;
    let (mut withdrawals, mut evictions) = (0, 0);
    // Which side wins is up to the machine: rounds go on until each has.
    for round in 0..ROUNDS {
        let races = join_all((0..RACES).map(|n| race(&scene, round, n))).await;
        let (withdrawn, evicted): (Vec<_>, Vec<_>) = races.into_iter().partition(|race| race.withdrawn);
        for race in &withdrawn {
            let name = race.pod.name_any();
            scene.ends(&race.evacuation, "Failed Canceled").await;
            assert!(scene.stays(&race.pod).await, "{name} was told to go");
            let taken = scene.evictions(&name).into_iter().find(|call| call.code() == 201);
            assert!(taken.is_none(), "{name} was evicted after it was withdrawn: {taken:?}");
        }
        for race in &evicted {
            scene.ends(&race.evacuation, "Evacuated Evicted").await;
        }
        withdrawals += withdrawn.len();
        evictions += evicted.len();
        if withdrawals > 0 && evictions > 0 {
            return;
        }
    }
    panic!("{withdrawals} withdrawn, {evictions} evicted: this was no race");
}

struct Race {
    pod: Pod,
    evacuation: Evacuation,
    withdrawn: bool,
}

/// An app accepts, and the only requester leaves: the first before the answer, half of the others a little
/// later each, and half when they see that the eviction is attempted.
async fn race(scene: &Scene, round: u64, n: u64) -> Race {
    let slow = PodSpec::watching().annotation("controlplane.test/gone-after", "2s");
    let pod = scene.pod(&format!("app-{round}-{n}"), slow).await;
    let evacuation = scene.ask_and_reach(&pod, json!({})).await;
    let app = scene.client_of(&pod).await;
    let accepting = async {
        if n > 0 {
            // Too late when the requester has left.
            answer(&app, &evacuation, json!({"answer": "Accept"})).await.ok();
        }
    };
    let leaving = async {
        if n.is_multiple_of(2) {
            tokio::time::sleep(Duration::from_millis(n * 4)).await;
        } else {
            attempted(scene, &evacuation).await;
        }
        scene.withdraw(&evacuation).await
    };
    let ((), left) = tokio::join!(accepting, leaving);
    let withdrawn = match left {
        Ok(left) => end_of(&left).as_deref() == Some("Failed Canceled"),
        Err(kube::Error::Api(status)) => {
            assert_eq!(status.code, 409, "{status:?}");
            false
        }
        Err(other) => panic!("{other}"),
    };
    Race { pod, evacuation, withdrawn }
}

/// Waits for the very write that records an attempt.
async fn attempted(scene: &Scene, evacuation: &Evacuation) {
    let name = format!("metadata.name={}", evacuation.name_any());
    let since = evacuation.resource_version().unwrap();
    let params = WatchParams::default().fields(&name);
    let api = scene.evacuations();
    let events = api.watch(&params, &since).await.unwrap();
    pin_mut!(events);
    while let Some(event) = events.next().await {
        if let WatchEvent::Modified(changed) = event.unwrap()
            && eviction(&changed).attempts > 0
        {
            return;
        }
    }
}
