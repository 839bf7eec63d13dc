//! The wait for the other members of the target's PodGroup.

use evacuation_api::{BlockedReason, RefusalPolicy};

use super::{
    World,
    step::{Blockage, Step},
};
use crate::{
    pod_group::{MemberState, holding},
    policy::forced,
    status::Block,
};

impl Step<'_> {
    /// Returns the words of the end when another member has refused for all of them.
    pub(super) fn refused_by_group(&self, world: &World) -> Option<String> {
        if self.policy.on_refusal != RefusalPolicy::GiveUp || self.acts_alone() {
            return None;
        }
        let member = holding(&world.group)?;
        match &member.state {
            MemberState::Refused(words) => Some(refusal(&member.pod, words)),
            _ => None,
        }
    }

    /// Returns the blockage by a member that is not done.
    pub(super) fn held_by_group(&self, world: &World) -> Option<Blockage> {
        let member = holding(&world.group).filter(|_| !self.acts_alone())?;
        let message = match &member.state {
            MemberState::Refusing(words) => {
                let message = refusal(&member.pod, words);
                return Some(Blockage::By(Block::new(BlockedReason::Refused, &message)));
            }
            MemberState::Refused(words) => refusal(&member.pod, words),
            MemberState::Unasked => format!("pod {} of the same PodGroup is not asked yet", member.pod),
            MemberState::Asking | MemberState::Done => {
                format!("pod {} of the same PodGroup is being asked", member.pod)
            }
        };
        Some(Blockage::By(Block::new(BlockedReason::PodGroup, &message)))
    }

    /// Returns true when a deadline acts, the pod is on its way, or it is not to move: a rehearsal.
    fn acts_alone(&self) -> bool {
        let on_its_way = self.next.eviction.as_ref().is_some_and(|e| e.in_flight || e.accepted);
        on_its_way || self.evacuation.spec.rehearsal || forced(&self.policy).is_some()
    }
}

fn refusal(pod: &str, words: &str) -> String {
    // Another member that ended for the same reason names the pod already.
    if words.starts_with("pod ") {
        words.to_owned()
    } else {
        format!("pod {pod} of the same PodGroup: {words}")
    }
}

#[cfg(test)]
mod tests {
    use evacuation_api::{
        Answer, ConditionType, DeadlineAction, Evacuation, EvacuationStatus, FailedReason, Requester,
    };

    use super::*;
    use crate::{
        Act, Member, check_status_update, decide,
        testing::{at, evacuation_of_app, requester, world},
    };

    /// Returns a world in which pod `db-1` of the target's PodGroup is in that state.
    fn beside(state: MemberState) -> World {
        World { group: vec![Member { pod: "db-1".to_owned(), state }], ..world() }
    }

    /// Returns an Evacuation under that policy whose app gave that answer.
    fn answered(policy: RefusalPolicy, answer: Option<Answer>) -> Evacuation {
        let mut e = evacuation_of_app(vec![Requester { on_refusal: Some(policy), ..requester("a.b/r") }]);
        let responders = e.status.as_mut().unwrap().responders.as_mut().unwrap();
        (responders[0].answer, responders[0].answer_time) = (answer, answer.map(|_| at(1).into()));
        e
    }

    /// The status that is written; the server takes it as it is.
    #[track_caller]
    fn written(evacuation: &Evacuation, world: &World, seconds: i64) -> EvacuationStatus {
        let decision = decide(evacuation, world, at(seconds));
        let [Act::WriteStatus(status)] = &decision.acts[..] else { panic!("no write: {decision:?}") };
        let result = check_status_update(evacuation, (**status).clone(), at(seconds));
        assert_eq!(result.as_ref(), Ok(&**status), "the server makes the same of it");
        result.unwrap()
    }

    fn in_flight(status: &EvacuationStatus) -> bool {
        status.eviction.as_ref().is_some_and(|eviction| eviction.in_flight)
    }

    #[test]
    fn no_member_of_a_pod_group_is_evicted_before_all_are_done() {
        let e = answered(RefusalPolicy::Wait, Some(Answer::Accept));
        for state in [MemberState::Unasked, MemberState::Asking, MemberState::Refused("no".to_owned())] {
            let status = written(&e, &beside(state.clone()), 5);
            assert_eq!(status.reason(), Some(BlockedReason::PodGroup), "{state:?}");
            assert!(!in_flight(&status), "{state:?}");
        }
        let refusing = beside(MemberState::Refusing("responder self refused".to_owned()));
        let status = written(&e, &refusing, 5);
        assert_eq!(status.reason(), Some(BlockedReason::Refused), "it waits for another answer");
        assert!(in_flight(&written(&e, &beside(MemberState::Done), 5)));
    }

    #[test]
    fn a_refusal_of_one_member_ends_the_evacuations_of_all_under_give_up() {
        let refused = beside(MemberState::Refused("responder self refused: busy".to_owned()));
        for answer in [Some(Answer::Accept), None] {
            let status = written(&answered(RefusalPolicy::GiveUp, answer), &refused, 5);
            assert_eq!(status.reason(), Some(FailedReason::PodGroupRefused));
            let message = &status.true_condition(ConditionType::Failed).unwrap().message;
            assert_eq!(message, "pod db-1 of the same PodGroup: responder self refused: busy");
        }
        for policy in [RefusalPolicy::Wait, RefusalPolicy::Override] {
            let status = written(&answered(policy, Some(Answer::Accept)), &refused, 5);
            assert!(!status.is_true(ConditionType::Failed), "{policy:?}");
        }
    }

    #[test]
    fn a_deadline_acts_whatever_the_other_members_do() {
        let mut e = answered(RefusalPolicy::Wait, Some(Answer::Accept));
        let entry = &mut e.spec.requesters[0];
        (entry.deadline, entry.at_deadline) = (Some(at(10).into()), Some(DeadlineAction::Evict));
        assert!(in_flight(&written(&e, &beside(MemberState::Asking), 20)));
    }
}
