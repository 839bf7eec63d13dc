//! Metrics and Events of the calls that pass unasked.

use evacuation_protocol::OutageCause::{Api, Leaderless};
use k8s_openapi::api::events::v1::Event;

use super::*;
use crate::{
    events::{publish_events, reporter},
    judge::WayOut::{HoldEnded, NobodyActs, Unanswered, UnreadableHoldEnded, Unrecorded},
};

/// Returns the word for metrics of a reason, the reason of its Event, its words, and the reason of the next
/// row of the table. A reason without a row does not compile.
fn row(reason: Unasked) -> (&'static str, &'static str, &'static str, Option<Unasked>) {
    let unasked = "PassedUnasked";
    match reason {
        Unasked::Starting => {
            ("starting", unasked, "unasked: the gateway has just started", Some(Unasked::Late))
        }
        Unasked::Late => {
            ("late", unasked, "unasked: the gateway had no answer in time", Some(Unasked::ApiDown))
        }
        Unasked::ApiDown => {
            ("api_down", unasked, "unasked: the evacuation API did not answer", Some(Unasked::PodUnread))
        }
        Unasked::PodUnread => {
            ("pod_unread", unasked, "unasked: the pod could not be read", Some(Unasked::Busy))
        }
        Unasked::Busy => (
            "busy",
            unasked,
            "unasked: the gateway has too many calls in progress",
            Some(Unasked::Outage(Unanswered(Api))),
        ),
        Unasked::Outage(Unanswered(Api)) => (
            "unanswered_api_down",
            "PassedUnanswered",
            "without an answer of its app: the evacuation API does not answer",
            Some(Unasked::Outage(Unanswered(Leaderless))),
        ),
        Unasked::Outage(Unanswered(Leaderless)) => (
            "unanswered_no_controller",
            "PassedUnanswered",
            "without an answer of its app: no controller leads",
            Some(Unasked::Outage(NobodyActs)),
        ),
        Unasked::Outage(NobodyActs) => {
            ("no_controller", unasked, "unasked: no controller leads", Some(Unasked::Outage(HoldEnded(Api))))
        }
        Unasked::Outage(HoldEnded(Api)) => (
            "hold_ended",
            "PassedHoldEnded",
            "although an answer of its app held it, for the longest time: the evacuation API does not answer",
            Some(Unasked::Outage(HoldEnded(Leaderless))),
        ),
        Unasked::Outage(HoldEnded(Leaderless)) => (
            "hold_ended",
            "PassedHoldEnded",
            "although an answer of its app held it, for the longest time: no controller leads",
            Some(Unasked::Outage(Unrecorded(Api))),
        ),
        Unasked::Outage(Unrecorded(Api)) => (
            "unrecorded",
            "PassedUnrecorded",
            "after a deadline or an overridden refusal: the evacuation API does not answer",
            Some(Unasked::Outage(Unrecorded(Leaderless))),
        ),
        Unasked::Outage(Unrecorded(Leaderless)) => (
            "unrecorded",
            "PassedUnrecorded",
            "after a deadline or an overridden refusal: no controller leads",
            Some(Unasked::Outage(UnreadableHoldEnded)),
        ),
        Unasked::Outage(UnreadableHoldEnded) => (
            "unreadable",
            "PassedHoldEnded",
            "although an unreadable evacuation held it, for the longest time: the evacuation API does not answer",
            None,
        ),
    }
}

/// Returns the Events that the gateway has emitted so far.
async fn published(gateway: &Gateway) -> Vec<Event> {
    let events = Arc::<Mutex<Vec<Event>>>::default();
    let taken = Arc::clone(&events);
    let service = tower::service_fn(move |request: Request<Body>| {
        let taken = Arc::clone(&taken);
        async move {
            let body = request.into_body().collect_bytes().await.unwrap();
            taken.lock().unwrap().push(serde_json::from_slice(&body).unwrap());
            Ok::<_, Infallible>(Response::builder().status(201).body(Body::from(body)).unwrap())
        }
    });
    let stop = CancellationToken::new();
    stop.cancel();
    publish_events(Client::new(service, "shop"), reporter(), gateway.events.published(), stop).await;
    std::mem::take(&mut *events.lock().unwrap())
}

#[tokio::test(start_paused = true)]
async fn each_reason_to_pass_unasked_has_its_count_its_event_and_its_words() {
    let (mut next, mut rows) = (Some(Unasked::Starting), 0);
    while let Some(reason) = next {
        let (word, event, words, following) = row(reason);
        let (gateway, _) = gateway(PlayedApi { listed: pod("1", true), ..PlayedApi::default() }).await;
        let (shown, answer) = (serde_json::from_value(pod("1", true)).unwrap(), Answer::Unasked(reason));
        for (operation, dry_run) in
            [(Operation::Evict, false), (Operation::Delete, false), (Operation::Evict, true)]
        {
            let call = Call { dry_run, ..call_of("alice", operation) };
            gateway.report(&call, Some(&shown), "users", &answer, TIME);
        }
        // A pod that is not known carries no Event.
        gateway.report(&evict(), None, "users", &answer, TIME);

        let text = gateway.metrics.text();
        for (webhook, calls) in [("evict", 3), ("delete", 1)] {
            for counted in [
                format!(r#"passed_unasked_total{{webhook="{webhook}",reason="{word}"}} {calls}"#),
                format!(r#"calls_total{{webhook="{webhook}",caller="users",verdict="unasked"}} {calls}"#),
            ] {
                assert!(text.contains(&format!("evacuation_gateway_{counted}\n")), "{reason:?}: {text}");
            }
        }
        assert_eq!(text.matches("passed_unasked_total{").count(), 2, "{reason:?}: {text}");

        let events = published(&gateway).await;
        let mut said: Vec<_> = events
            .iter()
            .map(|event| (event.reason.as_deref().unwrap(), event.note.as_deref().unwrap()))
            .collect();
        said.sort_unstable();
        let notes = ["delete", "evict"].map(|verb| format!("alice could {verb} the pod {words}"));
        assert_eq!(said, notes.each_ref().map(|note| (event, note.as_str())), "{reason:?}");
        assert!(events.iter().all(|event| event.type_.as_deref() == Some("Warning")), "{events:?}");
        (next, rows) = (following, rows + 1);
    }
    assert_eq!(rows, 13, "the table is one chain");
}
