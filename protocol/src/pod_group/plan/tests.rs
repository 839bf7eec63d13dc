use evacuation_api::{Answer, FailedReason, REFRESH_REQUESTER, ResponderState, condition_time};
use k8s_openapi::api::core::v1::{PodSpec, PodStatus};

use super::*;
use crate::{
    pod_group::{MAX_GROUP_MEMBERS, Member, holding},
    status::{cancel, fail},
    testing::{at, condition, evacuation_of_app, requester, requester_of},
};

/// Returns a pod of the group that was made at that second and runs on a node. Its UID is its name.
fn pod(name: &str, made: i64) -> Pod {
    let mut pod = Pod::default();
    pod.metadata.name = Some(name.to_owned());
    pod.metadata.uid = Some(name.to_owned());
    pod.metadata.creation_timestamp = Some(condition_time(at(made)));
    pod.spec = Some(PodSpec { node_name: Some("node-a".to_owned()), ..PodSpec::default() });
    pod.status = Some(PodStatus { phase: Some("Running".to_owned()), ..PodStatus::default() });
    pod
}

/// Returns an Evacuation of that pod, created at 100, whose app is asked.
fn asking(pod: &str, entries: Vec<Requester>) -> Evacuation {
    let mut evacuation = evacuation_of_app(entries);
    evacuation.metadata.creation_timestamp = Some(condition_time(at(100)));
    evacuation.spec.target.pod.name = pod.to_owned();
    evacuation.spec.target.pod.uid = Some(pod.to_owned());
    evacuation
}

fn answered(mut evacuation: Evacuation, answer: Answer) -> Evacuation {
    let responders = evacuation.status.as_mut().unwrap().responders.as_mut().unwrap();
    responders[0].state = ResponderState::Active;
    responders[0].answer = Some(answer);
    evacuation
}

/// Ends an Evacuation by a refusal at that second.
fn refused(mut evacuation: Evacuation, time: i64) -> Evacuation {
    let status = evacuation.status.as_mut().unwrap();
    fail(status, FailedReason::Refused, "responder self refused", at(time));
    evacuation
}

fn entry_of(policy: RefusalPolicy) -> Requester {
    Requester { on_refusal: Some(policy), ..requester("a.b/r") }
}

/// Returns the entry that a request of that policy for pod-0 puts into the Evacuations of the others.
fn member_entry(policy: RefusalPolicy) -> Requester {
    Requester { on_refusal: Some(policy), ..requester(POD_GROUP_REQUESTER) }
}

/// No owner is rejected.
fn nobody(_: &Pod, _: &str) -> bool {
    false
}

/// Returns the acts as words: the act, its pod, and the policy of its entry.
fn acts(pods: &[(&Pod, &[&Evacuation])]) -> Vec<(&'static str, String, Option<RefusalPolicy>)> {
    let words = |act: GroupAct<'_>| match act {
        GroupAct::Ask(pod, entry, _) => {
            assert_eq!((entry.owner.as_str(), entry.name.as_str()), ("alice", POD_GROUP_REQUESTER));
            ("ask", pod.metadata.name.clone().unwrap(), entry.on_refusal)
        }
        GroupAct::Join(evacuation, entry, _) => {
            ("join", evacuation.spec.target.pod.name.clone(), entry.on_refusal)
        }
        GroupAct::Withdraw(evacuation) => ("withdraw", evacuation.spec.target.pod.name.clone(), None),
    };
    let pods = pods.iter().map(|(pod, all)| GroupPod { pod, evacuations: all.to_vec() });
    plan_group(&pods.collect::<Vec<_>>(), nobody).into_iter().map(words).collect()
}

