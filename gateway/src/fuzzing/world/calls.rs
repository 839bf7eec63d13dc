//! The calls of a world: what the judge decides, and what follows from it.

use evacuation_api::{CallerRow, DeadlineAction, Operation, Requester};
use evacuation_protocol::OutageCause;
use kube::ResourceExt;

use super::{
    super::{law::GatewayLaw, oracle::HOLD_SECONDS, played::after},
    GatewayFlaw, GatewayWorld,
    judging::TABLE,
    review::{Caller, Review},
};
use crate::{
    asking::AskError,
    call::Call,
    judge::{Pass, REJECTED, Unwritten, Verdict, WayOut, unwritten},
};

impl GatewayWorld {
    /// Checks a call that passes by a way out of an outage.
    fn check_way_out(&mut self, way: WayOut, leaves: bool) {
        let now = self.played.now;
        let Some(since) = self.trouble_since else {
            return self.oracle.require(GatewayLaw::Asked, false, |_| format!("{way:?} without an outage"));
        };
        // An Evacuation that no cache knows is not read.
        let is_unknown = self.watch.is_behind() && self.records(&self.played.uid()).active.is_none();
        if !self.is_blind() && !is_unknown {
            self.oracle.check_answer(self.played.registered, since, now);
        }
        match way {
            WayOut::HoldEnded(_) | WayOut::UnreadableHoldEnded => {
                let ended = self.flaw == Some(GatewayFlaw::HoldsNothing) || after(since, HOLD_SECONDS) <= now;
                self.oracle.require(GatewayLaw::Holds, ended, |_| format!("{way:?} since {since} at {now}"));
                self.oracle.passed_bound();
            }
            WayOut::Unanswered(OutageCause::Leaderless) if !leaves => self.oracle.check_question(now),
            WayOut::NobodyActs => {
                let left = leaves && self.leaderless.is_some();
                self.oracle.require(GatewayLaw::Asked, left, |_| format!("{way:?} at {now}"));
            }
            WayOut::Unanswered(_) | WayOut::Unrecorded(_) => {}
        }
        // The words of these two say that the app was asked.
        if matches!(way, WayOut::Unanswered(_) | WayOut::Unrecorded(_)) {
            self.oracle.check_asked(true, self.is_blind());
        }
    }

