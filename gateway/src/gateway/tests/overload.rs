//! Calls while the slots of the gateway are taken.

use machinery_client::Slot;

use super::*;

/// Time in which a free slot is given.
const SOON: Duration = Duration::from_millis(10);

/// # Attack
///
/// - Attacker: several tenants at once
/// - Act: take every slot of the gateway, so that the calls of others pass unasked
/// - Promise: 8, 11
#[tokio::test(start_paused = true)]
async fn an_app_that_is_being_asked_holds_its_calls_while_all_slots_are_taken() {
    let at = |seconds| Utc::now() + chrono::TimeDelta::seconds(seconds);
    // A third of the entry's time has passed: it is to be written again, which takes a slot.
    let entry = json!({
        "owner": "alice", "name": "gateway.evacuation.dev/eviction", "onRefusal": "Wait", "deadline": at(20),
        "atDeadline": "GiveUp",
    });
    let responder = json!({
        "name": "self", "priority": 1, "timeoutSeconds": 60, "maxDelaySeconds": 60, "state": "Active",
        "activeTime": at(-5),
    });
    let active = json!({
        "metadata": {"name": "db-0-x", "namespace": "shop", "uid": "e"},
        "spec": {"target": {"pod": {"name": "db-0", "uid": "1"}}, "requesters": [entry]},
        "status": {"responders": [responder]},
    });
    let (gateway, _) = gateway(asked(active)).await;
    let _slots = all_slots(&gateway).await;
    let answer = gateway.answer(&evict(), None).await;
    assert_eq!(cause(&answer), Some("EvacuationInProgress"), "{answer:?}");
}

/// Returns an API with the registered pod and its Evacuation.
fn asked(active: Value) -> PlayedApi {
    PlayedApi {
        listed: pod("1", true),
        live: pod("1", true),
        evacuations: vec![active],
        ..PlayedApi::default()
    }
}