#[test]
fn a_request_for_one_member_asks_every_other_that_was_there() {
    let (one, two, replacement) = (pod("pod-0", 0), pod("pod-1", 100), pod("pod-2", 101));
    let mut pending = pod("pod-3", 0);
    pending.spec.as_mut().unwrap().node_name = None;
    let mut ended = pod("pod-4", 0);
    ended.status.as_mut().unwrap().phase = Some("Succeeded".to_owned());
    let asked = asking("pod-0", vec![entry_of(RefusalPolicy::GiveUp)]);
    let pods = [(&one, &[&asked][..]), (&two, &[]), (&replacement, &[]), (&pending, &[]), (&ended, &[])];
    assert_eq!(acts(&pods), [("ask", "pod-1".to_owned(), Some(RefusalPolicy::GiveUp))]);
    let alone = [(&one, &[][..]), (&two, &[][..])];
    assert_eq!(acts(&alone), [], "nobody asks");
}

#[test]
fn the_hardest_request_asks_the_members_and_an_entry_of_the_group_is_no_request() {
    let (one, two, three) = (pod("pod-0", 0), pod("pod-1", 0), pod("pod-2", 0));
    let soft = asking("pod-0", vec![entry_of(RefusalPolicy::GiveUp)]);
    let hard = asking("pod-1", vec![entry_of(RefusalPolicy::Wait)]);
    let pods = [(&one, &[&soft][..]), (&two, &[&hard]), (&three, &[])];
    let wait = Some(RefusalPolicy::Wait);
    assert_eq!(acts(&pods), [("join", "pod-0".to_owned(), wait), ("ask", "pod-2".to_owned(), wait)]);
    let soft = asking("pod-0", vec![entry_of(RefusalPolicy::Wait)]);
    let by_soft = asking("pod-2", vec![member_entry(RefusalPolicy::GiveUp)]);
    let pods = [(&one, &[&soft][..]), (&two, &[&hard]), (&three, &[&by_soft])];
    assert_eq!(acts(&pods), [("join", "pod-2".to_owned(), wait)]);
}

/// # Attack
///
/// - Attacker: a tenant whose app refuses for ever
/// - Act: asks one member under `Wait` before an administrator drains another one under `Override`
/// - Promise: 3
#[test]
fn a_harder_request_joins_a_member_that_others_ask_more_softly() {
    let (one, two) = (pod("pod-0", 0), pod("pod-1", 0));
    let hard = asking("pod-0", vec![entry_of(RefusalPolicy::Override)]);
    let softly = || asking("pod-1", vec![entry_of(RefusalPolicy::Wait)]);
    let mut refusing = answered(softly(), Answer::Refuse);
    let status = refusing.status.as_mut().unwrap();
    status.conditions.push(condition("Blocked", "True", "Refused"));
    let joined = [("join", "pod-1".to_owned(), Some(RefusalPolicy::Override))];
    for own in [softly(), refusing] {
        assert_eq!(acts(&[(&one, &[&hard]), (&two, &[&own])]), joined, "{own:?}");
    }
    let as_hard = asking("pod-1", vec![entry_of(RefusalPolicy::Override)]);
    for own in [answered(softly(), Answer::Accept), as_hard] {
        assert_eq!(acts(&[(&one, &[&hard]), (&two, &[&own])]), [], "{own:?}");
    }
}

#[test]
fn the_refresh_of_a_pod_in_a_crash_loop_concerns_no_other() {
    let (one, two) = (pod("pod-0", 0), pod("pod-1", 0));
    let asked = asking("pod-0", vec![requester(REFRESH_REQUESTER)]);
    assert_eq!(acts(&[(&one, &[&asked]), (&two, &[])]), []);
    assert_eq!(other_members(&asked, &[GroupPod { pod: &two, evacuations: vec![] }]), []);
}

