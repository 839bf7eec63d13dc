//! The oracle of the judge: what callers and the app have been told, remembered apart from any status.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use evacuation_api::{
    Answer, DeadlineAction, EvacuationResponseStatus, RefusalPolicy, Requester, WholeSecond,
};

use super::{
    law::GatewayLaw,
    played::{Played, after},
};
use crate::call::{Call, Operation};

/// Time after the end of an Evacuation in which a call by name counts as a retry for the earlier pod.
const RETRY_SECONDS: i64 = 30;

/// User and name of an entry.
type Entry = (String, String);

/// Time in which a responder may stay silent, by default.
const SILENCE_SECONDS: i64 = 60;
/// Maximum time in which an answer holds in an outage.
pub(super) const HOLD_SECONDS: i64 = 900;
/// Time in which a question is left to the app while nobody acts.
const QUESTION_SECONDS: i64 = 30;

/// Memory of the present pod and of the earlier ones.
#[derive(Clone, Debug, Default)]
pub(super) struct Oracle {
    /// Entries of the present pod, and when each was made.
    entries: BTreeMap<Entry, DateTime<Utc>>,
    /// Time at which the app was asked.
    asked: Option<DateTime<Utc>>,
    /// The last answer of the app, and until when its delay was granted.
    said: Option<(Answer, Option<DateTime<Utc>>)>,
    /// Time at which an entry forces the eviction.
    forced: Option<DateTime<Utc>>,
    /// True when an entry overrides refusals.
    overrides: bool,
    /// Time at which the controller first found the budget without room, without another look in between.
    no_room: Option<DateTime<Utc>>,
    /// Users who asked for the present pod, also in Evacuations that have ended.
    users: BTreeSet<String>,
    /// The earlier pods.
    before: Vec<Earlier>,
    /// The first law that was broken, and how.
    broken: Option<(GatewayLaw, String)>,
}

/// An earlier pod of the name.
#[derive(Clone, Debug)]
struct Earlier {
    /// Users whose entries were there at its end.
    users: Vec<String>,
    /// Its node.
    node: Option<usize>,
    /// Time at which its app was asked.
    asked: Option<DateTime<Utc>>,
    /// Time of its end, once that is recorded.
    end: Option<DateTime<Utc>>,
}

impl Oracle {
    /// Notes that a law was broken unless it holds. `how` describes the breach.
    pub(super) fn require(&mut self, law: GatewayLaw, holds: bool, how: impl FnOnce(&Self) -> String) {
        if !holds && self.broken.is_none() {
            let how = how(self);
            self.broken = Some((law, how));
        }
    }

    /// Returns the first law that was broken, and how.
    pub(super) fn broken(&self) -> Option<&(GatewayLaw, String)> {
        self.broken.as_ref()
    }

    /// Notes an entry that was written.
    pub(super) fn asked(&mut self, entry: &Requester, expired: bool, now: DateTime<Utc>) {
        if expired {
            self.left(entry);
        }
        self.asked.get_or_insert(now);
        self.users.insert(entry.owner.clone());
        self.entries.entry((entry.owner.clone(), entry.name.clone())).or_insert(now);
        if entry.at_deadline == Some(DeadlineAction::Evict) {
            let until = entry.deadline.map(WholeSecond::time);
            self.forced = self.forced.into_iter().chain(until).min();
        }
        self.overrides |= entry.on_refusal == Some(RefusalPolicy::Override);
    }

    /// Notes that an entry left. Without any the Evacuation is over, and the pod stays.
    pub(super) fn left(&mut self, entry: &Requester) {
        self.entries.remove(&(entry.owner.clone(), entry.name.clone()));
        if self.entries.is_empty() {
            self.ended();
        }
    }

    /// Notes an answer that the server took.
    pub(super) fn answered(&mut self, said: Answer, reply: &EvacuationResponseStatus) {
        self.said = Some((said, reply.delay_until.map(|time| time.0)));
    }

    /// Notes that the controller has looked at the budget. It is the reason only when no answer holds.
    pub(super) fn looked(&mut self, registered: bool, room: bool, now: DateTime<Utc>) {
        let blocks = !room && !self.entries.is_empty() && self.holds(registered, now).is_none();
        self.no_room = blocks.then(|| self.no_room.unwrap_or(now));
    }

    /// Notes that the Evacuation ended and the pod stays.
    pub(super) fn ended(&mut self) {
        let old = std::mem::take(self);
        *self = Self { users: old.users, before: old.before, broken: old.broken, ..Self::default() };
    }

    /// Notes that another pod has the name. The node is that of the earlier one.
    pub(super) fn replaced(&mut self, node: Option<usize>) {
        let users: Vec<_> = self.entries.keys().map(|(user, _)| user.clone()).collect();
        self.before.push(Earlier { users, node, asked: self.asked, end: None });
        self.ended();
        self.users.clear();
    }

    /// Notes that the ends of the earlier pods are recorded.
    pub(super) fn recorded(&mut self, now: DateTime<Utc>) {
        for earlier in &mut self.before {
            earlier.end.get_or_insert(now);
        }
    }

