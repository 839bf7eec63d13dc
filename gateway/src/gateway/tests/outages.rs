//! Calls while no controller leads, or the evacuation API does not answer.

use evacuation_protocol::{OutageCause, Proof};

use super::{
    overload::{all_slots, cause},
    *,
};
use crate::judge::WayOut;

/// Returns the record of a lease that nobody has renewed for 45 s.
fn leaderless() -> Arc<Outages> {
    let outages = Outages::default();
    let renewed = Utc::now() - TimeDelta::seconds(100);
    for ago in [45, 35, 25, 15, 5] {
        let read = Instant::now().checked_sub(Duration::from_secs(ago)).unwrap();
        outages.lease_read(Some(renewed), None, read);
    }
    Arc::new(outages)
}

/// Returns the Evacuation of a pod whose app was asked 100 s ago, in that version and with that answer.
fn asked(version: &str, answer: Option<&str>) -> Value {
    let at = |seconds| Utc::now() + TimeDelta::seconds(seconds);
    let responder = json!({
        "name": "self", "priority": 1, "timeoutSeconds": 600, "maxDelaySeconds": 600, "state": "Active",
        "activeTime": at(-100), "answer": answer, "answerTime": answer.map(|_| at(-1)),
    });
    json!({
        "metadata": {"name": "db-0-x", "namespace": "shop", "uid": "e", "resourceVersion": version},
        "spec": {"target": {"pod": {"name": "db-0", "uid": "1"}}, "requesters": []},
        "status": {"responders": [responder]},
    })
}

/// # Attack
///
/// - Attacker: a network that keeps the connection of the watch of Evacuations open and delivers nothing,
///   while no controller leads
/// - Act: shows an Evacuation that its app has not answered, and not that the app refused
/// - Promise: 11
#[tokio::test(start_paused = true)]
async fn an_answer_is_read_live_before_a_call_passes_because_nobody_acts() {
    let unanswered = asked("3", None);
    for (live, passes) in
        [(unanswered.clone(), true), (asked("4", Some("Refuse")), false), (Value::Null, false)]
    {
        let api = PlayedApi {
            listed: pod("1", true),
            live: pod("1", true),
            evacuations: vec![unanswered.clone()],
            ..PlayedApi::default()
        };
        let (gateway, played) = gateway_in(api, leaderless()).await;
        *played.live_evacuation.lock().unwrap() = live.clone();
        let answer = gateway.answer(&evict(), None).await;
        let unasked = Answer::Unasked(Unasked::Outage(WayOut::Unanswered(OutageCause::Leaderless)));
        assert_eq!(answer == unasked, passes, "{live}: {answer:?}");
        assert_eq!(matches!(answer, Answer::Wait(_)), !passes, "{live}: {answer:?}");
        if let Answer::Wait(reply) = answer {
            assert!(reply.message.contains("; no controller leads since "), "{}", reply.message);
        }
    }
}

/// # Attack
///
/// - Attacker: a newer release before its downgrade, or a broken disk, and then an outage of the API
/// - Act: leaves an Evacuation in the store that the server cannot decode, so that no cache has its answer
/// - Promise: 8, 11
#[tokio::test(start_paused = true)]
async fn an_unreadable_evacuation_that_a_call_has_met_holds_its_own_pod_up_to_the_bound() {
    let unreadable = Some("EvacuationUnreadable");
    for (ago, holds) in [(10, true), (901, false)] {
        let outages = Arc::new(Outages::since(Instant::now().checked_sub(Duration::from_secs(ago)).unwrap()));
        let mut beside = pod("2", true);
        beside["metadata"]["name"] = json!("db-1");
        let api = PlayedApi {
            listed: pod("1", true),
            live: pod("1", true),
            beside: vec![beside],
            rejects: AtomicUsize::new(409),
            unreadable: Some("db-0-x"),
            ..PlayedApi::default()
        };
        let (gateway, api) = gateway_in(api, Arc::clone(&outages)).await;
        assert_eq!(cause(&gateway.answer(&evict(), None).await), unreadable);

        api.rejects.store(503, Ordering::Relaxed);
        assert_eq!(cause(&gateway.answer(&evict(), None).await), unreadable, "a pause of seconds");
        let slots = all_slots(&gateway).await;
        assert_eq!(cause(&gateway.answer(&evict(), None).await), unreadable, "without a slot");
        drop(slots);

        for _ in 0..3 {
            outages.probed(None, Instant::now());
        }
        let answer = gateway.answer(&evict(), None).await;
        if holds {
            assert_eq!(cause(&answer), unreadable, "{answer:?}");
        } else {
            assert_eq!(answer, Answer::Unasked(Unasked::Outage(WayOut::UnreadableHoldEnded)));
        }
        let other = Call { pod: "db-1".to_owned(), ..evict() };
        assert_eq!(gateway.answer(&other, None).await, Answer::Unasked(Unasked::ApiDown));

        api.rejects.store(0, Ordering::Relaxed);
        outages.probed(Some(Proof::TakesWrites), Instant::now());
        assert_eq!(cause(&gateway.answer(&evict(), None).await), Some("EvacuationInProgress"));
        assert_eq!(gateway.cluster.unreadable("1"), None, "the API says that nothing holds the pod");
    }
}