#[test]
fn an_entry_for_a_request_that_left_does_not_stay_beside_another_request() {
    let (one, two) = (pod("pod-0", 0), pod("pod-1", 0));
    let canceled = asking("pod-0", vec![entry_of(RefusalPolicy::Wait)]);
    let status = cancel(canceled.status.as_ref().unwrap(), "withdrawn", at(110));
    let canceled = Evacuation { status: Some(status), ..canceled };
    let both = vec![entry_of(RefusalPolicy::GiveUp), member_entry(RefusalPolicy::Wait)];
    let both = asking("pod-1", both);
    let expected = [("ask", Some(RefusalPolicy::GiveUp)), ("withdraw", None)];
    let found = acts(&[(&one, &[&canceled]), (&two, &[&both])]);
    assert_eq!(found.iter().map(|(act, _, policy)| (*act, *policy)).collect::<Vec<_>>(), expected);
}

#[test]
fn a_deletion_by_the_controller_that_owns_a_pod_concerns_no_other() {
    let (one, two) = (pod("pod-0", 0), pod("pod-1", 0));
    for (row, asks) in [("job", 0), ("statefulset", 0), ("deletion", 1), ("preemption", 1)] {
        let asked = asking("pod-0", vec![requester(&format!("gateway.evacuation.dev/{row}"))]);
        assert_eq!(acts(&[(&one, &[&asked]), (&two, &[])]).len(), asks, "{row}");
        let other = [GroupPod { pod: &two, evacuations: vec![] }];
        assert_eq!(other_members(&asked, &other).len(), asks, "{row}");
    }
}

#[test]
fn a_deadline_that_evicts_is_passed_on_and_one_that_gives_up_is_not() {
    let (one, two) = (pod("pod-0", 0), pod("pod-1", 0));
    for (action, expected) in [
        (DeadlineAction::Evict, Some(at(500))),
        (DeadlineAction::Delete, Some(at(500))),
        (DeadlineAction::GiveUp, None),
    ] {
        let entry = Requester {
            deadline: Some(at(500).into()),
            at_deadline: Some(action),
            ..entry_of(RefusalPolicy::Wait)
        };
        let asked = asking("pod-0", vec![entry]);
        let members =
            [GroupPod { pod: &one, evacuations: vec![&asked] }, GroupPod { pod: &two, evacuations: vec![] }];
        let [GroupAct::Ask(_, entry, _)] = &plan_group(&members, nobody)[..] else { panic!("{action:?}") };
        assert_eq!(entry.deadline.map(evacuation_api::WholeSecond::time), expected);
    }
}

#[test]
fn a_member_that_refused_is_asked_again_only_by_a_request_that_does_not_give_up() {
    let (one, two) = (pod("pod-0", 0), pod("pod-1", 0));
    let refusal = refused(asking("pod-1", vec![member_entry(RefusalPolicy::GiveUp)]), 110);
    let old = refused(asking("pod-1", vec![member_entry(RefusalPolicy::GiveUp)]), 90);
    for (policy, ended, expected) in [
        (RefusalPolicy::GiveUp, &refusal, 0),
        (RefusalPolicy::GiveUp, &old, 1),
        (RefusalPolicy::Wait, &refusal, 1),
        (RefusalPolicy::Override, &refusal, 1),
    ] {
        let asked = asking("pod-0", vec![entry_of(policy)]);
        assert_eq!(acts(&[(&one, &[&asked]), (&two, &[ended])]).len(), expected, "{policy:?}");
    }
}

#[test]
fn entries_leave_with_the_request_unless_every_member_is_done() {
    let (one, two, three) = (pod("pod-0", 0), pod("pod-1", 0), pod("pod-2", 0));
    let ended = |evacuation: Evacuation| {
        let status = cancel(evacuation.status.as_ref().unwrap(), "withdrawn", at(110));
        Evacuation { status: Some(status), ..evacuation }
    };
    let canceled = ended(asking("pod-0", vec![entry_of(RefusalPolicy::Wait)]));
    let asked = asking("pod-1", vec![member_entry(RefusalPolicy::Wait)]);
    assert_eq!(
        acts(&[(&one, &[&canceled]), (&two, &[&asked]), (&three, &[])]),
        [("withdraw", "pod-1".to_owned(), None)]
    );
    // The pod of the request is gone, and the only other member has not answered.
    assert_eq!(acts(&[(&two, &[&asked])]), [("withdraw", "pod-1".to_owned(), None)]);
    // The pod of the request is gone, and the other members have accepted.
    let second = answered(asked, Answer::Accept);
    let third = answered(asking("pod-2", vec![member_entry(RefusalPolicy::Wait)]), Answer::Accept);
    assert_eq!(acts(&[(&two, &[&second]), (&three, &[&third])]), []);
}