    /// A caller tries by a review of that form. Returns the outcome in a word.
    pub(super) fn call(&mut self, caller: usize, by_uid: bool, form: usize) -> Option<&'static str> {
        let uid = by_uid.then(|| self.played.uid());
        let pod = self.pod();
        let review = Review::of(caller, &pod, uid, form)?;
        let Caller { user, operation, is_exempt, .. } = review.caller;
        let call = review.call.clone();
        let row = TABLE.row(&call, &pod);
        let verdict = self.judge(&call);
        review.check_reply(&verdict);
        assert!(!is_exempt || verdict == Verdict::Pass(Pass::Exempt), "{call:?}: {verdict:?}");
        let outcome = word(&verdict);
        let now = self.played.now;
        match verdict {
            Verdict::Pass(pass) => {
                match pass {
                    Pass::RespondersDone => self.check_done(),
                    Pass::BlockedTooLong => {
                        let (name, patience) = (row.entry_name(), row.blocked_patience_seconds);
                        self.check_done();
                        match self.trouble_since {
                            Some(_) if self.is_blind() => {}
                            Some(since) => {
                                self.oracle.check_blocked_in_outage(user, &name, patience, since, now);
                            }
                            None => self.oracle.check_blocked(user, &name, patience, now),
                        }
                    }
                    pass => {
                        let free = match pass {
                            Pass::Exempt => is_exempt,
                            pass => pass == Pass::Unregistered && !self.is_concerned(),
                        };
                        self.oracle
                            .require(GatewayLaw::Asked, free, |_| format!("{call:?} passed as {pass:?}"));
                    }
                }
                self.passed(operation);
            }
            Verdict::Open(way) => {
                self.check_way_out(way, row.at_deadline != DeadlineAction::GiveUp);
                self.passed(operation);
            }
            Verdict::Wait(reply) if reply.code == 404 => {
                let by_name = call.uid.is_none();
                self.oracle.require(GatewayLaw::Gone, by_name, |_| format!("{call:?} names the UID"));
                self.oracle.check_gone(&call, &row.entry_name(), &self.played);
            }
            // The live pod was looked at.
            Verdict::Look => {
                self.oracle.require(GatewayLaw::Asked, false, |_| format!("{call:?}: look again"));
            }
            Verdict::Wait(reply) => {
                self.oracle.require(GatewayLaw::Gone, reply.code == 429, |_| format!("{reply:?}"));
                if self.probes.outage(now, true).is_some()
                    && let Some(since) = self.trouble()
                {
                    self.oracle.check_wait(self.lags || self.watch.is_behind(), since, now);
                }
            }
            // The eviction API evicts the pod.
            Verdict::Count { .. } if self.played.room => {
                self.check_done();
                self.replace();
            }
            // Nothing can be written. Without a record the call passes, because nobody could ask.
            Verdict::Ask { .. } | Verdict::Count { .. } if self.api_away.is_some() => {
                let asked = self.records(&self.played.uid()).active.is_some();
                if !asked && !self.is_blind() {
                    self.oracle.check_answer(self.played.registered, now, now);
                }
                self.oracle.check_known(asked, now);
            }
            Verdict::Count { entry, expired_in } | Verdict::Ask { entry, expired_in } if self.rejects => {
                self.reject(&call, row, &entry, expired_in.is_some());
            }
            Verdict::Count { entry, expired_in } | Verdict::Ask { entry, expired_in } => {
                self.ask(&call, &entry, expired_in.is_some());
            }
        }
        Some(outcome)
    }

    /// Returns true when the app of the pod is to be asked.
    fn is_concerned(&self) -> bool {
        self.played.registered || self.namespace.asks_all
    }

    /// Checks a call that passes because every responder is done.
    fn check_done(&mut self) {
        self.oracle.check_asked(self.is_concerned(), self.is_blind());
        if !self.is_blind() {
            self.oracle.check_done(self.played.registered, self.played.now);
        }
    }

    /// The call passes. An eviction stays subject to the budget.
    fn passed(&mut self, operation: Operation) {
        if operation == Operation::Delete || self.played.room {
            self.replace();
        }
    }

    /// The API rejects the entry of a call, after it took an expired one out.
    fn reject(&mut self, call: &Call, row: &CallerRow, entry: &Requester, expired: bool) {
        let active = self.records(&self.played.uid()).active;
        if expired && self.played.remove(entry) {
            self.oracle.left(entry);
        }
        let words = "spec.requesters: Invalid value".to_owned();
        let error = match self.flaw {
            Some(GatewayFlaw::TakesRejectionsForOutages) => AskError::Unavailable(words.into()),
            _ => AskError::Rejected(words),
        };
        let before = (active.as_deref(), expired);
        match unwritten(call, row, entry, before, &error, self.played.now) {
            Unwritten::Waits(reply) if reply.cause == REJECTED => {}
            Unwritten::Waits(_) => self.oracle.check_waits_for_question(self.watch.is_behind()),
            outcome @ (Unwritten::Gone | Unwritten::Unasked) => {
                self.oracle.require(GatewayLaw::Asked, false, |_| format!("{call:?}: {outcome:?}"));
            }
        }
    }

    /// Writes the entry of a call. The next try at the same moment costs no write.
    fn ask(&mut self, call: &Call, entry: &Requester, expired: bool) {
        self.played.ask(entry.clone(), expired);
        self.oracle.asked(entry, expired, self.played.now);
        self.watch.store(&self.played.stored);
        let written = self.played.active().map(|active| active.name_any());
        if let Some(name) = written.filter(|_| self.flaw != Some(GatewayFlaw::ForgetsQuestions)) {
            self.watch.note_written(&self.played.uid(), &name, self.played.now);
        }
        self.deliver();
        let again = self.judge(call);
        // While nobody acts, each deletion of a pod that is free to go is counted by itself.
        let counted = self.leaderless.is_some() && matches!(again, Verdict::Count { .. });
        // The gateway writes the same entry once in a second.
        let shared = self.watch.is_behind() && matches!(again, Verdict::Ask { .. });
        let waits = matches!(again, Verdict::Wait(_) | Verdict::Pass(_) | Verdict::Open(_));
        let free = counted || shared || waits;
        let own = entry.owner == call.user.name;
        self.oracle
            .require(GatewayLaw::Cheap, free && own, |_| format!("{call:?}: {entry:?}, then {again:?}"));
    }
}

/// Returns a verdict in a word.
fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Pass(pass) => pass.as_str(),
        Verdict::Open(way) => way.as_str(),
        Verdict::Wait(reply) if reply.code == 404 => "gone",
        Verdict::Wait(_) => "wait",
        Verdict::Ask { .. } => "ask",
        Verdict::Count { .. } => "count",
        Verdict::Look => "look",
    }
}
