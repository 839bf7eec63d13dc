//! Pods with an active Evacuation: the responders and their answers.

use chrono::{DateTime, Utc};
use evacuation_api::{
    Answer, BlockedReason, ConditionType, DrainBlockerReason, Evacuation, EvacuationStatus, Policy,
    RefusalPolicy, ResponderState, ResponderStatus, from_condition_time,
};

use super::{
    DrainedPod, Hold, PodCount, PodJudgement, STUCK_AFTER_SECONDS, budget, command, eviction, refused, text,
};
use crate::{
    pod::{LivePod, PodPhase},
    policy::{forced, next_change, next_forcing, policy_at, rests},
    responders::{
        EXCHANGE_SECONDS, asked_again_at, asked_since, expiry_time, is_unreachable, longest_end, unreadable,
    },
    status::is_finished,
    time::{after, sooner},
};

/// One pod with its active Evacuation.
pub(super) struct Ask<'a> {
    pub(super) pod: &'a DrainedPod<'a>,
    pub(super) live: LivePod,
    pub(super) evacuation: &'a Evacuation,
    pub(super) status: &'a EvacuationStatus,
    pub(super) policy: Policy,
    pub(super) now: DateTime<Utc>,
}

/// Judges a pod that has an active Evacuation.
pub(super) fn judge(pod: &DrainedPod<'_>, evacuation: &Evacuation, now: DateTime<Utc>) -> PodJudgement {
    let Some(status) = &evacuation.status else { return PodJudgement::of(PodCount::Asked) };
    if status.is_true(ConditionType::Failed) {
        return refused::left_alone(pod, evacuation, now);
    }
    let live = LivePod::of(pod.pod);
    if is_finished(status) || live.phase == PodPhase::Terminal {
        return PodJudgement::of(PodCount::Evicting);
    }
    let policy = policy_at(&evacuation.spec.requesters, status, now);
    let ask = Ask { pod, live, evacuation, status, policy, now };
    let judgement = ask.judge();
    match next_change(&ask.policy) {
        Some(time) => judgement.changing_at(time),
        None => judgement,
    }
}

