//! The worth of what an Evacuation records, while the API does not answer or nobody acts.

use chrono::{DateTime, TimeDelta, Utc};
use evacuation_api::{
    Answer, DeadlineAction, Evacuation, EvacuationStatus, RefusalPolicy, ResponderState, ResponderStatus,
    from_condition_time,
};

use super::LEADERLESS;
use crate::{
    responders::{asked_since, held_until},
    time::{after, sooner},
};

/// An outage, as a process sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// Its cause.
    pub cause: OutageCause,
    /// Its start: the last sign that everything worked.
    pub since: DateTime<Utc>,
}

/// Cause of an outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutageCause {
    /// The evacuation API does not answer, or its store takes no writes. No app can answer.
    Api,
    /// No controller leads. Apps that watch can be asked and can answer, and nobody acts.
    Leaderless,
}

impl Outage {
    /// Returns the outage from the starts of both causes. It began with the earlier one. Without the API
    /// nobody can be asked, so that this cause counts for both.
    pub fn of(api: Option<DateTime<Utc>>, leaderless: Option<DateTime<Utc>>) -> Option<Self> {
        let since = sooner(api, leaderless)?;
        let cause = if api.is_some() { OutageCause::Api } else { OutageCause::Leaderless };
        Some(Self { cause, since })
    }
}

/// The record of an Evacuation that has not ended, as far as it can hold a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// An answer that has not ended: a Delay, or a Refuse that nobody overrides.
    Answer {
        /// Time at which it ends: that of the Delay, or the next deadline that evicts. `None`: no end.
        until: Option<DateTime<Utc>>,
    },
    /// No answer holds, and a responder is still to be asked or to answer.
    Unanswered {
        /// Time at which the question was made.
        since: DateTime<Utc>,
    },
    /// A Delay has ended, and the app can still answer again.
    Ended {
        /// Time at which it ended.
        since: DateTime<Utc>,
    },
    /// A deadline was reached, and nobody has recorded that yet. It acts whatever else holds the pod.
    Forced,
    /// The last refusal is overridden, and nobody has recorded that yet. The responder counts as done.
    Overridden,
    /// Every responder is done. The eviction is outstanding.
    Done,
}

/// Returns the record of an Evacuation that has not ended.
pub fn recorded(evacuation: &Evacuation, now: DateTime<Utc>) -> Recorded {
    let created = evacuation.metadata.creation_timestamp.as_ref().map(from_condition_time);
    let created = created.unwrap_or(DateTime::<Utc>::MIN_UTC);
    let Some(status) = &evacuation.status else {
        return Recorded::Unanswered { since: created };
    };
    let forced = next_forced(status);
    if forced.is_some_and(|time| time <= now) {
        return Recorded::Forced;
    }
    let Some(responders) = &status.responders else {
        return Recorded::Unanswered { since: created };
    };
    let Some(current) = responders.iter().find(|responder| !responder.state.is_done()) else {
        return Recorded::Done;
    };
    let is_last = responders.iter().filter(|responder| !responder.state.is_done()).count() == 1;
    let answered = current.answer_time.map_or(created, |time| time.0);
    let answer = current.answer.filter(|_| current.state == ResponderState::Active);
    match answer {
        Some(Answer::Delay) => match held_until(current) {
            Some(until) if now < until => Recorded::Answer { until: sooner(Some(until), forced) },
            ended => Recorded::Ended { since: ended.unwrap_or(answered) },
        },
        Some(Answer::Refuse) if !is_overridden(status) => Recorded::Answer { until: forced },
        Some(Answer::Refuse) if is_last => Recorded::Overridden,
        Some(Answer::Accept) if is_last => Recorded::Done,
        Some(Answer::Refuse | Answer::Accept) => Recorded::Unanswered { since: answered },
        None => Recorded::Unanswered { since: asked(current).unwrap_or(created) },
    }
}

/// Returns the time of the first deadline that ends the negotiation, reached or not.
fn next_forced(status: &EvacuationStatus) -> Option<DateTime<Utc>> {
    let deadlines = status.policy.iter().flat_map(|policy| &policy.deadlines);
    deadlines.filter(|d| d.action != DeadlineAction::GiveUp).map(|d| d.time.0).min()
}

fn is_overridden(status: &EvacuationStatus) -> bool {
    status.policy.as_ref().is_some_and(|policy| policy.on_refusal == RefusalPolicy::Override)
}