#[test]
fn only_an_accepted_member_is_done_and_a_refusal_is_named_first() {
    let one = asking("pod-0", vec![entry_of(RefusalPolicy::Wait)]);
    let (two, three, four) = (pod("pod-1", 0), pod("pod-2", 0), pod("pod-3", 0));
    let delayed = answered(asking("pod-1", vec![member_entry(RefusalPolicy::Wait)]), Answer::Delay);
    let accepted = answered(asking("pod-2", vec![member_entry(RefusalPolicy::Wait)]), Answer::Accept);
    let refusal = refused(asking("pod-3", vec![member_entry(RefusalPolicy::GiveUp)]), 110);
    let members = |fourth: Vec<_>| {
        let pods = [
            GroupPod { pod: &two, evacuations: vec![&delayed] },
            GroupPod { pod: &three, evacuations: vec![&accepted] },
            GroupPod { pod: &four, evacuations: fourth },
        ];
        other_members(&one, &pods)
    };
    let state = |members: &[Member]| holding(members).map(|found| (found.pod.clone(), found.state.clone()));
    let words = "responder self refused".to_owned();
    assert_eq!(state(&members(vec![&refusal])), Some(("pod-3".to_owned(), MemberState::Refused(words))));
    assert_eq!(state(&members(vec![])), Some(("pod-1".to_owned(), MemberState::Asking)));
    let pods = [GroupPod { pod: &three, evacuations: vec![&accepted] }];
    assert_eq!(holding(&other_members(&one, &pods)), None);
}

#[test]
fn the_owner_of_a_request_is_named_with_its_own_groups_and_never_with_those_of_its_writer() {
    let (one, two) = (pod("pod-0", 0), pod("pod-1", 0));
    for (user, expected) in [("alice", "people"), ("gateway", "admins")] {
        let mut asked = asking("pod-0", vec![entry_of(RefusalPolicy::Wait)]);
        let recorded = &mut asked.status.as_mut().unwrap().requesters[0];
        (recorded.user, recorded.owner_groups) = (user.to_owned(), vec!["admins".to_owned()]);
        let members =
            [GroupPod { pod: &one, evacuations: vec![&asked] }, GroupPod { pod: &two, evacuations: vec![] }];
        let [GroupAct::Ask(_, _, groups)] = &plan_group(&members, nobody)[..] else { panic!("{user}") };
        assert_eq!(*groups, OwnerGroups::new("alice", &[expected.to_owned()]));
    }
}

