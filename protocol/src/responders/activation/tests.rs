use chrono::TimeDelta;
use evacuation_api::{DeadlineAction, Window};

use super::*;
use crate::testing::{RUNNING, at, created, requester};

fn registered() -> Registered {
    vec![
        ResponderEntry::named("self"),
        ResponderEntry {
            priority: Some(20_000),
            timeout_seconds: Some(5),
            ..ResponderEntry::named("a.b/high")
        },
        ResponderEntry::named("a.b/same"),
    ]
    .into()
}

fn states(requesters: Vec<Requester>, pod: &LivePod, registered: &Registered) -> Vec<ResponderState> {
    let created = created(requesters, pod, registered).status.unwrap();
    created.responders.unwrap().iter().map(|responder| responder.state).collect()
}

#[test]
fn the_responders_are_fixed_by_priority_at_creation_and_the_first_one_is_active() {
    use ResponderState::{Active, Inactive};
    let status = created(vec![requester("a.b/r")], &RUNNING, &registered()).status.unwrap();
    let responders = status.responders.unwrap();
    let names: Vec<_> = responders.iter().map(|r| r.name.as_str()).collect();
    assert_eq!(names, ["a.b/high", "a.b/same", "self"]);
    assert_eq!(responders.iter().map(|r| r.state).collect::<Vec<_>>(), [Active, Inactive, Inactive]);
    assert_eq!((responders[0].timeout_seconds, responders[0].active_time), (5, Some(at(0).into())));
    assert_eq!((status.observed_generation, status.registration), (Some(1), None));
}

#[test]
fn no_responder_is_active_at_creation_where_none_can_be_asked() {
    use ResponderState::{Active, Inactive};
    let window = Window { schedule: "9 0 * * *".to_owned(), duration_seconds: 60, time_zone: None };
    let sleeper = Requester { window: Some(window), ..requester("a.b/s") };
    let reached =
        |action| Requester { deadline: Some(at(0).into()), at_deadline: Some(action), ..requester("a.b/r") };
    let terminating = LivePod { terminating_until: Some(at(0) + TimeDelta::seconds(9)), ..RUNNING };
    let ended = LivePod { phase: PodPhase::Terminal, ..RUNNING };
    let stopped = LivePod { running_container: false, ..RUNNING };
    let app: Registered = vec![ResponderEntry::named("self")].into();
    let plain = || requester("a.b/r");
    let table = [
        ("running", vec![plain()], &RUNNING, Active),
        ("a requester waits for its window", vec![sleeper.clone()], &RUNNING, Inactive),
        ("another does not", vec![sleeper, plain()], &RUNNING, Active),
        ("the pod terminates", vec![plain()], &terminating, Inactive),
        ("the pod has ended", vec![plain()], &ended, Inactive),
        ("no container runs", vec![plain()], &stopped, Inactive),
        ("an Evict deadline was reached", vec![reached(DeadlineAction::Evict)], &RUNNING, Inactive),
        ("the only requester gave up", vec![reached(DeadlineAction::GiveUp)], &RUNNING, Inactive),
    ];
    for (case, requesters, pod, expected) in table {
        assert_eq!(states(requesters, pod, &app), [expected], "{case}");
    }
    assert_eq!(states(vec![plain()], &stopped, &registered())[0], Active, "another is asked first");
}

#[test]
fn the_problems_of_the_registrations_are_in_the_status_in_bounded_length() {
    let registered = Registered {
        left_out: (0..100).map(|i| format!("a.b/{i}")).collect(),
        unreadable: Some("x".repeat(10_000)),
        ..Registered::default()
    };
    let status = created(vec![requester("a.b/r")], &RUNNING, &registered).status.unwrap();
    let problems = status.registration.unwrap();
    assert_eq!((problems.left_out.len(), problems.left_out[0].as_str()), (16, "a.b/0"));
    assert!(problems.unreadable.unwrap().len() <= 1024);
}
