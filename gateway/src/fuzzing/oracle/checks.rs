//! The laws, as checks of one call each.

use chrono::{DateTime, Utc};
use evacuation_api::Operation;

use super::{
    super::{
        law::GatewayLaw,
        played::{Played, after},
        watch::WRITTEN_SECONDS,
    },
    HOLD_SECONDS, Oracle,
};
use crate::call::Call;

/// Time after the end of an Evacuation in which a call by name counts as a retry for the earlier pod.
const RETRY_SECONDS: i64 = 30;
/// Time in which a question is left to the app while nobody acts.
const QUESTION_SECONDS: i64 = 30;

impl Oracle {
    /// Checks rule 11: no call passes in an outage while an answer holds that was given. `since` is the start
    /// of the outage, by which the bound counts.
    pub(crate) fn check_answer(&mut self, registered: bool, since: DateTime<Utc>, now: DateTime<Utc>) {
        let given = self.said.and_then(|_| self.holds(registered, now));
        let bound = after(since, HOLD_SECONDS);
        self.require(GatewayLaw::Holds, given.is_none() || bound <= now, |_| {
            format!("a call passed in an outage since {since}: {given:?}")
        });
    }

    /// Checks rule 11: while nobody acts, a question passes only when the app had time for it.
    pub(crate) fn check_question(&mut self, now: DateTime<Utc>) {
        let early = self.asked.filter(|asked| now < after(*asked, QUESTION_SECONDS));
        self.require(GatewayLaw::Holds, early.is_none(), |oracle| {
            format!("the app had no time for the question: {oracle:?} at {now}")
        });
    }

    /// Checks that no call waits without an end in an outage: an answer holds, the question is fresh, or a
    /// delay has just ended. While a watch of the gateway `lags`, the question may be that of an earlier pod,
    /// or may have ended. No call is held again by an answer after one has passed by the bound.
    pub(crate) fn check_wait(&mut self, lags: bool, since: DateTime<Utc>, now: DateTime<Utc>) {
        let earlier = self.before.iter().map(|earlier| earlier.asked).chain([self.asked_before]);
        let delayed = self.said.and_then(|(_, until)| until).filter(|_| !self.passed_bound);
        let mut questions = self.asked.into_iter().chain(delayed).chain(earlier.filter(|_| lags).flatten());
        let fresh = questions.any(|asked| now < after(asked.max(since), QUESTION_SECONDS));
        let holds = now < after(since, HOLD_SECONDS) && !self.passed_bound;
        self.require(GatewayLaw::Ends, holds || fresh, |oracle| {
            format!("a call waits since {since}: {oracle:?} at {now}")
        });
    }

    /// Checks rule 11: a question that the gateway has just written is `known` to it, although the watch has
    /// not delivered it.
    pub(crate) fn check_known(&mut self, known: bool, now: DateTime<Utc>) {
        let fresh = self.written.filter(|written| now < after(*written, WRITTEN_SECONDS));
        self.require(GatewayLaw::Holds, known || fresh.is_none(), |oracle| {
            format!("the gateway forgot its own question: {oracle:?} at {now}")
        });
    }

    /// Checks rules 8 and 11: in an outage a budget is passed with the patience of the caller's row. What is
    /// not known of the time before counts from its beginning, and so does an entry that has expired.
    pub(crate) fn check_blocked_in_outage(
        &mut self,
        user: &str,
        name: &str,
        patience: u32,
        since: DateTime<Utc>,
        now: DateTime<Utc>,
    ) {
        let own = self.entries.get(&(user.to_owned(), name.to_owned()));
        let made = own.filter(|own| !own.has_expired(now)).map(|own| own.made);
        let known = |time: Option<DateTime<Utc>>| time.map_or(since, |time| time.min(since));
        let from = known(made).max(known(self.no_room));
        self.require(GatewayLaw::Patience, after(from, patience.into()) <= now, |oracle| {
            format!("{user} passed a budget early: {oracle:?} at {now}")
        });
    }

    /// Checks rule 9: no call passes for a pod that is to be asked and was not, by the answers of an earlier
    /// pod or by a count against its budget. A gateway that is `blind` does not know that a question ended.
    pub(crate) fn check_asked(&mut self, concerned: bool, blind: bool) {
        let asked = self.asked.or(self.asked_before.filter(|_| blind));
        self.require(GatewayLaw::Asked, !concerned || asked.is_some(), |oracle| {
            format!("a call passed for a pod that was not asked: {oracle:?}")
        });
    }

    /// Checks that the app is asked, for a caller who is told so. A gateway that is `blind` does not know
    /// that a question ended.
    pub(crate) fn check_waits_for_question(&mut self, blind: bool) {
        let asked = self.asked.or(self.asked_before.filter(|_| blind));
        self.require(GatewayLaw::Asked, asked.is_some(), |oracle| {
            format!("a caller waits for a question that nobody asked: {oracle:?}")
        });
    }

    /// Checks rule 11: no call passes as done while the app has time left, or while an answer of it holds.
    pub(crate) fn check_done(&mut self, registered: bool, now: DateTime<Utc>) {
        let held = self.holds(registered, now);
        self.require(GatewayLaw::Holds, held.is_none(), |_| {
            format!("a call passed while an answer holds: {held:?}")
        });
    }

    /// Checks rules 8 and 11: a budget is passed with the caller's own patience. An entry that expired has
    /// none, whether that is recorded or not: its caller stopped trying, and begins again.
    pub(crate) fn check_blocked(&mut self, user: &str, name: &str, patience: u32, now: DateTime<Utc>) {
        let own = self.entries.get(&(user.to_owned(), name.to_owned())).filter(|own| !own.has_expired(now));
        let since = own.zip(self.no_room).map(|(own, block)| block.max(own.made));
        let over = since.is_some_and(|since| after(since, patience.into()) <= now);
        self.require(GatewayLaw::Patience, over, |oracle| {
            format!("{user} passed a budget before its own patience was over: {oracle:?} at {now}")
        });
    }

    /// Checks rule 10: a caller is told that a pod is gone only where it asked for that pod and not for the
    /// present one. Its entry has that name, and had not expired at the end. The present pod may be on
    /// another node only while that node takes pods and the earlier one's does not: nobody drains it.
    pub(crate) fn check_gone(&mut self, call: &Call, name: &str, played: &Played) {
        let user = &call.user.name;
        let drained = |node| call.operation == Operation::Evict && played.is_cordoned(node);
        let told = self.before.iter().any(|earlier| {
            let own = earlier.entries.get(&(user.clone(), name.to_owned()));
            let retries = earlier
                .end
                .zip(own)
                .is_some_and(|(end, own)| played.now < after(end, RETRY_SECONDS) && !own.has_expired(end));
            let left = played.node.is_none()
                || played.node == earlier.node
                || (drained(earlier.node) && !played.is_cordoned(played.node));
            retries && left
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
