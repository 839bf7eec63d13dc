use evacuation_protocol::{Attempt, BudgetState, BudgetView};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::{Value, json};

use super::*;
use crate::cluster::Features;

fn read<K: serde::de::DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

fn now() -> DateTime<Utc> {
    "2026-11-25T03:00:00Z".parse().unwrap()
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("ns", name)
}

fn pod(name: &str) -> Pod {
    read(json!({
        "metadata": {"namespace": "ns", "name": name, "uid": name, "resourceVersion": "1", "labels": {"app": "db"}},
        "spec": {"containers": [{"name": "c"}], "nodeName": "n1"},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "c", "state": {"running": {}}, "ready": true, "restartCount": 0, "image": "", "imageID": ""}],
        },
    }))
}

/// An Evacuation of the pod, which nobody asks yet.
fn evacuation(name: &str, pod: &str, rehearsal: bool) -> Evacuation {
    let responder = json!({"name": "self", "state": "Inactive", "priority": 1, "timeoutSeconds": 60, "maxDelaySeconds": 60});
    read(json!({
        "metadata": {"namespace": "ns", "name": name, "uid": name, "resourceVersion": "1", "generation": 1},
        "spec": {
            "target": {"pod": {"name": pod, "uid": pod}},
            "requesters": [{"name": "a.b/c", "owner": "ann", "onRefusal": "Wait"}],
            "rehearsal": rehearsal,
        },
        "status": {
            "responders": [responder],
            "requesters": [{"name": "a.b/c", "owner": "ann", "user": "ann", "groups": [], "time": "2026-11-25T03:00:00Z"}],
        },
    }))
}

fn world(of: &str) -> World {
    let budget = BudgetView {
        name: "db".to_owned(),
        disruptions_allowed: 1,
        current_healthy: 3,
        desired_healthy: 2,
        state: BudgetState::Counted,
        always_allow_unhealthy: false,
    };
    World {
        pod: PodView::Live(LivePod::of(&pod(of))),
        node_silent_since: None,
        budgets: vec![budget],
        no_room: None,
        group: Vec::new(),
        turn: true,
        busy: false,
        recovered_at: None,
        asked: None,
        attempt: Attempt::Unknown,
    }
}

/// Three ready pods under a budget that lets one of them be asked.
fn room() -> AskingRoom {
    let view = Arc::new(View::new(Arc::new(Features::default())));
    for name in ["a", "b", "c"] {
        view.apply(pod(name));
    }
    view.apply::<PodDisruptionBudget>(read(json!({
        "metadata": {"namespace": "ns", "name": "db", "resourceVersion": "1", "generation": 1},
        "spec": {"selector": {"matchLabels": {"app": "db"}}},
        "status": {"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 3, "desiredHealthy": 2, "expectedPods": 3},
    })));
    AskingRoom { view, queue: Arc::default(), table: Mutex::default() }
}

impl AskingRoom {
    /// Takes room for an Evacuation of that pod; returns true when there was some.
    fn grants(&self, evacuation: &Evacuation, pod: &str) -> bool {
        self.view.apply(evacuation.clone());
        self.take(&ObjectKey::of(evacuation), evacuation, world(pod), now()).0.no_room.is_none()
    }
}

#[tokio::test]
async fn of_three_pods_one_is_asked_and_the_next_when_it_is_left_alone() {
    let room = room();
    let (first, second) = (evacuation("of-a", "a", false), evacuation("of-b", "b", false));
    assert!(room.grants(&first, "a"));
    assert!(room.grants(&first, "a"), "what was granted stays granted");
    assert!(!room.grants(&second, "b"));
    assert_eq!(room.waiting(), 1);
    room.leave(&key("of-a"));
    assert_eq!(room.queue.next().await, key("of-b"));
    assert!(room.grants(&second, "b"));
    assert_eq!(room.waiting(), 0);
}

#[tokio::test]
async fn no_ready_pod_is_asked_under_a_budget_that_never_lets_one_go() {
    for state in [
        BudgetState::NotComputed("no scale".to_owned()),
        BudgetState::NotCounted("maxUnavailable 1".to_owned()),
        BudgetState::WithoutLimit,
    ] {
        let room = room();
        let evacuation = evacuation("of-a", "a", false);
        room.view.apply(evacuation.clone());
        let mut world = world("a");
        world.budgets[0].state = state;
        let (asked, _) = room.take(&key("of-a"), &evacuation, world.clone(), now());
        assert_eq!(asked.no_room.as_deref(), Some("db"), "{:?}", asked.budgets);
        assert_eq!(room.waiting(), 1, "a change of the budget wakes it");
        let PodView::Live(pod) = &mut world.pod else { panic!("{:?}", world.pod) };
        pod.ready = false;
        let (asked, _) = room.take(&key("of-a"), &evacuation, world, now());
        assert_eq!(asked.no_room, None, "the eviction API may let an unready pod go");
    }
}

#[tokio::test]
async fn a_rehearsal_takes_no_room_while_a_request_waits_and_wakes_it_instead() {
    let room = room();
    let first = evacuation("of-a", "a", false);
    // Its name comes first.
    let (rehearsal, request) = (evacuation("b-test", "b", true), evacuation("of-c", "c", false));
    assert!(room.grants(&first, "a"));
    assert!(!room.grants(&rehearsal, "b"));
    assert!(!room.grants(&request, "c"));
    room.leave(&key("of-a"));
    assert_eq!(room.queue.next().await, key("b-test"));
    assert!(!room.grants(&rehearsal, "b"), "a request waits");
    assert_eq!(room.queue.next().await, key("of-c"));
    assert!(room.grants(&request, "c"));
    room.leave(&key("of-c"));
    assert!(room.grants(&rehearsal, "b"), "nobody else waits");
}

#[tokio::test]
async fn an_evacuation_whose_namespace_rests_is_told_when_to_try_again() {
    let room = room();
    let end = Instant::now() + Duration::from_secs(10);
    lock(&room.table).rests.insert("ns".to_owned(), end);
    let evacuation = evacuation("of-a", "a", false);
    let (world, rest) = room.take(&key("of-a"), &evacuation, world("a"), now());
    assert_eq!((world.no_room.as_deref(), rest), (Some("db"), Some(end)));
    lock(&room.table).rests.clear();
    assert!(room.grants(&evacuation, "a"));
}

/// # Attack
///
/// - Attacker: a tenant with thousands of budgets for one pod
/// - Act: has all of them counted again and again, while every other Evacuation waits for the counts
/// - Promise: 8
#[tokio::test]
async fn the_counts_for_a_pod_in_thousands_of_budgets_are_spread_over_rests() {
    let room = room();
    let names: Vec<String> = (0..5000).map(|n| format!("db-{n}")).collect();
    for name in &names {
        room.view.apply::<PodDisruptionBudget>(read(json!({
            "metadata": {"namespace": "ns", "name": name, "resourceVersion": "1", "generation": 1},
            "spec": {"selector": {"matchLabels": {"app": "db"}}},
            "status": {"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 3, "desiredHealthy": 2, "expectedPods": 3},
        })));
    }
    let one = world("a");
    let budgets = names.iter().map(|name| BudgetView { name: name.clone(), ..one.budgets[0].clone() });
    let many = World { budgets: budgets.collect(), ..one };
    let evacuation = evacuation("of-a", "a", false);
    let (_, rest) = room.take(&key("of-a"), &evacuation, many, now());
    assert!(rest.is_some(), "the namespace rests");
    let counted = lock(&room.table).rooms.values().filter(|room| room.left.is_some()).count();
    assert!(counted < names.len(), "all were counted at once");
}