#[tokio::test(start_paused = true)]
async fn an_eviction_that_only_a_read_could_let_pass_has_the_same_bound() {
    let done = json!({
        "metadata": {"name": "db-0-x", "namespace": "shop", "uid": "e"},
        "spec": {"target": {"pod": {"name": "db-0", "uid": "1"}}, "requesters": []},
        "status": {"responders": []},
    });
    // The pod of a cache is to be read, and the Evacuation of one that the review shows.
    for shown in [None, Some(Shown { uid: "1", resource_version: "1" })] {
        let (gateway, api) = gateway(asked(done.clone())).await;
        *api.live_evacuation.lock().unwrap() = done.clone();
        let slots = all_slots(&gateway).await;
        let began = tokio::time::Instant::now();
        while began.elapsed() < Duration::from_mins(14) {
            let answer = gateway.answer(&evict(), shown).await;
            assert_eq!(cause(&answer), Some("EvacuationInProgress"), "{shown:?}: {answer:?}");
            tokio::time::sleep(Duration::from_mins(1)).await;
        }
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert_eq!(gateway.answer(&evict(), shown).await, Answer::Unasked(Unasked::Busy), "{shown:?}");
        drop(slots);
        assert_eq!(gateway.answer(&evict(), shown).await, Answer::Pass(Pass::RespondersDone), "{shown:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_user_whose_share_is_taken_gets_the_retry_after_of_its_row_and_waits_without_a_bound() {
    let (gateway, _) =
        gateway(PlayedApi { listed: pod("1", true), live: pod("1", true), ..PlayedApi::default() }).await;
    let row = gateway.configuration.table().row(&evict(), &pod_of_api(&pod("1", true))).retry_after_seconds;
    let mut slots = Vec::new();
    for _ in 0..SHARE {
        slots.push(gateway.limiter.slot(&evict().user.name, SOON).await.unwrap());
    }
    for _ in 0..3 {
        let answer = gateway.answer(&evict(), None).await;
        let Answer::Wait(reply) = answer else { panic!("{answer:?}") };
        assert_eq!((reply.cause, reply.retry_after_seconds), ("TooManyCalls", row));
        tokio::time::sleep(Duration::from_mins(10)).await;
    }
    drop(slots);
    assert_eq!(cause(&gateway.answer(&evict(), None).await), Some("EvacuationInProgress"));
}

fn pod_of_api(value: &Value) -> Pod {
    serde_json::from_value(value.clone()).unwrap()
}

/// Takes every slot of the gateway, for as few tenants as possible.
pub(super) async fn all_slots(gateway: &Gateway) -> Vec<Slot> {
    let mut slots = Vec::new();
    for user in 0..64 / SHARE {
        for _ in 0..SHARE {
            slots.push(gateway.limiter.slot(&format!("mallory-{user}"), SOON).await.unwrap());
        }
    }
    slots
}

/// Returns the cause of an answer by which the caller waits.
pub(super) fn cause(answer: &Answer) -> Option<&'static str> {
    match answer {
        Answer::Wait(reply) => Some(reply.cause),
        _ => None,
    }
}

/// # Attack
///
/// - Attacker: several tenants, each with accounts in a namespace of its own
/// - Act: evict so many pods that exist nowhere that calls of others find no slot or no time, for less than
///   `--hold-answers-seconds`
/// - Promise: 8, 11
#[tokio::test(start_paused = true)]
async fn a_flood_of_many_tenants_opens_the_gate_for_no_app_that_was_not_asked() {
    let registered = pod("1", true);
    let api = PlayedApi { listed: registered.clone(), live: registered, ..PlayedApi::default() };
    let (gateway, api) = gateway(api).await;
    let flood = (0..32 * SHARE).map(|number| {
        let (gateway, tenant) = (Arc::clone(&gateway), format!("tenant-{}", number % 32));
        tokio::spawn(async move {
            let user = format!("system:serviceaccount:{tenant}:account-{number}");
            let call = Call { namespace: tenant, ..call_of(&user, Operation::Evict) };
            loop {
                gateway.answer(&call, None).await;
            }
        })
    });
    let flood: Vec<_> = flood.collect();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut full = 0;
    for _ in 0..100 {
        let answer = gateway.answer(&evict(), None).await;
        assert!(matches!(answer, Answer::Wait(_)), "{answer:?}");
        full += usize::from(gateway.limiter.is_full());
    }
    assert!(full > 0, "the flood takes every slot");
    for task in flood {
        task.abort();
    }
    let answer = gateway.answer(&evict(), None).await;
    assert_eq!(cause(&answer), Some("EvacuationInProgress"), "{answer:?}");
    assert!(api.asked.lock().unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_finds_no_slot_for_as_long_as_answers_hold_passes() {
    let api = PlayedApi { listed: pod("1", true), live: pod("1", true), ..PlayedApi::default() };
    let (gateway, _) = gateway(api).await;
    let _slots = all_slots(&gateway).await;
    let began = tokio::time::Instant::now();
    while began.elapsed() < Duration::from_mins(14) {
        let answer = gateway.answer(&evict(), None).await;
        assert_eq!(cause(&answer), Some("GatewayBusy"), "{answer:?}");
        tokio::time::sleep(Duration::from_mins(1)).await;
    }
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(gateway.answer(&evict(), None).await, Answer::Unasked(Unasked::Busy));
    let counted = r#"evacuation_gateway_passed_unasked_total{webhook="evict",reason="busy"} 1"#;
    assert!(gateway.metrics.text().contains(counted), "{}", gateway.metrics.text());
}

#[tokio::test(start_paused = true)]
async fn an_app_without_responders_is_held_up_by_no_flood() {
    let api = PlayedApi { listed: pod("1", false), live: pod("1", false), ..PlayedApi::default() };
    let (gateway, _) = gateway(api).await;
    let _slots = all_slots(&gateway).await;
    assert_eq!(gateway.answer(&evict(), None).await, Answer::Pass(Pass::Unregistered));
    watch_lags().await;
    assert_eq!(gateway.answer(&evict(), None).await, Answer::Unasked(Unasked::Busy));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_late_waits_while_all_slots_are_taken_and_passes_otherwise() {
    let api =
        || PlayedApi { listed: pod("1", true), live: pod("1", true), hangs: true, ..PlayedApi::default() };
    let (quiet, _) = gateway(api()).await;
    for time in [TIME, 6 * TIME] {
        let began = tokio::time::Instant::now();
        let answer = quiet.answer_within(time, &evict(), None).await;
        assert_eq!((answer, began.elapsed().as_secs()), (Answer::Unasked(Unasked::Late), time.as_secs()));
    }
    let (crowded, _) = gateway(api()).await;
    let mut slots = all_slots(&crowded).await;
    slots.pop();
    let waiting = Arc::clone(&crowded);
    let next = async move { waiting.limiter.slot("mallory-9", TIME + SOON).await.unwrap() };
    let call = evict();
    let (answer, _slot) = tokio::join!(biased; crowded.answer(&call, None), next);
    assert_eq!(cause(&answer), Some("GatewayBusy"), "{answer:?}");
}

#[tokio::test(start_paused = true)]
async fn two_unlucky_counts_far_apart_let_no_deletion_pass() {
    let limiter = Limiter::default();
    assert_eq!(limiter.not_counted(None, "1"), Duration::ZERO);
    tokio::time::sleep(Duration::from_mins(16)).await;
    assert_eq!(limiter.not_counted(None, "1"), Duration::ZERO);
}
