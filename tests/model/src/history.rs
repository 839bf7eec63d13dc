//! The history of an Evacuation, seen from outside: its questions, answers and requesters. It is kept apart
//! from the Evacuation's own status, which is judged by it.

use std::collections::{BTreeMap, BTreeSet};

use evacuation_api::{DeadlineAction, EvacuationSpec, RefusalPolicy, Requester};
use evacuation_protocol::MIN_ENDPOINT_DELAY_SECONDS;

use crate::{
    Registered,
    config::{Entry, at, requester_name},
};

/// The history of an Evacuation, seen from outside.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct History {
    /// The history of each of its responders.
    pub(crate) responders: Vec<Heard>,
    /// The deadlines that were reached, by user; what leaves takes its own with it.
    reached: BTreeSet<(usize, DeadlineAction)>,
    /// The policy for a refusal.
    pub(crate) on_refusal: RefusalPolicy,
    /// The windows of the entries and when they wake, by user.
    windows: BTreeMap<usize, (u32, i64)>,
    /// The sleep of its requesters.
    pub(crate) sleep: Sleep,
    /// Every requester has withdrawn, and the server has confirmed it.
    pub(crate) withdrawn: bool,
    /// It failed for another reason.
    pub(crate) failed: bool,
}

/// The sleep of the requesters of an Evacuation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Sleep {
    /// A requester is awake, or every requester has given up.
    #[default]
    Awake,
    /// All sleep.
    Asleep,
    /// All sleep since an edit that the server has confirmed.
    ByEdit,
}

/// The history of a responder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Heard {
    /// The time at which it became Active.
    pub(crate) asked: Option<i64>,
    /// Its last answer that the server confirmed.
    pub(crate) said: Option<Said>,
    /// True when its part ended for a valid reason.
    pub(crate) excused: bool,
    /// For an endpoint: the time at which a question first reached it.
    pub(crate) reached: Option<i64>,
    /// For an endpoint: what became of the questions since its last answer.
    pub(crate) question: Asked,
}

/// What became of the questions to an endpoint since its last answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Asked {
    /// The time until which it may answer, as the last question that reached it says.
    pub(crate) told: Option<i64>,
    /// The time since which no question reached it, by its own fault.
    pub(crate) missed: Option<i64>,
    /// True while a controller has its reply.
    pub(crate) replied: bool,
}

/// An answer that the server confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Said {
    Accepted,
    Refused,
    /// With the end that the server granted.
    Delayed {
        until: i64,
    },
}

impl History {
    pub(crate) fn new(responders: usize) -> Self {
        Self { responders: vec![Heard::default(); responders], ..Self::default() }
    }

    /// Takes in who wants what at `now`.
    pub(crate) fn observe(&mut self, spec: &EvacuationSpec, users: usize, now: i64) {
        let entry = |user: usize| {
            let name = requester_name(user);
            spec.requesters.iter().find(move |r| r.name == name)
        };
        self.reached.retain(|(user, _)| entry(*user).is_some());
        self.on_refusal = RefusalPolicy::GiveUp;
        let (mut live, mut awake) = (false, false);
        for user in 0..users {
            let entry = entry(user);
            self.observe_window(user, entry, now);
            let Some(entry) = entry else { continue };
            let action = entry.at_deadline.unwrap_or_default();
            if entry.deadline.is_some_and(|time| time.time() <= at(now)) {
                self.reached.insert((user, action));
            }
            if self.reached.contains(&(user, DeadlineAction::GiveUp)) {
                continue;
            }
            live = true;
            if self.is_awake(user, now) {
                awake = true;
                self.on_refusal = self.on_refusal.max(entry.on_refusal.unwrap_or_default());
            }
        }
        if awake || !live {
            self.sleep = Sleep::Awake;
        } else if self.sleep == Sleep::Awake {
            self.sleep = Sleep::Asleep;
        }
    }

    fn observe_window(&mut self, user: usize, entry: Option<&Requester>, now: i64) {
        let window = entry.and_then(|e| e.window.as_ref());
        let minute = window.and_then(|w| w.schedule.split(' ').next()?.parse().ok());
        let Some(minute) = minute else {
            self.windows.remove(&user);
            return;
        };
        if self.windows.get(&user).is_none_or(|(known, _)| *known != minute) {
            self.windows.insert(user, (minute, Entry::wakes(minute, now)));
        }
    }

    fn is_awake(&self, user: usize, now: i64) -> bool {
        let by_deadline = [DeadlineAction::Evict, DeadlineAction::Delete]
            .map(|action| self.reached.contains(&(user, action)));
        by_deadline.contains(&true) || self.windows.get(&user).is_none_or(|(_, wakes)| *wakes <= now)
    }

    /// Returns true when a deadline that ends the negotiation was reached.
    pub(crate) fn is_forced(&self) -> bool {
        self.has_reached(DeadlineAction::Evict) || self.may_delete()
    }

    /// Returns true when a deadline with Delete was reached.
    pub(crate) fn may_delete(&self) -> bool {
        self.has_reached(DeadlineAction::Delete)
    }

    /// Returns true when every entry has expired.
    pub(crate) fn all_gave_up(&self, spec: &EvacuationSpec, users: usize) -> bool {
        let gave_up = |user: &usize| self.reached.contains(&(*user, DeadlineAction::GiveUp));
        (0..users).filter(gave_up).count() == spec.requesters.len()
    }

    fn has_reached(&self, action: DeadlineAction) -> bool {
        self.reached.iter().any(|(_, reached)| *reached == action)
    }

    /// Returns true when a valid reason exists at `now` to continue without that responder.
    pub(crate) fn may_pass(&self, heard: &Heard, registered: Registered, now: i64) -> bool {
        self.is_forced()
            || match heard.said {
                Some(Said::Accepted) => true,
                Some(Said::Refused) => self.on_refusal == RefusalPolicy::Override,
                Some(Said::Delayed { until }) => {
                    until <= now && (!registered.endpoint || heard.had_its_time(registered, until, now))
                }
                None if registered.endpoint => heard.had_its_time(registered, now, now),
                None => heard.asked.is_some_and(|since| since + registered.timeout <= now),
            }
    }

    /// Returns what became of the questions to each responder.
    pub(crate) fn questions(&self) -> Vec<Asked> {
        self.responders.iter().map(|heard| heard.question).collect()
    }

    /// Puts those in the place of what became of the questions.
    pub(crate) fn put_questions(&mut self, questions: &[Asked]) {
        for (heard, question) in self.responders.iter_mut().zip(questions) {
            heard.question = *question;
        }
    }

    /// The controllers lose the replies of endpoints that they have not written.
    pub(crate) fn forget_replies(&mut self) {
        for heard in &mut self.responders {
            heard.question.replied = false;
        }
    }
}

impl Heard {
    /// Returns true when an endpoint has had its time at `now`, by what it was told. `until` is the end of
    /// its last delay.
    fn had_its_time(&self, registered: Registered, until: i64, now: i64) -> bool {
        let Asked { told, missed, replied } = self.question;
        let over = match (told, missed, self.said) {
            (Some(told), ..) => told <= now,
            (None, Some(since), None) => since + registered.timeout <= now,
            (None, Some(_), Some(_)) => until <= now,
            // Nobody reminded it.
            (None, None, Some(_)) => self.reached.is_some_and(|reached| {
                until.max(reached + registered.max_delay) + MIN_ENDPOINT_DELAY_SECONDS <= now
            }),
            (None, None, None) => false,
        };
        over && !replied
    }
}