fn asked(responder: &ResponderStatus) -> Option<DateTime<Utc>> {
    asked_since(responder).or(responder.active_time.map(|time| time.0))
}

/// Consequence of an outage for the calls that an Evacuation holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// The answer holds its calls until then.
    Until(DateTime<Utc>),
    /// The question was made a short time ago, and the app can still answer.
    Waits,
    /// Every responder is done: the eviction API decides.
    Done,
    /// The calls pass.
    Opens(Opening),
}

/// Reason for which an outage lets a call pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// The app was asked, and has given no answer that holds.
    Unanswered,
    /// An answer held for as long as an outage can make it hold.
    HoldEnded,
    /// Nothing holds any more, and nobody can record that.
    Unheld,
}

/// Decides what a record is worth in an outage.
///
/// An answer holds until it ends, and no longer than `longest` from the start of the outage. A question
/// without an answer passes at once where no app can answer. Where nobody acts it passes [`LEADERLESS`] after
/// it was made, and after the end of a Delay. A Delay that the bound has cut off holds no call again when it
/// ends.
pub fn hold_in_outage(recorded: Recorded, outage: Outage, longest: TimeDelta, now: DateTime<Utc>) -> Hold {
    let bound = outage.since.checked_add_signed(longest).unwrap_or(DateTime::<Utc>::MAX_UTC);
    match recorded {
        Recorded::Answer { until } => {
            let until = until.map_or(bound, |until| until.min(bound));
            if now < until { Hold::Until(until) } else { Hold::Opens(Opening::HoldEnded) }
        }
        Recorded::Ended { since } if bound <= since => Hold::Opens(Opening::HoldEnded),
        Recorded::Unanswered { since } | Recorded::Ended { since } => {
            let patience = i64::try_from(LEADERLESS.as_secs()).unwrap_or(i64::MAX);
            let waits = now < after(since.max(outage.since), patience);
            match outage.cause {
                OutageCause::Leaderless if waits => Hold::Waits,
                OutageCause::Leaderless | OutageCause::Api => Hold::Opens(Opening::Unanswered),
            }
        }
        Recorded::Forced | Recorded::Overridden => Hold::Opens(Opening::Unheld),
        Recorded::Done => Hold::Done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, evacuation_of_app, requester, responder};
    use evacuation_api::{HttpEndpoint, Requester, ScheduledDeadline};

    /// Returns an Evacuation created at 0 whose app was asked at 0 and gave that answer at 10.
    fn answered(answer: Option<Answer>, policy: RefusalPolicy) -> Evacuation {
        let entry = Requester { on_refusal: Some(policy), ..requester("a.b/r") };
        let mut e = evacuation_of_app(vec![entry]);
        let responders = e.status.as_mut().unwrap().responders.as_mut().unwrap();
        responders[0].answer = answer;
        responders[0].answer_time = answer.map(|_| at(10).into());
        responders[0].delay_until = (answer == Some(Answer::Delay)).then(|| at(100).into());
        e
    }

    /// Adds a deadline at 50.
    fn with_deadline(mut e: Evacuation, action: DeadlineAction) -> Evacuation {
        let deadline = ScheduledDeadline {
            owner: "alice".to_owned(),
            requester: "a.b/r".to_owned(),
            time: at(50).into(),
            action,
            reached: false,
        };
        e.status.as_mut().unwrap().policy.as_mut().unwrap().deadlines.push(deadline);
        e
    }

    /// Asks the app over HTTP.
    fn pushed(mut e: Evacuation) -> Evacuation {
        let responders = e.status.as_mut().unwrap().responders.as_mut().unwrap();
        responders[0].http = Some(HttpEndpoint { port: 80, path: None, allow_host_network: None });
        e
    }

    /// Adds a responder that was not asked yet.
    fn with_another(mut e: Evacuation) -> Evacuation {
        let next = responder("a.b/next", ResponderState::Inactive);
        e.status.as_mut().unwrap().responders.as_mut().unwrap().push(next);
        e
    }

    #[test]
    fn a_record_is_an_answer_only_while_it_holds() {
        use DeadlineAction::{Delete, Evict, GiveUp};
        use RefusalPolicy::{Override, Wait};
        let delay = || answered(Some(Answer::Delay), Wait);
        let refusal = |policy| answered(Some(Answer::Refuse), policy);
        let accept = || answered(Some(Answer::Accept), Wait);
        let until = |second: i64| Recorded::Answer { until: Some(at(second)) };
        let since = |second: i64| Recorded::Unanswered { since: at(second) };
        let ended = |second: i64| Recorded::Ended { since: at(second) };
        let table = [
            (answered(None, Wait), 20, since(0), "silent"),
            (delay(), 20, until(100), "a delay"),
            (delay(), 100, ended(100), "a delay that ended"),
            (pushed(delay()), 20, until(130), "nobody reminds an endpoint"),
            (pushed(delay()), 130, ended(130), "it had the time to answer a reminder"),
            (with_deadline(delay(), Evict), 20, until(50), "a deadline before the end of the delay"),
            (with_deadline(delay(), Delete), 50, Recorded::Forced, "a deadline acts whatever else fails"),
            (with_deadline(delay(), GiveUp), 60, until(100), "a requester that gave up evicts nobody"),
            (refusal(Wait), 9999, Recorded::Answer { until: None }, "a refusal under Wait"),
            (refusal(RefusalPolicy::GiveUp), 20, Recorded::Answer { until: None }, "one under GiveUp"),
            (refusal(Override), 20, Recorded::Overridden, "an overridden refusal"),
            (with_another(refusal(Override)), 20, since(10), "the next is still to be asked"),
            (accept(), 20, Recorded::Done, "an acceptance"),
            (with_another(accept()), 20, since(10), "the next is still to be asked"),
            (with_another(delay()), 20, until(100), "a delay of the first"),
        ];
        for (e, now, expected, what) in table {
            assert_eq!(recorded(&e, at(now)), expected, "{what}");
        }
    }

    #[test]
    fn rule_11_an_answer_holds_to_its_end_or_to_the_bound_and_a_question_passes() {
        use OutageCause::{Api, Leaderless};
        let answer = |until: Option<i64>| Recorded::Answer { until: until.map(at) };
        let asked = |second: i64| Recorded::Unanswered { since: at(second) };
        let holds = |second| Hold::Until(at(second));
        let opens = Hold::Opens;
        // The outage began at 1000, and answers hold for 900 s.
        let table = [
            (answer(Some(1500)), Api, 1010, holds(1500)),
            (answer(Some(1500)), Leaderless, 1010, holds(1500)),
            (answer(Some(9999)), Api, 1899, holds(1900)),
            (answer(Some(9999)), Api, 1900, opens(Opening::HoldEnded)),
            (answer(None), Leaderless, 1899, holds(1900)),
            (answer(None), Leaderless, 1900, opens(Opening::HoldEnded)),
            (asked(990), Api, 1006, opens(Opening::Unanswered)),
            (asked(10), Leaderless, 1029, Hold::Waits),
            (asked(10), Leaderless, 1030, opens(Opening::Unanswered)),
            (asked(1100), Leaderless, 1129, Hold::Waits),
            (asked(1100), Leaderless, 1130, opens(Opening::Unanswered)),
            (Recorded::Ended { since: at(1850) }, Leaderless, 1870, Hold::Waits),
            (Recorded::Ended { since: at(1899) }, Leaderless, 1928, Hold::Waits),
            (Recorded::Ended { since: at(1899) }, Leaderless, 1929, opens(Opening::Unanswered)),
            // A call has passed before: it is not held again.
            (Recorded::Ended { since: at(1900) }, Leaderless, 1901, opens(Opening::HoldEnded)),
            (Recorded::Forced, Api, 1006, opens(Opening::Unheld)),
            (Recorded::Overridden, Leaderless, 1006, opens(Opening::Unheld)),
            (Recorded::Done, Leaderless, 9999, Hold::Done),
        ];
        for (recorded, cause, now, expected) in table {
            let outage = Outage { cause, since: at(1000) };
            let found = hold_in_outage(recorded, outage, TimeDelta::seconds(900), at(now));
            assert_eq!(found, expected, "{recorded:?} {cause:?} at {now}");
        }
    }

    #[test]
    fn of_two_causes_the_earlier_start_counts_and_the_api_names_it() {
        let outage = |cause, since| Some(Outage { cause, since: at(since) });
        assert_eq!(Outage::of(None, None), None);
        assert_eq!(Outage::of(Some(at(5)), None), outage(OutageCause::Api, 5));
        assert_eq!(Outage::of(None, Some(at(5))), outage(OutageCause::Leaderless, 5));
        assert_eq!(Outage::of(Some(at(9)), Some(at(5))), outage(OutageCause::Api, 5));
    }
}