impl Ask<'_> {
    fn judge(&self) -> PodJudgement {
        if rests(&self.evacuation.spec.requesters, self.status, &self.policy) {
            return PodJudgement::of(PodCount::Waiting).expected(next_change(&self.policy));
        }
        let responders = self.status.responders.as_deref().unwrap_or_default();
        let accepted = self.status.eviction.as_ref().is_some_and(|eviction| eviction.accepted);
        let all_done = self.status.responders.is_some() && responders.iter().all(|r| r.state.is_done());
        if accepted || all_done {
            return eviction::judge(self);
        }
        let Some(active) = responders.iter().find(|r| r.state == ResponderState::Active) else {
            if self.status.reason() == Some(BlockedReason::AwaitingTurn) {
                return self.in_line();
            }
            return PodJudgement::of(PodCount::Asked);
        };
        if forced(&self.policy).is_some() {
            // The controller is about to skip the responders.
            return PodJudgement::of(PodCount::Asked);
        }
        match active.answer {
            Some(Answer::Accept) => PodJudgement::of(PodCount::Asked),
            None => self.unanswered(active),
            Some(Answer::Delay) => self.delayed(active),
            Some(Answer::Refuse) => self.refused(active),
        }
    }

    /// A pod that is asked when its budget has room for it.
    fn in_line(&self) -> PodJudgement {
        let hold = budget::in_line(self);
        let hold = match eviction::deletion_time(self) {
            Some(time) => hold.until_deleted(time),
            None => hold,
        };
        PodJudgement::held(PodCount::Waiting, self.pod, hold)
    }

    /// A responder that was asked counts as a blocker when half of its time is over, and at once when its
    /// endpoint gave a reply that does not count.
    fn unanswered(&self, active: &ResponderStatus) -> PodJudgement {
        let end = expiry_time(active);
        if end.is_some_and(|end| end <= self.now) {
            return PodJudgement::of(PodCount::Asked);
        }
        let since = asked_since(active).or(active.active_time.map(|time| time.0)).unwrap_or(self.now);
        let expected = self.end_of_answers(end);
        let half = after(since, active.timeout_seconds / 2);
        if self.now < half && active.message.is_none() {
            return PodJudgement::of(PodCount::Asked).expected(expected).changing_at(half);
        }
        let name = text::quote(&active.name);
        let mut cause = match end {
            Some(end) if is_unreachable(active) => format!(
                "responder {name} could not be reached since {}, and is tried until {}",
                text::time(since),
                text::time(end)
            ),
            Some(end) => format!("responder {name} has not answered and has time until {}", text::time(end)),
            None => format!("the question to responder {name} was not delivered yet"),
        };
        cause.push_str(&text::remark(active.message.as_deref()));
        if let Some(block) = unreadable(self.status, active) {
            cause.push_str(&text::remark([block.message.as_str()]));
        }
        let way_out =
            "nothing is needed, because the controller continues without the answer when the time is over";
        let way_out =
            if end.is_some() { way_out } else { "look at the log of the controller, which asks again" };
        let hold = Hold::new(DrainBlockerReason::Unanswered, self.object(), since, cause, way_out);
        PodJudgement::held(PodCount::Asked, self.pod, hold.expected(expected).changing_at(end))
    }

    /// A pod whose delay is over. The controller evicts it at once, or once an endpoint has had the time to
    /// answer its reminder.
    fn reminded(&self, active: &ResponderStatus) -> PodJudgement {
        let (until, end) = (active.delay_until.map(|time| time.0), longest_end(active));
        let Some((until, end)) = until.zip(end).filter(|(_, end)| active.is_pushed() && self.now < *end)
        else {
            return PodJudgement::of(PodCount::Delayed);
        };
        let cause = format!(
            "the delay of responder {} was over at {}, and it has time to answer a reminder{}",
            text::quote(&active.name),
            text::time(until),
            said(active)
        );
        let way_out = "nothing is needed, because the controller continues after that time";
        let hold = Hold::new(DrainBlockerReason::Delayed, self.object(), until, cause, way_out);
        let expected = self.end_of_answers(Some(end));
        PodJudgement::held(PodCount::Delayed, self.pod, hold.expected(expected).changing_at(Some(end)))
    }

    fn delayed(&self, active: &ResponderStatus) -> PodJudgement {
        let Some(until) = active.delay_until.map(|time| time.0).filter(|until| self.now < *until) else {
            return self.reminded(active);
        };
        let cause = format!(
            "responder {} asked for a delay until {}{}",
            text::quote(&active.name),
            text::time(until),
            said(active)
        );
        let way_out = format!(
            "nothing is needed, because the controller continues when the delay ends; to limit further \
             delays: {} --deadline=10m --at-deadline=evict",
            command::set(self.pod)
        );
        let since = active.answer_time.map_or(self.now, |time| time.0);
        let hold = Hold::new(DrainBlockerReason::Delayed, self.object(), since, cause, way_out)
            .expected(self.end_of_answers(Some(until)))
            .changing_at(Some(until));
        PodJudgement::held(PodCount::Delayed, self.pod, hold)
    }

    fn refused(&self, active: &ResponderStatus) -> PodJudgement {
        if self.policy.on_refusal != RefusalPolicy::Wait {
            // The controller is about to end the Evacuation, or to ask the next responder.
            return PodJudgement::of(PodCount::Refused);
        }
        let deadline = next_forcing(&self.policy).map(|deadline| deadline.time.0);
        let again = asked_again_at(self.status, active);
        let answered_by = again.map(|time| after(time, EXCHANGE_SECONDS)).filter(|by| self.now < *by);
        let cause = format!("responder {} refused{}", text::quote(&active.name), said(active));
        let overrule = format!(
            "run {}; or set a deadline: {} --deadline=10m --at-deadline=evict",
            command::overrule(self.pod.pod),
            command::set(self.pod)
        );
        let change = "must change its answer";
        let way_out = match (deadline, again) {
            (Some(time), _) => {
                format!(
                    "nothing is needed, because the deadline overrules the refusal at {}",
                    text::time(time)
                )
            }
            (None, Some(time)) if answered_by.is_some() => {
                let is = if active.is_pushed() { "is" } else { "may be" };
                format!("the responder {is} asked again at {}, and {change}; or {overrule}", text::time(time))
            }
            (None, Some(time)) if active.is_pushed() => {
                format!(
                    "the responder is asked again since {}, without an answer, and {change}; or {overrule}",
                    text::time(time)
                )
            }
            (None, _) => format!("the responder {change}; or {overrule}"),
        };
        let answered = active.answer_time.map_or(self.now, |time| time.0);
        let since = self.refused_since(answered);
        let hold = Hold::new(DrainBlockerReason::Refused, self.object(), since, cause, way_out);
        let hold = match (deadline, again) {
            (Some(_), _) => hold,
            (None, None) => hold.stuck().until_it_ends(self.pod),
            (None, Some(time)) => {
                let lasts = after(since, STUCK_AFTER_SECONDS);
                // The recorded time has no fractions of a second.
                let is_repeated = after(since, 1) <= answered;
                let stuck_from = if is_repeated { lasts } else { lasts.max(after(time, EXCHANGE_SECONDS)) };
                hold.stuck_from(stuck_from, self.now).until_it_ends(self.pod)
            }
        };
        let changes_at = deadline.or(sooner(hold.changes_at, answered_by));
        PodJudgement::held(PodCount::Refused, self.pod, hold.expected(deadline).changing_at(changes_at))
    }

    /// Returns the time of the first of the refusals without another answer between them. The last one was
    /// given at `answered`.
    fn refused_since(&self, answered: DateTime<Utc>) -> DateTime<Utc> {
        let refused = self.status.reason() == Some(BlockedReason::Refused);
        let blocked = self.status.true_condition(ConditionType::Blocked).filter(|_| refused);
        let since = blocked.map(|condition| from_condition_time(&condition.last_transition_time));
        since.map_or(answered, |since| since.min(answered))
    }

    /// Returns the latest time at which the responders are done: the Active one at `end`, and those after it
    /// if they stay silent; or the deadline that skips them.
    fn end_of_answers(&self, end: Option<DateTime<Utc>>) -> Option<DateTime<Utc>> {
        let responders = self.status.responders.iter().flatten();
        let later = responders
            .filter(|r| r.state == ResponderState::Inactive)
            .fold(0_i64, |sum, r| sum.saturating_add(r.timeout_seconds));
        let deadline = next_forcing(&self.policy).map(|deadline| deadline.time.0);
        sooner(end.map(|end| after(end, later)), deadline)
    }

    /// Returns `Evacuation/NAME`.
    pub(super) fn object(&self) -> String {
        format!("Evacuation/{}", text::name(&self.evacuation.metadata))
    }
}

/// Returns the reason and the message of an answer, and what failed since then.
fn said(active: &ResponderStatus) -> String {
    let said = text::remark([&active.reason, &active.message].into_iter().flatten().map(String::as_str));
    match &active.failure {
        Some(failure) => said + "; since then" + &text::remark([failure.as_str()]),
        None => said,
    }
}