    /// Returns what holds the app's pod, if anything does.
    fn holds(&self, registered: bool, now: DateTime<Utc>) -> Option<String> {
        let holds = match self.said {
            _ if !registered || self.forced.is_some_and(|time| time <= now) => false,
            Some((Answer::Accept, _)) => false,
            Some((Answer::Refuse, _)) => !self.overrides,
            Some((Answer::Delay, until)) => until.is_some_and(|until| now < until),
            None => self.asked.is_some_and(|asked| now < after(asked, SILENCE_SECONDS)),
        };
        holds.then(|| format!("{self:?} at {now}"))
    }

    /// Checks rule 11: no call passes in an outage while an answer holds that was given. `since` is the start
    /// of the outage, by which the bound counts.
    pub(super) fn check_answer(&mut self, registered: bool, since: DateTime<Utc>, now: DateTime<Utc>) {
        let given = self.said.and_then(|_| self.holds(registered, now));
        let bound = after(since, HOLD_SECONDS);
        self.require(GatewayLaw::Holds, given.is_none() || bound <= now, |_| {
            format!("a call passed in an outage since {since}: {given:?}")
        });
    }

    /// Checks rule 11: while nobody acts, a question passes only when the app had time for it.
    pub(super) fn check_question(&mut self, now: DateTime<Utc>) {
        let early = self.asked.filter(|asked| now < after(*asked, QUESTION_SECONDS));
        self.require(GatewayLaw::Holds, early.is_none(), |oracle| {
            format!("the app had no time for the question: {oracle:?} at {now}")
        });
    }

    /// Checks that no call waits without an end in an outage: an answer holds, or the question is fresh.
    /// While the gateway's watch of pods `lags`, the question may be that of an earlier pod.
    pub(super) fn check_wait(&mut self, lags: bool, since: DateTime<Utc>, now: DateTime<Utc>) {
        let earlier = self.before.iter().filter(|_| lags).filter_map(|earlier| earlier.asked);
        let mut questions = self.asked.into_iter().chain(earlier);
        let fresh = questions.any(|asked| now < after(asked.max(since), QUESTION_SECONDS));
        self.require(GatewayLaw::Ends, now < after(since, HOLD_SECONDS) || fresh, |oracle| {
            format!("a call waits since {since}: {oracle:?} at {now}")
        });
    }

    /// Checks rules 8 and 11: in an outage a budget is passed with the patience of the caller's row. What is
    /// not known of the time before counts from its beginning.
    pub(super) fn check_blocked_in_outage(
        &mut self,
        user: &str,
        name: &str,
        patience: u32,
        since: DateTime<Utc>,
        now: DateTime<Utc>,
    ) {
        let made = self.entries.get(&(user.to_owned(), name.to_owned())).copied();
        let known = |time: Option<DateTime<Utc>>| time.map_or(since, |time| time.min(since));
        let from = known(made).max(known(self.no_room));
        self.require(GatewayLaw::Patience, after(from, patience.into()) <= now, |oracle| {
            format!("{user} passed a budget early: {oracle:?} at {now}")
        });
    }

    /// Checks rules 10 and 11: no call passes as done by the answers of an earlier pod, while the app has
    /// time left, or while an answer of it holds.
    pub(super) fn check_done(&mut self, registered: bool, now: DateTime<Utc>) {
        self.require(GatewayLaw::Asked, !registered || self.asked.is_some(), |oracle| {
            format!("a pod passed as done that was not asked: {oracle:?}")
        });
        let held = self.holds(registered, now);
        self.require(GatewayLaw::Holds, held.is_none(), |_| {
            format!("a call passed while an answer holds: {held:?}")
        });
    }

    /// Checks rules 8 and 11: a budget is passed with the caller's own patience.
    pub(super) fn check_blocked(&mut self, user: &str, name: &str, patience: u32, now: DateTime<Utc>) {
        let own = self.entries.get(&(user.to_owned(), name.to_owned()));
        let since = own.zip(self.no_room).map(|(made, block)| block.max(*made));
        let over = since.is_some_and(|since| after(since, patience.into()) <= now);
        self.require(GatewayLaw::Patience, over, |oracle| {
            format!("{user} passed a budget before its own patience was over: {oracle:?} at {now}")
        });
    }

    /// Checks rule 10: a caller is told that a pod is gone only where it asked for that pod and not for the
    /// present one. The present pod may be on another node only while that node takes pods and the earlier
    /// one's does not: nobody drains it.
    pub(super) fn check_gone(&mut self, call: &Call, played: &Played) {
        let user = &call.user.name;
        let drained = |node| call.operation == Operation::Evict && played.is_cordoned(node);
        let told = self.before.iter().any(|earlier| {
            let recent = earlier.end.is_some_and(|end| played.now < after(end, RETRY_SECONDS));
            let left = played.node.is_none()
                || played.node == earlier.node
                || (drained(earlier.node) && !played.is_cordoned(played.node));
            recent && left && earlier.users.contains(user)
        });
        self.require(GatewayLaw::Gone, told, |oracle| {
            format!("{user} was told that a pod is gone for which it did not ask: {:?}", oracle.before)
        });
        let asked = self.users.contains(user);
        self.require(GatewayLaw::Gone, !asked, |_| {
            format!("{user} asked for the pod that runs, and was told that it is gone")
        });
    }
}