#[test]
fn a_pod_that_the_hardest_requester_may_not_ask_is_asked_for_the_next() {
    let (one, two, three) = (pod("pod-0", 0), pod("pod-1", 0), pod("pod-2", 0));
    let of = |owner: &str, policy| Requester { on_refusal: Some(policy), ..requester_of(owner, "a.b/r") };
    let asked = asking("pod-0", vec![of("alice", RefusalPolicy::Override), of("bob", RefusalPolicy::GiveUp)]);
    let by_carol = asking("pod-1", vec![of("carol", RefusalPolicy::Wait)]);
    let members = [
        GroupPod { pod: &one, evacuations: vec![&asked] },
        GroupPod { pod: &two, evacuations: vec![&by_carol] },
        GroupPod { pod: &three, evacuations: vec![] },
    ];
    let table = [
        ("", Some(("alice", RefusalPolicy::Override))),
        ("alice", Some(("carol", RefusalPolicy::Wait))),
        ("alice carol", Some(("bob", RefusalPolicy::GiveUp))),
        ("alice bob carol", None),
    ];
    let is_three = |pod: &Pod| pod.metadata.uid == three.metadata.uid;
    for (rejected, expected) in table {
        let acts = plan_group(&members, |pod, owner| is_three(pod) && rejected.contains(owner));
        let entry = acts.iter().find_map(|act| match act {
            GroupAct::Ask(pod, entry, _) if is_three(pod) => Some(entry),
            _ => None,
        });
        let found = entry.map(|entry| (entry.owner.as_str(), entry.on_refusal.unwrap_or_default()));
        assert_eq!(found, expected, "{rejected}");
    }
    // The one who may ask it has taken the request back.
    let of_bob = Requester { owner: "bob".to_owned(), ..member_entry(RefusalPolicy::GiveUp) };
    let (by_bob, by_alice) =
        (asking("pod-2", vec![of_bob]), asking("pod-0", vec![of("alice", RefusalPolicy::Override)]));
    let members = [
        GroupPod { pod: &one, evacuations: vec![&by_alice] },
        GroupPod { pod: &three, evacuations: vec![&by_bob] },
    ];
    let acts = plan_group(&members, |pod, owner| is_three(pod) && owner == "alice");
    assert_eq!(acts, [GroupAct::Withdraw(&by_bob)]);
}

#[test]
fn a_group_that_moves_together_no_longer_takes_its_entries_back() {
    let asked = asking("pod-1", vec![member_entry(RefusalPolicy::Wait)]);
    let by_others = asking("pod-2", vec![entry_of(RefusalPolicy::Wait)]);
    let done = answered(asking("pod-3", vec![member_entry(RefusalPolicy::Wait)]), Answer::Accept);
    let ended = refused(asking("pod-4", vec![member_entry(RefusalPolicy::GiveUp)]), 110);
    let mut leaving = asking("pod-5", vec![member_entry(RefusalPolicy::Wait)]);
    leaving.status.as_mut().unwrap().eviction.get_or_insert_default().in_flight = true;
    let all = [&asked, &by_others, &done, &ended, &leaving];
    assert_eq!(part_group(all), [GroupAct::Withdraw(&asked)]);
    let pods: Vec<_> = (0..=MAX_GROUP_MEMBERS).map(|number| pod(&format!("pod-{number}"), 0)).collect();
    let request = asking("pod-0", vec![entry_of(RefusalPolicy::Wait)]);
    let mut members: Vec<_> = pods.iter().map(|pod| GroupPod { pod, evacuations: vec![] }).collect();
    members[0].evacuations.push(&request);
    members[1].evacuations.push(&asked);
    assert_eq!(plan_group(&members, nobody), [GroupAct::Withdraw(&asked)], "it grew too large");
}

/// # Attack
///
/// - Attacker: a tenant who makes more pods in a PodGroup than are looked at together
/// - Act: makes each change of one of them cost a look at all
/// - Promise: 8
#[test]
fn a_group_that_is_too_large_moves_pod_by_pod() {
    let pods: Vec<_> = (0..=MAX_GROUP_MEMBERS).map(|number| pod(&format!("pod-{number}"), 0)).collect();
    let asked = asking("pod-0", vec![requester_of("alice", "a.b/r")]);
    let members = |count: usize| -> Vec<GroupPod<'_>> {
        let evacuations = |number| if number == 0 { vec![&asked] } else { Vec::new() };
        let numbered = pods.iter().take(count).enumerate();
        numbered.map(|(number, pod)| GroupPod { pod, evacuations: evacuations(number) }).collect()
    };
    let most = members(MAX_GROUP_MEMBERS);
    assert_eq!(
        (plan_group(&most, nobody).len(), other_members(&asked, &most).len()),
        (MAX_GROUP_MEMBERS - 1, MAX_GROUP_MEMBERS - 1)
    );
    let more = members(MAX_GROUP_MEMBERS + 1);
    assert_eq!((plan_group(&more, nobody).len(), other_members(&asked, &more).len()), (0, 0));
}
